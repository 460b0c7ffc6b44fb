// Package examples holds programs that use polite, and this test of what they
// leave behind: the library's own module takes on no further dependency for it.
package examples

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const coffee = "/v1/cafes/caf_00001"

// onLoopback plays against a server on a real port, and then finds no goroutine
// that was not there before: neither the library's nor, once its idle
// connections are closed, net/http's.
func onLoopback(t *testing.T, opts polite.Options, play func(t *testing.T, c *polite.Client, url string), replies ...politetest.Reply) {
	before := goleak.IgnoreCurrent()
	s := politetest.Must(t, politetest.Config{Limit: politetest.Limit{N: -1}})
	s.Script(replies...)
	url, stop, err := s.Listen("127.0.0.1:0")
	require.NoError(t, err)
	opts.Retry.Backoff = polite.Constant(time.Millisecond)
	c := polite.New(&opts)
	play(t, c, url)
	goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("net/http.(*conn).serve"), goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"), goleak.IgnoreAnyFunction("net/http.(*connReader).backgroundRead"),
		goleak.IgnoreAnyFunction("net/http.(*Server).Serve"))
	c.CloseIdleConnections()
	require.NoError(t, stop())
	goleak.VerifyNone(t, before)
}

func get(t *testing.T, url string) *http.Request {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	return req
}

func TestRetriesLeaveNothingBehind(t *testing.T) {
	onLoopback(t, polite.Options{}, func(t *testing.T, c *polite.Client, url string) {
		resp, err := c.Fetch(get(t, url+coffee), nil)
		require.NoError(t, err)
		assert.Equal(t, 4, polite.Attempts(resp))
	}, politetest.Respond(503), politetest.Fail(politetest.ResetAfter), politetest.Fail(politetest.TruncateBody))
}

func TestCancelledWaitsLeaveNothingBehind(t *testing.T) {
	onLoopback(t, polite.Options{}, func(t *testing.T, c *polite.Client, url string) {
		for range 2 { // a refused call, and one that finds the gate closed
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(20*time.Millisecond, cancel)
			_, err := c.Get(ctx, url+coffee)
			require.ErrorIs(t, err, context.Canceled)
		}
	}, politetest.Respond(429, "Retry-After", "50"))
}

func TestStalledBodiesLeaveNothingBehind(t *testing.T) {
	var opts polite.Options
	opts.Retry.AttemptTimeout = 50 * time.Millisecond
	onLoopback(t, opts, func(t *testing.T, c *polite.Client, url string) {
		resp, err := c.Fetch(get(t, url+coffee), nil)
		require.NoError(t, err)
		assert.Equal(t, 2, polite.Attempts(resp))
		resp, err = c.Get(t.Context(), url+coffee)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, resp.Body.Close())
	}, politetest.Fail(politetest.StallBody), politetest.Pass(), politetest.Fail(politetest.StallBody))
}

func TestUnreadResponsesLeaveNothingBehind(t *testing.T) {
	onLoopback(t, polite.Options{}, func(t *testing.T, c *polite.Client, url string) {
		for range 20 {
			resp, err := c.Get(t.Context(), url+"/v1/cafes?limit=100")
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
		}
	})
}

func TestOpenBreakerLeavesNothingBehind(t *testing.T) {
	onLoopback(t, polite.Options{Breaker: polite.BreakerOptions{Failures: 2}}, func(t *testing.T, c *polite.Client, url string) {
		_, err := c.Get(t.Context(), url+coffee)
		require.Error(t, err)
		_, err = c.Get(t.Context(), url+coffee)
		require.ErrorAs(t, err, new(*polite.CircuitOpenError))
	}, politetest.Fail(politetest.ResetAfter).Times(-1))
}

func TestPagerLeftHalfWayLeavesNothingBehind(t *testing.T) {
	onLoopback(t, polite.Options{}, func(t *testing.T, c *polite.Client, url string) {
		pager := polite.AromaPages[map[string]any](c, url+"/v1/cafes")
		pager.Concurrency = 8
		items := 0
		for _, err := range pager.Items(t.Context()) {
			require.NoError(t, err)
			if items++; items == 250 {
				break
			}
		}
		assert.Equal(t, 250, items)
	})
}
