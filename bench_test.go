package polite_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	nethttptest "net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"botigaaroma.example/polite"
)

// instant is a base transport that answers from memory: what remains is the
// cost of the client.
type instant struct {
	headers http.Header
	status  func(n int64) int
	n       atomic.Int64
}

func (i *instant) RoundTrip(req *http.Request) (*http.Response, error) {
	status := http.StatusOK
	if i.status != nil {
		status = i.status(i.n.Add(1))
	}
	return &http.Response{
		Status: "200 OK", StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: i.headers, Body: io.NopCloser(strings.NewReader("{}")), ContentLength: 2, Request: req,
	}, nil
}

func quotaHeaders() http.Header {
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	h.Set("Aroma-RateLimit-Limit", "100000000")
	h.Set("Aroma-RateLimit-Restants", "99999999")
	h.Set("Aroma-RateLimit-Reinici", fmt.Sprint(time.Now().Unix()+3600))
	return h
}

// everyStage is a client with all stages on and none of them in the way.
func everyStage(base http.RoundTripper) *polite.Client {
	return polite.New(&polite.Options{Base: base, Limit: polite.LimitOptions{
		Rates:       []polite.Rate{{N: math.MaxInt, Per: time.Second, Burst: 1 << 20}},
		MaxInFlight: 1 << 20,
	}})
}

// rounds is how often both sides of a comparison take turns.
const rounds = 21

// compare measures two works in turns within one run, so that a noisy machine
// disturbs both alike, and reports by the medians what the second, with polite,
// costs more than the first: nanoseconds, their ratio, and allocations. Each is
// done n times.
func compare(b *testing.B, n int, without, with func(n int)) {
	b.Helper()
	without(n)
	with(n)
	for b.Loop() {
		var times, allocs [2][]float64
		for range rounds {
			for side, work := range []func(int){without, with} {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				start := time.Now()
				work(n)
				times[side] = append(times[side], float64(time.Since(start).Nanoseconds())/float64(n))
				runtime.ReadMemStats(&after)
				allocs[side] = append(allocs[side], float64(after.Mallocs-before.Mallocs)/float64(n))
			}
		}
		b.ReportMetric(median(times[1])-median(times[0]), "ns-more")
		b.ReportMetric(median(times[1])/median(times[0]), "ratio")
		b.ReportMetric(median(allocs[1])-median(allocs[0]), "allocs-more")
	}
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// calls returns the work of n calls, one after the other.
func calls(b *testing.B, client *http.Client, url string) func(n int) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		b.Fatal(err)
	}
	return func(n int) {
		for range n {
			roundTrip(b, client, req)
		}
	}
}

func roundTrip(b *testing.B, client *http.Client, req *http.Request) {
	resp, err := client.Do(req)
	if err != nil {
		b.Error(err)
		return
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
}

// BenchmarkHappyPath is the cost of one call in memory, all stages on.
func BenchmarkHappyPath(b *testing.B) {
	base := &instant{headers: quotaHeaders()}
	compare(b, 20_000,
		calls(b, &http.Client{Transport: base}, "http://api.test/v1"),
		calls(b, everyStage(base).HTTPClient(), "http://api.test/v1"))
}

// BenchmarkHappyPathSilent is the same with a server that announces no quota.
func BenchmarkHappyPathSilent(b *testing.B) {
	base := &instant{headers: http.Header{"Content-Type": {"application/json"}}}
	compare(b, 20_000,
		calls(b, &http.Client{Transport: base}, "http://api.test/v1"),
		calls(b, everyStage(base).HTTPClient(), "http://api.test/v1"))
}

// BenchmarkLoopback is the happy path over real sockets with keep-alive.
func BenchmarkLoopback(b *testing.B) {
	headers := quotaHeaders()
	server := nethttptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, values := range headers {
			w.Header()[name] = values
		}
		io.WriteString(w, "{}")
	}))
	defer server.Close()
	compare(b, 1000,
		calls(b, server.Client(), server.URL),
		calls(b, everyStage(server.Client().Transport).HTTPClient(), server.URL))
}

// BenchmarkContended has 64 goroutines call one host.
func BenchmarkContended(b *testing.B) {
	base := &instant{headers: quotaHeaders()}
	crowded := func(client *http.Client) func(int) {
		one := func(n int) { calls(b, client, "http://api.test/v1")(n) }
		return func(n int) {
			var wg sync.WaitGroup
			for range 64 {
				wg.Go(func() { one(n / 64) })
			}
			wg.Wait()
		}
	}
	compare(b, 19_200, crowded(&http.Client{Transport: base}), crowded(everyStage(base).HTTPClient()))
}

// BenchmarkRetry is 503, 503, 200 without waiting, against the same three
// requests made by hand: with a client that has the same duties but the retry, and
// with bare net/http, which has none.
func BenchmarkRetry(b *testing.B) {
	options := func(retry bool) *polite.Options {
		third := func(n int64) int {
			if n%3 != 0 {
				return http.StatusServiceUnavailable
			}
			return http.StatusOK
		}
		return &polite.Options{
			Base:    &instant{headers: quotaHeaders(), status: third},
			Retry:   polite.RetryOptions{Backoff: polite.Constant(0), BudgetRatio: -1, Disable: !retry},
			Breaker: polite.BreakerOptions{Ratio: -1},
		}
	}
	const url = "http://api.test/v1"
	for name, byHand := range map[string]*http.Client{
		"ThreeCalls": polite.New(options(false)).HTTPClient(),
		"ThreeBare":  {Transport: options(false).Base},
	} {
		b.Run(name, func(b *testing.B) {
			one := calls(b, byHand, url)
			compare(b, 10_000, func(n int) { one(3 * n) }, calls(b, polite.New(options(true)).HTTPClient(), url))
		})
	}
}

// BenchmarkAdmission is the wait-free way through gate, ledger and limiter of a
// host that is known: what is left of the happy path without a response.
func BenchmarkAdmission(b *testing.B) {
	broken := &refuser{errors.New("no network here")}
	client := polite.New(&polite.Options{Base: broken, Retry: polite.RetryOptions{Disable: true}, Breaker: polite.BreakerOptions{Disable: true}})
	req, _ := http.NewRequest(http.MethodGet, "http://api.test/v1", nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := client.Transport().RoundTrip(req); err == nil {
			b.Fatal("no error")
		}
	}
}

type refuser struct{ err error }

func (r *refuser) RoundTrip(*http.Request) (*http.Response, error) { return nil, r.err }

// BenchmarkHosts is the live memory of one host, and of a table that meets
// 100,000 of them.
func BenchmarkHosts(b *testing.B) {
	base := &instant{headers: quotaHeaders()}
	for _, size := range []struct {
		name     string
		maxHosts int
		hosts    int
	}{{"live", -1, 20_000}, {"bounded", 0, 100_000}} {
		b.Run(size.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				before := heap()
				client := polite.New(&polite.Options{Base: base, MaxHosts: size.maxHosts,
					Limit: polite.LimitOptions{Rates: []polite.Rate{polite.PerHour(1 << 30)}}})
				for i := range size.hosts {
					req, _ := http.NewRequest(http.MethodGet, fmt.Sprintf("http://host-%d.test/v1", i), nil)
					roundTrip(b, client.HTTPClient(), req)
				}
				grown := heap() - before
				b.ReportMetric(float64(grown)/float64(size.hosts), "B/host")
				runtime.KeepAlive(client)
			}
		})
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
