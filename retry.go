package polite

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"time"
)

// RetryOptions say what is repeated, how often and how long. The zero value
// means the defaults.
type RetryOptions struct {
	// MaxAttempts is the total number of attempts of one call, the first one
	// included: 0 means 4; 1 or a negative number means no retry. Net/http's own
	// repetitions on connections that had died count.
	MaxAttempts int

	// MaxElapsed bounds the whole call, waits and first attempt included, up
	// to the response headers of the last attempt (in a Fetch, to the end of
	// its body): 0 means 5 minutes, negative means unlimited. An earlier
	// deadline of the request's context wins.
	MaxElapsed time.Duration

	// MaxWait bounds one delay before a retry, as the server asks for it or as
	// Backoff computes it: 0 means 60 s, negative means unlimited. What is added
	// to the server's delay, up to a fifth at random so that processes part and a
	// second after a reset, comes on top, within LimitOptions.MaxWait. A longer
	// delay is never shortened: the call ends at once with the response, and
	// CheckResponse tells the delay that the server asked for.
	MaxWait time.Duration

	// AttemptTimeout bounds one attempt up to its response headers, and each
	// pause between two reads of the response body: 0 means 30 s, negative
	// means unlimited.
	AttemptTimeout time.Duration

	// Backoff computes the delay where the server gave none; nil means
	// Exponential{}.Delay.
	Backoff Backoff

	// BudgetRatio bounds the retries of failures (Outcome Failed) for which the
	// server named no delay to this share of the successes, per host, with 10
	// retries in reserve: 0 means 0.1, negative means that they are unlimited.
	// One retry in 10 s is always granted.
	BudgetRatio float64

	// GenerateKeys gives every request with a method that is not idempotent an
	// Idempotency-Key of 128 random bits, unless it has one, and so makes it
	// repeatable; the key is the same in all attempts of one call.
	GenerateKeys bool

	// Disable makes every call a single attempt.
	Disable bool
}

// Outcome is what one attempt says about the server.
type Outcome int

const (
	// OK is a success, or an error of the request itself (most of 4xx): the
	// server is well.
	OK Outcome = iota
	// Throttled is a refusal because of a limit. It closes the gate for all
	// requests that share the quota, and says nothing about the server's
	// health.
	Throttled
	// Failed is a failure of the server or of the way to it. It counts in the
	// circuit breaker.
	Failed
	// Ignored says nothing about the server: the caller gave up, or the fault
	// was the request's own. An answer that is well is OK, not Ignored: only OK
	// closes the breaker, refills the retry budget and raises a learned rate.
	Ignored
)

// String returns the outcome's name in lower case.
func (o Outcome) String() string {
	return [...]string{"ok", "throttled", "failed", "ignored"}[max(0, min(o, Ignored))]
}

// Verdict is the judgement of one attempt.
type Verdict struct {
	Outcome Outcome

	// Retry asks for another attempt. It happens only if the request may be
	// repeated and attempts, time and budget allow it.
	Retry bool

	// Wait is a delay that the server asked for in a way that the headers do
	// not tell (in the body, say). It is obeyed like Retry-After and is taken
	// instead of the headers' delay; zero or less means that there is none.
	Wait time.Duration
}

// DefaultClassify is the judgement used when Options.Classify is nil, and a
// base for others: 429 is throttled and 502, 503 and 504 are failed, all to be
// retried; 500 is failed and final; every other response is OK, hence final. A
// failure of the connection and an expired attempt are failed and to be
// retried; a permanent one (no such host, a certificate that does not verify) is
// failed and final. An error of the request itself (a body that cannot be read,
// an unsupported scheme), and the end of the caller's context, are ignored and
// final.
//
// It looks at the status and the error alone. Without Options.Classify polite
// also looks at the headers: a 403, and what a Dialect lists under Refusals, is
// throttled where they show a rate limit; so is a 402, which stays final; and
// X-Should-Retry: false (OpenAI's, and Stripe's like it) is final. A Classify of
// one's own has to do so itself.
func DefaultClassify(resp *http.Response, err error) Verdict {
	if err != nil {
		return classifyError(err)
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		return Verdict{Outcome: Throttled, Retry: true}
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return Verdict{Outcome: Failed, Retry: true}
	case http.StatusInternalServerError:
		return Verdict{Outcome: Failed}
	}
	return Verdict{Outcome: OK}
}

func classifyError(err error) Verdict {
	switch {
	case errors.As(err, new(*bodyReadError)), errors.As(err, new(*BodyTooLargeError)), errors.As(err, new(*decodeError)), isInvalid(err):
		return Verdict{Outcome: Ignored} // the caller's side, not the server's
	case errors.Is(err, context.Canceled):
		return Verdict{Outcome: Ignored}
	case isPermanent(err):
		return Verdict{Outcome: Failed}
	}
	return Verdict{Outcome: Failed, Retry: true}
}

// phase is how far an attempt came before it failed.
type phase uint8

const (
	notSent  phase = iota // no byte of the request can have reached the server
	sent                  // the server may have acted, and did not answer
	answered              // the server answered
)

// unrepeatable is why the request cannot be sent once more, and no more than
// once done; 0 if it can.
func (c *call) unrepeatable(p phase) Reason {
	switch {
	case p != notSent && !isIdempotent(c.req.Method) && !c.promised():
		return ReasonNotRepeatable // the server may have acted: RFC 9110 section 9.2.2
	case !c.body.replayable():
		return ReasonBodySpent // the bytes are gone
	}
	return 0
}

// promised reports whether the caller vouches that a repetition is safe.
func (c *call) promised() bool { return c.key != "" || c.set.Idempotent }

func isIdempotent(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodTrace, "":
		return true
	}
	return false
}

// idempotencyKey returns the key of the call: the caller's, or a new one where
// the options ask for it, or none.
func (o *RetryOptions) idempotencyKey(req *http.Request) string {
	if given := req.Header[headerIdempotencyKey]; len(given) > 0 && given[0] != "" {
		return given[0]
	}
	if o.GenerateKeys && !isIdempotent(req.Method) {
		return rand.Text()
	}
	return ""
}

const headerIdempotencyKey = "Idempotency-Key"

func (o *RetryOptions) withDefaults() {
	o.MaxAttempts = cmp.Or(o.MaxAttempts, 4)
	if o.Disable || o.MaxAttempts < 1 {
		o.MaxAttempts = 1
	}
	o.MaxElapsed = cmp.Or(o.MaxElapsed, 5*time.Minute)
	o.MaxWait = cmp.Or(o.MaxWait, time.Minute)
	o.AttemptTimeout = cmp.Or(o.AttemptTimeout, 30*time.Second)
	if o.Backoff == nil {
		o.Backoff = Exponential{}.Delay
	}
	o.BudgetRatio = cmp.Or(o.BudgetRatio, 0.1)
}

// verdict asks the classifier, after what only the call itself can know.
func (c *call) verdict(a *attempt, s *signals) Verdict {
	if a.err != nil && c.ctx.Err() != nil {
		return Verdict{Outcome: Ignored} // the caller gave up, whatever the error says
	}
	if classify := c.t.opts.Classify; classify != nil {
		return classify(a.resp, a.err)
	}
	v := DefaultClassify(a.resp, a.err)
	if s.refused && v.Outcome == OK {
		v = Verdict{Outcome: Throttled, Retry: a.resp.StatusCode != http.StatusPaymentRequired} // a quota of a long period
	}
	if s.veto {
		v.Retry = false
	}
	return v
}

// hint finds when the next attempt may be made at the earliest: when the
// server said, or after the backoff.
func (c *call) hint(a *attempt, s *signals, now time.Time) {
	if !a.verdict.Retry && a.verdict.Outcome != Throttled && a.verdict.Outcome != Failed {
		return
	}
	judged := now
	if c.t.opts.Classify != nil { // it may have waited for a body that tells the delay
		judged = time.Now()
	}
	if a.verdict.Wait > 0 {
		a.retryAt, a.asked = judged.Add(a.verdict.Wait), a.verdict.Wait
		return
	}
	at, source := c.told(a, s, now)
	if !at.After(now) {
		a.retryAt = judged.Add(max(0, c.t.opts.Retry.Backoff(c.tries)))
		return
	}
	a.retryAt, a.asked, a.guessed = at, at.Sub(now), source == hintWindow
	if source == hintReset {
		a.margin = resetMargin(a.asked, c.set.AdmissionWait)
		a.retryAt = at.Add(a.margin)
	}
}

// shutUntil is until when a refusal holds for everybody. Where only the length of
// the window is known, it may end at any time before. A call that will not wait
// for so long does not shut out those that come later: one of them asks sixty
// times per window, but not more often than once a minute.
func (c *call) shutUntil(a *attempt, now time.Time) time.Time {
	if a.guessed && c.bounded(a.retryAt, ReasonRetryAfter, now, boundRetry) != nil {
		return earlier(a.retryAt, now.Add(max(time.Minute, a.asked/60)))
	}
	return a.retryAt
}

// told is when the headers allow another attempt. A status that is no refusal of
// itself is read again as one where Classify takes it for that, or has it
// repeated: what the server named is not undercut.
func (c *call) told(a *attempt, s *signals, now time.Time) (time.Time, hintSource) {
	if s.hint != hintNone || s.refused || a.err != nil || c.t.opts.Classify == nil {
		return s.retryAt, s.hint
	}
	status := http.StatusServiceUnavailable
	if a.verdict.Outcome == Throttled {
		status = http.StatusTooManyRequests
	}
	var again signals
	c.host.dialect.read(&again, status, a.resp.Header, now)
	return again.retryAt, again.hint
}

// obstacle is why time, breaker or budget do not allow another attempt; 0 if they
// do. The token of the budget is taken last, for an attempt that is made.
func (c *call) obstacle(a *attempt) Reason {
	now := time.Now()
	reason := ReasonBackoff
	if a.asked > 0 {
		reason = ReasonRetryAfter
	}
	gated, gate := c.host.gatedUntil(c)
	wait := c.bounded(a.retryAt, reason, now.Add(a.margin), boundRetry)
	if wait == nil {
		wait = c.bounded(gated, gate, now, boundAdmission)
	}
	if wait != nil {
		a.cause = wait
		return wait.stop()
	}
	if until := c.host.brokenUntil(later(a.retryAt, gated)); !until.IsZero() {
		a.cause = &CircuitOpenError{Host: c.host.key.String(), Until: until, Attempts: c.attempts}
		return ReasonBreaker
	}
	if a.asked == 0 && a.verdict.Outcome == Failed && !c.host.grantRetry(now) {
		return ReasonBudget
	}
	return 0
}
