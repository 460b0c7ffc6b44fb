package polite_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
)

// tape is a fuzzer's input, read as a row of choices; behind its end all of
// them are 0.
type tape struct {
	mu   sync.Mutex
	rest string
}

func (t *tape) choose(n int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rest == "" {
		return 0
	}
	b := t.rest[0]
	t.rest = t.rest[1:]
	return int(b) % n
}

// span is one of several durations, each used by some bound or window.
func (t *tape) span() time.Duration {
	spans := [...]time.Duration{0, time.Millisecond, 20 * time.Millisecond, 300 * time.Millisecond, time.Second,
		1500 * time.Millisecond, 7 * time.Second, 40 * time.Second}
	return spans[t.choose(len(spans))]
}

// stage is a base transport that plays what the tape says, and notes what the
// client does that it must not do.
type stage struct {
	*testing.T
	tape *tape
	most int // attempts per call

	mu     sync.Mutex
	calls  [8]played
	closed time.Time // nobody before it, after a 503 with a hint
	since  time.Time // the answer that said so was read then
	bodies int       // open ones
	absurd bool      // a reset lies years ahead
}

// played is one call as the stage has seen it.
type played struct {
	body   string
	safe   bool      // it may be repeated although it has arrived
	sent   int       // attempts
	spent  bool      // an attempt has arrived, and it is not safe
	before time.Time // its next attempt must not come before
}

func (s *stage) RoundTrip(req *http.Request) (*http.Response, error) {
	now := time.Now()
	id, err := strconv.Atoi(req.Header.Get("Call"))
	require.NoError(s, err)
	fault := s.tape.choose(16)
	unsent := fault == 1 // though perhaps read

	s.mu.Lock()
	p := &s.calls[id]
	p.sent++
	assert.LessOrEqual(s, p.sent, s.most, "attempts of call %d", id)
	assert.False(s, p.spent, "call %d came again", id)
	assert.False(s, now.Before(p.before), "call %d came %s early", id, p.before.Sub(now))
	assert.False(s, now.After(s.since) && now.Before(s.closed), "call %d passed a closed gate", id)
	p.spent = !unsent && !p.safe
	s.mu.Unlock()

	if req.Body != nil {
		defer req.Body.Close()
		if !unsent || s.tape.choose(2) == 1 {
			body, err := io.ReadAll(req.Body)
			assert.NoError(s, err)
			assert.Equal(s, p.body, string(body), "body of call %d", id)
		}
	}
	select {
	case <-req.Context().Done():
		return nil, context.Cause(req.Context())
	case <-time.After(s.tape.span()):
	}
	switch fault {
	case 1:
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	case 2:
		return nil, errLost
	case 3:
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	return s.answer(req, p), nil
}

// answer is a response with headers of any mood.
func (s *stage) answer(req *http.Request, p *played) *http.Response {
	statuses := [...]int{200, 200, 429, 503, 500, 404, 502}
	resp := answered(req, statuses[s.tape.choose(len(statuses))], "ten bytes.")
	skew := time.Duration(0)
	if s.tape.choose(4) == 1 {
		skew = time.Duration(s.tape.choose(256)-128) * time.Second / 4
		resp.Header.Set("Date", time.Now().Add(skew).UTC().Format(http.TimeFormat))
	}
	hint := s.hint(resp, skew)
	s.quota(resp)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch resp.StatusCode {
	case 503:
		if hint.After(s.closed) && hint.After(time.Now()) {
			s.closed, s.since = hint, time.Now()
		}
		fallthrough
	case 429, 502:
		p.before = hint
	}
	s.bodies++
	resp.Body = &playedBody{stage: s, ctx: req.Context(), rest: "ten bytes.", mood: s.tape.choose(8)}
	return resp
}

// hint says in one way or another how long to wait, and returns the instant.
func (s *stage) hint(resp *http.Response, skew time.Duration) time.Time {
	now, seconds := time.Now(), s.tape.choose(80)
	switch s.tape.choose(8) {
	case 1:
		resp.Header.Set("Retry-After", strconv.Itoa(seconds))
		return now.Add(time.Duration(seconds) * time.Second)
	case 2:
		resp.Header.Set("Retry-After-Ms", strconv.Itoa(10*seconds))
		return now.Add(time.Duration(seconds) * 10 * time.Millisecond)
	case 3:
		there := now.Add(skew)
		at := there.Add(time.Duration(seconds) * time.Second).Truncate(time.Second)
		resp.Header.Set("Retry-After", at.UTC().Format(http.TimeFormat))
		return now.Add(at.Sub(there))
	case 4:
		junk := [...]string{"soon", "-5", "nan", "0x10", "1e9", "", "Sunday, 06-Nov-94 08:49:37 GMT", ";;;=,\"", "0"}
		resp.Header.Set("Retry-After", junk[seconds%len(junk)])
	}
	return time.Time{}
}

// quota tells of a quota, truly or not.
func (s *stage) quota(resp *http.Response) {
	numbers := [...]string{"1", "0", "2", "5", "10", "60", "100", "-1", "-7", "9223372036854775807", "1e3", "", "99999999999999999999999"}
	number := func() string { return numbers[s.tape.choose(len(numbers))] }
	reset := func() string {
		n := number()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.absurd = s.absurd || len(n) > 10
		return n
	}
	switch h := resp.Header; s.tape.choose(8) {
	case 1, 2:
		h.Set("X-RateLimit-Limit", number())
		h.Set("X-RateLimit-Remaining", number())
		h.Set("X-RateLimit-Reset", reset())
	case 3:
		h.Set("Aroma-RateLimit-Limit", number())
		h.Set("Aroma-RateLimit-Restants", number())
		h.Set("Aroma-RateLimit-Reinici", strconv.FormatInt(time.Now().Unix()+int64(s.tape.choose(80))-10, 10))
	case 4:
		h.Set("RateLimit-Policy", `"a";q=`+number()+`;w=`+reset()+`, "b";q=`+number()+`;w=`+reset())
		h.Set("RateLimit", `"a";r=`+number()+`;t=`+reset()+`, "b";r=`+number()+`;t=`+reset())
	case 5:
		h.Set("X-RateLimit-Remaining", number())
	}
}

// playedBody is a response body that ends, breaks off or stalls.
type playedBody struct {
	stage *stage
	ctx   context.Context
	rest  string
	mood  int
	once  sync.Once
}

func (b *playedBody) Read(p []byte) (int, error) {
	switch {
	case b.mood == 1:
		return 0, io.ErrUnexpectedEOF
	case b.mood == 2:
		<-b.ctx.Done()
		return 0, context.Cause(b.ctx)
	case b.rest == "":
		return 0, io.EOF
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *playedBody) Close() error {
	b.once.Do(func() {
		b.stage.mu.Lock()
		b.stage.bodies--
		b.stage.mu.Unlock()
	})
	return nil
}

// play makes one call as the tape says, within its bounds.
func (s *stage) play(c *polite.Client, id int) {
	p := &s.calls[id]
	method := [...]string{http.MethodGet, http.MethodPut, http.MethodPost}[s.tape.choose(3)]
	p.safe = method != http.MethodPost
	if method != http.MethodGet {
		p.body = strings.Repeat("body ", 1+s.tape.choose(3))
	}
	req := request(s, method, aCoffee, p.body, "Call", strconv.Itoa(id))
	if s.tape.choose(2) == 1 {
		req.GetBody = nil
	}
	if s.tape.choose(3) == 1 {
		req.Header.Set("Idempotency-Key", strconv.Itoa(id))
		p.safe = true
	}
	time.Sleep(s.tape.span())
	start, bound := time.Now(), maxElapsed
	ctx := s.Context()
	if s.tape.choose(3) == 1 {
		bound = s.tape.span()
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, bound)
		defer cancel()
	}
	const slack = 200 * time.Millisecond // an answer that stalls is drained for so long
	if s.tape.choose(3) == 1 {
		resp, err := c.Fetch(req.WithContext(ctx), nil)
		assert.LessOrEqual(s, time.Since(start), bound+slack, "call %d", id)
		s.judge(id, resp, err)
		return
	}
	resp, err := c.Do(req.WithContext(ctx))
	assert.LessOrEqual(s, time.Since(start), bound+slack, "call %d", id)
	s.judge(id, resp, err)
	if err == nil {
		if s.tape.choose(2) == 1 {
			io.Copy(io.Discard, resp.Body)
		}
		resp.Body.Close()
	}
}

// judge looks at what a call came to.
func (s *stage) judge(id int, resp *http.Response, err error) {
	var failed *polite.ResponseError
	if err == nil || errors.As(err, &failed) && resp != nil {
		assert.Equal(s, s.calls[id].sent, polite.Attempts(resp), "attempts of call %d", id)
		return
	}
	assert.Nil(s, resp)
	var retry *polite.RetryError
	switch {
	case errors.As(err, &retry):
		assert.Equal(s, s.calls[id].sent, retry.Attempts)
	case errors.As(err, new(*polite.WaitError)), errors.As(err, new(*polite.CircuitOpenError)):
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, errLost), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNREFUSED):
	default:
		assert.Fail(s, "error of an unknown kind", "%T: %v", err, err)
	}
}

const maxElapsed = 2 * time.Minute

// FuzzRoundTrip plays whatever a server, a network and callers can do, and
// looks at what must hold whatever they do: no attempt early, too many or with
// another body, no repetition that is not safe, no call beyond its bounds,
// nothing left taken, and service as usual when the weather has cleared up.
func FuzzRoundTrip(f *testing.F) {
	f.Add("")
	f.Fuzz(func(t *testing.T, script string) {
		synctest.Test(t, func(t *testing.T) { playScript(t, script) })
	})
}

// playScript is one run, in a bubble of its own.
func playScript(t *testing.T, script string) {
	tape := &tape{rest: script}
	s := &stage{T: t, tape: tape, most: 1 + tape.choose(4)}
	o := steadily(s)
	o.Retry.MaxAttempts, o.Retry.MaxElapsed = s.most, maxElapsed
	o.Retry.AttemptTimeout = [...]time.Duration{0, time.Second}[tape.choose(2)]
	o.Preemptive.Threshold = [...]int{0, -1}[tape.choose(2)]
	o.Limit.MaxInFlight = tape.choose(3)
	o.Limit.Adaptive = tape.choose(2) == 1
	if tape.choose(3) == 1 {
		o.Limit.Rates = []polite.Rate{polite.PerSecond(2)}
	}
	o.Breaker.Failures = tape.choose(3)
	c := polite.New(o)
	var calls sync.WaitGroup
	for id := range 1 + tape.choose(6) {
		calls.Go(func() { s.play(c, id) })
	}
	calls.Wait()
	s.finish(c)
}

// finish looks at what is left when everybody is done.
func (s *stage) finish(c *polite.Client) {
	for _, host := range c.Transport().Hosts() {
		assert.Zero(s, host.InFlight)
		assert.Zero(s, host.Waiting)
	}
	assert.Zero(s, s.bodies, "open bodies")
	if s.absurd {
		return
	}
	s.tape.rest, s.most = "", 4
	time.Sleep(3 * time.Minute)
	for range 3 { // a server that falls silent is not kept waiting for
		s.calls[7] = played{safe: true}
		start := time.Now()
		resp, err := c.Do(request(s, http.MethodGet, aCoffee, "", "Call", "7"))
		if assert.NoError(s, err) {
			assert.Equal(s, "ten bytes.", readBody(s, resp))
		}
		assert.LessOrEqual(s, time.Since(start), time.Minute)
	}
}
