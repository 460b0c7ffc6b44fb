package polite_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
)

// waitedFor is how long after a refusal with these headers the retry arrived.
func waitedFor(t *testing.T, o *polite.Options, status int, headers ...string) time.Duration {
	t.Helper()
	s := serving(t, politetest.Respond(status, headers...))
	o.Base = s.Transport()
	start := time.Now()
	resp, _ := do(t, polite.New(o), request(t, http.MethodGet, aCoffee, ""))
	require.Equal(t, 200, resp.StatusCode)
	at := arrivedAfter(s, start)
	require.Len(t, at, 2)
	return at[1]
}

// assertWait holds a wait to its hint: never shorter, and at most a fifth
// longer, after the margin that a reset has.
func assertWait(t *testing.T, want, margin, got time.Duration, why string) {
	t.Helper()
	assert.GreaterOrEqual(t, got, want, why)
	assert.LessOrEqual(t, got, (want+margin)*6/5, why)
}

// in2026 lets a bubble's clock go on to an instant that servers of today name.
func in2026() time.Time {
	now := time.Date(2026, time.June, 27, 10, 0, 0, 0, time.UTC)
	time.Sleep(time.Until(now))
	return now
}

// Fractions of a second are obeyed as written, and milliseconds go before
// seconds; a value that cannot be read leaves the word to the next header.
//
// Cases C013, C017.
func TestFinerHintsAreObeyed(t *testing.T) {
	for _, tc := range []struct {
		headers []string
		want    time.Duration
	}{
		{[]string{"Retry-After", "1.5"}, 1500 * time.Millisecond},
		{[]string{"Retry-After-Ms", "150", "Retry-After", "1"}, 150 * time.Millisecond},
		{[]string{"X-Ms-Retry-After-Ms", "150", "Retry-After", "1"}, 150 * time.Millisecond},
		{[]string{"Retry-After-Ms", "150", "X-Ms-Retry-After-Ms", "900", "Retry-After", "1"}, 150 * time.Millisecond},
		{[]string{"Retry-After-Ms", "soon", "X-Ms-Retry-After-Ms", "250", "Retry-After", "1"}, 250 * time.Millisecond},
		{[]string{"Retry-After-Ms", "soon", "Retry-After", "7"}, 7 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			assertWait(t, tc.want, 0, waitedFor(t, steadily(nil), 429, tc.headers...), fmt.Sprint(tc.headers))
		})
	}
}

// The date that names no zone means UTC, wherever the client runs.
//
// Case C021.
func TestDateWithoutAZoneIsUTCInEveryTimeZone(t *testing.T) {
	here := time.Local
	t.Cleanup(func() { time.Local = here })
	for _, zone := range []*time.Location{time.UTC, time.FixedZone("Jerusalem", 3*60*60), time.FixedZone("Honolulu", -10*60*60)} {
		time.Local = zone
		now := time.Date(2019, time.June, 3, 11, 0, 0, 0, time.UTC)
		for _, clock := range []time.Time{now, now.Local()} {
			at, ok := polite.ParseRetryAfter(http.Header{"Retry-After": {"Mon Jun  3 11:30:12 2019"}}, clock)
			require.True(t, ok, zone)
			assert.Equal(t, 1812*time.Second, at.Sub(now), zone)
		}
	}
}

// The end of an exhausted window is waited for in every spelling: spans, Unix
// time in seconds and milliseconds, ISO 8601, and all grammars of the drafts.
//
// Cases C029, C151, C153, C157.
func TestResetIsWaitedForInEverySpelling(t *testing.T) {
	const late = 30 * time.Second
	for _, tc := range []struct {
		want    time.Duration
		headers func(now time.Time) []string
	}{
		{5706 * time.Millisecond, func(now time.Time) []string {
			return []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", strconv.FormatInt(now.UnixMilli()+5706, 10)}
		}},
		{late, func(now time.Time) []string {
			return []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", strconv.FormatInt(now.Add(late).Unix(), 10)}
		}},
		{late, func(now time.Time) []string {
			return []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", now.Add(late).Format(time.RFC3339)}
		}},
		{late, func(now time.Time) []string {
			return []string{"X-RateLimit-Reset", now.Add(late).Format(time.RFC3339)}
		}},
		{505 * time.Millisecond, func(now time.Time) []string {
			return []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", strconv.FormatInt(now.Unix(), 10), "X-RateLimit-Reset-After", "0.505"}
		}},
		{late, func(time.Time) []string { return []string{"RateLimit", "limit=100, remaining=0, reset=30"} }},
		{late, func(time.Time) []string { return []string{"RateLimit", "limit=100, remaining=0, reset=30, colour=red"} }},
		{late, func(time.Time) []string { return []string{"RateLimit", `"p";r=0;t=30`} }},
		{late, func(time.Time) []string { return []string{"RateLimit", `"p";r=0;t=30;x=?1;y="a,b;c"`} }},
		{late, func(time.Time) []string { return []string{"RateLimit", `p;r=0;t=30`} }},
		{late, func(time.Time) []string { return []string{"RateLimit", `"q";r=50;t=3600, "p";r=0;t=30`} }},
	} {
		synctest.Test(t, func(t *testing.T) {
			headers := tc.headers(in2026())
			assertWait(t, tc.want, time.Second, waitedFor(t, steadily(nil), 429, headers...), fmt.Sprint(headers))
		})
	}
}

// What cannot be read is no hint, and no error either.
//
// Cases C151, C153, C157.
func TestUnreadableResetIsBackedOff(t *testing.T) {
	for _, headers := range [][]string{
		{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "2026-13-45T99:99:99Z"},
		{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "soon"},
		{"RateLimit", "limit=, remaining=, reset="},
		{"RateLimit", `"unclosed;r=0`},
		{"RateLimit", ";;;===,,"},
	} {
		synctest.Test(t, func(t *testing.T) {
			in2026()
			assert.Equal(t, time.Second, waitedFor(t, steadily(nil), 429, headers...), headers)
		})
	}
}

// A count that is absent or unreadable is unknown: that is never zero, and never
// stops anybody, not even after a count that was known.
//
// Case C155.
func TestUnknownRemainingIsNotZero(t *testing.T) {
	for _, tc := range []struct {
		header http.Header
		want   []polite.Quota
	}{
		{http.Header{"X-Ratelimit-Limit": {"100"}, "X-Ratelimit-Remaining": {"42"}}, []polite.Quota{{Limit: 100, Remaining: 42}}},
		{http.Header{"X-Ratelimit-Limit": {"100"}, "X-Ratelimit-Remaining": {"abc"}}, []polite.Quota{{Limit: 100, Remaining: -1}}},
		{http.Header{"X-Ratelimit-Limit": {"100"}}, []polite.Quota{{Limit: 100, Remaining: -1}}},
		{http.Header{}, nil},
	} {
		assert.Equal(t, tc.want, polite.ParseQuota(tc.header, time.Now()), tc.header)
	}
	synctest.Test(t, func(t *testing.T) {
		quota := func(remaining string) politetest.Reply {
			return politetest.Respond(200, "X-RateLimit-Limit", "100", "X-RateLimit-Remaining", remaining, "X-RateLimit-Reset", "60")
		}
		s := serving(t, quota("42"), politetest.Respond(200), quota("abc").Times(50))
		c := polite.New(steadily(s.Transport()))
		start := time.Now()
		for range 52 {
			do(t, c, request(t, http.MethodGet, aCoffee, ""))
		}
		assert.Zero(t, time.Since(start))
	})
}

// A row for a header of one's own: its name is looked for, its value is read in
// the unit of the row, and without the row it means nothing. X-RateLimit-Retry-After
// is built in, and told by its size.
//
// Case C159.
func TestDialectNamesTheHeaderOfTheHint(t *testing.T) {
	const span = 30 * time.Second
	for name, tc := range map[string]struct {
		header string
		form   polite.TimeForm
		value  func(now time.Time) string
		want   time.Duration
	}{
		"not in the list":      {header: "", value: unixTime(span), want: time.Second},
		"Unix seconds":         {"X-Come-Back-At", polite.EpochSeconds, unixTime(span), span},
		"seconds":              {"X-Come-Back-At", polite.DeltaSeconds, always("30"), span},
		"milliseconds":         {"X-Come-Back-At", polite.DeltaMilliseconds, always("30000"), span},
		"by size":              {"X-Come-Back-At", polite.AnyTime, unixTime(span), span},
		"one of several names": {"X-Wait, X-Come-Back-At", polite.EpochSeconds, unixTime(span), span},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := steadily(nil)
				if tc.header != "" {
					o.Dialects = []polite.Dialect{{Name: "this framework", Retry: tc.header, RetryAs: tc.form}}
				}
				got := waitedFor(t, o, 429, "X-Come-Back-At", tc.value(in2026()))
				assertWait(t, tc.want, 0, got, name)
			})
		})
	}
	for name, o := range map[string]*polite.Options{
		"built in": steadily(nil),
		"by a row": {Dialects: []polite.Dialect{{Retry: "X-RateLimit-Retry-After", RetryAs: polite.EpochSeconds}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			now := in2026()
			assertWait(t, span, 0, waitedFor(t, o, 429, "X-RateLimit-Retry-After", unixTime(span)(now)), name)
		})
	}
}

// unixTime is the instant after so long, in Unix seconds; always is a value that
// needs no clock.
func unixTime(after time.Duration) func(time.Time) string {
	return func(now time.Time) string { return strconv.FormatInt(now.Add(after).Unix(), 10) }
}

func always(value string) func(time.Time) string { return func(time.Time) string { return value } }

// A hint is only ever lengthened, by a random share, so that waits differ; one
// that is longer than the longest wait is not cut to it but handed back at once.
//
// Case C167.
func TestHintsAreOnlyEverLengthened(t *testing.T) {
	distinct := make(map[time.Duration]bool)
	for i := range 20 {
		hint := time.Duration(600+i*1400/19) * time.Second // up to 2,000 s
		synctest.Test(t, func(t *testing.T) {
			o := steadily(nil)
			o.Retry.MaxWait, o.Retry.MaxElapsed, o.Limit.MaxWait = time.Hour, 2*time.Hour, time.Hour
			got := waitedFor(t, o, 429, "Retry-After", strconv.Itoa(int(hint.Seconds())))
			assertWait(t, hint, 0, got, hint.String())
			distinct[got-hint] = true
		})
		synctest.Test(t, func(t *testing.T) {
			s := serving(t, politetest.Respond(429, "Retry-After", strconv.Itoa(int(hint.Seconds()+1))).Times(-1))
			o := steadily(s.Transport())
			o.Retry.MaxWait, o.Retry.MaxElapsed = 600*time.Second, -1
			start := time.Now()
			resp, _ := do(t, polite.New(o), request(t, http.MethodGet, aCoffee, ""))
			assert.Equal(t, 429, resp.StatusCode)
			assert.Equal(t, hint+time.Second, responseError(t, resp).RetryAfter, "the whole of it")
			assert.Zero(t, time.Since(start))
			assert.Equal(t, 1, s.Requests())
		})
	}
	assert.Greater(t, len(distinct), 15, "the shares differ")
}
