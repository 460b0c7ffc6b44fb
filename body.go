package polite

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// maxBuffer is how much of a request body without GetBody is kept in memory so
// that it can be sent again.
const maxBuffer = 1 << 20

// requestBody gives each attempt a body of its own. The caller's Body serves
// the first attempt; later ones come from GetBody or from a copy in memory.
// Without either, the body can be sent again only while nobody has read it.
type requestBody struct {
	orig  *callerBody // nil: there is no body
	again func() (io.ReadCloser, error)
	err   atomic.Pointer[error] // the first error of the caller's own reader
}

// callerBodyOf returns the request's body, nil if it has none.
func callerBodyOf(req *http.Request) *callerBody {
	if req.Body == nil || req.Body == http.NoBody {
		return nil
	}
	return &callerBody{ReadCloser: req.Body}
}

// keep reads the body, which has no GetBody, into memory, so that it can be sent
// again. One that is longer than maxBuffer is sent once only. A reader that
// blocks is closed when the context ends, and keep reports false.
func (b *requestBody) keep(ctx context.Context) bool {
	stop := context.AfterFunc(ctx, b.orig.end)
	defer stop() // for a reader that panics, whose body the end of the call closes
	head, err := io.ReadAll(io.LimitReader(b.orig.ReadCloser, maxBuffer+1))
	b.orig.head = head
	switch {
	case err != nil:
		b.orig.failed = err
	case len(head) <= maxBuffer:
		b.orig.failed = io.EOF
		b.again = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(head)), nil }
	}
	return stop()
}

// put gives the request of an attempt its body, if there is one, and net/http
// the means to send it again by itself.
func (b *requestBody) put(req *http.Request, first bool) (err error) {
	if b.orig == nil {
		return nil
	}
	if b.again != nil {
		req.GetBody = b.copy
	}
	if first || b.again == nil {
		b.orig.hand()
		req.Body = &sentBody{of: b, rc: b.orig}
		return nil
	}
	req.Body, err = b.copy()
	return err
}

// copy returns the body once more.
func (b *requestBody) copy() (io.ReadCloser, error) {
	rc, err := b.again()
	if err != nil {
		return nil, err
	}
	return &sentBody{of: b, rc: rc}, nil
}

// replayable reports whether put can give the same bytes once more.
func (b *requestBody) replayable() bool {
	return b.orig == nil || b.again != nil || b.orig.untouched()
}

// failure returns the error that the caller's own reader has met, if any.
func (b *requestBody) failure() error {
	if err := b.err.Load(); err != nil {
		return *err
	}
	return nil
}

// end closes the caller's body if the base transport has not and will not.
func (b *requestBody) end() {
	if b.orig != nil {
		b.orig.end()
	}
}

// callerBody is the caller's body. An attempt that closes it without having
// read from it leaves it open for the next one, until the call ends.
type callerBody struct {
	io.ReadCloser
	head   []byte // read ahead
	failed error  // what the reading ahead ended with

	mu     sync.Mutex
	read   bool
	handed bool // to the base transport, which has not closed it yet
	ended  bool // no further attempt comes
	closed bool
}

func (b *callerBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	b.read = true
	closed := b.closed
	b.mu.Unlock()
	switch {
	case closed:
		return 0, http.ErrBodyReadAfterClose
	case len(b.head) > 0:
		n := copy(p, b.head)
		b.head = b.head[n:]
		return n, nil
	case b.failed != nil:
		return 0, b.failed
	}
	return b.ReadCloser.Read(p)
}

// Close is the base transport's.
func (b *callerBody) Close() error {
	b.mu.Lock()
	b.handed = false
	final := (b.read || b.ended) && !b.closed
	b.closed = b.closed || final
	b.mu.Unlock()
	if final {
		return b.ReadCloser.Close()
	}
	return nil
}

// end closes the body unless the base transport still holds it.
func (b *callerBody) end() {
	b.mu.Lock()
	b.ended = true
	final := !b.handed && !b.closed
	b.closed = b.closed || final
	b.mu.Unlock()
	if final {
		b.ReadCloser.Close()
	}
}

func (b *callerBody) untouched() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.read && !b.handed && !b.closed
}

func (b *callerBody) hand() {
	b.mu.Lock()
	b.handed = true
	b.mu.Unlock()
}

// sentBody is the body of one attempt. It notes errors of the caller's reader,
// which are not the server's fault, unless the base itself has closed it.
type sentBody struct {
	of     *requestBody
	rc     io.ReadCloser
	closed atomic.Bool
}

func (s *sentBody) Read(p []byte) (int, error) {
	if s.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := s.rc.Read(p)
	if err != nil && err != io.EOF && !s.closed.Load() {
		s.of.err.CompareAndSwap(nil, &err)
	}
	return n, err
}

func (s *sentBody) Close() error {
	s.closed.Store(true)
	return s.rc.Close()
}

// responseBody is the body of a response that is handed over. The attempt ends
// when the body does: at its end, at an error, or when it is closed. Each read
// is bounded in time.
type responseBody struct{ of *attempt }

// reader is the attempt as its response's body.
func (a *attempt) reader() io.ReadCloser {
	if w, ok := a.body.(io.Writer); ok { // 101 Switching Protocols
		return struct {
			responseBody
			io.Writer
		}{responseBody{a}, w}
	}
	return responseBody{a}
}

func (b responseBody) Read(p []byte) (int, error) {
	now := b.of.call.clock()
	b.of.bound(now, b.readTime(now))
	n, err := b.of.body.Read(p)
	b.of.unbound()
	if err != nil {
		if err != io.EOF {
			err = b.of.timeoutOr(err)
		}
		b.of.finish()
	}
	return n, err
}

// readTime is how long one read may take. In a Fetch, and in a Classify that
// looks at the body, the reading is part of the call, which has an end.
func (b responseBody) readTime(now time.Time) time.Duration {
	if c := b.of.call; c.fetch != nil || c.current == b.of {
		return c.attemptTime(now)
	}
	return b.of.call.set.AttemptTimeout
}

func (b responseBody) Close() error {
	err := b.of.body.Close()
	b.of.finish()
	return err
}

// readAhead keeps a copy of a body without GetBody, within the time that the
// call has.
func (c *call) readAhead() error {
	if c.body.orig == nil || c.body.again != nil {
		return nil
	}
	ctx, cancel := c.ctx, context.CancelFunc(func() {})
	if !c.deadline.IsZero() {
		ctx, cancel = context.WithDeadline(ctx, c.deadline)
	}
	defer cancel()
	kept := c.body.keep(ctx)
	c.now = time.Now()
	switch {
	case kept:
		return nil
	case c.ctx.Err() != nil:
		return context.Cause(c.ctx)
	}
	return &RetryError{Host: c.host.key.String(), Reason: ReasonTime, Err: &bodyReadError{context.DeadlineExceeded}}
}
