package polite

import (
	"net/http"
	"net/textproto"
	"strings"
	"testing"
)

// FuzzDialect reads a response with a row of the user's, who may write anything
// into it. A name that is one is found again, also where a pattern would match.
func FuzzDialect(f *testing.F) {
	for _, row := range builtinTable {
		f.Add(row.Limit, row.Remaining, row.Reset, strings.Join(row.Hosts, ","), "X-RateLimit-Remaining", "5")
	}
	f.Add("*", "X-*-*, *-Left, X-*", "Date", "*.example.com.:80, [::1]:80, ,", "X-Search-Left", "0")
	f.Fuzz(func(t *testing.T, limit, remaining, reset, hosts, name, value string) {
		d := newDialects([]Dialect{{Limit: limit, Remaining: remaining, Reset: reset, Hosts: strings.Split(hosts, ",")},
			{Limit: limit, Remaining: remaining, Reset: reset}})
		h := http.Header{name: {value}}
		for _, host := range append(strings.Split(hosts, ","), hosts, "api.example.com") {
			if d.host(host) == nil {
				t.Fatalf("no rows for %q", host)
			}
			s := d.saying(host, http.StatusTooManyRequests, h, noon)
			for _, q := range s.list() {
				checkQuota(t, q)
			}
		}
		for _, name := range strings.Split(remaining, ",") {
			pattern := canonicalPattern(name)
			if pattern == "" || strings.Contains(pattern, "*") {
				continue
			}
			if textproto.CanonicalMIMEHeaderKey(pattern) != pattern {
				t.Fatalf("%q is not canonical", pattern)
			}
			if fields, dim := d.names.find(pattern); len(fields) == 0 || dim != "" {
				t.Fatalf("%q is not found", pattern)
			}
		}
	})
}
