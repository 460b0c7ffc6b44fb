package polite_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
)

// on is a profile over a base.
func on(o *polite.Options, base http.RoundTripper) *polite.Client {
	o.Base = base
	return polite.New(o)
}

// SmartBill

func TestSmartBillIsNeverBannedByManyGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := politetest.Must(t, politetest.SmartBill(true))
		client := on(polite.SmartBill(), server.Transport())
		took := crowd(16, 100, func(int) {
			assert.Equal(t, http.StatusOK, fetch(t.Context(), client, aCoffee))
		})
		assert.Zero(t, server.Refusals())
		assert.InDelta(t, 99/3.0, took.Seconds(), 1e-6)
	})
}

func TestSmartBillWaitsAMinuteAfter403AndRepeatsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serving(t, politetest.Respond(403))
		start := time.Now()
		resp, _ := do(t, on(polite.SmartBill(), server.Transport()), request(t, http.MethodGet, aCoffee, ""))
		assert.Equal(t, http.StatusOK, resp.StatusCode)
		at := arrivedAfter(server, start)
		require.Len(t, at, 2)
		assert.GreaterOrEqual(t, at[1], time.Minute)
		assert.LessOrEqual(t, at[1], 72*time.Second, "a fifth more at most")
	})
}

func TestSmartBillHoldsEverybodyForTheSameMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serving(t, politetest.Respond(403))
		client := on(polite.SmartBill(), server.Transport())
		start := time.Now()
		crowd(10, 10, func(int) {
			assert.Equal(t, http.StatusOK, fetch(t.Context(), client, aCoffee))
		})
		for _, at := range arrivedAfter(server, start)[1:] {
			assert.GreaterOrEqual(t, at, time.Minute)
			assert.LessOrEqual(t, at, 72*time.Second+4*time.Second)
		}
	})
}

func TestSmartBillHandsASecond403ToTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serving(t, politetest.Respond(403).Times(-1))
		start := time.Now()
		resp, _ := do(t, on(polite.SmartBill(), server.Transport()), request(t, http.MethodGet, aCoffee, ""))
		assert.Equal(t, http.StatusForbidden, resp.StatusCode)
		assert.Equal(t, 2, polite.Attempts(resp))
		assert.GreaterOrEqual(t, time.Since(start), time.Minute)
		assert.LessOrEqual(t, time.Since(start), 72*time.Second)
	})
}

// The ban begins anew with every request during it. A client that knocks is
// never let in again; this one is, ten minutes after its only retry.
func TestSmartBillDoesNotExtendABan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := politetest.Must(t, politetest.SmartBill(true))
		stranger := &http.Client{Transport: server.Transport()}
		for range 4 { // on the same account
			resp, err := stranger.Get(aCoffee)
			require.NoError(t, err)
			readBody(t, resp)
		}
		require.Equal(t, 1, server.Refusals())
		client := on(polite.SmartBill(), server.Transport())

		start := time.Now()
		assert.Equal(t, http.StatusForbidden, fetch(t.Context(), client, aCoffee))
		retried := arrivedAfter(server, start)[5]
		until := start.Add(retried + 10*time.Minute)
		for range 20 {
			_, err := client.Get(t.Context(), aCoffee)
			var wait *polite.WaitError
			if assert.ErrorAs(t, err, &wait) {
				assert.Equal(t, until, wait.Until)
			}
			time.Sleep(20 * time.Second)
		}
		time.Sleep(time.Until(until))
		assert.Equal(t, http.StatusOK, fetch(t.Context(), client, aCoffee))
		assert.Equal(t, []time.Duration{0, 0, 0, 0, 0, retried, until.Sub(start)}, arrivedAfter(server, start))
	})
}

func TestSmartBillHandsEveryOtherErrorStraightToTheCaller(t *testing.T) {
	for _, status := range []int{400, 401, 404, 408, 422, 429, 500, 502, 503, 504} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := serving(t, politetest.Respond(status).Times(-1))
				start := time.Now()
				resp, _ := do(t, on(polite.SmartBill(), server.Transport()), request(t, http.MethodGet, aCoffee, ""))
				assert.Equal(t, status, resp.StatusCode)
				assert.Equal(t, 1, server.Requests())
				assert.Zero(t, time.Since(start))
			})
		})
	}
}

func TestSmartBillDoesNotRepeatAfterFailedConnections(t *testing.T) {
	for _, fault := range []politetest.Fault{politetest.Refuse, politetest.ResetBefore, politetest.ResetAfter} {
		t.Run(fault.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := serving(t, politetest.Fail(fault))
				start := time.Now()
				_, err := on(polite.SmartBill(), server.Transport()).Get(t.Context(), aCoffee)
				var failed *polite.RetryError
				require.ErrorAs(t, err, &failed)
				assert.Equal(t, 1, failed.Attempts)
				assert.Zero(t, time.Since(start))
			})
		})
	}
}

// PromoAzi

// costly is what the simulated server takes as such.
func costly(r *http.Request) bool { return r.URL.Query().Has("q") }

func TestPromoAziIsNeverRefusedInEitherWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := politetest.Must(t, politetest.PromoAzi())
		o := polite.PromoAzi(costly)
		o.Limit.MaxWait = time.Hour
		client := on(o, server.Transport())
		start := time.Now()
		crowd(16, 2400, func(int) {
			if s := fetch(t.Context(), client, aCoffee); time.Since(start) < time.Hour {
				assert.Equal(t, http.StatusOK, s)
			}
		})
		assert.Zero(t, server.Refusals())
		assert.LessOrEqual(t, most(server, time.Minute), 120)
		assert.LessOrEqual(t, most(server, time.Hour), 2000)
	})
}

func TestPromoAziKeepsCostlyRequestsToTheirOwnWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := politetest.Must(t, politetest.PromoAzi())
		o := polite.PromoAzi(costly)
		o.Limit.MaxWait, o.Retry.MaxElapsed = 3*time.Hour, 3*time.Hour
		client := on(o, server.Transport())
		crowd(8, 400, func(int) {
			assert.Equal(t, http.StatusOK, fetch(t.Context(), client, coffees+"&q=x"))
		})
		assert.Zero(t, server.Refusals())
		assert.LessOrEqual(t, most(server, time.Minute), 30)
		assert.LessOrEqual(t, most(server, time.Hour), 300)
	})
}

func TestPromoAziCountsCostlyRequestsInAllWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serving(t)
		client := on(polite.PromoAzi(costly), server.Transport())
		crowd(16, 240, func(i int) {
			url := coffees
			if i%10 == 0 {
				url += "&q=x"
			}
			fetch(t.Context(), client, url)
		})
		assert.LessOrEqual(t, most(server, time.Minute), 120)
	})
}

func TestPromoAziDoesNotHoldCheapRequestsBehindCostlyOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serving(t)
		client := on(polite.PromoAzi(costly), server.Transport())
		for range 5 { // all that may leave at once
			fetch(t.Context(), client, coffees+"&q=x")
		}
		start := time.Now()
		fetch(t.Context(), client, coffees)
		assert.Zero(t, time.Since(start))
		fetch(t.Context(), client, coffees+"&q=x")
		assert.Positive(t, time.Since(start))
	})
}

func TestPromoAziWithoutAFunctionKnowsNoCostlyRequests(t *testing.T) {
	assert.Empty(t, polite.PromoAzi(nil).QuotaKey(request(t, http.MethodGet, coffees+"&q=x", "")))
}

// most is the largest number of requests in any interval of this length.
func most(s *politetest.Server, length time.Duration) (n int) {
	arrivals := s.Arrivals()
	first := 0
	for i, a := range arrivals {
		for a.At.Sub(arrivals[first].At) >= length {
			first++
		}
		n = max(n, i-first+1)
	}
	return n
}

// GitHub

func TestGitHubIsNotRefusedWithinItsLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := politetest.Must(t, politetest.GitHub())
		client := on(polite.GitHub(), server.Transport())
		crowd(32, 3000, func(int) { fetch(t.Context(), client, aCoffee) })
		assert.Zero(t, server.Refusals())
		assert.Equal(t, 3000, server.Requests())
	})
}

func TestGitHubWaitsForThePrimaryLimitsReset(t *testing.T) {
	for _, status := range []int{403, 429} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reset := time.Now().Add(90 * time.Second)
				server := serving(t, politetest.Respond(status, "X-RateLimit-Limit", "5000", "X-RateLimit-Remaining", "0",
					"X-RateLimit-Reset", fmt.Sprint(reset.Unix())).WithBody(`{"message":"API rate limit exceeded"}`))
				resp, _ := do(t, on(polite.GitHub(), server.Transport()), request(t, http.MethodGet, aCoffee, ""))
				assert.Equal(t, http.StatusOK, resp.StatusCode)
				assert.False(t, server.Arrivals()[1].At.Before(reset))
			})
		})
	}
}

func TestGitHubReturnsAtOnceWhenThePrimaryLimitIsFarFromItsReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		server := serving(t, politetest.Respond(403, "X-RateLimit-Limit", "5000", "X-RateLimit-Remaining", "0",
			"X-RateLimit-Reset", fmt.Sprint(start.Add(50*time.Minute).Unix())))
		resp, _ := do(t, on(polite.GitHub(), server.Transport()), request(t, http.MethodGet, aCoffee, ""))
		assert.Zero(t, time.Since(start))
		assert.GreaterOrEqual(t, responseError(t, resp).RetryAfter, 50*time.Minute)
	})
}

// secondary is the refusal of a secondary limit: the quota has enough left.
func secondary(reset time.Duration) politetest.Reply {
	return politetest.Respond(403, "X-RateLimit-Limit", "30", "X-RateLimit-Remaining", "20",
		"X-RateLimit-Reset", fmt.Sprint(time.Now().Add(reset).Unix())).
		WithBody(`{"message":"You have exceeded a secondary rate limit."}`)
}

// Case C139.
func TestGitHubWaitsAMinuteThenTwoAfterASecondaryLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serving(t, secondary(30*time.Minute).Times(2))
		start := time.Now()
		resp, _ := do(t, on(polite.GitHub(), server.Transport()), request(t, http.MethodGet, aCoffee, ""))
		assert.Equal(t, http.StatusOK, resp.StatusCode)
		at := arrivedAfter(server, start)
		require.Len(t, at, 3)
		assert.GreaterOrEqual(t, at[1], time.Minute)
		assert.LessOrEqual(t, at[1], 72*time.Second)
		assert.GreaterOrEqual(t, at[2]-at[1], 2*time.Minute)
		assert.LessOrEqual(t, at[2]-at[1], 144*time.Second)
	})
}

// A secondary limit is the account's, and not the search's that met it.
func TestGitHubStopsEverybodyAfterASecondaryLimit(t *testing.T) {
	for _, first := range []string{"http://api.test/search/issues?q=x", "http://api.test/repos/o/r"} {
		for _, second := range []string{"http://api.test/search/code?q=x", "http://api.test/repos/o/r"} {
			synctest.Test(t, func(t *testing.T) {
				o := polite.GitHub()
				o.Retry.Disable = true
				client := on(o, serving(t, secondary(30*time.Minute), politetest.Respond(200)).Transport())
				require.Equal(t, http.StatusForbidden, fetch(t.Context(), client, first))
				start := time.Now()
				assert.Equal(t, http.StatusOK, fetch(t.Context(), client, second))
				assert.GreaterOrEqual(t, time.Since(start), time.Minute, "%s after %s", second, first)
			})
		}
	}
}

// GraphQL refuses with 200. What was looked at stays readable, and so does an
// answer with data in it, whatever it speaks of.
//
// Case C141.
func TestGitHubTakesARefusedQueryForWhatItIs(t *testing.T) {
	const spent, secondary = `{"errors":[{"type":"RATE_LIMITED","message":"API rate limit exceeded"}]}`,
		`{"data":null,"errors":[{"message":"You have exceeded a secondary rate limit."}]}`
	exhausted := []string{"X-RateLimit-Limit", "5000", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "90", "X-RateLimit-Resource", "graphql"}
	plenty := []string{"X-RateLimit-Limit", "5000", "X-RateLimit-Remaining", "4000", "X-RateLimit-Reset", "90", "X-RateLimit-Resource", "graphql"}
	for name, tc := range map[string]struct {
		path, body string
		headers    []string
		wait       time.Duration // 0: none
		margin     time.Duration // a reset's
	}{
		"primary":                         {"/graphql", spent, exhausted, 90 * time.Second, time.Second},
		"primary, older type":             {"/api/graphql", strings.Replace(spent, "LIMITED", "LIMIT", 1), exhausted, 90 * time.Second, time.Second},
		"secondary":                       {"/graphql", secondary, plenty, time.Minute, 0},
		"secondary, Retry-After":          {"/graphql", secondary, append([]string{"Retry-After", "70"}, plenty...), 70 * time.Second, 0},
		"the last point's answer":         {"/graphql", `{"data":{"title":"RATE_LIMITED"}}`, exhausted, 0, 0},
		"another error":                   {"/graphql", `{"data":null,"errors":[{"type":"NOT_FOUND","message":"no such repository"}]}`, plenty, 0, 0},
		"an answer longer than a refusal": {"/graphql", `{"data":"` + strings.Repeat(".", 5000) + `","errors":[{"type":"RATE_LIMITED"}]}`, plenty, 0, 0},
		"no query":                        {"/repos/o/r", spent, plenty, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const data = `{"data":{"viewer":null}}`
				server := serving(t, politetest.Respond(200, tc.headers...).WithBody(tc.body), politetest.Respond(200).WithBody(data))
				start := time.Now()
				req := request(t, http.MethodPost, "http://api.test"+tc.path, `{"query":"{viewer{login}}"}`)
				req = req.WithContext(polite.WithOverrides(t.Context(), polite.Overrides{Idempotent: true}))
				_, body := do(t, on(polite.GitHub(), server.Transport()), req)
				at := arrivedAfter(server, start)
				if tc.wait == 0 {
					assert.Equal(t, tc.body, body)
					assert.Len(t, at, 1)
					return
				}
				assert.Equal(t, data, body)
				require.Len(t, at, 2)
				assertWait(t, tc.wait, tc.margin, at[1], name)
			})
		})
	}
}

// A query is a POST, and a refusal of which nobody vouches that it did nothing is
// the caller's to read; the next query waits all the same.
func TestGitHubHandsARefusedQueryToTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const refusal = `{"errors":[{"type":"RATE_LIMITED"}]}`
		server := serving(t, politetest.Respond(200, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "90", "X-RateLimit-Resource", "graphql").WithBody(refusal), politetest.Respond(200))
		client := on(polite.GitHub(), server.Transport())
		start := time.Now()
		_, body := do(t, client, request(t, http.MethodPost, "http://api.test/graphql", "{}"))
		assert.Equal(t, refusal, body)
		assert.Zero(t, time.Since(start))
		do(t, client, request(t, http.MethodPost, "http://api.test/graphql", "{}"))
		assert.GreaterOrEqual(t, time.Since(start), 90*time.Second)
	})
}

func TestGitHubObeysTheRetryAfterOfASecondaryLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reply := secondary(time.Hour)
		reply.Header.Set("Retry-After", "100")
		server := serving(t, reply)
		start := time.Now()
		assert.Equal(t, http.StatusOK, fetch(t.Context(), on(polite.GitHub(), server.Transport()), aCoffee))
		assert.GreaterOrEqual(t, arrivedAfter(server, start)[1], 100*time.Second)
	})
}

func TestGitHubLeavesTheBodyOfARefusalReadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := `{"message":"You have exceeded a secondary rate limit."}` + strings.Repeat(" ", 10_000) + "."
		server := serving(t, politetest.Respond(403).WithBody(text).Times(-1))
		_, body := do(t, on(polite.GitHub(), server.Transport()), request(t, http.MethodGet, aCoffee, ""))
		assert.Equal(t, text, body)
	})
}

func TestGitHubTakesAnyOther403AsFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serving(t, politetest.Respond(403, "X-RateLimit-Remaining", "4000").
			WithBody(`{"message":"Resource not accessible by integration"}`))
		start := time.Now()
		resp, body := do(t, on(polite.GitHub(), server.Transport()), request(t, http.MethodGet, aCoffee, ""))
		assert.Equal(t, http.StatusForbidden, resp.StatusCode)
		assert.Contains(t, body, "not accessible")
		assert.Zero(t, time.Since(start))
	})
}

func TestGitHubSearchDoesNotStopTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serving(t, politetest.Respond(403, "X-RateLimit-Limit", "30", "X-RateLimit-Remaining", "0",
			"X-RateLimit-Reset", fmt.Sprint(time.Now().Add(time.Hour).Unix()), "X-RateLimit-Resource", "search"))
		client := on(polite.GitHub(), server.Transport())
		fetch(t.Context(), client, "http://api.test/search/issues?q=x")
		start := time.Now()
		assert.Equal(t, http.StatusOK, fetch(t.Context(), client, aCoffee))
		assert.Zero(t, time.Since(start))
		_, err := client.Get(t.Context(), "http://api.test/search/users?q=x")
		assert.ErrorAs(t, err, new(*polite.WaitError))
	})
}

func TestGitHubExhaustedCoreDoesNotStopSearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serving(t, politetest.Respond(200, "X-RateLimit-Limit", "5000", "X-RateLimit-Remaining", "0",
			"X-RateLimit-Reset", fmt.Sprint(time.Now().Add(time.Hour).Unix()), "X-RateLimit-Resource", "core"))
		client := on(polite.GitHub(), server.Transport())
		fetch(t.Context(), client, aCoffee)
		_, err := client.Get(t.Context(), aCoffee)
		assert.ErrorAs(t, err, new(*polite.WaitError))
		start := time.Now()
		fetch(t.Context(), client, "http://api.test/search/issues?q=x")
		assert.Equal(t, 2, server.Requests())
		assert.Zero(t, time.Since(start))
	})
}

func TestGitHubKnowsItsResourcesByPath(t *testing.T) {
	key := polite.GitHub().QuotaKey
	for path, want := range map[string]string{
		"/repos/o/r":            "",
		"/search/issues":        "search",
		"/search/code":          "code_search",
		"/api/v3/search/issues": "search",
		"/graphql":              "graphql",
		"/api/graphql":          "graphql",
		"/searching":            "",
	} {
		assert.Equal(t, want, key(request(t, http.MethodGet, "http://api.test"+path, "")), path)
	}
}

// Aroma

func TestAromaSearchesKeepToTheirLimitWithoutARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := politetest.Must(t, politetest.Aroma())
		o := polite.Aroma()
		o.Limit.MaxWait, o.Retry.MaxElapsed = time.Hour, time.Hour
		client := on(o, server.Transport())
		crowd(8, 60, func(int) {
			resp, err := client.Do(request(t, http.MethodGet, coffees+"&q=etiopia", "", "Authorization", "Bearer client:1"))
			if assert.NoError(t, err) {
				assert.Equal(t, http.StatusOK, resp.StatusCode)
				resp.Body.Close()
			}
		})
		assert.Zero(t, server.Refusals())
	})
}

func TestAromaExhaustedSearchDoesNotStopTheCatalog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serving(t, politetest.Respond(429, "Retry-After", "30"))
		client := on(polite.Aroma(), server.Transport())
		var search sync.WaitGroup
		search.Go(func() { fetch(t.Context(), client, coffees+"&q=x") })
		synctest.Wait()
		start := time.Now()
		assert.Equal(t, http.StatusOK, fetch(t.Context(), client, coffees))
		assert.Zero(t, time.Since(start))
		search.Wait()
	})
}

func TestAromaKnowsItsQuotas(t *testing.T) {
	o := polite.Aroma()
	for _, tc := range []struct {
		method, path, key string
		cost              int
		second            string
		surcharge         int
	}{
		{"GET", "/v1/cafes/caf_1", "", 1, "", 0},
		{"GET", "/v1/cafes", "", 1, "", 0},
		{"GET", "/v1/cafes?limit=20", "", 1, "", 0},
		{"GET", "/v1/cafes?limit=100&desplacament=100", "", 3, "", 0},
		{"GET", "/v1/cafes?q=etiopia", "search", 1, "", 5},
		{"GET", "/v1/cafes?q=", "", 1, "", 0},
		{"GET", "/v1/comandes", "", 1, "", 0},
		{"GET", "/v1/comandes?expandir=linies.cafe", "", 5, "", 0},
		{"POST", "/v1/comandes", "orders", 10, "", 0},
		{"POST", "/v1/comandes/com_1/pagament", "payments", 1, "orders", 1},
		{"POST", "/v1/cafes/caf_1/imatge", "uploads", 1, "orders", 1},
		{"POST", "/v1/sessions", "login", 1, "", 0},
		{"POST", "/v1/clients", "sign-up", 1, "", 0},
	} {
		req := request(t, tc.method, "http://api.test"+tc.path, "")
		assert.Equal(t, tc.key, o.QuotaKey(req), "%s %s", tc.method, tc.path)
		assert.Equal(t, tc.cost, o.Cost(req), "%s %s", tc.method, tc.path)
		second, surcharge := o.Surcharge(req)
		assert.Equal(t, tc.second, second, "%s %s", tc.method, tc.path)
		assert.Equal(t, tc.surcharge, surcharge, "%s %s", tc.method, tc.path)
	}
}

// aromaClient is a patient client of the whole shop, signed in.
func aromaClient(t *testing.T) (*politetest.Server, *polite.Client) {
	config := politetest.Aroma()
	config.Latency = roundTime
	server := politetest.Must(t, config)
	o := polite.Aroma()
	o.Limit.MaxWait, o.Retry.MaxElapsed = time.Hour, time.Hour
	return server, on(o, withToken(server.Transport()))
}

// A search counts against the general bucket too, of which its answer says
// nothing.
func TestAromaSearchesAmongReadsAreNotRefused(t *testing.T) {
	for _, goroutines := range []int{1, 3, 16, 64} {
		t.Run(fmt.Sprint(goroutines), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, client := aromaClient(t)
				crowd(goroutines, 360, func(i int) {
					url := aCoffee
					if i%6 == 0 {
						url = aSearch
					}
					assert.Equal(t, http.StatusOK, fetch(t.Context(), client, url))
				})
				assert.Zero(t, server.Refusals())
			})
		})
	}
}

// Who reads and who searches do not wait for each other, and together they use
// up what the bucket gives.
func TestAromaReadersAndSearchersShareTheGeneralBucket(t *testing.T) {
	for _, goroutines := range []int{1, 2, 16} {
		t.Run(fmt.Sprint(goroutines), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, client := aromaClient(t)
				start := time.Now()
				var reads, searches atomic.Int64
				crowd(2*goroutines, 2*goroutines, func(i int) {
					for time.Since(start) < 3*time.Minute {
						url, n := aCoffee, &reads
						if i%2 == 0 {
							url, n = aSearch, &searches
						}
						assert.Equal(t, http.StatusOK, fetch(t.Context(), client, url))
						n.Add(1)
					}
				})
				assert.Zero(t, server.Refusals())
				t.Logf("%d reads, %d searches", reads.Load(), searches.Load())
				assert.GreaterOrEqual(t, searches.Load(), int64(50), "of 60")
				assert.GreaterOrEqual(t, reads.Load()+5*searches.Load(), int64(840), "of 920")
			})
		})
	}
}

func TestAromaCatalogIsDownloadedWithoutARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := politetest.Must(t, politetest.Aroma())
		o := polite.Aroma()
		o.Limit.MaxWait, o.Retry.MaxElapsed = time.Hour, time.Hour
		pager := polite.AromaPages[politetest.Coffee](on(o, server.Transport()), "http://api.test/v1/cafes")
		pager.Concurrency = 8
		n := 0
		for _, err := range pager.Items(t.Context()) {
			require.NoError(t, err)
			n++
		}
		assert.Equal(t, politetest.DefaultCoffees, n)
		assert.Zero(t, server.Refusals())
	})
}

// Generic

func TestGenericLearnsARateAndSlowsNothingBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := politetest.Must(t, politetest.Config{Silent: true, Latency: roundTime,
			Limit: politetest.Limit{Algorithm: politetest.TokenBucket, N: 10, Per: time.Second}})
		client := on(polite.Generic(), server.Transport())
		assert.Equal(t, 2*roundTime, crowd(5, 6, func(int) { fetch(t.Context(), client, aCoffee) }))
		crowd(8, 300, func(int) {
			assert.Equal(t, http.StatusOK, fetch(t.Context(), client, aCoffee))
		})
		assert.Less(t, server.Refusals(), 30)
	})
}

// Classifiers

// Case C137.
func TestClassifierTellsARateLimitFromAForbiddenResource(t *testing.T) {
	classify := func(resp *http.Response, err error) polite.Verdict {
		if err == nil && resp.StatusCode == 403 && strings.Contains(string(polite.PeekBody(resp, 4<<10)), "rateLimitExceeded") {
			return polite.Verdict{Outcome: polite.Throttled, Retry: true}
		}
		return polite.DefaultClassify(resp, err)
	}
	for _, tc := range []struct {
		reason   string
		classify func(*http.Response, error) polite.Verdict
		want     int
		requests int
	}{
		{"rateLimitExceeded", classify, 200, 2},
		{"forbidden", classify, 403, 1},
		{"rateLimitExceeded", nil, 403, 1},
		{"forbidden", nil, 403, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			text := `{"error":{"errors":[{"reason":"` + tc.reason + `"}]}}`
			server := serving(t, politetest.Respond(403).WithBody(text))
			o := steadily(server.Transport())
			o.Classify = tc.classify
			resp, body := do(t, polite.New(o), request(t, http.MethodGet, aCoffee, ""))
			assert.Equal(t, tc.want, resp.StatusCode)
			assert.Equal(t, tc.requests, server.Requests())
			if tc.want == 403 {
				assert.Equal(t, text, body)
			}
		})
	}
}

// A query API answers 200 and puts the refusal in the body; what is missing of
// the next call's cost comes back at a known rate.
//
// Case C143.
func TestClassifierWaitsForTheCostThatIsMissing(t *testing.T) {
	for _, tc := range []struct {
		cost, available float64
		wait            time.Duration
	}{{502, 498, 80 * time.Millisecond}, {600, 100, 10 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			server := serving(t, politetest.Respond(200).WithBody(`{"errors":[{"type":"THROTTLED"}]}`))
			o := steadily(server.Transport())
			o.Classify = func(resp *http.Response, err error) polite.Verdict {
				if err == nil && strings.Contains(string(polite.PeekBody(resp, 4<<10)), "THROTTLED") {
					missing := (tc.cost - tc.available) / 50 // per second
					return polite.Verdict{Outcome: polite.Throttled, Retry: true, Wait: time.Duration(missing * float64(time.Second))}
				}
				return polite.DefaultClassify(resp, err)
			}
			start := time.Now()
			assert.Equal(t, http.StatusOK, fetch(t.Context(), polite.New(o), aCoffee))
			took := arrivedAfter(server, start)[1]
			assert.GreaterOrEqual(t, took, tc.wait)
			assert.LessOrEqual(t, took, tc.wait*6/5)
		})
	}
}

// Case C143.
func TestCostAboveTheLimitFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serving(t)
		client := polite.New(&polite.Options{Base: server.Transport(),
			Cost:  func(*http.Request) int { return 1001 },
			Limit: polite.LimitOptions{Rates: []polite.Rate{{N: 1000, Per: 20 * time.Second, Burst: 1000}}}})
		_, err := client.Get(t.Context(), aCoffee)
		var wait *polite.WaitError
		require.ErrorAs(t, err, &wait)
		assert.Equal(t, "Rate.N", wait.Bound)
		assert.Zero(t, server.Requests())
	})
}

// A limit that is reported with a status of its own is a row of the table; then
// headers and backoff apply as for 429.
//
// Case C149.
func TestDialectMakesARefusalOf422(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reply := politetest.Respond(422).WithBody("API rate limit exceeded")
		server := serving(t, reply)
		o := steadily(server.Transport())
		assert.Equal(t, 422, fetch(t.Context(), polite.New(o), aCoffee), "not by default")

		server = serving(t, reply)
		o.Base = server.Transport()
		o.Dialects = []polite.Dialect{{Name: "this API", Hosts: []string{"api.test"}, Refusals: []int{422}}}
		start := time.Now()
		assert.Equal(t, http.StatusOK, fetch(t.Context(), polite.New(o), aCoffee))
		assert.Equal(t, time.Second, time.Since(start))
	})
}

// A quota of a month is not waited for.
//
// Case C147.
func TestMonthlyQuotaReturnsAtOnceWithItsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serving(t, politetest.Respond(429, "Retry-After", "1296000"))
		start := time.Now()
		resp, err := polite.New(&polite.Options{Base: server.Transport()}).Get(t.Context(), aCoffee)
		require.NoError(t, err)
		assert.Equal(t, 15*24*time.Hour, responseError(t, resp).RetryAfter)
		assert.Zero(t, time.Since(start))
		readBody(t, resp)
	})
}

// Two profiles do not share anything.
func TestProfilesAreOfTheirOwn(t *testing.T) {
	a := polite.SmartBill()
	a.Limit.Rates[0].N = 1
	assert.Equal(t, 3, polite.SmartBill().Limit.Rates[0].N)
}
