package polite_test

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
)

// A call that is admitted in the very instant in which it is also woken keeps
// nothing of the waking: the delay before its retry is a whole one.
func TestWakingForAdmissionDoesNotShortenTheBackoff(t *testing.T) {
	for range 40 { // which of the two comes first is left to chance
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			var sent []time.Time
			o := steadily(roundTripper(func(req *http.Request) (*http.Response, error) {
				mu.Lock()
				sent = append(sent, time.Now())
				n := len(sent)
				mu.Unlock()
				time.Sleep(time.Second) // the first answer wakes the second call as its turn comes
				if n == 2 {
					return nil, errLost
				}
				return answered(req, 200, ""), nil
			}))
			o.Limit.Rates = []polite.Rate{polite.PerSecond(1)}
			c := polite.New(o)
			crowd(2, 2, func(int) { do(t, c, request(t, http.MethodGet, aCoffee, "")) })
			require.Len(t, sent, 3)
			require.Equal(t, 2*time.Second, sent[2].Sub(sent[1]), "a second of latency and one of backoff")
		})
	}
}

// An endpoint whose answers tell of no quota is not slowed by what another one
// was told.
func TestSilentEndpointDoesNotShareAnAnnouncedQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := polite.New(steadily(roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.Method == http.MethodPost {
				return answered(req, 200, "", "X-RateLimit-Limit", "50", "X-RateLimit-Remaining", "3", "X-RateLimit-Reset", "60"), nil
			}
			return answered(req, 200, ""), nil
		})))
		do(t, c, request(t, http.MethodGet, aCoffee, ""))
		do(t, c, request(t, http.MethodPost, "http://api.test/v1/sessions", ""))
		do(t, c, request(t, http.MethodGet, aCoffee, "")) // it was not told, but the server may count both together
		start := time.Now()
		for range 30 {
			do(t, c, request(t, http.MethodGet, aCoffee, ""))
		}
		require.Zero(t, time.Since(start))
	})
}

// A server that told once how much is left, and not until when, and then
// nothing more, has stopped speaking: nobody waits for anybody's answer.
func TestQuotaWithoutAnEndIsForgottenInSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := true
		c := polite.New(steadily(roundTripper(func(req *http.Request) (*http.Response, error) {
			resp := answered(req, 200, "")
			if first {
				resp.Header.Set("X-RateLimit-Limit", "10")
				resp.Header.Set("X-RateLimit-Remaining", "5")
				first = false
			}
			time.Sleep(100 * time.Millisecond)
			return resp, nil
		})))
		do(t, c, request(t, http.MethodGet, aCoffee, ""))
		do(t, c, request(t, http.MethodGet, aCoffee, ""))
		took := crowd(50, 50, func(int) { do(t, c, request(t, http.MethodGet, aCoffee, "")) })
		require.Equal(t, 100*time.Millisecond, took)
	})
}

// While only one answer has told of the quota, a request that hangs holds the
// others up for a second, not for as long as it hangs.
func TestHangingRequestHoldsOthersUpForASecondAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := polite.New(steadily(roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.URL.Path == "/events" {
				time.Sleep(25 * time.Second)
			}
			return answered(req, 200, "", "X-RateLimit-Limit", "100", "X-RateLimit-Remaining", "20", "X-RateLimit-Reset", "60"), nil
		})))
		do(t, c, request(t, http.MethodGet, aCoffee, ""))
		var hanging sync.WaitGroup
		defer hanging.Wait()
		hanging.Go(func() { do(t, c, request(t, http.MethodGet, "http://api.test/events", "")) })
		synctest.Wait()
		start := time.Now()
		do(t, c, request(t, http.MethodGet, aCoffee, ""))
		require.Equal(t, time.Second, time.Since(start))
	})
}

// A quota of one request per window is used once per window. The first window
// takes a tenth longer, for the case that it slides.
func TestQuotaOfOneIsUsedOncePerWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var free time.Time
		c := polite.New(steadily(roundTripper(func(req *http.Request) (*http.Response, error) {
			require.False(t, time.Now().Before(free))
			free = time.Now().Add(100 * time.Second)
			return answered(req, 200, "", "X-RateLimit-Limit", "1", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "100"), nil
		})))
		start := time.Now()
		for _, after := range []time.Duration{0, 110, 210, 310} {
			do(t, c, request(t, http.MethodGet, aCoffee, ""))
			require.Equal(t, after*time.Second, time.Since(start))
		}
	})
}

// A Cost above all that the server ever gives waits for all of it, not for ever.
func TestCostAboveTheServersLimitWaitsForAllOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := politetest.Must(t, politetest.Config{Limit: politetest.Limit{Algorithm: politetest.TokenBucket, N: 20, Per: 4 * time.Second}})
		cost := 1
		o := steadily(s.Transport())
		o.Cost = func(*http.Request) int { return cost }
		c := polite.New(o)
		for range 30 {
			do(t, c, request(t, http.MethodGet, aCoffee, ""))
		}
		time.Sleep(time.Second)
		cost = 50
		start := time.Now()
		do(t, c, request(t, http.MethodGet, aCoffee, ""))
		require.Less(t, time.Since(start), 8*time.Second)
	})
}

// What a server writes into Location may be secret: an error does not quote it.
func TestLocationThatCannotBeReadStaysOutOfTheError(t *testing.T) {
	c := polite.New(steadily(roundTripper(func(req *http.Request) (*http.Response, error) {
		return answered(req, 302, "", "Location", "http://api.test%zz/?token=s3cr3t"), nil
	})))
	_, err := c.Get(t.Context(), aCoffee)
	require.ErrorContains(t, err, "Location")
	require.NotContains(t, err.Error(), "s3cr3t")
}

// A strict quota for signing in does not end the use of a whole host: an
// endpoint that has told of no quota yet is asked, one request ahead of the
// others, rather than failed for a quota that may not be its own.
func TestQuotaOfOneEndpointDoesNotFailAnotherUnasked(t *testing.T) {
	for _, left := range []string{"4", "0"} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			var sent []time.Duration
			start := time.Now()
			c := polite.New(steadily(roundTripper(func(req *http.Request) (*http.Response, error) {
				mu.Lock()
				sent = append(sent, time.Since(start))
				mu.Unlock()
				time.Sleep(100 * time.Millisecond)
				if req.Method == http.MethodPost {
					return answered(req, 200, "", "X-RateLimit-Limit", "5", "X-RateLimit-Remaining", left, "X-RateLimit-Reset", "900"), nil
				}
				return answered(req, 200, "", "X-RateLimit-Limit", "300", "X-RateLimit-Remaining", "250", "X-RateLimit-Reset", "60"), nil
			})))
			do(t, c, request(t, http.MethodPost, "http://api.test/v1/sessions", ""))
			crowd(8, 8, func(int) { do(t, c, request(t, http.MethodGet, aCoffee, "")) })
			require.Len(t, sent, 9)
			require.Less(t, sent[8], time.Second)
			if left == "0" {
				require.Equal(t, 200*time.Millisecond, sent[2], "after the first answer")
				_, err := c.Do(request(t, http.MethodPost, "http://api.test/v1/sessions", ""))
				require.ErrorAs(t, err, new(*polite.WaitError), "whose quota it is")
			}
		})
	}
}

// Where the quota is the endpoint's own after all, asking costs one refusal,
// which holds for everybody.
func TestAskingInVainCostsOneRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := 0
		c := polite.New(steadily(roundTripper(func(req *http.Request) (*http.Response, error) {
			quota := []string{"X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "900"}
			if req.URL.Path == "/a" {
				return answered(req, 200, "", quota...), nil
			}
			refused++
			return answered(req, 429, "", append(quota, "Retry-After", "900")...), nil
		})))
		do(t, c, request(t, http.MethodGet, "http://api.test/a", ""))
		for _, path := range []string{"/b", "/c", "/d", "/b"} {
			resp, err := c.Do(request(t, http.MethodGet, "http://api.test"+path, ""))
			if err == nil {
				require.Equal(t, 429, resp.StatusCode)
				resp.Body.Close()
			}
		}
		require.Equal(t, 1, refused)
	})
}
