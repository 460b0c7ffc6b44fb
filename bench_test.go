package polite_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	nethttptest "net/http/httptest"
	"runtime"
	"strings"
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
		Rates:       []polite.Rate{{N: 1 << 40, Per: time.Second, Burst: 1 << 20}},
		MaxInFlight: 1 << 20,
	}})
}

func roundTrips(b *testing.B, client *http.Client, url string) {
	b.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		roundTrip(b, client, req)
	}
}

func roundTrip(b *testing.B, client *http.Client, req *http.Request) {
	resp, err := client.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
}

// BenchmarkHappyPath is the cost of one call in memory, all stages on, against
// bare net/http.
func BenchmarkHappyPath(b *testing.B) {
	base := &instant{headers: quotaHeaders()}
	b.Run("bare", func(b *testing.B) { roundTrips(b, &http.Client{Transport: base}, "http://api.test/v1") })
	b.Run("polite", func(b *testing.B) { roundTrips(b, everyStage(base).HTTPClient(), "http://api.test/v1") })
}

// BenchmarkLoopback is the same over real sockets with keep-alive.
func BenchmarkLoopback(b *testing.B) {
	headers := quotaHeaders()
	server := nethttptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, values := range headers {
			w.Header()[name] = values
		}
		io.WriteString(w, "{}")
	}))
	defer server.Close()
	b.Run("bare", func(b *testing.B) { roundTrips(b, server.Client(), server.URL) })
	b.Run("polite", func(b *testing.B) {
		roundTrips(b, everyStage(server.Client().Transport).HTTPClient(), server.URL)
	})
}

// BenchmarkContended has 64 goroutines call one host.
func BenchmarkContended(b *testing.B) {
	base := &instant{headers: quotaHeaders()}
	for _, side := range []struct {
		name   string
		client *http.Client
	}{{"bare", &http.Client{Transport: base}}, {"polite", everyStage(base).HTTPClient()}} {
		b.Run(side.name, func(b *testing.B) {
			b.SetParallelism((64 + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0))
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				req, _ := http.NewRequest(http.MethodGet, "http://api.test/v1", nil)
				for pb.Next() {
					roundTrip(b, side.client, req)
				}
			})
		})
	}
}

// BenchmarkRetry is 503, 503, 200 without waiting, against the same three
// requests made by hand.
func BenchmarkRetry(b *testing.B) {
	third := func(n int64) int {
		if n%3 != 0 {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	}
	b.Run("bare", func(b *testing.B) {
		client := &http.Client{Transport: &instant{headers: quotaHeaders(), status: third}}
		req, _ := http.NewRequest(http.MethodGet, "http://api.test/v1", nil)
		b.ReportAllocs()
		for b.Loop() {
			for range 3 {
				roundTrip(b, client, req)
			}
		}
	})
	b.Run("polite", func(b *testing.B) {
		client := polite.New(&polite.Options{
			Base:    &instant{headers: quotaHeaders(), status: third},
			Retry:   polite.RetryOptions{Backoff: polite.Constant(0), BudgetRatio: -1},
			Breaker: polite.BreakerOptions{Ratio: -1},
		})
		roundTrips(b, client.HTTPClient(), "http://api.test/v1")
	})
}

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
