package polite_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
)

// What single servers refuse with instead of 429 is waited for as the headers
// say, at these servers only.
func TestRefusalsThatAreNot429AreWaitedForWhereTheyAreOnes(t *testing.T) {
	for _, tc := range []struct {
		host    string
		status  int
		headers []string
		wait    time.Duration
		local   bool // elsewhere the same answer is final
	}{
		{"api.binance.com", 418, []string{"Retry-After", "7"}, 7 * time.Second, true},
		{"shop.myshopify.com", 430, nil, time.Second, true},
		{"api.anthropic.com", 529, nil, time.Second, true},
		{"api.notion.com", 529, []string{"Retry-After", "12"}, 12 * time.Second, true},
		{"api.hubapi.com", 477, []string{"Retry-After", "3"}, 3 * time.Second, true},
		{"api.dropboxapi.com", 409, []string{"Retry-After", "5"}, 5 * time.Second, true},
		{"api.linear.app", 400, []string{"X-RateLimit-Requests-Remaining", "0", "X-RateLimit-Requests-Reset", "20"}, 20 * time.Second, true},
		{"open.feishu.cn", 400, []string{"X-Ogw-RateLimit-Reset", "2.5"}, 2500 * time.Millisecond, true},
		{"api.test", 403, []string{"Retry-After", "9"}, 9 * time.Second, false},
		{"api.test", 403, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "30"}, 30 * time.Second, false},
		{"api.test", 400, []string{"X-Amzn-Errortype", "ThrottlingException"}, time.Second, false},
		{"api.test", 200, []string{"MediaWiki-API-Error", "ratelimited", "Retry-After", "4"}, 4 * time.Second, false},
	} {
		t.Run(fmt.Sprint(tc.host, tc.status, tc.headers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				call := func(host string) (status, requests int, took time.Duration) {
					client := polite.New(steadily(roundTripper(func(req *http.Request) (*http.Response, error) {
						if requests++; requests == 1 {
							return answered(req, tc.status, "", tc.headers...), nil
						}
						return answered(req, http.StatusNoContent, ""), nil
					})))
					start := time.Now()
					status = fetch(t.Context(), client, "http://"+host+"/")
					return status, requests, time.Since(start)
				}
				status, requests, took := call(tc.host)
				assert.Equal(t, http.StatusNoContent, status)
				assert.Equal(t, 2, requests)
				assertWait(t, tc.wait, time.Second, took, tc.host)
				if tc.local {
					status, requests, took = call(tc.host + ".test")
					assert.Equal(t, tc.status, status)
					assert.Equal(t, 1, requests)
					assert.Zero(t, took)
				}
			})
		})
	}
}

// A quota of the day that is used up is not waited for inside a call. The answer
// tells when it ends, and until then nobody asks again.
//
// Case C147.
func TestUsedUpQuotaComesBackAtOnceAndIsNotAskedForAgain(t *testing.T) {
	for _, status := range []int{http.StatusPaymentRequired, http.StatusTooManyRequests} {
		synctest.Test(t, func(t *testing.T) {
			server := politetest.Must(t, politetest.Config{Policies: []politetest.Policy{
				{Name: "day", Hidden: true, Status: status, Limit: politetest.Limit{Algorithm: politetest.FixedWindow, N: 1, Per: 24 * time.Hour}},
				{Name: "minute", Limit: politetest.Limit{N: 60, Per: time.Minute}},
			}})
			client := polite.New(steadily(server.Transport()))
			start := time.Now()
			require.Equal(t, http.StatusOK, fetch(t.Context(), client, aCoffee))
			resp, _ := do(t, client, request(t, http.MethodGet, aCoffee, ""))
			require.Equal(t, status, resp.StatusCode)
			assert.Equal(t, 24*time.Hour, responseError(t, resp).RetryAfter)
			_, err := client.Get(t.Context(), aCoffee)
			var wait *polite.WaitError
			require.ErrorAs(t, err, &wait)
			assert.False(t, wait.Until.Before(start.Add(24*time.Hour)))
			assert.Zero(t, time.Since(start))
			assert.Equal(t, 2, server.Requests())
		})
	}
}

// A 402 is never repeated, not even when its end is near: it is for the caller to
// see. Others wait for the end.
func TestUsedUpQuotaIsNotRepeatedBeforeANearEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var arrivals []time.Duration
		start := time.Now()
		client := polite.New(steadily(roundTripper(func(req *http.Request) (*http.Response, error) {
			if arrivals = append(arrivals, time.Since(start)); len(arrivals) == 1 {
				return answered(req, http.StatusPaymentRequired, "", "Retry-After", "9"), nil
			}
			return answered(req, http.StatusNoContent, ""), nil
		})))
		assert.Equal(t, http.StatusPaymentRequired, fetch(t.Context(), client, aCoffee))
		assert.Zero(t, time.Since(start))
		assert.Equal(t, http.StatusNoContent, fetch(t.Context(), client, aCoffee))
		require.Len(t, arrivals, 2)
		assert.GreaterOrEqual(t, arrivals[1], 9*time.Second)
	})
}

// Tokens, points and percentages say nothing about how many requests may follow:
// none of them stops or slows one. What was refused for the want of them waits.
func TestQuotasThatDoNotCountRequestsHoldBackNone(t *testing.T) {
	for name, headers := range map[string][]string{
		"tokens": {"X-RateLimit-Limit-Requests", "60", "X-RateLimit-Remaining-Requests", "59", "X-RateLimit-Reset-Requests", "1s",
			"X-RateLimit-Limit-Tokens", "1000", "X-RateLimit-Remaining-Tokens", "0", "X-RateLimit-Reset-Tokens", "30s"},
		"few tokens": {"X-RateLimit-Limit-Tokens", "1000", "X-RateLimit-Remaining-Tokens", "3", "X-RateLimit-Reset-Tokens", "30s"},
		"points":     {"X-RateLimit-Resource", "graphql", "X-RateLimit-Limit", "5000", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "30"},
		"bytes":      {"RateLimit", `"b";r=0;t=30`, "RateLimit-Policy", `"b";q=1000;w=60;qu="content-bytes"`},
		"percent":    {"X-App-Usage", `{"call_count":100}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n atomic.Int64
				client := polite.New(steadily(roundTripper(func(req *http.Request) (*http.Response, error) {
					if n.Add(1) == 20 {
						return answered(req, http.StatusTooManyRequests, "", append(headers, "Retry-After", "30")...), nil
					}
					return answered(req, http.StatusOK, "", headers...), nil
				})))
				start := time.Now()
				crowd(4, 19, func(int) { assert.Equal(t, http.StatusOK, fetch(t.Context(), client, aCoffee)) })
				assert.Zero(t, time.Since(start))
				assert.Equal(t, http.StatusOK, fetch(t.Context(), client, aCoffee))
				assert.GreaterOrEqual(t, time.Since(start), 30*time.Second)
			})
		})
	}
}

// Two windows at once: ten in ten seconds and forty in five minutes. Both hold at
// any time, and no call waits for longer than the one that is used up asks.
func TestAllWindowsOfOneAnswerHold(t *testing.T) {
	for _, algorithm := range []politetest.Algorithm{politetest.FixedWindow, politetest.SlidingLog} {
		t.Run(algorithm.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := politetest.Must(t, politetest.Config{Latency: roundTime, Dialects: []politetest.Dialect{politetest.Draft8}, Policies: []politetest.Policy{
					{Name: "short", Limit: politetest.Limit{Algorithm: algorithm, N: 10, Per: 10 * time.Second}},
					{Name: "long", Limit: politetest.Limit{Algorithm: algorithm, N: 40, Per: 5 * time.Minute}},
				}})
				client := patient(server.Transport(), -1)
				took := crowd(16, 100, func(int) {
					assert.Equal(t, http.StatusOK, fetch(t.Context(), client, coffees))
				})
				assert.Zero(t, server.Refusals())
				ideal := 10*time.Minute + 10*time.Second // two long windows, and a short one of the third
				assert.GreaterOrEqual(t, took, ideal-time.Second)
				assert.LessOrEqual(t, took, ideal+ideal/20)
			})
		})
	}
}
