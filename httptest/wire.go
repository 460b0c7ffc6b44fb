package httptest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// Botiga Aroma's time bounds for one connection.
const (
	headerTimeout = 10 * time.Second
	readTimeout   = 30 * time.Second
	idleTimeout   = 65 * time.Second
)

// HTTPServer returns an [http.Server] with Botiga Aroma's time bounds, for programs that listen in their own way or
// put something around this server; handler nil = this server alone. The caller starts and closes it.
func (s *Server) HTTPServer(handler http.Handler) *http.Server {
	if handler == nil {
		handler = s
	}
	return &http.Server{Handler: handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout, ConnContext: withConn}
}

// Pipe serves over net/http's own wire without sockets: HTTP/1.1 on in-memory connections that work inside a
// testing/synctest bubble. The transport dials this server whatever the URL's host; use http URLs.
// Config.Latency does not apply. Call stop before the bubble ends: it closes the client's idle connections, then all of
// the server's, and waits for the accepting goroutine; one that still answers a request ends with its connection.
func (s *Server) Pipe() (transport *http.Transport, stop func()) {
	listener := newPipeListener()
	server := s.HTTPServer(nil)
	transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return listener.dial(ctx)
	}}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) }) // ends with http.ErrServerClosed in stop
	return transport, func() {
		transport.CloseIdleConnections()
		_ = server.Close()
		serving.Wait()
	}
}

// Listen serves on a real TCP address such as "127.0.0.1:0" and returns its URL. stop closes the listener
// and all connections, waits for the accepting goroutine and reports what ended it, if not stop itself.
func (s *Server) Listen(addr string) (url string, stop func() error, err error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return "", nil, err
	}
	server := s.HTTPServer(nil)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }() // ends when stop closes the server
	var once sync.Once
	var result error
	return "http://" + listener.Addr().String(), func() error {
		once.Do(func() {
			result = server.Close()
			if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
				result = err
			}
		})
		return result
	}, nil
}

// pipeListener hands one end of each in-memory connection to the server.
type pipeListener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- pipeConn{server}:
		return client, nil
	case <-l.done:
		return nil, Refuse.err()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

// pipeConn has the address of the in-memory clients, which a bare pipe lacks.
type pipeConn struct{ net.Conn }

func (pipeConn) RemoteAddr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "192.0.2.1:40000" }
