package httptest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Dialect is one way to announce a quota in headers. The zero value is [AromaCatalan].
type Dialect int

// The dialects that the server can speak, several at once.
const (
	AromaCatalan   Dialect = iota // Aroma-RateLimit-Limit, -Restants, -Reinici (Unix seconds)
	AromaEnglish                  // Aroma-RateLimit-Limit, -Remaining, -Reset (Unix seconds)
	XRateLimit                    // X-RateLimit-Limit, -Remaining, -Reset (Unix seconds)
	XRateLimitLeft                // X-RateLimit-Limit, -Remaining, -Reset (seconds left)
	Draft6                        // RateLimit-Limit, -Remaining, -Reset (seconds left) and RateLimit-Policy
	Draft7                        // RateLimit: limit=60, remaining=0, reset=37
	Draft8                        // RateLimit: "name";r=0;t=37 and RateLimit-Policy: "name";q=60;w=60
)

var dialectNames = [...]string{"aroma", "aroma-english", "x-ratelimit", "x-ratelimit-left", "draft-6", "draft-7", "draft-8"}

// String returns the name that [ParseDialect] reads, such as "draft-8".
func (d Dialect) String() string {
	if d < 0 || int(d) >= len(dialectNames) {
		return fmt.Sprintf("Dialect(%d)", int(d))
	}
	return dialectNames[d]
}

// ParseDialect reads a name as [Dialect.String] writes it, in any case.
// An unknown name is a [*ConfigError] that lists the known ones.
func ParseDialect(name string) (Dialect, error) {
	for d, known := range dialectNames {
		if strings.EqualFold(name, known) {
			return Dialect(d), nil
		}
	}
	return 0, unknownName("dialect", name, dialectNames[:])
}

// quota is what one response announces about one policy.
type quota struct {
	policy    string
	limit     Limit
	remaining int
	reset     time.Time
}

// exposed lists every header of this server that a browser's script may read.
const exposed = "Aroma-RateLimit-Limit, Aroma-RateLimit-Restants, Aroma-RateLimit-Reinici, Aroma-RateLimit-Remaining, Aroma-RateLimit-Reset, " +
	"X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, " +
	"RateLimit, RateLimit-Policy, Retry-After, Aroma-Traca-Id"

// announce writes the quotas in one dialect. Only the newest draft can name several; the others describe `shown`.
func (d Dialect) announce(h http.Header, quotas []quota, shown quota, now time.Time, skew time.Duration) {
	limit, remaining := strconv.Itoa(shown.limit.N), strconv.Itoa(max(0, shown.remaining))
	epoch := strconv.FormatInt(unixUp(shown.reset.Add(skew)), 10)
	left := strconv.FormatInt(secondsUp(shown.reset.Sub(now)), 10)
	switch d {
	case AromaCatalan:
		set(h, "Aroma-Ratelimit-Limit", limit)
		set(h, "Aroma-Ratelimit-Restants", remaining)
		set(h, "Aroma-Ratelimit-Reinici", epoch)
	case AromaEnglish:
		set(h, "Aroma-Ratelimit-Limit", limit)
		set(h, "Aroma-Ratelimit-Remaining", remaining)
		set(h, "Aroma-Ratelimit-Reset", epoch)
	case XRateLimit, XRateLimitLeft:
		set(h, "X-Ratelimit-Limit", limit)
		set(h, "X-Ratelimit-Remaining", remaining)
		set(h, "X-Ratelimit-Reset", epoch)
		if d == XRateLimitLeft {
			set(h, "X-Ratelimit-Reset", left)
		}
	case Draft6:
		set(h, "Ratelimit-Limit", limit)
		set(h, "Ratelimit-Remaining", remaining)
		set(h, "Ratelimit-Reset", left)
		set(h, "Ratelimit-Policy", limit+";w="+windowSeconds(shown.limit))
	case Draft7:
		set(h, "Ratelimit", "limit="+limit+", remaining="+remaining+", reset="+left)
		set(h, "Ratelimit-Policy", limit+";w="+windowSeconds(shown.limit))
	case Draft8:
		var state, policy string
		for _, q := range quotas {
			if state != "" {
				state, policy = state+", ", policy+", "
			}
			name := strconv.Quote(q.policy)
			state += name + ";r=" + strconv.Itoa(max(0, q.remaining)) + ";t=" + strconv.FormatInt(secondsUp(q.reset.Sub(now)), 10)
			policy += name + ";q=" + strconv.Itoa(q.limit.N) + ";w=" + windowSeconds(q.limit)
		}
		set(h, "Ratelimit", state)
		set(h, "Ratelimit-Policy", policy)
	}
}

// set avoids the canonicalisation of a name that is known to be canonical.
func set(h http.Header, canonical, value string) { h[canonical] = []string{value} }

func windowSeconds(l Limit) string { return strconv.FormatInt(secondsUp(l.Per), 10) }

// unixUp rounds up to a whole Unix second: an announced reset is never early.
func unixUp(t time.Time) int64 {
	s := t.Unix()
	if t.Nanosecond() > 0 {
		s++
	}
	return s
}

// secondsUp rounds a wait up to whole seconds, never below 0.
func secondsUp(d time.Duration) int64 {
	return max(0, divUp(int64(d), int64(time.Second)))
}
