package httptest

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Dialect is one way to announce a quota in headers. The zero value is [AromaCatalan].
type Dialect int

// The dialects that the server can speak, several at once. Of two that have a field in common the later one in
// Config.Dialects writes it.
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
	policy    *Policy
	remaining int
	reset     time.Time
}

// exposed lists every header of this server that a browser's script may read.
const exposed = "Aroma-RateLimit-Limit, Aroma-RateLimit-Restants, Aroma-RateLimit-Reinici, Aroma-RateLimit-Remaining, Aroma-RateLimit-Reset, " +
	"X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, " +
	"RateLimit, RateLimit-Policy, Retry-After, Aroma-Traca-Id"

// announce writes the quotas in every dialect. Only the newest draft can name several; the others describe `shown`.
func announce(a *answer, dialects []Dialect, quotas []quota, shown quota, now time.Time, skew time.Duration) {
	// One string holds all the numbers, and the headers' values are cut out of it.
	text := strconv.AppendInt(make([]byte, 0, 64), int64(shown.policy.Limit.N), 10)
	limitEnd := len(text)
	text = strconv.AppendInt(text, int64(max(0, shown.remaining)), 10)
	remainingEnd := len(text)
	text = strconv.AppendInt(text, unixUp(shown.reset.Add(skew)), 10)
	epochEnd := len(text)
	text = strconv.AppendInt(text, secondsUp(shown.reset.Sub(now)), 10)
	numbers := string(text)
	limit, remaining := numbers[:limitEnd], numbers[limitEnd:remainingEnd]
	epoch, left := numbers[remainingEnd:epochEnd], numbers[epochEnd:]
	for _, d := range dialects {
		switch d {
		case AromaCatalan:
			a.set("Aroma-Ratelimit-Limit", limit)
			a.set("Aroma-Ratelimit-Restants", remaining)
			a.set("Aroma-Ratelimit-Reinici", epoch)
		case AromaEnglish:
			if a.header["Aroma-Ratelimit-Limit"] == nil {
				a.set("Aroma-Ratelimit-Limit", limit)
			}
			a.set("Aroma-Ratelimit-Remaining", remaining)
			a.set("Aroma-Ratelimit-Reset", epoch)
		case XRateLimit, XRateLimitLeft:
			a.set("X-Ratelimit-Limit", limit)
			a.set("X-Ratelimit-Remaining", remaining)
			a.set("X-Ratelimit-Reset", epoch)
			if d == XRateLimitLeft {
				a.set("X-Ratelimit-Reset", left)
			}
		case Draft6:
			a.set("Ratelimit-Limit", limit)
			a.set("Ratelimit-Remaining", remaining)
			a.set("Ratelimit-Reset", left)
			a.set("Ratelimit-Policy", limit+";w="+windowSeconds(shown.policy.Limit))
		case Draft7:
			a.set("Ratelimit", "limit="+limit+", remaining="+remaining+", reset="+left)
			a.set("Ratelimit-Policy", limit+";w="+windowSeconds(shown.policy.Limit))
		case Draft8:
			state, policies := draft8(quotas, now)
			a.set("Ratelimit", state)
			a.set("Ratelimit-Policy", policies)
		}
	}
}

// draft8 renders the two lists of named items.
func draft8(quotas []quota, now time.Time) (state, policies string) {
	for _, q := range quotas {
		if state != "" {
			state, policies = state+", ", policies+", "
		}
		name := strconv.Quote(q.policy.Name)
		state += name + ";r=" + strconv.Itoa(max(0, q.remaining)) + ";t=" + strconv.FormatInt(secondsUp(q.reset.Sub(now)), 10)
		policies += name + ";q=" + strconv.Itoa(q.policy.Limit.N) + ";w=" + windowSeconds(q.policy.Limit)
	}
	return state, policies
}

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
