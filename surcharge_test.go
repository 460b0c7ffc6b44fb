package polite_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
)

// surcharged is a client whose "/s…" requests have the quota key "s" and take
// two units of the general quota.
func surcharged(base http.RoundTripper) *polite.Client {
	o := quick(base)
	o.QuotaKey = func(r *http.Request) string {
		if r.URL.Path[1] == 's' {
			return "s"
		}
		return ""
	}
	o.Surcharge = func(r *http.Request) (string, int) {
		if r.URL.Path[1] == 's' {
			return "", 2
		}
		return "", 0
	}
	return polite.New(o)
}

// general is a server that announces so much of a general quota, with a reset
// in thirty seconds, on all but "/s…", of which it tells another quota that has
// as much left as its path says.
func general(left int) roundTripper {
	return func(req *http.Request) (*http.Response, error) {
		limit, remaining := "100", fmt.Sprint(left)
		if req.URL.Path[1] == 's' {
			limit, remaining = "20", req.URL.Path[2:]
		}
		return answered(req, http.StatusOK, "", "X-RateLimit-Limit", limit, "X-RateLimit-Remaining", remaining, "X-RateLimit-Reset", "30"), nil
	}
}

func TestSurchargeWaitsForTheSecondQuota(t *testing.T) {
	for left, wait := range map[int]time.Duration{1: 30 * time.Second, 2: 0} {
		synctest.Test(t, func(t *testing.T) {
			client := surcharged(general(left))
			took(t, client, "http://api.test/read")
			if wait == 0 {
				assert.Zero(t, took(t, client, "http://api.test/s9"))
			} else {
				assert.GreaterOrEqual(t, took(t, client, "http://api.test/s9"), wait)
			}
		})
	}
}

func TestSurchargeIsTakenOffTheSecondQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := surcharged(general(3))
		took(t, client, "http://api.test/read")
		assert.Zero(t, took(t, client, "http://api.test/s9"))
		assert.EqualValues(t, 1, statsOf(t, client.Transport()).Quotas[0].Remaining)
		assert.GreaterOrEqual(t, took(t, client, "http://api.test/s9"), 30*time.Second)
	})
}

// A request that waits for its own quota does not stand in the way of those of
// the second one.
func TestSurchargeStandsInNoLineBeforeItsOwnQuotaAdmitsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := surcharged(general(50))
		took(t, client, "http://api.test/read")
		took(t, client, "http://api.test/s0")
		var wg sync.WaitGroup
		wg.Go(func() { assert.GreaterOrEqual(t, took(t, client, "http://api.test/s5"), 30*time.Second) })
		synctest.Wait()
		for range 10 {
			assert.Zero(t, took(t, client, "http://api.test/read"))
		}
		wg.Wait()
	})
}

// Those behind a request that waits for the second quota go on when it gives up.
func TestSurchargeThatIsCancelledLeavesTheSecondLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := surcharged(general(1))
		took(t, client, "http://api.test/read")
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { assert.Zero(t, fetch(ctx, client, "http://api.test/s9")) })
		synctest.Wait()
		start := time.Now()
		wg.Go(func() { took(t, client, "http://api.test/read") })
		synctest.Wait()
		time.Sleep(time.Second)
		cancel()
		wg.Wait()
		assert.Equal(t, time.Second, time.Since(start))
	})
}

// Nobody tells of the second quota any more once its window has passed: each
// window that follows is taken to be as long, and holds as much.
func TestSurchargesAloneKeepToEveryWindowOfTheSecondQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const window = 30 * time.Second
		start := time.Now()
		spent := make([]int, 6)
		client := surcharged(roundTripper(func(req *http.Request) (*http.Response, error) {
			defer time.Sleep(roundTime)
			since := time.Since(start)
			used := &spent[since/window]
			if req.URL.Path[1] == 's' {
				*used += 2
				return answered(req, http.StatusOK, ""), nil
			}
			*used++
			return answered(req, http.StatusOK, "", "RateLimit-Limit", "10", "RateLimit-Policy", "10;w=30",
				"RateLimit-Remaining", fmt.Sprint(10-*used), "RateLimit-Reset", fmt.Sprint(int((window - since%window).Seconds()))), nil
		}))
		took(t, client, "http://api.test/read")
		for range 22 {
			took(t, client, "http://api.test/s")
		}
		assert.Equal(t, []int{9, 10, 10, 10, 6, 0}, spent)
	})
}

// What is refused is not charged.
func TestSurchargeIsGivenBackAfterARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuse := true
		client := surcharged(roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.URL.Path[1] == 's' && refuse {
				refuse = false
				return answered(req, http.StatusTooManyRequests, "", "Retry-After", "1"), nil
			}
			return general(5)(req)
		}))
		took(t, client, "http://api.test/read")
		assert.Less(t, took(t, client, "http://api.test/s9"), 2*time.Second)
		assert.EqualValues(t, 3, statsOf(t, client.Transport()).Quotas[0].Remaining)
	})
}

func TestSurchargeOfTheRequestsOwnKeyIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := quick(general(3))
		o.Surcharge = func(*http.Request) (string, int) { return "", 2 }
		client := polite.New(o)
		took(t, client, "http://api.test/read")
		assert.Zero(t, took(t, client, "http://api.test/read"))
		require.EqualValues(t, 3, statsOf(t, client.Transport()).Quotas[0].Remaining)
	})
}

// Of more keys than are told apart the further ones share the books of the empty
// key. A surcharge there would have to wait behind the request that it is for.
func TestSurchargeInTheRequestsOwnBooksIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := quick(roundTripper(func(req *http.Request) (*http.Response, error) {
			return answered(req, http.StatusOK, "", "X-RateLimit-Limit", "100", "X-RateLimit-Remaining", "1", "X-RateLimit-Reset", "30"), nil
		}))
		o.QuotaKey = func(r *http.Request) string { return r.URL.Path }
		o.Surcharge = func(*http.Request) (string, int) { return "", 2 }
		client := polite.New(o)
		for i := range 64 {
			took(t, client, fmt.Sprintf("http://api.test/%d", i))
		}
		for range 3 {
			assert.Zero(t, took(t, client, "http://api.test/another"))
		}
	})
}

// What is under way on an endpoint moves to its bucket when that becomes known; a
// surcharge stays in the quota that it is booked in.
func TestSurchargeDoesNotFollowAnEndpointToItsBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket, search := "general", make(chan struct{})
		client := surcharged(roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.URL.Path == "/s9" {
				<-search
				return answered(req, http.StatusOK, ""), nil
			}
			return answered(req, http.StatusOK, "", "X-RateLimit-Bucket", bucket, "X-RateLimit-Limit", "100", "X-RateLimit-Remaining", "5", "X-RateLimit-Reset", "30"), nil
		}))
		took(t, client, "http://api.test/read")
		var wg sync.WaitGroup
		wg.Go(func() { took(t, client, "http://api.test/s9") })
		synctest.Wait()
		bucket = "other"
		took(t, client, "http://api.test/read")
		close(search)
		wg.Wait()
		left := map[string]int64{}
		for _, q := range statsOf(t, client.Transport()).Quotas {
			left[q.Policy] = q.Remaining
		}
		assert.Equal(t, map[string]int64{"general": 3, "other": 5}, left)
	})
}
