package polite

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// headerCase is one response of testdata/headers with what must be understood.
//
// The files hold blocks and single lines. A block begins with "## title"; then
// come, as far as they differ from the defaults, "T instant", "host name" and
// "HTTP status", the header fields, and one "=> fact" per fact. A single line is
// "| status | field | … => fact & fact". Everything that is not stated must not
// be understood either.
type headerCase struct {
	title  string
	now    time.Time
	host   string
	status int
	header http.Header
	want   []string
}

func newHeaderCase(title string) *headerCase {
	return &headerCase{
		title: title, now: noon, host: "api.example.com", status: http.StatusOK,
		header: http.Header{},
	}
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func (c *headerCase) add(t testing.TB, line string) {
	t.Helper()
	var err error
	switch {
	case strings.HasPrefix(line, "=>"):
		if fact := strings.TrimSpace(line[2:]); fact != "nothing" {
			c.want = append(c.want, fact)
		}
	case strings.HasPrefix(line, "T "):
		c.now, err = time.Parse(time.RFC3339Nano, line[2:])
	case strings.HasPrefix(line, "host "):
		c.host = line[5:]
	case strings.HasPrefix(line, "HTTP "):
		c.status, err = strconv.Atoi(line[5:])
	default:
		name, value, ok := strings.Cut(line, ":")
		require.True(t, ok, "%s: %q is no field", c.title, line)
		c.header.Add(name, strings.TrimPrefix(value, " "))
	}
	require.NoError(t, err, c.title)
}

func readHeaderCases(t testing.TB) []*headerCase {
	t.Helper()
	files, err := filepath.Glob("testdata/headers/*.txt")
	require.NoError(t, err)
	var cases []*headerCase
	for _, name := range files {
		f, err := os.Open(name)
		require.NoError(t, err)
		lines := bufio.NewScanner(f)
		for n := 1; lines.Scan(); n++ {
			line := lines.Text()
			switch {
			case line == "", strings.HasPrefix(line, "# "):
			case strings.HasPrefix(line, "## "):
				cases = append(cases, newHeaderCase(line[3:]))
			case strings.HasPrefix(line, "| "):
				c := newHeaderCase(line)
				given, facts, ok := strings.Cut(line[2:], " => ")
				require.True(t, ok, "%s:%d: no facts", name, n)
				for i, part := range strings.Split(given, " | ") {
					if i == 0 {
						part = "HTTP " + part
					}
					c.add(t, part)
				}
				for _, fact := range strings.Split(facts, " & ") {
					c.add(t, "=> "+fact)
				}
				cases = append(cases, c)
			default:
				require.NotEmpty(t, cases, "%s:%d: no case", name, n)
				cases[len(cases)-1].add(t, line)
			}
		}
		require.NoError(t, lines.Err())
		require.NoError(t, f.Close())
	}
	return cases
}

// saying returns what a response of a host says.
func (d *dialects) saying(host string, status int, h http.Header, now time.Time) (s signals) {
	d.host(host).read(&s, status, h, now)
	return s
}

// facts writes down what was understood, in the words of the files.
func facts(s signals, now time.Time) []string {
	var out []string
	for _, q := range s.quotas[:s.n] {
		out = append(out, quotaFact(q, now))
	}
	if !s.retryAt.IsZero() {
		out = append(out, fmt.Sprintf("retry %s by %s", shortSpan(s.retryAt.Sub(now)), s.hint))
	}
	if s.refused {
		out = append(out, "refused")
	}
	if s.veto {
		out = append(out, "veto")
	}
	if s.bucket != "" {
		out = append(out, "bucket "+s.bucket)
	}
	if s.skew != 0 {
		out = append(out, "skew "+shortSpan(s.skew))
	}
	return out
}

func quotaFact(q Quota, now time.Time) string {
	var b strings.Builder
	b.WriteString("quota ")
	if q.Policy != "" {
		b.WriteString(q.Policy + " ")
	}
	fmt.Fprintf(&b, "%s/%s", orUnknown(q.Remaining), orUnknown(q.Limit))
	if q.Unit != "" {
		b.WriteString(" " + q.Unit)
	}
	if !q.Reset.IsZero() {
		b.WriteString(" reset " + shortSpan(q.Reset.Sub(now)))
	}
	if q.Window != 0 {
		b.WriteString(" window " + shortSpan(q.Window))
	}
	return b.String()
}

func orUnknown(n int64) string {
	if n == -1 {
		return "?"
	}
	return strconv.FormatInt(n, 10)
}

// shortSpan writes 1h instead of 1h0m0s.
func shortSpan(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Cases C011, C013, C015, C017, C021, C023, C151, C153, C155, C157.
func TestResponsesAreUnderstood(t *testing.T) {
	cases := readHeaderCases(t)
	assert.GreaterOrEqual(t, len(cases), 200)
	for _, c := range cases {
		t.Run(c.title, func(t *testing.T) {
			s := builtinDialects().saying(c.host, c.status, c.header, c.now)
			assert.Equal(t, c.want, facts(s, c.now))
			assert.Equal(t, s.retryAt.IsZero(), s.hint == hintNone, "an instant has a source")
		})
	}
}
