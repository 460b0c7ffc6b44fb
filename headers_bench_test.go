package polite

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

func ordinaryHeader() http.Header {
	return http.Header{
		"Date": {"Sun, 01 Mar 2026 12:00:00 GMT"}, "Content-Type": {"application/json"}, "Content-Length": {"120"},
		"Connection": {"keep-alive"}, "Vary": {"Accept-Encoding"}, "Etag": {`"abc"`}, "Cache-Control": {"no-store"},
		"Strict-Transport-Security": {"max-age=31536000"}, "X-Request-Id": {"7f3a"}, "Server": {"nginx"},
	}
}

func ordinaryHeaderWith(fields ...string) http.Header {
	h := ordinaryHeader()
	for i := 0; i < len(fields); i += 2 {
		h.Add(fields[i], fields[i+1])
	}
	return h
}

var commonShapes = []struct {
	name   string
	status int
	header http.Header
}{
	{"nothing", 200, ordinaryHeader()},
	{"aroma", 200, ordinaryHeaderWith("Aroma-RateLimit-Limit", "60", "Aroma-RateLimit-Restants", "42", "Aroma-RateLimit-Reinici", "1772366437")},
	{"aroma-429", 429, ordinaryHeaderWith("Aroma-RateLimit-Limit", "60", "Aroma-RateLimit-Restants", "0", "Aroma-RateLimit-Reinici", "1772366437", "Retry-After", "37")},
	{"x-ratelimit", 200, ordinaryHeaderWith("X-RateLimit-Limit", "5000", "X-RateLimit-Remaining", "4999", "X-RateLimit-Reset", "1772368200", "X-RateLimit-Used", "1", "X-RateLimit-Resource", "core")},
	{"dimensions", 200, ordinaryHeaderWith("x-ratelimit-limit-requests", "60", "x-ratelimit-remaining-requests", "59", "x-ratelimit-reset-requests", "1s",
		"x-ratelimit-limit-tokens", "150000", "x-ratelimit-remaining-tokens", "149984", "x-ratelimit-reset-tokens", "6m0s")},
	{"draft-06", 200, ordinaryHeaderWith("RateLimit-Limit", "100", "RateLimit-Remaining", "50", "RateLimit-Reset", "30", "RateLimit-Policy", "100;w=60")},
	{"draft-07", 200, ordinaryHeaderWith("RateLimit", "limit=100, remaining=50, reset=30", "RateLimit-Policy", "100;w=60")},
	{"draft-08", 200, ordinaryHeaderWith("RateLimit", `"burst";r=8;t=1, "daily";r=4998;t=69076`, "RateLimit-Policy", `"burst";q=10;w=10, "daily";q=5000;w=86400`)},
	{"http-date", 503, ordinaryHeaderWith("Retry-After", "Sun, 01 Mar 2026 12:02:00 GMT")},
}

func BenchmarkReadHeader(b *testing.B) {
	d := builtinDialects()
	local := d.host("api.botigaaroma.example")
	for _, c := range commonShapes {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var s signals
				local.read(&s, c.status, c.header, noon)
			}
		})
	}
}

// BenchmarkReadHeaderByRows shows that the cost does not depend on the size of
// the table.
func BenchmarkReadHeaderByRows(b *testing.B) {
	for _, rows := range []int{10, len(builtinTable), 1000} {
		table := builtinTable[:min(rows, len(builtinTable))]
		for i := len(table); i < rows; i++ {
			table = append(table[:len(table):len(table)], Dialect{
				Name: fmt.Sprint(i), Hosts: []string{fmt.Sprintf("host%d.example", i)},
				Limit: fmt.Sprintf("X-Vendor%d-Limit", i), Remaining: "X-RateLimit-Remaining", Reset: fmt.Sprintf("X-Vendor%d-*-Reset", i),
			})
		}
		d := compile(table)
		local := d.host("api.botigaaroma.example")
		for _, c := range commonShapes[:4] {
			b.Run(fmt.Sprintf("%d/%s", rows, c.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					var s signals
					local.read(&s, c.status, c.header, noon)
				}
			})
		}
	}
}

func BenchmarkNewDialects(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		newDialects([]Dialect{{Name: "mine", Remaining: "X-Left"}})
	}
}

func BenchmarkParseRetryAfter(b *testing.B) {
	h := ordinaryHeaderWith("Retry-After", "37")
	b.ReportAllocs()
	for b.Loop() {
		ParseRetryAfter(h, noon)
	}
}

func TestCommonShapesAreReadWithoutAllocation(t *testing.T) {
	d := builtinDialects()
	now := time.Now()
	for _, c := range commonShapes {
		if n := testing.AllocsPerRun(100, func() { d.saying("api.botigaaroma.example:443", c.status, c.header, now) }); n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}

// BenchmarkReadHostileHeader reads a header of a mebibyte, all that net/http lets
// through by default, made to be slow.
func BenchmarkReadHostileHeader(b *testing.B) {
	for name, value := range map[string]string{
		"commas": strings.Repeat(",", 1<<17),
		"quotes": strings.Repeat(`"a`, 1<<16),
		"items":  strings.Repeat(`"a";r=1,`, 1<<14),
		"digits": strings.Repeat("9", 1<<17),
	} {
		h := ordinaryHeaderWith("RateLimit", value, "RateLimit-Policy", value, "RateLimit-Limit", value, "RateLimit-Remaining", value,
			"RateLimit-Reset", value, "Retry-After", value, "X-App-Rate-Limit", value, "X-App-Rate-Limit-Count", value)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				builtinDialects().saying("api.example.com", 429, h, noon)
			}
		})
	}
	b.Run("names", func(b *testing.B) {
		h := ordinaryHeader()
		for i := range 1 << 15 {
			h[fmt.Sprintf("X-Ratelimit-Limit-%014d", i)] = []string{"1"}
		}
		for b.Loop() {
			builtinDialects().saying("api.example.com", 429, h, noon)
		}
	})
	b.Run("hyphens", func(b *testing.B) {
		hyphens := strings.Repeat("-", 1<<20)
		h := ordinaryHeaderWith("X-Ratelimit-Limit"+hyphens, "1", hyphens+"-Ratelimit-Limit", "1")
		for b.Loop() {
			builtinDialects().saying("api.example.com", 429, h, noon)
		}
	})
}
