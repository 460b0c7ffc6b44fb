package polite_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
)

// lossy is a server that loses so many answers, and so many requests.
func lossy(t *testing.T) *politetest.Server {
	return politetest.Must(t, politetest.Config{Limit: politetest.Limit{N: -1}, Chances: []politetest.Chance{
		{P: 0.10, Reply: politetest.Fail(politetest.ResetAfter)},
		{P: 0.05, Reply: politetest.Fail(politetest.ResetBefore)},
		{P: 0.05, Reply: politetest.Fail(politetest.Refuse)},
		{P: 0.05, Reply: politetest.Respond(503)},
	}})
}

// insistent makes many attempts, for there is no budget to protect the server
// of a test.
func insistent(base http.RoundTripper) *polite.Options {
	o := steadily(base)
	o.Retry.MaxAttempts, o.Retry.BudgetRatio, o.Breaker.Disable = 20, -1, true
	return o
}

// A keyed order is carried out once, whatever is lost on the way, and with a
// generated key too.
func TestKeyedOrdersAreCarriedOutOnce(t *testing.T) {
	for _, generated := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := lossy(t)
			o := insistent(s.Transport())
			o.Retry.GenerateKeys = generated
			c := polite.New(o)
			crowd(8, 2000, func(i int) {
				req := request(t, http.MethodPost, "http://api.test/v1/comandes", fmt.Sprintf(`{"linies":[{"cafe":"caf_00007","quantitat":%d}]}`, i+1),
					"Authorization", "Bearer empleat:1")
				if !generated {
					req.Header.Set("Idempotency-Key", fmt.Sprint(i))
				}
				resp, _ := do(t, c, req)
				assert.Equal(t, 201, resp.StatusCode)
			})
			card := s.Scorecard().All
			assert.Zero(t, card.Duplicates)
			assert.Zero(t, card.Mismatches)
			assert.Greater(t, card.Requests, 2200)
		})
	}
}

// An unkeyed POST is repeated only if it cannot have arrived, and then always.
func TestUnkeyedPostsAreNeverDoubled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lossy(t)
		c := polite.New(insistent(s.Transport()))
		var lost, repeated atomic.Int64
		crowd(8, 2000, func(i int) {
			resp, err := c.Do(request(t, http.MethodPost, "http://api.test/v1/clients", fmt.Sprintf(`{"n":%d}`, i)))
			if err != nil {
				var e *polite.RetryError
				require.ErrorAs(t, err, &e)
				assert.True(t, e.Sent, "what was not sent is sent again: %v", err)
				assert.Equal(t, polite.ReasonNotRepeatable, e.Reason)
				lost.Add(1)
				return
			}
			if polite.Attempts(resp) > 1 {
				repeated.Add(1)
			}
			readBody(t, resp)
		})
		card := s.Scorecard().All
		assert.Zero(t, card.UnsafeRepeats)
		assert.Equal(t, 2000, card.Requests, "each arrived once")
		assert.Positive(t, lost.Load())
		assert.Positive(t, repeated.Load())
	})
}

// Attempts is the number of requests that arrived, plus those that could not.
func TestAttemptsAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := politetest.Must(t, politetest.Config{Limit: politetest.Limit{N: -1}, Chances: []politetest.Chance{
			{P: 0.2, Reply: politetest.Fail(politetest.ResetAfter)}, {P: 0.1, Reply: politetest.Fail(politetest.ResetBefore)}, {P: 0.1, Reply: politetest.Respond(503)}}})
		transport, stop := s.Pipe()
		defer stop()
		c := polite.New(insistent(transport))
		var attempts atomic.Int64
		crowd(8, 1000, func(int) {
			resp, err := c.Fetch(request(t, http.MethodGet, aCoffee, ""), nil)
			if err != nil {
				var e *polite.RetryError
				require.ErrorAs(t, err, &e)
				attempts.Add(int64(e.Attempts))
				return
			}
			attempts.Add(int64(polite.Attempts(resp)))
		})
		assert.EqualValues(t, s.Requests(), attempts.Load())
		assert.Greater(t, s.Requests(), 1300)
	})
}

// A host that is away slows no other down.
func TestDeadHostDoesNotSlowAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.URL.Host == "dead.test" {
				<-req.Context().Done()
				return nil, req.Context().Err()
			}
			return answered(req, 200, ""), nil
		})
		c := polite.New(steadily(base))
		for range 20 {
			go c.Get(t.Context(), "http://dead.test/")
		}
		synctest.Wait()
		crowd(4, 100, func(int) { assert.Equal(t, 200, fetch(t.Context(), c, "http://good.test/")) })
	})
}
