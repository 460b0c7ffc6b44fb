package httptest

import (
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// hour is a virtual hour, or the beginning of one, in the life of clients that send a request every 3.6 seconds on
// average: a thousand in the hour.
type hour struct {
	clients, perClient int
	grid               time.Duration // the marks of the clock on which they act; 0 = at any nanosecond
	seed               uint64
}

// live returns the server that the clients have called. The seeds decide when each of them does so.
func (h hour) live(t *testing.T) *Server {
	t.Helper()
	var s *Server
	synctest.Test(t, func(t *testing.T) {
		s = Must(t, Config{
			Limit: Limit{Algorithm: TokenBucket, N: 600, Per: time.Hour, Capacity: 20}, Seed: h.seed, KeepArrivals: -1,
			Chances: []Chance{{P: 0.01, Reply: Respond(503, "Retry-After", "2")}},
		})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, BaseURL+"/v1/cafes/caf_00042", nil)
		require.NoError(t, err)
		var all sync.WaitGroup
		for i := range h.clients {
			transport := s.TransportFrom("198.18." + itoa(i/250) + "." + itoa(i%250))
			r := rand.New(rand.NewPCG(h.seed, uint64(i)))
			all.Go(func() {
				for range h.perClient {
					time.Sleep(h.grid + time.Duration(r.Int64N(int64(7200*time.Millisecond-h.grid))).Truncate(h.grid))
					resp, err := transport.RoundTrip(req)
					if err != nil {
						t.Error(err)
						return
					}
					_ = resp.Body.Close()
				}
			})
		}
		all.Wait()
	})
	return s
}

func TestSameSeedGivesTheSameTrace(t *testing.T) {
	for _, grid := range []time.Duration{0, 100 * time.Millisecond} {
		h := hour{clients: 100, perClient: 50, grid: grid, seed: 1}
		first, second := h.live(t), h.live(t)
		h.seed = 2
		other := h.live(t)
		assert.Equal(t, first.TraceHash(), second.TraceHash())
		assert.NotEqual(t, first.TraceHash(), other.TraceHash())
		assert.Equal(t, first.Scorecard().String(), second.Scorecard().String())
	}
}

func TestTraceIsTheSameOnAnyNumberOfProcessors(t *testing.T) {
	for seed := range uint64(5) {
		h := hour{clients: 200, perClient: 20, grid: 100 * time.Millisecond, seed: seed}
		many := h.live(t)
		one := func() *Server {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			return h.live(t)
		}()
		assert.Equal(t, one.TraceHash(), many.TraceHash(), "seed %d", seed)
		assert.Equal(t, one.Scorecard().String(), many.Scorecard().String(), "seed %d", seed)
	}
}

func TestTraceTellsOneArrivalFromAnother(t *testing.T) {
	a := Arrival{At: epoch, Method: "GET", Path: "/v1/cafes", Client: "usr:1", Status: 200}
	hash := func(arrivals ...Arrival) uint64 {
		var tr trace
		for i := range arrivals {
			tr.add(&arrivals[i])
		}
		return tr.folded()
	}
	b := a
	b.Status = 429
	later := a
	later.At = epoch.Add(1)
	assert.NotEqual(t, hash(a), hash(b))
	assert.NotEqual(t, hash(a), hash(later))
	assert.NotEqual(t, hash(a), hash(a, a))
	assert.Equal(t, hash(a, b), hash(b, a), "of one instant")
	assert.NotEqual(t, hash(a, later), hash(later, a))
}

// A thousand clients in one virtual hour: with POLITE_SCALE=full a million requests, otherwise the hour's first ninety
// seconds. They act on the tenths of a clock's second, as timers do, so that all processors have work at an instant;
// or each at a nanosecond of its own, one after the other. The log says how long it took: a machine's speed is no
// reason to fail.
func TestVirtualHourOfAThousandClients(t *testing.T) {
	h := hour{clients: 1000, perClient: 25, seed: 7}
	if os.Getenv("POLITE_SCALE") == "full" {
		h.perClient = 1000
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // a heap of a few megabytes would be collected all the time
	for _, run := range []struct {
		name       string
		grid       time.Duration
		processors int
	}{
		{"on a clock", 100 * time.Millisecond, runtime.GOMAXPROCS(0)},
		{"at any instant", 0, 1}, // a second processor would only add wake-ups
	} {
		t.Run(run.name, func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(run.processors))
			h.grid = run.grid
			start := time.Now()
			s := h.live(t)
			t.Logf("%d requests in %s of real time, %d refused, trace %s", s.Requests(), time.Since(start), s.Refusals(), s.TraceHash())
			require.Equal(t, h.clients*h.perClient, s.Requests())
			assert.Len(t, s.Scorecard().Clients, h.clients)
			assert.LessOrEqual(t, s.own.Len(), h.clients, "one counter per client at most")
		})
	}
}
