package polite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Transport is an http.RoundTripper with all of polite's stages; it drops into
// any http.Client. Make one with [NewTransport] and share it: it is safe for
// concurrent use, and what it learned about a host serves everybody. It starts
// no goroutine and needs no closing. The zero Transport has the defaults.
type Transport struct {
	made  sync.Once // the rest; see make
	opts  Options
	usual Overrides // the settings of a call without any of its own
	base  http.RoundTripper
	hosts *hostTable
	wires wirePool
}

// NewTransport returns a Transport with the given options; nil means the
// defaults.
func NewTransport(opts *Options) *Transport {
	t := new(Transport)
	if opts != nil {
		t.opts = *opts
	}
	t.made.Do(t.make)
	return t
}

// make completes the options and makes what they need.
func (t *Transport) make() {
	o := &t.opts
	o.Retry.withDefaults()
	o.Limit.withDefaults()
	o.Preemptive.withDefaults()
	o.Breaker.withDefaults()
	o.MaxHosts = cmp.Or(o.MaxHosts, 1024)
	if t.base = o.Base; t.base == nil {
		t.base = newBase()
	}
	t.usual.complete(o)
	t.hosts = newHostTable(o, newDialects(o.Dialects))
}

// RoundTrip sends the request as often as it takes and the options allow; see
// the package documentation for what happens on the way. It keeps the contract
// of http.RoundTripper: the request is not changed, its body is always closed,
// and a response that arrived is returned with a nil error, whatever its
// status. Without a response the error is a [*RetryError], [*WaitError] or
// [*CircuitOpenError], the context's error when that ended the call, or one of no
// type of its own for a request that cannot be sent at all.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	t.made.Do(t.make)
	c := &call{t: t, req: req, ctx: req.Context(), set: &t.usual, now: time.Now()}
	defer c.end()
	if err := c.begin(); err != nil {
		return nil, c.giveUp(err)
	}
	for {
		if err := c.admission(); err != nil { // host.go: breaker, gate, ledger, limits; wait.go
			return nil, c.giveUp(err)
		}
		a := c.send()    // attempt.go, wire.go, body.go
		c.judge(a)       // headers.go reads, retry.go classifies, host.go keeps the books
		if !c.again(a) { // retry.go
			return c.conclude(a)
		}
		a.discard()
		if err := c.pause(a); err != nil {
			return nil, c.giveUp(err)
		}
	}
}

// call is one RoundTrip under way.
type call struct {
	t        *Transport
	req      *http.Request // the caller's; never changed
	ctx      context.Context
	host     *hostState
	trace    *Trace
	set      *Overrides // the options of this call; see settingsOf
	endpoint endpoint   // what its bucket is remembered by
	key      string     // Idempotency-Key, if any
	body     requestBody
	fetch    fetcher // reads and decodes the body; nil unless this is a Fetch

	now      time.Time // when the clock was looked at last: at the start, after a wait
	deadline time.Time // end of MaxElapsed; zero is none
	ctxEnd   time.Time // the context's deadline, for when it may not be called; zero is none
	tries    int       // attempts begun
	attempts int       // requests sent, net/http's own repetitions included
	reached  bool      // any of them may have reached the server
	departed bool      // admitted, and not yet entered as ended
	current  *attempt  // the one under way, until it is handed over

	// Guarded by the host's mutex.
	lane       *lane
	surcharge  *call  // its place in the books of a second quota; see levy
	order      uint64 // of the calls' beginning
	prev, next *call  // in the line, or among those in flight
	queued     bool
	shares     bool          // first in line, and waits for nothing but what all quotas share
	asks       bool          // about its quota: see mayAsk
	permit     func(Outcome) // the breaker's, to be given back once
	sentAt     time.Time
	units      int64 // all units sent on the lane up to and including this attempt

	wake  chan struct{} // the ruling may have changed
	first attempt       // room for the first attempt
}

// begin reads what the call is to be like; nothing is sent yet, and a call that
// is refused here has taken no place and no token.
func (c *call) begin() error {
	t, req := c.t, c.req
	c.body.orig, c.body.again = callerBodyOf(req), req.GetBody
	c.trace = t.opts.Trace
	if !nested(c.ctx) { // or else the outer Transport sees to it
		if trace, ok := c.ctx.Value(traceKey{}).(*Trace); ok {
			c.trace = joinTraces(trace, c.trace)
		}
		c.fetch, _ = c.ctx.Value(fetchKey{}).(fetcher)
	}
	if err := checkRequest(req); err != nil {
		return err
	}
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	c.ctxEnd, _ = c.ctx.Deadline()
	c.set = t.settingsOf(req)
	if t.opts.Surcharge != nil {
		c.levy(t.opts.Surcharge(req))
	}
	if c.set.MaxElapsed >= 0 {
		c.deadline = c.now.Add(c.set.MaxElapsed)
	}
	if t.opts.QuotaKey != nil || t.opts.Cost != nil || t.opts.Surcharge != nil { // which may have taken their time
		c.now = time.Now()
	}
	c.key = t.opts.Retry.idempotencyKey(req)
	c.endpoint = endpointOf(req)
	c.host = t.hosts.of(req.URL)
	if c.set.MaxAttempts > 1 && (isIdempotent(req.Method) || c.promised()) {
		return c.readAhead()
	}
	return nil
}

// admission waits until the host's stages let the call depart.
func (c *call) admission() error {
	since := c.now
	var told Reason
	for now := since; ; now = time.Now() {
		if c.publishBreaker(now) { // first, for an observer that panics must find nothing taken
			now = time.Now() // and it may have taken its time
		}
		r := c.host.admit(c, now)
		if r.refused != nil {
			return r.refused
		}
		if r.reason == 0 {
			c.departed, c.now = true, now
			return nil
		}
		if wait := c.bounded(r.until, r.reason, since, boundAdmission); wait != nil {
			if c.host.mayAsk(c, r.reason) {
				continue
			}
			c.host.leave(c)
			return wait
		}
		if told != r.reason && c.trace != nil && c.trace.Wait != nil {
			c.trace.Wait(WaitEvent{Request: c.event(), Reason: r.reason, Attempt: c.attempts + 1, From: now, Until: r.until})
		}
		told = r.reason
		if !r.first { // those before it wake it
			r.until = time.Time{}
		}
		if err := c.sleep(r.until, r.reason, since, boundAdmission); err != nil {
			c.host.leave(c)
			return err
		}
	}
}

// judge classifies an attempt and enters it into the host's books.
func (c *call) judge(a *attempt) {
	now := c.clock()
	var s signals
	r := report{now: now, uncounted: a.phase == notSent}
	if a.err == nil {
		c.host.dialect.read(&s, a.resp.StatusCode, a.resp.Header, now)
		r.answered, r.uncounted = true, s.cached
	}
	a.verdict = c.verdict(a, &s)
	c.hint(a, &s, now)
	r.verdict = a.verdict
	if a.closesGate() {
		r.until, r.asked = c.shutUntil(a, now), a.asked > 0
		if c.set.AdmissionWait >= 0 {
			r.latest = now.Add(c.set.AdmissionWait)
		}
	}
	c.departed = false
	found := c.host.arrive(c, r, &s)
	c.publish(a, &s, found, now)
}

// again decides whether there is another attempt, and notes why not.
func (c *call) again(a *attempt) bool {
	switch v := a.verdict; {
	case v.Outcome == OK && !v.Retry && a.err == nil:
		return false
	case c.ctx.Err() != nil:
		a.stop = endOf(c.ctx)
	case !v.Retry:
		a.stop = ReasonFinal
	case c.attempts >= c.set.MaxAttempts:
		a.stop = ReasonAttempts
	default:
		if a.stop = c.unrepeatable(a.phase); a.stop == 0 {
			a.stop = c.obstacle(a)
		}
	}
	if a.stop != 0 && c.trace != nil && c.trace.Stop != nil {
		c.trace.Stop(StopEvent{Request: c.event(), Reason: a.stop, Attempts: c.attempts, Status: a.status(), Err: a.err})
	}
	return a.stop == 0
}

// conclude hands the last attempt's result to the caller.
func (c *call) conclude(a *attempt) (*http.Response, error) {
	if a.err == nil {
		c.current = nil
		return a.handOver(), nil
	}
	if ended := context.Cause(c.ctx); ended != nil {
		if errors.Is(a.err, ended) || errors.Is(a.err, c.ctx.Err()) {
			return nil, a.err
		}
		a.cause = ended
	}
	err := &RetryError{Host: c.host.key.String(), Attempts: c.attempts, Sent: c.reached, Status: a.broken, Reason: a.stop, Err: a.err}
	if a.cause != nil {
		err.Err = fmt.Errorf("%w (%w)", a.err, a.cause)
	}
	return nil, err
}

// giveUp completes the error of a call that ends before its next attempt with
// what the attempts before it met.
func (c *call) giveUp(err error) error {
	reason := endOf(c.ctx)
	switch e := err.(type) {
	case *WaitError:
		reason, e.Err = e.Reason, c.lastFailure()
	case *CircuitOpenError:
		reason, e.Err, e.Attempts = ReasonBreaker, c.lastFailure(), c.attempts
	default:
		if c.host == nil && c.ctx.Err() == nil { // no host to send it to
			reason = ReasonFinal
		}
	}
	if c.trace != nil && c.trace.Stop != nil {
		c.trace.Stop(StopEvent{Request: c.event(), Reason: reason, Attempts: c.attempts, Err: err})
	}
	return err
}

// lastFailure is the result of the last attempt as an error, nil before the
// first.
func (c *call) lastFailure() error {
	if c.current == nil {
		return nil
	}
	return c.current.failure()
}

// end gives back what the call still holds, whichever way it ended: also by a
// panic in one of the caller's functions.
func (c *call) end() {
	if c.wake != nil {
		c.host.leave(c)
	}
	if c.departed {
		c.host.arrive(c, report{now: time.Now(), verdict: Verdict{Outcome: Ignored}}, nil)
	}
	if c.current != nil {
		c.current.abandon()
	}
	c.body.end()
}
