package polite_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
)

// rawServer is a server that answers every request with these bytes.
func rawServer(t *testing.T, answer string) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.Read(make([]byte, 4096))
			conn.Write([]byte(answer))
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		<-done
	})
	return "http://" + listener.Addr().String()
}

// What a server writes where no text belongs comes back in errors and in the log
// as a part of one line of bounded length, without control characters.
func TestErrorsAreOneBoundedLineWhateverTheServerWrites(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	for name, answer := range map[string]string{
		"no HTTP":        "\x1b[31m level=ERROR msg=forged \x00\x07" + long + "\r\n\r\n",
		"status":         "HTTP/1.1 20\x1b[31m0 OK\r\n\r\n",
		"no colon":       "HTTP/1.1 200 OK\r\nforged\x1b[2J" + long + "\r\n\r\n",
		"length":         "HTTP/1.1 200 OK\r\nContent-Length: \x1b[31m" + long + "\r\n\r\n",
		"coding":         "HTTP/1.1 200 OK\r\nTransfer-Encoding: \x1b[31m" + long + "\r\n\r\n",
		"location":       "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/%1b[31m" + long + "?token=s3cr3t\r\nContent-Length: 0\r\n\r\n",
		"endless header": "HTTP/1.1 200 OK\r\n" + strings.Repeat("X-A: "+long+"\r\n", 12),
		"no JSON":        "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n[\"\x1b[31m\",x]",
		"a long number":  "HTTP/1.1 200 OK\r\nContent-Length: 4002\r\n\r\n[" + strings.Repeat("9", 4000) + "]",
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			base := http.DefaultTransport.(*http.Transport).Clone()
			base.MaxResponseHeaderBytes = 1 << 20
			defer base.CloseIdleConnections()
			o := atOnceAfter(base)
			o.Trace = polite.SlogTrace(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
			var items []int
			_, err := polite.New(o).Fetch(request(t, http.MethodGet, rawServer(t, answer), ""), polite.JSON(&items))
			require.Error(t, err)
			assert.Less(t, len(err.Error()), 2500)
			assert.Negative(t, strings.IndexFunc(err.Error(), unicode.IsControl), "%q", err.Error())
			assert.NotContains(t, err.Error(), "s3cr3t")
			assert.NotEmpty(t, out.String())
			for line := range strings.Lines(out.String()) {
				assert.Less(t, len(line), 2500)
				assert.NotContains(t, line, `\u001b`)
				assert.NotContains(t, line, "s3cr3t")
			}
		})
	}
}

// The bound is for the text alone: the cause itself is in the chain, whole.
func TestCauseBehindABoundedTextIsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := errors.New("line one\nline two " + strings.Repeat("x", 5000))
		_, err := polite.New(steadily(roundTripper(func(*http.Request) (*http.Response, error) {
			return nil, long
		}))).Get(t.Context(), aCoffee)
		require.ErrorIs(t, err, long)
		assert.Contains(t, err.Error(), "line one line two")
		assert.Less(t, len(err.Error()), 1500)
	})
}

// Calls of a Client that was not made with New fail, and so do calls without a
// request; nothing panics.
func TestZeroClientFailsClearly(t *testing.T) {
	for _, c := range []*polite.Client{nil, {}} {
		body := &countedBody{ReadCloser: http.NoBody, in: new(counting)}
		req := request(t, http.MethodPost, aCoffee, "")
		req.Body = body
		_, err := c.Do(req)
		require.ErrorContains(t, err, "not made with New")
		assert.EqualValues(t, 1, body.in.closed.Load(), "the request's body is closed")
		_, err = c.Fetch(request(t, http.MethodGet, aCoffee, ""), nil)
		require.ErrorContains(t, err, "not made with New")
		_, err = c.Get(t.Context(), aCoffee)
		require.ErrorContains(t, err, "not made with New")
	}
	new(polite.Client).CloseIdleConnections()
	_, err := polite.New(nil).Do(nil)
	require.ErrorContains(t, err, "no request")
	_, err = polite.New(nil).Fetch(nil, nil)
	require.ErrorContains(t, err, "no request")
}

// The zero Transport is one with the defaults.
func TestZeroTransportHasTheDefaults(t *testing.T) {
	url := rawServer(t, "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
	tr := new(polite.Transport)
	defer tr.CloseIdleConnections()
	for range tr.Hosts() {
		t.Fatal("no host is known yet")
	}
	resp, err := tr.RoundTrip(request(t, http.MethodGet, url, ""))
	require.NoError(t, err)
	assert.Equal(t, "no", readBody(t, resp))
	for name := range tr.Hosts() {
		assert.Equal(t, url, name)
	}
}
