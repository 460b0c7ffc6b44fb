package polite

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode"
)

// ResponseError is a response whose status is not a success, as an error. See
// [CheckResponse].
type ResponseError struct {
	StatusCode int
	Method     string
	URL        string // without userinfo, query and fragment; at most 1,000 bytes
	Attempts   int    // attempts made
	Reason     Reason // why there was no further attempt; 0 if polite did not send it

	// RetryAfter is how long the server asked to wait, from when the response
	// arrived; zero if it did not.
	RetryAfter time.Duration

	// Code, Message, Details and TraceID are what the body says, where it is
	// in the shape {"error":{"codi","missatge","detalls","tracaId"}} (or code,
	// message, details, traceId), or RFC 9457 problem details (type, title and
	// detail). They are empty otherwise.
	Code    string
	Message string
	Details json.RawMessage
	TraceID string

	// Cause is the local reason that kept polite from another attempt, if it
	// was one: a *WaitError, for example. errors.Is looks into it, and so may
	// report context.DeadlineExceeded for a delay that was too long to wait.
	Cause error
}

func (e *ResponseError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "polite: %s %s: %d %s", e.Method, e.URL, e.StatusCode, http.StatusText(e.StatusCode))
	if e.Code != "" {
		fmt.Fprintf(&b, ": %s", brief(e.Code))
	}
	if e.Message != "" {
		fmt.Fprintf(&b, ": %s", brief(e.Message))
	}
	if e.TraceID != "" {
		fmt.Fprintf(&b, " (trace %s)", brief(e.TraceID))
	}
	if e.Attempts > 1 {
		fmt.Fprintf(&b, " after %d attempts", e.Attempts)
	}
	var wait *WaitError
	long := errors.As(e.Cause, &wait)
	switch {
	case long && e.RetryAfter > 0:
		fmt.Fprintf(&b, "; the server asked to wait %s, longer than %s allows", e.RetryAfter, wait.limit())
	case long:
		fmt.Fprintf(&b, "; another attempt would have to wait longer than %s allows", wait.limit())
	case e.RetryAfter > 0:
		fmt.Fprintf(&b, "; the server asked to wait %s", e.RetryAfter)
	}
	switch e.Reason {
	case ReasonBudget, ReasonBreaker, ReasonNotRepeatable, ReasonBodySpent: // of this side, not of the server
		fmt.Fprintf(&b, "; %s", e.Reason)
	}
	return b.String()
}

// brief is a text of the server as part of one line of ours.
func brief(s string) string { return oneLine(s, 300) }

// oneLine is a text from elsewhere on one line, with at most so many of its bytes.
func oneLine(s string, most int) string {
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}

// Unwrap returns the local reason, if any.
func (e *ResponseError) Unwrap() error { return e.Cause }

// headerTraceID is where Botiga Aroma names the trace of a request, should the
// body not.
const headerTraceID = "Aroma-Traca-Id"

// maxErrorBody bounds how much of an error body CheckResponse reads.
const maxErrorBody = 64 << 10

// CheckResponse returns nil for a 2xx response and a [*ResponseError] for any
// other. It reads at most the first 64 KiB of the body for the error's fields
// and leaves the body readable from its start; the caller still closes it.
func CheckResponse(resp *http.Response) error {
	if resp == nil {
		return errors.New("polite: no response to check")
	}
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return nil
	}
	e := &ResponseError{StatusCode: resp.StatusCode}
	if req := resp.Request; req != nil {
		e.Method = cmp.Or(req.Method, http.MethodGet)
		e.URL = redacted(req.URL)
	}
	if a := attemptOf(resp); a != nil {
		e.Attempts, e.Reason, e.RetryAfter, e.Cause = a.call.attempts, cmp.Or(a.stop, ReasonFinal), a.asked, a.cause
	}
	e.TraceID = resp.Header.Get(headerTraceID)
	e.readBody(PeekBody(resp, maxErrorBody))
	return e
}

// readBody fills the fields from a JSON body; any other body is left alone.
func (e *ResponseError) readBody(body []byte) {
	body = bytes.TrimSpace(body)
	if len(body) == 0 || body[0] != '{' {
		return
	}
	var wrapped struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &wrapped) == nil && bytes.HasPrefix(wrapped.Error, []byte("{")) {
		body = wrapped.Error
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return
	}
	text := func(names ...string) (s string) {
		for _, name := range names {
			if json.Unmarshal(fields[name], &s) == nil && s != "" {
				return s
			}
		}
		return ""
	}
	e.Code = text("codi", "code", "type")
	e.Message = text("missatge", "message", "detail", "title")
	e.TraceID = cmp.Or(text("tracaId", "traceId", "trace_id"), e.TraceID)
	if e.Details = fields["detalls"]; e.Details == nil {
		e.Details = fields["details"]
	}
}

// PeekBody returns at most the first n bytes of the response's body and leaves
// the body readable from its start. An error while reading is met again by
// whoever reads the body. The peek takes as long as those bytes take to
// arrive, bounded as every read of a body is.
func PeekBody(resp *http.Response, n int) []byte {
	if resp == nil || resp.Body == nil || resp.Body == http.NoBody || n <= 0 {
		return nil
	}
	head, err := io.ReadAll(io.LimitReader(resp.Body, int64(n)))
	rest := io.Reader(resp.Body)
	if err != nil {
		rest = failingReader{err}
	}
	resp.Body = &peekedBody{Reader: io.MultiReader(bytes.NewReader(head), rest), Closer: resp.Body}
	return head
}

type peekedBody struct {
	io.Reader
	io.Closer
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }
