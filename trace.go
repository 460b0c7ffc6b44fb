package polite

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"time"
)

// Reason says why a request waits, or why it was not sent or not repeated.
type Reason int

const (
	// ReasonBackoff is the computed delay before a retry; after a refusal it
	// holds for every request that shares the quota.
	ReasonBackoff Reason = iota + 1
	// ReasonRetryAfter is the server's own delay (Retry-After and its kin),
	// which holds for every request that shares the quota.
	ReasonRetryAfter
	// ReasonProbe is the wait for the answer of the one request that goes
	// ahead while the state of the quota is not known.
	ReasonProbe
	// ReasonQuota is an exhausted quota that has not been reset yet.
	ReasonQuota
	// ReasonBrake is the spreading of the last requests of a quota.
	ReasonBrake
	// ReasonRate is the client's own limit: LimitOptions.Rates, or the rate
	// learned with LimitOptions.Adaptive.
	ReasonRate
	// ReasonInFlight is the client's own limit, LimitOptions.MaxInFlight.
	ReasonInFlight
	// ReasonQueue is that others wait already and go first.
	ReasonQueue
	// ReasonBreaker is an open circuit breaker.
	ReasonBreaker
	// ReasonBudget is an exhausted retry budget: a refusal of this client's
	// own, not of the server.
	ReasonBudget
	// ReasonAttempts is that all attempts are used up.
	ReasonAttempts
	// ReasonNotRepeatable is that a repetition could do twice what the caller
	// asked for once. An Idempotency-Key (see RetryOptions.GenerateKeys) or
	// Overrides.Idempotent makes it safe.
	ReasonNotRepeatable
	// ReasonBodySpent is that the request's body cannot be sent again: it has no
	// Request.GetBody and is not kept, because it is longer than 1 MiB or was
	// not thought repeatable.
	ReasonBodySpent
	// ReasonFinal is that a repetition cannot help.
	ReasonFinal
	// ReasonMaxWait is that the delay before the next attempt is longer than
	// RetryOptions.MaxWait or LimitOptions.MaxWait; the call itself had time.
	ReasonMaxWait
	// ReasonTime is that the delay would pass the deadline of the call's context
	// or RetryOptions.MaxElapsed, or that either has passed.
	ReasonTime
	// ReasonCancelled is that the caller cancelled the call's context.
	ReasonCancelled
)

var reasons = [...]string{
	ReasonBackoff:       "backoff",
	ReasonRetryAfter:    "asked by the server",
	ReasonProbe:         "a probe is under way",
	ReasonQuota:         "quota exhausted",
	ReasonBrake:         "spreading the rest of the quota",
	ReasonRate:          "the client's own rate limit",
	ReasonInFlight:      "the client's own limit of requests in flight",
	ReasonQueue:         "others wait before it",
	ReasonBreaker:       "circuit breaker open",
	ReasonBudget:        "the client's own retry budget is spent",
	ReasonAttempts:      "no attempts left",
	ReasonNotRepeatable: "not safe to repeat without an Idempotency-Key",
	ReasonBodySpent:     "its body cannot be sent again without Request.GetBody",
	ReasonFinal:         "a repetition cannot help",
	ReasonMaxWait:       "the wait is longer than MaxWait allows",
	ReasonTime:          "not enough time left",
	ReasonCancelled:     "the caller cancelled",
}

// String returns the reason as a short phrase.
func (r Reason) String() string {
	if r < 1 || int(r) >= len(reasons) {
		return "unknown"
	}
	return reasons[r]
}

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

// SlogTrace returns a Trace that writes structured lines to log: waits, quotas,
// attempts and withdrawn calls at debug level; closed gates and the reasons of calls that end
// without success at info level; a breaker that opens and diagnoses, with their
// remedies, at warn level. A nil log is slog.Default.
func SlogTrace(log *slog.Logger) *Trace {
	if log == nil {
		log = slog.Default()
	}
	request := func(r Request) slog.Attr {
		return slog.Group("request", "method", r.Method, "host", r.Host, "path", oneLine(r.Path, maxText))
	}
	ctx := context.Background()
	return &Trace{
		Wait: func(e WaitEvent) {
			log.LogAttrs(ctx, slog.LevelDebug, "polite: waiting", request(e.Request),
				slog.String("reason", e.Reason.String()), slog.Int("attempt", e.Attempt), slog.Time("until", e.Until))
		},
		Attempt: func(e AttemptEvent) {
			attrs := []slog.Attr{request(e.Request), slog.Int("attempt", e.Attempt), slog.Int("status", e.Status),
				slog.String("outcome", e.Outcome.String()), slog.Duration("duration", e.Duration)}
			if e.Err != nil {
				attrs = append(attrs, slog.String("error", causeOf(e.Err)))
			}
			log.LogAttrs(ctx, slog.LevelDebug, "polite: attempt", attrs...)
		},
		Quota: func(e QuotaEvent) {
			log.LogAttrs(ctx, slog.LevelDebug, "polite: quota", request(e.Request),
				slog.String("policy", e.Quota.Policy), slog.Int64("limit", e.Quota.Limit),
				slog.Int64("remaining", e.Quota.Remaining), slog.Time("reset", e.Quota.Reset))
		},
		Gate: func(e GateEvent) {
			log.LogAttrs(ctx, slog.LevelInfo, "polite: gate closed", request(e.Request),
				slog.Int("status", e.Status), slog.Time("until", e.Until), slog.Bool("asked", e.Asked))
		},
		Breaker: func(e BreakerEvent) {
			level := slog.LevelInfo
			if e.To == BreakerOpen {
				level = slog.LevelWarn
			}
			log.LogAttrs(ctx, level, "polite: circuit breaker", slog.String("host", e.Host),
				slog.String("from", e.From.String()), slog.String("to", e.To.String()), slog.Time("until", e.Until))
		},
		Stop: func(e StopEvent) {
			attrs := []slog.Attr{request(e.Request), slog.String("reason", e.Reason.String()),
				slog.Int("attempts", e.Attempts), slog.Int("status", e.Status)}
			if e.Err != nil {
				attrs = append(attrs, slog.String("error", causeOf(e.Err)))
			}
			level, what := slog.LevelInfo, "polite: gave up"
			if e.Withdrawn() {
				level, what = slog.LevelDebug, "polite: withdrawn"
			}
			log.LogAttrs(ctx, level, what, attrs...)
		},
		Diagnosis: func(e DiagnosisEvent) {
			attrs := append([]slog.Attr{request(e.Request)}, e.facts()...)
			attrs = append(attrs, slog.String("remedy", e.Diagnosis.Remedy()))
			log.LogAttrs(ctx, slog.LevelWarn, "polite: "+e.Diagnosis.String(), attrs...)
		},
	}
}

// facts are what is known of a finding, and nothing that is not: a quota that
// nobody announced would read as an exhausted one.
func (e DiagnosisEvent) facts() (attrs []slog.Attr) {
	if e.Expected > 0 {
		attrs = append(attrs, slog.Int64("expected", e.Expected))
	}
	if e.Quota != (Quota{}) && e.Quota.Limit >= 0 {
		attrs = append(attrs, slog.Int64("limit", e.Quota.Limit))
	}
	if e.Quota != (Quota{}) && e.Quota.Remaining >= 0 {
		attrs = append(attrs, slog.Int64("remaining", e.Quota.Remaining))
	}
	if e.Asked > 0 {
		attrs = append(attrs, slog.Duration("asked", e.Asked))
	}
	if e.Skew != 0 {
		attrs = append(attrs, slog.Duration("skew", e.Skew))
	}
	return attrs
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
