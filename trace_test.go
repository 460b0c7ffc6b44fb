package polite_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
)

// everything notes every event, in one line each.
func everything(lines *[]string, start time.Time) *polite.Trace {
	add := func(format string, args ...any) { *lines = append(*lines, fmt.Sprintf(format, args...)) }
	return &polite.Trace{
		Wait: func(e polite.WaitEvent) {
			add("wait %s before %d until %s", e.Reason, e.Attempt, e.Until.Sub(start))
		},
		Attempt: func(e polite.AttemptEvent) {
			add("attempt %d: %d %s in %s", e.Attempt, e.Status, e.Outcome, e.Duration)
		},
		Quota:   func(e polite.QuotaEvent) { add("quota %d of %d", e.Quota.Remaining, e.Quota.Limit) },
		Gate:    func(e polite.GateEvent) { add("gate %d until %s asked %t", e.Status, e.Until.Sub(start), e.Asked) },
		Breaker: func(e polite.BreakerEvent) { add("breaker %s to %s", e.From, e.To) },
		Stop:    func(e polite.StopEvent) { add("stop %s after %d: %d", e.Reason, e.Attempts, e.Status) },
	}
}

func TestTraceTellsWhatHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, politetest.Respond(503).After(100*time.Millisecond), politetest.Respond(429, "X-RateLimit-Limit", "60", "X-RateLimit-Remaining", "9"), politetest.Respond(404))
		var lines []string
		o := steadily(s.Transport())
		o.Trace = everything(&lines, time.Now())
		do(t, polite.New(o), request(t, http.MethodGet, aCoffee, ""))
		assert.Equal(t, []string{
			"attempt 1: 503 failed in 100ms",
			"wait backoff before 2 until 1.1s",
			"attempt 2: 429 throttled in 0s",
			"quota 9 of 60",
			"gate 429 until 3.1s asked false",
			"wait backoff before 3 until 3.1s",
			"attempt 3: 404 ok in 0s",
		}, lines)
	})
}

func TestTraceTellsWhyACallStops(t *testing.T) {
	for reason, tc := range map[polite.Reason]struct {
		reply  politetest.Reply
		method string
		change func(*polite.Options)
	}{
		polite.ReasonAttempts:      {politetest.Respond(503), http.MethodGet, func(o *polite.Options) { o.Retry.MaxAttempts = 2 }},
		polite.ReasonFinal:         {politetest.Respond(500), http.MethodGet, nil},
		polite.ReasonNotRepeatable: {politetest.Respond(503), http.MethodPost, nil},
		polite.ReasonMaxWait:       {politetest.Respond(503, "Retry-After", "61"), http.MethodGet, nil},
		polite.ReasonTime: {politetest.Respond(503, "Retry-After", "61"), http.MethodGet, func(o *polite.Options) {
			o.Retry.MaxElapsed = time.Minute
		}},
		polite.ReasonBreaker: {politetest.Respond(503), http.MethodGet, func(o *polite.Options) { o.Breaker.Failures = 1 }},
	} {
		t.Run(reason.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var stops []polite.StopEvent
				s := serving(t, tc.reply.Times(-1))
				o := steadily(s.Transport())
				if tc.change != nil {
					tc.change(o)
				}
				ctx := polite.WithTrace(t.Context(), &polite.Trace{Stop: func(e polite.StopEvent) { stops = append(stops, e) }})
				resp, _ := do(t, polite.New(o), request(t, tc.method, aCoffee, "").WithContext(ctx))
				if assert.Len(t, stops, 1) {
					assert.Equal(t, reason, stops[0].Reason)
					assert.Equal(t, s.Requests(), stops[0].Attempts)
					assert.Equal(t, resp.StatusCode, stops[0].Status)
					assert.Equal(t, polite.Request{Method: tc.method, Host: "http://api.test", Path: "/v1/cafes/caf_00001"}, stops[0].Request)
				}
			})
		})
	}
}

// A call that ends before its first attempt is told of too.
func TestTraceTellsOfCallsThatNeverBegan(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	coffee := polite.Request{Method: http.MethodGet, Host: "http://api.test", Path: "/v1/cafes/caf_00001"}
	for name, tc := range map[string]struct {
		req  *http.Request
		want polite.StopEvent
	}{
		"cancelled":     {request(t, http.MethodGet, aCoffee, "").WithContext(cancelled), polite.StopEvent{Request: coffee, Reason: polite.ReasonCancelled}},
		"without a URL": {&http.Request{}, polite.StopEvent{Request: polite.Request{Method: http.MethodGet}, Reason: polite.ReasonFinal}},
		"too late":      {request(t, http.MethodGet, aCoffee, "").WithContext(late), polite.StopEvent{Request: coffee, Reason: polite.ReasonTime}},
	} {
		t.Run(name, func(t *testing.T) {
			var stops []polite.StopEvent
			o := steadily(serving(t).Transport())
			o.Trace = &polite.Trace{Stop: func(e polite.StopEvent) { stops = append(stops, e) }}
			_, err := polite.NewTransport(o).RoundTrip(tc.req)
			tc.want.Err = err
			assert.Error(t, err)
			assert.Equal(t, []polite.StopEvent{tc.want}, stops)
		})
	}
}

// A caller that cancels has not run out of time.
func TestCancelledCallIsToldAsCancelled(t *testing.T) {
	for name, pause := range map[string]time.Duration{"in its first attempt": time.Second, "waiting for the second": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var stops []polite.StopEvent
				o := steadily(serving(t, politetest.Respond(503, "Retry-After", "30").After(2*time.Second)).Transport())
				o.Trace = &polite.Trace{Stop: func(e polite.StopEvent) { stops = append(stops, e) }}
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(pause, cancel)
				_, err := polite.New(o).Get(ctx, aCoffee)
				require.ErrorIs(t, err, context.Canceled)
				require.Len(t, stops, 1)
				assert.Equal(t, polite.ReasonCancelled, stops[0].Reason)
			})
		})
	}
}

// All traces of a call see it: the Transport's, the context's and an outer
// one's, and any function may be missing.
func TestTracesAreJoined(t *testing.T) {
	var seen []string
	trace := func(name string) *polite.Trace {
		return &polite.Trace{Attempt: func(polite.AttemptEvent) { seen = append(seen, name) }}
	}
	ctx := polite.WithTrace(t.Context(), trace("outer"))
	ctx = polite.WithTrace(ctx, nil)
	ctx = polite.WithTrace(ctx, &polite.Trace{})
	ctx = polite.WithTrace(ctx, trace("inner"))
	c := polite.New(&polite.Options{Base: serving(t).Transport(), Trace: trace("options")})
	do(t, c, request(t, http.MethodGet, aCoffee, "").WithContext(ctx))
	assert.Equal(t, []string{"inner", "outer", "options"}, seen)
}
