package polite_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
)

// aCoffee is a resource of the simulated server.
const aCoffee = "http://api.test/v1/cafes/caf_00001"

// roundTripper is a function as an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// serving is a server without limits that gives these replies first.
func serving(t testing.TB, replies ...politetest.Reply) *politetest.Server {
	s := politetest.Must(t, politetest.Config{Limit: politetest.Limit{N: -1}})
	s.Script(replies...)
	return s
}

// steadily are the default options with a backoff that has no jitter: 1 s, 2 s,
// 4 s.
func steadily(base http.RoundTripper) *polite.Options {
	return &polite.Options{Base: base, Retry: polite.RetryOptions{Backoff: polite.Exponential{Jitter: -1}.Delay}}
}

// request is a request with or without a body, and with headers as pairs.
func request(t testing.TB, method, url, body string, headers ...string) *http.Request {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, url, r)
	require.NoError(t, err)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return req
}

// do sends a request whose answer has to arrive, and reads its body.
func do(t testing.TB, c *polite.Client, req *http.Request) (*http.Response, string) {
	t.Helper()
	resp, err := c.Do(req)
	require.NoError(t, err)
	return resp, readBody(t, resp)
}

// readBody reads a body to its end and closes it.
func readBody(t testing.TB, resp *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return string(body)
}

// responseError is what CheckResponse says about a response that is no success.
func responseError(t testing.TB, resp *http.Response) *polite.ResponseError {
	t.Helper()
	var e *polite.ResponseError
	require.ErrorAs(t, polite.CheckResponse(resp), &e)
	return e
}

// arrivedAfter is when each request reached the server, from start.
func arrivedAfter(s *politetest.Server, start time.Time) []time.Duration {
	var after []time.Duration
	for _, a := range s.Arrivals() {
		after = append(after, a.At.Sub(start))
	}
	return after
}

// counting counts the response bodies that pass through, and those closed.
type counting struct {
	base           http.RoundTripper
	opened, closed atomic.Int64
}

func (c *counting) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := c.base.RoundTrip(req)
	if resp != nil && resp.Body != nil {
		c.opened.Add(1)
		resp.Body = &countedBody{ReadCloser: resp.Body, in: c}
	}
	return resp, err
}

// open is how many bodies nobody has closed.
func (c *counting) open() int64 { return c.opened.Load() - c.closed.Load() }

type countedBody struct {
	io.ReadCloser
	in   *counting
	done atomic.Bool
}

func (b *countedBody) Close() error {
	if !b.done.Swap(true) {
		b.in.closed.Add(1)
	}
	return b.ReadCloser.Close()
}

// answered is a response of a base transport made by hand.
func answered(req *http.Request, status int, body string, headers ...string) *http.Response {
	h := make(http.Header)
	for i := 0; i+1 < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return &http.Response{StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h, Request: req,
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}
}

// errLost is a failure of the connection after the request was sent.
var errLost = errors.New("connection lost")

// statsOf is the view of the only host.
func statsOf(t testing.TB, tr *polite.Transport) polite.HostStats {
	t.Helper()
	for _, s := range tr.Hosts() {
		return s
	}
	t.Fatal("no host is known")
	return polite.HostStats{}
}

// slowBody is a body of left bytes with a pause before each.
type slowBody struct {
	ctx   context.Context
	pause time.Duration
	left  int
}

func (b *slowBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	select {
	case <-b.ctx.Done():
		return 0, context.Cause(b.ctx)
	case <-time.After(b.pause):
		b.left--
		p[0] = '.'
		return 1, nil
	}
}

func (b *slowBody) Close() error { return nil }

// readSome reads a body as far as it goes.
func readSome(resp *http.Response) (int64, error) { return io.Copy(io.Discard, resp.Body) }
