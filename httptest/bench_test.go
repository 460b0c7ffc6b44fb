package httptest

import (
	"net/http"
	"testing"
	"time"
)

// BenchmarkRoundTrip is what the server costs a test that sends one small request in memory.
func BenchmarkRoundTrip(b *testing.B) {
	for _, bench := range []struct {
		name   string
		config Config
	}{
		{"default", Config{Limit: Limit{Algorithm: TokenBucket, N: 1_000_000, Per: time.Millisecond}}},
		{"unlimited", Config{Limit: Limit{N: -1}}},
		{"refused", Config{Limit: Limit{N: 1, Per: 100 * time.Hour}}},
		{"aroma", Aroma()},
	} {
		b.Run(bench.name, func(b *testing.B) {
			bench.config.KeepArrivals = -1 // the memory of a hundred thousand of them is not what is measured
			s := Must(b, bench.config)
			transport := s.Transport()
			req, err := http.NewRequest(http.MethodGet, BaseURL+"/v1/cafes/caf_00042", nil)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				resp, err := transport.RoundTrip(req)
				if err != nil {
					b.Fatal(err)
				}
				_ = resp.Body.Close()
			}
		})
	}
}
