package polite_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
)

// Callers that cannot be served take nothing from the one that waits, and
// the rate is used to the full.
//
// Case C087.
func TestImpatientCallersTakeNothingFromThePatientOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t)
		o := steadily(s.Transport())
		o.Limit.Rates = []polite.Rate{polite.PerSecond(10)}
		c := polite.New(o)
		start := time.Now()
		var served atomic.Int64
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 10 * time.Millisecond)
				ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
				defer cancel()
				if status, err := call(ctx, c); err == nil && status == 200 {
					served.Add(1)
				}
			})
		}
		patient := time.Duration(-1)
		wg.Go(func() {
			time.Sleep(2 * time.Second)
			if _, err := call(t.Context(), c); err == nil {
				patient = time.Since(start)
			}
		})
		wg.Wait()
		assert.GreaterOrEqual(t, served.Load(), int64(95))
		assert.LessOrEqual(t, served.Load(), int64(101))
		assert.GreaterOrEqual(t, patient, 2*time.Second)
		assert.Less(t, patient, 3*time.Second, "first come, first served")
		assert.Zero(t, statsOf(t, c.Transport()).Waiting)
	})
}

// With a key per quota one that is used up stops only its own; without,
// both wait.
//
// Case C091.
func TestQuotaKeyTellsQuotasApart(t *testing.T) {
	for _, keyed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			base := roundTripper(func(req *http.Request) (*http.Response, error) {
				left := "5"
				if req.URL.Path == "/a" {
					left = "0"
				}
				return answered(req, 200, "", "X-RateLimit-Limit", "10", "X-RateLimit-Remaining", left, "X-RateLimit-Reset", "10"), nil
			})
			o := steadily(base)
			o.Preemptive.Threshold = -1
			if keyed {
				o.QuotaKey = func(req *http.Request) string { return req.URL.Path }
			}
			c := polite.New(o)
			start := time.Now()
			do(t, c, request(t, http.MethodGet, "http://api.test/b", ""))
			do(t, c, request(t, http.MethodGet, "http://api.test/a", ""))
			assert.Zero(t, time.Since(start))
			do(t, c, request(t, http.MethodGet, "http://api.test/b", ""))
			if keyed {
				assert.Zero(t, time.Since(start))
			} else {
				assert.GreaterOrEqual(t, time.Since(start), 10*time.Second)
			}
			do(t, c, request(t, http.MethodGet, "http://api.test/a", ""))
			assert.GreaterOrEqual(t, time.Since(start), 10*time.Second)
		})
	}
}

// Answers arrive out of order, and the lower remaining holds.
//
// Case C089.
func TestLowestRemainingOfAWindowHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		sent := 0
		start := time.Now()
		base := roundTripper(func(req *http.Request) (*http.Response, error) {
			mu.Lock()
			n := sent
			sent++
			mu.Unlock()
			// The first answer leaves 3. The next two leave 1 and 2, and the higher one comes last.
			left := []string{"3", "2", "1", "0"}[min(n, 3)]
			time.Sleep(20 * time.Millisecond)
			if n == 1 {
				time.Sleep(time.Second)
			}
			return answered(req, 200, "", "X-RateLimit-Limit", "4", "X-RateLimit-Remaining", left, "X-RateLimit-Reset", "60"), nil
		})
		o := steadily(base)
		o.Preemptive.Threshold = -1
		c := polite.New(o)
		do(t, c, request(t, http.MethodGet, aCoffee, ""))
		crowd(2, 2, func(int) { do(t, c, request(t, http.MethodGet, aCoffee, "")) })
		assert.Equal(t, 1040*time.Millisecond, time.Since(start))
		do(t, c, request(t, http.MethodGet, aCoffee, "")) // the one that is left
		assert.Less(t, time.Since(start), 3*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		_, err := c.Get(ctx, aCoffee)
		var wait *polite.WaitError
		require.ErrorAs(t, err, &wait)
		assert.Equal(t, polite.ReasonQuota, wait.Reason)
		assert.Equal(t, 4, sent)
	})
}

// Nothing is paced that nobody asked to pace.
//
// Case C093.
func TestNothingIsPacedWithoutALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t)
		c := polite.New(&polite.Options{Base: s.Transport()})
		start := time.Now()
		for range 200 {
			do(t, c, request(t, http.MethodGet, aCoffee, ""))
		}
		assert.Zero(t, time.Since(start))
	})
}

// The ceiling in flight counts until the body ends, and MaxConnsPerHost 1 never
// hangs.
func TestInFlightCountsUntilTheBodyEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t)
		o := steadily(s.Transport())
		o.Limit.MaxInFlight = 1
		c := polite.New(o)
		held, err := c.Get(t.Context(), aCoffee)
		require.NoError(t, err)
		start := time.Now()
		time.AfterFunc(3*time.Second, func() { held.Body.Close() })
		do(t, c, request(t, http.MethodGet, aCoffee, ""))
		assert.Equal(t, 3*time.Second, time.Since(start))
		assert.Zero(t, statsOf(t, c.Transport()).InFlight)
	})
}

func TestOneConnectionIsEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(503), politetest.Respond(429, "Retry-After", "1"), politetest.Fail(politetest.ResetAfter), politetest.Fail(politetest.TruncateBody))
		transport, stop := s.Pipe()
		defer stop()
		transport.MaxConnsPerHost = 1
		c := polite.New(steadily(transport))
		crowd(20, 20, func(int) {
			resp, err := c.Fetch(request(t, http.MethodGet, aCoffee, ""), nil)
			require.NoError(t, err)
			assert.Equal(t, 200, resp.StatusCode)
		})
	})
}

// A cost above the rate can never be admitted, and fails at once.
func TestCostThatNeverFitsFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t)
		o := steadily(s.Transport())
		o.Limit.Rates = []polite.Rate{polite.PerMinute(5)}
		o.Cost = func(*http.Request) int { return 6 }
		_, err := polite.New(o).Get(t.Context(), aCoffee)
		var wait *polite.WaitError
		require.ErrorAs(t, err, &wait)
		assert.Equal(t, "Rate.N", wait.Bound)
		assert.False(t, wait.Timeout())
		assert.Zero(t, s.Requests())
	})
}

// The memory of hosts is bounded, the least recently used one is
// forgotten.
//
// Case C169.
func TestHostsAreForgottenBeyondTheirBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := roundTripper(func(req *http.Request) (*http.Response, error) { return answered(req, 200, ""), nil })
		c := polite.New(&polite.Options{Base: base, MaxHosts: 3})
		for _, host := range []string{"a", "b", "c", "a", "d", "A:80"} {
			do(t, c, request(t, http.MethodGet, "http://"+host+"/", ""))
		}
		var names []string
		for name := range c.Transport().Hosts() {
			names = append(names, name)
		}
		assert.Equal(t, []string{"http://a", "http://d", "http://c"}, names)
	})
}

// Calls that are cancelled while they wait leave nothing behind: the
// bubble would not end.
//
// Case C051.
func TestCancelledWaitsLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(429, "Retry-After", "3600").Times(-1))
		o := steadily(s.Transport())
		o.Retry.MaxWait, o.Retry.MaxElapsed, o.Limit.MaxWait = -1, -1, -1
		c := polite.New(o)
		crowd(100, 3_000, func(int) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			time.AfterFunc(time.Millisecond, cancel)
			_, err := c.Get(ctx, aCoffee)
			assert.ErrorIs(t, err, context.Canceled)
		})
		stats := statsOf(t, c.Transport())
		assert.Zero(t, stats.Waiting)
		assert.Zero(t, stats.InFlight)
	})
}

// The clock is looked at again after the caller's functions: one that takes its
// time neither loosens a rate nor makes a request look as if it had been sent
// before.
func TestSlowFunctionsDoNotLoosenARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var sent, took []time.Duration
		c := polite.New(&polite.Options{
			Base: roundTripper(func(req *http.Request) (*http.Response, error) {
				sent = append(sent, time.Since(start))
				return answered(req, http.StatusOK, ""), nil
			}),
			Limit: polite.LimitOptions{Rates: []polite.Rate{{N: 10, Per: 9 * time.Second, Burst: 2}}}, // and one more per second
			Cost: func(req *http.Request) int {
				if req.URL.Path == "/slow" {
					time.Sleep(10 * time.Second)
				}
				return 1
			},
			Trace: &polite.Trace{Attempt: func(e polite.AttemptEvent) { took = append(took, e.Duration) }},
		})
		for _, path := range []string{"/slow", "/", "/"} {
			require.Equal(t, http.StatusOK, fetch(t.Context(), c, "http://api.test"+path))
		}
		assert.Equal(t, []time.Duration{10 * time.Second, 10 * time.Second, 11 * time.Second}, sent)
		assert.Equal(t, []time.Duration{0, 0, 0}, took)
	})
}

// A cost-based bucket of 1,000 that gives 50 back every second, kept by the
// client itself: how long a call waits depends on what it costs, and a cost that
// can never be met fails at once.
//
// Case C143.
func TestCostDecidesHowLongACallWaits(t *testing.T) {
	for _, tc := range []struct {
		spent, next int
		want        time.Duration
	}{{502, 502, 80 * time.Millisecond}, {900, 600, 10 * time.Second}, {400, 600, 0}} {
		synctest.Test(t, func(t *testing.T) {
			s := serving(t)
			o := steadily(s.Transport())
			o.Cost = func(req *http.Request) int {
				cost, err := strconv.Atoi(req.URL.Query().Get("cost"))
				require.NoError(t, err)
				return cost
			}
			const per = 20 // seconds; N less Burst comes back in them, and one more
			o.Limit.Rates = []polite.Rate{{N: 1000 + 50*per - 1, Per: per * time.Second, Burst: 1000}}
			c := polite.New(o)
			ask := func(cost int) error {
				resp, err := c.Get(t.Context(), fmt.Sprintf("http://api.test/graphql?cost=%d", cost))
				if err == nil {
					readBody(t, resp)
				}
				return err
			}
			start := time.Now()
			require.NoError(t, ask(tc.spent))
			require.NoError(t, ask(tc.next))
			assert.Equal(t, tc.want, time.Since(start))

			var wait *polite.WaitError
			require.ErrorAs(t, ask(2000), &wait)
			assert.Equal(t, "Rate.N", wait.Bound)
			assert.Equal(t, tc.want, time.Since(start), "at once")
			assert.Equal(t, 2, s.Requests())
		})
	}
}

// A hundred thousand hosts, one request each, take no more memory than a few
// thousand.
//
// Case C169.
func TestMemoryOfHostsStaysFlat(t *testing.T) {
	hosts := 100_000
	if raceDetector {
		hosts /= 10
	}
	c := polite.New(&polite.Options{Base: roundTripper(func(req *http.Request) (*http.Response, error) {
		return answered(req, 200, "", "X-RateLimit-Limit", "100", "X-RateLimit-Remaining", "99", "X-RateLimit-Reset", "60"), nil
	})})
	visit := func(from, to int) uint64 {
		for i := from; i < to; i++ {
			resp, err := c.Get(t.Context(), "http://host"+strconv.Itoa(i)+".test/")
			require.NoError(t, err)
			resp.Body.Close()
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	early := visit(0, 2000)
	late := visit(2000, hosts)
	known := 0
	for range c.Transport().Hosts() {
		known++
	}
	assert.Equal(t, 1024, known)
	assert.Less(t, late, early+1<<20)
}
