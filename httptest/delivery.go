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

// write delivers the answer over a real connection.
func (a answer) write(ctx context.Context, w http.ResponseWriter, head bool) {
	if pause(ctx, a.delay) != nil {
		panic(http.ErrAbortHandler) // the client has gone
	}
	if a.fault == StallHeaders {
		<-ctx.Done()
	}
	if a.fault.dropsAnswer() || a.fault == StallHeaders {
		abort(w)
	}
	h := w.Header()
	for name, values := range a.header {
		h[name] = values
	}
	if h.Get("Content-Length") == "" && bodyAllowed(a.status) {
		set(h, "Content-Length", strconv.Itoa(len(a.body)))
	}
	w.WriteHeader(a.status)
	if head || !bodyAllowed(a.status) {
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
		<-ctx.Done()
	}
	if a.fault == TruncateBody {
		panic(http.ErrAbortHandler) // net/http then ends the connection short of Content-Length
	}
	abort(w)
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
	mu     sync.Mutex
	rest   []byte
	end    error // after rest: io.EOF, or what the fault says; nil = it never ends
	once   sync.Once
	closed chan struct{}
	done   func(read bool) // told once, at Close
}

var errBodyClosed = errors.New("httptest: read on a closed response body")

func newMemoryBody(ctx context.Context, body []byte, fault Fault, done func(read bool)) *memoryBody {
	b := &memoryBody{ctx: ctx, rest: body, end: io.EOF, closed: make(chan struct{}), done: done}
	if fault.breaksBody() {
		b.rest = body[:len(body)/2]
	}
	switch fault {
	case StallBody:
		b.end = nil
	case TruncateBody:
		b.end = io.ErrUnexpectedEOF
	case ResetBody:
		b.end = fault.err()
	}
	return b
}

func (b *memoryBody) Read(p []byte) (int, error) {
	select {
	case <-b.closed:
		return 0, errBodyClosed
	default:
	}
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	if n := b.next(p); n > 0 || len(p) == 0 {
		return n, nil
	}
	if b.end != nil {
		return 0, b.end
	}
	select {
	case <-b.closed:
		return 0, errBodyClosed
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
}

// next copies what is there.
func (b *memoryBody) next(p []byte) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n
}

// Close ends a stalled Read. It may be called more than once.
func (b *memoryBody) Close() error {
	b.once.Do(func() {
		close(b.closed)
		b.mu.Lock()
		read := len(b.rest) == 0
		b.mu.Unlock()
		b.done(read)
	})
	return nil
}
