package polite_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
)

// hops answers by path and notes what it was asked.
type hops struct {
	answers map[string][]*http.Response // by host and path, in order; the last one stays
	asked   []string
	headers []http.Header
}

func (h *hops) RoundTrip(req *http.Request) (*http.Response, error) {
	body := ""
	if req.Body != nil && req.Body != http.NoBody {
		body = " with body"
		req.Body.Close()
	}
	h.asked = append(h.asked, req.Method+" "+req.URL.Host+req.URL.Path+body)
	h.headers = append(h.headers, req.Header.Clone())
	at := req.URL.Host + req.URL.Path
	answers := h.answers[at]
	if len(answers) > 1 {
		h.answers[at] = answers[1:]
	}
	resp := answers[0]
	resp.Request = req
	return resp, nil
}

func hop(status int, location string) *http.Response {
	if location == "" {
		return answered(nil, status, "")
	}
	return answered(nil, status, "", "Location", location)
}

// What became a GET stays one, on every hop and every attempt.
//
// Case C177.
func TestRedirectedPostStaysABareGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hops{answers: map[string][]*http.Response{
			"a.test/":  {hop(302, "/a")},
			"a.test/a": {hop(307, "/b")},
			"a.test/b": {hop(503, ""), hop(200, "")},
		}}
		resp, _ := do(t, polite.New(steadily(h)), request(t, http.MethodPost, "http://a.test/", "the body", "Content-Type", "text/plain"))
		assert.Equal(t, 200, resp.StatusCode)
		assert.Equal(t, []string{"POST a.test/ with body", "GET a.test/a", "GET a.test/b", "GET a.test/b"}, h.asked)
		for _, header := range h.headers[1:] {
			assert.Empty(t, header.Get("Content-Type"))
		}
	})
}

// A 307 keeps the method and the body, and each hop is a call of its own.
func TestRedirectThatKeepsTheMethodKeepsTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hops{answers: map[string][]*http.Response{
			"a.test/":  {hop(503, ""), hop(307, "/b")},
			"a.test/b": {hop(503, ""), hop(200, "")},
		}}
		resp, _ := do(t, polite.New(steadily(h)), request(t, http.MethodPut, "http://a.test/", "the body"))
		assert.Equal(t, 200, resp.StatusCode)
		assert.Equal(t, 2, polite.Attempts(resp), "of the last hop")
		assert.Equal(t, []string{"PUT a.test/ with body", "PUT a.test/ with body", "PUT a.test/b with body", "PUT a.test/b with body"}, h.asked)
	})
}

// Hosts on the way are told apart, and Fetch follows too.
func TestFetchFollowsRedirects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hops{answers: map[string][]*http.Response{
			"a.test/":  {hop(302, "http://b.test/x")},
			"b.test/x": {answered(nil, 200, `[1,2]`)},
		}}
		c := polite.New(steadily(h))
		var got []int
		resp, err := c.Fetch(request(t, http.MethodGet, "http://a.test/", ""), polite.JSON(&got))
		require.NoError(t, err)
		assert.Equal(t, []int{1, 2}, got)
		assert.Equal(t, "b.test", resp.Request.URL.Host)
		var hosts []string
		for name, stats := range c.Transport().Hosts() {
			hosts = append(hosts, name)
			assert.Zero(t, stats.InFlight)
		}
		assert.Equal(t, []string{"http://b.test", "http://a.test"}, hosts)
	})
}

// A redirect that is not followed is a response like any other.
func TestRedirectThatIsNotFollowedIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := polite.New(steadily(&hops{answers: map[string][]*http.Response{"a.test/": {hop(302, "/b")}}}))
		c.HTTPClient().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		resp, _ := do(t, c, request(t, http.MethodGet, "http://a.test/", ""))
		assert.Equal(t, 302, resp.StatusCode)
		assert.Equal(t, 302, responseError(t, resp).StatusCode)
	})
}

// A server may redirect to names that fill the memory of hosts; nothing is kept
// of one that is longer than any.
func TestRedirectToAnEndlessNameIsRefused(t *testing.T) {
	name := strings.Repeat("x", 1<<20) + ".test"
	h := &hops{answers: map[string][]*http.Response{"a.test/": {hop(302, "https://"+name+"/")}}}
	c := polite.New(&polite.Options{Base: h})
	_, err := c.Get(t.Context(), "https://a.test/")
	require.ErrorContains(t, err, "more than 1000 bytes of scheme and host")
	assert.Less(t, len(err.Error()), 2000)
	assert.Equal(t, []string{"https://a.test"}, slices.Collect(hostNames(c.Transport())))
}
