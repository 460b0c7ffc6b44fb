package polite

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// The fuzz targets look for panics, hangs and values that break a promise. Their
// seeds are the fields of testdata/headers and the corpus in testdata/fuzz.

func seedValues(f *testing.F, add func(value string)) {
	f.Helper()
	for _, c := range readHeaderCases(f) {
		for _, values := range c.header {
			for _, v := range values {
				add(v)
			}
		}
	}
}

// saneInstant reports whether an instant lies between the receipt and a century
// after it.
func saneInstant(at, now time.Time) bool {
	return !at.Before(now) && at.Sub(now) <= farAhead
}

func FuzzParseRetryAfter(f *testing.F) {
	seedValues(f, func(v string) { f.Add(v, "", noon.Unix()) })
	f.Add("Sun, 01 Mar 2026 12:00:37 GMT", "Sun, 01 Mar 2026 11:00:00 GMT", int64(946684800))
	f.Fuzz(func(t *testing.T, value, date string, unix int64) {
		now := time.Unix(unix%253402300799, 0)
		at, ok := ParseRetryAfter(http.Header{"Retry-After": {value}, "Date": {date}}, now)
		if ok != !at.IsZero() {
			t.Fatalf("%v, %v", at, ok)
		}
		if ok && (!at.After(now) || !saneInstant(at, now)) {
			t.Fatalf("%s after %s", at, now)
		}
	})
}

func FuzzParseQuota(f *testing.F) {
	for _, c := range readHeaderCases(f) {
		var b strings.Builder
		for name, values := range c.header {
			for _, v := range values {
				b.WriteString(name + ":" + v + "\n")
			}
		}
		f.Add(b.String(), c.status)
	}
	f.Fuzz(func(t *testing.T, text string, status int) {
		h := http.Header{}
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
			h.Add(name, value)
		}
		for _, q := range ParseQuota(h, noon) {
			checkQuota(t, q)
		}
		s := builtinDialects().saying("api.example.com", status, h, noon)
		for i, q := range s.quotas[:s.n] {
			checkQuota(t, q)
			if i > 0 && moreBinding(&q, &s.quotas[i-1]) {
				t.Fatalf("%v after %v", q, s.quotas[i-1])
			}
			for _, o := range s.quotas[:i] {
				if o.Policy == q.Policy && o.Unit == q.Unit {
					t.Fatalf("%v twice", q)
				}
			}
		}
		if s.retryAt.IsZero() != (s.hint == hintNone) || !s.retryAt.IsZero() && (!s.retryAt.After(noon) || !saneInstant(s.retryAt, noon)) {
			t.Fatalf("retry at %s by %s", s.retryAt, s.hint)
		}
	})
}

func checkQuota(t *testing.T, q Quota) {
	t.Helper()
	switch {
	case q.Limit < -1, q.Limit == 0, q.Remaining < -1, q.Window < 0, q.Window > farAhead:
	case !q.Reset.IsZero() && !saneInstant(q.Reset, noon):
	case q.Limit < 0 && q.Remaining < 0 && !q.Reset.After(noon):
	default:
		return
	}
	t.Fatalf("%+v", q)
}

func FuzzParseNumber(f *testing.F) {
	seedValues(f, func(v string) { f.Add(v) })
	f.Fuzz(func(t *testing.T, s string) {
		n, ok := parseNumber(s)
		if n.whole < 0 || n.whole > maxWhole || n.nanos < 0 || n.nanos >= 1e9 && ok {
			t.Fatalf("%+v", n)
		}
		for _, unit := range []time.Duration{time.Nanosecond, time.Millisecond, time.Second, time.Minute, 7 * 24 * time.Hour} {
			if d := n.times(unit); ok && (d.Abs() > farAhead || (d < 0) != (n.negative && !n.isZero())) {
				t.Fatalf("%+v times %s = %s", n, unit, d)
			}
		}
		if ok && strings.Trim(s, "-.0123456789") != "" {
			t.Fatalf("%q is no number", s)
		}
	})
}

func FuzzParseTime(f *testing.F) {
	seedValues(f, func(v string) { f.Add(v, uint8(0)) })
	f.Fuzz(func(t *testing.T, s string, form uint8) {
		m, ok := parseTime(s, TimeForm(form), noon)
		if ok && m.delta.Abs() > farAhead {
			t.Fatalf("%q is %s", s, m.delta)
		}
		if ok && m.absolute() && m.delta != 0 {
			t.Fatalf("%q is both %s and %s", s, m.at, m.delta)
		}
	})
}

// FuzzParseDate compares with the standard library, which knows fewer forms: it
// must not read one differently.
func FuzzParseDate(f *testing.F) {
	seedValues(f, func(v string) { f.Add(v) })
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := parseDate(s, noon)
		if !ok {
			return
		}
		for _, layout := range []string{http.TimeFormat, time.ANSIC, time.RFC3339Nano, time.RFC1123Z} {
			// What is finer than a nanosecond is rounded up here and cut off there.
			if want, err := time.Parse(layout, s); err == nil && got.Sub(want) > 1 || err == nil && got.Before(want) {
				t.Fatalf("%q is %s by %q, not %s", s, want, layout, got)
			}
		}
	})
}

func FuzzParseItemList(f *testing.F) {
	seedValues(f, func(v string) { f.Add(v, v) })
	f.Fuzz(func(t *testing.T, a, b string) {
		lines := []string{a, b}
		want := listOf(lines).count()
		n := 0
		for list := listOf(lines); ; n++ {
			text, ok := list.next()
			if !ok {
				break
			}
			var it rateItem
			it.parse(text)
			if it.limit < -1 || it.window < 0 || it.text != text {
				t.Fatalf("%+v", it)
			}
			if !strings.Contains(a, text) && !strings.Contains(b, text) {
				t.Fatalf("%q is in neither line", text)
			}
		}
		if n != want || n > maxItems {
			t.Fatalf("%d items, counted %d", n, want)
		}
	})
}
