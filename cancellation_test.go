package polite_test

import (
	"context"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
)

// Cancellation ends at once what else a call may wait for, and the next one is
// served as if it had not been there.
func TestCancelledWaitIsAsIfItHadNotBeen(t *testing.T) {
	quota := func(limit, left int) politetest.Reply {
		return politetest.Respond(200, "X-RateLimit-Limit", strconv.Itoa(limit), "X-RateLimit-Remaining", strconv.Itoa(left), "X-RateLimit-Reset", "60")
	}
	for _, tc := range []struct {
		reason  polite.Reason
		replies []politetest.Reply
		options func(*polite.Options)
		before  func(*testing.T, *polite.Client)
	}{
		{reason: polite.ReasonProbe, replies: []politetest.Reply{quota(100, 99).After(900 * time.Millisecond)}, before: func(t *testing.T, c *polite.Client) { go fetch(t.Context(), c, aCoffee) }},
		{reason: polite.ReasonQuota, replies: []politetest.Reply{quota(1, 0)}},
		{reason: polite.ReasonBrake, replies: []politetest.Reply{quota(100, 5)}},
		{reason: polite.ReasonRate, options: func(o *polite.Options) { o.Limit.Rates = []polite.Rate{polite.PerMinute(6)} }},
		{reason: polite.ReasonInFlight, options: func(o *polite.Options) { o.Limit.MaxInFlight = 1 }, before: func(t *testing.T, c *polite.Client) {
			held, err := c.Get(t.Context(), aCoffee)
			require.NoError(t, err)
			time.AfterFunc(3*time.Second, func() { held.Body.Close() })
		}},
	} {
		t.Run(tc.reason.String(), func(t *testing.T) {
			served := make(map[bool]time.Duration)
			for _, disturbed := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					s := serving(t, tc.replies...)
					o := steadily(s.Transport())
					if tc.options != nil {
						tc.options(o)
					}
					c := polite.New(o)
					if tc.before != nil {
						tc.before(t, c)
					} else {
						do(t, c, request(t, http.MethodGet, aCoffee, ""))
					}
					synctest.Wait()
					start := time.Now()
					if disturbed {
						var reason polite.Reason
						ctx, cancel := context.WithCancel(polite.WithTrace(t.Context(), &polite.Trace{Wait: func(e polite.WaitEvent) { reason = e.Reason }}))
						time.AfterFunc(500*time.Millisecond, cancel)
						_, err := c.Get(ctx, aCoffee)
						assert.ErrorIs(t, err, context.Canceled)
						assert.Equal(t, 500*time.Millisecond, time.Since(start))
						assert.Equal(t, tc.reason, reason)
					}
					time.Sleep(500*time.Millisecond - time.Since(start))
					do(t, c, request(t, http.MethodGet, aCoffee, ""))
					served[disturbed] = time.Since(start)
					synctest.Wait()
					assert.Empty(t, polite.StillTaken(c.Transport()))
				})
			}
			assert.Greater(t, served[false], 500*time.Millisecond, "it waited")
			assert.Equal(t, served[false], served[true])
		})
	}
}

// Who stands behind a call that is cancelled goes as soon as it can itself.
func TestCancelledWaitGivesItsPlaceToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t)
		o := steadily(s.Transport())
		o.Limit.Rates = []polite.Rate{{N: 6, Per: time.Minute, Burst: 4}}
		c := polite.New(o)
		do(t, c, request(t, http.MethodGet, aCoffee, ""))
		start := time.Now()
		ctx, cancel := context.WithCancel(polite.WithOverrides(t.Context(), polite.Overrides{Cost: 4}))
		time.AfterFunc(7*time.Second, cancel)
		go c.Get(ctx, aCoffee)
		synctest.Wait()
		do(t, c, request(t, http.MethodGet, aCoffee, ""))
		assert.Equal(t, 7*time.Second, time.Since(start))
		assert.Equal(t, 2, s.Requests())
		start = time.Now()
		crowd(2, 2, func(int) { do(t, c, request(t, http.MethodGet, aCoffee, "")) })
		assert.Zero(t, time.Since(start), "and all units are there")
	})
}

// A request that goes ahead alone, for the breaker or for a quota that nobody
// knows, gives its slot back in the instant in which it is cancelled.
func TestCancelledProbeGivesItsSlotToTheNext(t *testing.T) {
	for _, broken := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := serving(t)
			o := steadily(s.Transport())
			o.Breaker.Failures = 1
			c := polite.New(o)
			if broken {
				s.Script(politetest.Respond(500))
				fetch(t.Context(), c, aCoffee)
				time.Sleep(5 * time.Second)
			}
			s.Script(politetest.Fail(politetest.StallHeaders))
			start := time.Now()
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(300*time.Millisecond, cancel)
			go c.Get(ctx, aCoffee)
			synctest.Wait()
			if broken {
				_, err := c.Get(t.Context(), aCoffee)
				require.ErrorAs(t, err, new(*polite.CircuitOpenError), "the probe is under way")
				time.Sleep(300 * time.Millisecond)
				synctest.Wait()
			}
			do(t, c, request(t, http.MethodGet, aCoffee, ""))
			assert.Equal(t, 300*time.Millisecond, time.Since(start))
			assert.Equal(t, polite.BreakerClosed, statsOf(t, c.Transport()).Breaker)
			synctest.Wait()
			assert.Empty(t, polite.StillTaken(c.Transport()))
		})
	}
}
