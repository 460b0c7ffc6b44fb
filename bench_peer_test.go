package polite_test

import (
	"net/http"
	"testing"

	"github.com/cenkalti/backoff/v4"
	"github.com/sony/gobreaker/v2"
	"golang.org/x/time/rate"
)

// handMade is what people put together from the libraries that polite builds
// on: a breaker, a limiter and a loop with a backoff. It bounds no attempt, reads
// no quota and shares no wait. Its cost is a measure for the machine.
type handMade struct {
	base    http.RoundTripper
	breaker *gobreaker.TwoStepCircuitBreaker[*http.Response]
	limiter *rate.Limiter
}

func (h *handMade) RoundTrip(req *http.Request) (*http.Response, error) {
	var resp *http.Response
	err := backoff.Retry(func() error {
		done, err := h.breaker.Allow()
		if err != nil {
			return err
		}
		if err = h.limiter.Wait(req.Context()); err == nil {
			resp, err = h.base.RoundTrip(req)
		}
		done(err)
		return err
	}, backoff.NewExponentialBackOff())
	return resp, err
}

// BenchmarkHandMade is the happy path of such a stack, to set polite's own
// figures against: the times of two machines differ, and so do one's from hour to
// hour.
func BenchmarkHandMade(b *testing.B) {
	base := &instant{headers: quotaHeaders()}
	stack := &handMade{base, gobreaker.NewTwoStepCircuitBreaker[*http.Response](gobreaker.Settings{}), rate.NewLimiter(1e9, 1e9)}
	compare(b, 20_000,
		calls(b, &http.Client{Transport: base}, "http://api.test/v1"),
		calls(b, &http.Client{Transport: stack}, "http://api.test/v1"))
}
