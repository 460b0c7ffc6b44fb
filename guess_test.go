package polite_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
)

// A server that tells the length of its window, and not when it ends, may end it
// at any time before: the day that is used up ten minutes before midnight comes
// back at midnight. The answer tells the bound, and who calls later is let through
// soon after the end: within a sixtieth of the window, and a fifth of that at random.
func TestLengthOfAWindowShutsNobodyOutForAllOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		midnight := time.Now().Add(10 * time.Minute)
		requests := 0
		client := polite.New(quick(roundTripper(func(req *http.Request) (*http.Response, error) {
			requests++
			if time.Now().Before(midnight) {
				return answered(req, http.StatusTooManyRequests, "", "X-DayLimit-Remaining", "0"), nil
			}
			return answered(req, http.StatusOK, "", "X-DayLimit-Remaining", "4999"), nil
		})))
		resp, _ := do(t, client, request(t, http.MethodGet, aCoffee, ""))
		require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
		assert.Equal(t, 24*time.Hour, responseError(t, resp).RetryAfter)
		assert.Equal(t, 1, requests)
		_, err := client.Get(t.Context(), aCoffee)
		assert.ErrorAs(t, err, new(*polite.WaitError), "not so soon")
		time.Sleep(time.Until(midnight.Add(20 * time.Minute)))
		assert.Equal(t, http.StatusOK, fetch(t.Context(), client, aCoffee))
		assert.Equal(t, 2, requests)
	})
}

// A call that may wait for all of the window does so, and holds the others.
func TestLengthOfAWindowIsWaitedForByWhoMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var arrivals []time.Duration
		start := time.Now()
		o := quick(roundTripper(func(req *http.Request) (*http.Response, error) {
			arrivals = append(arrivals, time.Since(start))
			if len(arrivals) == 1 {
				return answered(req, http.StatusTooManyRequests, "", "X-RateLimit-Remaining-Hour", "0"), nil
			}
			return answered(req, http.StatusOK, ""), nil
		}))
		o.Limit.MaxWait, o.Retry.MaxElapsed, o.Retry.MaxWait = -1, -1, -1
		assert.Equal(t, http.StatusOK, fetch(t.Context(), polite.New(o), aCoffee))
		require.Len(t, arrivals, 2)
		assert.GreaterOrEqual(t, arrivals[1], time.Hour)
	})
}
