package polite_test

import (
	"fmt"
	"net/http"
	"time"

	"botigaaroma.example/polite"
)

// receipt is when the answers of these examples arrive.
var receipt = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func headerOf(fields ...string) http.Header {
	h := make(http.Header)
	for i := 0; i < len(fields); i += 2 {
		h.Add(fields[i], fields[i+1])
	}
	return h
}

// What five servers say in five dialects, understood without configuration.
func ExampleParseQuota() {
	answers := []struct {
		server string
		header http.Header
	}{
		{"Botiga Aroma", headerOf(
			"Aroma-RateLimit-Limit", "60",
			"Aroma-RateLimit-Restants", "12",
			"Aroma-RateLimit-Reinici", "1772366437")},
		{"GitHub", headerOf(
			"X-RateLimit-Limit", "5000",
			"X-RateLimit-Remaining", "4987",
			"X-RateLimit-Reset", "1772368200",
			"X-RateLimit-Resource", "graphql")},
		{"Cloudflare", headerOf(
			"RateLimit", `"burst";r=8;t=1, "daily";r=98;t=43200`,
			"RateLimit-Policy", `"burst";q=10;w=10, "daily";q=5000;w=86400`)},
		{"OpenAI", headerOf(
			"x-ratelimit-limit-requests", "60",
			"x-ratelimit-remaining-requests", "59",
			"x-ratelimit-reset-requests", "1s",
			"x-ratelimit-limit-tokens", "150000",
			"x-ratelimit-remaining-tokens", "0",
			"x-ratelimit-reset-tokens", "6m0s")},
		{"Shopify", headerOf(
			"X-Shopify-Shop-Api-Call-Limit", "32/40")},
	}
	for _, a := range answers {
		fmt.Println(a.server)
		for _, q := range polite.ParseQuota(a.header, receipt) {
			fmt.Printf("  %q: %d of %d %s", q.Policy, q.Remaining, q.Limit, orRequests(q.Unit))
			if !q.Reset.IsZero() {
				fmt.Printf(", restored in %s", q.Reset.Sub(receipt))
			}
			if q.Window > 0 {
				fmt.Printf(", every %s", q.Window)
			}
			fmt.Println()
		}
	}
	// Output:
	// Botiga Aroma
	//   "": 12 of 60 requests, restored in 37s
	// GitHub
	//   "graphql": 4987 of 5000 points, restored in 30m0s
	// Cloudflare
	//   "daily": 98 of 5000 requests, restored in 12h0m0s, every 24h0m0s
	//   "burst": 8 of 10 requests, restored in 1s, every 10s
	// OpenAI
	//   "tokens": 0 of 150000 tokens, restored in 6m0s
	//   "requests": 59 of 60 requests, restored in 1s
	// Shopify
	//   "": 8 of 40 requests
}

func orRequests(unit string) string {
	if unit == "" {
		return "requests"
	}
	return unit
}

// The same question in five spellings, and one answer that is none.
func ExampleParseRetryAfter() {
	for _, h := range []http.Header{
		headerOf("Retry-After", "37"),
		headerOf("Retry-After", "1.5"),
		headerOf("Retry-After-Ms", "250", "Retry-After", "1"),
		// A server whose clock is an hour behind: Date tells.
		headerOf("Retry-After", "Sun, 01 Mar 2026 11:02:00 GMT", "Date", "Sun, 01 Mar 2026 11:00:00 GMT"),
		headerOf("X-Retry-In", "1m2.5s"),
		headerOf("Retry-After", "0"),
	} {
		if at, ok := polite.ParseRetryAfter(h, receipt); ok {
			fmt.Println("wait", at.Sub(receipt))
		} else {
			fmt.Println("no hint")
		}
	}
	// Output:
	// wait 37s
	// wait 1.5s
	// wait 250ms
	// wait 2m0s
	// wait 1m2.5s
	// no hint
}
