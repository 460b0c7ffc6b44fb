package polite_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
)

// The duties of a polite client, one test each, at exact instants.

// Duty 1: repeat only what is safe, or carries an Idempotency-Key.
func TestRetriesOnlyWhatIsSafeToRepeat(t *testing.T) {
	for _, tc := range []struct {
		method, key string
		want        int
	}{
		{http.MethodGet, "", 2}, {http.MethodHead, "", 2}, {http.MethodPut, "", 2}, {http.MethodDelete, "", 2},
		{http.MethodOptions, "", 2}, {http.MethodTrace, "", 2},
		{http.MethodPost, "", 1}, {http.MethodPatch, "", 1}, {"LINK", "", 1}, {"get", "", 1},
		{http.MethodPost, "k-1", 2}, {http.MethodPatch, "k-1", 2},
	} {
		t.Run(tc.method+tc.key, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serving(t, politetest.Respond(503), politetest.Respond(200))
				req := request(t, tc.method, aCoffee, "")
				if tc.key != "" {
					req.Header.Set("Idempotency-Key", tc.key)
				}
				resp, err := polite.New(steadily(s.Transport())).Do(req)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				assert.Equal(t, tc.want, s.Requests())
				for _, a := range s.Arrivals() {
					assert.Equal(t, tc.key, a.IdempotencyKey)
				}
			})
		})
	}
}

// Duty 2: repeat after 429, 502, 503, 504 and lost connections only.
func TestRetriesOnlyRefusalsAndFailures(t *testing.T) {
	for status := 200; status < 600; status++ {
		if http.StatusText(status) == "" {
			continue
		}
		want := 1
		switch status {
		case 429, 502, 503, 504:
			want = 2
		}
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serving(t, politetest.Respond(status), politetest.Respond(200))
				resp, _ := do(t, polite.New(steadily(s.Transport())), request(t, http.MethodGet, aCoffee, ""))
				assert.Equal(t, want, s.Requests())
				assert.Equal(t, want, polite.Attempts(resp))
				if want == 1 {
					assert.Equal(t, status, resp.StatusCode)
				}
			})
		})
	}
	for _, fault := range []politetest.Fault{politetest.Refuse, politetest.ResetBefore, politetest.ResetAfter, politetest.StallHeaders} {
		t.Run(fault.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serving(t, politetest.Fail(fault))
				resp, _ := do(t, polite.New(steadily(s.Transport())), request(t, http.MethodGet, aCoffee, ""))
				assert.Equal(t, 200, resp.StatusCode)
				assert.Equal(t, 2, polite.Attempts(resp))
			})
		})
	}
}

// Duty 3: never earlier than the server said, at most a fifth later, and not
// all clients at the same instant.
func TestRetryWaitsAtLeastRetryAfterAndAtMostAFifthMore(t *testing.T) {
	for _, status := range []int{429, 503} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				distinct := make(map[time.Duration]bool)
				for range 20 {
					s := serving(t, politetest.Respond(status, "Retry-After", "37"))
					start := time.Now()
					do(t, polite.New(&polite.Options{Base: s.Transport()}), request(t, http.MethodGet, aCoffee, ""))
					at := arrivedAfter(s, start)
					require.Len(t, at, 2)
					assert.GreaterOrEqual(t, at[1], 37*time.Second)
					assert.LessOrEqual(t, at[1], 37*time.Second*6/5)
					distinct[at[1]] = true
				}
				assert.Greater(t, len(distinct), 15, "clients that were refused together return apart")
			})
		})
	}
}

// Duty 4: exponential backoff where the server says nothing.
func TestBackoffDoublesFromOneSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(503).Times(-1))
		start := time.Now()
		do(t, polite.New(steadily(s.Transport())), request(t, http.MethodGet, aCoffee, ""))
		assert.Equal(t, []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second}, arrivedAfter(s, start))
	})
}

// Duty 4, the randomness: a factor of 0.5 to 1.5, and 60 s at most.
func TestDefaultBackoffSpreadsByHalfAndEndsAtAMinute(t *testing.T) {
	backoff := polite.Exponential{}.Delay
	for failed := 1; failed <= 70; failed++ {
		undisturbed := min(time.Second<<min(failed-1, 20), 40*time.Second)
		low, high := time.Hour, time.Duration(0)
		for range 400 {
			d := backoff(failed)
			low, high = min(low, d), max(high, d)
		}
		assert.GreaterOrEqual(t, low, undisturbed/2)
		assert.LessOrEqual(t, high, undisturbed*3/2)
		assert.LessOrEqual(t, high, time.Minute)
		assert.Greater(t, high-low, undisturbed/2, "the delays after %d failures are spread", failed)
	}
}

// Duty 5: four attempts, no more.
func TestCallEndsAfterFourAttempts(t *testing.T) {
	for _, reply := range []politetest.Reply{politetest.Respond(429), politetest.Respond(503, "Retry-After", "1"), politetest.Fail(politetest.ResetAfter)} {
		synctest.Test(t, func(t *testing.T) {
			s := serving(t, reply.Times(-1))
			resp, err := polite.New(&polite.Options{Base: s.Transport()}).Get(t.Context(), aCoffee)
			if err == nil {
				require.NoError(t, resp.Body.Close())
				assert.Equal(t, polite.ReasonAttempts, responseError(t, resp).Reason)
			} else {
				var e *polite.RetryError
				require.ErrorAs(t, err, &e)
				assert.Equal(t, polite.ReasonAttempts, e.Reason)
				assert.Equal(t, 4, e.Attempts)
			}
			assert.Equal(t, 4, s.Requests())
		})
	}
}

// Duty 6: the last answer comes back as it is.
func TestLastFailureIsReturnedWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(503).Times(3), politetest.Respond(503, "X-Mark", "the last").WithBody(`{"error":{"codi":"servei_no_disponible"}}`))
		resp, err := polite.New(steadily(s.Transport())).Get(t.Context(), aCoffee)
		require.NoError(t, err)
		e := responseError(t, resp)
		assert.Equal(t, 4, e.Attempts)
		assert.Equal(t, "servei_no_disponible", e.Code)
		assert.Equal(t, 503, resp.StatusCode)
		assert.Equal(t, "the last", resp.Header.Get("X-Mark"))
		assert.Equal(t, `{"error":{"codi":"servei_no_disponible"}}`, readBody(t, resp), "CheckResponse leaves the body readable")
	})
}

// Duty 7: what is left is spread over the time to the reset, for all goroutines
// together: (reset − now) / remaining after the last request, the very last one
// at half of the time that remains.
func TestBrakeSpreadsTheRestOverTheTimeToTheReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		reset := strconv.FormatInt(start.Add(time.Minute).Unix(), 10)
		var mu sync.Mutex
		left := 6
		base := roundTripper(func(req *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			left--
			return answered(req, 200, "{}", "Aroma-RateLimit-Limit", "6", "Aroma-RateLimit-Restants", strconv.Itoa(left), "Aroma-RateLimit-Reinici", reset), nil
		})
		var sent []time.Duration
		c := polite.New(&polite.Options{Base: base, Trace: &polite.Trace{Attempt: func(polite.AttemptEvent) { sent = append(sent, time.Since(start)) }}})
		for range 6 {
			do(t, c, request(t, http.MethodGet, aCoffee, ""))
		}
		// 5 left at 0 s: 60/5 = 12 s. Then 48/4, 36/3, 24/2, each 12 s. Then half of the last 12 s.
		assert.Equal(t, []time.Duration{0, 12 * time.Second, 24 * time.Second, 36 * time.Second, 48 * time.Second, 54 * time.Second}, sent)
	})
}

// Duty 7, together: it is the sum of all goroutines that is spread.
func TestBrakeHoldsForAllGoroutinesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := politetest.Must(t, politetest.Config{Limit: politetest.Limit{Algorithm: politetest.FixedWindow, N: 8, Per: time.Minute}})
		start := time.Now()
		c := polite.New(&polite.Options{Base: s.Transport()})
		crowd(8, 8, func(int) { do(t, c, request(t, http.MethodGet, aCoffee, "")) })
		assert.Zero(t, s.Refusals())
		at := arrivedAfter(s, start)
		require.Len(t, at, 8)
		for i := 1; i < 7; i++ {
			assert.Greater(t, at[i]-at[i-1], 5*time.Second, "request %d", i)
		}
		assert.Less(t, at[7], time.Minute, "all of them fit into the window")
	})
}

// Duty 9: a time-out per attempt and one in total.
func TestEveryAttemptAndTheWholeCallHaveATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Fail(politetest.StallHeaders).Times(-1))
		start := time.Now()
		_, err := polite.New(steadily(s.Transport())).Get(t.Context(), aCoffee)
		var timeout *polite.AttemptTimeoutError
		require.ErrorAs(t, err, &timeout)
		assert.Equal(t, 30*time.Second, timeout.After)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, []time.Duration{0, 31 * time.Second, 63 * time.Second, 97 * time.Second}, arrivedAfter(s, start))
		assert.Equal(t, 127*time.Second, time.Since(start))

		start = time.Now()
		ctx := polite.WithOverrides(t.Context(), polite.Overrides{MaxElapsed: 40 * time.Second})
		_, err = polite.New(steadily(s.Transport())).Get(ctx, aCoffee)
		require.ErrorAs(t, err, &timeout)
		assert.Equal(t, 9*time.Second, timeout.After, "30 s, a pause of 1 s, and what is left")
		assert.Equal(t, 40*time.Second, time.Since(start))
	})
}

// Duty 9, the waits: cancellation ends any of them at once.
func TestCancellationEndsAnyWaitAtOnce(t *testing.T) {
	closed := politetest.Respond(429, "Retry-After", "50")
	for _, tc := range []struct {
		name    string
		replies []politetest.Reply
		options func(*polite.Options)
		before  int // calls made before
	}{
		{"backoff", []politetest.Reply{politetest.Respond(503).Times(-1)}, func(o *polite.Options) { o.Retry.Backoff = polite.Constant(time.Minute) }, 0},
		{"Retry-After", []politetest.Reply{closed}, func(*polite.Options) {}, 0},
		{"rate", nil, func(o *polite.Options) { o.Limit.Rates = []polite.Rate{polite.PerMinute(1)} }, 1},
		{"quota", []politetest.Reply{politetest.Respond(200, "X-RateLimit-Limit", "1", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "60")}, func(*polite.Options) {}, 1},
		{"headers", []politetest.Reply{politetest.Fail(politetest.StallHeaders)}, func(*polite.Options) {}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serving(t, tc.replies...)
				o := steadily(s.Transport())
				tc.options(o)
				c := polite.New(o)
				for range tc.before {
					do(t, c, request(t, http.MethodGet, aCoffee, ""))
				}
				ctx, cancel := context.WithCancel(t.Context())
				start := time.Now()
				time.AfterFunc(5*time.Second, cancel)
				_, err := c.Get(ctx, aCoffee)
				assert.ErrorIs(t, err, context.Canceled)
				assert.Equal(t, 5*time.Second, time.Since(start))
				stats := statsOf(t, c.Transport())
				assert.Zero(t, stats.InFlight)
				assert.Zero(t, stats.Waiting)
			})
		})
	}
}

// Duty 10: closed, open after five failures, half-open with one probe.
func TestBreakerOpensProbesAndCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(503).Times(6), politetest.Respond(200))
		o := steadily(s.Transport())
		o.Retry.Disable = true
		var changes []string
		o.Trace = &polite.Trace{Breaker: func(e polite.BreakerEvent) { changes = append(changes, e.From.String()+" to "+e.To.String()) }}
		c := polite.New(o)
		start := time.Now()
		for range 5 {
			do(t, c, request(t, http.MethodGet, aCoffee, ""))
		}
		refused := func(until time.Time) {
			t.Helper()
			_, err := c.Get(t.Context(), aCoffee)
			var open *polite.CircuitOpenError
			require.ErrorAs(t, err, &open)
			assert.Equal(t, until, open.Until)
			assert.Equal(t, "http://api.test", open.Host)
		}
		refused(start.Add(5 * time.Second))
		time.Sleep(5*time.Second - 1)
		refused(start.Add(5 * time.Second))
		time.Sleep(time.Nanosecond)
		do(t, c, request(t, http.MethodGet, aCoffee, "")) // the probe fails
		refused(start.Add(10 * time.Second))
		time.Sleep(5 * time.Second)
		do(t, c, request(t, http.MethodGet, aCoffee, "")) // the probe succeeds
		do(t, c, request(t, http.MethodGet, aCoffee, ""))
		assert.Equal(t, 8, s.Requests())
		assert.Equal(t, []string{"closed to open", "open to half-open", "half-open to open", "open to half-open", "half-open to closed"}, changes)
	})
}

// Duty 10, its exception: a refusal is the server at work.
func TestRefusalsDoNotOpenTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(429, "Retry-After", "1").Times(40))
		o := steadily(s.Transport())
		o.Retry.Disable = true
		c := polite.New(o)
		for range 40 {
			do(t, c, request(t, http.MethodGet, aCoffee, ""))
		}
		assert.Equal(t, polite.BreakerClosed, statsOf(t, c.Transport()).Breaker)
		assert.Equal(t, 40, s.Requests())
	})
}

// Duty 11: what waits has a ceiling in number and in time.
func TestQueueIsBoundedInNumberAndTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t)
		o := steadily(s.Transport())
		o.Limit = polite.LimitOptions{Rates: []polite.Rate{polite.PerMinute(6)}, MaxWaiting: 2, MaxWait: 25 * time.Second}
		c := polite.New(o)
		do(t, c, request(t, http.MethodGet, aCoffee, ""))
		start := time.Now()
		var waiting sync.WaitGroup
		for range 2 {
			waiting.Go(func() { do(t, c, request(t, http.MethodGet, aCoffee, "")) })
			synctest.Wait()
		}
		_, err := c.Get(t.Context(), aCoffee)
		var wait *polite.WaitError
		require.ErrorAs(t, err, &wait)
		assert.Equal(t, "Limit.MaxWaiting", wait.Bound)
		assert.False(t, errors.Is(err, context.DeadlineExceeded))
		assert.Zero(t, time.Since(start), "it fails at once")
		waiting.Wait()
		assert.Equal(t, 20*time.Second, time.Since(start))

		ctx := polite.WithOverrides(t.Context(), polite.Overrides{AdmissionWait: 9 * time.Second})
		_, err = c.Get(ctx, aCoffee)
		require.ErrorAs(t, err, &wait)
		assert.Equal(t, "Limit.MaxWait", wait.Bound)
		assert.Equal(t, polite.ReasonRate, wait.Reason)
		assert.Equal(t, start.Add(30*time.Second), wait.Until)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 20*time.Second, time.Since(start), "the wait is not begun")
	})
}

// The caller's body is closed whatever becomes of the call.
func TestRequestBodyIsAlwaysClosed(t *testing.T) {
	type closing struct {
		io.Reader
		io.Closer
	}
	for _, tc := range []struct {
		name    string
		replies []politetest.Reply
		change  func(*http.Request) *http.Request
	}{
		{"answer", nil, nil},
		{"retry", []politetest.Reply{politetest.Respond(503)}, nil},
		{"final failure", []politetest.Reply{politetest.Respond(500)}, nil},
		{"connection refused", []politetest.Reply{politetest.Fail(politetest.Refuse).Times(-1)}, nil},
		{"connection lost", []politetest.Reply{politetest.Fail(politetest.ResetAfter).Times(-1)}, nil},
		{"cancelled before", nil, func(req *http.Request) *http.Request {
			ctx, cancel := context.WithCancel(req.Context())
			cancel()
			return req.WithContext(ctx)
		}},
		{"no host", nil, func(req *http.Request) *http.Request { req.URL.Host = ""; return req }},
		{"no URL", nil, func(req *http.Request) *http.Request { req.URL = nil; return req }},
	} {
		for _, replayable := range []bool{false, true} {
			t.Run(tc.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := serving(t, tc.replies...)
					req := request(t, http.MethodPut, aCoffee, "body")
					closed := 0
					req.Body = closing{req.Body, closer(func() error { closed++; return nil })}
					if !replayable {
						req.GetBody = nil
					}
					if tc.change != nil {
						req = tc.change(req)
					}
					resp, err := polite.NewTransport(steadily(s.Transport())).RoundTrip(req)
					if err == nil {
						require.NoError(t, resp.Body.Close())
					}
					assert.Equal(t, 1, closed)
				})
			})
		}
	}
}

// closer is a function as an io.Closer.
type closer func() error

func (f closer) Close() error { return f() }
