package httptest

import (
	"bufio"
	"io"
	"net"
	"net/http"
	stdtest "net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// dialed is the client's end of a bare connection to the server, inside a bubble.
func dialed(t *testing.T, s *Server) net.Conn {
	t.Helper()
	listener, server := newPipeListener(), s.HTTPServer(nil)
	go func() { _ = server.Serve(listener) }() // ends when the cleanup closes the server
	conn, err := listener.dial(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = conn.Close()
		_ = server.Close()
	})
	return conn
}

func TestConnectionWithoutHeadersIsClosedAfterTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, start := dialed(t, Must(t, Config{})), time.Now()
		_, err := io.WriteString(conn, "GET /salut HTTP/1.1\r\nHost:")
		require.NoError(t, err)
		_, err = io.ReadAll(conn)
		require.NoError(t, err)
		assert.Equal(t, 10*time.Second, time.Since(start))
	})
}

func TestRequestThatTakesLongerThanHalfAMinuteIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, start := dialed(t, Must(t, Config{})), time.Now()
		_, err := io.WriteString(conn, "POST /v1/clients HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
		require.NoError(t, err)
		answer, err := io.ReadAll(conn)
		require.NoError(t, err)
		assert.Empty(t, answer)
		assert.Equal(t, 30*time.Second, time.Since(start))
	})
}

func TestBodyThatIsNotWellFormedIsAnsweredAsIncomplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := dialed(t, Must(t, Config{}))
		_, err := io.WriteString(conn, "POST /v1/clients HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nno chunk\r\n")
		require.NoError(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, 400, resp.StatusCode)
		assert.Contains(t, string(body), "cos_incomplet")
	})
}

func TestIdleConnectionIsClosedAfterSixtyFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := dialed(t, Must(t, Config{}))
		_, err := io.WriteString(conn, "HEAD /salut HTTP/1.1\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
		reader, start := bufio.NewReader(conn), time.Now()
		resp, err := http.ReadResponse(reader, &http.Request{Method: http.MethodHead})
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		_, err = reader.ReadByte()
		assert.ErrorIs(t, err, io.EOF)
		assert.Equal(t, 65*time.Second, time.Since(start))
	})
}

func TestAnswerMayComeLaterThanTheTimeBoundsOfARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Must(t, Config{})
		transport, stop := s.Pipe()
		defer stop()
		s.Script(Pass().After(5 * time.Minute))
		req, start := requestTo(t, "/v1/cafes"), time.Now()
		req.URL.Scheme = "http"
		resp, err := transport.RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, 200, resp.StatusCode)
		assert.Equal(t, 5*time.Minute, time.Since(start))
	})
}

func TestRecorderFindsTheQuota(t *testing.T) {
	recorder := stdtest.NewRecorder()
	Must(t, Config{}).ServeHTTP(recorder, stdtest.NewRequest(http.MethodGet, "/v1/cafes", nil))
	assert.Equal(t, "300", recorder.Header().Get("Aroma-RateLimit-Limit"))
	assert.Equal(t, "19", recorder.Result().Header.Get("Aroma-RateLimit-Remaining"))
}

func TestNamesGoOverTheWireAsTheyAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := dialed(t, Must(t, Config{}))
		_, err := io.WriteString(conn, "GET /v1/cafes/caf_00001 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		require.NoError(t, err)
		answer, err := io.ReadAll(conn)
		require.NoError(t, err)
		assert.Contains(t, string(answer), "\r\nAroma-RateLimit-Restants: 19\r\n")
	})
}
