package polite_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
)

// Ten workers that go on and on: one is refused, the answers under way still
// come, and then nobody sends before the instant; afterwards they do not return
// in one burst.
//
// Case C085.
func TestOneRefusedWorkerHoldsItsSiblings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const told, round = 50 * time.Millisecond, 100 * time.Millisecond
		var mu sync.Mutex
		var arrived []time.Duration
		start := time.Now()
		o := steadily(roundTripper(func(req *http.Request) (*http.Response, error) {
			mu.Lock()
			arrived = append(arrived, time.Since(start))
			n := len(arrived)
			mu.Unlock()
			if n == 1 {
				time.Sleep(told)
				return answered(req, 429, "", "Retry-After", "5"), nil
			}
			time.Sleep(round)
			return answered(req, 200, ""), nil
		}))
		o.Preemptive.Disable = true // all ten leave at once, without a first one that goes alone
		c := polite.New(o)
		crowd(10, 200, func(int) { assert.Equal(t, 200, fetch(t.Context(), c, aCoffee)) })

		require.Len(t, arrived, 201)
		assert.Zero(t, arrived[9], "under way when the refusal came")
		first, atOnce := arrived[10], make(map[time.Duration]int)
		assert.GreaterOrEqual(t, first, told+5*time.Second)
		assert.LessOrEqual(t, first, told+6*time.Second)
		for _, at := range arrived[10:] {
			atOnce[at]++
		}
		for at, n := range atOnce { // each success lets one more go, until all ten do
			assert.LessOrEqual(t, n, min(10, 1<<((at-first)/round)), "at %s", at)
		}
	})
}

// Thirty callers that were refused at once for the same wait: one client lets
// them go one after the other, none early.
//
// Case C165.
func TestCallersOfOneClientReturnApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		first, back := make(map[string]bool), make(map[time.Duration]int)
		start := time.Now()
		o := steadily(roundTripper(func(req *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			if !first[req.URL.Path] {
				first[req.URL.Path] = true
				return answered(req, 429, "", "Retry-After", "10"), nil
			}
			back[time.Since(start)]++
			return answered(req, 200, ""), nil
		}))
		o.Preemptive.Disable = true // all leave at once, without a first one that goes alone
		o.Base = delayed(o.Base, 100*time.Millisecond)
		c := polite.New(o)
		crowd(30, 30, func(i int) { assert.Equal(t, 200, fetch(t.Context(), c, fmt.Sprintf("http://api.test/%d", i))) })
		total := 0
		for at, n := range back {
			assert.GreaterOrEqual(t, at, 10*time.Second)
			assert.LessOrEqual(t, at, 14*time.Second)
			total += n
		}
		assert.Equal(t, 30, total)
		assert.GreaterOrEqual(t, len(back), 5, "doubling from one")
	})
}

// delayed answers after a round trip.
func delayed(base http.RoundTripper, latency time.Duration) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		time.Sleep(latency)
		return base.RoundTrip(req)
	})
}
