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
	"time"

	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
)

// weather is a base transport in which anything may happen, until it is fair.
type weather struct {
	mu     sync.Mutex
	random *rand.Rand
	fair   atomic.Bool
	busy   atomic.Bool  // the next answer in fair weather is a 503
	open   atomic.Int64 // response bodies
}

func (w *weather) intN(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n)
}

func (w *weather) upTo(d time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Duration(w.random.Int64N(int64(d)))
}

// fairly is the status of an answer in fair weather.
func (w *weather) fairly() int {
	if w.busy.CompareAndSwap(true, false) {
		return 503
	}
	return 200
}

func (w *weather) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		if w.intN(3) > 0 {
			io.Copy(io.Discard, req.Body)
		}
		defer req.Body.Close()
	}
	if w.fair.Load() {
		return answered(req, w.fairly(), "fair"), nil
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
func moody(w *weather, base http.RoundTripper) *polite.Options {
	o := &polite.Options{
		Base:     base,
		QuotaKey: func(*http.Request) string { w.mood(60); return []string{"", "", "a", "b"}[w.intN(4)] },
		Cost:     func(*http.Request) int { w.mood(60); return w.cost() },
		Classify: func(resp *http.Response, err error) polite.Verdict {
			w.mood(60)
			if resp != nil && w.intN(20) == 0 {
				polite.PeekBody(resp, 7)
			}
			return polite.DefaultClassify(resp, err)
		},
		Trace: &polite.Trace{
			Wait:      func(polite.WaitEvent) { w.mood(60) },
			Attempt:   func(polite.AttemptEvent) { w.mood(60) },
			Quota:     func(polite.QuotaEvent) { w.mood(60) },
			Gate:      func(polite.GateEvent) { w.mood(60) },
			Breaker:   func(polite.BreakerEvent) { w.mood(60) },
			Stop:      func(polite.StopEvent) { w.mood(60) },
			Diagnosis: func(polite.DiagnosisEvent) { w.mood(10) },
		},
	}
	o.Limit.MaxInFlight = w.intN(3)
	o.Limit.MaxWaiting = []int{0, 0, 2}[w.intN(3)]
	o.Limit.Adaptive = w.intN(4) == 0
	if w.intN(3) == 0 {
		o.Limit.Rates = []polite.Rate{polite.PerSecond(2), {N: 30, Per: time.Minute, Burst: 3}}
	}
	o.Breaker.Failures = []int{0, 1, 2, -1}[w.intN(4)]
	o.Preemptive.Disable = w.intN(4) == 0
	o.Retry.GenerateKeys = w.intN(2) == 0
	o.Retry.AttemptTimeout = []time.Duration{0, time.Second}[w.intN(2)]
	o.Retry.Backoff = func(attempt int) time.Duration { // the default one, with the round's own luck
		w.mood(60)
		once := min(time.Second<<(attempt-1), 40*time.Second)
		return once/2 + w.upTo(once)
	}
	return o
}

// cost is one unit in fair weather: a larger one than any before waits for its
// own tokens.
func (w *weather) cost() int {
	if w.fair.Load() {
		return 1
	}
	return w.intN(3)
}

// mood panics once in so many times, unless the weather is fair.
func (w *weather) mood(n int) {
	if w.intN(n) == 0 && !w.fair.Load() {
		panic("mood")
	}
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
	switch again := req.GetBody; {
	case w.intN(3) == 0:
		req.GetBody = nil
	case again != nil:
		req.GetBody = func() (io.ReadCloser, error) { w.mood(20); return again() }
	}
	if w.intN(3) == 0 {
		c.Fetch(req, func(*http.Response, []byte) error { w.mood(50); return nil })
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
// bodies, refusals, an open breaker), nothing stays taken, and the host
// recovers. Every eighth client has one real connection and no more.
func TestNothingStaysTakenWhateverHappens(t *testing.T) {
	randomly(t, 3_000, 1_000_000, 500, func(t *testing.T, random *rand.Rand) {
		w := &weather{random: random}
		base, open, stop := http.RoundTripper(w), w.open.Load, func() {}
		if w.intN(8) == 0 {
			base, open, stop = overOneConnection(w)
		}
		o := moody(w, base)
		c := polite.New(o)
		var calls sync.WaitGroup
		for range 1 + w.intN(6) {
			later := w.upTo(3 * time.Second)
			calls.Go(func() {
				time.Sleep(later)
				oneCall(t, w, c)
			})
		}
		calls.Wait()
		requireNothingTaken(t, c)
		require.Zero(t, open(), "open bodies")

		w.fair.Store(true)
		time.Sleep(3 * time.Minute)
		start := time.Now()
		resp, err := c.Get(t.Context(), aCoffee)
		require.NoError(t, err)
		require.Equal(t, "fair", readBody(t, resp))
		require.Zero(t, time.Since(start), "waits for nobody")
		require.Equal(t, polite.BreakerClosed, statsOf(t, c.Transport()).Breaker)
		if o.Breaker.Failures != 1 {
			w.busy.Store(true)
			resp, err = c.Get(t.Context(), aCoffee)
			require.NoError(t, err)
			require.Equal(t, "fair", readBody(t, resp))
			require.Equal(t, 2, polite.Attempts(resp), "the retry budget grants one")
		}
		requireNothingTaken(t, c)
		require.Zero(t, open(), "open bodies")
		stop()
	})
}

// requireNothingTaken looks into every book of every host.
func requireNothingTaken(t *testing.T, c *polite.Client) {
	t.Helper()
	for host, stats := range c.Transport().Hosts() {
		require.Zero(t, stats.InFlight, "in flight at %s", host)
		require.Zero(t, stats.Waiting, "waiting at %s", host)
	}
	require.Empty(t, polite.StillTaken(c.Transport()))
}
