package polite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
)

const s3cret = "s3cr3t"

// laden is a request with a secret wherever one can be.
func laden(t *testing.T, method string) *http.Request {
	req := request(t, method, "http://ona:"+s3cret+"@api.test/v1/cafes?token="+s3cret+"&cursor="+s3cret+"#"+s3cret, "body "+s3cret)
	for _, name := range append(credentials, "Idempotency-Key", "X-Other", "User-Agent", "Referer") {
		req.Header.Set(name, "Bearer "+s3cret)
	}
	return req
}

// eavesdropper writes down all that a Trace is told, and all that SlogTrace logs.
type eavesdropper struct {
	mu   sync.Mutex
	text bytes.Buffer
	seen map[string]int // events by type
}

func (w *eavesdropper) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func note[E any](w *eavesdropper) func(E) {
	return func(e E) {
		fmt.Fprintf(w, "%T %+v %#v\n", e, e, e)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.seen[fmt.Sprintf("%T", e)]++
	}
}

func (w *eavesdropper) trace() *polite.Trace {
	return &polite.Trace{
		Wait: note[polite.WaitEvent](w), Attempt: note[polite.AttemptEvent](w), Quota: note[polite.QuotaEvent](w), Gate: note[polite.GateEvent](w),
		Breaker: note[polite.BreakerEvent](w), Stop: note[polite.StopEvent](w), Diagnosis: note[polite.DiagnosisEvent](w),
	}
}

// No secret of a request in the text or the chain of any error, in any event, in
// any line of the log, or in a host's name, whichever way the call ends.
func TestNoErrorEventOrLineHoldsASecret(t *testing.T) {
	now := func(*polite.Options) {}
	for name, tc := range map[string]struct {
		reply  politetest.Reply
		set    func(*polite.Options)
		method string
		as     any
	}{
		"attempts used up": {politetest.Respond(503), now, http.MethodPut, new(*polite.ResponseError)},
		"not repeatable":   {politetest.Respond(503), now, http.MethodPatch, new(*polite.ResponseError)},
		"delay too long":   {politetest.Respond(429, "Retry-After", "999"), now, http.MethodPut, new(*polite.WaitError)},
		"quota exhausted":  {politetest.Respond(200, "X-RateLimit-Limit", "9", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "999"), now, http.MethodPut, new(*polite.WaitError)},
		"own rate":         {politetest.Respond(200), func(o *polite.Options) { o.Limit.Rates = []polite.Rate{{N: 1, Per: time.Hour}} }, http.MethodPut, new(*polite.WaitError)},
		"cost never fits": {politetest.Respond(200), func(o *polite.Options) {
			o.Limit.Rates = []polite.Rate{{N: 1, Per: time.Hour}}
			o.Cost = func(*http.Request) int { return 5 }
		}, http.MethodPut, new(*polite.WaitError)},
		"breaker":           {politetest.Respond(503), func(o *polite.Options) { o.Breaker.Failures = 1 }, http.MethodPut, new(*polite.CircuitOpenError)},
		"lost":              {politetest.Fail(politetest.ResetAfter), now, http.MethodPut, new(*polite.RetryError)},
		"lost for good":     {politetest.Fail(politetest.ResetAfter), now, http.MethodPatch, new(*polite.RetryError)},
		"refused":           {politetest.Fail(politetest.Refuse), now, http.MethodPatch, new(*polite.RetryError)},
		"stalled":           {politetest.Fail(politetest.StallHeaders), now, http.MethodPut, new(*polite.AttemptTimeoutError)},
		"cannot be decoded": {politetest.Respond(200).WithBody("<html>"), now, http.MethodPut, new(*polite.RetryError)},
		"diagnosis":         {politetest.Respond(429, "X-RateLimit-Limit", "9", "X-RateLimit-Remaining", "5", "X-RateLimit-Reset", "7"), func(o *polite.Options) { o.ExpectedLimit = 1000 }, http.MethodPut, new(*polite.ResponseError)},
		"quota key": {politetest.Respond(429, "Retry-After", "1"), func(o *polite.Options) {
			o.QuotaKey = func(req *http.Request) string { return req.Header.Get("Authorization") }
		}, http.MethodPut, new(*polite.ResponseError)},
		"keys of ours":        {politetest.Respond(503), func(o *polite.Options) { o.Retry.GenerateKeys = true }, http.MethodPost, new(*polite.ResponseError)},
		"unreadable redirect": {politetest.Respond(302, "Location", "http://b.test/%zz?token="+s3cret), now, http.MethodGet, nil},
		"redirect":            {politetest.Respond(302, "Location", "http://ona:"+s3cret+"@api.test/x?token="+s3cret), now, http.MethodGet, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &eavesdropper{seen: make(map[string]int)}
				o := steadily(serving(t, tc.reply.Times(-1)).Transport())
				o.Trace = polite.SlogTrace(slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug - 4})))
				tc.set(o)
				c := polite.New(o)
				ctx, cancel := context.WithTimeout(polite.WithTrace(t.Context(), w.trace()), 3*time.Minute)
				defer cancel()
				var all []error
				for range 3 {
					var ignored []int
					resp, err := c.Fetch(laden(t, tc.method).WithContext(ctx), polite.JSON(&ignored))
					all = append(all, err, readable(resp))
					resp, err = c.Do(laden(t, tc.method).WithContext(ctx))
					all = append(all, err, readable(resp))
				}
				err := errors.Join(all...)
				require.Error(t, err)
				if tc.as != nil {
					assert.ErrorAs(t, err, tc.as)
				}
				assertChainWithout(t, err, s3cret)
				assert.NotContains(t, fmt.Sprintf("%+v %#v", err, err), s3cret)
				assert.NotContains(t, w.text.String(), s3cret)
				assert.NotEmpty(t, w.seen)
				for host, stats := range c.Transport().Hosts() {
					assert.NotContains(t, host+fmt.Sprintf("%+v", stats), s3cret)
				}
			})
		})
	}
}

// readable is what CheckResponse says about a response, if there is one.
func readable(resp *http.Response) error {
	if resp == nil {
		return nil
	}
	defer resp.Body.Close()
	return polite.CheckResponse(resp)
}

// The path is shown, in errors and in events, and is no place for a secret.
func TestPathIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &eavesdropper{seen: make(map[string]int)}
		ctx := polite.WithTrace(t.Context(), w.trace())
		resp, err := polite.New(steadily(serving(t, politetest.Respond(404)).Transport())).Get(ctx, "http://api.test/bot1234/send")
		require.NoError(t, err)
		assert.ErrorContains(t, readable(resp), "/bot1234/send")
		assert.Contains(t, w.text.String(), "/bot1234/send")
	})
}

// Nor does the error of a walk or its checkpoint hold one, wherever it ends.
func TestNoPageErrorOrCheckpointHoldsASecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const url = "http://ona:" + s3cret + "@api.test/v1?token=" + s3cret
		next := "http://api.test/v1?token=" + s3cret + "&page=2" // as servers repeat the query
		for name, s := range map[string]*pageServer{
			"status":  script(reply{body: page([]int{1}, 3, next)}, reply{status: 401, body: "no"}),
			"body":    script(reply{body: page([]int{1}, 3, next)}, reply{body: "<html>"}),
			"refused": script(reply{body: page([]int{1}, 3, "http://evil.test/?token="+s3cret)}),
			"circle":  script(reply{body: page([]int{1}, 3, "?token="+s3cret)}),
			"delay":   script(reply{body: page([]int{1}, 3, next)}, reply{status: 503}, reply{status: 503}, reply{status: 503}),
		} {
			for _, scheme := range []polite.Scheme{polite.LinkPages{URL: url}, polite.OffsetPages{URL: url}, polite.NumberedPages{URL: url}} {
				s.requests = nil
				p := pagerOf(s, scheme)
				p.Header = http.Header{"X-Api-Key": {s3cret}}
				_, err := collect(p)
				require.Error(t, err, name)
				assertChainWithout(t, err, s3cret)
				checkpoint := stop(t, err).Checkpoint
				assert.NotContains(t, decodedCheckpoint(t, checkpoint), s3cret, name)
				assert.NotContains(t, checkpoint, s3cret)
			}
		}
	})
}

// Nothing of one caller's request reaches another one: not through the breaker
// that it opened, not through the gate that it closed, not through the line.
func TestOtherCallersStayUnknown(t *testing.T) {
	for name, reply := range map[string]politetest.Reply{
		"breaker": politetest.Fail(politetest.ResetAfter), "gate": politetest.Respond(429, "Retry-After", "100").WithBody(`{"code":"` + s3cret + `","message":"` + s3cret + `"}`),
		"failure": politetest.Respond(503, "Retry-After", "100", "Aroma-Traca-Id", s3cret),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := steadily(serving(t, reply.Times(-1)).Transport())
				o.Breaker.Failures = 1
				o.Limit.MaxWait = time.Second
				w := &eavesdropper{seen: make(map[string]int)}
				c := polite.New(o)
				resp, err := c.Do(laden(t, http.MethodPut))
				if err == nil {
					resp.Body.Close()
				}
				_, err = c.Get(polite.WithTrace(t.Context(), w.trace()), "http://api.test/mine")
				require.Error(t, err)
				assertChainWithout(t, err, s3cret)
				assert.NotContains(t, err.Error(), "cafes")
				assert.NotContains(t, w.text.String(), s3cret)
				assert.NotContains(t, w.text.String(), "cafes")
				assert.True(t, strings.Contains(err.Error(), "api.test"))
			})
		})
	}
}
