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

// byPath is a client whose requests have their path as quota key, and take 100 ms.
func byPath(note func(path string)) *polite.Options {
	o := quick(roundTripper(func(req *http.Request) (*http.Response, error) {
		note(req.URL.Path)
		time.Sleep(100 * time.Millisecond)
		return answered(req, 200, ""), nil
	}))
	o.QuotaKey = func(r *http.Request) string { return r.URL.Path }
	return o
}

// Calls of several quota keys get what these share in the order in which they
// began.
func TestQuotaKeysShareInTheOrderOfTheCalls(t *testing.T) {
	for name, limit := range map[string]polite.LimitOptions{
		"in flight": {MaxInFlight: 1},
		"rate":      {Rates: []polite.Rate{polite.PerSecond(10)}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var sent, want []string
				o := byPath(func(path string) {
					mu.Lock()
					sent = append(sent, path)
					mu.Unlock()
				})
				o.Limit = limit
				c := polite.New(o)
				for _, path := range []string{"/a", "/b", "/c", "/e"} { // the first of each key goes alone
					took(t, c, "http://api.test"+path)
				}
				time.Sleep(time.Second)
				sent = nil
				var all sync.WaitGroup
				for i := range 60 {
					path := fmt.Sprintf("/%c", 'a'+i*i%7)
					want = append(want, path)
					all.Go(func() { assert.Equal(t, 200, fetch(t.Context(), c, "http://api.test"+path)) })
					time.Sleep(time.Millisecond)
				}
				all.Wait()
				require.Equal(t, want, sent)
			})
		})
	}
}

// A costly call is not passed over for ever by cheaper ones of another quota key
// that began after it and share its rate.
func TestCostlyCallIsNotPassedOverByAnotherQuotaKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := byPath(func(string) {})
		o.Limit.Rates = []polite.Rate{{N: 10, Per: 10 * time.Second, Burst: 5}} // 0.6/s
		o.Cost = func(r *http.Request) int { return map[string]int{"/costly": 5}[r.URL.Path] }
		c := polite.New(o)
		stop := time.Now().Add(3 * time.Minute)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for time.Now().Before(stop) {
					assert.Equal(t, 200, fetch(t.Context(), c, "http://api.test/cheap"))
				}
			})
		}
		time.Sleep(20 * time.Second)
		start := time.Now()
		assert.Equal(t, 200, fetch(t.Context(), c, "http://api.test/costly"))
		assert.Less(t, time.Since(start), 20*time.Second)
		all.Wait()
	})
}

// One that waits for a rate of its own holds nobody up meanwhile, and nobody who
// stands behind another key is forgotten when that one gives up.
func TestQuotaKeysDoNotWaitForEachOthersOwnRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := byPath(func(string) {})
		o.Limit.MaxInFlight = 1
		o.Limit.Rates = []polite.Rate{{N: 1, Per: time.Minute, Key: "/rare"}}
		c := polite.New(o)
		took(t, c, "http://api.test/rare")
		var all sync.WaitGroup
		all.Go(func() {
			assert.Equal(t, 59900*time.Millisecond, took(t, c, "http://api.test/rare")-100*time.Millisecond)
		})
		time.Sleep(time.Millisecond)
		assert.Equal(t, 100*time.Millisecond, took(t, c, "http://api.test/other"))
		all.Wait()
		assert.Empty(t, polite.StillTaken(c.Transport()))
	})
}
