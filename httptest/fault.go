package httptest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
)

// Fault is a failure of the connection. The zero value is [NoFault].
type Fault int

// The faults, in the order in which they strike during one exchange.
const (
	NoFault      Fault = iota
	Refuse             // the connection is refused: the request is never seen (over a real port: reset before it is read)
	ResetBefore        // reset before anything was done
	ResetAfter         // reset after the request was counted and carried out: only the answer is lost
	StallHeaders       // carried out, but the headers never come
	StallBody          // headers and half the body come, then nothing more
	TruncateBody       // headers and half the body come, then the connection ends early
	ResetBody          // headers and half the body come, then a reset
)

var faultNames = [...]string{"none", "refuse", "reset-before", "reset-after", "stall-headers", "stall-body", "truncate-body", "reset-body"}

// String returns the fault's name, such as "reset-after".
func (f Fault) String() string {
	if f < 0 || int(f) >= len(faultNames) {
		return fmt.Sprintf("Fault(%d)", int(f))
	}
	return faultNames[f]
}

// breaksBody reports that the fault strikes in the middle of the body.
func (f Fault) breaksBody() bool { return f == StallBody || f == TruncateBody || f == ResetBody }

// dropsAnswer reports that not even headers come.
func (f Fault) dropsAnswer() bool { return f == Refuse || f == ResetBefore || f == ResetAfter }

// err is the error that a client of the in-memory transport sees.
func (f Fault) err() error {
	if f == Refuse {
		return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	return &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
}

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
	rest   []byte
	end    error // after rest: io.EOF, or what the fault says; nil = it never ends
	once   sync.Once
	closed chan struct{}
}

var errBodyClosed = errors.New("httptest: read on a closed response body")

func newMemoryBody(ctx context.Context, body []byte, fault Fault) *memoryBody {
	b := &memoryBody{ctx: ctx, rest: body, end: io.EOF, closed: make(chan struct{})}
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
	if len(b.rest) > 0 {
		n := copy(p, b.rest)
		b.rest = b.rest[n:]
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

// Close ends a stalled Read. It may be called more than once.
func (b *memoryBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}
