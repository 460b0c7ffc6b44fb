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

// virtualHour lets clients send about perClient requests each within one virtual hour, and returns the server.
func virtualHour(t *testing.T, seed uint64, clients, perClient int) *Server {
	t.Helper()
	var s *Server
	synctest.Test(t, func(t *testing.T) {
		s = Must(t, Config{
			Limit: Limit{Algorithm: TokenBucket, N: 600, Per: time.Hour, Capacity: 20}, Seed: seed, KeepArrivals: -1,
			Chances: []Chance{{P: 0.01, Reply: Respond(503, "Retry-After", "2")}},
		})
		var all sync.WaitGroup
		for i := range clients {
			transport := s.TransportFrom("198.18." + itoa(i/250) + "." + itoa(i%250))
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			all.Go(func() {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, BaseURL+"/v1/cafes/caf_00042", nil)
				if err != nil {
					t.Error(err)
					return
				}
				for range perClient {
					time.Sleep(time.Duration(r.Int64N(int64(2 * time.Hour / time.Duration(perClient)))))
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
	first, second, other := virtualHour(t, 1, 100, 50), virtualHour(t, 1, 100, 50), virtualHour(t, 2, 100, 50)
	assert.Equal(t, first.TraceHash(), second.TraceHash())
	assert.NotEqual(t, first.TraceHash(), other.TraceHash())
	assert.Equal(t, first.Scorecard().String(), second.Scorecard().String())
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

// A thousand clients in one virtual hour: with POLITE_SCALE=full a million requests, otherwise one in forty, so
// that the usual run stays short. It says how long that took; a machine's speed is no reason to fail.
func TestVirtualHourOfAThousandClients(t *testing.T) {
	clients, perClient := 1000, 25
	if os.Getenv("POLITE_SCALE") == "full" {
		perClient = 1000
	}
	// One request at a time is all that virtual time has to do: a second processor only adds wake-ups, and
	// a heap of a few megabytes would be collected all the time.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	start := time.Now()
	s := virtualHour(t, 7, clients, perClient)
	t.Logf("%d requests in %s of real time, %d refused, trace %s", s.Requests(), time.Since(start), s.Refusals(), s.TraceHash())
	require.Equal(t, clients*perClient, s.Requests())
	assert.Len(t, s.Scorecard().Clients, clients)
	assert.LessOrEqual(t, s.own.Len(), clients, "one counter per client at most")
}
