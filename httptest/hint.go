package httptest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Hint is what a refusal says in Retry-After. The zero value is [HintSeconds].
type Hint int

// The honest hints, and the ways in which servers get it wrong.
const (
	HintSeconds  Hint = iota // the exact wait, in seconds, rounded up
	HintDate                 // the same as an HTTP-date
	HintNone                 // no Retry-After
	HintEarly                // half of the wait: whoever obeys is refused again
	HintLate                 // twice the wait and a minute
	HintPast                 // an HTTP-date one hour ago
	HintHuge                 // ten days
	HintZero                 // 0
	HintNegative             // -1
	HintJunk                 // no number and no date
)

var hintNames = [...]string{"seconds", "date", "none", "early", "late", "past", "huge", "zero", "negative", "junk"}

// String returns the hint's name, such as "late".
func (h Hint) String() string {
	if !h.known() {
		return fmt.Sprintf("Hint(%d)", int(h))
	}
	return hintNames[h]
}

func (h Hint) known() bool { return h >= HintSeconds && int(h) < len(hintNames) }

// value is the header's text for a wait that begins at now; empty = leave it out.
func (h Hint) value(wait time.Duration, now time.Time, skew time.Duration) string {
	seconds := max(1, secondsUp(wait))
	switch h {
	case HintDate:
		return httpDate(time.Unix(unixUp(now.Add(wait).Add(skew)), 0))
	case HintNone:
		return ""
	case HintEarly:
		seconds = max(1, seconds/2)
	case HintLate:
		seconds = 2*seconds + 60
	case HintPast:
		return httpDate(now.Add(skew - time.Hour))
	case HintHuge:
		seconds = 10 * 24 * 3600
	case HintZero:
		return "0"
	case HintNegative:
		return "-1"
	case HintJunk:
		return "d'aquí a una estona"
	}
	return strconv.FormatInt(seconds, 10)
}

func httpDate(t time.Time) string { return t.UTC().Format(http.TimeFormat) }

// told is the instant until which an answer asks its client to wait, by this server's true clock; zero = it does not.
// Only 403, 429 and 503 ask, and only with a Retry-After that makes sense.
func (a *answer) told(now time.Time, skew time.Duration) time.Time {
	if a.status != http.StatusForbidden && a.status != http.StatusTooManyRequests && a.status != http.StatusServiceUnavailable {
		return time.Time{}
	}
	values := a.header["Retry-After"]
	if len(values) == 0 {
		return time.Time{}
	}
	text := strings.TrimSpace(values[0])
	if n, err := strconv.Atoi(text); err == nil && n > 0 && n < 1e9 {
		return now.Add(time.Duration(n) * time.Second)
	}
	date, err := http.ParseTime(text)
	if err != nil {
		return time.Time{}
	}
	clock := now.Add(skew)
	said, err := http.ParseTime(first(a.header, "Date"))
	if err == nil && (said.After(clock) || clock.Sub(said) >= time.Second) {
		clock = said // by a script that has a clock of its own
	}
	if !date.After(clock) {
		return time.Time{}
	}
	return now.Add(date.Sub(clock))
}
