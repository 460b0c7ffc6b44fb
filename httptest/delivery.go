package httptest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
)

// writeHead delivers status and headers over a real connection. It does not return if they never come.
func (a *answer) writeHead(w http.ResponseWriter, r *http.Request) {
	if (a.fault == StallHeaders || a.fault == StallBody) && r.Body != nil {
		// net/http notices that the client has gone only when all of the body has been read.
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			abort(w)
		}
	}
	if pause(r.Context(), a.delay) != nil {
		panic(http.ErrAbortHandler) // the client has gone
	}
	if a.fault == StallHeaders {
		<-r.Context().Done()
	}
	if a.fault.dropsAnswer() || a.fault == StallHeaders {
		abort(w)
	}
	h := w.Header()
	_, served := r.Context().Value(http.ServerContextKey).(*http.Server)
	for name, values := range a.header {
		if spelled, ok := spellings[name]; ok && served { // a recorder is asked for the canonical name
			name = spelled
		}
		h[name] = values
	}
	if h.Get("Content-Length") == "" && bodyAllowed(a.status) {
		h.Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	w.WriteHeader(a.status)
}

// writeBody delivers the body after writeHead, or the part of it that comes.
func (a *answer) writeBody(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead || !bodyAllowed(a.status) {
		return
	}
	if !a.fault.breaksBody() {
		// A failed write means that the client has gone, and nobody is left to tell.
		_, _ = w.Write(a.body)
		return
	}
	_, _ = w.Write(a.body[:len(a.body)/2])
	_ = http.NewResponseController(w).Flush()
	if a.fault == StallBody {
		<-r.Context().Done()
	}
	if a.fault == TruncateBody {
		panic(http.ErrAbortHandler) // net/http then ends the connection short of Content-Length
	}
	abort(w)
}

// spellings are the names as they go over the wire, where Go's canonical form differs.
var spellings = map[string]string{
	"Aroma-Ratelimit-Limit":     "Aroma-RateLimit-Limit",
	"Aroma-Ratelimit-Restants":  "Aroma-RateLimit-Restants",
	"Aroma-Ratelimit-Reinici":   "Aroma-RateLimit-Reinici",
	"Aroma-Ratelimit-Remaining": "Aroma-RateLimit-Remaining",
	"Aroma-Ratelimit-Reset":     "Aroma-RateLimit-Reset",
	"X-Ratelimit-Limit":         "X-RateLimit-Limit",
	"X-Ratelimit-Remaining":     "X-RateLimit-Remaining",
	"X-Ratelimit-Reset":         "X-RateLimit-Reset",
	"Ratelimit-Limit":           "RateLimit-Limit",
	"Ratelimit-Remaining":       "RateLimit-Remaining",
	"Ratelimit-Reset":           "RateLimit-Reset",
	"Ratelimit-Policy":          "RateLimit-Policy",
	"Ratelimit":                 "RateLimit",
}

// abort resets the connection: over TCP with a RST, elsewhere by closing it.
func abort(w http.ResponseWriter) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
	}
	panic(http.ErrAbortHandler)
}

func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// memoryBody is a response body of the in-memory transport; a fault strikes half way.
// Read and Close may be called from different goroutines.
type memoryBody struct {
	ctx    context.Context
	owner  *conduct      // the client whose body it is
	end    error         // after rest: io.EOF, or what the fault says
	stalls chan struct{} // if not nil: after rest nothing comes until it is closed

	mu     sync.Mutex
	rest   []byte
	closed bool
}

var errBodyClosed = errors.New("httptest: read on a closed response body")

// openBody is the answer's body on its way to owner.
func (a *answer) openBody(ctx context.Context, owner *conduct) *memoryBody {
	b := &a.memory
	b.ctx, b.owner, b.rest, b.end = ctx, owner, a.body, io.EOF
	if a.fault.breaksBody() {
		b.rest = a.body[:len(a.body)/2]
	}
	switch a.fault {
	case StallBody:
		b.stalls, b.end = make(chan struct{}), errBodyClosed
	case TruncateBody:
		b.end = io.ErrUnexpectedEOF
	case ResetBody:
		b.end = a.fault.err()
	}
	owner.open.Add(1)
	return b
}

func (b *memoryBody) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := b.next(p)
	if n > 0 || err != nil || len(p) == 0 {
		return n, err
	}
	if b.stalls == nil {
		return 0, b.end
	}
	select {
	case <-b.stalls:
		return 0, b.end
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
}

// next copies what is there.
func (b *memoryBody) next(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, errBodyClosed
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// Close ends a stalled Read. It may be called more than once.
func (b *memoryBody) Close() error {
	b.mu.Lock()
	first, read := !b.closed, len(b.rest) == 0
	b.closed = true
	b.mu.Unlock()
	if !first {
		return nil
	}
	if b.stalls != nil {
		close(b.stalls)
	}
	b.owner.open.Add(-1)
	if !read {
		b.owner.unread.Add(1)
	}
	return nil
}
