package polite_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
)

// A refusal that outlasts all attempts tells its status, the attempts and
// the wait that was asked for last.
//
// Case C053.
func TestRefusalThatLastsIsToldInFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(429, "Retry-After", "1").Times(3), politetest.Respond(429, "Retry-After", "2").WithBody(
			`{"error":{"codi":"limit_peticions","missatge":"Massa peticions.","detalls":[]}}`))
		resp, err := polite.New(steadily(s.Transport())).Get(t.Context(), aCoffee)
		require.NoError(t, err)
		e := responseError(t, resp)
		assert.Equal(t, 429, e.StatusCode)
		assert.Equal(t, 4, e.Attempts)
		assert.Equal(t, 2*time.Second, e.RetryAfter)
		assert.Equal(t, "limit_peticions", e.Code)
		assert.Equal(t, "Massa peticions.", e.Message)
		assert.JSONEq(t, "[]", string(e.Details))
		assert.Equal(t, polite.ReasonAttempts, e.Reason)
		for _, part := range []string{"GET", aCoffee, "429 Too Many Requests", "limit_peticions", "Massa peticions.", "wait 2s", "4 attempts"} {
			assert.ErrorContains(t, e, part)
		}
		readBody(t, resp)
	})
}

func TestCheckResponseReadsTheUsualErrorBodies(t *testing.T) {
	for name, tc := range map[string]struct{ body, code, message, details, trace string }{
		"aroma":      {`{"error":{"codi":"servei_no_disponible","missatge":"Ara no.","detalls":["x"],"tracaId":"trz_1"}}`, "servei_no_disponible", "Ara no.", `["x"]`, "trz_1"},
		"english":    {`{"code":"busy","message":"Not now.","details":{"a":1},"traceId":"t-2"}`, "busy", "Not now.", `{"a":1}`, "t-2"},
		"problem":    {`{"type":"https://e.test/busy","title":"Busy","detail":"Not now.","status":503}`, "https://e.test/busy", "Not now.", "", "trz_h"},
		"title only": {` {"type":"about:blank","title":"Busy"}`, "about:blank", "Busy", "", "trz_h"},
		"text error": {`{"error":"no such thing"}`, "", "", "", "trz_h"},
		"numbers":    {`{"code":17,"message":{"a":1}}`, "", "", "", "trz_h"},
		"not JSON":   {`<html>`, "", "", "", "trz_h"},
		"cut JSON":   {`{"code":"bu`, "", "", "", "trz_h"},
		"array":      {`[{"code":"x"}]`, "", "", "", "trz_h"},
		"empty":      {``, "", "", "", "trz_h"},
		"null":       {`{"error":null}`, "", "", "", "trz_h"},
	} {
		t.Run(name, func(t *testing.T) {
			resp := answered(request(t, http.MethodGet, aCoffee, ""), 503, tc.body, "Aroma-Traca-Id", "trz_h")
			e := responseError(t, resp)
			assert.Equal(t, tc.code, e.Code)
			assert.Equal(t, tc.message, e.Message)
			assert.Equal(t, tc.details, string(e.Details))
			assert.Equal(t, tc.trace, e.TraceID)
			assert.Zero(t, e.Attempts, "polite did not send it")
			assert.Equal(t, tc.body, readBody(t, resp))
		})
	}
	for status := 200; status < 300; status++ {
		assert.NoError(t, polite.CheckResponse(&http.Response{StatusCode: status}))
	}
	assert.Error(t, polite.CheckResponse(&http.Response{StatusCode: 304, Header: http.Header{}}))
}

// A long error body is read in part and given back whole.
func TestCheckResponseReadsAtMostItsBound(t *testing.T) {
	body := `{"message":"` + strings.Repeat("x", 100<<10) + `"}`
	resp := answered(request(t, http.MethodGet, aCoffee, ""), 500, body)
	e := responseError(t, resp)
	assert.Empty(t, e.Message)
	assert.Equal(t, body, readBody(t, resp))
}

// What a server says about itself does not break our line, nor fill it.
func TestResponseErrorIsOneShortLine(t *testing.T) {
	resp := answered(request(t, http.MethodGet, aCoffee, ""), 500, `{"message":"first\nsecond\u001b[31m`+strings.Repeat("ç", 5000)+`"}`)
	e := responseError(t, resp)
	assert.Contains(t, e.Message, "\n")
	assert.NotContains(t, e.Error(), "\n")
	assert.NotContains(t, e.Error(), "\x1b")
	assert.Contains(t, e.Error(), "first second")
	assert.Less(t, len(e.Error()), 400)
	assert.True(t, utf8.ValidString(e.Error()))
}

// A status that no repetition can help is final, and says so.
func TestFinalStatusHasItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, status := range []int{304, 400, 404, 422, 500} {
			resp, _ := do(t, polite.New(steadily(serving(t, politetest.Respond(status)).Transport())), request(t, http.MethodGet, aCoffee, ""))
			assert.Equal(t, polite.ReasonFinal, responseError(t, resp).Reason)
		}
	})
}

// Where no response is returned, no body stays open.
//
// Case C043.
func TestNoBodyStaysOpenBehindAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bodies := &counting{base: serving(t, politetest.Respond(503).Times(2), politetest.Fail(politetest.ResetAfter).Times(-1)).Transport()}
		_, err := polite.New(steadily(bodies)).Get(t.Context(), aCoffee)
		require.Error(t, err)
		assert.EqualValues(t, 2, bodies.opened.Load())
		assert.Zero(t, bodies.open())

		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		bodies = &counting{base: serving(t, politetest.Respond(429, "Retry-After", "1").Times(-1)).Transport()}
		resp, err := polite.New(steadily(bodies)).Get(ctx, aCoffee)
		if err == nil {
			readBody(t, resp)
		}
		assert.Zero(t, bodies.open())
	})
}

// No secret of a URL in an error, a log line, an event or a host's name.
//
// Case C171.
func TestSecretsOfTheURLAppearNowhere(t *testing.T) {
	const secret = "s3cr3t"
	target := "http://ona:" + secret + "@api.test/v1/cafes/caf_00001?token=" + secret + "#" + secret
	for name, reply := range map[string]politetest.Reply{
		"503": politetest.Respond(503), "429": politetest.Respond(429, "Retry-After", "1"), "too long": politetest.Respond(429, "Retry-After", "999"),
		"lost": politetest.Fail(politetest.ResetAfter), "refused": politetest.Fail(politetest.Refuse), "stalled": politetest.Fail(politetest.StallHeaders),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				s := serving(t, reply.Times(-1))
				o := steadily(roundTripper(func(req *http.Request) (*http.Response, error) {
					resp, err := s.Transport().RoundTrip(req)
					if err != nil { // as a base does that is built on an http.Client
						err = &url.Error{Op: "Get", URL: req.URL.String(), Err: err}
					}
					return resp, err
				}))
				o.Trace = polite.SlogTrace(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
				c := polite.New(o)
				for range 3 { // the last one meets an open breaker or a closed gate
					for _, get := range []func() (*http.Response, error){
						func() (*http.Response, error) { return c.Get(t.Context(), target) },
						func() (*http.Response, error) {
							return c.Fetch(request(t, http.MethodPut, target, "x", "Authorization", "Bearer "+secret), nil)
						},
					} {
						resp, err := get()
						if resp != nil {
							err = errors.Join(err, polite.CheckResponse(resp))
							resp.Body.Close()
						}
						require.Error(t, err)
						assert.NotContains(t, err.Error(), secret)
						assert.Contains(t, err.Error(), "api.test")
						assertChainWithout(t, err, secret)
					}
				}
				assert.NotEmpty(t, out.String())
				assert.NotContains(t, out.String(), secret)
				for host := range c.Transport().Hosts() {
					assert.Equal(t, "http://api.test", host)
				}
			})
		})
	}
	for _, bad := range []string{"http://ona:" + secret + "/x@api.test/", "http://api.test/%zz?token=" + secret, "http://api.test:" + secret + "@x:y/", "ht tp://x/?" + secret} {
		_, err := polite.New(nil).Get(t.Context(), bad)
		require.Error(t, err)
		assert.NotContains(t, err.Error(), secret)
	}
}

// assertChainWithout looks at the text of every error in the chain.
func assertChainWithout(t *testing.T, err error, secret string) {
	t.Helper()
	if err == nil {
		return
	}
	assert.NotContains(t, err.Error(), secret)
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		assertChainWithout(t, e.Unwrap(), secret)
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			assertChainWithout(t, err, secret)
		}
	}
}

// The error of an open breaker has nothing of the calls that opened it.
//
// Case C173.
func TestOpenBreakerTellsNothingOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := steadily(roundTripper(func(req *http.Request) (*http.Response, error) {
			return nil, errors.New("failed for " + req.Header.Get("User-Name"))
		}))
		o.Breaker.Failures = 1
		c := polite.New(o)
		_, err := c.Do(request(t, http.MethodGet, aCoffee, "", "User-Name", "first"))
		assert.ErrorContains(t, err, "first")
		_, err = c.Do(request(t, http.MethodGet, aCoffee, "", "User-Name", "second"))
		var open *polite.CircuitOpenError
		require.ErrorAs(t, err, &open)
		assert.NoError(t, open.Err)
		assert.NotContains(t, err.Error(), "first")
	})
}

// Every error says alone what was wrong and what was sent.
func TestErrorsReadAlone(t *testing.T) {
	until := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for want, err := range map[string]error{
		"polite: circuit breaker of https://api.test is open until 2026-03-01T12:00:00Z; not sent": &polite.CircuitOpenError{Host: "https://api.test", Until: until},
		"polite: circuit breaker of https://api.test is half-open and its probe is under way; not sent again after 2 attempts: connection lost": &polite.CircuitOpenError{
			Host: "https://api.test", Attempts: 2, Err: errLost},
		"polite: https://api.test: not sent: the wait until 2026-03-01T12:00:00Z (quota exhausted) would pass Limit.MaxWait (2m0s)": &polite.WaitError{
			Host: "https://api.test", Reason: polite.ReasonQuota, Until: until, Bound: "Limit.MaxWait", Most: 2 * time.Minute},
		"polite: https://api.test: not sent again: the wait until 2026-03-01T12:00:00.25Z (the client's own rate limit) would pass the context's deadline; after 3 attempts: connection lost": &polite.WaitError{
			Host: "https://api.test", Reason: polite.ReasonRate, Until: until.Add(250 * time.Millisecond), Bound: "deadline", Attempts: 3, Err: errLost},
		"polite: https://api.test: not sent: the wait (a probe is under way) would pass Retry.MaxElapsed (5m0s)": &polite.WaitError{
			Host: "https://api.test", Reason: polite.ReasonProbe, Bound: "Retry.MaxElapsed", Most: 5 * time.Minute},
		"polite: https://api.test: not sent: as many requests wait already as Limit.MaxWaiting allows": &polite.WaitError{
			Host: "https://api.test", Reason: polite.ReasonQueue, Bound: "Limit.MaxWaiting"},
		"polite: https://api.test: not sent: its Cost is more than the N of a rate, which never admits it": &polite.WaitError{
			Host: "https://api.test", Reason: polite.ReasonRate, Bound: "Rate.N"},
		"polite: https://api.test: 1 attempt (a repetition cannot help; nothing was sent): connection lost": &polite.RetryError{
			Host: "https://api.test", Attempts: 1, Reason: polite.ReasonFinal, Err: errLost},
		"polite: https://api.test: 4 attempts (no attempts left; the server may have received it): connection lost": &polite.RetryError{
			Host: "https://api.test", Attempts: 4, Sent: true, Reason: polite.ReasonAttempts, Err: errLost},
		"polite: no answer from the server within 30s": &polite.AttemptTimeoutError{After: 30 * time.Second},
		"polite: https://api.test: 1 attempt (a repetition cannot help; the server answered 200): decoding the response: no number": &polite.RetryError{
			Host: "https://api.test", Attempts: 1, Sent: true, Status: 200, Reason: polite.ReasonFinal, Err: errors.New("polite: decoding the response: no number")},
		"polite: response body larger than 67108864 bytes (64 MiB, polite.MaxFetch)": &polite.BodyTooLargeError{Bound: polite.MaxFetch},
		"polite: PUT http://api.test/x: 500 Internal Server Error":                   &polite.ResponseError{Method: "PUT", URL: "http://api.test/x", StatusCode: 500},
		"polite: GET http://api.test/x: 429 Too Many Requests after 2 attempts; the server asked to wait 1m30s, longer than Retry.MaxWait (1m0s) allows": &polite.ResponseError{
			Method: "GET", URL: "http://api.test/x", StatusCode: 429, Attempts: 2, RetryAfter: 90 * time.Second, Cause: &polite.WaitError{Bound: "Retry.MaxWait", Most: time.Minute}},
		"polite: GET http://api.test/x: 503 Service Unavailable; another attempt would have to wait longer than the context's deadline allows": &polite.ResponseError{
			Method: "GET", URL: "http://api.test/x", StatusCode: 503, Attempts: 1, Reason: polite.ReasonTime, Cause: &polite.WaitError{Bound: "deadline"}},
		"polite: POST http://api.test/x: 503 Service Unavailable; not safe to repeat without an Idempotency-Key": &polite.ResponseError{
			Method: "POST", URL: "http://api.test/x", StatusCode: 503, Attempts: 1, Reason: polite.ReasonNotRepeatable},
	} {
		assert.EqualError(t, err, want)
	}
}

// What the errors answer to net.Error's question.
func TestErrorsKnowWhetherTimeWasTheBound(t *testing.T) {
	timeout := &polite.AttemptTimeoutError{After: time.Second}
	for err, want := range map[interface {
		error
		Timeout() bool
	}]bool{
		timeout:                                      true,
		&polite.RetryError{Err: timeout}:             true,
		&polite.RetryError{Err: errLost}:             false,
		&polite.WaitError{Bound: "deadline"}:         true,
		&polite.WaitError{Bound: "Limit.MaxWaiting"}: false,
		&polite.WaitError{Bound: "Rate.N"}:           false,
	} {
		assert.Equal(t, want, err.Timeout(), "%T %v", err, err)
		assert.Equal(t, want, errors.Is(err, context.DeadlineExceeded), "%T %v", err, err)
		assert.Equal(t, want, (&url.Error{Err: err}).Timeout())
	}
}

// A request that net/http itself refuses is the caller's fault: not repeated,
// not sent, and no failure of the host.
func TestInvalidRequestIsFinalNeutralAndNotSent(t *testing.T) {
	bad := func(change func(*http.Request)) *http.Request {
		req := request(t, http.MethodGet, aCoffee, "")
		change(req)
		return req
	}
	for name, req := range map[string]*http.Request{
		"header name":  bad(func(req *http.Request) { req.Header["Bad Name"] = []string{"x"} }),
		"header value": bad(func(req *http.Request) { req.Header.Set("X", "a\nb") }),
		"method":       bad(func(req *http.Request) { req.Method = "BAD METHOD" }),
		"scheme":       bad(func(req *http.Request) { req.URL.Scheme = "gopher" }),
	} {
		t.Run(name, func(t *testing.T) {
			o := &polite.Options{Breaker: polite.BreakerOptions{Failures: 1}}
			c := polite.New(o)
			_, err := c.Transport().RoundTrip(req)
			var e *polite.RetryError
			require.ErrorAs(t, err, &e)
			assert.Equal(t, 1, e.Attempts)
			assert.Equal(t, polite.ReasonFinal, e.Reason)
			assert.False(t, e.Sent)
			assert.Equal(t, polite.BreakerClosed, breakerOf(t, c))
		})
	}
}
