package polite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Options configures a Client or a Transport: one small struct per stage. The
// zero Options, and a nil *Options, are a well-behaved client with the
// documented defaults. Options are copied when a Transport is made; changing
// them later has no effect.
//
// In every stage 0 means the documented default, a negative number means off
// or unlimited, and Disable switches the whole stage off.
type Options struct {
	// Base sends the requests. Nil means a private copy of
	// http.DefaultTransport that keeps enough idle connections per host for
	// many goroutines and takes 1 MiB of response headers at most. A Base that
	// is itself a polite Transport makes a single attempt, so that two layers
	// do not multiply.
	Base http.RoundTripper

	Retry      RetryOptions      // what is repeated, how often, and after what delay
	Limit      LimitOptions      // the client's own limits per host
	Preemptive PreemptiveOptions // slowing down before the server's limit
	Breaker    BreakerOptions    // the circuit breaker per host

	// QuotaKey names the quota that a request counts against, where one host
	// has several ("search", "core"). Requests with different keys share the
	// host's circuit breaker, retry budget and limits without a Key, and have
	// a gate and a quota ledger each; a refusal although the quota announced with
	// it has enough left is of a limit beyond them, and stops the whole host. With
	// nil, or the empty key, polite learns from the responses which of the host's
	// buckets an endpoint counts against, by their names or by limits that differ;
	// until it has been answered, an endpoint counts against the bucket that was
	// met first. At most 64 keys and buckets per host are told apart; further ones
	// count as the first. It must be safe for concurrent use.
	QuotaKey func(*http.Request) string

	// Cost is how many units of the limit a request uses, for the client's own
	// limits and for the server's. Nil, zero and negative results mean 1. It
	// must be safe for concurrent use.
	Cost func(*http.Request) int

	// Surcharge names a second quota that a request counts against, besides its
	// own, and how many units it uses there: for a search, say, that has a limit
	// of its own and counts in the general one too (the empty key), though its
	// answer tells of the first alone. The request is then sent when it fits into
	// both, and is booked in both. Limit.Rates with a Key do not count it. No
	// units, or the request's own quota key, mean that there is none, and so does
	// nil: then quotas of different keys are independent. It must be safe for
	// concurrent use.
	Surcharge func(*http.Request) (quotaKey string, units int)

	// Dialects are additional ways of speaking about limits in response
	// headers, tried before the built-in ones.
	Dialects []Dialect

	// Classify judges the outcome of each attempt; nil means DefaultClassify.
	// Exactly one of resp and err is nil. It may look at the response's body
	// with PeekBody and must not close it. It must be safe for concurrent use.
	Classify func(resp *http.Response, err error) Verdict

	// MaxHosts bounds how many hosts are remembered at once: 0 means 1,024,
	// negative means unlimited. The host that was used least recently is
	// forgotten first; calls to it under way go on undisturbed.
	MaxHosts int

	// ExpectedLimit is the quota that the caller thinks it has, in requests per
	// window, the largest one where there are several. If a server announces
	// less, Trace.Diagnosis says so: the usual cause is a missing Authorization
	// header. Requests with a quota key of their own are not compared. 0 or
	// negative means none.
	ExpectedLimit int64

	// Trace observes every call of this Transport; see WithTrace for one call.
	Trace *Trace
}

// Client is an HTTP client that behaves well towards rate-limited servers. It
// is a thin face over an http.Client whose Transport is a *Transport. Make one
// with New and share it: a Client is safe for concurrent use, and what it
// learned about a host serves all goroutines. It starts no goroutine and needs
// no closing. Most callers want Do, or Fetch to read a whole body. The zero
// Client sends nothing: its calls fail with an error that says so.
type Client struct {
	http      *http.Client
	transport *Transport
}

// New returns a Client with the given options; nil means the defaults.
func New(opts *Options) *Client {
	t := NewTransport(opts)
	return &Client{http: &http.Client{Transport: t, CheckRedirect: checkRedirect}, transport: t}
}

// HTTPClient returns the underlying http.Client, for SDKs that accept one and
// for settings such as Jar or CheckRedirect (to be made before the first use).
// Its Timeout may stay zero: [RetryOptions] bounds every call. The errors of its
// own methods name the whole URL, query included; those of Client do not.
//
// Its CheckRedirect follows ten redirects, and takes from a request to another
// origin (scheme, host or port) than the first one's whatever is named like a
// credential: Authorization, Cookie, and all headers with auth, key, token,
// secret, password, session, signature or credential in their names, but not
// Idempotency-Key. It is stricter than net/http's own rule. A CheckRedirect of
// your own takes its place.
func (c *Client) HTTPClient() *http.Client { return c.http }

// Transport returns the Transport below the client.
func (c *Client) Transport() *Transport { return c.transport }

// CloseIdleConnections closes the idle connections of the base transport, if
// it has such a method.
func (c *Client) CloseIdleConnections() {
	if c.transport != nil {
		c.transport.CloseIdleConnections()
	}
}

// newBase is http.DefaultTransport with idle connections for many goroutines
// on one host, and response headers of 1 MiB at most.
func newBase() http.RoundTripper {
	standard, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	base := standard.Clone()
	base.MaxIdleConnsPerHost = base.MaxIdleConns
	base.MaxResponseHeaderBytes = 1 << 20
	return base
}

// CloseIdleConnections closes the idle connections of the base, if it can.
func (t *Transport) CloseIdleConnections() {
	t.made.Do(t.make)
	if base, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// Do sends the request as http.Client.Do does, with all stages. A response
// that arrived is returned whatever its status, its body unread, for the
// caller to close; [CheckResponse] turns its status into an error. Without a
// response the error is a *url.Error around a [*RetryError], [*WaitError],
// [*CircuitOpenError] or the context's error.
func (c *Client) Do(req *http.Request) (*http.Response, error) {
	if err := c.check(req); err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	return resp, withoutSecrets(err)
}

// check refuses what net/http would panic at.
func (c *Client) check(req *http.Request) error {
	switch {
	case req == nil:
		return errors.New("polite: no request to send")
	case c == nil || c.http == nil:
		if req.Body != nil {
			req.Body.Close()
		}
		return errors.New("polite: the Client was not made with New; not sent")
	}
	return nil
}

// Get sends a GET request to the URL; see Do.
func (c *Client) Get(ctx context.Context, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, withoutSecrets(err)
	}
	return c.Do(req)
}

// MaxFetch is the largest body, after decompression, that Fetch reads into
// memory; a larger one ends the call with a *BodyTooLargeError.
const MaxFetch = 64 << 20

// Fetch sends the request and reads the whole body inside the attempt, so that
// a body that stalls, is reset or is cut short is retried like any other
// failure of the connection; a short body never comes back without an error.
//
// For a 2xx status decode (which may be nil) is given the response and its
// body; its error ends the call, wrapped in a [*RetryError], except that a body
// whose end the server did not mark (HTTP/1 until close) may have been cut, so
// there it is treated as a failed connection. Decode may run once per attempt
// and should fill a fresh value each time; JSON returns one that does.
//
// The response's body is already read: closing it is harmless and not needed,
// and it can be read again from memory. A status outside 2xx comes back as the
// response together with a *ResponseError. Redirects are followed as by Do.
// Bodies above MaxFetch end the call with a *BodyTooLargeError. MaxElapsed
// bounds the reading too.
func (c *Client) Fetch(req *http.Request, decode func(resp *http.Response, body []byte) error) (*http.Response, error) {
	if err := c.check(req); err != nil {
		return nil, err
	}
	if decode == nil {
		decode = func(*http.Response, []byte) error { return nil }
	}
	ctx := context.WithValue(req.Context(), fetchKey{}, fetcher(decode))
	resp, err := c.Do(req.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	err = CheckResponse(resp)
	keepBody(resp)
	return resp, err
}

// keepBody takes what remains of a response's body into memory and closes it,
// so that http.Client too lets go of it. An error while reading is met again by
// whoever reads the body.
func keepBody(resp *http.Response) {
	var body io.Reader
	if a := attemptOf(resp); a != nil && a.whole != nil {
		body = bytes.NewReader(a.whole)
	} else if head, err := readAll(resp.Body, resp.ContentLength); err != nil {
		body = io.MultiReader(bytes.NewReader(head), failingReader{err})
	} else {
		body = bytes.NewReader(head)
	}
	resp.Body.Close()
	resp.Body = io.NopCloser(body)
}

// JSON returns a decode function for Fetch that stores the body, which must be
// one JSON value, in *v: v is set to its zero value first, so that nothing of
// an earlier attempt remains.
func JSON[T any](v *T) func(*http.Response, []byte) error {
	return func(resp *http.Response, body []byte) error {
		if v == nil {
			return errors.New("polite: JSON was given a nil pointer")
		}
		var fresh T
		if err := json.Unmarshal(body, &fresh); err != nil {
			return notJSON(resp, err)
		}
		*v = fresh
		return nil
	}
}

// notJSON adds to an error of the JSON decoder what the server says the body
// is, where that is something else: a proxy's page for people, say.
func notJSON(resp *http.Response, err error) error {
	if resp == nil || !errors.As(err, new(*json.SyntaxError)) {
		return err
	}
	kind := resp.Header.Get("Content-Type")
	if kind == "" || strings.Contains(strings.ToLower(kind), "json") {
		return err
	}
	return fmt.Errorf("%s is not JSON: %w", brief(kind), err)
}

// fetchKey is the context key under which Fetch hands its decode function to
// the attempt, below redirects and cookies.
type fetchKey struct{}

// fetcher is the decode function of a Fetch.
type fetcher func(*http.Response, []byte) error

// readAll reads a body of at most MaxFetch bytes.
func readAll(r io.Reader, size int64) ([]byte, error) {
	if size > MaxFetch {
		return nil, &BodyTooLargeError{Bound: MaxFetch}
	}
	body, err := io.ReadAll(io.LimitReader(r, MaxFetch+1))
	if err == nil && len(body) > MaxFetch {
		err = &BodyTooLargeError{Bound: MaxFetch}
	}
	return body, err
}
