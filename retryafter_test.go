package polite_test

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
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
			assert.Equal(t, "Retry.MaxWait", wait.Bound)
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

// The answer says which bound its hint passes; a call that comes later has
// another one, and says which.
func TestHintBeyondAMaxWaitNamesIt(t *testing.T) {
	for hint, want := range map[string]struct{ first, next string }{
		"90":  {"the server asked to wait 1m30s, longer than Retry.MaxWait (1m0s) allows", ""},
		"150": {"the server asked to wait 2m30s, longer than Retry.MaxWait (1m0s) allows", "(asked by the server) would pass Limit.MaxWait (2m0s)"},
	} {
		t.Run(hint, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serving(t, politetest.Respond(429, "Retry-After", hint))
				o := steadily(s.Transport())
				c := polite.New(o)
				resp, _ := do(t, c, request(t, http.MethodGet, aCoffee, ""))
				e := responseError(t, resp)
				assert.Equal(t, polite.ReasonMaxWait, e.Reason)
				assert.ErrorContains(t, e, want.first)
				start := time.Now()
				_, err := c.Get(t.Context(), aCoffee)
				if want.next != "" {
					assert.ErrorContains(t, err, want.next)
					assert.Zero(t, time.Since(start))
				} else if assert.NoError(t, err) {
					assert.GreaterOrEqual(t, time.Since(start), 90*time.Second)
				}
			})
		})
	}
}

// A hint that is exactly MaxWait is obeyed, and lengthened like any other; the
// longest wait for admission is the end of that.
func TestHintOfExactlyMaxWaitIsObeyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(429, "Retry-After", "60"))
		start := time.Now()
		o := steadily(s.Transport())
		o.Limit.MaxWait = time.Minute
		do(t, polite.New(o), request(t, http.MethodGet, aCoffee, ""))
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

// Clients that were refused together return apart, none early.
//
// Case C165.
func TestClientsThatWereRefusedTogetherReturnApart(t *testing.T) {
	for _, asked := range []time.Duration{10 * time.Second, time.Minute} { // the second is all of MaxWait
		t.Run(asked.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				returned := make(map[time.Duration]int)
				start := time.Now()
				crowd(30, 30, func(int) {
					s := serving(t, politetest.Respond(429, "Retry-After", strconv.Itoa(int(asked.Seconds()))))
					do(t, polite.New(steadily(s.Transport())), request(t, http.MethodGet, aCoffee, ""))
					at := arrivedAfter(s, start)[1]
					assert.GreaterOrEqual(t, at, asked)
					assert.LessOrEqual(t, at, asked*6/5)
					mu.Lock()
					returned[at]++
					mu.Unlock()
				})
				assert.Greater(t, len(returned), 25)
			})
		})
	}
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
// day: no attempt is early, be it the call's own or another one's, and no wait is
// longer than its bound.
func TestNoAttemptIsEverEarly(t *testing.T) {
	var met struct{ obeyed, handed, none, bystanders int }
	randomly(t, 3_000, 100_000, 1_000, func(t *testing.T, random *rand.Rand) {
		time.Sleep(time.Duration(random.IntN(1_000_000_000)))
		start := time.Now()
		h := hintSpelled(random, start)
		var mu sync.Mutex
		var sent []time.Time
		o := steadily(roundTripper(func(req *http.Request) (*http.Response, error) {
			mu.Lock()
			sent = append(sent, time.Now())
			first := len(sent) == 1
			mu.Unlock()
			if first {
				return answered(req, []int{429, 503}[random.IntN(2)], "", h.headers...), nil
			}
			return answered(req, 200, ""), nil
		}))
		o.Retry.MaxWait = []time.Duration{0, 5 * time.Second, 2 * time.Minute}[random.IntN(3)]
		bound := cmp.Or(o.Retry.MaxWait, time.Minute)
		c := polite.New(o)
		var bystander sync.WaitGroup
		var bystanding error
		if random.IntN(3) == 0 {
			after := time.Duration(1 + random.IntN(int(time.Second)))
			met.bystanders++
			bystander.Go(func() {
				time.Sleep(after)
				var resp *http.Response
				if resp, bystanding = c.Get(t.Context(), aCoffee); bystanding == nil {
					readBody(t, resp)
				}
			})
		}
		resp, err := c.Get(t.Context(), aCoffee)
		require.NoError(t, err)
		took := time.Since(start)
		readBody(t, resp)
		bystander.Wait()
		for _, at := range sent[1:] {
			require.False(t, at.Before(h.instant), "%v: early by %s", h.headers, h.instant.Sub(at))
		}
		require.LessOrEqual(t, took, bound*6/5, "the bound is of the delay asked for: %v", h.headers)
		if bystanding != nil {
			require.ErrorAs(t, bystanding, new(*polite.WaitError))
		}
		switch {
		case !h.instant.Add(h.coarse).After(start):
			require.Equal(t, 200, resp.StatusCode)
			require.Equal(t, time.Second, took, "no hint, so the backoff: %v", h.headers)
			met.none++
		case resp.StatusCode == 200:
			require.LessOrEqual(t, took, max(time.Second, (h.instant.Sub(start)+h.coarse)*6/5), "a fifth more at most: %v", h.headers)
			met.obeyed++
		default:
			require.Zero(t, took, "handed over at once")
			require.Greater(t, h.instant.Sub(start)+h.coarse, bound, "given up although the wait was short: %v", h.headers)
			met.handed++
		}
	})
	t.Logf("%d hints obeyed, %d beyond the bound and handed over at once, %d were none; %d bystanders", met.obeyed, met.handed, met.none, met.bystanders)
}

// hint is a way to say "in so long", as a server with a wrong clock does it.
type hint struct {
	headers []string
	instant time.Time     // what it means in truth; the past if it is no hint
	coarse  time.Duration // how much later a careful reader may take it to be
}

func hintSpelled(random *rand.Rand, now time.Time) hint {
	skew := time.Duration(random.Int64N(int64(48*time.Hour))) - 24*time.Hour
	if random.IntN(3) == 0 { // near what Date, in whole seconds, can tell
		skew = time.Duration(random.Int64N(int64(8*time.Second))) - 4*time.Second
	}
	there := now.Add(skew)
	spelled := func(instant time.Time, coarse time.Duration, name, value string) hint {
		return hint{[]string{name, value, "Date", there.UTC().Format(http.TimeFormat)}, instant, coarse}
	}
	wait := time.Duration(random.IntN(90_000)) * time.Millisecond
	at := there.Add(wait).Truncate(time.Second)
	if random.IntN(8) == 0 {
		at = there.Add(-wait - time.Second).Truncate(time.Second)
	}
	// Date is cut to the second, and a difference of two seconds is left to the
	// later side.
	const coarse = 3 * time.Second
	dated := func(layout string) hint {
		return spelled(at.Add(-skew), coarse, "Retry-After", at.UTC().Format(layout))
	}
	number := func(name string, units int64) hint {
		return spelled(now.Add(wait), 0, name, strconv.FormatInt(units, 10))
	}
	switch random.IntN(10) {
	case 0:
		wait = wait.Truncate(time.Second)
		return number("Retry-After", int64(wait/time.Second))
	case 1:
		return dated(http.TimeFormat)
	case 2:
		return dated("Monday, 02-Jan-06 15:04:05 GMT")
	case 3:
		return dated(time.ANSIC)
	case 4:
		return number("Retry-After-Ms", wait.Milliseconds())
	case 5:
		return number("X-Ms-Retry-After-Ms", wait.Milliseconds())
	case 6:
		return spelled(at.Add(-skew), coarse, "Retry-After", strconv.FormatInt(at.Unix(), 10))
	case 7:
		return spelled(at.Add(-skew), coarse, "Retry-After", strconv.FormatInt(at.UnixMilli(), 10))
	case 8:
		digits := strings.Repeat("9", 20+random.IntN(300))
		return spelled(now.AddDate(50, 0, 0), 1<<62, []string{"Retry-After", "Retry-After-Ms"}[random.IntN(2)], digits)
	default:
		return spelled(time.Time{}, 0, "Retry-After", []string{"0", "-30", "-0", "nan", "1e9", "0x1f", "soon", ""}[random.IntN(8)])
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
