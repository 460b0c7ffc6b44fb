package polite_test

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
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
