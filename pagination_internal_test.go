package polite

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// needsRecorder answers pages of ten items and notes what each request declared.
type needsRecorder struct {
	body func(offset int) string

	mu    sync.Mutex
	needs map[int]int // by offset
}

func (r *needsRecorder) RoundTrip(req *http.Request) (*http.Response, error) {
	q := req.URL.Query()
	offset, _ := strconv.Atoi(q.Get("offset") + q.Get("cursor"))
	r.mu.Lock()
	r.needs[offset] = overridesFrom(req.Context()).Needs
	r.mu.Unlock()
	body := r.body(offset)
	return &http.Response{StatusCode: 200, Header: http.Header{}, Request: req, ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body))}, nil
}

func tenItems(offset, total int) string {
	items := make([]string, max(0, min(10, total-offset)))
	for i := range items {
		items[i] = strconv.Itoa(offset + i)
	}
	return strings.Join(items, ",")
}

func (r *needsRecorder) walk(t *testing.T, scheme Scheme, resume string, concurrency int) {
	t.Helper()
	r.needs = map[int]int{}
	p := Pager[int]{
		Client: New(&Options{Base: r}), Scheme: scheme, Resume: resume, Concurrency: concurrency,
		Decode: JSONPage[int](PageFields{Items: "items", Total: "total", Next: "next"}),
	}
	for _, err := range p.Items(t.Context()) {
		require.NoError(t, err)
	}
}

func TestPagerDeclaresHowManyPagesAreStillToCome(t *testing.T) {
	scheme := OffsetPages{URL: "https://api.example/v1", Size: 10}
	r := &needsRecorder{}
	r.body = func(offset int) string { return fmt.Sprintf(`{"items":[%s],"total":45}`, tenItems(offset, 45)) }
	for _, concurrency := range []int{1, 3} {
		r.walk(t, scheme, "", concurrency)
		assert.Equal(t, map[int]int{0: 0, 10: 4, 20: 3, 30: 2, 40: 1}, r.needs)
	}

	route, err := scheme.route()
	require.NoError(t, err)
	r.walk(t, scheme, route.checkpoint(mark{place{at: 15}, 15, 0}, 45), 1)
	assert.Equal(t, map[int]int{15: 3, 25: 2, 35: 1}, r.needs, "a checkpoint brings the total along")
}

func TestCursorPagerDeclaresItsNeedsByTheTotal(t *testing.T) {
	r := &needsRecorder{}
	r.body = func(offset int) string {
		next := strconv.Itoa(offset + 10)
		if offset == 40 {
			next = ""
		}
		return fmt.Sprintf(`{"items":[%s],"total":45,"next":%q}`, tenItems(offset, 45), next)
	}
	r.walk(t, CursorPages{URL: "https://api.example/v1"}, "", 1)
	assert.Equal(t, map[int]int{0: 0, 10: 4, 20: 3, 30: 2, 40: 1}, r.needs)
}

func TestRecentForgetsOnlyWhatIsOld(t *testing.T) {
	r := newRecent[int]()
	const added = 3*recentKeys + 7
	for i := range added {
		if !r.add(i) || len(r.now)+len(r.before) > 2*recentKeys {
			require.Fail(t, "it knows what was never added, or too much", i)
		}
	}
	for i := added - recentKeys; i < added; i++ {
		if r.add(i) {
			require.Fail(t, "it has forgotten what is recent", i)
		}
	}
}

func TestLinksOfAPageWithUserinfoDoNotInheritIt(t *testing.T) {
	r, err := LinkPages{URL: "https://api.example/v1"}.route()
	require.NoError(t, err)
	from, err := url.Parse("https://user:s3cr3t@api.example/redirected")
	require.NoError(t, err)
	next, err := r.follow(from, "?page=2")
	require.NoError(t, err)
	assert.Equal(t, "https://api.example/redirected?page=2", next.String())
}

func FuzzNextLink(f *testing.F) {
	f.Add(`<https://api.example/p?page=2&f=a,b,c>; rel="next"`)
	f.Add(`<a>;rel=next, <b>; rel="last"; title="x, \"y\" <z>"`)
	f.Add(`junk, <c>; anchor="#x"; rel=next`)
	f.Fuzz(func(t *testing.T, value string) {
		target := nextLink(http.Header{"Link": {value}})
		if target == "" {
			return
		}
		assert.NotContains(t, target, ">")
		bracketed := false
		for i := range value {
			before := strings.TrimRightFunc(value[:i], unicode.IsSpace)
			bracketed = bracketed || strings.HasPrefix(value[i:], target) && strings.HasSuffix(before, "<")
		}
		assert.True(t, bracketed, "%q stands in brackets", target)
	})
}

func FuzzAbridge(f *testing.F) {
	f.Add("a=1&page=2&key=x", "key=x&a=1")
	f.Add("&&a&&1=&%31", "1&=")
	f.Fuzz(func(t *testing.T, query, base string) {
		if strings.ContainsAny(query+base, "#") {
			return
		}
		back := strings.Split(unabridge(abridge(query, base), base), "&")
		pairs := strings.Split(query, "&")
		require.Len(t, back, len(pairs))
		for i := range pairs {
			assert.True(t, samePair(pairs[i], back[i]), "%q became %q", pairs[i], back[i])
		}
	})
}
