package polite_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
)

// aSearch is a search of the simulated shop, to be completed.
const aSearch = "http://api.test/v1/cafes?q=robusta"

// took is how long a call takes that has to succeed.
func took(t testing.TB, c *polite.Client, url string) time.Duration {
	t.Helper()
	start := time.Now()
	require.Equal(t, http.StatusOK, fetch(t.Context(), c, url), url)
	return time.Since(start)
}

// quick is a client that never spreads, so that only an exhausted bucket makes
// it wait.
func quick(base http.RoundTripper) *polite.Options {
	return &polite.Options{Base: base, Preemptive: polite.PreemptiveOptions{Threshold: -1}}
}

// twoBuckets limits items to 100 and searches to 5 a minute, each on its own.
func twoBuckets(t testing.TB, dialect politetest.Dialect) *politetest.Server {
	return politetest.Must(t, politetest.Config{Latency: roundTime, Dialects: []politetest.Dialect{dialect}, Policies: []politetest.Policy{
		{Name: "items", Classes: politetest.ClassItem, Limit: politetest.Limit{N: 100, Per: time.Minute}},
		{Name: "search", Classes: politetest.ClassSearch, Limit: politetest.Limit{N: 5, Per: time.Minute}},
	}})
}

// Whether the server names its buckets or lets one set of fields flip.
//
// Case C091.
func TestExhaustedBucketDoesNotStopTheOther(t *testing.T) {
	for _, dialect := range []politetest.Dialect{politetest.Draft8, politetest.XRateLimit, politetest.AromaCatalan} {
		t.Run(dialect.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := twoBuckets(t, dialect)
				client := polite.New(quick(server.Transport()))
				start := time.Now()
				took(t, client, aCoffee)
				for i := range 5 {
					assert.Equal(t, roundTime, took(t, client, aSearch+strconv.Itoa(i)))
				}
				for range 50 {
					assert.Equal(t, roundTime, took(t, client, aCoffee))
				}
				took(t, client, aSearch)
				assert.GreaterOrEqual(t, time.Since(start), time.Minute)
				assert.Zero(t, server.Refusals())
			})
		})
	}
}

// The shop's own limits, in two lines of work: searches wait for their twenty a
// minute, and coffees do not.
func TestAromaSearchesWaitAndCoffeesDoNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := politetest.Aroma()
		config.Latency = roundTime
		server := politetest.Must(t, config)
		client := patient(withToken(server.Transport()), -1)
		took(t, client, aCoffee)
		took(t, client, aSearch)
		var wg sync.WaitGroup
		start := time.Now()
		wg.Go(func() {
			for i := range 50 {
				took(t, client, aSearch+strconv.Itoa(i))
				time.Sleep(2 * time.Second)
			}
		})
		wg.Go(func() {
			for range 150 {
				assert.Equal(t, roundTime, took(t, client, aCoffee))
				time.Sleep(800 * time.Millisecond)
			}
		})
		wg.Wait()
		assert.Greater(t, time.Since(start), 2*time.Minute)
		assert.Zero(t, server.Refusals())
	})
}

// A refusal with a larger limit than the bucket's is the work of a wider quota
// that the request counts against as well. It closes the gate, and the bucket's
// books stay as they are.
func TestRefusalInTheNameOfAWiderQuotaLeavesTheBucketAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		base := new(scripted)
		for _, next := range [][]string{{"20", "2"}, {"300", "0"}, {"20", "1"}, {"20", "0"}, {"20", "19"}} {
			status, wait := http.StatusOK, ""
			if next[0] == "300" {
				status, wait = http.StatusTooManyRequests, "1"
			}
			base.next = append(base.next, answered(nil, status, "", "Retry-After", wait, "X-RateLimit-Limit", next[0],
				"X-RateLimit-Remaining", next[1], "X-RateLimit-Reset", strconv.FormatInt(start.Add(30*time.Second).Unix(), 10)))
		}
		client := polite.New(quick(base))
		took(t, client, aSearch)
		assert.Less(t, took(t, client, aSearch), 2*time.Second)
		took(t, client, aSearch)
		assert.Less(t, time.Since(start), 2*time.Second)
		took(t, client, aSearch)
		assert.GreaterOrEqual(t, time.Since(start), 30*time.Second)
	})
}

// Answers that name several policies: the search's own does not stop the items,
// and the one that both share stops both.
func TestPolicyStopsOnlyTheEndpointsThatItIsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := politetest.Must(t, politetest.Config{Latency: roundTime, Dialects: []politetest.Dialect{politetest.Draft8}, Policies: []politetest.Policy{
			{Name: "general", Limit: politetest.Limit{N: 40, Per: time.Minute}},
			{Name: "search", Classes: politetest.ClassSearch, Limit: politetest.Limit{N: 5, Per: time.Minute}},
		}})
		client := polite.New(quick(server.Transport()))
		start := time.Now()
		took(t, client, aCoffee)
		for range 5 {
			assert.Equal(t, roundTime, took(t, client, aSearch))
		}
		for range 32 {
			assert.Equal(t, roundTime, took(t, client, aCoffee))
		}
		ctx := polite.WithOverrides(t.Context(), polite.Overrides{AdmissionWait: time.Second})
		assert.Zero(t, fetch(ctx, client, aSearch))
		crowd(8, 100, func(i int) {
			url := aCoffee
			if i%20 == 0 {
				url = aSearch
			}
			assert.Equal(t, http.StatusOK, fetch(t.Context(), client, url))
		})
		assert.Less(t, time.Since(start), 4*time.Minute)
		assert.Zero(t, server.Refusals())
	})
}

// withToken signs in as a client of the shop.
func withToken(base http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer client:7")
		return base.RoundTrip(req)
	})
}

// A bucket that is met in the middle of a crowd takes along those of its
// endpoint that are under way or wait.
func TestCallsUnderWayFollowTheirBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := twoBuckets(t, politetest.XRateLimit)
		client := polite.New(quick(server.Transport()))
		took(t, client, aCoffee)
		start := time.Now()
		crowd(8, 5, func(i int) { // they leave together, five before anybody knows of the bucket
			assert.Equal(t, http.StatusOK, fetch(t.Context(), client, aSearch+strconv.Itoa(i)))
		})
		assert.Equal(t, roundTime, time.Since(start))
		took(t, client, aSearch)
		assert.GreaterOrEqual(t, time.Since(start), time.Minute-roundTime, "all five were counted")
		assert.Zero(t, server.Refusals())
	})
}

// Everybody waits in one line until the first answer; whoever it does not
// concern goes on.
func TestCallsInLineFollowTheirBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := map[string]int{"/a": 1, "/b": 10}
		var mu sync.Mutex
		left := map[string]int{"/a": 1, "/b": 10}
		base := roundTripper(func(req *http.Request) (*http.Response, error) {
			path := req.URL.Path
			mu.Lock()
			left[path]--
			remaining := left[path]
			mu.Unlock()
			time.Sleep(roundTime)
			return answered(req, http.StatusOK, "", "X-RateLimit-Resource", "bucket-"+path[1:],
				"X-RateLimit-Limit", strconv.Itoa(limits[path]), "X-RateLimit-Remaining", strconv.Itoa(remaining), "X-RateLimit-Reset", "30"), nil
		})
		client := polite.New(quick(base))
		took(t, client, "http://api.test/b")
		start := time.Now()
		var first, second time.Duration
		crowd(2, 2, func(i int) {
			if i == 0 {
				first = took(t, client, "http://api.test/a")
			} else {
				second = took(t, client, "http://api.test/b")
			}
		})
		assert.Equal(t, roundTime, first)
		assert.Equal(t, roundTime, second)
		took(t, client, "http://api.test/b")
		assert.Equal(t, 2*roundTime, time.Since(start))
	})
}

// A call that was refused waits for as long as its refusal said, though its
// endpoint is told to count against another bucket meanwhile.
func TestRefusedCallWaitsWhileItsEndpointMovesToAnotherBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := make(chan struct{})
		var refused, again time.Time
		base := roundTripper(func(req *http.Request) (*http.Response, error) {
			bucket := "a"
			switch req.URL.Path {
			case "/b/1": // one endpoint with /b/2
				bucket = "b"
			case "/b/2":
				<-held
				bucket = "c"
			case "/b/3":
				if refused.IsZero() {
					refused = time.Now()
					return answered(req, http.StatusTooManyRequests, "", "Retry-After", "30", "X-RateLimit-Bucket", "b", "X-RateLimit-Remaining", "0"), nil
				}
				again = time.Now()
			}
			return answered(req, http.StatusOK, "", "X-RateLimit-Bucket", bucket, "X-RateLimit-Limit", "100", "X-RateLimit-Remaining", "50", "X-RateLimit-Reset-After", "60"), nil
		})
		client := polite.New(quick(base))
		took(t, client, "http://api.test/a")
		took(t, client, "http://api.test/b/1")
		var wg sync.WaitGroup
		wg.Go(func() { took(t, client, "http://api.test/b/2") })
		synctest.Wait()
		wg.Go(func() { took(t, client, "http://api.test/b/3") })
		synctest.Wait()
		time.Sleep(time.Second)
		close(held)
		wg.Wait()
		assert.GreaterOrEqual(t, again.Sub(refused), 30*time.Second)
	})
}

// The same endpoint with another limit: it was raised, for everybody.
func TestLimitThatChangesOnOneEndpointIsNoOtherBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := 60
		base := roundTripper(func(req *http.Request) (*http.Response, error) {
			return answered(req, http.StatusOK, "", "X-RateLimit-Limit", strconv.Itoa(limit), "X-RateLimit-Remaining", "30", "X-RateLimit-Reset", "30"), nil
		})
		client := polite.New(quick(base))
		took(t, client, aCoffee)
		limit = 300
		took(t, client, aCoffee)
		quotas := statsOf(t, client.Transport()).Quotas
		require.Len(t, quotas, 1)
		assert.EqualValues(t, 300, quotas[0].Limit)
	})
}

// Every endpoint's limit falls at once: they end up together again.
func TestLimitThatChangesForAllIsOneBucketAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit, left := 300, 100
		base := roundTripper(func(req *http.Request) (*http.Response, error) {
			left--
			return answered(req, http.StatusOK, "", "X-RateLimit-Limit", strconv.Itoa(limit), "X-RateLimit-Remaining", strconv.Itoa(left), "X-RateLimit-Reset", "30"), nil
		})
		client := polite.New(quick(base))
		urls := []string{"http://api.test/a", "http://api.test/b", "http://api.test/c"}
		for range 2 {
			for _, url := range urls {
				took(t, client, url)
			}
		}
		limit, left = 200, 6
		for _, url := range []string{urls[0], urls[1], urls[2], urls[0], urls[1], urls[2]} {
			took(t, client, url)
		}
		require.Zero(t, left)
		for _, url := range urls { // all know that nothing is left
			ctx := polite.WithOverrides(t.Context(), polite.Overrides{AdmissionWait: time.Second})
			assert.Zero(t, fetch(ctx, client, url), url)
		}
	})
}

// An explicit key is the caller's word: what the server names does not matter.
func TestQuotaKeyWinsOverWhatWasLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := twoBuckets(t, politetest.Draft8)
		client := polite.New(quick(server.Transport()))
		keyed := polite.WithOverrides(t.Context(), polite.Overrides{QuotaKey: "mine", AdmissionWait: time.Second})
		for i := range 5 {
			require.Equal(t, http.StatusOK, fetch(keyed, client, aSearch+strconv.Itoa(i)))
		}
		assert.Zero(t, fetch(keyed, client, aCoffee), "one key, one lane")
		assert.Equal(t, roundTime, took(t, client, aCoffee), "without the key nothing is known yet")
	})
}

// scripted is a host with the buckets a, b and c, of which the next answers may
// be replaced.
type scripted struct {
	next []*http.Response
}

func (s *scripted) RoundTrip(req *http.Request) (*http.Response, error) {
	if len(s.next) > 0 {
		resp := s.next[0]
		s.next = s.next[1:]
		resp.Request = req
		return resp, nil
	}
	return answered(req, http.StatusOK, "", "X-RateLimit-Bucket", req.URL.Path,
		"X-RateLimit-Limit", "100", "X-RateLimit-Remaining", "50", "X-RateLimit-Reset-After", "30"), nil
}

func TestWhomARefusalStops(t *testing.T) {
	for name, tc := range map[string]struct {
		status  int
		headers []string
		all     bool
	}{
		"503 with Retry-After":          {503, []string{"Retry-After", "10"}, true},
		"429 that names no bucket":      {429, []string{"Retry-After", "10"}, true},
		"429 that names the bucket":     {429, []string{"Retry-After", "10", "X-RateLimit-Bucket", "/b"}, false},
		"429 with an exhausted bucket":  {429, []string{"Retry-After", "10", "X-RateLimit-Bucket", "/b", "X-RateLimit-Remaining", "0"}, false},
		"429 with enough in the bucket": {429, []string{"Retry-After", "10", "X-RateLimit-Bucket", "/b", "X-RateLimit-Remaining", "40"}, true},
		"403 of an exhausted bucket":    {403, []string{"Retry-After", "10", "X-RateLimit-Bucket", "/b", "X-RateLimit-Remaining", "0"}, false},
		"429 of a shared resource":      {429, []string{"Retry-After", "13", "X-RateLimit-Bucket", "/b", "X-RateLimit-Remaining", "9", "X-RateLimit-Scope", "shared"}, false},
		"429 of a global limit":         {429, []string{"Retry-After", "10", "X-RateLimit-Bucket", "/b", "X-RateLimit-Remaining", "0", "X-RateLimit-Scope", "global"}, true},
		"403 with plenty in the bucket": {403, []string{"Retry-After", "10", "X-RateLimit-Bucket", "/b", "X-RateLimit-Remaining", "40"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := new(scripted)
				opts := quick(base)
				opts.Retry.Disable = true
				client := polite.New(opts)
				for _, path := range []string{"/a", "/b", "/c"} {
					took(t, client, "http://api.test"+path)
				}
				base.next = append(base.next, answered(nil, tc.status, "", tc.headers...))
				require.Equal(t, tc.status, fetch(t.Context(), client, "http://api.test/b"))
				if waited := took(t, client, "http://api.test/a"); tc.all {
					assert.GreaterOrEqual(t, waited, 10*time.Second)
				} else {
					assert.Zero(t, waited)
					assert.GreaterOrEqual(t, took(t, client, "http://api.test/b"), 10*time.Second)
				}
			})
		})
	}
}

// The host's own bucket was met first; an explicit key's refusal stays its own.
func TestRefusalOfAKeyStopsOnlyTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := new(scripted)
		opts := quick(base)
		opts.Retry.Disable = true
		client := polite.New(opts)
		took(t, client, "http://api.test/a")
		took(t, client, "http://api.test/b")
		base.next = append(base.next, answered(nil, http.StatusTooManyRequests, "", "Retry-After", "10"))
		keyed := polite.WithOverrides(t.Context(), polite.Overrides{QuotaKey: "mine"})
		require.Equal(t, http.StatusTooManyRequests, fetch(keyed, client, "http://api.test/a"))
		assert.Zero(t, took(t, client, "http://api.test/a"))
	})
}

// A key whose quota has enough left is not to blame: another limit has refused,
// which holds for all, whether their requests were met before or not. Of tokens
// nobody knows how many the request needed.
func TestRefusalThatNoQuotaExplainsStopsEveryKey(t *testing.T) {
	for name, tc := range map[string]struct {
		headers []string
		cost    int
		all     bool
	}{
		"enough left":                {[]string{"X-RateLimit-Remaining", "20"}, 0, true},
		"nothing left":               {[]string{"X-RateLimit-Remaining", "0"}, 0, false},
		"too little for the request": {[]string{"X-RateLimit-Remaining", "4"}, 5, false},
		"unknown":                    {[]string{"X-RateLimit-Limit", "30"}, 0, false},
		"no quota":                   {nil, 0, false},
		"tokens":                     {[]string{"X-RateLimit-Remaining-Requests", "20", "X-RateLimit-Remaining-Tokens", "1200"}, 0, false},
	} {
		for refused, other := range map[string]string{"mine": "", "": "mine"} {
			t.Run(fmt.Sprintf("%s, key %q", name, refused), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					base := &scripted{next: []*http.Response{answered(nil, http.StatusTooManyRequests, "", append(tc.headers, "Retry-After", "10")...)}}
					opts := quick(base)
					opts.Retry.Disable = true
					client := polite.New(opts)
					keyed := polite.WithOverrides(t.Context(), polite.Overrides{QuotaKey: refused, Cost: tc.cost})
					require.Equal(t, http.StatusTooManyRequests, fetch(keyed, client, "http://api.test/a"))
					start := time.Now()
					keyed = polite.WithOverrides(t.Context(), polite.Overrides{QuotaKey: other})
					require.Equal(t, http.StatusOK, fetch(keyed, client, "http://api.test/b"))
					assert.Equal(t, tc.all, time.Since(start) >= 10*time.Second, time.Since(start))
				})
			})
		}
	}
}

// More endpoints than are remembered, and more buckets than there are lanes:
// everything still goes.
func TestEndpointsAndBucketsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := polite.New(quick(new(scripted)))
		for i := range 1000 {
			assert.Zero(t, took(t, client, "http://api.test/"+name(i)))
		}
		assert.LessOrEqual(t, len(statsOf(t, client.Transport()).Quotas), 64+6)
	})
}

// name is a word without digits.
func name(i int) string {
	word := ""
	for ; i >= 0; i = i/26 - 1 {
		word = string(rune('a'+i%26)) + word
	}
	return word
}

// A server that cuts its reset down to whole seconds refuses on the very second
// of it, and a client with one retry must not lose it there.
//
// Case C027.
func TestRetryKeepsAMarginAfterAReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		reset := start.Add(10 * time.Second)
		var arrivals []time.Duration
		base := roundTripper(func(req *http.Request) (*http.Response, error) {
			arrivals = append(arrivals, time.Since(start))
			if !time.Now().Before(reset.Add(time.Second)) {
				return answered(req, http.StatusOK, ""), nil
			}
			return answered(req, http.StatusForbidden, "", "X-RateLimit-Limit", "60", "X-RateLimit-Remaining", "0",
				"X-RateLimit-Reset", strconv.FormatInt(reset.Unix(), 10)), nil
		})
		opts := steadily(base)
		opts.Retry.MaxAttempts = 2
		assert.Equal(t, http.StatusOK, fetch(t.Context(), polite.New(opts), aCoffee))
		require.Len(t, arrivals, 2)
		assert.GreaterOrEqual(t, arrivals[1], 11*time.Second)
	})
}

// Retry-After has no such margin, and neither has a wait that would become
// longer than the longest for admission by it.
func TestOnlyResetsHaveAMargin(t *testing.T) {
	for header, after := range map[string]time.Duration{"Retry-After": 60 * time.Second, "X-RateLimit-Reset": 60 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			start, n := time.Now(), 0
			base := roundTripper(func(req *http.Request) (*http.Response, error) {
				if n++; n > 1 {
					return answered(req, http.StatusOK, ""), nil
				}
				return answered(req, http.StatusTooManyRequests, "", "X-RateLimit-Remaining", "0", header, "60"), nil
			})
			opts := steadily(base)
			opts.Limit.MaxWait = time.Minute
			assert.Equal(t, http.StatusOK, fetch(t.Context(), polite.New(opts), aCoffee), header)
			assert.Equal(t, after, time.Since(start), header) // no random share either
		})
	}
}

// A refusal whose reset has passed waits longer each time.
//
// Case C027.
func TestRefusalsAfterTheResetWaitAGrowingFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var arrivals []time.Duration
		base := roundTripper(func(req *http.Request) (*http.Response, error) {
			arrivals = append(arrivals, time.Since(start))
			return answered(req, http.StatusTooManyRequests, "", "X-RateLimit-Limit", "60", "X-RateLimit-Remaining", "0",
				"X-RateLimit-Reset", strconv.FormatInt(start.Unix()-1, 10)), nil
		})
		assert.Equal(t, http.StatusTooManyRequests, fetch(context.Background(), polite.New(steadily(base)), aCoffee))
		assert.Equal(t, []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second}, arrivals)
	})
}
