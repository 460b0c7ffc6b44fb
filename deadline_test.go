package polite_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
)

// A delay that would pass the call's time is not begun, whichever
// bound it is; the answer comes back at once with the reason.
//
// Cases C031, C033.
func TestDelayBeyondTheCallsTimeReturnsTheAnswerAtOnce(t *testing.T) {
	for _, hint := range []string{"", "600"} {
		for bound, bind := range map[string]func(context.Context) (context.Context, context.CancelFunc){
			"deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, 5*time.Minute)
			},
			"Retry.MaxElapsed": func(ctx context.Context) (context.Context, context.CancelFunc) {
				return polite.WithOverrides(ctx, polite.Overrides{MaxElapsed: 5 * time.Minute}), func() {}
			},
			"Retry.MaxWait": func(ctx context.Context) (context.Context, context.CancelFunc) {
				return polite.WithOverrides(ctx, polite.Overrides{MaxWait: 5 * time.Minute, MaxElapsed: -1}), func() {}
			},
		} {
			t.Run(bound+hint, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					headers := []string{}
					if hint != "" {
						headers = []string{"Retry-After", hint}
					}
					s := serving(t, politetest.Respond(503, headers...).WithBody("busy").Times(-1))
					o := steadily(s.Transport())
					o.Retry.Backoff, o.Retry.MaxWait, o.Retry.MaxElapsed = polite.Constant(10*time.Minute), -1, -1
					ctx, cancel := bind(t.Context())
					defer cancel()
					start := time.Now()
					resp, err := polite.New(o).Get(ctx, aCoffee)
					require.NoError(t, err)
					assert.Zero(t, time.Since(start))
					e := responseError(t, resp)
					assert.ErrorIs(t, e, context.DeadlineExceeded)
					var wait *polite.WaitError
					require.ErrorAs(t, e, &wait)
					assert.Equal(t, bound, wait.Bound)
					assert.Equal(t, start.Add(10*time.Minute), wait.Until)
					reason := polite.ReasonTime
					if bound == "Retry.MaxWait" {
						reason = polite.ReasonMaxWait
					}
					assert.Equal(t, reason, e.Reason)
					assert.Equal(t, "busy", readBody(t, resp))
					assert.Equal(t, 1, s.Requests())
				})
			})
		}
	}
}

// Without an answer both the bound and the failure are in the error.
//
// Case C033.
func TestDelayBeyondTheCallsTimeKeepsTheFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := steadily(roundTripper(func(*http.Request) (*http.Response, error) { return nil, errLost }))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second-1)
		defer cancel()
		start := time.Now()
		_, err := polite.New(o).Get(ctx, aCoffee)
		assert.Zero(t, time.Since(start))
		assert.ErrorIs(t, err, errLost)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		var e *polite.RetryError
		require.ErrorAs(t, err, &e)
		assert.Equal(t, polite.ReasonTime, e.Reason)
		assert.Equal(t, 1, e.Attempts)
	})
}

// A delay that ends with the deadline itself is made.
func TestDelayThatEndsInTimeIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(503))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second+1)
		defer cancel()
		resp, err := polite.New(steadily(s.Transport())).Get(ctx, aCoffee)
		require.NoError(t, err)
		assert.Equal(t, 2, polite.Attempts(resp))
		readBody(t, resp)
	})
}

// What the client's own limit cannot admit in time fails at once, says
// whose limit it is, and is no failure of the host.
//
// Case C035.
func TestOwnLimitThatCannotAdmitInTimeFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t)
		o := steadily(s.Transport())
		o.Limit.Rates = []polite.Rate{{N: 1, Per: 10 * time.Second}}
		o.Breaker.Failures = 1
		c := polite.New(o)
		do(t, c, request(t, http.MethodGet, aCoffee, ""))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := c.Get(ctx, aCoffee)
		var wait *polite.WaitError
		require.ErrorAs(t, err, &wait)
		assert.Equal(t, polite.ReasonRate, wait.Reason)
		assert.Equal(t, start.Add(10*time.Second), wait.Until)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "client's own rate limit")
		assert.Zero(t, time.Since(start))
		assert.Equal(t, 1, s.Requests())
		stats := statsOf(t, c.Transport())
		assert.Equal(t, polite.BreakerClosed, stats.Breaker)
		assert.Zero(t, stats.Waiting)
	})
}

// MaxElapsed bounds the whole call, its first attempt included.
//
// Case C037.
func TestMaxElapsedBoundsTheFirstAttemptToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(503).After(2*time.Second), politetest.Respond(200))
		ctx := polite.WithOverrides(t.Context(), polite.Overrides{MaxElapsed: time.Second})
		start := time.Now()
		_, err := polite.New(steadily(s.Transport())).Get(ctx, aCoffee)
		var timeout *polite.AttemptTimeoutError
		require.ErrorAs(t, err, &timeout)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(start))
		assert.Equal(t, 1, s.Requests())
	})
}

// The caller's own deadline is not a failure of the server.
//
// Case C041.
func TestCallersDeadlineIsPlainAndFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Fail(politetest.StallHeaders).Times(-1))
		o := steadily(s.Transport())
		o.Breaker.Failures = 1
		tr := polite.NewTransport(o)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err := tr.RoundTrip(request(t, http.MethodGet, aCoffee, "").WithContext(ctx))
		assert.Equal(t, context.DeadlineExceeded, err)
		assert.Equal(t, 100*time.Millisecond, time.Since(start))
		assert.Equal(t, 1, s.Requests())
		assert.Equal(t, polite.BreakerClosed, statsOf(t, tr).Breaker)
	})
}

// Each attempt's time is its own.
//
// Case C197.
func TestAttemptTimeoutBeginsAnewWithEachAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(200).After(2*time.Second), politetest.Respond(200).After(900*time.Millisecond))
		o := steadily(s.Transport())
		o.Retry.AttemptTimeout = time.Second
		start := time.Now()
		resp, _ := do(t, polite.New(o), request(t, http.MethodGet, aCoffee, ""))
		assert.Equal(t, 2, polite.Attempts(resp))
		assert.Equal(t, 2900*time.Millisecond, time.Since(start))
	})
}

// The time of each call is its own, shorter or longer than that of those before,
// however soon it follows them.
func TestTimeOutOfACallDoesNotDependOnTheCallsBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stall := politetest.Fail(politetest.StallHeaders)
		s := serving(t, politetest.Respond(200), stall, politetest.Respond(200).After(29*time.Second), stall, stall, politetest.Respond(200).After(30*time.Second-1))
		o := steadily(s.Transport())
		o.Retry.MaxAttempts = 1
		c := polite.New(o)
		for i, call := range []struct{ own, took time.Duration }{
			{0, 0},
			{0, 30 * time.Second},
			{0, 29 * time.Second},
			{5 * time.Second, 5 * time.Second},
			{time.Minute, time.Minute},
			{0, 30*time.Second - 1},
		} {
			time.Sleep(20 * time.Second)
			start := time.Now()
			resp, err := c.Get(polite.WithOverrides(t.Context(), polite.Overrides{AttemptTimeout: call.own}), aCoffee)
			assert.Equal(t, call.took, time.Since(start), i)
			if err == nil {
				readBody(t, resp)
				continue
			}
			var timeout *polite.AttemptTimeoutError
			require.ErrorAs(t, err, &timeout)
			assert.Equal(t, call.took, timeout.After, i)
		}
		assert.Equal(t, 6, s.Requests())
	})
}

// AttemptTimeout ends with the headers; a long body is bounded by pauses,
// not by its length.
//
// Case C195.
func TestLongBodyIsReadBeyondTheAttemptTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := roundTripper(func(req *http.Request) (*http.Response, error) {
			resp := answered(req, 200, "")
			resp.ContentLength, resp.Body = -1, &slowBody{ctx: req.Context(), pause: 29 * time.Second, left: 100}
			return resp, nil
		})
		start := time.Now()
		_, body := do(t, polite.New(steadily(base)), request(t, http.MethodGet, aCoffee, ""))
		assert.Len(t, body, 100)
		assert.Equal(t, 100*29*time.Second, time.Since(start))
	})
}

// A body that pauses longer than AttemptTimeout ends with that error.
func TestStalledBodyEndsAfterTheAttemptTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Fail(politetest.StallBody))
		c := polite.New(steadily(s.Transport()))
		resp, err := c.Get(t.Context(), aCoffee)
		require.NoError(t, err)
		time.Sleep(time.Hour) // nobody reads: the server is not to blame
		start := time.Now()
		n, err := readSome(resp)
		assert.Positive(t, n)
		var timeout *polite.AttemptTimeoutError
		require.ErrorAs(t, err, &timeout)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 30*time.Second, time.Since(start))
		assert.Zero(t, statsOf(t, c.Transport()).InFlight)
		require.NoError(t, resp.Body.Close())
	})
}

// Negative bounds are none.
func TestNegativeBoundsAreNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(503, "Retry-After", "7200").After(time.Hour))
		o := steadily(s.Transport())
		o.Retry.MaxElapsed, o.Retry.MaxWait, o.Retry.AttemptTimeout, o.Limit.MaxWait = -1, -1, -1, -1
		start := time.Now()
		resp, _ := do(t, polite.New(o), request(t, http.MethodGet, aCoffee, ""))
		assert.Equal(t, 200, resp.StatusCode)
		assert.GreaterOrEqual(t, time.Since(start), 3*time.Hour)
	})
}

// A failure of its own that meets the end of the context hides neither.
func TestFailureAtTheContextsEndTellsBoth(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	lost := errors.New("connection lost")
	client := polite.New(&polite.Options{Base: roundTripper(func(*http.Request) (*http.Response, error) {
		cancel()
		return nil, lost
	})})
	_, err := client.Get(ctx, aCoffee)
	require.ErrorIs(t, err, lost)
	require.ErrorIs(t, err, context.Canceled)
	var failed *polite.RetryError
	require.ErrorAs(t, err, &failed)
	require.True(t, failed.Sent)
}

// A call that is waiting when somebody else is told to wait too long ends when
// its turn comes, with what it met itself.
func TestAdmissionThatComesTooLateTellsTheLastResult(t *testing.T) {
	for name, first := range map[string]politetest.Reply{"answer": politetest.Respond(503), "failure": politetest.Fail(politetest.ResetAfter)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serving(t, first, politetest.Respond(503, "Retry-After", "3600"))
				c := polite.New(steadily(s.Transport()))
				start := time.Now()
				ended := make(chan error)
				go func() {
					_, err := c.Get(t.Context(), aCoffee)
					assert.Equal(t, time.Second, time.Since(start), "at the end of its backoff")
					ended <- err
				}()
				synctest.Wait()
				fetch(t.Context(), c, aCoffee)
				err := <-ended
				var wait *polite.WaitError
				require.ErrorAs(t, err, &wait)
				assert.Equal(t, polite.ReasonRetryAfter, wait.Reason)
				assert.Equal(t, 1, wait.Attempts)
				assert.False(t, wait.Until.Before(start.Add(time.Hour)))
				if name == "answer" {
					var last *polite.ResponseError
					require.ErrorAs(t, err, &last)
					assert.Equal(t, 503, last.StatusCode)
				} else {
					assert.ErrorIs(t, err, syscall.ECONNRESET)
				}
				assert.Equal(t, 2, s.Requests())
			})
		})
	}
}

// Whichever bound is the nearer one, the error has the same shape: the reason,
// that time was the bound, and the last failure.
//
// Case C033.
func TestBothBoundsOfACallFailAlike(t *testing.T) {
	for name, within := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx = polite.WithOverrides(ctx, polite.Overrides{MaxElapsed: -1})
			return context.WithTimeout(ctx, time.Second)
		},
		"Retry.MaxElapsed": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return polite.WithOverrides(ctx, polite.Overrides{MaxElapsed: time.Second}), func() {}
		},
	} {
		for _, lost := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, lost %t", name, lost), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sent := 0
					o := steadily(roundTripper(func(req *http.Request) (*http.Response, error) {
						if sent++; lost {
							return nil, errLost
						}
						return answered(req, 503, ""), nil
					}))
					o.Retry.Backoff = polite.Constant(400 * time.Millisecond)
					o.Retry.MaxAttempts = 100
					ctx, cancel := within(t.Context())
					defer cancel()
					start := time.Now()
					resp, err := polite.New(o).Get(ctx, aCoffee)
					assert.Equal(t, 800*time.Millisecond, time.Since(start), "the fourth would be too late")
					assert.Equal(t, 3, sent)
					var reason polite.Reason
					if lost {
						var e *polite.RetryError
						require.ErrorAs(t, err, &e)
						assert.ErrorIs(t, err, errLost)
						reason = e.Reason
					} else {
						require.NoError(t, err)
						e := responseError(t, resp)
						assert.Equal(t, 503, e.StatusCode)
						reason, err = e.Reason, e
					}
					assert.Equal(t, polite.ReasonTime, reason)
					assert.ErrorIs(t, err, context.DeadlineExceeded)
					var wait *polite.WaitError
					require.ErrorAs(t, err, &wait)
					assert.Equal(t, name, wait.Bound)
				})
			})
		}
	}
}
