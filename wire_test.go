package polite_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
)

// wireKind is one of the three ways in which HTTP travels.
type wireKind struct {
	name  string
	start func(t *testing.T, h http.Handler) (url string, base *http.Transport)
}

// wires are HTTP/1.1 with and without keep-alive, and HTTP/2, on loopback.
var wires = []wireKind{
	{"HTTP/1.1 keep-alive", func(t *testing.T, h http.Handler) (string, *http.Transport) { return listen(t, h, false) }},
	{"HTTP/1.1 close", func(t *testing.T, h http.Handler) (string, *http.Transport) {
		url, base := listen(t, h, false)
		base.DisableKeepAlives = true
		return url, base
	}},
	{"HTTP/2", func(t *testing.T, h http.Handler) (string, *http.Transport) { return listen(t, h, true) }},
}

func listen(t *testing.T, h http.Handler, http2 bool) (string, *http.Transport) {
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.EnableHTTP2 = http2
	if http2 {
		s.StartTLS()
	} else {
		s.Start()
	}
	base := s.Client().Transport.(*http.Transport)
	t.Cleanup(func() {
		base.CloseIdleConnections()
		s.Close()
	})
	return s.URL, base
}

// atOnceAfter retries without delay, for real clocks.
func atOnceAfter(base http.RoundTripper) *polite.Options {
	return &polite.Options{Base: base, Retry: polite.RetryOptions{Backoff: polite.Constant(0), BudgetRatio: -1}, Breaker: polite.BreakerOptions{Disable: true}}
}

// The same bytes on every attempt and every wire, also when the
// server answers before it has read them.
//
// Cases C001, C009.
func TestSameBytesOnEveryWire(t *testing.T) {
	payload := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB
	want := sha256.Sum256([]byte(payload))
	for _, w := range wires {
		for _, early := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s early %t", w.name, early), func(t *testing.T) {
				var seen sync.Map // attempts by call
				url, base := w.start(t, http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
					n, _ := seen.LoadOrStore(req.Header.Get("Idempotency-Key"), new(atomic.Int64))
					if n.(*atomic.Int64).Add(1) == 1 && early {
						rw.WriteHeader(503)
						return
					}
					sum := sha256.New()
					size, err := io.Copy(sum, req.Body)
					switch {
					case err != nil || size != int64(len(payload)) || [32]byte(sum.Sum(nil)) != want:
						rw.WriteHeader(400)
					case n.(*atomic.Int64).Load() == 1:
						rw.WriteHeader(503)
					}
				}))
				c := polite.New(atOnceAfter(base))
				crowd(8, 8, func(i int) {
					body := io.Reader(strings.NewReader(payload))
					if i%2 == 1 {
						body = io.MultiReader(body) // without GetBody
					}
					req, err := http.NewRequest(http.MethodPost, url, body)
					require.NoError(t, err)
					req.Header.Set("Idempotency-Key", fmt.Sprint(i))
					resp, err := c.Do(req)
					if !assert.NoError(t, err) {
						return
					}
					assert.Equal(t, 200, resp.StatusCode)
					assert.GreaterOrEqual(t, polite.Attempts(resp), 2)
					resp.Body.Close()
				})
			})
		}
	}
}

// Attempts is what the server saw, net/http's own repetitions included.
func TestAttemptsAreWhatTheServerSaw(t *testing.T) {
	for _, w := range wires {
		t.Run(w.name, func(t *testing.T) {
			var seen sync.Map
			var turn atomic.Int64
			url, base := w.start(t, http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
				n, _ := seen.LoadOrStore(req.URL.Path, new(atomic.Int64))
				n.(*atomic.Int64).Add(1)
				switch turn.Add(1) % 7 {
				case 2:
					panic(http.ErrAbortHandler) // the connection or the stream is reset
				case 4:
					rw.WriteHeader(503)
				}
			}))
			c := polite.New(atOnceAfter(base))
			crowd(4, 300, func(i int) {
				path := fmt.Sprintf("/%d", i)
				resp, err := c.Get(t.Context(), url+path)
				var attempts int
				if err != nil {
					var e *polite.RetryError
					require.ErrorAs(t, err, &e)
					attempts = e.Attempts
				} else {
					attempts = polite.Attempts(resp)
					readBody(t, resp)
				}
				n, ok := seen.Load(path)
				require.True(t, ok)
				assert.EqualValues(t, n.(*atomic.Int64).Load(), attempts, path)
			})
		})
	}
}

// An unkeyed POST is never sent twice once its bytes may have arrived, on any
// wire.
//
// Case C059.
func TestLostPostIsSentOnceOnEveryWire(t *testing.T) {
	for _, w := range wires {
		t.Run(w.name, func(t *testing.T) {
			var applied sync.Map
			url, base := w.start(t, http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
				body, err := io.ReadAll(req.Body)
				if err != nil {
					return
				}
				n, _ := applied.LoadOrStore(string(body), new(atomic.Int64))
				if n.(*atomic.Int64).Add(1); len(body)%2 == 1 {
					panic(http.ErrAbortHandler) // applied, and the answer is lost
				}
			}))
			c := polite.New(atOnceAfter(base))
			lost := 0
			posts := atScale(60, 33_334)
			for i := range posts {
				body := fmt.Sprintf("%06d%s", i, strings.Repeat("x", i%2))
				resp, err := c.Do(request(t, http.MethodPost, url, body))
				if err != nil {
					lost++
					var e *polite.RetryError
					require.ErrorAs(t, err, &e)
					assert.True(t, e.Sent)
					assert.Equal(t, polite.ReasonFinal == e.Reason, false)
				} else {
					readBody(t, resp)
				}
				n, _ := applied.Load(body)
				assert.EqualValues(t, 1, n.(*atomic.Int64).Load(), body)
			}
			assert.Equal(t, posts/2, lost, "and told so")
		})
	}
}

// Abandoned answers are drained, so that one connection serves two hundred
// calls of three attempts each; no body stays open and no goroutine behind.
func TestAbandonedAnswersKeepTheirConnection(t *testing.T) {
	for _, size := range []int{0, 1 << 10, 8 << 10, 200 << 10} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			var turn atomic.Int64
			body := strings.Repeat("x", size)
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
				if turn.Add(1)%3 != 0 {
					rw.WriteHeader(503)
				}
				io.WriteString(rw, body)
			}))
			var connections atomic.Int64
			s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					connections.Add(1)
				}
			}
			before := runtime.NumGoroutine()
			s.Start()
			base := s.Client().Transport.(*http.Transport)
			bodies := &counting{base: base}
			c := polite.New(atOnceAfter(bodies))
			calls := 200
			if size > 100<<10 {
				calls = 30
			}
			for range calls {
				resp, _ := do(t, c, request(t, http.MethodGet, s.URL, ""))
				require.Equal(t, 200, resp.StatusCode)
				require.Equal(t, 3, polite.Attempts(resp))
			}
			assert.EqualValues(t, 1, connections.Load())
			assert.EqualValues(t, 3*calls, bodies.opened.Load())
			assert.Zero(t, bodies.open())
			base.CloseIdleConnections()
			s.Close()
			assertGoroutinesEnd(t, before)
		})
	}
}

// assertGoroutinesEnd waits until no more goroutines are left than before.
func assertGoroutinesEnd(t *testing.T, before int) {
	t.Helper()
	for start := time.Now(); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Since(start) > 5*time.Second {
			t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
			return
		}
	}
}

// goroutinesOfBubbles counts those that a bubble holds: what the runtime starts
// beside them, to collect garbage say, is none.
func goroutinesOfBubbles() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "synctest bubble")
}

// A pause between two attempts keeps no connection and no goroutine of its own.
func TestNothingRestsBetweenAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(503).WithBody("busy"))
		c := polite.New(steadily(s.Transport()))
		before := goroutinesOfBubbles()
		require.Positive(t, before)
		done := make(chan struct{})
		go func() {
			defer close(done)
			do(t, c, request(t, http.MethodGet, aCoffee, ""))
		}()
		time.Sleep(500 * time.Millisecond)
		assert.Equal(t, before+1, goroutinesOfBubbles(), "the caller's own")
		<-done
		synctest.Wait()
		assert.Equal(t, before, goroutinesOfBubbles())
	})
}

// Pooled connections that died unseen cost no call.
//
// Case C049.
func TestDeadPooledConnectionsCostNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t)
		transport, stop := s.Pipe()
		defer stop()
		var mu sync.Mutex
		var conns []*deadly
		dial := transport.DialContext
		transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			conns = append(conns, &deadly{Conn: conn})
			return conns[len(conns)-1], nil
		}
		transport.MaxIdleConnsPerHost = 3
		c := polite.New(steadily(transport))
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			s.Script(politetest.Pass().After(time.Second).Times(3))
			crowd(3, 3, func(int) { // three connections
				resp, err := c.Fetch(request(t, http.MethodGet, aCoffee, ""), nil)
				require.NoError(t, err)
				require.Equal(t, 200, resp.StatusCode)
			})
			synctest.Wait()
			mu.Lock()
			for _, conn := range conns {
				conn.dead.Store(true)
			}
			mu.Unlock()
			resp, err := c.Do(request(t, method, aCoffee, ""))
			require.NoError(t, err, method)
			assert.LessOrEqual(t, polite.Attempts(resp), 4)
			readBody(t, resp)
		}
	})
}

// deadly is a connection that fails at its next write, once it is dead.
type deadly struct {
	net.Conn
	dead atomic.Bool
}

func (d *deadly) Write(p []byte) (int, error) {
	if d.dead.Load() {
		return 0, net.ErrClosed
	}
	return d.Conn.Write(p)
}

// A POST on a connection that died before a byte was written is sent again.
//
// Case C059.
func TestPostOnADeadConnectionIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var bodies []string
		var conns []*deadly
		s := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
			body, _ := io.ReadAll(req.Body)
			mu.Lock()
			defer mu.Unlock()
			bodies = append(bodies, string(body))
		})}
		l := newPipes()
		var serving sync.WaitGroup
		serving.Go(func() { s.Serve(l) })
		transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := l.dial(ctx)
			if err != nil {
				return nil, err
			}
			conns = append(conns, &deadly{Conn: conn})
			return conns[len(conns)-1], nil
		}}
		c := polite.New(steadily(transport))
		do(t, c, request(t, http.MethodGet, "http://api.test/", ""))
		synctest.Wait()
		conns[0].dead.Store(true)
		resp, _ := do(t, c, request(t, http.MethodPost, "http://api.test/", "order"))
		assert.Equal(t, 200, resp.StatusCode)
		assert.Equal(t, []string{"", "order"}, bodies)
		transport.CloseIdleConnections()
		s.Close()
		serving.Wait()
	})
}

// pipes is a listener on in-memory connections.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.done:
		return nil, &net.OpError{Op: "dial", Err: net.ErrClosed}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

// A handshake that breaks off is repeated, for a POST too: nothing was
// sent.
//
// Case C185.
func TestBrokenHandshakeIsRepeated(t *testing.T) {
	var posts atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { posts.Add(1) }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	base := s.Client().Transport.(*http.Transport).Clone()
	defer base.CloseIdleConnections()
	dials := 0
	base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if dials++; dials == 1 && err == nil {
			conn.Close()
		}
		return conn, err
	}
	resp, _ := do(t, polite.New(atOnceAfter(base)), request(t, http.MethodPost, s.URL, "order"))
	assert.Equal(t, 200, resp.StatusCode)
	assert.EqualValues(t, 1, posts.Load())
	assert.Equal(t, 2, polite.Attempts(resp))
}

// Certificates that do not verify, names that do not exist and ports that do
// not speak TLS stay so.
func TestPermanentFailuresAreFinal(t *testing.T) {
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	untrusted.StartTLS()
	defer untrusted.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	notFound := roundTripper(func(*http.Request) (*http.Response, error) {
		return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "api.test", IsNotFound: true}}
	})
	for name, tc := range map[string]struct {
		base http.RoundTripper
		url  string
		sent bool
	}{
		"unknown authority": {nil, untrusted.URL, false},
		"no TLS":            {nil, strings.Replace(plain.URL, "http:", "https:", 1), false},
		"no such host":      {notFound, aCoffee, false},
	} {
		t.Run(name, func(t *testing.T) {
			base := tc.base
			if base == nil {
				own := &http.Transport{}
				defer own.CloseIdleConnections()
				base = own
			}
			_, err := polite.New(atOnceAfter(base)).Get(t.Context(), tc.url)
			var e *polite.RetryError
			require.ErrorAs(t, err, &e)
			assert.Equal(t, 1, e.Attempts)
			assert.Equal(t, polite.ReasonFinal, e.Reason)
			assert.Equal(t, tc.sent, e.Sent)
		})
	}
}

// A failing look-up that may succeed later is repeated.
func TestTemporaryDNSFailureIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		o := steadily(roundTripper(func(req *http.Request) (*http.Response, error) {
			if sent++; sent == 1 {
				req.Body.Close()
				return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Err: "server misbehaving", IsTemporary: true}}
			}
			io.Copy(io.Discard, req.Body)
			req.Body.Close()
			return answered(req, 200, ""), nil
		}))
		do(t, polite.New(o), request(t, http.MethodPost, aCoffee, "order"))
		assert.Equal(t, 2, sent)
	})
}

// A server that always hangs up is asked a known number of times, and a
// POST once.
//
// Case C183.
func TestServerThatAlwaysHangsUpIsAskedABoundedNumberOfTimes(t *testing.T) {
	for _, w := range wires {
		t.Run(w.name, func(t *testing.T) {
			var seen atomic.Int64
			url, base := w.start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				seen.Add(1)
				panic(http.ErrAbortHandler)
			}))
			o := atOnceAfter(base)
			o.Retry.MaxAttempts = 3
			c := polite.New(o)
			_, err := c.Get(t.Context(), url)
			var e *polite.RetryError
			require.ErrorAs(t, err, &e)
			assert.LessOrEqual(t, e.Attempts, 3)
			assert.EqualValues(t, seen.Load(), e.Attempts)

			seen.Store(0)
			_, err = c.Do(request(t, http.MethodPost, url, "order"))
			require.ErrorAs(t, err, &e)
			assert.EqualValues(t, 1, seen.Load())
			assert.Equal(t, 1, e.Attempts)
		})
	}
}

// Small and large bodies are read in peace after Do returns.
//
// Case C195.
func TestBodiesOfAnySizeAreReadAfterDo(t *testing.T) {
	for _, w := range wires {
		t.Run(w.name, func(t *testing.T) {
			url, base := w.start(t, http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
				io.WriteString(rw, strings.Repeat("x", map[string]int{"/small": 1 << 10, "/large": 4 << 20}[req.URL.Path]))
			}))
			c := polite.New(atOnceAfter(base))
			for path, size := range map[string]int{"/small": 1 << 10, "/large": 4 << 20} {
				_, body := do(t, c, request(t, http.MethodGet, url+path, ""))
				assert.Len(t, body, size)
			}
		})
	}
}

// The default base speaks HTTP/2 where the server does, and keeps connections.
func TestDefaultBaseSpeaksHTTP2(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) { io.WriteString(rw, req.Proto) }))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	standard := http.DefaultTransport.(*http.Transport).Clone()
	standard.TLSClientConfig = &tls.Config{RootCAs: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
	defer standard.CloseIdleConnections()
	_, body := do(t, polite.New(atOnceAfter(standard)), request(t, http.MethodGet, s.URL, ""))
	assert.Equal(t, "HTTP/2.0", body)
}
