package polite_test

import (
	"context"
	"errors"
	"math"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
)

// breaking is a client without retries whose breaker opens after so many
// failures in a row.
func breaking(base http.RoundTripper, failures int) *polite.Client {
	o := steadily(base)
	o.Retry.Disable = true
	o.Breaker.Failures = failures
	return polite.New(o)
}

// call makes one call and returns its status, or its error.
func call(ctx context.Context, c *polite.Client) (int, error) {
	resp, err := c.Get(ctx, aCoffee)
	if err != nil {
		return 0, err
	}
	resp.Body.Close()
	return resp.StatusCode, nil
}

func breakerOf(t *testing.T, c *polite.Client) polite.BreakerState {
	t.Helper()
	return statsOf(t, c.Transport()).Breaker
}

// isOpen reports whether an error is that of an open breaker.
func isOpen(err error) bool { return errors.As(err, new(*polite.CircuitOpenError)) }

// The caller's own end is neutral, by its context and
// not by the error's name.
//
// Case C073.
func TestCallersEndIsNeutral(t *testing.T) {
	errBudget := errors.New("out of budget")
	for name, bind := range map[string]func(context.Context) (context.Context, func()){
		"cancel": func(ctx context.Context) (context.Context, func()) { return context.WithCancel(ctx) },
		"cause": func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(errBudget) }
		},
		"deadline": func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			return ctx, func() { _ = cancel }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serving(t, politetest.Fail(politetest.StallHeaders).Times(20))
				c := breaking(s.Transport(), 1)
				for range 20 {
					ctx, end := bind(t.Context())
					timer := time.AfterFunc(time.Second, end)
					_, err := call(ctx, c)
					require.Error(t, err)
					timer.Stop()
				}
				assert.Equal(t, polite.BreakerClosed, breakerOf(t, c))
				assert.Equal(t, 20, s.Requests())
			})
		})
	}
}

// A refusal neither counts as a failure nor wipes the count.
//
// Case C075.
func TestRefusalLeavesTheCountOfFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(500).Times(2), politetest.Respond(429), politetest.Respond(500), politetest.Respond(200))
		c := breaking(s.Transport(), 3)
		for range 4 {
			assert.Equal(t, polite.BreakerClosed, stateOrClosed(c))
			call(t.Context(), c)
		}
		assert.Equal(t, polite.BreakerOpen, breakerOf(t, c))
	})
}

func stateOrClosed(c *polite.Client) polite.BreakerState {
	for _, s := range c.Transport().Hosts() {
		return s.Breaker
	}
	return polite.BreakerClosed
}

// A probe that ends in any way gives its slot back.
//
// Cases C075, C077.
func TestProbeThatSaysNothingGivesItsSlotBack(t *testing.T) {
	for name, probe := range map[string]func(*testing.T, *politetest.Server, *polite.Client){
		"429": func(t *testing.T, s *politetest.Server, c *polite.Client) {
			s.Script(politetest.Respond(429, "Retry-After", "1"))
			status, err := call(t.Context(), c)
			require.NoError(t, err)
			assert.Equal(t, 429, status)
		},
		"cancelled": func(t *testing.T, s *politetest.Server, c *polite.Client) {
			s.Script(politetest.Fail(politetest.StallHeaders))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := call(ctx, c)
			require.Error(t, err)
		},
		"panic": func(t *testing.T, s *politetest.Server, c *polite.Client) {
			ctx := polite.WithTrace(t.Context(), &polite.Trace{Attempt: func(polite.AttemptEvent) { panic("boom") }})
			s.Script(politetest.Respond(429))
			assert.Panics(t, func() { call(ctx, c) })
		},
		"own body fails": func(t *testing.T, s *politetest.Server, c *polite.Client) {
			req := request(t, http.MethodPut, aCoffee, "x")
			req.Body = struct {
				failing
				closer
			}{failing{errLost}, func() error { return nil }}
			req.GetBody = nil
			c.Do(req)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serving(t, politetest.Respond(500))
				c := breaking(readsBodies(s.Transport()), 1)
				call(t.Context(), c)
				time.Sleep(5 * time.Second)
				probe(t, s, c)
				assert.NotEqual(t, polite.BreakerOpen, breakerOf(t, c))
				time.Sleep(2 * time.Second)
				status, err := call(t.Context(), c)
				require.NoError(t, err, "the next call is the probe")
				assert.Equal(t, 200, status)
				assert.Equal(t, polite.BreakerClosed, breakerOf(t, c))
			})
		})
	}
}

// failing (of another file) is a reader that fails. readsBodies is a base that
// reads the request's body before anything else, as a connection does.
func readsBodies(base http.RoundTripper) http.RoundTripper {
	var bodies []string
	return recordBodies(base, &bodies)
}

// A 404 and a body that is never closed are an answer, so the probe has
// succeeded.
//
// Case C077.
func TestProbeEndsWithItsHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(500), politetest.Respond(404).WithBody("never read, never closed"))
		c := breaking(s.Transport(), 1)
		call(t.Context(), c)
		time.Sleep(5 * time.Second)
		resp, err := c.Get(t.Context(), aCoffee)
		require.NoError(t, err)
		assert.Equal(t, 404, resp.StatusCode)
		assert.Equal(t, polite.BreakerClosed, breakerOf(t, c))
		status, err := call(t.Context(), c)
		require.NoError(t, err)
		assert.Equal(t, 200, status)
		resp.Body.Close()
	})
}

// One probe at a time: the others fail at once, and are told that one is under
// way.
func TestOneProbeAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(500), politetest.Respond(200).After(time.Second))
		c := breaking(s.Transport(), 1)
		call(t.Context(), c)
		time.Sleep(5 * time.Second)
		start := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			status, err := call(t.Context(), c)
			assert.NoError(t, err)
			assert.Equal(t, 200, status)
		})
		synctest.Wait()
		for range 20 {
			_, err := call(t.Context(), c)
			var open *polite.CircuitOpenError
			require.ErrorAs(t, err, &open)
			assert.True(t, open.Until.IsZero())
			assert.ErrorContains(t, err, "probe is under way")
		}
		assert.Zero(t, time.Since(start))
		wg.Wait()
		assert.Equal(t, 2, s.Requests())
	})
}

// Failures that arrive after the opening neither open it again nor keep it
// open for longer.
//
// Case C079.
func TestStragglersDoNotKeepTheBreakerOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t)
		for i := range 5 {
			s.Script(politetest.Respond(500).After(time.Duration(i+1) * time.Second))
		}
		opened := 0
		o := steadily(s.Transport())
		o.Retry.Disable, o.Breaker.Failures = true, 3
		o.Preemptive.Disable = true // all at once, without a probe of the quota
		o.Trace = &polite.Trace{Breaker: func(e polite.BreakerEvent) {
			if e.To == polite.BreakerOpen {
				opened++
			}
		}}
		c := polite.New(o)
		start := time.Now()
		crowd(5, 5, func(int) { call(t.Context(), c) })
		assert.Equal(t, 5*time.Second, time.Since(start))
		_, err := call(t.Context(), c)
		var open *polite.CircuitOpenError
		require.ErrorAs(t, err, &open)
		assert.Equal(t, start.Add(3*time.Second+5*time.Second), open.Until)
		time.Sleep(time.Until(open.Until))
		status, err := call(t.Context(), c)
		require.NoError(t, err)
		assert.Equal(t, 200, status)
		assert.Equal(t, 1, opened)
	})
}

// A success that completes the minimum of a bad window opens it too.
//
// Case C081.
func TestRatioIsLookedAtAfterASuccessToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(500).Times(2), politetest.Respond(200))
		o := steadily(s.Transport())
		o.Retry.Disable = true
		o.Breaker = polite.BreakerOptions{Failures: -1, MinRequests: 3}
		c := polite.New(o)
		for range 3 {
			assert.Equal(t, polite.BreakerClosed, stateOrClosed(c))
			call(t.Context(), c)
		}
		assert.Equal(t, polite.BreakerOpen, breakerOf(t, c))
	})
}

// Half of twenty within ten seconds, and older ones are forgotten.
func TestRatioCountsAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t)
		o := steadily(s.Transport())
		o.Retry.Disable = true
		c := polite.New(o)
		mixed := func(n int) {
			for range n {
				s.Script(politetest.Respond(500), politetest.Respond(200))
				call(t.Context(), c)
				call(t.Context(), c)
			}
		}
		mixed(9)
		time.Sleep(11 * time.Second)
		mixed(9)
		assert.Equal(t, polite.BreakerClosed, breakerOf(t, c))
		s.Script(politetest.Respond(500), politetest.Respond(500))
		call(t.Context(), c)
		call(t.Context(), c)
		assert.Equal(t, polite.BreakerOpen, breakerOf(t, c))
	})
}

// Each host has its own.
//
// Case C083.
func TestBreakerIsPerHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.URL.Host == "bad.test" {
				return answered(req, 500, ""), nil
			}
			return answered(req, 200, ""), nil
		})
		c := breaking(base, 2)
		for range 3 {
			for _, url := range []string{"http://bad.test/", "http://good.test/", "https://bad.test:8443/"} {
				if resp, err := c.Get(t.Context(), url); err == nil {
					resp.Body.Close()
				}
			}
		}
		states := make(map[string]polite.BreakerState)
		for name, stats := range c.Transport().Hosts() {
			states[name] = stats.Breaker
		}
		assert.Equal(t, map[string]polite.BreakerState{
			"http://bad.test": polite.BreakerOpen, "http://good.test": polite.BreakerClosed, "https://bad.test:8443": polite.BreakerClosed}, states)
	})
}

// A breaker that opens during a call ends it with the answer it has, and not
// with an error in its place.
func TestBreakerThatOpensDuringACallReturnsItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(503).WithBody("busy").Times(-1))
		o := steadily(s.Transport())
		o.Breaker.Failures = 2
		c := polite.New(o)
		start := time.Now()
		resp, err := c.Get(t.Context(), aCoffee)
		require.NoError(t, err)
		e := responseError(t, resp)
		assert.Equal(t, polite.ReasonBreaker, e.Reason)
		assert.True(t, isOpen(e))
		assert.ErrorContains(t, e, "circuit breaker open")
		assert.Equal(t, "busy", readBody(t, resp))
		assert.Equal(t, time.Second, time.Since(start))
		assert.Equal(t, 2, s.Requests())
	})
}

// If the breaker opens while the call waits, its last failure is in the error.
func TestBreakerThatOpensDuringAWaitKeepsTheFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(503).Times(-1))
		o := steadily(s.Transport())
		o.Breaker.Failures = 2
		o.Breaker.OpenFor = time.Minute
		c := polite.New(o)
		var err error
		var wg sync.WaitGroup
		wg.Go(func() { _, err = c.Get(t.Context(), aCoffee) })
		synctest.Wait()
		do(t, c, request(t, http.MethodPost, aCoffee, ""))
		wg.Wait()
		var open *polite.CircuitOpenError
		require.ErrorAs(t, err, &open)
		assert.Equal(t, 1, open.Attempts)
		var e *polite.ResponseError
		require.ErrorAs(t, err, &e)
		assert.Equal(t, 503, e.StatusCode)
		assert.ErrorContains(t, err, "not sent again after 1 attempt: ")
	})
}

// An open breaker fails before any wait, and those who wait already are told.
func TestOpenBreakerEndsTheWaitForAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(500).After(time.Second))
		o := steadily(s.Transport())
		o.Retry.Disable, o.Breaker.Failures, o.Limit.MaxInFlight = true, 1, 1
		c := polite.New(o)
		start := time.Now()
		crowd(5, 5, func(i int) {
			if _, err := call(t.Context(), c); err != nil {
				assert.True(t, isOpen(err))
			}
		})
		assert.Equal(t, time.Second, time.Since(start))
		assert.Equal(t, 1, s.Requests())
	})
}

// Disable, and both grounds off, never open.
func TestBreakerSwitchedOff(t *testing.T) {
	for _, o := range []polite.BreakerOptions{{Disable: true}, {Failures: -1, Ratio: -1}} {
		synctest.Test(t, func(t *testing.T) {
			s := serving(t, politetest.Respond(500).Times(-1))
			c := polite.New(&polite.Options{Base: s.Transport(), Breaker: o})
			for range 100 {
				status, err := call(t.Context(), c)
				require.NoError(t, err)
				assert.Equal(t, 500, status)
			}
		})
	}
}

// The names of the states are for people and logs.
func TestNamesOfBreakerStates(t *testing.T) {
	assert.Equal(t, []string{"closed", "half-open", "open", "open", "closed"}, []string{
		polite.BreakerClosed.String(), polite.BreakerHalfOpen.String(), polite.BreakerOpen.String(), polite.BreakerState(9).String(), polite.BreakerState(-1).String()})
}

// An observer that takes its time delays the call; it does not make the request
// look as if it had been sent before.
func TestSlowObserverIsNotPartOfTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var took []time.Duration
		c := polite.New(&polite.Options{
			Base: roundTripper(func(req *http.Request) (*http.Response, error) {
				return answered(req, http.StatusInternalServerError, ""), nil
			}),
			Breaker: polite.BreakerOptions{Failures: 1},
			Trace: &polite.Trace{
				Breaker: func(polite.BreakerEvent) { time.Sleep(7 * time.Second) },
				Attempt: func(e polite.AttemptEvent) { took = append(took, e.Duration) },
			},
		})
		for range 3 {
			fetch(t.Context(), c, "http://api.test/")
		}
		assert.Equal(t, []time.Duration{0, 0, 0}, took)
	})
}

// A window of the breaker that never ends is a window like any other.
func TestBreakerBearsTheLongestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := roundTripper(func(req *http.Request) (*http.Response, error) { return answered(req, 503, ""), nil })
		c := polite.New(&polite.Options{Base: base, Breaker: polite.BreakerOptions{Window: math.MaxInt64}, Retry: polite.RetryOptions{Disable: true}})
		for range 5 {
			assert.Equal(t, 503, fetch(t.Context(), c, aCoffee))
		}
		assert.Zero(t, fetch(t.Context(), c, aCoffee), "the breaker is open")
	})
}
