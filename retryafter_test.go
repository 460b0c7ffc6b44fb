package polite_test

import (
	"context"
	"errors"
	"math/rand/v2"
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

// A hint beyond MaxWait is neither slept nor shortened: the
// answer comes back at once and tells the whole of it.
//
// Cases C019, C147.
func TestHintBeyondMaxWaitComesBackAtOnceAndWhole(t *testing.T) {
	for _, tc := range []struct {
		status int
		hint   time.Duration
	}{{429, 3120 * time.Second}, {503, 3120 * time.Second}, {429, 1296000 * time.Second}, {429, 61 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			s := serving(t, politetest.Respond(tc.status, "Retry-After", strconv.Itoa(int(tc.hint.Seconds()))))
			o := steadily(s.Transport())
			o.Retry.MaxElapsed = -1
			c := polite.New(o)
			start := time.Now()
			resp, err := c.Get(t.Context(), aCoffee)
			require.NoError(t, err)
			assert.Zero(t, time.Since(start))
			e := responseError(t, resp)
			readBody(t, resp)
			assert.Equal(t, tc.hint, e.RetryAfter)
			assert.Equal(t, tc.status, e.StatusCode)
			assert.Equal(t, 1, e.Attempts)
			var wait *polite.WaitError
			require.ErrorAs(t, e.Cause, &wait)
			assert.Equal(t, polite.ReasonRetryAfter, wait.Reason)
			assert.Equal(t, "MaxWait", wait.Bound)
			assert.Equal(t, start.Add(tc.hint), wait.Until)
			assert.ErrorIs(t, e, context.DeadlineExceeded)

			// Nobody else is early either. (61 s is within an admission's two minutes.)
			if tc.hint > 2*time.Minute {
				_, err = c.Get(t.Context(), aCoffee)
				require.ErrorAs(t, err, &wait)
				assert.Equal(t, polite.ReasonRetryAfter, wait.Reason)
				assert.False(t, wait.Until.Before(start.Add(tc.hint)))
				assert.Equal(t, 1, s.Requests())
			}
		})
	}
}

// A hint that is exactly MaxWait is obeyed, and not lengthened beyond it.
func TestHintOfExactlyMaxWaitIsObeyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(429, "Retry-After", "60"))
		start := time.Now()
		do(t, polite.New(steadily(s.Transport())), request(t, http.MethodGet, aCoffee, ""))
		assert.Equal(t, []time.Duration{0, time.Minute}, arrivedAfter(s, start))
	})
}

// Zero, past, negative and unreadable values are no hint: the
// computed delay, not none and not the longest.
//
// Cases C013, C015, C023.
func TestHintThatIsNoneIsBackedOff(t *testing.T) {
	for _, value := range []string{"0", "-3", "+3", "nan", "inf", "Infinity", "1e10000", "-5", "0x10", "1_000", "", "   ",
		"Fri, 31 Dec 1999 23:59:59 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "soon"} {
		t.Run(value, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serving(t, politetest.Respond(429, "Retry-After", value))
				start := time.Now()
				do(t, polite.New(steadily(s.Transport())), request(t, http.MethodGet, aCoffee, ""))
				assert.Equal(t, []time.Duration{0, time.Second}, arrivedAfter(s, start))
			})
		})
	}
}

// A Retry-After on a success is advice about something else.
func TestRetryAfterOnASuccessIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(202, "Retry-After", "30"))
		c := polite.New(steadily(s.Transport()))
		start := time.Now()
		do(t, c, request(t, http.MethodGet, aCoffee, ""))
		do(t, c, request(t, http.MethodGet, aCoffee, ""))
		assert.Zero(t, time.Since(start))
	})
}

// An instant that turns out too early is followed by a delay, not by a
// hot repetition.
//
// Case C027.
func TestRefusalAtTheVeryResetIsBackedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		reset := strconv.FormatInt(start.Add(10*time.Second).Unix(), 10)
		s := serving(t, politetest.Respond(403, "X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", reset).Times(2))
		resp, _ := do(t, polite.New(steadily(s.Transport())), request(t, http.MethodGet, aCoffee, ""))
		assert.Equal(t, 200, resp.StatusCode)
		at := arrivedAfter(s, start)
		require.Len(t, at, 3)
		assert.GreaterOrEqual(t, at[1], 10*time.Second)
		assert.GreaterOrEqual(t, at[2]-at[1], 500*time.Millisecond)
	})
}

// A refusal whose body dribbles does not hold the call up.
//
// Case C045.
func TestStalledErrorBodyDoesNotDelayTheRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bodies := &counting{base: serving(t, politetest.Respond(429, "Retry-After", "1").With(politetest.StallBody), politetest.Respond(503).With(politetest.StallBody)).Transport()}
		start := time.Now()
		resp, _ := do(t, polite.New(steadily(bodies)), request(t, http.MethodGet, aCoffee, ""))
		assert.Equal(t, 3, polite.Attempts(resp))
		// A hint counts from the answer, and the drain ends within it. A backoff does too.
		assert.GreaterOrEqual(t, time.Since(start), 3*time.Second)
		assert.LessOrEqual(t, time.Since(start), 3200*time.Millisecond)
		assert.Zero(t, bodies.open())
	})
}

// An instant that a server names holds for everybody: on 429 for the quota, on
// 503 for the host.
func TestNamedInstantHoldsForEverybody(t *testing.T) {
	for _, status := range []int{429, 503} {
		synctest.Test(t, func(t *testing.T) {
			s := serving(t, politetest.Respond(status, "Retry-After", "10"))
			o := steadily(s.Transport())
			o.QuotaKey = func(req *http.Request) string { return req.Header.Get("Quota") }
			c := polite.New(o)
			start := time.Now()
			go c.Get(t.Context(), aCoffee)
			synctest.Wait()
			var wg sync.WaitGroup
			took := make([]time.Duration, 2)
			for i, key := range []string{"", "other"} {
				wg.Go(func() {
					do(t, c, request(t, http.MethodGet, aCoffee, "", "Quota", key))
					took[i] = time.Since(start)
				})
			}
			wg.Wait()
			assert.GreaterOrEqual(t, took[0], 10*time.Second)
			if status == 429 {
				assert.Zero(t, took[1], "another quota is not refused")
			} else {
				assert.GreaterOrEqual(t, took[1], 10*time.Second, "the whole host is away")
			}
		})
	}
}

// A refusal without a hint holds everybody back for the backoff; a failure
// without a hint is the call's own.
func TestBackoffHoldsForEverybodyOnlyAfterARefusal(t *testing.T) {
	for status, want := range map[int]time.Duration{429: time.Second, 503: 0} {
		synctest.Test(t, func(t *testing.T) {
			s := serving(t, politetest.Respond(status))
			c := polite.New(steadily(s.Transport()))
			start := time.Now()
			var wg sync.WaitGroup
			wg.Go(func() { do(t, c, request(t, http.MethodGet, aCoffee, "")) })
			synctest.Wait()
			do(t, c, request(t, http.MethodPost, aCoffee, "x"))
			assert.Equal(t, want, time.Since(start), status)
			wg.Wait()
		})
	}
}

// Ten workers, one refusal: nobody sends before the instant, and they do
// not return in one burst.
func TestWorkersStopAndReturnOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := politetest.Must(t, politetest.Config{Limit: politetest.Limit{N: -1}, Latency: 100 * time.Millisecond})
		c := polite.New(steadily(s.Transport()))
		do(t, c, request(t, http.MethodGet, aCoffee, "")) // all is well
		s.Script(politetest.Respond(429, "Retry-After", "5"))
		start := time.Now()
		crowd(10, 10, func(int) { do(t, c, request(t, http.MethodGet, aCoffee, "")) })
		count := make(map[time.Duration]int)
		for _, at := range arrivedAfter(s, start)[11:] {
			assert.GreaterOrEqual(t, at, 5*time.Second)
			assert.LessOrEqual(t, at, 7*time.Second)
			count[at]++
		}
		for at, n := range count {
			assert.Equal(t, 1, n, "at %s", at)
		}
	})
}

// Clients that were refused together return apart, none early.
//
// Case C165.
func TestClientsThatWereRefusedTogetherReturnApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		returned := make(map[time.Duration]int)
		start := time.Now()
		crowd(30, 30, func(int) {
			s := serving(t, politetest.Respond(429, "Retry-After", "10"))
			do(t, polite.New(steadily(s.Transport())), request(t, http.MethodGet, aCoffee, ""))
			at := arrivedAfter(s, start)[1]
			assert.GreaterOrEqual(t, at, 10*time.Second)
			assert.LessOrEqual(t, at, 12*time.Second)
			mu.Lock()
			returned[at]++
			mu.Unlock()
		})
		assert.Greater(t, len(returned), 25)
	})
}

// Of several instants the finest is taken, and nobody is early.
//
// Case C029.
func TestSeveralHintsAreNotUndercut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		s := serving(t, politetest.Respond(429, "X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "0",
			"X-RateLimit-Reset", strconv.FormatInt(start.Unix(), 10), "X-RateLimit-Reset-After", "0.505"))
		do(t, polite.New(steadily(s.Transport())), request(t, http.MethodGet, aCoffee, ""))
		assert.GreaterOrEqual(t, arrivedAfter(s, start)[1], 505*time.Millisecond)
	})
}

// Random hints in all spellings, from servers whose clocks are wrong by up to a
// day: no attempt is early, and none is later than the bound.
func TestNoAttemptIsEverEarly(t *testing.T) {
	calls := 4_000
	if raceDetector {
		calls /= 10
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	synctest.Test(t, func(t *testing.T) {
		for range calls {
			status := []int{429, 503}[random.IntN(2)]
			wait := time.Duration(random.IntN(90_000)) * time.Millisecond
			skew := time.Duration(random.IntN(2*86_400)-86_400) * time.Second
			if skew.Abs() < 4*time.Second {
				skew = 0 // up to two seconds are not told from the rounding of Date
			}
			time.Sleep(time.Duration(random.IntN(1_000_000_000)))
			now := time.Now()
			instant, headers := hintSpelled(random, now, wait, skew)

			s := serving(t, politetest.Respond(status, headers...))
			o := steadily(s.Transport())
			resp, err := polite.New(o).Get(t.Context(), aCoffee)
			require.NoError(t, err)
			readBody(t, resp)
			at := s.Arrivals()
			if len(at) == 1 {
				assert.Greater(t, instant.Sub(now), time.Minute, "given up although the wait was short: %v", headers)
				assert.Zero(t, time.Since(now))
				continue
			}
			assert.False(t, at[1].At.Before(instant), "%v: early by %s", headers, instant.Sub(at[1].At))
			assert.LessOrEqual(t, at[1].At.Sub(now), max(time.Minute, instant.Sub(now)*6/5+3*time.Second), "%v", headers)
		}
	})
}

// hintSpelled is a way to say "in so long", as a server with a wrong clock does
// it, and the true instant that it names.
func hintSpelled(random *rand.Rand, now time.Time, wait, skew time.Duration) (time.Time, []string) {
	there := now.Add(skew)
	at := there.Add(wait).Truncate(time.Second) // instants in whole seconds
	if !at.After(there) {
		at = at.Add(time.Second)
	}
	dated := func(name, value string) []string {
		return []string{name, value, "Date", there.UTC().Format(http.TimeFormat)}
	}
	switch random.IntN(6) {
	case 0:
		return now.Add(wait.Truncate(time.Second)), dated("Retry-After", strconv.Itoa(int(wait.Seconds())))
	case 1:
		return at.Add(-skew), dated("Retry-After", at.UTC().Format(http.TimeFormat))
	case 2:
		return at.Add(-skew), dated("Retry-After", at.UTC().Format("Monday, 02-Jan-06 15:04:05 GMT"))
	case 3:
		return at.Add(-skew), dated("Retry-After", at.UTC().Format(time.ANSIC))
	case 4:
		return now.Add(wait), dated("Retry-After-Ms", strconv.Itoa(int(wait.Milliseconds())))
	default:
		return at.Add(-skew), dated("Retry-After", strconv.FormatInt(at.Unix(), 10))
	}
}

// A refusal while others wait ends at once those who cannot wait that long.
func TestWaitersThatCannotWaitThatLongAreToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(429, "Retry-After", "1"), politetest.Respond(429, "Retry-After", "50"))
		c := polite.New(steadily(s.Transport()))
		start := time.Now()
		go c.Get(t.Context(), aCoffee) // refused, and refused again as the probe
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		_, err := c.Get(ctx, aCoffee)
		var wait *polite.WaitError
		require.ErrorAs(t, err, &wait)
		assert.Equal(t, "deadline", wait.Bound)
		assert.Less(t, time.Since(start), 2*time.Second)
		assert.False(t, errors.Is(err, context.Canceled))
	})
}
