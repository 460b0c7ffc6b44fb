package polite_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
)

// What a classifier takes for a refusal is one in every respect: the headers of
// a 422 or of a success say how long to wait, and what was peeked at is there to
// be read.
//
// Cases C141, C149.
func TestRefusalByClassifyObeysTheHeaders(t *testing.T) {
	refusals := func(resp *http.Response, err error) polite.Verdict {
		if err == nil && strings.Contains(string(polite.PeekBody(resp, 64)), "RATE_LIMITED") {
			return polite.Verdict{Outcome: polite.Throttled, Retry: true}
		}
		return polite.DefaultClassify(resp, err)
	}
	exhausted := []string{"X-RateLimit-Limit", "100", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "5"}
	for _, tc := range []struct {
		status  int
		headers []string
		want    time.Duration
	}{
		{200, exhausted, 5 * time.Second}, {422, exhausted, 5 * time.Second},
		{422, []string{"Retry-After", "7"}, 7 * time.Second}, {200, []string{"Retry-After-Ms", "7500"}, 7500 * time.Millisecond},
		{422, []string{"X-Come-Back-At", "7"}, 7 * time.Second}, // of a row of the caller's
		{422, nil, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			const data = `{"data":"` + "long beyond what is looked at, long beyond what is looked at" + `"}`
			s := serving(t, politetest.Respond(tc.status, tc.headers...).WithBody(`{"errors":[{"type":"RATE_LIMITED"}]}`), politetest.Respond(200).WithBody(data))
			o := steadily(s.Transport())
			o.Classify = refusals
			o.Dialects = []polite.Dialect{{Retry: "X-Come-Back-At"}}
			start := time.Now()
			resp, body := do(t, polite.New(o), request(t, http.MethodGet, aCoffee, ""))
			assert.Equal(t, 200, resp.StatusCode)
			assert.Equal(t, data, body)
			at := arrivedAfter(s, start)
			require.Len(t, at, 2)
			assertWait(t, tc.want, time.Second, at[1], fmt.Sprint(tc))
		})
	}
}

// A repetition that Classify asks for keeps to the server's hint too, whatever
// the status: a 202 that says when to ask again, a 409 that says when it is over.
//
// Case C149.
func TestRepetitionByClassifyKeepsToTheHint(t *testing.T) {
	for _, status := range []int{202, 404, 409, 500} {
		synctest.Test(t, func(t *testing.T) {
			o := steadily(nil)
			o.Classify = func(resp *http.Response, err error) polite.Verdict {
				v := polite.DefaultClassify(resp, err)
				v.Retry = v.Retry || resp.StatusCode == status
				return v
			}
			assertWait(t, 3*time.Second, 0, waitedFor(t, o, status, "Retry-After", "3"), strconv.Itoa(status))
		})
	}
}
