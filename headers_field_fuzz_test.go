package polite

import (
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"testing"
)

// fieldNames are all header names of the built-in table, without those that only
// single hosts use.
func fieldNames() []string {
	var names []string
	for _, row := range builtinTable {
		if len(row.Hosts) > 0 {
			continue
		}
		for _, list := range []string{row.Limit, row.Remaining, row.Used, row.Reset, row.Window, row.Retry, row.Bucket, row.state, row.policies,
			row.rate, row.perSecond, row.usedOf, row.windows, row.windowsUsed, row.named, row.categories, row.percentJSON, row.fractionUsed,
			row.verdict, row.veto, row.reach, row.refusal} {
			for name := range strings.SplitSeq(list, ",") {
				if name = canonicalPattern(name); name != "" {
					names = append(names, name)
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// FuzzOneField has each field of the table, alone or with another one, read any
// value, so that every reader of a shape is met soon.
func FuzzOneField(f *testing.F) {
	names := fieldNames()
	for _, c := range readHeaderCases(f) {
		for name, values := range c.header {
			if i, found := slices.BinarySearch(names, textproto.CanonicalMIMEHeaderKey(name)); found {
				f.Add(uint(i), values[0], uint(i+1), "60", "Requests", c.status)
			}
		}
	}
	f.Fuzz(func(t *testing.T, first uint, value string, second uint, other, dim string, status int) {
		name := func(i uint) string {
			return textproto.CanonicalMIMEHeaderKey(strings.Replace(names[i%uint(len(names))], "*", dim, 1))
		}
		h := http.Header{}
		h.Add(name(first), value)
		h.Add(name(second), other)
		s := builtinDialects().saying("api.example.com", status, h, noon)
		for _, q := range s.list() {
			checkQuota(t, q)
		}
		if s.retryAt.IsZero() != (s.hint == hintNone) || !s.retryAt.IsZero() && (!s.retryAt.After(noon) || !saneInstant(s.retryAt, noon)) {
			t.Fatalf("retry at %s by %s", s.retryAt, s.hint)
		}
	})
}
