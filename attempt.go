package polite

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// attempt is one sending of a call's request. It is the context of that
// request while it is under way, and the body of its response.
type attempt struct {
	call *call
	ctx  context.Context // derived from the caller's; ends with the attempt
	wire *wire           // the attempt's until it is over
	over atomic.Bool     // the attempt has ended: the context is the caller's again

	guessed bool  // asked is the length of a window, which may end sooner
	phase   phase // how far the attempt came

	resp   *http.Response
	err    error
	body   io.ReadCloser // of the response, as the base gave it
	whole  []byte        // the body, once a Fetch has read it to its end
	broken int           // status of an answer whose body a Fetch could not use

	verdict Verdict
	retryAt time.Time     // the earliest next attempt
	asked   time.Duration // how long the server asked to wait; 0 if it did not
	margin  time.Duration // by so much retryAt is later than that
	stop    Reason        // why there is no further attempt
	cause   error         // the local error behind stop, if any
}

// Attempts returns how many requests were sent for a response: 1 if the first
// attempt brought it, more after retries and after net/http's own repetitions
// on connections that had died; 0 if the response is not from polite. In
// Options.Classify it counts up to the attempt that is judged.
func Attempts(resp *http.Response) int {
	if a := attemptOf(resp); a != nil {
		return a.call.attempts
	}
	return 0
}

// send makes one attempt, up to the response headers, or to the end of the
// body in a Fetch.
func (c *call) send() *attempt {
	a := &c.first
	if c.attempts > 0 {
		a = new(attempt)
	}
	c.current = a
	c.tries++
	ctx, cancel := context.WithCancelCause(c.ctx)
	a.call, a.ctx, a.wire = c, ctx, c.t.wires.get()
	a.wire.take(a, cancel)
	a.bound(c.sentAt, c.attemptTime(c.sentAt))
	req, err := c.request(a)
	if err != nil {
		c.attempts++
		a.err, a.phase = err, notSent
		return a
	}
	a.resp, a.err = exactlyOne(c.t.base.RoundTrip(req))
	a.unbound()
	c.attempts += max(1, a.wire.requests(a.err == nil))
	a.phase = a.reached()
	if a.err == nil {
		a.receive(req)
	}
	if a.err != nil {
		a.explain()
	}
	c.reached = c.reached || a.phase != notSent
	return a
}

// exactlyOne holds a base transport to the contract of http.RoundTripper: a
// response or an error, an error prevailing.
func exactlyOne(resp *http.Response, err error) (*http.Response, error) {
	switch {
	case err == nil && resp == nil:
		return nil, errors.New("polite: the base transport returned neither a response nor an error")
	case err != nil && resp != nil && resp.Body != nil:
		resp.Body.Close()
		return nil, err
	case err != nil:
		return nil, err
	}
	return resp, nil
}

// request is the request of one attempt: the caller's, with the attempt's
// context and a body of its own.
func (c *call) request(a *attempt) (*http.Request, error) {
	req := c.req.WithContext(c.traced(a))
	if err := c.body.put(req, c.attempts == 0); err != nil {
		return nil, &bodyReadError{err}
	}
	if c.key != "" && c.req.Header.Get(headerIdempotencyKey) == "" {
		req.Header = c.req.Header.Clone()
		if req.Header == nil {
			req.Header = make(http.Header)
		}
		req.Header.Set(headerIdempotencyKey, c.key)
	}
	return req, nil
}

// traced is the attempt as a context that net/http finds its hooks in, beside
// the caller's own hooks if there are any.
func (c *call) traced(a *attempt) context.Context {
	if traceContextKey != nil && c.ctx.Value(traceContextKey) == nil {
		return a
	}
	hooks := a.wire.trace
	return httptrace.WithClientTrace(a, &hooks)
}

// attemptTime is how long an attempt may take from now on to its response
// headers.
func (c *call) attemptTime(now time.Time) time.Duration {
	d := c.set.AttemptTimeout
	if c.deadline.IsZero() {
		return d
	}
	if left := max(0, c.deadline.Sub(now)); d < 0 || left < d {
		return left
	}
	return d
}

// bound ends the attempt at now and d, unless unbound is called before; a
// negative d never does.
func (a *attempt) bound(now time.Time, d time.Duration) {
	if d >= 0 {
		a.wire.limit(a, now, d)
	}
}

func (a *attempt) unbound() { a.wire.unlimit(a) }

// timeoutOr is err, or the time-out of the attempt where that is behind it.
func (a *attempt) timeoutOr(err error) error {
	if timeout, ok := context.Cause(a.ctx).(*AttemptTimeoutError); ok {
		return timeout
	}
	return err
}

// receive takes the response over: its body becomes the attempt's, and a Fetch
// reads it at once.
func (a *attempt) receive(req *http.Request) {
	resp := a.resp
	if attemptOf(resp) == nil { // a base that answers for another request
		resp.Request = req
	}
	a.body = resp.Body
	if a.body == nil {
		a.body = http.NoBody
	}
	resp.Body = a.reader()
	c := a.call
	if c.fetch == nil || resp.StatusCode < 200 || resp.StatusCode > 299 {
		return
	}
	body, err := readAll(resp.Body, resp.ContentLength)
	if err == nil {
		if err = c.fetch(resp, body); err != nil && !endMarked(resp) {
			err = &net.OpError{Op: "read", Err: io.ErrUnexpectedEOF} // it may have been cut
		} else if err != nil {
			err = &decodeError{err}
		}
	}
	a.body.Close()
	if err != nil {
		a.err, a.resp, a.broken = err, nil, resp.StatusCode
		return
	}
	a.whole = body
	resp.Body = io.NopCloser(bytes.NewReader(body))
}

// endMarked reports whether a body that was cut would have been noticed.
func endMarked(resp *http.Response) bool {
	return resp.ContentLength >= 0 || resp.ProtoMajor > 1 || resp.Uncompressed ||
		len(resp.TransferEncoding) > 0
}

// explain puts the cause in the place of the symptom: the time-out of the
// attempt where the base saw a cancellation, the error of the request's body
// where it saw a failed write.
func (a *attempt) explain() {
	a.err = a.timeoutOr(withoutSecrets(a.err))
	if err := a.call.body.failure(); err != nil && a.call.ctx.Err() == nil {
		a.err = &bodyReadError{err}
	}
}

// reached is how far the attempt came. That nothing was sent has to be proved:
// by net/http, which asked for a connection and got none or did not begin to
// write, or by an error of dialling or of the request itself. An attempt that
// had a connection when its time was up may still have used it.
func (a *attempt) reached() phase {
	if a.err == nil {
		return answered
	}
	var op *net.OpError
	switch {
	case a.wire.written.Load() > 0, a.wire.conns.Load() > 0 && a.ctx.Err() != nil:
		return sent
	case a.wire.asked.Load() > 0, errors.As(a.err, &op) && op.Op == "dial", errors.As(a.err, new(*net.DNSError)), isInvalid(a.err):
		return notSent
	}
	return sent
}

// closesGate reports whether the delay after the attempt holds for everybody: a
// refusal is meant for all who share the quota, and so is an instant that a
// failing server names (RFC 9110 section 10.2.3).
func (a *attempt) closesGate() bool {
	return a.verdict.Outcome == Throttled || a.verdict.Outcome == Failed && a.asked > 0
}

func (a *attempt) status() int {
	if a.resp == nil {
		return 0
	}
	return a.resp.StatusCode
}

// failure is the attempt's result as an error.
func (a *attempt) failure() error {
	if a.err != nil {
		return a.err
	}
	return &ResponseError{StatusCode: a.resp.StatusCode, Method: cmp.Or(a.call.req.Method, http.MethodGet), URL: redacted(a.call.req.URL),
		Attempts: a.call.attempts, RetryAfter: a.asked, TraceID: a.resp.Header.Get(headerTraceID)}
}

// Drains of answers that are not handed over end after so many bytes and so
// much time; a longer one costs the connection.
const (
	drainBytes = 256 << 10
	drainTime  = 200 * time.Millisecond
)

// discard reads what remains of an answer that is not handed over, so that its
// connection can be used again, and ends the attempt.
func (a *attempt) discard() {
	if a.resp != nil && a.whole == nil {
		a.bound(time.Now(), drainTime)
		io.CopyN(io.Discard, a.body, drainBytes)
	}
	a.abandon()
}

// abandon ends an attempt whose answer nobody gets.
func (a *attempt) abandon() {
	if a.body != nil {
		a.body.Close()
		a.body = nil
	}
	a.finish()
}

// handOver gives the response to the caller. The attempt ends with its body.
func (a *attempt) handOver() *http.Response {
	if a.whole != nil || a.body == http.NoBody {
		a.finish()
	}
	return a.resp
}

// finish ends the attempt: its context, its place in flight, its wire.
func (a *attempt) finish() {
	cancel := a.wire.leave(a)
	if cancel == nil {
		return // it has ended before
	}
	a.over.Store(true)
	cancel(nil)
	a.call.host.vacate()
	a.call.t.wires.put(a.wire)
}
