package polite_test

import (
	"bytes"
	"context"
	"errors"
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

// idleTime is how long the servers of overEveryWire keep an idle connection.
const idleTime = time.Minute

// overEveryWire runs a test in a bubble for each way in which HTTP travels: a
// handler behind net/http's own client and server, on in-memory connections.
func overEveryWire(t *testing.T, h http.HandlerFunc, test func(t *testing.T, base *http.Transport)) {
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
				s := &http.Server{Handler: h, Protocols: protocols, IdleTimeout: idleTime, ErrorLog: log.New(io.Discard, "", 0)}
				base := &http.Transport{Protocols: protocols, DisableKeepAlives: !w.keepAlive,
					DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return l.dial(ctx) }}
				var serving sync.WaitGroup
				serving.Go(func() { s.Serve(l) })
				defer func() {
					base.CloseIdleConnections()
					s.Close()
					serving.Wait()
				}()
				test(t, base)
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
					overEveryWire(t, func(w http.ResponseWriter, req *http.Request) { h(w, req) }, func(t *testing.T, base *http.Transport) {
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
	overEveryWire(t, h, func(t *testing.T, base *http.Transport) {
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
	overEveryWire(t, h, func(t *testing.T, base *http.Transport) {
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
	overEveryWire(t, h, func(t *testing.T, base *http.Transport) {
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

// A POST after the server has closed the connection that was warm goes out on a
// fresh one, and is carried out once.
//
// Case C059.
func TestPostAfterTheServerHungUpIsCarriedOutOnce(t *testing.T) {
	var seen []sentMessage
	var h http.HandlerFunc
	overEveryWire(t, func(w http.ResponseWriter, req *http.Request) { h(w, req) }, func(t *testing.T, base *http.Transport) {
		seen, h = nil, recorded(&seen)
		dials, dial := 0, base.DialContext
		base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			dials++
			return dial(ctx, network, address)
		}
		c := polite.New(steadily(base))
		do(t, c, request(t, http.MethodGet, aCoffee, ""))
		time.Sleep(2 * idleTime)
		resp, _ := do(t, c, request(t, http.MethodPost, aCoffee, "order"))
		assert.Equal(t, 200, resp.StatusCode)
		assert.Equal(t, 1, polite.Attempts(resp))
		assert.Equal(t, []sentMessage{{0, ""}, {5, "order"}}, seen)
		assert.Equal(t, 2, dials)
	})
}
