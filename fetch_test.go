package polite_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
)

// A body that stalls, is cut or is reset half way is fetched again, in
// memory and over a wire.
//
// Case C191.
func TestFetchRepeatsABrokenBody(t *testing.T) {
	for _, fault := range []politetest.Fault{politetest.StallBody, politetest.TruncateBody, politetest.ResetBody} {
		for _, wire := range []bool{false, true} {
			t.Run(fault.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := serving(t, politetest.Fail(fault).Times(2))
					base := s.Transport()
					if wire {
						transport, stop := s.Pipe()
						defer stop()
						base = transport
					}
					bodies := &counting{base: base}
					c := polite.New(steadily(bodies))
					var whole map[string]any
					resp, err := c.Fetch(request(t, http.MethodGet, aCoffee, ""), polite.JSON(&whole))
					require.NoError(t, err)
					assert.Equal(t, 3, polite.Attempts(resp))
					assert.NotEmpty(t, whole)
					assert.Equal(t, 3, s.Requests())
					assert.Zero(t, bodies.open())
					assert.Zero(t, statsOf(t, c.Transport()).InFlight)
				})
			})
		}
	}
}

// A server that always cuts its bodies gives an error, and never a short
// body without one.
//
// Case C191.
func TestFetchNeverReturnsAShortBody(t *testing.T) {
	for _, fault := range []politetest.Fault{politetest.StallBody, politetest.TruncateBody, politetest.ResetBody} {
		synctest.Test(t, func(t *testing.T) {
			s := serving(t, politetest.Fail(fault).Times(-1))
			transport, stop := s.Pipe()
			defer stop()
			resp, err := polite.New(steadily(transport)).Fetch(request(t, http.MethodGet, aCoffee, ""), nil)
			assert.Nil(t, resp)
			var e *polite.RetryError
			require.ErrorAs(t, err, &e, fault.String())
			assert.Equal(t, 4, e.Attempts)
			assert.True(t, e.Sent)
		})
	}
}

// A body whose end is not marked may have been cut: what cannot be decoded is
// fetched again, and what can is taken.
func TestFetchDoubtsAnUnmarkedEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		o := steadily(roundTripper(func(req *http.Request) (*http.Response, error) {
			sent++
			resp := answered(req, 200, []string{`{"a":`, `{"a":1}`}[min(sent, 2)-1])
			resp.ContentLength = -1 // until close
			return resp, nil
		}))
		var v struct{ A int }
		_, err := polite.New(o).Fetch(request(t, http.MethodGet, aCoffee, ""), polite.JSON(&v))
		require.NoError(t, err)
		assert.Equal(t, 1, v.A)
		assert.Equal(t, 2, sent)
	})
}

// A body that is whole and cannot be decoded is not asked for again.
func TestFetchReturnsTheErrorOfDecode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t)
		errOwn := errors.New("not what I expected")
		c := polite.New(steadily(s.Transport()))
		resp, err := c.Fetch(request(t, http.MethodGet, aCoffee, ""), func(*http.Response, []byte) error { return errOwn })
		assert.Nil(t, resp)
		assert.ErrorIs(t, err, errOwn)
		assert.Equal(t, 1, s.Requests())
		assert.Equal(t, polite.BreakerClosed, breakerOf(t, c))
	})
}

// JSON leaves nothing of an earlier attempt, and nothing after an error.
func TestJSONStartsFresh(t *testing.T) {
	v := struct{ A, B int }{1, 2}
	require.NoError(t, polite.JSON(&v)(nil, []byte(`{"A":7}`)))
	assert.Equal(t, struct{ A, B int }{7, 0}, v)
	require.Error(t, polite.JSON(&v)(nil, []byte(`{"A":8} trailing`)))
	assert.Equal(t, 7, v.A)
}

// A body above the bound is refused, announced or not, and its rest is not
// read.
func TestFetchIsBounded(t *testing.T) {
	for _, announced := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			endless := &endlessBody{}
			o := steadily(roundTripper(func(req *http.Request) (*http.Response, error) {
				resp := answered(req, 200, "")
				resp.Body, resp.ContentLength = endless, -1
				if announced {
					resp.ContentLength = polite.MaxFetch + 1
				}
				return resp, nil
			}))
			c := polite.New(o)
			_, err := c.Fetch(request(t, http.MethodGet, aCoffee, ""), nil)
			var e *polite.BodyTooLargeError
			require.ErrorAs(t, err, &e)
			assert.EqualValues(t, polite.MaxFetch, e.Bound)
			assert.LessOrEqual(t, endless.read, polite.MaxFetch+1<<20)
			assert.True(t, endless.closed)
			assert.Equal(t, polite.BreakerClosed, breakerOf(t, c))
		})
	}
}

// endlessBody counts what is read of it.
type endlessBody struct {
	read   int
	closed bool
}

func (b *endlessBody) Read(p []byte) (int, error) {
	b.read += len(p)
	return len(p), nil
}

func (b *endlessBody) Close() error { b.closed = true; return nil }

// Fetch of a status outside 2xx gives both, the error and the response, and
// runs no decode.
func TestFetchOfAnErrorStatusGivesBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(404).WithBody(`{"message":"no such coffee"}`))
		resp, err := polite.New(steadily(s.Transport())).Fetch(request(t, http.MethodGet, aCoffee, ""), func(*http.Response, []byte) error {
			t.Error("decoded")
			return nil
		})
		var e *polite.ResponseError
		require.ErrorAs(t, err, &e)
		assert.Equal(t, "no such coffee", e.Message)
		assert.Equal(t, `{"message":"no such coffee"}`, readBody(t, resp))
	})
}

// An answer that came whole and is no JSON is told with its status, and with
// what the server says it is.
func TestFetchTellsWhatCameInsteadOfJSON(t *testing.T) {
	const start = "Get \"http://api.test/v1/cafes/caf_00001\": polite: http://api.test: 1 attempt (a repetition cannot help; the server answered 200): decoding the response: "
	for name, tc := range map[string]struct{ kind, body, want string }{
		"a page for people": {"text/html; charset=utf-8", "<html>", "text/html; charset=utf-8 is not JSON: invalid character '<' looking for beginning of value"},
		"JSON cut short":    {"application/problem+json", `{"nom":`, "unexpected end of JSON input"},
		"another type":      {"text/plain", `[]`, "json: cannot unmarshal array into Go value of type struct { Nom string }"},
	} {
		t.Run(name, func(t *testing.T) {
			c := polite.New(steadily(serving(t, politetest.Respond(200, "Content-Type", tc.kind).WithBody(tc.body)).Transport()))
			var v struct{ Nom string }
			_, err := c.Fetch(request(t, http.MethodGet, aCoffee, ""), polite.JSON(&v))
			var e *polite.RetryError
			require.ErrorAs(t, err, &e)
			assert.Equal(t, 200, e.Status)
			assert.EqualError(t, err, start+tc.want)
		})
	}
}

// A POST whose answer breaks off has been acted upon, and is not sent again
// without a promise.
func TestFetchOfAPostIsNotRepeated(t *testing.T) {
	for key, want := range map[string]int{"": 1, "k": 2} {
		synctest.Test(t, func(t *testing.T) {
			s := serving(t, politetest.Respond(201).WithBody("created").With(politetest.ResetBody), politetest.Respond(201).WithBody("created"))
			req := request(t, http.MethodPost, aCoffee, "{}")
			if key != "" {
				req.Header.Set("Idempotency-Key", key)
			}
			_, err := polite.New(steadily(s.Transport())).Fetch(req, nil)
			assert.Equal(t, want == 1, err != nil)
			assert.Equal(t, want, s.Requests())
		})
	}
}

// A call that ends with an error of the caller's own has closed every body, the
// last one included.
//
// Case C043.
func TestFetchThatReturnsOnlyAnErrorHasClosedEveryBody(t *testing.T) {
	errOwn := errors.New("not what I expected")
	for _, last := range []int{200, 503} {
		synctest.Test(t, func(t *testing.T) {
			bodies := &counting{base: serving(t, politetest.Respond(503).WithBody("busy").Times(3), politetest.Respond(last).WithBody("last")).Transport()}
			resp, err := polite.New(steadily(bodies)).Fetch(request(t, http.MethodGet, aCoffee, ""), func(*http.Response, []byte) error { return errOwn })
			if last == 200 {
				assert.Nil(t, resp)
				assert.ErrorIs(t, err, errOwn)
			} else {
				require.ErrorAs(t, err, new(*polite.ResponseError))
			}
			assert.EqualValues(t, 4, bodies.opened.Load())
			assert.Zero(t, bodies.open())
		})
	}
}
