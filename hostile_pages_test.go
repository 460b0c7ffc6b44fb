package polite_test

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
)

// Cursors that never end are followed for 10,000 pages; the walk can go on from
// there.
func TestEndlessCursorsEndWithTheDefaultBound(t *testing.T) {
	s := &pageServer{answer: func(n int, _ *http.Request) reply { return reply{body: page(nil, -1, fmt.Sprint("c", n))} }}
	pages := 0
	var stopped error
	for _, err := range pagerOf(s, polite.CursorPages{URL: pagesURL}).Pages(t.Context()) {
		if stopped = err; err == nil {
			pages++
		}
	}
	require.ErrorIs(t, stopped, polite.ErrTooManyPages)
	assert.Equal(t, 10_000, pages)
	assert.Len(t, s.asked(), 10_000)
	assert.NotEmpty(t, stop(t, stopped).Checkpoint)
}

// A total that is always some pages further is followed no longer.
func TestCollectionThatGrowsForEverEndsWithTheBound(t *testing.T) {
	for _, concurrency := range []int{1, 8} {
		synctest.Test(t, func(t *testing.T) {
			s := &pageServer{latency: time.Millisecond, answer: func(_ int, req *http.Request) reply {
				at := intParam(req, "offset")
				return reply{body: page([]int{at, at + 1}, at+100, "")}
			}}
			p := pagerOf(s, polite.OffsetPages{URL: pagesURL, Size: 2})
			p.MaxPages, p.Concurrency = 50, concurrency
			items, err := collect(p)
			require.ErrorIs(t, err, polite.ErrTooManyPages)
			assert.Equal(t, upTo(0, 100), items)
			assert.Len(t, s.asked(), 50)
		})
	}
}

// A page may be larger than the one before, but not larger than Fetch reads.
func TestPagesThatGrowEndWithTheBodysBound(t *testing.T) {
	sizes := []int{1 << 10, 1 << 20, polite.MaxFetch}
	s := &pageServer{answer: func(n int, _ *http.Request) reply {
		return reply{body: `{"items":[1],"next":"` + fmt.Sprint(n) + `"` + strings.Repeat(" ", sizes[n]) + "}"}
	}}
	items, err := collect(pagerOf(s, polite.CursorPages{URL: pagesURL}))
	var large *polite.BodyTooLargeError
	require.ErrorAs(t, err, &large)
	assert.EqualValues(t, polite.MaxFetch, large.Bound)
	assert.Len(t, items, 2)
	assert.Len(t, s.asked(), 3, "what is too large is not asked for again")
}

// A cursor or a link of up to 64 KiB is followed, and no longer one.
func TestNextBeyondItsBoundIsRefused(t *testing.T) {
	const bound = 64 << 10
	long := func(n int) string { return "/" + strings.Repeat("x", n-1) }
	inBody := func(next string) *pageServer {
		return script(reply{body: `{"items":[1],"next":"` + next + `"}`}, reply{body: `{"items":[2]}`})
	}
	inHeader := func(next string) *pageServer {
		return script(reply{body: `{"items":[1]}`, links: []string{"<" + next + ">; rel=next"}}, reply{body: `{"items":[2]}`})
	}
	for name, tc := range map[string]struct {
		server func(next string) *pageServer
		scheme polite.Scheme
		most   int
	}{
		"cursor":         {inBody, polite.CursorPages{URL: pagesURL}, 10 << 20},
		"link in a body": {inBody, polite.LinkPages{URL: pagesURL}, 1 << 20},
		"link header":    {inHeader, polite.LinkPages{URL: pagesURL}, 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			items, err := collect(pagerOf(tc.server(long(bound)), tc.scheme))
			require.NoError(t, err)
			assert.Equal(t, []int{1, 2}, items)
			for _, size := range []int{bound + 1, tc.most} {
				s := tc.server(long(size))
				items, err := collect(pagerOf(s, tc.scheme))
				require.ErrorIs(t, err, polite.ErrNextRefused)
				assert.Equal(t, []int{1}, items)
				assert.Len(t, s.asked(), 1)
				assert.Less(t, len(err.Error()), 200)
				assert.Less(t, len(stop(t, err).Checkpoint), 200)
			}
		})
	}
}

// Numbers that a collection cannot have are an error or unknown, not an overflow
// and not a loop.
func TestTotalsThatCannotBe(t *testing.T) {
	for total, want := range map[string]string{
		"-1": "", "null": "", "-0": "more items than the total", "-9e18": "not a whole number",
		"9e18": "not a whole number", "9007199254740993000": "not a whole number", "1e400": "not a whole number", "1.5": "not a whole number",
		`"NaN"`: "not a number", `"Infinity"`: "not a number", `"0x10"`: "not a number", `true`: "not a number", `[1]`: "not a number", `{}`: "not a number",
		`"` + strings.Repeat("9", 1<<20) + `"`: "not a whole number", `"` + strings.Repeat("x", 1<<20) + `"`: "not a number",
	} {
		s := script(reply{body: `{"items":[1],"total":` + total + `}`}, reply{body: `{"items":[],"total":` + total + `}`})
		items, err := collect(pagerOf(s, polite.OffsetPages{URL: pagesURL}))
		switch want {
		case "":
			require.NoError(t, err, total)
			assert.Equal(t, []int{1}, items, "until the empty page")
			assert.Len(t, s.asked(), 2)
		case "more items than the total": // nothing, it says, and yet an item came
			require.ErrorIs(t, err, polite.ErrTooManyItems)
			assert.Equal(t, []int{1}, items)
			assert.Len(t, s.asked(), 1)
		default:
			require.ErrorContains(t, err, want, "%.20s", total)
			assert.Less(t, len(err.Error()), 300)
			assert.Empty(t, items)
		}
	}
}

// The largest total is asked for page by page: the walk ends when nothing comes.
func TestLargestTotalEndsWithAnEmptyPage(t *testing.T) {
	const total = min(1<<53, math.MaxInt)
	for _, concurrency := range []int{1, 4} {
		s := &pageServer{answer: func(_ int, req *http.Request) reply {
			if at := intParam(req, "offset"); at < 10 {
				return reply{body: fmt.Sprintf(`{"items":[%d],"total":%d}`, at, total)}
			}
			return reply{body: fmt.Sprintf(`{"items":[],"total":%d}`, total)}
		}}
		p := pagerOf(s, polite.OffsetPages{URL: pagesURL, Size: 1})
		p.MaxPages, p.Concurrency = -1, concurrency
		items, err := collect(p)
		require.ErrorIs(t, err, polite.ErrIncomplete)
		assert.Equal(t, upTo(0, 10), items)
		assert.LessOrEqual(t, len(s.asked()), 10+concurrency)
	}
}

// A Decode function of one's own may report any number: the checkpoint of such
// a walk is good all the same.
func TestDecodesNumbersNeedNotBePossible(t *testing.T) {
	server := &pageServer{answer: func(n int, _ *http.Request) reply { return reply{body: fmt.Sprint("page ", n)} }}
	p := pagerOf(server, polite.NumberedPages{URL: pagesURL, Size: 1})
	p.Decode = func(*http.Response, []byte) (polite.Batch[int], error) {
		most := math.MaxInt
		return polite.Batch[int]{Items: []int{1}, Total: &most, Pages: most}, nil
	}
	p.MaxPages = 2
	_, err := collect(p)
	require.ErrorIs(t, err, polite.ErrTooManyPages)
	p.Resume = stop(t, err).Checkpoint
	items, err := collect(p)
	require.ErrorIs(t, err, polite.ErrTooManyPages)
	assert.Equal(t, []int{1, 1}, items)
}

// JSON that is odd, but JSON.
func TestOddPagesAreReadAsDocumented(t *testing.T) {
	nested := strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)
	for body, want := range map[string]string{
		`{"items":null}`:                                "",
		`{"items":[1],"items":[1]}`:                     "", // the last of two counts, as in encoding/json
		`{"items":[1],"Items":["x"],"ITEMS":7}`:         "", // names have letter case
		`{"items":[1],"next":null}`:                     "",
		`{"items":[1],"x":` + nested + `}`:              "exceeded max depth",
		`{"items":` + nested + `}`:                      "exceeded max depth",
		`{"items":[` + strings.Repeat("9", 4000) + `]}`: "cannot unmarshal number",
		"\ufeff" + `{"items":[1]}`:                      "invalid character",
		`{"items":{"0":1}}`:                             "cannot unmarshal object",
		"{\"items\":[1],\"next\":\"\xff\"}":             "again",
	} {
		s := script(reply{body: body}, reply{body: `{"items":[]}`})
		_, err := collect(pagerOf(s, polite.CursorPages{URL: pagesURL}))
		switch want {
		case "":
			assert.NoError(t, err, body)
			assert.Len(t, s.asked(), 1, body)
		case "again": // what is no UTF-8 is read as U+FFFD
			assert.NoError(t, err)
			assert.Equal(t, "\ufffd", s.values("cursor")[1])
		default:
			require.ErrorContains(t, err, want, "%.40s", body)
			assert.Less(t, len(err.Error()), 1500)
		}
	}
}

// Whatever a cursor holds, it stays one value of the query.
func TestCursorsInjectNothing(t *testing.T) {
	for _, cursor := range []string{
		"a\r\nX-Injected: 1\r\n\r\nGET /evil HTTP/1.1", "\x00", "a\x00b", "\r", "\n", "a&admin=1", "a#b", "a?b=c", "a;b=c", "%0d%0a", "../../evil", "//evil.test/", "a b", "\u2028", "ona@evil.test",
	} {
		s := script(reply{body: fmt.Sprintf(`{"items":[1],"next":%s}`, quote(cursor))}, reply{body: `{"items":[2]}`})
		items, err := collect(pagerOf(s, polite.CursorPages{URL: pagesURL + "?key=k"}))
		require.NoError(t, err)
		assert.Equal(t, []int{1, 2}, items)
		second := s.requests[1].URL
		assert.Equal(t, url.Values{"key": {"k"}, "cursor": {cursor}}, second.Query())
		assert.Equal(t, "https://api.example/v1/items", second.Scheme+"://"+second.Host+second.Path)
		for _, c := range second.String() {
			assert.True(t, c > ' ' && c < 0x7f, "%q", second.String())
		}
	}
	for _, link := range []string{"/p2\r\nX-Injected: 1", "/p2\x00", "/p\x7f2"} {
		s := script(reply{body: fmt.Sprintf(`{"items":[1],"next":%s}`, quote(link))})
		_, err := collect(pagerOf(s, polite.LinkPages{URL: pagesURL}))
		require.ErrorIs(t, err, polite.ErrNextRefused, "%q", link)
		assert.Len(t, s.asked(), 1)
	}
}

// quote is s as a JSON string.
func quote(s string) string {
	var b strings.Builder
	for _, r := range s {
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return `"` + b.String() + `"`
}

// A header that the caller took from elsewhere, key included, cannot become two:
// net/http refuses it before anything is sent.
func TestHeadersInjectNothing(t *testing.T) {
	for _, name := range []string{"Idempotency-Key", "Authorization", "X-Api-Key"} {
		for _, value := range []string{"a\r\nX-Injected: 1", "a\nb", "a\x00b", "a\rb"} {
			req := request(t, http.MethodPost, "http://127.0.0.1:1/", "x")
			req.Header.Set(name, value)
			_, err := polite.New(nil).Do(req)
			var e *polite.RetryError
			require.ErrorAs(t, err, &e)
			assert.False(t, e.Sent)
			assert.Equal(t, 1, e.Attempts)
			assert.Equal(t, polite.ReasonFinal, e.Reason)
			assert.NotContains(t, err.Error(), "a\r")
			assert.NotContains(t, err.Error(), "Injected")
		}
	}
}

// A panic of Decode in a page fetched ahead reaches the loop, with its value, and
// nothing stays behind; so does runtime.Goexit, by which a test ends itself.
func TestPanicOfDecodeReachesTheLoop(t *testing.T) {
	for _, concurrency := range []int{1, 4} {
		for _, exit := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				errOwn := errors.New("cannot be")
				s := slow(1000)
				p := slowPager(s, concurrency)
				decode := p.Decode
				p.Decode = func(resp *http.Response, body []byte) (polite.Batch[int], error) {
					batch, err := decode(resp, body)
					switch {
					case len(batch.Items) == 0 || batch.Items[0] != 30:
					case exit:
						runtime.Goexit()
					default:
						panic(errOwn)
					}
					return batch, err
				}
				var items []int
				var thrown any
				returned := false
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer func() { thrown = recover() }()
					for item, err := range p.Items(t.Context()) {
						assert.NoError(t, err)
						items = append(items, item)
					}
					returned = true
				}()
				<-done
				assert.Equal(t, upTo(0, 30), items)
				assert.False(t, returned)
				if exit {
					assert.Nil(t, thrown)
				} else {
					assert.Equal(t, errOwn, thrown)
				}
				assert.Zero(t, s.current, "requests under way")
				for _, stats := range p.Client.Transport().Hosts() {
					assert.Zero(t, stats.InFlight)
					assert.Zero(t, stats.Waiting)
				}
			})
		}
	}
}

// A panic in a page that the loop never comes to does not disturb it.
func TestPanicBehindTheLoopsEndIsNotSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := slowPager(slow(1000), 4)
		decode := p.Decode
		p.Decode = func(resp *http.Response, body []byte) (polite.Batch[int], error) {
			batch, err := decode(resp, body)
			if err == nil && batch.Items[0] == 40 {
				panic("too far")
			}
			return batch, err
		}
		n := 0
		for _, err := range p.Items(t.Context()) {
			require.NoError(t, err)
			if n++; n == 15 {
				time.Sleep(time.Second)
				break
			}
		}
		assert.Equal(t, 15, n)
	})
}

// A pointer to no scheme is no scheme.
func TestNilPointerIsNoScheme(t *testing.T) {
	for _, scheme := range []polite.Scheme{(*polite.OffsetPages)(nil), (*polite.NumberedPages)(nil), (*polite.CursorPages)(nil), (*polite.LinkPages)(nil)} {
		_, err := collect(pagerOf(rows(1, 1), scheme))
		require.ErrorIs(t, err, polite.ErrBadPager)
		assert.ErrorContains(t, err, "Scheme is nil")
	}
	items, err := collect(pagerOf(rows(1, 1), &polite.OffsetPages{URL: pagesURL}))
	require.NoError(t, err)
	assert.Equal(t, []int{0}, items)
}
