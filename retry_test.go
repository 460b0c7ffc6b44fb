package polite_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
)

// A refusal without a hint is followed by the computed delay, never by
// none.
//
// Case C025.
func TestRefusalWithoutAHintIsBackedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(429).Times(-1))
		start := time.Now()
		o := &polite.Options{Base: s.Transport(), Retry: polite.RetryOptions{Backoff: polite.Exponential{Initial: 100 * time.Millisecond, Jitter: -1}.Delay}}
		resp, _ := do(t, polite.New(o), request(t, http.MethodGet, aCoffee, ""))
		assert.Equal(t, 429, resp.StatusCode)
		assert.Equal(t, []time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond, 700 * time.Millisecond}, arrivedAfter(s, start))
	})
}

// MaxAttempts is the number of requests, and there is no "for ever".
//
// Cases C071, C145.
func TestMaxAttemptsIsTheNumberOfRequests(t *testing.T) {
	for given, want := range map[int]int{0: 4, 1: 1, 2: 2, 4: 4, 7: 7, -1: 1, -100: 1} {
		t.Run(strconv.Itoa(given), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serving(t, politetest.Respond(429, "Retry-After", "1").Times(-1))
				o := steadily(s.Transport())
				o.Retry.MaxAttempts = given
				do(t, polite.New(o), request(t, http.MethodGet, aCoffee, ""))
				assert.Equal(t, want, s.Requests())

				ctx := polite.WithOverrides(t.Context(), polite.Overrides{MaxAttempts: given})
				resp, err := polite.New(steadily(s.Transport())).Get(ctx, aCoffee)
				require.NoError(t, err)
				readBody(t, resp)
				assert.Equal(t, 2*want, s.Requests())
			})
		})
	}
}

// A create that failed at a gateway is not sent again.
//
// Case C057.
func TestPostIsNotRepeatedAfterAnAnswer(t *testing.T) {
	for _, status := range []int{429, 500, 502, 503, 504} {
		synctest.Test(t, func(t *testing.T) {
			s := serving(t, politetest.Respond(status), politetest.Respond(201))
			c := polite.New(steadily(s.Transport()))
			resp, _ := do(t, c, request(t, http.MethodPost, aCoffee, "{}"))
			assert.Equal(t, status, resp.StatusCode)
			assert.Equal(t, 1, s.Requests())
		})
	}
	synctest.Test(t, func(t *testing.T) { // the caller's promise, for this request alone
		s := serving(t, politetest.Respond(502), politetest.Respond(201))
		ctx := polite.WithOverrides(t.Context(), polite.Overrides{Idempotent: true})
		resp, _ := do(t, polite.New(steadily(s.Transport())), request(t, http.MethodPost, aCoffee, "{}").WithContext(ctx))
		assert.Equal(t, 201, resp.StatusCode)
		assert.Equal(t, 2, s.Requests())
	})
}

// What was not sent is sent again, whatever the method; what may
// have arrived is not.
func TestPostIsRepeatedOnlyIfItWasNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Fail(politetest.Refuse))
		resp, _ := do(t, polite.New(steadily(s.Transport())), request(t, http.MethodPost, "http://api.test/v1/comandes", "{}"))
		assert.Equal(t, 2, polite.Attempts(resp))
		assert.Equal(t, 1, s.Requests())

		s = serving(t, politetest.Fail(politetest.ResetAfter))
		_, err := polite.New(steadily(s.Transport())).Do(request(t, http.MethodPost, "http://api.test/v1/comandes", "{}"))
		var e *polite.RetryError
		require.ErrorAs(t, err, &e)
		assert.Equal(t, polite.ReasonNotRepeatable, e.Reason)
		assert.True(t, e.Sent)
		assert.Equal(t, 1, s.Requests())
	})
}

// idempotencyInUse is how one API says that the first attempt still holds the
// key.
func idempotencyInUse(resp *http.Response, err error) polite.Verdict {
	if err == nil && resp.StatusCode == http.StatusConflict && bytes.Contains(polite.PeekBody(resp, 4096), []byte("idempotency_key_in_use")) {
		return polite.Verdict{Outcome: polite.OK, Retry: true}
	}
	return polite.DefaultClassify(resp, err)
}

// A 409 is final, unless the classifier knows better.
//
// Case C061.
func TestConflictIsRepeatedOnlyByClassify(t *testing.T) {
	for _, classify := range []func(*http.Response, error) polite.Verdict{nil, idempotencyInUse} {
		synctest.Test(t, func(t *testing.T) {
			s := serving(t, politetest.Respond(409).WithBody(`{"error":{"codi":"idempotency_key_in_use"}}`), politetest.Respond(200))
			var bodies []string
			o := steadily(recordBodies(s.Transport(), &bodies))
			o.Classify = classify
			start := time.Now()
			resp, body := do(t, polite.New(o), request(t, http.MethodPost, aCoffee, "the same", "Idempotency-Key", "K"))
			if classify == nil {
				assert.Equal(t, 409, resp.StatusCode)
				assert.Contains(t, body, "in_use")
				assert.Equal(t, []string{"the same"}, bodies)
				return
			}
			assert.Equal(t, 200, resp.StatusCode)
			assert.Equal(t, []string{"the same", "the same"}, bodies)
			assert.Equal(t, time.Second, time.Since(start))
			for _, a := range s.Arrivals() {
				assert.Equal(t, "K", a.IdempotencyKey)
			}
		})
	}
}

// recordBodies notes the body of every request.
func recordBodies(base http.RoundTripper, bodies *[]string) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if req.Body == nil {
			*bodies = append(*bodies, "")
			return base.RoundTrip(req)
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			req.Body.Close()
			return nil, err
		}
		*bodies = append(*bodies, string(body))
		whole := req.WithContext(req.Context())
		whole.Body = &sentAgain{bytes.NewReader(body), req.Body}
		return base.RoundTrip(whole)
	})
}

// sentAgain is what was read of a body, with that body's end.
type sentAgain struct {
	io.Reader
	io.Closer
}

// With 500 in the set, the idempotent methods are repeated and PATCH is
// not.
//
// Case C063.
func TestClassifyDoesNotMakeAMethodSafe(t *testing.T) {
	for method, want := range map[string]int{http.MethodPut: 2, http.MethodDelete: 2, http.MethodPatch: 1} {
		synctest.Test(t, func(t *testing.T) {
			s := serving(t, politetest.Respond(500), politetest.Respond(204))
			o := steadily(s.Transport())
			o.Classify = func(resp *http.Response, err error) polite.Verdict {
				v := polite.DefaultClassify(resp, err)
				v.Retry = v.Retry || v.Outcome == polite.Failed
				return v
			}
			resp, _ := do(t, polite.New(o), request(t, method, aCoffee, ""))
			assert.Equal(t, want, s.Requests(), method)
			assert.Equal(t, want, polite.Attempts(resp))
		})
	}
}

// One generated key per call, and none where the caller set one.
//
// Case C065.
func TestGeneratedKeyIsOfOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(503), politetest.Respond(200), politetest.Respond(503), politetest.Respond(200), politetest.Respond(503), politetest.Respond(200), politetest.Respond(200))
		o := steadily(s.Transport())
		o.Retry.GenerateKeys = true
		c := polite.New(o)
		do(t, c, request(t, http.MethodPost, aCoffee, "a"))
		do(t, c, request(t, http.MethodPost, aCoffee, "a"))
		do(t, c, request(t, http.MethodPost, aCoffee, "a", "Idempotency-Key", "mine"))
		do(t, c, request(t, http.MethodPut, aCoffee, "a"))
		var keys []string
		for _, a := range s.Arrivals() {
			keys = append(keys, a.IdempotencyKey)
		}
		require.Len(t, keys, 7)
		assert.Equal(t, keys[0], keys[1])
		assert.Equal(t, keys[2], keys[3])
		assert.NotEqual(t, keys[0], keys[2])
		assert.Len(t, keys[0], 26, "130 random bits in base 32")
		assert.Equal(t, []string{"mine", "mine", ""}, keys[4:])
	})
}

// The second DELETE finds nothing, and the caller can tell why.
//
// Case C067.
func TestRepeatedDeleteShowsItsAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Fail(politetest.ResetAfter), politetest.Respond(404))
		c := polite.New(steadily(s.Transport()))
		resp, _ := do(t, c, request(t, http.MethodDelete, aCoffee, ""))
		assert.Equal(t, 404, resp.StatusCode)
		assert.Equal(t, 2, polite.Attempts(resp))
		assert.Equal(t, 2, s.Requests())
		assert.Equal(t, 2, responseError(t, resp).Attempts)
		assert.Equal(t, polite.BreakerClosed, statsOf(t, c.Transport()).Breaker)
	})
}

// A delay in the verdict is obeyed whatever the outcome says of the server.
func TestVerdictWaitIsObeyed(t *testing.T) {
	for _, outcome := range []polite.Outcome{polite.OK, polite.Throttled, polite.Failed, polite.Ignored} {
		t.Run(outcome.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serving(t, politetest.Respond(202))
				o := steadily(s.Transport())
				o.Classify = func(resp *http.Response, err error) polite.Verdict {
					if resp != nil && resp.StatusCode == 202 {
						return polite.Verdict{Outcome: outcome, Retry: true, Wait: 5 * time.Second}
					}
					return polite.DefaultClassify(resp, err)
				}
				start := time.Now()
				do(t, polite.New(o), request(t, http.MethodGet, aCoffee, ""))
				at := arrivedAfter(s, start)
				require.Len(t, at, 2)
				assert.GreaterOrEqual(t, at[1], 5*time.Second)
				assert.LessOrEqual(t, at[1], 6*time.Second)
			})
		})
	}
}

// A delay that only the body tells reaches the classifier before the body
// is closed.
//
// Case C047.
func TestClassifyReadsTheDelayInTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bodies := &counting{base: serving(t, politetest.Respond(429).WithBody(`{"retry_after":2}`)).Transport()}
		o := steadily(bodies)
		o.Classify = func(resp *http.Response, err error) polite.Verdict {
			v := polite.DefaultClassify(resp, err)
			if v.Outcome == polite.Throttled && bytes.Contains(polite.PeekBody(resp, 1<<10), []byte(`"retry_after":2`)) {
				v.Wait = 2 * time.Second
			}
			return v
		}
		start := time.Now()
		resp, _ := do(t, polite.New(o), request(t, http.MethodGet, aCoffee, ""))
		assert.Equal(t, 200, resp.StatusCode)
		assert.GreaterOrEqual(t, time.Since(start), 2*time.Second)
		assert.LessOrEqual(t, time.Since(start), 2400*time.Millisecond)
		assert.Zero(t, bodies.open())
	})
}

// A 403 without any word about a limit is final.
//
// Case C137.
func TestForbiddenIsFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, reason := range []string{"rateLimitExceeded", "forbidden"} {
			s := serving(t, politetest.Respond(403).WithBody(`{"errors":[{"reason":"`+reason+`"}]}`))
			resp, body := do(t, polite.New(steadily(s.Transport())), request(t, http.MethodGet, aCoffee, ""))
			assert.Equal(t, 403, resp.StatusCode)
			assert.Contains(t, body, reason, "the body stays readable")
			assert.Equal(t, 1, s.Requests())
		}
	})
}

// What is a limit can be said by a classifier, and what is
// none as well.
//
// Cases C145, C149.
func TestClassifyDecidesWhatIsALimit(t *testing.T) {
	classify := func(resp *http.Response, err error) polite.Verdict {
		v := polite.DefaultClassify(resp, err)
		if err != nil {
			return v
		}
		switch body := string(polite.PeekBody(resp, 1<<10)); {
		case strings.Contains(body, "insufficient_quota"):
			v.Retry = false
		case strings.Contains(body, "rateLimitExceeded"), strings.Contains(body, "rate limit exceeded"):
			v = polite.Verdict{Outcome: polite.Throttled, Retry: true}
		}
		return v
	}
	for _, tc := range []struct {
		status int
		body   string
		want   int
	}{
		{403, "rateLimitExceeded", 2}, {403, "forbidden", 1}, {429, "insufficient_quota", 1}, {422, "API rate limit exceeded", 2}, {422, "invalid", 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := serving(t, politetest.Respond(tc.status).WithBody(tc.body))
			o := steadily(s.Transport())
			o.Classify = classify
			do(t, polite.New(o), request(t, http.MethodGet, aCoffee, ""))
			assert.Equal(t, tc.want, s.Requests(), tc.body)
		})
	}
}

// A token refreshed by the classifier's owner, with the body sent whole
// again.
//
// Case C199.
func TestRefreshedTokenIsSentWithTheWholeBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		token := "old"
		var bodies []string
		base := roundTripper(func(req *http.Request) (*http.Response, error) {
			req = req.Clone(req.Context())
			req.Header.Set("Authorization", "Bearer "+token)
			body, err := io.ReadAll(req.Body)
			require.NoError(t, err)
			require.NoError(t, req.Body.Close())
			bodies = append(bodies, string(body))
			if req.Header.Get("Authorization") != "Bearer new" {
				return answered(req, 401, ""), nil
			}
			return answered(req, 200, "done"), nil
		})
		o := steadily(base)
		o.Classify = func(resp *http.Response, err error) polite.Verdict {
			if resp != nil && resp.StatusCode == 401 && token == "old" {
				token = "new"
				return polite.Verdict{Outcome: polite.OK, Retry: true}
			}
			return polite.DefaultClassify(resp, err)
		}
		ctx := polite.WithOverrides(t.Context(), polite.Overrides{Idempotent: true})
		_, body := do(t, polite.New(o), request(t, http.MethodPatch, aCoffee, `{"a":1}`).WithContext(ctx))
		assert.Equal(t, "done", body)
		assert.Equal(t, []string{`{"a":1}`, `{"a":1}`}, bodies)
	})
}

// The base that signs sees each attempt, once the wait is over and with the
// attempt's own body: a server that refuses a spent token, an old stamp or a
// wrong digest is satisfied.
//
// Cases C201, C203.
func TestEveryAttemptIsSignedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const order = "the whole order"
		var tokens []string
		signer := func(base http.RoundTripper) http.RoundTripper {
			return roundTripper(func(req *http.Request) (*http.Response, error) {
				body, err := io.ReadAll(req.Body)
				require.NoError(t, err)
				require.NoError(t, req.Body.Close())
				tokens = append(tokens, fmt.Sprint("t", len(tokens)+1))
				signed := req.Clone(req.Context())
				signed.Header.Set("Authorization", tokens[len(tokens)-1])
				signed.Header.Set("Stamp", time.Now().Format(time.RFC3339))
				signed.Header.Set("Digest", string(body))
				return base.RoundTrip(signed)
			})
		}
		attempts := 0
		server := roundTripper(func(req *http.Request) (*http.Response, error) {
			attempts++
			stamp, err := time.Parse(time.RFC3339, req.Header.Get("Stamp"))
			require.NoError(t, err)
			switch {
			case time.Since(stamp) > 15*time.Minute || req.Header.Get("Digest") != order:
				return answered(req, 400, ""), nil
			case attempts == 1:
				return answered(req, 429, "", "Retry-After", "1200"), nil
			case attempts == 2:
				return answered(req, 503, ""), nil
			case req.Header.Get("Authorization") != "t3":
				return answered(req, 401, ""), nil
			}
			return answered(req, 200, ""), nil
		})
		o := steadily(signer(server))
		o.Retry.MaxWait, o.Retry.MaxElapsed, o.Limit.MaxWait = time.Hour, time.Hour, time.Hour
		resp, _ := do(t, polite.New(o), request(t, http.MethodPut, aCoffee, order))
		assert.Equal(t, 200, resp.StatusCode)
		assert.Equal(t, []string{"t1", "t2", "t3"}, tokens)
	})
}

// One call's exhaustion is its own.
//
// Case C205.
func TestExhaustedCallDoesNotEndOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(503).Times(4), politetest.Respond(503), politetest.Respond(200))
		o := steadily(s.Transport())
		o.Breaker.Disable = true
		c := polite.New(o)
		first, _ := do(t, c, request(t, http.MethodGet, aCoffee, ""))
		second, _ := do(t, c, request(t, http.MethodGet, aCoffee, ""))
		assert.Equal(t, 503, first.StatusCode)
		assert.Equal(t, 200, second.StatusCode)
		assert.Equal(t, 2, polite.Attempts(second))
	})
}

// A spent retry budget returns each call's own answer, and says that the
// refusal is the client's.
//
// Case C097.
func TestSpentBudgetReturnsTheOwnAnswerAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(503).Times(50))
		o := steadily(s.Transport())
		o.Breaker.Disable = true
		c := polite.New(o)
		var local atomic.Int64
		crowd(50, 50, func(int) {
			resp, err := c.Get(t.Context(), aCoffee)
			require.NoError(t, err)
			if resp.StatusCode == 503 {
				e := responseError(t, resp)
				assert.Equal(t, polite.ReasonBudget, e.Reason)
				assert.ErrorContains(t, e, "client's own retry budget")
				local.Add(1)
			}
			readBody(t, resp)
		})
		assert.EqualValues(t, 39, local.Load(), "ten in reserve, and one in ten seconds")
		assert.Equal(t, 61, s.Requests())
	})
}

// The budget also ends calls without an answer, by its own reason.
func TestSpentBudgetEndsLostCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := steadily(roundTripper(func(*http.Request) (*http.Response, error) { return nil, errLost }))
		o.Breaker.Disable = true
		c := polite.New(o)
		reasons := make(map[polite.Reason]int)
		for range 8 {
			_, err := c.Get(t.Context(), aCoffee)
			var e *polite.RetryError
			require.ErrorAs(t, err, &e)
			reasons[e.Reason]++
		}
		assert.Positive(t, reasons[polite.ReasonAttempts])
		assert.Positive(t, reasons[polite.ReasonBudget])
	})
}

// An instant that the server names costs no budget.
func TestServerGivenRetriesCostNoBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(503, "Retry-After", "1").Times(-1))
		o := steadily(s.Transport())
		o.Breaker.Disable = true
		c := polite.New(o)
		for range 30 {
			resp, _ := do(t, c, request(t, http.MethodGet, aCoffee, ""))
			assert.Equal(t, 4, polite.Attempts(resp))
		}
	})
}

// A veto of the server is final.
func TestServerCanForbidTheRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(503, "X-Should-Retry", "false"))
		resp, _ := do(t, polite.New(steadily(s.Transport())), request(t, http.MethodGet, aCoffee, ""))
		assert.Equal(t, 503, resp.StatusCode)
		assert.Equal(t, 1, s.Requests())
	})
}

// Disable is a single attempt, and no override undoes it.
func TestRetryDisabledIsASingleAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(503).Times(-1))
		o := steadily(s.Transport())
		o.Retry.Disable = true
		ctx := polite.WithOverrides(t.Context(), polite.Overrides{MaxAttempts: 9})
		resp, err := polite.New(o).Get(ctx, aCoffee)
		require.NoError(t, err)
		readBody(t, resp)
		assert.Equal(t, 1, s.Requests())
	})
}

// Inner overrides win over outer ones, field by field.
func TestOverridesAreJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(503).Times(-1))
		ctx := polite.WithOverrides(t.Context(), polite.Overrides{MaxAttempts: 2, Idempotent: true})
		ctx = polite.WithOverrides(ctx, polite.Overrides{MaxAttempts: 3})
		do(t, polite.New(steadily(s.Transport())), request(t, http.MethodPost, aCoffee, "x").WithContext(ctx))
		assert.Equal(t, 3, s.Requests())
	})
}

// Options are copied when the Transport is made.
func TestOptionsAreFrozen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(503).Times(-1))
		o := steadily(s.Transport())
		c := polite.New(o)
		o.Retry.MaxAttempts, o.Base = 1, nil
		do(t, c, request(t, http.MethodGet, aCoffee, ""))
		assert.Equal(t, 4, s.Requests())
	})
}

// The outcome of a caller's own end is neutral, whatever the error says: see
// TestCallersEndIsNeutral. What a classifier gets for an error is that error.
func TestClassifySeesTheErrorOfTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []error
		o := steadily(roundTripper(func(*http.Request) (*http.Response, error) { return nil, errLost }))
		o.Classify = func(resp *http.Response, err error) polite.Verdict {
			assert.Nil(t, resp)
			seen = append(seen, err)
			return polite.Verdict{Outcome: polite.Failed}
		}
		_, err := polite.New(o).Get(t.Context(), aCoffee)
		assert.ErrorIs(t, err, errLost)
		require.Len(t, seen, 1)
		assert.True(t, errors.Is(seen[0], errLost))
	})
}

// A Classify that calls a lost connection well makes it final, no success.
func TestErrorThatClassifyCallsWellIsFinal(t *testing.T) {
	o := steadily(serving(t, politetest.Fail(politetest.ResetAfter)).Transport())
	o.Classify = func(*http.Response, error) polite.Verdict { return polite.Verdict{} }
	_, err := polite.New(o).Get(t.Context(), aCoffee)
	var failed *polite.RetryError
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, polite.ReasonFinal, failed.Reason)
}

// The Outcome and Reason names are for people and logs.
func TestNamesOfOutcomesAndReasons(t *testing.T) {
	assert.Equal(t, "throttled", polite.Throttled.String())
	assert.Equal(t, "ok", polite.Outcome(-3).String())
	assert.Equal(t, "ignored", polite.Outcome(99).String())
	assert.Equal(t, "unknown", polite.Reason(0).String())
	assert.Equal(t, "unknown", polite.Reason(99).String())
	for r := polite.ReasonBackoff; r <= polite.ReasonCancelled; r++ {
		assert.NotEqual(t, "unknown", r.String())
	}
}

// The delay that Classify finds in a slow body, and the backoff after it, begin
// when that has been read.
func TestDelayBeginsWhenClassifyHasJudged(t *testing.T) {
	for _, asked := range []time.Duration{0, 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			var sent []time.Duration
			c := polite.New(&polite.Options{
				Base: roundTripper(func(req *http.Request) (*http.Response, error) {
					sent = append(sent, time.Since(start))
					if len(sent) > 1 {
						return answered(req, http.StatusOK, ""), nil
					}
					resp := answered(req, http.StatusServiceUnavailable, "")
					body, w := io.Pipe()
					time.AfterFunc(10*time.Second, func() { w.Close() })
					resp.Body = body
					return resp, nil
				}),
				Retry: polite.RetryOptions{Backoff: polite.Constant(3 * time.Second)},
				Classify: func(resp *http.Response, err error) polite.Verdict {
					v := polite.DefaultClassify(resp, err)
					if polite.PeekBody(resp, 100); v.Retry {
						v.Wait = asked
					}
					return v
				},
			})
			require.Equal(t, http.StatusOK, fetch(t.Context(), c, "http://api.test/"))
			require.Len(t, sent, 2)
			assert.GreaterOrEqual(t, sent[1], 13*time.Second)
		})
	}
}
