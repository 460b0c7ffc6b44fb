package polite

import (
	"cmp"
	"context"
	"net/http"
	"time"
)

// Trace is a set of functions that observe calls. Any of them may be nil. They
// run on the calling goroutine, outside all locks, and should return soon;
// they may be called from many goroutines at once. What they are given holds
// no header, no query and no userinfo of a URL.
type Trace struct {
	// Wait is called before a request waits, and again when what it waits for
	// changes.
	Wait func(WaitEvent)

	// Attempt is called when an attempt has ended: at its response headers (at
	// the end of its body in a Fetch), or with its error.
	Attempt func(AttemptEvent)

	// Quota is called when a response has told the state of a quota.
	Quota func(QuotaEvent)

	// Gate is called when a refusal, or a failure for which the server names a
	// delay, closes the gate of a host or a quota.
	Gate func(GateEvent)

	// Breaker is called when a circuit breaker has changed its state.
	Breaker func(BreakerEvent)

	// Stop is called when a call ends without success: why no further attempt
	// is made, or none at all. An answer that is judged OK, such as a 404, is a
	// success.
	Stop func(StopEvent)

	// Diagnosis is called when polite understands something that the caller can
	// mend, once per host, quota and finding.
	Diagnosis func(DiagnosisEvent)
}

// Request identifies the request of an event.
type Request struct {
	Method string
	Host   string // scheme://host:port; empty, as Path is, for a URL that names no host
	Path   string

	ahead bool // see StopEvent.Withdrawn
}

// WaitEvent is one wait of one request.
type WaitEvent struct {
	Request
	Reason  Reason
	Attempt int       // the attempt to come, counted from 1
	From    time.Time // now
	Until   time.Time // the earliest end; zero if it depends on other requests
}

// AttemptEvent is one attempt.
type AttemptEvent struct {
	Request
	Attempt  int   // counted from 1
	Status   int   // 0 without a response
	Err      error // nil with a response
	Outcome  Outcome
	Duration time.Duration // from sending to the headers; in a Fetch to the end of the body
}

// QuotaEvent is what a response said about one quota.
type QuotaEvent struct {
	Request
	Quota Quota
}

// GateEvent is the closing of a gate.
type GateEvent struct {
	Request
	Status int
	Until  time.Time // nobody sends before it
	Asked  bool      // whether the server named the instant
}

// BreakerEvent is a change of a breaker's state.
type BreakerEvent struct {
	Host     string
	From, To BreakerState
	Until    time.Time // when To is BreakerOpen: the first probe
}

// StopEvent is the end of a call without success.
type StopEvent struct {
	Request
	Reason   Reason
	Attempts int
	Status   int // 0 without a response
	Err      error
}

// Withdrawn reports whether the call was for a page that a Pager fetched before
// its turn and took back: because a page before it failed, because the range was
// left or cancelled, or because the page could not be admitted so early and is
// asked for again when it is its turn. What the caller is to know of it is the
// range's own error, if there is one.
func (e StopEvent) Withdrawn() bool {
	return e.ahead && (e.Reason == ReasonCancelled || notAdmitted(e.Err))
}

type traceKey struct{}

// WithTrace returns a context whose requests are observed by t, beside the
// Transport's own Trace and any outer one.
func WithTrace(ctx context.Context, t *Trace) context.Context {
	if t == nil {
		return ctx
	}
	outer, _ := ctx.Value(traceKey{}).(*Trace)
	return context.WithValue(ctx, traceKey{}, joinTraces(t, outer))
}

// joinTraces returns a Trace that calls both; either may be nil.
func joinTraces(a, b *Trace) *Trace {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return &Trace{
		Wait:    both(a.Wait, b.Wait),
		Attempt: both(a.Attempt, b.Attempt),
		Quota:   both(a.Quota, b.Quota),
		Gate:    both(a.Gate, b.Gate),
		Breaker: both(a.Breaker, b.Breaker),
		Stop:    both(a.Stop, b.Stop),

		Diagnosis: both(a.Diagnosis, b.Diagnosis),
	}
}

func both[E any](f, g func(E)) func(E) {
	switch {
	case f == nil:
		return g
	case g == nil:
		return f
	}
	return func(e E) { f(e); g(e) }
}

// event is the part of every event that names the request.
func (c *call) event() Request {
	r := Request{Method: cmp.Or(c.req.Method, http.MethodGet), ahead: isAhead(c.ctx)}
	if u := c.req.URL; checkRequest(c.req) == nil {
		r.Host, r.Path = hostKeyOf(u).String(), u.Path
	}
	return r
}

// publish tells the observers what an attempt has shown; no lock is held.
func (c *call) publish(a *attempt, s *signals, found findings, now time.Time) {
	c.publishBreaker(now)
	t := c.trace
	if t == nil {
		return
	}
	if t.Attempt != nil {
		t.Attempt(AttemptEvent{Request: c.event(), Attempt: c.attempts, Status: a.status(), Err: a.err,
			Outcome: a.verdict.Outcome, Duration: now.Sub(c.sentAt)})
	}
	if t.Quota != nil {
		for _, q := range s.quotas[:s.n] {
			t.Quota(QuotaEvent{Request: c.event(), Quota: q})
		}
	}
	if t.Diagnosis != nil {
		c.diagnose(found, s, now)
	}
	if t.Gate != nil && a.closesGate() {
		until, reason := c.host.gatedUntil(c)
		t.Gate(GateEvent{Request: c.event(), Status: a.status(), Until: until, Asked: reason == ReasonRetryAfter})
	}
}

// publishBreaker reports whether there was something to tell.
func (c *call) publishBreaker(now time.Time) bool {
	if c.trace == nil || c.trace.Breaker == nil {
		return false
	}
	e, changed := c.host.breakerChanged(now)
	if changed {
		c.trace.Breaker(e)
	}
	return changed
}
