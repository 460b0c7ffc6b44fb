package polite_test

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// overOneConnection is the weather behind net/http's own transport and server,
// with one connection at a time. What is open is counted on the client's side.
func overOneConnection(w *weather) (base http.RoundTripper, open func() int64, stop func()) {
	transport, stop := overPipes(w, nil)
	transport.MaxConnsPerHost = 1
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if !w.fair.Load() && w.intN(10) == 0 {
			return nil, refusedDial
		}
		return dial(ctx, network, address)
	}
	bodies := &counting{base: transport}
	return bodies, bodies.open, stop
}

var refusedDial = &net.OpError{Op: "dial", Net: "pipe", Err: io.ErrClosedPipe}

// connectionKey is under which a handler of overPipes finds its connection.
type connectionKey struct{}

// overPipes serves over net/http's own wire on connections in memory. Stop ends
// the connections and waits for the server's goroutines.
func overPipes(h http.Handler, protocols *http.Protocols) (transport *http.Transport, stop func()) {
	l := newPipes()
	s := &http.Server{Handler: h, Protocols: protocols, ErrorLog: log.New(io.Discard, "", 0),
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connectionKey{}, conn)
		}}
	transport = &http.Transport{Protocols: protocols, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return l.dial(ctx) }}
	var serving sync.WaitGroup
	serving.Go(func() { s.Serve(l) })
	return transport, func() {
		transport.CloseIdleConnections()
		s.Close()
		serving.Wait()
	}
}

// ServeHTTP is the weather on the other side of a real connection.
func (w *weather) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	if w.intN(3) > 0 {
		io.Copy(io.Discard, req.Body)
	}
	if w.fair.Load() {
		rw.WriteHeader(w.fairly())
		io.WriteString(rw, "fair")
		return
	}
	stalled := func(most time.Duration) {
		select {
		case <-req.Context().Done():
		case <-time.After(w.upTo(most)):
		}
	}
	if w.intN(2) == 0 {
		stalled(2 * time.Second)
	}
	switch w.intN(12) {
	case 0:
		panic(http.ErrAbortHandler) // the connection is reset
	case 1:
		stalled(40 * time.Second)
	case 2:
		rw.WriteHeader(503)
	case 3:
		rw.Header().Set("Retry-After", strconv.Itoa(w.intN(70)))
		rw.WriteHeader([]int{429, 503}[w.intN(2)])
	case 4:
		rw.Header().Set("Connection", "close")
	case 5:
		rw.Header().Set("X-RateLimit-Limit", "20")
		rw.Header().Set("X-RateLimit-Remaining", strconv.Itoa(w.intN(20)))
		rw.Header().Set("X-RateLimit-Reset", strconv.Itoa(1+w.intN(60)))
	}
	io.WriteString(rw, "some words ")
	switch w.intN(6) {
	case 0:
		http.NewResponseController(rw).Flush()
		stalled(40 * time.Second)
	case 1:
		http.NewResponseController(rw).Flush()
		panic(http.ErrAbortHandler)
	}
	io.WriteString(rw, "in a body")
}
