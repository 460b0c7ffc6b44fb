package polite_test

import (
	"math"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
)

// smallBucket is a server with one token bucket, which tells its resets as whole
// seconds until it is full, and Retry-After. What is under /salut is not counted
// and told nothing, and what is under /cached comes out of a cache.
type smallBucket struct {
	size, perSecond float64

	mu      sync.Mutex
	tokens  float64
	at      time.Time
	refused int
}

func newSmallBucket(size int, per time.Duration) *smallBucket {
	return &smallBucket{size: float64(size), perSecond: float64(size) / per.Seconds(), tokens: float64(size), at: time.Now()}
}

func (b *smallBucket) RoundTrip(req *http.Request) (*http.Response, error) {
	time.Sleep(20 * time.Millisecond)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch req.URL.Path {
	case "/salut":
		return answered(req, 200, ""), nil
	case "/cached":
		return answered(req, 200, "", "Age", "60"), nil
	}
	now := time.Now()
	b.tokens = min(b.size, b.tokens+now.Sub(b.at).Seconds()*b.perSecond)
	b.at = now
	resp := answered(req, 200, "")
	if b.tokens < 1-1e-9 {
		b.refused++
		resp = answered(req, 429, "", "Retry-After", strconv.Itoa(int(math.Ceil((1-b.tokens)/b.perSecond))))
	} else {
		b.tokens--
	}
	resp.Header.Set("X-RateLimit-Limit", strconv.Itoa(int(b.size)))
	resp.Header.Set("X-RateLimit-Remaining", strconv.Itoa(int(b.tokens+1e-9)))
	resp.Header.Set("X-RateLimit-Reset", strconv.Itoa(int(math.Ceil((b.size-b.tokens)/b.perSecond-1e-9))))
	return resp, nil
}

// A volley of which many are refused at once says no more of how a bucket
// refills than one refusal, and nobody waits longer than until it is full, as
// the server told.
func TestRefusedVolleyDoesNotMakeABucketWaitForHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := polite.New(steadily(newSmallBucket(10, 20*time.Second)))
		do(t, c, request(t, http.MethodGet, "http://api.test/salut", ""))
		took := crowd(30, 30, func(int) { assert.Equal(t, 200, fetch(t.Context(), c, aCoffee)) })
		require.Less(t, took, time.Minute)
	})
}

// Refusals that others who use the same bucket bring about now and then do not
// add up to waits that nothing explains.
func TestRefusalsOfADayDoNotAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSmallBucket(10, 20*time.Second)
		c := polite.New(quick(s))
		for range 12 { // the bucket is seen to refill
			do(t, c, request(t, http.MethodGet, aCoffee, ""))
		}
		for range 24 {
			time.Sleep(time.Hour)
			do(t, c, request(t, http.MethodGet, aCoffee, ""))
			s.tokens = 0 // somebody else
			do(t, c, request(t, http.MethodGet, aCoffee, ""))
		}
		time.Sleep(time.Hour)
		took := crowd(20, 20, func(int) { assert.Equal(t, 200, fetch(t.Context(), c, aCoffee)) })
		require.Less(t, took, 30*time.Second)
		require.Equal(t, 24, s.refused)
	})
}

// A bucket that was recognised before its refill was is asked by one request once
// its reset has passed, and not by all who wait.
func TestPassedResetOfABucketLetsOneGoAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSmallBucket(2, time.Minute)
		c := polite.New(quick(s))
		do(t, c, request(t, http.MethodGet, aCoffee, ""))
		do(t, c, request(t, http.MethodGet, aCoffee, ""))
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				resp, err := c.Get(t.Context(), aCoffee)
				if err == nil {
					resp.Body.Close()
				}
			})
		}
		all.Wait()
		require.Zero(t, s.refused)
	})
}

// What a cache answered was not counted.
func TestCachedAnswersAreNoUseOfTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSmallBucket(2, 15*time.Second)
		c := polite.New(quick(s))
		for i := range 60 {
			do(t, c, request(t, http.MethodGet, aCoffee, ""))
			if i%3 == 0 {
				do(t, c, request(t, http.MethodGet, "http://api.test/cached", ""))
			}
		}
		require.Zero(t, s.refused)
	})
}
