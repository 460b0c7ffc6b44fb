package polite_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
)

// telling answers every request with what tell says about it, counted from 1.
func telling(tell func(n int, h http.Header) (status int)) http.RoundTripper {
	n := 0
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		n++
		resp := answered(req, 200, "")
		resp.StatusCode = tell(n, resp.Header)
		return resp, nil
	})
}

// Ten thousand header lines, or values of a megabyte, are read in part: few
// quotas come of them, and no delay that the server did not name.
func TestHugeHeadersAreReadInPart(t *testing.T) {
	long := strings.Repeat("9", 1<<20)
	for name, fill := range map[string]func(http.Header){
		"names": func(h http.Header) {
			for i := range 10_000 {
				h.Set(fmt.Sprintf("X-Ratelimit-Remaining-Q%d", i), "5")
			}
		},
		"lines": func(h http.Header) {
			for i := range 10_000 {
				h.Add("RateLimit", fmt.Sprintf(`"q%d";r=5;t=60`, i))
				h.Add("RateLimit-Policy", fmt.Sprintf(`"q%d";q=10;w=60`, i))
			}
		},
		"items":     func(h http.Header) { h.Set("RateLimit", strings.Repeat(`"a";r=5;t=60, `, 70_000)+`"b";r=5;t=60`) },
		"digits":    func(h http.Header) { h.Set("X-RateLimit-Limit", long); h.Set("X-RateLimit-Remaining", long) },
		"commas":    func(h http.Header) { h.Set("X-RateLimit-Limit", strings.Repeat(",", 1<<20)) },
		"quotes":    func(h http.Header) { h.Set("RateLimit-Policy", strings.Repeat(`"`, 1<<20)) },
		"escapes":   func(h http.Header) { h.Set("RateLimit-Policy", `"`+strings.Repeat(`\`, 1<<20)) },
		"brackets":  func(h http.Header) { h.Set("RateLimit", strings.Repeat("(", 1<<20)) },
		"semicolon": func(h http.Header) { h.Set("RateLimit", `"a"`+strings.Repeat(";", 1<<20)) },
		"date":      func(h http.Header) { h.Set("Date", long); h.Set("Retry-After", "Mon, "+long) },
		"json":      func(h http.Header) { h.Set("X-Business-Use-Case-Usage", strings.Repeat(`{"a":`, 1<<18)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := steadily(telling(func(_ int, h http.Header) int { fill(h); return 200 }))
				c := polite.New(o)
				start := time.Now()
				for range 4 {
					do(t, c, request(t, http.MethodGet, aCoffee, ""))
				}
				assert.Less(t, time.Since(start), 2*time.Minute)
				assert.LessOrEqual(t, len(statsOf(t, c.Transport()).Quotas), 6)
			})
		})
	}
}

// A Retry-After that no calendar holds is far in the future: the answer comes
// back at once, and nothing overflows into a retry without delay.
func TestRetryAfterOfFourHundredDigits(t *testing.T) {
	for _, name := range []string{"Retry-After", "Retry-After-Ms", "X-Ms-Retry-After-Ms", "X-RateLimit-Reset-After"} {
		for _, digits := range []int{18, 19, 20, 400, 100_000} {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				c := polite.New(steadily(telling(func(n int, h http.Header) int {
					asked = n
					h.Set(name, strings.Repeat("9", digits))
					h.Set("X-RateLimit-Remaining", "0")
					return 429
				})))
				start := time.Now()
				resp, _ := do(t, c, request(t, http.MethodGet, aCoffee, ""))
				assert.Zero(t, time.Since(start))
				assert.Equal(t, 429, resp.StatusCode)
				assert.Equal(t, 1, asked, "%s of %d digits", name, digits)
				assert.Positive(t, responseError(t, resp).RetryAfter)
			})
		}
	}
}

// What a hostile host calls its quotas is remembered in part, and nothing of the
// header around it: a hundred names, long ones or short ones of long headers,
// leave next to nothing behind.
func TestNamesOfQuotasAreRememberedInPart(t *testing.T) {
	for kind, tell := range map[string]func(h http.Header, name string){
		"policies": func(h http.Header, name string) { h.Set("RateLimit", `"`+name+`";r=5000;t=60`) },
		"buckets": func(h http.Header, name string) {
			h.Set("X-RateLimit-Bucket", name)
			h.Set("X-RateLimit-Limit", "100")
			h.Set("X-RateLimit-Remaining", "50")
		},
		"dimensions": func(h http.Header, name string) {
			h.Set("X-RateLimit-Remaining-"+name, "50")
			h.Set("X-RateLimit-Limit-"+name, "100")
		},
	} {
		for _, size := range []int{3, 64 << 10} {
			t.Run(fmt.Sprint(kind, size), func(t *testing.T) {
				o := steadily(telling(func(n int, h http.Header) int {
					tell(h, (fmt.Sprintf("%03d", n) + strings.Repeat("x", 64<<10))[:size])
					return 200
				}))
				o.Trace = &polite.Trace{Diagnosis: func(polite.DiagnosisEvent) {}}                                   // which remembers more
				o.QuotaKey = func(req *http.Request) string { return strings.Trim(req.URL.Query().Get("key"), "0") } // none for every third
				c := polite.New(o)
				before := heapInUse()
				for i := range 100 {
					do(t, c, request(t, http.MethodGet, fmt.Sprintf("http://api.test/%c%c?key=%d", 'a'+i/26, 'a'+i%26, i%3), ""))
				}
				assert.Less(t, heapInUse()-before, int64(1<<20))
				for _, q := range statsOf(t, c.Transport()).Quotas {
					assert.LessOrEqual(t, len(q.Policy), 100)
				}
				runtime.KeepAlive(c)
			})
		}
	}
}

// heapInUse is the size of what is in use.
func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Text that a server calls a quota or a trace reaches the log in part.
func TestNamesInTheLogAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("x", 1<<20)
		longest := 0
		c := polite.New(&polite.Options{
			Base: telling(func(_ int, h http.Header) int {
				h.Set("RateLimit", `"`+long+`";r=5;t=60`)
				h.Set("Aroma-Traca-Id", long)
				return 500
			}),
			Trace: &polite.Trace{Quota: func(e polite.QuotaEvent) { longest = max(longest, len(e.Quota.Policy)) }},
		})
		resp, err := c.Get(t.Context(), aCoffee)
		require.NoError(t, err)
		assert.Less(t, len(responseError(t, resp).Error()), 1500)
		assert.Positive(t, longest)
		assert.Less(t, longest, 200)
	})
}
