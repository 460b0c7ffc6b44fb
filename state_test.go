package polite_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
)

// weather is a base transport in which anything may happen, until it is fair.
type weather struct {
	mu     sync.Mutex
	random *rand.Rand
	fair   atomic.Bool
	open   atomic.Int64 // response bodies
}

func (w *weather) intN(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n)
}

func (w *weather) upTo(d time.Duration) time.Duration { return time.Duration(w.intN(int(d))) }

func (w *weather) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		if w.intN(3) > 0 {
			io.Copy(io.Discard, req.Body)
		}
		defer req.Body.Close()
	}
	if w.fair.Load() {
		return answered(req, 200, "fair"), nil
	}
	switch w.intN(4) {
	case 0:
		time.Sleep(w.upTo(2 * time.Second))
	case 1:
		select {
		case <-req.Context().Done():
			return nil, context.Cause(req.Context())
		case <-time.After(w.upTo(40 * time.Second)):
		}
	}
	resp := answered(req, 200, "some words in a body")
	switch w.intN(14) {
	case 0:
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	case 1:
		return nil, errLost
	case 2:
		panic("base")
	case 3:
		<-req.Context().Done()
		return nil, context.Cause(req.Context())
	case 4:
		resp.StatusCode = 503
	case 5:
		resp.StatusCode = 503
		resp.Header.Set("Retry-After", strconv.Itoa(w.intN(70)))
	case 6:
		resp.StatusCode = 429
	case 7:
		resp.StatusCode = 429
		resp.Header.Set("Retry-After", strconv.Itoa(w.intN(70)))
	case 8:
		resp.StatusCode = []int{301, 404, 500, 502}[w.intN(4)]
	case 9, 10:
		resp.Header.Set("X-RateLimit-Limit", "20")
		resp.Header.Set("X-RateLimit-Remaining", strconv.Itoa(w.intN(20)))
		resp.Header.Set("X-RateLimit-Reset", strconv.Itoa(1+w.intN(60)))
	}
	w.open.Add(1)
	resp.Body = &weatherBody{weather: w, ctx: req.Context(), rest: resp.ContentLength, end: w.intN(6), closed: make(chan struct{})}
	return resp, nil
}

// weatherBody is a body that ends, stalls or breaks half way.
type weatherBody struct {
	weather *weather
	ctx     context.Context
	rest    int64
	end     int
	once    sync.Once
	closed  chan struct{}
}

func (b *weatherBody) Read(p []byte) (int, error) {
	switch {
	case b.rest == 0:
		return 0, io.EOF
	case b.rest < 10 && b.end == 0:
		return 0, io.ErrUnexpectedEOF
	case b.rest < 10 && b.end == 1:
		select {
		case <-b.ctx.Done():
			return 0, b.ctx.Err()
		case <-b.closed:
			return 0, net.ErrClosed
		}
	}
	n := min(int64(len(p)), b.rest, 4)
	b.rest -= n
	return int(n), nil
}

func (b *weatherBody) Close() error {
	b.once.Do(func() { close(b.closed); b.weather.open.Add(-1) })
	return nil
}

// moody are options of which each function may panic.
func moody(w *weather) *polite.Options {
	mood := func() {
		if w.intN(60) == 0 && !w.fair.Load() {
			panic("mood")
		}
	}
	o := &polite.Options{
		Base:     w,
		QuotaKey: func(*http.Request) string { mood(); return []string{"", "", "a", "b"}[w.intN(4)] },
		Cost:     func(*http.Request) int { mood(); return w.intN(3) },
		Classify: func(resp *http.Response, err error) polite.Verdict {
			mood()
			if resp != nil && w.intN(20) == 0 {
				polite.PeekBody(resp, 7)
			}
			return polite.DefaultClassify(resp, err)
		},
		Trace: &polite.Trace{
			Wait:    func(polite.WaitEvent) { mood() },
			Attempt: func(polite.AttemptEvent) { mood() },
			Quota:   func(polite.QuotaEvent) { mood() },
			Gate:    func(polite.GateEvent) { mood() },
			Breaker: func(polite.BreakerEvent) { mood() },
			Stop:    func(polite.StopEvent) { mood() },
		},
	}
	o.Limit.MaxInFlight = w.intN(3)
	o.Limit.MaxWaiting = []int{0, 0, 2}[w.intN(3)]
	if w.intN(3) == 0 {
		o.Limit.Rates = []polite.Rate{polite.PerSecond(2), {N: 30, Per: time.Minute, Burst: 3}}
	}
	o.Breaker.Failures = []int{0, 1, 2, -1}[w.intN(4)]
	o.Preemptive.Disable = w.intN(4) == 0
	o.Retry.GenerateKeys = w.intN(2) == 0
	o.Retry.AttemptTimeout = []time.Duration{0, time.Second}[w.intN(2)]
	return o
}

// oneCall makes one call in one of many ways; a panic of a hook ends it.
func oneCall(t *testing.T, w *weather, c *polite.Client) {
	defer func() { recover() }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	switch w.intN(4) {
	case 0:
		defer time.AfterFunc(w.upTo(20*time.Second), cancel).Stop()
	case 1:
		ctx, cancel = context.WithTimeout(ctx, w.upTo(time.Minute))
		defer cancel()
	}
	body := []string{"", "a body"}[w.intN(2)]
	req := request(t, []string{http.MethodGet, http.MethodPut, http.MethodPost}[w.intN(3)], aCoffee, body).WithContext(ctx)
	if w.intN(3) == 0 {
		req.GetBody = nil
	}
	if w.intN(3) == 0 {
		c.Fetch(req, func(*http.Response, []byte) error {
			if w.intN(50) == 0 {
				panic("decode")
			}
			return nil
		})
		return
	}
	resp, err := c.Do(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	if w.intN(2) == 0 {
		time.Sleep(w.upTo(5 * time.Second))
	}
	if w.intN(2) == 0 {
		io.Copy(io.Discard, resp.Body)
	}
}

// Whatever happens (cancellations, panics, time-outs, late answers, stalled
// bodies), nothing stays taken, and the host recovers.
func TestNothingStaysTakenWhateverHappens(t *testing.T) {
	schedules := uint64(8_000)
	if raceDetector {
		schedules /= 10
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		for n := range schedules {
			w := &weather{random: rand.New(rand.NewPCG(seed, n))}
			c := polite.New(moody(w))
			var calls sync.WaitGroup
			for range 1 + w.intN(6) {
				calls.Go(func() {
					time.Sleep(w.upTo(3 * time.Second))
					oneCall(t, w, c)
				})
			}
			calls.Wait()
			for _, stats := range c.Transport().Hosts() {
				require.Zero(t, stats.InFlight, "in flight, schedule %d", n)
				require.Zero(t, stats.Waiting, "waiting, schedule %d", n)
			}
			require.Zero(t, w.open.Load(), "open bodies, schedule %d", n)

			w.fair.Store(true)
			time.Sleep(3 * time.Minute)
			resp, err := c.Get(t.Context(), aCoffee)
			require.NoError(t, err, "schedule %d", n)
			require.Equal(t, "fair", readBody(t, resp))
			require.Equal(t, polite.BreakerClosed, statsOf(t, c.Transport()).Breaker, "schedule %d", n)
			require.Zero(t, statsOf(t, c.Transport()).InFlight)
		}
	})
}
