package polite_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
)

// moods is a source of choices for the goroutines of client and server.
type moods struct {
	mu     sync.Mutex
	random *rand.Rand
}

func (m *moods) intN(n int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.random.IntN(n)
}

// witness is a server that breaks off in every way in which it has seen the
// request before, and counts what it has seen.
type witness struct {
	*moods
	resets bool // whole connections too, which another request may just be using
	seen   atomic.Int64
}

// ServeHTTP is the witness behind net/http's own server.
func (w *witness) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	if req.ProtoMajor == 1 {
		w.seen.Add(1)
	}
	if w.intN(2) == 0 {
		io.Copy(io.Discard, req.Body)
	}
	switch mood := w.intN(16); {
	case mood == 0:
		rw.WriteHeader(503)
	case mood == 1:
		rw.Header().Set("Retry-After", "1")
		rw.WriteHeader(429)
	case mood == 2 || mood == 3: // with HTTP/1 the connection is reset, with HTTP/2 the stream
		panic(http.ErrAbortHandler)
	case mood == 4 && w.resets:
		req.Context().Value(connectionKey{}).(net.Conn).Close()
	case mood == 5: // with HTTP/2 a GOAWAY
		rw.Header().Set("Connection", "close")
	case mood == 6:
		select {
		case <-req.Context().Done():
		case <-time.After(2 * time.Second): // longer than an attempt may take
		}
	case mood == 7: // the body is cut off
		io.WriteString(rw, "some words")
		http.NewResponseController(rw).Flush()
		panic(http.ErrAbortHandler)
	}
	io.WriteString(rw, "some words")
}

// frames is the witness as an HTTP/2 server that does what net/http's own would
// not: it leaves streams unprocessed, and says so, before and behind a GOAWAY.
func (w *witness) frames(conn net.Conn) {
	defer conn.Close()
	if _, err := io.ReadFull(conn, make([]byte, len(h2Preface))); err != nil {
		return
	}
	out := make(chan []byte, 1<<10) // or both ends might write at once and none read
	var writing sync.WaitGroup
	writing.Go(func() {
		for b := range out {
			conn.Write(b)
		}
	})
	defer writing.Wait()
	defer conn.Close()
	defer close(out)
	write := func(f h2Frame) {
		head := binary.BigEndian.AppendUint32(nil, uint32(len(f.payload))<<8|uint32(f.kind))
		head = append(head, f.flags)
		out <- append(binary.BigEndian.AppendUint32(head, f.stream), f.payload...)
	}
	answer := func(stream uint32, status []byte) {
		write(h2Frame{h2Headers, h2EndStream | h2EndHeaders, stream, status})
	}
	ok, unavailable := []byte{0x88}, []byte{0x08, 3, '5', '0', '3'} // :status, RFC 7541 section 6
	write(h2Frame{kind: h2Settings})
	var held []uint32 // answered together with a later stream, or never
	last := uint32(1<<31 - 1)
	for {
		f, err := readH2Frame(conn)
		if err != nil {
			return
		}
		switch {
		case f.kind == h2Settings && f.flags&h2Ack == 0:
			write(h2Frame{kind: h2Settings, flags: h2Ack})
		case f.kind == h2Headers:
			w.seen.Add(1)
			if f.stream > last {
				continue // behind the GOAWAY: not processed
			}
			switch mood := w.intN(16); {
			case mood == 0:
				answer(f.stream, unavailable)
			case mood == 1:
				write(h2Frame{kind: h2Reset, stream: f.stream, payload: h2Code(h2RefusedStream)})
			case mood == 2:
				write(h2Frame{kind: h2Reset, stream: f.stream, payload: h2Code(h2InternalError)})
			case mood == 3: // this stream is not processed, those before it are
				last = max(f.stream, 2) - 2
				write(h2Frame{kind: h2GoAway, payload: append(h2Code(last), h2Code(0)...)})
			case mood == 4 && w.resets:
				return
			case mood < 7:
				held = append(held, f.stream)
				continue
			default:
				answer(f.stream, ok)
			}
			for _, stream := range held {
				answer(stream, ok)
			}
			held = nil
		}
	}
}

const h2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// serve is the witness on one of the wires, over connections in memory.
func (w *witness) serve(wire string) (transport *http.Transport, stop func()) {
	if wire == "HTTP/1.1" {
		return overPipes(w, nil)
	}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	if wire == "HTTP/2" {
		transport, stop = overPipes(w, &protocols)
		dial := transport.DialContext
		transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			return &sniffed{Conn: conn, by: w, skip: len(h2Preface)}, err
		}
		return transport, stop
	}
	l := newPipes()
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			serving.Go(func() { w.frames(conn) })
		}
	})
	transport = &http.Transport{Protocols: &protocols, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return l.dial(ctx) }}
	return transport, func() {
		transport.CloseIdleConnections()
		l.Close()
		serving.Wait()
	}
}

// sniffed is the client's end of an HTTP/2 connection: it counts the requests
// on their way to the server, for net/http's own tells nobody of those that it
// drops behind its GOAWAY.
type sniffed struct {
	net.Conn
	by   *witness
	skip int // bytes until the next frame
	head []byte
}

func (s *sniffed) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		if s.skip > 0 {
			passed := min(s.skip, len(rest))
			s.skip -= passed
			rest = rest[passed:]
			continue
		}
		s.head = append(s.head, rest[0])
		rest = rest[1:]
		if len(s.head) == 9 {
			s.skip = int(binary.BigEndian.Uint32(s.head) >> 8)
			if s.head[3] == h2Headers {
				s.by.seen.Add(1)
			}
			s.head = s.head[:0]
		}
	}
	return s.Conn.Write(p)
}

// unsent counts the attempts of which the server has seen nothing, while there
// is one call at a time.
type unsent struct {
	base http.RoundTripper
	of   *witness
	n    int64
}

func (u *unsent) RoundTrip(req *http.Request) (*http.Response, error) {
	before := u.of.seen.Load()
	resp, err := u.base.RoundTrip(req)
	if u.of.seen.Load() == before {
		u.n++
	}
	return resp, err
}

// attemptsTold is what a call's result says about its attempts, whoever in it
// says so, 0 if nobody does.
func attemptsTold(t *testing.T, resp *http.Response, err error) int {
	var (
		told     []int
		retry    *polite.RetryError
		wait     *polite.WaitError
		open     *polite.CircuitOpenError
		response *polite.ResponseError
	)
	if resp != nil {
		told = append(told, polite.Attempts(resp))
	}
	if errors.As(err, &response) {
		told = append(told, response.Attempts)
	}
	if errors.As(err, &retry) {
		told = append(told, retry.Attempts)
	}
	if errors.As(err, &wait) {
		told = append(told, wait.Attempts)
	}
	if errors.As(err, &open) {
		told = append(told, open.Attempts)
	}
	require.NotEmpty(t, told, "%v", err)
	for _, n := range told {
		require.Equal(t, told[0], n, "%v", err)
	}
	return told[0]
}

// What results say about their attempts is what the server saw, whatever
// becomes of connections and streams, and net/http's own repetitions included.
// An attempt that found no connection counts as one too.
func TestAttemptsAreWhatTheServerSawWhateverBreaks(t *testing.T) {
	const calls = 100
	var seen atomic.Int64
	randomly(t, 20, 1_000, 10, func(t *testing.T, random *rand.Rand) {
		m := &moods{random: random}
		workers := []int{1, 5}[m.intN(2)]
		w := &witness{moods: m, resets: workers == 1}
		wire := []string{"HTTP/1.1", "HTTP/2", "HTTP/2 by the frame"}[m.intN(3)]
		transport, stop := w.serve(wire)
		if w.resets {
			dial := transport.DialContext
			transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				if m.intN(8) == 0 {
					return nil, refusedDial
				}
				return dial(ctx, network, address)
			}
		}
		base := &unsent{base: transport, of: w}
		o := steadily(transport)
		if workers == 1 {
			o.Base = base
		}
		o.Retry.AttemptTimeout, o.Retry.MaxAttempts = 1300*time.Millisecond, 1+m.intN(6)
		o.Retry.BudgetRatio = []float64{0, -1}[m.intN(2)]
		o.Breaker.Disable = m.intN(2) == 0
		c := polite.New(o)
		var told atomic.Int64
		crowd(workers, calls, func(i int) {
			before := w.seen.Load() + base.n
			resp, err := ask(t, m, c)
			n := attemptsTold(t, resp, err)
			told.Add(int64(n))
			if workers == 1 {
				require.EqualValues(t, w.seen.Load()+base.n-before, n, "%s, call %d", wire, i)
			}
		})
		stop()
		time.Sleep(3 * time.Second) // a handler that has not read its body does not notice
		require.Equal(t, w.seen.Load()+base.n, told.Load(), "%s, %d workers", wire, workers)
		seen.Add(w.seen.Load())
	})
	t.Logf("%d requests seen by the server", seen.Load())
}

// ask makes one call of any kind and reads what comes.
func ask(t *testing.T, m *moods, c *polite.Client) (*http.Response, error) {
	method := []string{http.MethodGet, http.MethodPut, http.MethodPost}[m.intN(3)]
	body := ""
	if method != http.MethodGet {
		body = "a body"
	}
	req := request(t, method, "http://api.test/", body)
	if m.intN(2) == 0 {
		req.Header.Set("Idempotency-Key", "k")
	}
	if m.intN(2) == 0 {
		return c.Fetch(req, nil)
	}
	resp, err := c.Do(req)
	if err == nil {
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	return resp, err
}

// A breaker that opens with the last attempt is the reason of its error, and
// knows of the attempts too.
func TestReasonOfAnErrorTellsItsAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := steadily(roundTripper(func(*http.Request) (*http.Response, error) { return nil, errLost }))
		o.Breaker.Failures = 2
		_, err := polite.New(o).Get(t.Context(), aCoffee)
		require.Equal(t, 2, attemptsTold(t, nil, err))
		require.ErrorAs(t, err, new(*polite.CircuitOpenError))
	})
}
