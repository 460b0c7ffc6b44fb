package httptest

import (
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// BaseURL is where Botiga Aroma lives. The in-memory transports answer for any host.
const BaseURL = "https://api.botigaaroma.example"

// Transport returns an [http.RoundTripper] that answers from this server in the caller's goroutine: no sockets, no
// goroutines, exact instants inside a testing/synctest bubble. [Config.Latency] passes half before and half
// after the server; the request's context ends any wait. Faults arrive as the errors that a real connection gives.
// The request's body is read, if at all, within RoundTrip and always closed.
func (s *Server) Transport() http.RoundTripper { return s.TransportFrom("192.0.2.1") }

// TransportFrom is Transport for a client at another IP address.
func (s *Server) TransportFrom(address string) http.RoundTripper {
	return &memoryTransport{server: s, peer: groupIP(address)}
}

type memoryTransport struct {
	server *Server
	peer   string // the client's address
	last   atomic.Pointer[acquaintance]
}

func (t *memoryTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if req.Body != nil {
		body := &closeOnce{close: req.Body.Close}
		defer body.Close()
		// A body that blocks must not outlive the call's context.
		defer context.AfterFunc(ctx, body.Close)()
	}
	if req.URL == nil || req.URL.Host == "" {
		return nil, errors.New("httptest: no Host in request URL")
	}
	if req.Method == "" { // net/http sends a GET then
		req = req.Clone(ctx)
		req.Method = http.MethodGet
	}
	s := t.server
	sent := s.clock.Add(1)
	half := s.config.Latency / 2
	if err := travel(ctx, half); err != nil {
		return nil, err
	}
	x := newExchange(req, t.peer, sent, &t.last)
	defer x.release()
	s.arrive(x)
	if x.refused() {
		return nil, cmp.Or(travel(ctx, s.config.Latency-half), Refuse.err())
	}
	if err := x.receive(); err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	a := s.handle(x)
	if a.fault == StallHeaders {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	err := travel(ctx, a.delay)
	if err == nil {
		err = travel(ctx, s.config.Latency-half)
	}
	if err != nil {
		s.lost(x)
		return nil, err
	}
	if a.fault.dropsAnswer() {
		return nil, a.fault.err()
	}
	s.delivered(x, s.sameInstant())
	return x.response(a), nil
}

// sameInstant is how long after an answer was handed over requests arrive that were sent in that instant: perhaps by
// another goroutine, before the one that got the answer could tell it.
func (s *Server) sameInstant() time.Duration {
	if half := s.config.Latency / 2; half > 0 {
		return half + 1
	}
	return 0
}

// travel is pause with the context's cause, which is what a client is told.
func travel(ctx context.Context, d time.Duration) error {
	if pause(ctx, d) != nil {
		return context.Cause(ctx)
	}
	return nil
}

// receive reads the body. Like net/http it fails, and the server never sees a whole request, when the body
// cannot be read or is not as long as announced.
func (x *exchange) receive() error {
	x.read()
	if x.bodyErr != nil {
		return fmt.Errorf("httptest: connection broken: %w", x.bodyErr)
	}
	announced := x.request.ContentLength
	if announced > 0 && announced != int64(len(x.body)) && len(x.body) <= maxBody {
		return fmt.Errorf("httptest: ContentLength=%d with Body length %d", announced, len(x.body))
	}
	return nil
}

// response turns the answer into what a client receives.
func (x *exchange) response(a *answer) *http.Response {
	req := x.request
	body := a.body
	if req.Method == http.MethodHead || !bodyAllowed(a.status) {
		body = nil
	}
	resp := &a.response
	*resp = http.Response{
		Status: statusLine(a.status), StatusCode: a.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.header, Request: req, ContentLength: int64(len(body)), Body: http.NoBody,
	}
	if req.Method == http.MethodHead && bodyAllowed(a.status) {
		resp.ContentLength = int64(len(a.body)) // what a GET would bring
	}
	if len(body) == 0 {
		return resp
	}
	resp.Body = a.openBody(req.Context(), x.conduct)
	// Like net/http, undo a compression that the caller has not asked for.
	if first(a.header, "Content-Encoding") == "gzip" && first(req.Header, "Accept-Encoding") == "" {
		a.header.Del("Content-Encoding")
		a.header.Del("Content-Length")
		resp.ContentLength, resp.Uncompressed = -1, true
		resp.Body = &gunzip{compressed: resp.Body}
	}
	return resp
}

func statusLine(status int) string {
	if known := statusLines[status]; known != "" {
		return known
	}
	return strconv.Itoa(status) + " "
}

// statusLines are those of the statuses that have a name.
var statusLines = func() (lines [600]string) {
	for status := range lines {
		if name := http.StatusText(status); name != "" {
			lines[status] = strconv.Itoa(status) + " " + name
		}
	}
	return lines
}()

// gunzip decompresses as it is read.
type gunzip struct {
	compressed io.ReadCloser
	plain      *gzip.Reader
}

func (g *gunzip) Read(p []byte) (int, error) {
	if g.plain == nil {
		plain, err := gzip.NewReader(g.compressed)
		if err != nil {
			return 0, err
		}
		g.plain = plain
	}
	return g.plain.Read(p)
}

func (g *gunzip) Close() error { return g.compressed.Close() }

// closeOnce closes a request body once, whoever comes first.
type closeOnce struct {
	once  sync.Once
	close func() error
}

func (c *closeOnce) Close() { c.once.Do(func() { _ = c.close() }) }
