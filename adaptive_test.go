package polite_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
)

// learner is a client that learns; its backoff has no jitter, so that runs can
// be repeated.
func learner(base http.RoundTripper) *polite.Client {
	o := steadily(base)
	o.Limit = polite.LimitOptions{Adaptive: true, MaxWait: time.Hour}
	o.Retry.MaxElapsed = time.Hour
	return polite.New(o)
}

// spell is a time with one limit, which nothing is told about.
type spell struct {
	server *politetest.Server
	from   time.Duration
	rate   float64 // per second
}

// hidden are consecutive spells of silent servers with so many per second each.
func hidden(t *testing.T, limit politetest.Limit, length time.Duration, rates ...int) (spells []spell) {
	for i, n := range rates {
		limit.N, limit.Per = n, time.Second
		spells = append(spells, spell{
			server: politetest.Must(t, politetest.Config{Silent: true, Limit: limit, Latency: roundTime}),
			from:   time.Duration(i) * length, rate: float64(n),
		})
	}
	return spells
}

// flood has sixteen goroutines send what the client lets through, from one
// spell into the next, and returns when it began and how many callers saw
// something else than 200.
func flood(t *testing.T, spells []spell, until time.Duration) (start time.Time, failed int64) {
	start = time.Now()
	client := learner(roundTripper(func(req *http.Request) (*http.Response, error) {
		at := len(spells) - 1
		for time.Since(start) < spells[at].from {
			at--
		}
		return spells[at].server.Transport().RoundTrip(req)
	}))
	var others atomic.Int64
	crowd(16, 16, func(int) {
		for time.Since(start) < until {
			if fetch(t.Context(), client, aCoffee) != http.StatusOK {
				others.Add(1)
			}
		}
	})
	return start, others.Load()
}

// seen is what the server of a spell saw.
type seen struct {
	spell
	start    time.Time
	arrivals []politetest.Arrival
}

func (s spell) seen(start time.Time) seen { return seen{s, start, s.server.Arrivals()} }

// between counts what arrived in a time since the start.
func (s seen) between(from, to time.Duration) (admitted, refused int) {
	first, _ := slices.BinarySearchFunc(s.arrivals, s.start.Add(from), func(a politetest.Arrival, at time.Time) int { return a.At.Compare(at) })
	for _, a := range s.arrivals[first:] {
		switch {
		case a.At.Sub(s.start) >= to:
			return admitted, refused
		case a.Status == http.StatusOK:
			admitted++
		default:
			refused++
		}
	}
	return admitted, refused
}

// share is the part of the limit that was used in a time since the start.
func (s seen) share(from, length time.Duration) float64 {
	admitted, _ := s.between(from, from+length)
	return float64(admitted) / (s.rate * length.Seconds())
}

// first is the earliest time after from at which a whole second's use lies
// within the bounds, an hour if there is none.
func (s seen) first(from time.Duration, least, most float64) time.Duration {
	for at := from; at < from+19*time.Second; at += 50 * time.Millisecond {
		if used := s.share(at, time.Second); used >= least && used <= most {
			return at - from
		}
	}
	return time.Hour
}

// refused is when the first request was refused.
func (s seen) refused() time.Duration {
	i := slices.IndexFunc(s.arrivals, func(a politetest.Arrival) bool { return a.Status != http.StatusOK })
	if i < 0 {
		return time.Hour
	}
	return s.arrivals[i].At.Sub(s.start)
}

// algorithms are limits that nobody tells about, each counted in its way.
var algorithms = []struct {
	name  string
	limit politetest.Limit
}{
	{"token bucket", politetest.Limit{Algorithm: politetest.TokenBucket}},
	{"small token bucket", politetest.Limit{Algorithm: politetest.TokenBucket, Capacity: 5}},
	{"fixed window", politetest.Limit{Algorithm: politetest.FixedWindow}},
	{"sliding log", politetest.Limit{Algorithm: politetest.SlidingLog}},
	{"sliding counter", politetest.Limit{Algorithm: politetest.SlidingCounter}},
}

// phases are the places in the server's window at which the client begins: the
// two that have proved hardest, or with POLITE_SCALE=full twenty.
func phases() (all []time.Duration) {
	if os.Getenv("POLITE_SCALE") != "full" {
		return []time.Duration{450 * time.Millisecond, 950 * time.Millisecond}
	}
	for at := time.Duration(0); at < time.Second; at += 50 * time.Millisecond {
		all = append(all, at)
	}
	return all
}

// overAll runs a test for every algorithm and phase.
func overAll(t *testing.T, test func(t *testing.T, limit politetest.Limit)) {
	for _, a := range algorithms {
		for _, phase := range phases() {
			t.Run(fmt.Sprintf("%s/%v", a.name, phase), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					time.Sleep(phase)
					test(t, a.limit)
				})
			})
		}
	}
}

const (
	steady  = 25 * time.Second        // the length of a spell
	learned = 6700 * time.Millisecond // after the first refusal, when a hidden limit is known
)

// A limit of 50 per second that nobody tells about is found and then used, and
// when it doubles the client follows.
func TestAdaptiveFindsAHiddenLimitAndFollowsItUp(t *testing.T) {
	overAll(t, func(t *testing.T, limit politetest.Limit) {
		spells := hidden(t, limit, steady, 50, 100)
		start, failed := flood(t, spells, 2*steady)
		before, doubled := spells[0].seen(start), spells[1].seen(start)

		from := before.refused()
		found := before.first(from, 0.9, 1.1)
		used := before.share(from+learned, steady-learned-from)
		admitted, refused := before.between(from+learned, steady)
		refusals := float64(refused) / float64(admitted+refused)
		followed := doubled.first(steady, 0.95, 2)
		t.Logf("found after %v, use %.3f, refused %.4f, followed after %v", found, used, refusals, followed)

		assert.Zero(t, failed, "callers that saw a refusal")
		assert.LessOrEqual(t, found, learned)
		assert.GreaterOrEqual(t, used, 0.95)
		assert.LessOrEqual(t, refusals, 0.02)
		assert.LessOrEqual(t, followed, 8400*time.Millisecond)
	})
}

// When the limit halves, at most five requests are refused before the rate fits.
func TestAdaptiveFollowsAHiddenLimitDown(t *testing.T) {
	overAll(t, func(t *testing.T, limit politetest.Limit) {
		spells := hidden(t, limit, steady, 50, 25)
		start, failed := flood(t, spells, 2*steady)
		halved := spells[1].seen(start)

		fits := halved.first(steady, 0, 1.1)
		_, refused := halved.between(steady, steady+fits+time.Second)
		t.Logf("%d refusals, fits after %v", refused, fits)

		assert.Zero(t, failed, "callers that saw a refusal")
		assert.LessOrEqual(t, refused, 5)
		assert.LessOrEqual(t, fits, 2*time.Second)
	})
}

func TestAdaptiveSlowsNothingBeforeARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serving(t)
		client := learner(server.Transport())
		took := crowd(8, 1000, func(int) { fetch(t.Context(), client, aCoffee) })
		assert.Zero(t, took)
	})
}

func TestAdaptiveIsOffByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serving(t, politetest.Pass().Times(100), politetest.Respond(429))
		client := polite.New(steadily(server.Transport()))
		for range 100 {
			fetch(t.Context(), client, aCoffee)
			time.Sleep(20 * time.Millisecond)
		}
		start := time.Now()
		assert.Equal(t, http.StatusOK, fetch(t.Context(), client, aCoffee))
		assert.Equal(t, time.Second, time.Since(start))
	})
}

// After 50 per second were well, a refusal closes the gate for two requests' time at
// 35 per second instead of a second.
func TestAdaptiveClosesTheGateForTwoRequestsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serving(t, politetest.Pass().Times(101), politetest.Respond(429))
		var gate polite.GateEvent
		o := steadily(server.Transport())
		o.Limit.Adaptive = true
		o.Trace = &polite.Trace{Gate: func(e polite.GateEvent) { gate = e }}
		client := polite.New(o)
		for range 101 {
			fetch(t.Context(), client, aCoffee)
			time.Sleep(20 * time.Millisecond)
		}
		start := time.Now()
		assert.Equal(t, http.StatusOK, fetch(t.Context(), client, aCoffee))
		took := time.Since(start)
		assert.InDelta(t, 2/35.0, took.Seconds(), 0.001)
		assert.Equal(t, start.Add(took), gate.Until)
		assert.False(t, gate.Asked)
	})
}

func TestAdaptiveLeavesAHintToTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serving(t, politetest.Pass().Times(100), politetest.Respond(429, "Retry-After", "3"))
		client := learner(server.Transport())
		for range 100 {
			fetch(t.Context(), client, aCoffee)
			time.Sleep(20 * time.Millisecond)
		}
		start := time.Now()
		assert.Equal(t, http.StatusOK, fetch(t.Context(), client, aCoffee))
		assert.GreaterOrEqual(t, time.Since(start), 3*time.Second)
		start = time.Now()
		for range 3 {
			fetch(t.Context(), client, aCoffee)
		}
		assert.Zero(t, time.Since(start), "nothing was learned from it")
	})
}

func TestAdaptiveLeavesAnAnnouncedQuotaToTheLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serving(t,
			politetest.Respond(200, "RateLimit-Limit", "100", "RateLimit-Remaining", "90", "RateLimit-Reset", "60"),
			politetest.Respond(429))
		client := learner(server.Transport())
		fetch(t.Context(), client, aCoffee)
		start := time.Now()
		assert.Equal(t, http.StatusOK, fetch(t.Context(), client, aCoffee))
		assert.Equal(t, time.Second, time.Since(start), "the backoff")
	})
}

func TestAdaptiveStaysBelowConfiguredRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := politetest.Must(t, politetest.Config{Silent: true, Latency: roundTime,
			Limit: politetest.Limit{Algorithm: politetest.TokenBucket, N: 50, Per: time.Second, Capacity: 1}})
		client := polite.New(&polite.Options{Base: server.Transport(),
			Limit: polite.LimitOptions{Adaptive: true, Rates: []polite.Rate{polite.PerSecond(60)}}})
		crowd(16, 1000, func(int) { fetch(t.Context(), client, aCoffee) })
		assert.LessOrEqual(t, server.Scorecard().All.PeakSecond, 60)
		assert.Positive(t, server.Refusals())
	})
}

// A refusal in no time at all is no sign of a quick server, whether it is a 429
// or a 503.
//
// Case C095.
func TestAdaptiveSlowsDownHoweverQuickTheRefusals(t *testing.T) {
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := politetest.Pass().After(500 * time.Millisecond)
				server := serving(t, slow.Times(20), politetest.Respond(status).After(5*time.Millisecond).Times(2),
					slow.Times(-1))
				client := learner(server.Transport())
				before := crowd(4, 20, func(int) { fetch(t.Context(), client, aCoffee) })
				fetch(t.Context(), client, aCoffee)
				after := crowd(4, 20, func(int) { fetch(t.Context(), client, aCoffee) })
				assert.Greater(t, after, before)
			})
		})
	}
}

// Two quotas of one host are learned apart.
func TestAdaptiveLearnsEachQuotaOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serving(t, politetest.Respond(429).On("", "/search"))
		o := steadily(server.Transport())
		o.Limit.Adaptive = true
		o.QuotaKey = func(r *http.Request) string { return r.URL.Path }
		client := polite.New(o)
		fetch(t.Context(), client, "http://api.test/search")
		start := time.Now()
		for range 10 {
			fetch(t.Context(), client, aCoffee)
		}
		assert.Zero(t, time.Since(start))
	})
}
