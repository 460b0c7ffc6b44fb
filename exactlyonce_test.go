package polite_test

import (
	"context"
	"errors"
	"fmt"
	"net"
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
	return politetest.Must(t, politetest.Config{Limit: politetest.Limit{N: -1}, KeepArrivals: 1_000_000, Chances: []politetest.Chance{
		{P: 0.10, Reply: politetest.Fail(politetest.ResetAfter)},
		{P: 0.05, Reply: politetest.Fail(politetest.ResetBefore)},
		{P: 0.05, Reply: politetest.Fail(politetest.Refuse)},
		{P: 0.05, Reply: politetest.Respond(503)},
	}})
}

// insistent makes many attempts, for there is no budget to protect the server
// of a test, and takes its time: of 100,000 orders one may well fail ten times.
func insistent(base http.RoundTripper) *polite.Options {
	o := steadily(base)
	o.Retry.MaxAttempts, o.Retry.MaxElapsed, o.Retry.BudgetRatio, o.Breaker.Disable = 20, -1, -1, true
	return o
}

// inMemoryAndOverAWire plays with the server in memory, and behind net/http's own
// transport and server, where one dial in ten fails.
func inMemoryAndOverAWire(t *testing.T, play func(t *testing.T, s *politetest.Server, base http.RoundTripper, dials *shaky)) {
	for _, wire := range []bool{false, true} {
		t.Run(map[bool]string{false: "in memory", true: "over a wire"}[wire], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, dials := lossy(t), new(shaky)
				if !wire {
					play(t, s, s.Transport(), dials)
					return
				}
				transport, stop := s.Pipe()
				defer stop()
				dials.below(transport)
				play(t, s, transport, dials)
			})
		})
	}
}

// shaky refuses every tenth dial.
type shaky struct{ asked, refused atomic.Int64 }

func (s *shaky) below(transport *http.Transport) {
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if s.asked.Add(1)%10 == 0 {
			s.refused.Add(1)
			return nil, refusedDial
		}
		return dial(ctx, network, address)
	}
}

// A keyed order is carried out once, whatever is lost on the way, and with a
// generated key too.
func TestKeyedOrdersAreCarriedOutOnce(t *testing.T) {
	orders := atScale(1_500, 100_000)
	for _, generated := range []bool{false, true} {
		inMemoryAndOverAWire(t, func(t *testing.T, s *politetest.Server, base http.RoundTripper, dials *shaky) {
			o := insistent(base)
			o.Retry.GenerateKeys = generated
			c := polite.New(o)
			crowd(8, orders, func(i int) {
				req := request(t, http.MethodPost, "http://api.test/v1/comandes", fmt.Sprintf(`{"linies":[{"cafe":"caf_00007","quantitat":%d}]}`, i+1),
					"Authorization", "Bearer soci:1")
				if !generated {
					req.Header.Set("Idempotency-Key", fmt.Sprint(i))
				}
				if resp, err := c.Fetch(req, nil); assert.NoError(t, err) {
					assert.Equal(t, 201, resp.StatusCode)
				}
			})
			card := s.Scorecard().All
			assert.Zero(t, card.Mismatches)
			assert.Greater(t, card.Requests, orders*11/10)
			var kept struct{ Total int }
			_, err := c.Fetch(request(t, http.MethodGet, "http://api.test/v1/comandes?limit=1", "", "Authorization", "Bearer soci:1"), polite.JSON(&kept))
			require.NoError(t, err)
			assert.Equal(t, orders, kept.Total, "each once")
			t.Logf("%d orders, generated keys %t: %d requests, %d orders carried out, %d dials refused", orders, generated, card.Requests, kept.Total, dials.refused.Load())
		})
	}
}

// An unkeyed POST is repeated only if it cannot have arrived, and then always.
func TestUnkeyedPostsAreNeverDoubled(t *testing.T) {
	posts := atScale(1_500, 100_000)
	inMemoryAndOverAWire(t, func(t *testing.T, s *politetest.Server, base http.RoundTripper, dials *shaky) {
		o := insistent(base)
		var unsent, lost, repeated atomic.Int64
		o.Trace = &polite.Trace{Attempt: func(e polite.AttemptEvent) {
			if op := new(net.OpError); errors.As(e.Err, &op) && op.Op == "dial" {
				unsent.Add(1)
			}
		}}
		c := polite.New(o)
		crowd(8, posts, func(i int) {
			resp, err := c.Do(request(t, http.MethodPost, "http://api.test/v1/clients", fmt.Sprintf(`{"n":%d}`, i)))
			if err != nil {
				var e *polite.RetryError
				if assert.ErrorAs(t, err, &e) {
					assert.True(t, e.Sent, "what was not sent is sent again: %v", err)
					assert.Equal(t, polite.ReasonNotRepeatable, e.Reason)
				}
				lost.Add(1)
				return
			}
			repeated.Add(int64(polite.Attempts(resp) - 1))
			readBody(t, resp)
		})
		arrived, twice := make(map[uint64]bool, posts), 0
		for _, a := range s.Arrivals() {
			if arrived[a.BodyHash] {
				twice++
			}
			arrived[a.BodyHash] = true
		}
		assert.Zero(t, twice)
		assert.Greater(t, len(arrived), posts*9/10)
		assert.Positive(t, unsent.Load())
		assert.Positive(t, lost.Load())
		assert.Positive(t, repeated.Load())
		t.Logf("%d unkeyed POSTs: %d of them arrived, %d twice, %d lost and told so, %d attempts not sent and each made again", posts, len(arrived), twice, lost.Load(), unsent.Load())
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
