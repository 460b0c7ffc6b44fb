package polite_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
)

// Whichever bound is the nearer one, the error has the same shape: the reason,
// that time was the bound, and the last failure.
//
// Case C033.
func TestBothBoundsOfACallFailAlike(t *testing.T) {
	for name, within := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx = polite.WithOverrides(ctx, polite.Overrides{MaxElapsed: -1})
			return context.WithTimeout(ctx, time.Second)
		},
		"MaxElapsed": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return polite.WithOverrides(ctx, polite.Overrides{MaxElapsed: time.Second}), func() {}
		},
	} {
		for _, lost := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, lost %t", name, lost), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sent := 0
					o := steadily(roundTripper(func(req *http.Request) (*http.Response, error) {
						if sent++; lost {
							return nil, errLost
						}
						return answered(req, 503, ""), nil
					}))
					o.Retry.Backoff = polite.Constant(400 * time.Millisecond)
					o.Retry.MaxAttempts = 100
					ctx, cancel := within(t.Context())
					defer cancel()
					start := time.Now()
					resp, err := polite.New(o).Get(ctx, aCoffee)
					assert.Equal(t, 800*time.Millisecond, time.Since(start), "the fourth would be too late")
					assert.Equal(t, 3, sent)
					var reason polite.Reason
					if lost {
						var e *polite.RetryError
						require.ErrorAs(t, err, &e)
						assert.ErrorIs(t, err, errLost)
						reason = e.Reason
					} else {
						require.NoError(t, err)
						e := responseError(t, resp)
						assert.Equal(t, 503, e.StatusCode)
						reason, err = e.Reason, e
					}
					assert.Equal(t, polite.ReasonTime, reason)
					assert.ErrorIs(t, err, context.DeadlineExceeded)
					var wait *polite.WaitError
					require.ErrorAs(t, err, &wait)
					assert.Equal(t, name, wait.Bound)
				})
			})
		}
	}
}

// A call that ends with an error of the caller's own has closed every body, the
// last one included.
//
// Case C043.
func TestFetchThatReturnsOnlyAnErrorHasClosedEveryBody(t *testing.T) {
	errOwn := errors.New("not what I expected")
	for _, last := range []int{200, 503} {
		synctest.Test(t, func(t *testing.T) {
			bodies := &counting{base: serving(t, politetest.Respond(503).WithBody("busy").Times(3), politetest.Respond(last).WithBody("last")).Transport()}
			resp, err := polite.New(steadily(bodies)).Fetch(request(t, http.MethodGet, aCoffee, ""), func(*http.Response, []byte) error { return errOwn })
			if last == 200 {
				assert.Nil(t, resp)
				assert.ErrorIs(t, err, errOwn)
			} else {
				require.ErrorAs(t, err, new(*polite.ResponseError))
			}
			assert.EqualValues(t, 4, bodies.opened.Load())
			assert.Zero(t, bodies.open())
		})
	}
}

// A cost-based bucket of 1,000 that gives 50 back every second, kept by the
// client itself: how long a call waits depends on what it costs, and a cost that
// can never be met fails at once.
//
// Case C143.
func TestCostDecidesHowLongACallWaits(t *testing.T) {
	for _, tc := range []struct {
		spent, next int
		want        time.Duration
	}{{502, 502, 80 * time.Millisecond}, {900, 600, 10 * time.Second}, {400, 600, 0}} {
		synctest.Test(t, func(t *testing.T) {
			s := serving(t)
			o := steadily(s.Transport())
			o.Cost = func(req *http.Request) int {
				cost, err := strconv.Atoi(req.URL.Query().Get("cost"))
				require.NoError(t, err)
				return cost
			}
			const per = 20 // seconds; N less Burst comes back in them, and one more
			o.Limit.Rates = []polite.Rate{{N: 1000 + 50*per - 1, Per: per * time.Second, Burst: 1000}}
			c := polite.New(o)
			ask := func(cost int) error {
				resp, err := c.Get(t.Context(), fmt.Sprintf("http://api.test/graphql?cost=%d", cost))
				if err == nil {
					readBody(t, resp)
				}
				return err
			}
			start := time.Now()
			require.NoError(t, ask(tc.spent))
			require.NoError(t, ask(tc.next))
			assert.Equal(t, tc.want, time.Since(start))

			var wait *polite.WaitError
			require.ErrorAs(t, ask(2000), &wait)
			assert.Equal(t, "Rate.N", wait.Bound)
			assert.Equal(t, tc.want, time.Since(start), "at once")
			assert.Equal(t, 2, s.Requests())
		})
	}
}

// A hundred thousand hosts, one request each, take no more memory than a few
// thousand.
//
// Case C169.
func TestMemoryOfHostsStaysFlat(t *testing.T) {
	hosts := 100_000
	if raceDetector {
		hosts /= 10
	}
	c := polite.New(&polite.Options{Base: roundTripper(func(req *http.Request) (*http.Response, error) {
		return answered(req, 200, "", "X-RateLimit-Limit", "100", "X-RateLimit-Remaining", "99", "X-RateLimit-Reset", "60"), nil
	})})
	visit := func(from, to int) uint64 {
		for i := from; i < to; i++ {
			resp, err := c.Get(t.Context(), "http://host"+strconv.Itoa(i)+".test/")
			require.NoError(t, err)
			resp.Body.Close()
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	early := visit(0, 2000)
	late := visit(2000, hosts)
	known := 0
	for range c.Transport().Hosts() {
		known++
	}
	assert.Equal(t, 1024, known)
	assert.Less(t, late, early+1<<20)
}

// The base that signs sees each attempt, once the wait is over and with the
// attempt's own body: a server that refuses a spent token, an old stamp or a
// wrong digest is satisfied.
//
// Cases C201, C203.
func TestEveryAttemptIsSignedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const order = "the whole order"
		var tokens []string
		signer := func(base http.RoundTripper) http.RoundTripper {
			return roundTripper(func(req *http.Request) (*http.Response, error) {
				body, err := io.ReadAll(req.Body)
				require.NoError(t, err)
				require.NoError(t, req.Body.Close())
				tokens = append(tokens, fmt.Sprint("t", len(tokens)+1))
				signed := req.Clone(req.Context())
				signed.Header.Set("Authorization", tokens[len(tokens)-1])
				signed.Header.Set("Stamp", time.Now().Format(time.RFC3339))
				signed.Header.Set("Digest", string(body))
				return base.RoundTrip(signed)
			})
		}
		attempts := 0
		server := roundTripper(func(req *http.Request) (*http.Response, error) {
			attempts++
			stamp, err := time.Parse(time.RFC3339, req.Header.Get("Stamp"))
			require.NoError(t, err)
			switch {
			case time.Since(stamp) > 15*time.Minute || req.Header.Get("Digest") != order:
				return answered(req, 400, ""), nil
			case attempts == 1:
				return answered(req, 429, "", "Retry-After", "1200"), nil
			case attempts == 2:
				return answered(req, 503, ""), nil
			case req.Header.Get("Authorization") != "t3":
				return answered(req, 401, ""), nil
			}
			return answered(req, 200, ""), nil
		})
		o := steadily(signer(server))
		o.Retry.MaxWait, o.Retry.MaxElapsed, o.Limit.MaxWait = time.Hour, time.Hour, time.Hour
		resp, _ := do(t, polite.New(o), request(t, http.MethodPut, aCoffee, order))
		assert.Equal(t, 200, resp.StatusCode)
		assert.Equal(t, []string{"t1", "t2", "t3"}, tokens)
	})
}
