package polite_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
)

// A refusal whose body announces 64 KiB, sends one byte and stalls does not
// delay the retry.
//
// Case C045.
func TestDribblingRefusalDelaysNothingOnAnyWire(t *testing.T) {
	var served atomic.Int64
	h := func(w http.ResponseWriter, req *http.Request) {
		if served.Add(1) > 1 {
			return
		}
		w.Header().Set("Retry-After", "1")
		w.Header().Set("Content-Length", "65536")
		w.WriteHeader(429)
		io.WriteString(w, ".")
		w.(http.Flusher).Flush()
		<-req.Context().Done()
	}
	overEveryWire(t, h, func(t *testing.T, base *http.Transport) {
		served.Store(0)
		bodies := &counting{base: base}
		start := time.Now()
		resp, _ := do(t, polite.New(steadily(bodies)), request(t, http.MethodGet, aCoffee, ""))
		assert.Equal(t, 200, resp.StatusCode)
		assert.Equal(t, 2, polite.Attempts(resp))
		assert.GreaterOrEqual(t, time.Since(start), time.Second)
		assert.LessOrEqual(t, time.Since(start), 1200*time.Millisecond)
		assert.Zero(t, bodies.open())
	})
}

// A download that is cut is fetched again, and is an error to whoever streams
// it; sixty bytes of a hundred never pass as the whole.
//
// Case C191.
func TestCutDownloadNeverPassesAsWholeOnAnyWire(t *testing.T) {
	var served atomic.Int64
	h := func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Length", "100")
		if served.Add(1)%2 == 0 {
			io.WriteString(w, strings.Repeat("x", 100))
			return
		}
		io.WriteString(w, strings.Repeat("x", 60))
		w.(http.Flusher).Flush()
		time.Sleep(time.Millisecond) // the bytes arrive first
		panic(http.ErrAbortHandler)
	}
	overEveryWire(t, h, func(t *testing.T, base *http.Transport) {
		served.Store(0)
		c := polite.New(steadily(base))
		resp, err := c.Fetch(request(t, http.MethodGet, aCoffee, ""), nil)
		require.NoError(t, err)
		assert.Equal(t, 2, polite.Attempts(resp))
		assert.Len(t, readBody(t, resp), 100)

		resp, err = c.Get(t.Context(), aCoffee)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.Error(t, err)
		assert.Len(t, body, 60)
		if resp.ProtoMajor == 1 {
			assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
		}
		resp.Body.Close()
	})
}

// A gzip stream without its trailer, in a body that is framed properly, is an
// error to its reader, and Fetch repeats it; so it does where the length is not
// announced.
//
// Case C187.
func TestGzipWithoutItsTrailerIsCutOnEveryWire(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, strings.Repeat("coffee ", 1000))
	require.NoError(t, z.Close())
	var served atomic.Int64
	h := func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		b := packed.Bytes()
		if served.Add(1)%2 == 1 {
			b = b[:len(b)-6]
		}
		if req.URL.Path == "/announced" {
			w.Header().Set("Content-Length", fmt.Sprint(len(b)))
		} else {
			w.(http.Flusher).Flush()
		}
		w.Write(b)
	}
	overEveryWire(t, h, func(t *testing.T, base *http.Transport) {
		served.Store(0)
		c := polite.New(steadily(base))
		for _, path := range []string{"/announced", "/chunked"} {
			resp, err := c.Fetch(request(t, http.MethodGet, "http://api.test"+path, ""), nil)
			require.NoError(t, err, path)
			assert.Equal(t, 2, polite.Attempts(resp), path)
			assert.Len(t, readBody(t, resp), 7000, path)

			resp, err = c.Get(t.Context(), "http://api.test"+path)
			require.NoError(t, err)
			_, err = io.ReadAll(resp.Body)
			assert.ErrorIs(t, err, io.ErrUnexpectedEOF, path)
			resp.Body.Close()
			served.Add(1)
		}
	})
}

// An empty body that claims to be compressed hides no refusal, for Do and for
// Fetch.
//
// Case C189.
func TestEmptyGzipBodyHidesNoRefusalOnAnyWire(t *testing.T) {
	var served atomic.Int64
	h := func(w http.ResponseWriter, req *http.Request) {
		if served.Add(1)%2 == 1 {
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Content-Length", "0")
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(429)
		}
	}
	overEveryWire(t, h, func(t *testing.T, base *http.Transport) {
		served.Store(0)
		for range 2 {
			start := time.Now()
			resp, _ := do(t, polite.New(steadily(base)), request(t, http.MethodGet, aCoffee, ""))
			assert.Equal(t, 2, polite.Attempts(resp))
			assert.GreaterOrEqual(t, time.Since(start), time.Second)
			assert.LessOrEqual(t, time.Since(start), 1200*time.Millisecond)
		}
		resp, err := polite.New(steadily(base)).Fetch(request(t, http.MethodGet, aCoffee, ""), nil)
		require.NoError(t, err)
		assert.Equal(t, 2, polite.Attempts(resp))
	})
}
