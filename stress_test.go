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
