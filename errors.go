package polite

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// CircuitOpenError says that nothing (or nothing more) was sent because the
// circuit breaker of the host is open. It holds nothing of the other requests
// that opened it.
type CircuitOpenError struct {
	Host     string    // scheme://host:port
	Until    time.Time // when the next probe is let through; zero while one is under way
	Attempts int       // attempts that this call made before
	Err      error     // the error of the last of them, if any
}

func (e *CircuitOpenError) Error() string {
	state := "half-open and its probe is under way"
	if !e.Until.IsZero() {
		state = "open until " + e.Until.UTC().Format(toMilliseconds)
	}
	return fmt.Sprintf("polite: circuit breaker of %s is %s; not sent", e.Host, state) + again(e.Attempts, e.Err)
}

// toMilliseconds is how errors write instants: RFC 3339, with a fraction where
// there is one.
const toMilliseconds = "2006-01-02T15:04:05.999Z07:00"

// Unwrap returns the error of the last attempt, if any.
func (e *CircuitOpenError) Unwrap() error { return e.Err }

// again is the end of the message of a call that was sent before.
func again(attempts int, err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprintf(" again after %s: %s", counted(attempts), causeOf(err))
}

// maxText is how much of a cause's text, or of a URL, stands in an error of ours.
const maxText = 1000

// causeOf is the text of a cause as part of one line. Net/http and the decoders
// quote what a server wrote, control characters and all, up to its whole length;
// errors.Unwrap leads to the rest. That it is an error of ours has been said.
func causeOf(err error) string { return oneLine(strings.TrimPrefix(err.Error(), "polite: "), maxText) }

// counted is a number of attempts in words.
func counted(attempts int) string {
	if attempts == 1 {
		return "1 attempt"
	}
	return strconv.Itoa(attempts) + " attempts"
}

// WaitError says that a call ended because the wait before its next attempt
// would pass a bound, or because too many requests wait already. The wait was
// not begun, or was broken off when it grew. Where time was the bound,
// errors.Is reports it as context.DeadlineExceeded.
//
// Bound names an option, or its place in Overrides: "Retry.MaxWait" (one delay
// before a retry), "Limit.MaxWait" (one wait for admission), "Retry.MaxElapsed",
// "Limit.MaxWaiting", or "Rate.N" for a Cost that never fits; or it is
// "deadline", the context's. A wait that would pass several of them names the
// first of the deadline, MaxElapsed and MaxWait.
type WaitError struct {
	Host     string        // scheme://host:port
	Reason   Reason        // what would have to be waited for
	Until    time.Time     // the earliest end of the wait; zero if it is not known
	Bound    string        // what it would pass
	Most     time.Duration // what a MaxWait or MaxElapsed is set to; zero with other bounds
	Attempts int           // attempts made before
	Err      error         // the error of the last attempt, if any
}

func (e *WaitError) Error() string {
	again, met := "", ""
	if e.Attempts > 0 {
		again = " again"
	}
	if e.Err != nil {
		met = fmt.Sprintf("; after %s: %s", counted(e.Attempts), causeOf(e.Err))
	}
	return fmt.Sprintf("polite: %s: not sent%s: %s%s", e.Host, again, e.why(), met)
}

// why is what the call could not wait for.
func (e *WaitError) why() string {
	switch e.Bound {
	case boundWaiting:
		return "as many requests wait already as Limit.MaxWaiting allows"
	case boundRate:
		return "its Cost is more than the N of a rate, which never admits it"
	}
	until := ""
	if !e.Until.IsZero() {
		until = " until " + e.Until.UTC().Format(toMilliseconds)
	}
	return fmt.Sprintf("the wait%s (%s) would pass %s", until, e.Reason, e.limit())
}

// limit is the bound as the caller knows it.
func (e *WaitError) limit() string {
	switch {
	case e.Bound == boundDeadline:
		return "the context's deadline"
	case e.Most > 0:
		return fmt.Sprintf("%s (%s)", e.Bound, e.Most)
	}
	return e.Bound
}

// stop is the same as the reason for which a call ends.
func (e *WaitError) stop() Reason {
	if e.Bound == boundRetry || e.Bound == boundAdmission {
		return ReasonMaxWait
	}
	return ReasonTime
}

// Is reports whether target is context.DeadlineExceeded and time was the bound.
func (e *WaitError) Is(target error) bool {
	return target == context.DeadlineExceeded && e.Timeout()
}

// Unwrap returns the error of the last attempt, if any.
func (e *WaitError) Unwrap() error { return e.Err }

// Timeout reports whether time was the bound.
func (e *WaitError) Timeout() bool { return e.Bound != boundWaiting && e.Bound != boundRate }

const (
	boundRetry     = "Retry.MaxWait"
	boundAdmission = "Limit.MaxWait"
	boundElapsed   = "Retry.MaxElapsed"
	boundDeadline  = "deadline"
	boundWaiting   = "Limit.MaxWaiting"
	boundRate      = "Rate.N"
)

// RetryError says that the last attempt of a call failed without a response, or
// in a Fetch without a body that could be read and decoded.
type RetryError struct {
	Host     string // scheme://host:port
	Attempts int    // attempts made
	Sent     bool   // whether any attempt may have reached the server
	Status   int    // of the last answer, whose body a Fetch could not read or decode; 0 without one
	Reason   Reason // why there was no further attempt
	Err      error  // the error of the last attempt
}

func (e *RetryError) Error() string {
	reached := "nothing was sent"
	switch {
	case e.Status > 0:
		reached = fmt.Sprintf("the server answered %d", e.Status)
	case e.Sent:
		reached = "the server may have received it"
	}
	return fmt.Sprintf("polite: %s: %s (%s; %s): %s", e.Host, counted(e.Attempts), e.Reason, reached, causeOf(e.Err))
}

// Unwrap returns the error of the last attempt.
func (e *RetryError) Unwrap() error { return e.Err }

// Timeout reports whether the last attempt timed out, or the delay before
// another one would have passed a bound of time.
func (e *RetryError) Timeout() bool {
	var timeout interface{ Timeout() bool }
	return errors.As(e.Err, &timeout) && timeout.Timeout()
}

// AttemptTimeoutError says that one attempt had no response headers, or that
// its body paused, for longer than RetryOptions.AttemptTimeout (or for what
// was left of MaxElapsed). errors.Is reports it as context.DeadlineExceeded.
type AttemptTimeoutError struct {
	After time.Duration // how long it was given
}

func (e *AttemptTimeoutError) Error() string {
	return fmt.Sprintf("polite: no answer from the server within %s", e.After)
}

// Is reports whether target is context.DeadlineExceeded.
func (e *AttemptTimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// Timeout reports true.
func (e *AttemptTimeoutError) Timeout() bool { return true }

// BodyTooLargeError says that a response body is larger than Fetch reads.
type BodyTooLargeError struct {
	Bound int64 // bytes
}

func (e *BodyTooLargeError) Error() string {
	if e.Bound == MaxFetch {
		return fmt.Sprintf("polite: response body larger than %d bytes (%d MiB, polite.MaxFetch)", e.Bound, MaxFetch>>20)
	}
	return fmt.Sprintf("polite: response body larger than %d bytes", e.Bound)
}

// bodyReadError marks an error of the caller's own request body, for which the
// server is not to blame.
type bodyReadError struct{ err error }

func (e *bodyReadError) Error() string { return "polite: reading the request body: " + causeOf(e.err) }

func (e *bodyReadError) Unwrap() error { return e.err }

// decodeError marks an error of the decode function of a Fetch, which another
// attempt would meet again.
type decodeError struct{ err error }

func (e *decodeError) Error() string { return "polite: decoding the response: " + causeOf(e.err) }

func (e *decodeError) Unwrap() error { return e.err }

// isPermanent reports whether the connection failed in a way that a repetition
// would only meet again.
func isPermanent(err error) bool {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return dns.IsNotFound
	}
	var urlErr *url.Error
	if errors.As(err, &urlErr) && urlErr.Op == "parse" {
		return true
	}
	return errors.As(err, new(*tls.CertificateVerificationError)) ||
		errors.As(err, new(x509.UnknownAuthorityError)) ||
		errors.As(err, new(x509.HostnameError)) ||
		errors.As(err, new(x509.CertificateInvalidError)) ||
		errors.As(err, new(tls.RecordHeaderError)) || // not TLS at all
		strings.Contains(err.Error(), "server gave HTTP response to HTTPS client")
}

// isInvalid reports whether net/http refused the request for what it is, before
// it looked for a connection. It has no types for that.
func isInvalid(err error) bool {
	text := err.Error()
	return strings.HasPrefix(text, "net/http: invalid ") || strings.HasPrefix(text, "unsupported protocol scheme")
}

// redacted is the URL without what may be secret: userinfo, query, fragment.
func redacted(u *url.URL) string {
	if u == nil {
		return ""
	}
	return oneLine((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String(), maxText)
}

// withoutSecrets removes the same from the URL that an error of net/http or
// net/url names.
func withoutSecrets(err error) error {
	e, ok := err.(*url.Error)
	if !ok {
		return err
	}
	if u, err := url.Parse(e.URL); err == nil {
		if strings.HasPrefix(e.Err.Error(), "failed to parse Location header") { // and quotes it, its query too
			return &url.Error{Op: e.Op, URL: redacted(u), Err: errInvalidLocation}
		}
		return &url.Error{Op: e.Op, URL: redacted(u), Err: e.Err}
	}
	if !strings.ContainsAny(e.URL, "@?#") {
		return err
	}
	return &url.Error{Op: e.Op, URL: "(not shown)", Err: errInvalidURL} // the reason quotes parts of it
}

var (
	errInvalidURL      = errors.New("invalid URL")
	errInvalidLocation = errors.New("invalid URL in the Location header")
)
