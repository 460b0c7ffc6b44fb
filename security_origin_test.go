package polite_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
)

// foreign are origins that look like https://a.test more or less, and are not.
var foreign = []string{
	"https://b.test/",
	"http://a.test/",           // another scheme
	"https://a.test:8443/",     // another port
	"https://sub.a.test/",      // a subdomain, which net/http takes for the same
	"https://a.test.evil.test", // a prefix
	"https://a.test@evil.test/",
	"https://a.test:443@evil.test/",
	"https://evil.test\\@a.test/",
	"//evil.test/",
	"https:\\\\evil.test/",
	"https://а.test/", // a Cyrillic а
	"https://xn--80a.test/",
	"https://a.test./", // the name with its root
	"https://[fe80::1%25eth0]/",
	"HTTPS://A.TEST:80/",
}

// home are other spellings of https://a.test, in which net/http knows it too.
var home = []string{"https://a.test/x", "HTTPS://a.test:443/x", "//a.test/x", "/x", "?page=2", "https://a.test:/x"}

// credentials are headers that no other origin may see.
var credentials = []string{
	"Authorization", "Cookie", "Proxy-Authorization", "X-Api-Key", "Apikey", "X-Auth-Token", "Private-Token", "X-Client-Secret",
	"X-Amz-Security-Token", "Ocp-Apim-Subscription-Key", "X-Session-Id", "X-Password", "X-Signature", "X-Amz-Credential",
}

// redirecting answers the first request with a redirect and the others with 200,
// and records them all.
type redirecting struct {
	to    string
	asked []*http.Request
}

func (r *redirecting) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		req.Body.Close()
	}
	r.asked = append(r.asked, req)
	if len(r.asked) == 1 {
		return answered(req, 307, "", "Location", r.to), nil
	}
	return answered(req, 200, "[1]"), nil
}

// Whatever is named like a credential stays with the origin of the first
// request; what is not, and the promise that an order is carried out once, goes
// along.
//
// Case C175.
func TestCredentialsStayWithTheirOriginInRedirects(t *testing.T) {
	for to, away := range origins() {
		s := &redirecting{to: to}
		req := request(t, http.MethodPost, "https://ona:s3cr3t@a.test/?token=s3cr3t", "x", "Accept", "text/plain", "Idempotency-Key", "order-17")
		for _, name := range credentials {
			req.Header.Set(name, "s3cr3t")
		}
		_, err := polite.New(&polite.Options{Base: s, Retry: polite.RetryOptions{Disable: true}}).Do(req)
		if len(s.asked) < 2 { // no link at all
			require.Error(t, err, to)
			assert.NotContains(t, err.Error(), "s3cr3t", to)
			continue
		}
		require.NoError(t, err, to)
		second := s.asked[1]
		assert.Equal(t, "text/plain", second.Header.Get("Accept"), to)
		assert.Equal(t, "order-17", second.Header.Get("Idempotency-Key"), to)
		if away {
			assert.NotContains(t, fmt.Sprint(second.Header), "s3cr3t", to)
			assert.Empty(t, second.Header.Get("Referer"), to)
			continue
		}
		for _, name := range credentials {
			assert.Equal(t, "s3cr3t", second.Header.Get(name), "%s %s", to, name)
		}
	}
}

// origins are all redirects, and whether they lead away from https://a.test.
func origins() map[string]bool {
	all := make(map[string]bool)
	for _, to := range foreign {
		all[to] = true
	}
	for _, to := range home {
		all[to] = false
	}
	return all
}

// The way back from another origin tells nothing of it, and the cookies of a jar
// go where they belong.
func TestRedirectBackHomeTellsNothingOfTheWay(t *testing.T) {
	h := &hops{answers: map[string][]*http.Response{
		"a.test/":     {hop(302, "https://b.test/?token=b-s3cr3t")},
		"b.test/":     {hop(302, "https://a.test/end")},
		"a.test/end":  {hop(302, "https://a.test/last?x=1")},
		"a.test/last": {hop(200, "")},
	}}
	do(t, polite.New(&polite.Options{Base: h}), request(t, http.MethodGet, "https://a.test/?token=a-s3cr3t", "", "X-Api-Key", "k"))
	require.Len(t, h.headers, 4)
	assert.Empty(t, h.headers[1].Get("Referer"))
	assert.Empty(t, h.headers[2].Get("Referer"))
	assert.Equal(t, "https://a.test/end", h.headers[3].Get("Referer"), "within an origin net/http's rule holds")
	assert.Equal(t, []string{"k", "", "k", "k"}, []string{
		h.headers[0].Get("X-Api-Key"), h.headers[1].Get("X-Api-Key"), h.headers[2].Get("X-Api-Key"), h.headers[3].Get("X-Api-Key")})
}

// A key that polite made for one origin is not shown to another one: every hop
// has its own.
func TestGeneratedKeysStayWithTheirOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := make(map[string]string) // first seen at
		for _, to := range foreign {
			s := &redirecting{to: to}
			o := steadily(s)
			o.Retry.GenerateKeys = true
			resp, err := polite.New(o).Do(request(t, http.MethodPost, "https://a.test/", "x"))
			if err == nil {
				resp.Body.Close()
			}
			for _, req := range s.asked {
				key := req.Header.Get("Idempotency-Key")
				require.NotEmpty(t, key)
				assert.NotContains(t, keys, key)
				keys[key] = to
			}
		}
	})
}

// Ten redirects are followed, as by net/http.
func TestClientStopsAfterTenRedirects(t *testing.T) {
	h := &hops{answers: map[string][]*http.Response{"a.test/": {hop(302, "/?token=s3cr3t")}}}
	_, err := polite.New(&polite.Options{Base: h}).Get(t.Context(), "https://a.test/")
	require.ErrorContains(t, err, "stopped after 10 redirects")
	assert.NotContains(t, err.Error(), "s3cr3t")
	assert.Len(t, h.asked, 10)
}

// A Pager's header, and the credentials of its URL, stay with the first page's
// origin, wherever a page is redirected.
func TestCredentialsStayWithTheirOriginInPagination(t *testing.T) {
	for to, away := range origins() {
		s := &redirecting{to: to}
		p := linkPager(s, "https://ona:s3cr3t@a.test/p1?token=s3cr3t")
		p.Header.Set("X-Anything", "s3cr3t")
		_, err := collect(p)
		if len(s.asked) < 2 {
			require.Error(t, err, to)
			assert.NotContains(t, err.Error(), "s3cr3t", to)
			continue
		}
		if away {
			assert.NotContains(t, fmt.Sprint(s.asked[1].Header), "s3cr3t", to)
			continue
		}
		require.NoError(t, err, to)
		assert.Equal(t, "s3cr3t", s.asked[1].Header.Get("X-Anything"), to)
		assert.Equal(t, "Bearer s3cr3t", s.asked[1].Header.Get("Authorization"), to)
	}
}

// A link to another origin is refused, in whatever way it is written, and
// nothing is sent there.
func TestForeignLinksAreRefusedHoweverWritten(t *testing.T) {
	for to, away := range origins() {
		s := linked("<" + to + `>; rel="next"`)
		_, err := collect(linkPager(s, "https://a.test/p1"))
		if !away {
			require.NoError(t, err, to)
			require.Len(t, s.asked(), 2)
			assert.Equal(t, "a.test", s.requests[1].URL.Host)
			continue
		}
		require.ErrorIs(t, err, polite.ErrNextRefused, to)
		assert.Len(t, s.asked(), 1, to)
	}
}

// An address with a zone is an origin as well, and the zone is a part of it.
func TestZonesOfAddressesArePartOfTheOrigin(t *testing.T) {
	for ref, same := range map[string]bool{
		"http://[fe80::1%25eth0]/p2": true, "http://[FE80::1%25eth0]:80/p2": true,
		"http://[fe80::1%25eth1]/p2": false, "http://[fe80::1]/p2": false, "http://[fe80::1%25eth0]:8080/p2": false, "http://[::1]/p2": false,
	} {
		s := linked("<" + ref + `>; rel="next"`)
		_, err := collect(linkPager(s, "http://[fe80::1%25eth0]/p1"))
		if same {
			require.NoError(t, err, ref)
			continue
		}
		require.ErrorIs(t, err, polite.ErrNextRefused, ref)
	}
}

// A letter that only looks like another, or folds to it, leads nowhere else: what
// counts as the same origin is sent to the first page's own spelling.
func TestLinksHomeUseTheFirstPagesSpelling(t *testing.T) {
	s := linked("<https://api.boo\u212a.test/p2>; rel=\"next\"") // the Kelvin sign, lower case k
	_, err := collect(linkPager(s, "https://api.book.test/p1"))
	require.NoError(t, err)
	assert.Equal(t, "https://api.book.test/p2", s.asked()[1])
}

// An allowed origin is one origin, not a family.
func TestAllowedOriginIsExact(t *testing.T) {
	for ref, allowed := range map[string]bool{
		"https://b.test/p2": true, "https://B.TEST:443/p2": true,
		"http://b.test/p2": false, "https://b.test:444/p2": false, "https://x.b.test/p2": false, "https://b.test.evil/p2": false, "https://u@b.test/p2": false,
	} {
		s := linked("<" + ref + `>; rel="next"`)
		p := linkPager(s, "https://a.test/p1")
		p.AllowOrigins = []string{"https://b.test"}
		_, err := collect(p)
		if allowed {
			require.NoError(t, err, ref)
			assert.NotContains(t, fmt.Sprint(s.requests[1].Header), "s3cr3t")
			continue
		}
		require.ErrorIs(t, err, polite.ErrNextRefused, ref)
		assert.Len(t, s.asked(), 1)
	}
}

// A Referer of the caller's own, which net/http repeats at every step, is told to
// no other origin, not even by the second of two steps there.
func TestOwnRefererStaysWithItsOriginInRedirects(t *testing.T) {
	h := &hops{answers: map[string][]*http.Response{
		"a.test/":    {hop(302, "https://a.test/1")},
		"a.test/1":   {hop(302, "https://b.test/2")},
		"b.test/2":   {hop(302, "https://b.test/3")},
		"b.test/3":   {hop(302, "https://a.test/end")},
		"a.test/end": {hop(200, "")},
	}}
	own := "https://a.test/?token=s3cr3t"
	do(t, polite.New(&polite.Options{Base: h}), request(t, http.MethodGet, "https://a.test/", "", "Referer", own))
	var told []string
	for _, header := range h.headers {
		told = append(told, header.Get("Referer"))
	}
	assert.Equal(t, []string{own, own, "", "", ""}, told)
}
