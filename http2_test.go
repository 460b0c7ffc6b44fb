package polite_test

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
)

// h2Frame is one frame of RFC 9113 section 4.1.
type h2Frame struct {
	kind, flags byte
	stream      uint32
	payload     []byte
}

// The frames, flags and codes of RFC 9113 that the tests need.
const (
	h2Data, h2Headers, h2Reset, h2Settings, h2GoAway = 0, 1, 3, 4, 7
	h2EndStream, h2EndHeaders, h2Ack                 = 1, 4, 1
	h2InternalError, h2RefusedStream                 = 2, 7
)

// h2Server is a server that answers frame by frame: it does what net/http's own
// would not. It counts the requests and the bytes of their bodies.
type h2Server struct {
	t     *testing.T
	fault func(n int, write func(h2Frame), stream uint32) bool // whether the n-th request, from 1, is cut off; else it gets a 200

	mu       sync.Mutex
	conns    []net.Conn
	requests int
	bytes    []int // of each request's body
}

func (s *h2Server) start() (url string, base *http.Transport) {
	usual := httptest.NewUnstartedServer(http.NotFoundHandler()) // for its certificate
	usual.EnableHTTP2 = true
	usual.StartTLS()
	base = usual.Client().Transport.(*http.Transport).Clone()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: usual.TLS.Certificates, NextProtos: []string{"h2"}})
	require.NoError(s.t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, conn)
			s.mu.Unlock()
			serving.Go(func() { s.serve(conn) })
		}
	})
	s.t.Cleanup(func() {
		base.CloseIdleConnections()
		usual.Close()
		listener.Close()
		s.mu.Lock()
		for _, conn := range s.conns {
			conn.Close()
		}
		s.mu.Unlock()
		serving.Wait()
	})
	return "https://" + listener.Addr().String(), base
}

func (s *h2Server) serve(conn net.Conn) {
	defer conn.Close()
	if _, err := io.ReadFull(conn, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
		return
	}
	write := func(f h2Frame) {
		head := binary.BigEndian.AppendUint32(nil, uint32(len(f.payload))<<8|uint32(f.kind))
		head = append(head, f.flags)
		head = binary.BigEndian.AppendUint32(head, f.stream)
		conn.Write(append(head, f.payload...))
	}
	write(h2Frame{kind: h2Settings})
	number := make(map[uint32]int) // of the request, by stream
	for {
		f, err := readH2Frame(conn)
		if err != nil {
			return
		}
		switch {
		case f.kind == h2Settings && f.flags&h2Ack == 0:
			write(h2Frame{kind: h2Settings, flags: h2Ack})
		case f.kind == h2Headers:
			s.mu.Lock()
			s.requests++
			n := s.requests
			s.bytes = append(s.bytes, 0)
			s.mu.Unlock()
			if !s.fault(n, write, f.stream) {
				number[f.stream] = n
			}
		case f.kind == h2Data && number[f.stream] > 0:
			s.mu.Lock()
			s.bytes[number[f.stream]-1] += len(f.payload)
			s.mu.Unlock()
		}
		if (f.kind == h2Headers || f.kind == h2Data) && f.flags&h2EndStream != 0 && number[f.stream] > 0 {
			write(h2Frame{h2Headers, h2EndStream | h2EndHeaders, f.stream, []byte{0x88}}) // :status 200
		}
	}
}

func readH2Frame(r io.Reader) (h2Frame, error) {
	var head [9]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return h2Frame{}, err
	}
	f := h2Frame{kind: head[3], flags: head[4], stream: binary.BigEndian.Uint32(head[5:]) & (1<<31 - 1)}
	f.payload = make([]byte, binary.BigEndian.Uint32(head[:4])>>8)
	_, err := io.ReadFull(r, f.payload)
	return f, err
}

func h2Code(code uint32) []byte { return binary.BigEndian.AppendUint32(nil, code) }

// A stream that a GOAWAY leaves unprocessed (RFC 9113 section 6.8) is sent
// again with its body, with or without GetBody.
//
// Case C179.
func TestUnprocessedStreamIsSentAgainWithItsBody(t *testing.T) {
	for _, keyed := range []bool{false, true} {
		s := &h2Server{t: t, fault: func(n int, write func(h2Frame), _ uint32) bool {
			if n == 1 {
				write(h2Frame{kind: h2GoAway, payload: append(h2Code(0), h2Code(0)...)}) // last stream 0, no error
			}
			return n == 1
		}}
		url, base := s.start()
		req := request(t, http.MethodPost, url, "order")
		if keyed {
			req.Header.Set("Idempotency-Key", "k")
			req.GetBody = nil
		}
		resp, _ := do(t, polite.New(atOnceAfter(base)), req)
		assert.Equal(t, 200, resp.StatusCode)
		s.mu.Lock()
		assert.Equal(t, 2, s.requests)
		assert.Equal(t, 5, s.bytes[1])
		s.mu.Unlock()
		assert.Equal(t, 2, polite.Attempts(resp))
	}
}

// REFUSED_STREAM says that nothing was processed (RFC 9113 section 8.7);
// any other reset does not.
//
// Case C181.
func TestRefusedStreamIsSentAgainAndABrokenOneIsNot(t *testing.T) {
	for code, want := range map[uint32]int{h2RefusedStream: 2, h2InternalError: 1} {
		s := &h2Server{t: t, fault: func(n int, write func(h2Frame), stream uint32) bool {
			if n == 1 {
				write(h2Frame{kind: h2Reset, stream: stream, payload: h2Code(code)})
			}
			return n == 1
		}}
		url, base := s.start()
		resp, err := polite.New(atOnceAfter(base)).Do(request(t, http.MethodPost, url, "order"))
		if want == 2 {
			require.NoError(t, err)
			assert.Equal(t, 2, polite.Attempts(resp))
			readBody(t, resp)
		} else {
			var e *polite.RetryError
			require.ErrorAs(t, err, &e)
			assert.Equal(t, 1, e.Attempts)
			assert.True(t, e.Sent)
			assert.Equal(t, polite.ReasonNotRepeatable, e.Reason)
		}
		s.mu.Lock()
		assert.Equal(t, want, s.requests)
		s.mu.Unlock()
	}
}
