package polite_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
)

// overEveryWire runs a test in a bubble for each way in which HTTP travels: a
// handler behind net/http's own client and server, on in-memory connections.
func overEveryWire(t *testing.T, h http.HandlerFunc, test func(t *testing.T, base *http.Transport, l *pipes)) {
	for _, w := range []struct {
		name      string
		keepAlive bool
		http2     bool
	}{{"HTTP/1.1 keep-alive", true, false}, {"HTTP/1.1 close", false, false}, {"HTTP/2", true, true}} {
		t.Run(w.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newPipes()
				protocols := new(http.Protocols)
				protocols.SetHTTP1(!w.http2)
				protocols.SetUnencryptedHTTP2(w.http2)
				s := &http.Server{Handler: h, Protocols: protocols, ErrorLog: log.New(io.Discard, "", 0)}
				base := &http.Transport{Protocols: protocols, DisableKeepAlives: !w.keepAlive,
					DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return l.dial(ctx) }}
				var serving sync.WaitGroup
				serving.Go(func() { s.Serve(l) })
				defer func() {
					base.CloseIdleConnections()
					s.Close()
					serving.Wait()
				}()
				test(t, base, l)
			})
		})
	}
}

// sentMessage is a request as its server saw it.
type sentMessage struct {
	length int64
	body   string
}

// recorded answers with these replies in order, then 200, and notes the
// messages.
func recorded(seen *[]sentMessage, replies ...func(http.ResponseWriter)) http.HandlerFunc {
	var mu sync.Mutex
	return func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		mu.Lock()
		*seen = append(*seen, sentMessage{req.ContentLength, string(body)})
		n := len(*seen)
		mu.Unlock()
		if n <= len(replies) {
			replies[n-1](w)
		}
	}
}

// The server sees the same message on every attempt, whether bytes, a form, a
// file that stands in its middle or a stream, and whatever the reason to repeat.
//
// Cases C001, C003, C005.
func TestRepeatedMessageIsTheSameOnEveryWire(t *testing.T) {
	const order = `{"linies":[{"cafe":"caf_00007","quantitat":2}],"nota":"no hurry"}`
	content := strings.Repeat("0123456789", 30)
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	file := func() io.Reader {
		f, err := os.Open(path)
		require.NoError(t, err)
		_, err = f.Seek(100, io.SeekStart)
		require.NoError(t, err)
		return f
	}
	form := url.Values{"nom": {"Yirgacheffe"}, "quantitat": {"2"}, "nota": {"a&b"}}.Encode()
	for name, tc := range map[string]struct {
		body func() io.Reader
		want sentMessage
	}{
		"bytes":  {func() io.Reader { return bytes.NewReader([]byte(order)) }, sentMessage{int64(len(order)), order}},
		"form":   {func() io.Reader { return strings.NewReader(form) }, sentMessage{int64(len(form)), form}},
		"file":   {file, sentMessage{-1, content[100:]}}, // net/http announces no length of its own accord
		"stream": {func() io.Reader { return io.MultiReader(strings.NewReader("in "), strings.NewReader("parts")) }, sentMessage{-1, "in parts"}},
	} {
		t.Run(name, func(t *testing.T) {
			var seen []sentMessage
			var reply func(http.ResponseWriter)
			h := recorded(&seen, func(w http.ResponseWriter) { reply(w) })
			for reason, r := range map[string]func(http.ResponseWriter){
				"503":  func(w http.ResponseWriter) { w.WriteHeader(503) },
				"429":  func(w http.ResponseWriter) { w.Header().Set("Retry-After", "1"); w.WriteHeader(429) },
				"lost": func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
			} {
				t.Run(reason, func(t *testing.T) {
					overEveryWire(t, func(w http.ResponseWriter, req *http.Request) { h(w, req) }, func(t *testing.T, base *http.Transport, _ *pipes) {
						seen, reply = nil, r
						req, err := http.NewRequest(http.MethodPost, aCoffee, tc.body())
						require.NoError(t, err)
						req.Header.Set("Idempotency-Key", "k")
						resp, _ := do(t, polite.New(steadily(base)), req)
						assert.Equal(t, 200, resp.StatusCode)
						assert.Equal(t, []sentMessage{tc.want, tc.want}, seen)
					})
				})
			}
		})
	}
}

// A reader of the caller's that fails half way is nobody else's fault: the host
// keeps its breaker closed and its ten retries in reserve.
//
// Case C007.
func TestErrorOfTheCallersReaderCostsTheHostNothing(t *testing.T) {
	errOwn := errors.New("disk on fire")
	var busy atomic.Bool // the next GET is answered with a 503
	h := func(w http.ResponseWriter, req *http.Request) {
		if _, err := io.Copy(io.Discard, req.Body); err != nil || req.Method != http.MethodGet {
			return
		}
		if busy.CompareAndSwap(true, false) {
			w.WriteHeader(503)
		}
	}
	overEveryWire(t, h, func(t *testing.T, base *http.Transport, _ *pipes) {
		o := steadily(base)
		o.Breaker.Failures = 2
		c := polite.New(o)
		for range 20 {
			req, err := http.NewRequest(http.MethodPost, aCoffee, io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(errOwn)))
			require.NoError(t, err)
			_, err = c.Do(req)
			require.ErrorIs(t, err, errOwn)
			var e *polite.RetryError
			require.ErrorAs(t, err, &e)
			require.Equal(t, 1, e.Attempts)
		}
		assert.Equal(t, polite.BreakerClosed, breakerOf(t, c))
		start := time.Now()
		for range 10 {
			busy.Store(true)
			resp, _ := do(t, c, request(t, http.MethodGet, aCoffee, ""))
			assert.Equal(t, 200, resp.StatusCode, "the reserve is whole")
		}
		assert.Equal(t, 10*time.Second, time.Since(start))
	})
}

// Pooled connections that the peer cuts as they are used again cost a GET no
// more than its attempts.
//
// Case C049.
func TestConnectionsCutOnReuseCostNoCall(t *testing.T) {
	const warm, cut = 3, 3
	var served atomic.Int64
	h := func(_ http.ResponseWriter, req *http.Request) {
		switch n := served.Add(1); {
		case n <= warm:
			time.Sleep(time.Second) // side by side, on a connection each
		case n <= warm+cut:
			panic(http.ErrAbortHandler)
		}
	}
	overEveryWire(t, h, func(t *testing.T, base *http.Transport, _ *pipes) {
		served.Store(0)
		base.MaxIdleConnsPerHost = warm
		c := polite.New(steadily(base))
		crowd(warm, warm, func(int) { fetch(t.Context(), c, aCoffee) })
		synctest.Wait()
		resp, _ := do(t, c, request(t, http.MethodGet, aCoffee, ""))
		assert.Equal(t, 200, resp.StatusCode)
		assert.Equal(t, cut+1, polite.Attempts(resp))
		assert.EqualValues(t, warm+cut+1, served.Load())
	})
}

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
	overEveryWire(t, h, func(t *testing.T, base *http.Transport, _ *pipes) {
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
	overEveryWire(t, h, func(t *testing.T, base *http.Transport, _ *pipes) {
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
	overEveryWire(t, h, func(t *testing.T, base *http.Transport, _ *pipes) {
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
	overEveryWire(t, h, func(t *testing.T, base *http.Transport, _ *pipes) {
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

// A gateway fails after a create was stored: without a key it is not created
// again, and with one it is sent again under the same key.
//
// Case C057.
func TestGatewaysFailureRepeatsOnlyKeyedPosts(t *testing.T) {
	var mu sync.Mutex
	var keys []string
	var status atomic.Int64
	h := func(w http.ResponseWriter, req *http.Request) {
		io.Copy(io.Discard, req.Body)
		mu.Lock()
		defer mu.Unlock()
		if keys = append(keys, req.Header.Get("Idempotency-Key")); len(keys) == 1 {
			w.WriteHeader(int(status.Load()))
			return
		}
		w.WriteHeader(201)
	}
	overEveryWire(t, h, func(t *testing.T, base *http.Transport, _ *pipes) {
		for _, failure := range []int{500, 502, 503, 504} {
			for _, key := range []string{"", "k"} {
				keys = nil
				status.Store(int64(failure))
				req := request(t, http.MethodPost, aCoffee, "{}")
				want := []string{""}
				if key != "" {
					req.Header.Set("Idempotency-Key", key)
					want = []string{key}
					if failure != 500 { // final by default, whatever the key
						want = []string{key, key}
					}
				}
				resp, _ := do(t, polite.New(steadily(base)), req)
				assert.Equal(t, want, keys, failure)
				assert.Equal(t, len(want), polite.Attempts(resp))
			}
		}
	})
}
