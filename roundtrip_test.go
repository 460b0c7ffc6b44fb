package polite_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
)

// http.RoundTripper: the request is not changed, not even what it points to.
func TestRoundTripDoesNotChangeTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(503), politetest.Fail(politetest.ResetAfter), politetest.Respond(429, "Retry-After", "1"))
		o := steadily(s.Transport())
		o.Retry.GenerateKeys = true
		req := request(t, http.MethodPost, aCoffee+"?a=1&a=2#part", "the body", "Accept", "application/json")
		req.URL.User = url.UserPassword("ona", "secret")
		req.Trailer = http.Header{"X-Sum": nil}
		before := *req
		header, target, trailer := req.Header.Clone(), *req.URL, req.Trailer.Clone()

		resp, err := polite.NewTransport(o).RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, 4, s.Requests())

		assert.Equal(t, header, req.Header, "the generated key is not the caller's")
		assert.Equal(t, target, *req.URL)
		assert.Equal(t, trailer, req.Trailer)
		before.GetBody, req.GetBody = nil, nil // functions cannot be compared
		assert.Equal(t, before, *req)
	})
}

// http.RoundTripper: a response or an error, never both and never neither, and
// the body that comes with an error is closed.
//
// Case C055.
func TestResponseWithAnErrorFromTheBaseIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &counting{base: roundTripper(func(req *http.Request) (*http.Response, error) {
			return answered(req, 200, "partial"), errLost
		})}
		resp, err := polite.NewTransport(steadily(base)).RoundTrip(request(t, http.MethodGet, aCoffee, ""))
		assert.Nil(t, resp)
		assert.ErrorIs(t, err, errLost)
		assert.EqualValues(t, 4, base.opened.Load())
		assert.Zero(t, base.open())
	})
}

func TestNothingFromTheBaseIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := roundTripper(func(*http.Request) (*http.Response, error) { return nil, nil })
		resp, err := polite.NewTransport(steadily(base)).RoundTrip(request(t, http.MethodGet, aCoffee, ""))
		assert.Nil(t, resp)
		assert.ErrorContains(t, err, "neither a response nor an error")
	})
}

// A response that arrived is a response also through http.Client, its body
// readable.
//
// Case C055.
func TestLastResponsePassesThroughHTTPClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &counting{base: serving(t, politetest.Respond(503).WithBody("sorry").Times(-1)).Transport()}
		client := &http.Client{Transport: polite.NewTransport(steadily(base)), Timeout: time.Minute}
		resp, err := client.Get(aCoffee)
		require.NoError(t, err)
		assert.Equal(t, 503, resp.StatusCode)
		assert.Equal(t, 4, polite.Attempts(resp))
		assert.Equal(t, "sorry", readBody(t, resp))
		assert.Zero(t, base.open())
	})
}

func TestAttemptsSurvivesWhatIsDoneToTheResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t)
		c := polite.New(steadily(s.Transport()))
		c.HTTPClient().Timeout = time.Minute

		s.Script(politetest.Respond(503))
		resp, err := c.Get(t.Context(), aCoffee)
		require.NoError(t, err)
		assert.NotEmpty(t, polite.PeekBody(resp, 10))
		assert.Equal(t, 2, polite.Attempts(resp))
		readBody(t, resp)
		assert.Equal(t, 2, polite.Attempts(resp))

		s.Script(politetest.Respond(503), politetest.Respond(502))
		resp, err = c.Fetch(request(t, http.MethodGet, aCoffee, ""), nil)
		require.NoError(t, err)
		assert.Equal(t, 3, polite.Attempts(resp))

		assert.Zero(t, polite.Attempts(nil))
		assert.Zero(t, polite.Attempts(&http.Response{}))
		assert.Zero(t, polite.Attempts(&http.Response{Request: request(t, http.MethodGet, aCoffee, "")}))
	})
}

// A base that loses the request on the way (a recording, a cache) does not lose
// the count.
func TestAttemptsSurvivesABaseThatAnswersForAnotherRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		base := roundTripper(func(req *http.Request) (*http.Response, error) {
			sent++
			other := request(t, http.MethodGet, "http://recorded.test/", "")
			if sent == 2 {
				other = nil
			}
			return answered(other, []int{503, 503, 404}[sent-1], ""), nil
		})
		resp, _ := do(t, polite.New(steadily(base)), request(t, http.MethodGet, aCoffee, ""))
		assert.Equal(t, 3, polite.Attempts(resp))
		assert.Equal(t, 3, responseError(t, resp).Attempts)
	})
}

// The end of http.Client's own timer is the caller's, not the server's.
func TestClientTimeoutIsNeutral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Fail(politetest.StallHeaders).Times(2))
		o := steadily(s.Transport())
		o.Breaker.Failures = 1
		c := polite.New(o)
		c.HTTPClient().Timeout = time.Second
		for range 2 {
			start := time.Now()
			_, err := c.Get(t.Context(), aCoffee)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Equal(t, time.Second, time.Since(start))
			synctest.Wait()
		}
		assert.Equal(t, polite.BreakerClosed, statsOf(t, c.Transport()).Breaker)
		assert.Zero(t, statsOf(t, c.Transport()).InFlight)
	})
}

// The context of resp.Request ends with the caller's, not with the body.
func TestContextOfTheResponseOutlivesItsBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		c := polite.New(steadily(serving(t).Transport()))
		resp, err := c.Get(ctx, aCoffee)
		require.NoError(t, err)
		readBody(t, resp)

		after := resp.Request.Context()
		require.NoError(t, after.Err())
		assert.Equal(t, "value", after.Value(key{}))
		again, err := c.Get(after, aCoffee) // as an SDK does that follows a link
		require.NoError(t, err)
		readBody(t, again)

		cancel()
		<-after.Done()
		assert.ErrorIs(t, after.Err(), context.Canceled)
	})
}

// Two layers do not multiply.
//
// Case C069.
func TestNestedTransportMakesASingleAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, reply := range []politetest.Reply{politetest.Respond(429), politetest.Respond(503), politetest.Fail(politetest.ResetAfter)} {
			s := serving(t, reply.Times(-1))
			inner := polite.NewTransport(steadily(s.Transport()))
			resp, err := polite.New(steadily(inner)).Get(t.Context(), aCoffee)
			assert.Equal(t, 4, s.Requests())
			if err == nil {
				assert.Equal(t, 4, polite.Attempts(resp), "the outer layer's count")
				assert.Equal(t, 4, responseError(t, resp).Attempts)
				require.NoError(t, resp.Body.Close())
			}
		}
	})
}

// What rides on the context is done once, by the outer layer.
func TestNestedTransportLeavesFetchAndTraceToTheOuterOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(503))
		inner := polite.NewTransport(steadily(s.Transport()))
		attempts, decodes := 0, 0
		ctx := polite.WithTrace(t.Context(), &polite.Trace{Attempt: func(polite.AttemptEvent) { attempts++ }})
		req := request(t, http.MethodGet, aCoffee, "").WithContext(ctx)
		_, err := polite.New(steadily(inner)).Fetch(req, func(*http.Response, []byte) error { decodes++; return nil })
		require.NoError(t, err)
		assert.Equal(t, 2, attempts)
		assert.Equal(t, 1, decodes)
	})
}

// No permit, place in flight, place in line or body stays behind a function of
// the caller that panics.
func TestPanickingHooksLeaveNothingBehind(t *testing.T) {
	boom := errors.New("boom")
	explode := func() { panic(boom) }
	failing := []politetest.Reply{politetest.Respond(503), politetest.Respond(429, "Retry-After", "1")}
	for name, build := range map[string]func(*polite.Options, *http.Request){
		"Classify": func(o *polite.Options, _ *http.Request) {
			o.Classify = func(*http.Response, error) polite.Verdict { panic(boom) }
		},
		"QuotaKey": func(o *polite.Options, _ *http.Request) { o.QuotaKey = func(*http.Request) string { panic(boom) } },
		"Cost":     func(o *polite.Options, _ *http.Request) { o.Cost = func(*http.Request) int { panic(boom) } },
		"Backoff":  func(o *polite.Options, _ *http.Request) { o.Retry.Backoff = func(int) time.Duration { panic(boom) } },
		"Trace.Wait": func(o *polite.Options, _ *http.Request) {
			o.Trace = &polite.Trace{Wait: func(polite.WaitEvent) { explode() }}
		},
		"Trace.Attempt": func(o *polite.Options, _ *http.Request) {
			o.Trace = &polite.Trace{Attempt: func(polite.AttemptEvent) { explode() }}
		},
		"Trace.Gate": func(o *polite.Options, _ *http.Request) {
			o.Trace = &polite.Trace{Gate: func(polite.GateEvent) { explode() }}
		},
		"Trace.Stop": func(o *polite.Options, _ *http.Request) {
			o.Retry.MaxAttempts = 1
			o.Trace = &polite.Trace{Stop: func(polite.StopEvent) { explode() }}
		},
		"Trace.Quota": func(o *polite.Options, _ *http.Request) {
			base := o.Base
			o.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
				resp, err := base.RoundTrip(req)
				resp.Header.Set("X-RateLimit-Remaining", "7")
				return resp, err
			})
			o.Trace = &polite.Trace{Quota: func(polite.QuotaEvent) { explode() }}
		},
		"Trace.Breaker": func(o *polite.Options, _ *http.Request) {
			o.Breaker.Failures = 1
			o.Trace = &polite.Trace{Breaker: func(polite.BreakerEvent) { explode() }}
		},
		"GetBody": func(_ *polite.Options, req *http.Request) {
			req.GetBody = func() (io.ReadCloser, error) { panic(boom) }
		},
		"Body": func(_ *polite.Options, req *http.Request) { req.GetBody, req.Body = nil, io.NopCloser(explosive{boom}) },
		"Base": func(o *polite.Options, _ *http.Request) {
			o.Base = roundTripper(func(req *http.Request) (*http.Response, error) { req.Body.Close(); panic(boom) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bodies := &counting{base: serving(t, failing...).Transport()}
				o := steadily(bodies)
				o.Limit.MaxInFlight = 1
				req := request(t, http.MethodPut, aCoffee, "body")
				build(o, req)
				closed := false
				sent := req.Body
				req.Body = struct {
					io.Reader
					io.Closer
				}{sent, closer(func() error { closed = true; return sent.Close() })}
				tr := polite.NewTransport(o)
				assert.PanicsWithValue(t, boom, func() { tr.RoundTrip(req) })
				assert.True(t, closed, "the request's body")
				assert.Zero(t, bodies.open(), "response bodies")
				for _, stats := range tr.Hosts() {
					assert.Zero(t, stats.InFlight)
					assert.Zero(t, stats.Waiting)
				}
			})
		})
	}
}

// explosive is a reader that panics.
type explosive struct{ value any }

func (e explosive) Read([]byte) (int, error) { panic(e.value) }

// A panic while a probe is about to leave does not keep the probe's slot.
//
// Case C077.
func TestPanickingBreakerTraceGivesTheProbeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(503).Times(5))
		o := steadily(s.Transport())
		o.Retry.Disable, o.Limit.MaxInFlight = true, 1
		o.Trace = &polite.Trace{Breaker: func(e polite.BreakerEvent) {
			if e.To == polite.BreakerHalfOpen {
				panic("boom")
			}
		}}
		c := polite.New(o)
		for range 5 {
			do(t, c, request(t, http.MethodGet, aCoffee, ""))
		}
		time.Sleep(5 * time.Second)
		assert.Panics(t, func() { c.Get(t.Context(), aCoffee) })
		assert.Zero(t, statsOf(t, c.Transport()).InFlight)
		resp, _ := do(t, c, request(t, http.MethodGet, aCoffee, ""))
		assert.Equal(t, 200, resp.StatusCode)
	})
}

func TestPanickingDecodeLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bodies := &counting{base: serving(t).Transport()}
		c := polite.New(steadily(bodies))
		assert.Panics(t, func() {
			c.Fetch(request(t, http.MethodGet, aCoffee, ""), func(*http.Response, []byte) error { panic("boom") })
		})
		assert.Zero(t, bodies.open())
		assert.Zero(t, statsOf(t, c.Transport()).InFlight)
	})
}

// "localhost:8080/v1/cafes" is a URL with the scheme localhost: what is missing
// is told. A host that is left out behind its scheme is not taken for that.
func TestMissingSchemeIsToldAsSuch(t *testing.T) {
	c := polite.New(steadily(serving(t).Transport()))
	for url, missing := range map[string]bool{"localhost:8080/v1/cafes": true, "api.test/v1/cafes": true, "http:///v1/cafes": false} {
		_, err := c.Get(t.Context(), url)
		require.ErrorContains(t, err, "without a host", url)
		assert.Equal(t, missing, strings.Contains(err.Error(), "(is http:// missing?)"), err)
	}
}

// Bad requests are refused with a clear error before anything is counted.
func TestBadRequestsAreRefusedClearly(t *testing.T) {
	s := serving(t)
	o, told := steadily(s.Transport()), ""
	o.Trace = &polite.Trace{Stop: func(e polite.StopEvent) { told += fmt.Sprintf("%+v\n", e) }}
	tr := polite.NewTransport(o)
	for name, req := range map[string]*http.Request{
		"without a URL":  {Method: http.MethodGet},
		"without a host": {Method: http.MethodGet, URL: &url.URL{Path: "/v1/cafes"}},
		"with userinfo":  {Method: http.MethodGet, URL: &url.URL{Scheme: "https", Host: "ona:s3cr3t@a.test"}},
		"with a control": {Method: http.MethodGet, URL: &url.URL{Scheme: "https", Host: "s3cr3t\u0085.test"}},
		"1000 bytes":     {Method: http.MethodGet, URL: &url.URL{Scheme: "https", Host: "s3cr3t." + strings.Repeat("a", 1000)}},
	} {
		resp, err := tr.RoundTrip(req)
		assert.Nil(t, resp)
		assert.ErrorContains(t, err, name)
		assert.ErrorContains(t, err, "not sent")
		assert.NotContains(t, err.Error(), "s3cr3t")
	}
	assert.NotContains(t, told, "s3cr3t")
	assert.Zero(t, s.Requests())
	assert.Empty(t, slices.Collect(hostNames(tr)))
}

func hostNames(tr *polite.Transport) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range tr.Hosts() {
			if !yield(name) {
				return
			}
		}
	}
}

// A request without a header map and with an empty method is a valid one.
func TestBareRequestIsSent(t *testing.T) {
	s := serving(t)
	u, err := url.Parse(aCoffee)
	require.NoError(t, err)
	resp, err := polite.NewTransport(steadily(s.Transport())).RoundTrip(&http.Request{URL: u})
	require.NoError(t, err)
	assert.Contains(t, readBody(t, resp), "caf_00001")
	assert.Equal(t, http.MethodGet, s.Arrivals()[0].Method)
}

// A cancelled context takes no token and sends nothing.
//
// Case C039.
func TestCancelledContextTakesNoToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t)
		o := steadily(s.Transport())
		o.Limit.Rates = []polite.Rate{polite.PerHour(1)}
		c := polite.New(o)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := c.Get(ctx, aCoffee)
		assert.ErrorIs(t, err, context.Canceled)
		assert.Zero(t, s.Requests())
		start := time.Now()
		do(t, c, request(t, http.MethodGet, aCoffee, ""))
		assert.Zero(t, time.Since(start))
	})
}

// Default settings hold for any client: no key is added on its own, no header
// either.
func TestNothingIsAddedToTheRequest(t *testing.T) {
	var seen []http.Header
	base := roundTripper(func(req *http.Request) (*http.Response, error) {
		seen = append(seen, req.Header.Clone())
		return answered(req, 200, ""), nil
	})
	c := polite.New(&polite.Options{Base: base})
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		do(t, c, request(t, method, aCoffee, strings.Repeat("x", len(method)), "Accept", "text/plain"))
	}
	for _, h := range seen {
		assert.Equal(t, http.Header{"Accept": {"text/plain"}}, h)
	}
}

// Fetch leaves nothing to be closed, whatever the status, and http.Client's own
// timer ends with it.
func TestFetchLeavesNothingToClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(200).WithBody(`"good"`), politetest.Respond(404).WithBody(strings.Repeat("no", 100_000)), politetest.Respond(200))
		bodies := &counting{base: s.Transport()}
		c := polite.New(steadily(bodies))
		c.HTTPClient().Timeout = time.Hour
		var got string
		resp, err := c.Fetch(request(t, http.MethodGet, aCoffee, ""), polite.JSON(&got))
		require.NoError(t, err)
		assert.Equal(t, "good", got)
		assert.Equal(t, `"good"`, readBody(t, resp))

		resp, err = c.Fetch(request(t, http.MethodGet, aCoffee, ""), polite.JSON(&got))
		var e *polite.ResponseError
		require.ErrorAs(t, err, &e)
		assert.Zero(t, bodies.open())
		assert.Zero(t, statsOf(t, c.Transport()).InFlight)
		assert.Len(t, readBody(t, resp), 200_000)

		resp, err = c.Fetch(request(t, http.MethodGet, aCoffee, ""), nil)
		require.NoError(t, err)
		assert.Empty(t, readBody(t, resp))
		assert.Zero(t, bodies.open())
	})
}

// A body that dribbles keeps every read alive, and yet the whole call ends.
func TestFetchEndsWithMaxElapsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := roundTripper(func(req *http.Request) (*http.Response, error) {
			resp := answered(req, 200, "")
			resp.ContentLength, resp.Body = -1, &slowBody{ctx: req.Context(), pause: 20 * time.Second, left: -1}
			return resp, nil
		})
		start := time.Now()
		_, err := polite.New(steadily(base)).Fetch(request(t, http.MethodGet, aCoffee, ""), nil)
		var timeout *polite.AttemptTimeoutError
		require.ErrorAs(t, err, &timeout)
		assert.Equal(t, 5*time.Minute, time.Since(start))
	})
}
