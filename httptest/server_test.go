package httptest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// get sends a GET through the in-memory transport and reads the answer.
func get(t *testing.T, s *Server, path string, header ...string) (*http.Response, string) {
	t.Helper()
	return send(t, s, http.MethodGet, path, nil, header...)
}

func send(t *testing.T, s *Server, method, path string, body io.Reader, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(method, BaseURL+path, body)
	require.NoError(t, err)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := s.Transport().RoundTrip(req)
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp, string(text)
}

func TestCatalogPagesHoldEveryCoffeeOnce(t *testing.T) {
	s := Must(t, Config{Limit: Limit{N: -1}})
	seen := map[string]bool{}
	for offset := 0; ; offset += 100 {
		_, body := get(t, s, "/v1/cafes?limit=100&desplacament="+itoa(offset))
		var page struct {
			Dades []Coffee
			Total int
		}
		require.NoError(t, json.Unmarshal([]byte(body), &page))
		require.Equal(t, DefaultCoffees, page.Total)
		for _, c := range page.Dades {
			seen[c.ID] = true
			require.NotEmpty(t, c.Region)
			require.Positive(t, c.Price)
		}
		if len(page.Dades) == 0 {
			break
		}
	}
	assert.Len(t, seen, DefaultCoffees)
}

func TestSameSeedMakesTheSameCatalog(t *testing.T) {
	a, b, c := newCatalog(1, 50), newCatalog(1, 50), newCatalog(2, 50)
	assert.Equal(t, string(a.page(0, 50)), string(b.page(0, 50)))
	assert.NotEqual(t, string(a.page(0, 50)), string(c.page(0, 50)))
}

func TestEveryResponseCarriesTheQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Must(t, Config{Limit: Limit{N: 2, Per: time.Minute}})
		for _, want := range []struct{ status, remaining string }{{"200", "1"}, {"200", "0"}, {"429", "0"}} {
			resp, _ := get(t, s, "/v1/cafes/caf_00001")
			assert.Equal(t, want.status, itoa(resp.StatusCode))
			assert.Equal(t, "2", resp.Header.Get("Aroma-RateLimit-Limit"))
			assert.Equal(t, want.remaining, resp.Header.Get("Aroma-RateLimit-Restants"))
			assert.Equal(t, want.remaining, resp.Header.Get("Aroma-RateLimit-Remaining"))
			assert.Equal(t, "946684860", resp.Header.Get("Aroma-RateLimit-Reinici"))
			assert.Equal(t, "946684860", resp.Header.Get("Aroma-RateLimit-Reset"))
			assert.Regexp(t, `^trz_[0-9a-f]{8}$`, resp.Header.Get("Aroma-Traca-Id"))
			assert.Contains(t, resp.Header.Get("Access-Control-Expose-Headers"), "Aroma-RateLimit-Reinici")
		}
		assert.Equal(t, 3, s.Requests())
		assert.Equal(t, 1, s.Refusals())
	})
}

func TestRefusalSaysHowLongToWaitInTheExactShape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Must(t, Config{Limit: Limit{N: 1, Per: time.Minute}})
		get(t, s, "/v1/cafes")
		time.Sleep(22500 * time.Millisecond)
		resp, body := get(t, s, "/v1/cafes")
		assert.Equal(t, 429, resp.StatusCode)
		assert.Equal(t, "38", resp.Header.Get("Retry-After"), "37.5 s rounded up")
		assert.JSONEq(t, `{"error":{"codi":"limit_peticions","missatge":"Has superat el límit de peticions. Torna-ho a provar més tard.","detalls":[]}}`, body)
	})
}

func TestScriptedUnavailabilityCarriesTraceAndHint(t *testing.T) {
	s := Must(t, Config{})
	s.Script(Respond(503, "Retry-After", "120"))
	resp, body := get(t, s, "/v1/cafes")
	assert.Equal(t, 503, resp.StatusCode)
	assert.Equal(t, "120", resp.Header.Get("Retry-After"))
	assert.Contains(t, body, `"codi":"servei_no_disponible"`)
	assert.Contains(t, body, `"tracaId":"`+resp.Header.Get("Aroma-Traca-Id")+`"`)
	resp, _ = get(t, s, "/v1/cafes")
	assert.Equal(t, 200, resp.StatusCode, "the script is used up")
}

func TestScriptServesRepliesInOrderToWhatTheyMatch(t *testing.T) {
	s := Must(t, Config{})
	s.Script(Pass(), Respond(502).Times(2).On("GET", "/v1/cafes"), Respond(418).On("GET", "/v1/cafes/*"))
	var got []int
	for _, p := range []string{"/v1/cafes", "/v1/cafes/caf_00001", "/v1/cafes", "/v1/cafes", "/v1/cafes"} {
		resp, _ := get(t, s, p)
		got = append(got, resp.StatusCode)
	}
	assert.Equal(t, []int{200, 418, 502, 502, 200}, got)
	assert.Zero(t, s.Pending())
}

func TestLatencyPassesHalfBeforeAndHalfAfterTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Must(t, Config{Latency: 20 * time.Millisecond})
		start := time.Now()
		get(t, s, "/salut")
		assert.Equal(t, 20*time.Millisecond, time.Since(start))
		assert.Equal(t, 10*time.Millisecond, s.Arrivals()[0].At.Sub(start))
	})
}

func TestTransportObeysTheRequestsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Must(t, Config{Latency: time.Minute})
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		start := time.Now()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, BaseURL+"/salut", nil)
		require.NoError(t, err)
		_, err = s.Transport().RoundTrip(req)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(start))
	})
}

type watchedBody struct {
	io.Reader
	closed int
}

func (w *watchedBody) Close() error { w.closed++; return nil }

func TestTransportClosesTheRequestBodyAlways(t *testing.T) {
	s := Must(t, Config{})
	for _, script := range []Reply{Pass(), Respond(503), Fail(Refuse), Fail(ResetAfter)} {
		s.Script(script)
		body := &watchedBody{Reader: strings.NewReader("{}")}
		req, err := http.NewRequest(http.MethodPost, BaseURL+"/v1/comandes", body)
		require.NoError(t, err)
		resp, err := s.Transport().RoundTrip(req)
		if err == nil {
			require.NoError(t, resp.Body.Close())
		}
		assert.Equal(t, 1, body.closed)
	}
}

func TestFaultsArriveAsConnectionErrors(t *testing.T) {
	s := Must(t, Config{})
	for fault, want := range map[Fault]error{Refuse: syscall.ECONNREFUSED, ResetBefore: syscall.ECONNRESET, ResetAfter: syscall.ECONNRESET} {
		s.Script(Fail(fault))
		req, err := http.NewRequest(http.MethodGet, BaseURL+"/v1/cafes", nil)
		require.NoError(t, err)
		_, err = s.Transport().RoundTrip(req)
		assert.ErrorIs(t, err, want, fault.String())
	}
	assert.Equal(t, 2, s.Requests(), "a refused connection is never seen")
}

func TestBodyFaultsStrikeHalfWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Must(t, Config{})
		for fault, want := range map[Fault]error{TruncateBody: io.ErrUnexpectedEOF, ResetBody: syscall.ECONNRESET, StallBody: context.DeadlineExceeded} {
			s.Script(Fail(fault))
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, BaseURL+"/v1/cafes", nil)
			require.NoError(t, err)
			resp, err := s.Transport().RoundTrip(req)
			require.NoError(t, err)
			got, err := io.ReadAll(resp.Body)
			assert.ErrorIs(t, err, want, fault.String())
			assert.Len(t, got, int(resp.ContentLength)/2)
			cancel()
		}
	})
}

func TestPipeServesARealWireInsideABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Must(t, Config{Limit: Limit{N: 2, Per: time.Minute}})
		transport, stop := s.Pipe()
		defer stop()
		client := &http.Client{Transport: transport}
		var got []int
		for range 3 {
			resp, err := client.Get("http://api.botigaaroma.example/v1/cafes?limit=100")
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, resp.Body)
			require.NoError(t, err)
			resp.Body.Close()
			got = append(got, resp.StatusCode)
		}
		assert.Equal(t, []int{200, 200, 429}, got)
	})
}

func TestListenServesOnAPort(t *testing.T) {
	s := Must(t, Config{})
	url, stop, err := s.Listen("127.0.0.1:0")
	require.NoError(t, err)
	resp, err := http.Get(url + "/salut")
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equal(t, 200, resp.StatusCode)
	require.NoError(t, stop())
	require.NoError(t, stop(), "stopping twice is harmless")
	_, err = http.Get(url + "/salut")
	require.Error(t, err)
}

func TestScriptsMatchMayAskTheServer(t *testing.T) {
	s := Must(t, Config{})
	second := Respond(503)
	second.Match = func(*http.Request) bool { return s.Requests() == 1 }
	s.Script(second)
	assert.Equal(t, []int{200, 503, 200}, statuses(t, s, "/v1/cafes", 3))
}

func TestScriptedStatusThatIsNoFinalOneIsA500(t *testing.T) {
	s := Must(t, Config{})
	s.Script(Respond(42), Respond(100), Respond(1000), Respond(-1))
	assert.Equal(t, []int{500, 500, 500, 500}, statuses(t, s, "/v1/cafes", 4))
}

func TestScriptedReplyGoesToOneRequestOnly(t *testing.T) {
	s := Must(t, Config{Limit: Limit{N: -1}})
	s.Script(Respond(503).Times(5))
	var failed atomic.Int64
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			resp, _ := get(t, s, "/v1/cafes/caf_00001")
			failed.Add(int64(count(resp.StatusCode == 503)))
		})
	}
	all.Wait()
	assert.Equal(t, int64(5), failed.Load())
}
