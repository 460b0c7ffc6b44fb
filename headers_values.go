package polite

import (
	"strings"
	"time"
)

// farAhead is where waits are cut: a century. Nothing real is near it, and sums
// with it stay within the range of Duration and Time.
const farAhead = 100 * 8766 * time.Hour

// number is a decimal number as header fields hold it.
type number struct {
	whole    int64 // cut at maxWhole
	nanos    int64 // the fraction, rounded up
	negative bool
}

// maxWhole is where whole numbers are cut.
const maxWhole = 1 << 62

// parseNumber reads digits with an optional fraction and an optional minus.
// Exponents, a plus, hexadecimals, underscores, NaN and Inf, which
// strconv.ParseFloat takes, are no numbers here.
func parseNumber(s string) (number, bool) {
	var n number
	if strings.HasPrefix(s, "-") {
		n.negative, s = true, s[1:]
	}
	i := 0
	for ; i < len(s) && isDigit(s[i]); i++ {
		if n.whole >= maxWhole/10 {
			n.whole = maxWhole
		} else {
			n.whole = n.whole*10 + int64(s[i]-'0')
		}
	}
	if i == 0 || i == len(s) {
		return n, i > 0
	}
	if s[i] != '.' || i+1 == len(s) {
		return n, false
	}
	places, beyond := 0, false
	for i++; i < len(s); i++ {
		switch {
		case !isDigit(s[i]):
			return n, false
		case places < 9:
			n.nanos = n.nanos*10 + int64(s[i]-'0')
			places++
		case s[i] != '0':
			beyond = true // finer than a nanosecond: to the later side
		}
	}
	for ; places < 9; places++ {
		n.nanos *= 10
	}
	if beyond {
		n.nanos++
	}
	if n.nanos == 1e9 {
		n.whole, n.nanos = min(n.whole+1, maxWhole), 0
	}
	return n, true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isZero reports whether the number is zero, with or without a minus.
func (n number) isZero() bool { return n.whole == 0 && n.nanos == 0 }

// times returns the number of units as a duration, cut at farAhead. Fractions
// of a nanosecond are rounded up.
func (n number) times(unit time.Duration) time.Duration {
	if n.whole > int64(farAhead/unit) {
		n.whole, n.nanos = int64(farAhead/unit), 0
	}
	d := time.Duration(n.whole) * unit
	// nanos < 1e9 and unit is at most a week, so split the product.
	sec, rest := unit/time.Second, unit%time.Second
	d += time.Duration(n.nanos)*sec + (time.Duration(n.nanos)*rest+time.Second-1)/time.Second
	if n.negative {
		d = -d
	}
	return min(d, farAhead)
}

// since1970 returns the instant that many units after the epoch. A negative one
// is the epoch itself: past.
func (n number) since1970(unit time.Duration) time.Time {
	if n.negative {
		return time.Unix(0, 0)
	}
	const latest = 253402300800 // year 10000
	per := int64(time.Second / unit)
	sec := n.whole / per
	if sec >= latest {
		return time.Unix(latest, 0)
	}
	nanos := n.whole%per*int64(unit) + (n.nanos+per-1)/per
	return time.Unix(sec, nanos)
}

// whole returns the number that s is, if it is nothing but digits, and no more
// than an int64 holds in any case; else -1.
func whole(s string) int64 {
	if s == "" || len(s) > 18 {
		return -1
	}
	n := int64(0)
	for i := 0; i < len(s); i++ {
		digit := s[i] - '0' // what comes before 0 turns large
		if digit > 9 {
			return -1
		}
		n = n*10 + int64(digit)
	}
	return n
}

// parseCount reads a count: what stands before a semicolon, without fraction.
func parseCount(s string) (int64, bool) {
	if n := whole(s); n >= 0 {
		return n, true
	}
	n, ok := parseNumber(trim(beforeParameters(s)))
	if n.negative {
		return -n.whole, ok
	}
	return n.whole, ok
}

// beforeParameters cuts s at the first semicolon.
func beforeParameters(s string) string {
	if i := strings.IndexByte(s, ';'); i >= 0 {
		return s[:i]
	}
	return s
}

// trim drops surrounding blanks and one pair of double quotes.
func trim(s string) string {
	s = trimBlank(s)
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		s = s[1 : len(s)-1]
	}
	return s
}

// trimBlank drops spaces and tabs around s (OWS of RFC 9110 section 5.6.3).
func trimBlank(s string) string {
	for len(s) > 0 && isBlank(s[0]) {
		s = s[1:]
	}
	for len(s) > 0 && isBlank(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// moment is a time as a field states it: an instant on the server's clock or a
// span from the receipt of the header.
type moment struct {
	at    time.Time // set when absolute
	delta time.Duration
	plain bool // a plain number of seconds from receipt, by its size
}

func (m *moment) absolute() bool { return !m.at.IsZero() }

// parseTime reads a time in any of its spellings. now decides about two-digit
// years and about numbers on a clock that is not yet in 2001.
func parseTime(s string, form TimeForm, now time.Time) (moment, bool) {
	if n := whole(s); n >= 0 { // as most are
		return number{whole: n}.moment(form, now), true
	}
	s = trim(s)
	if s == "" {
		return moment{}, false
	}
	if isDigit(s[len(s)-1]) {
		if n, ok := parseNumber(s); ok {
			return n.moment(form, now), true
		}
	}
	if d, ok := parseSpan(s); ok {
		return moment{delta: d}, true
	}
	if at, ok := parseDate(s, now); ok {
		return moment{at: at}, true
	}
	return moment{}, false
}

// moment reads a plain number by the form, or by its size.
func (n number) moment(form TimeForm, now time.Time) moment {
	switch form {
	case DeltaSeconds:
		return moment{delta: n.times(time.Second)}
	case DeltaMilliseconds:
		return moment{delta: n.times(time.Millisecond)}
	case DeltaMinutes:
		return moment{delta: n.times(time.Minute)}
	case EpochMilliseconds:
		return moment{at: n.since1970(time.Millisecond)}
	case EpochSeconds:
		if n.whole < 1e11 {
			return moment{at: n.since1970(time.Second)}
		}
	}
	switch {
	case n.negative, n.whole < epochFrom(now):
		return moment{delta: n.times(time.Second), plain: true}
	case n.whole < 1e11:
		return moment{at: n.since1970(time.Second)}
	case n.whole < 1e14:
		return moment{at: n.since1970(time.Millisecond)}
	case n.whole < 1e17:
		return moment{at: n.since1970(time.Microsecond)}
	case n.whole < maxWhole:
		return moment{at: n.since1970(time.Nanosecond)}
	default: // more digits than any clock has
		return moment{delta: farAhead}
	}
}

// epochFrom is the number from which seconds are taken as Unix time: 1e9, which
// is September 2001 as an instant and 31 years as a span. On a clock set before
// that (a simulated one) it is half of what the clock reads, unless that is next
// to nothing (a clock that was never set).
func epochFrom(now time.Time) int64 {
	const usual = 1e9
	if sec := now.Unix(); sec > usual/10 && sec < usual {
		return sec / 2
	}
	return usual
}

// parseSpan reads a duration with units, such as 2m52.8s, 547ms or 1d, and a
// time span such as 00:00:00.033.
func parseSpan(s string) (time.Duration, bool) {
	if !isDigit(s[0]) {
		return 0, false
	}
	if len(s) >= 8 && s[2] == ':' && s[5] == ':' {
		return parseClockSpan(s)
	}
	var sum time.Duration
	for s != "" {
		i := 0
		for i < len(s) && (isDigit(s[i]) || s[i] == '.') {
			i++
		}
		j := i
		for j < len(s) && !isDigit(s[j]) && s[j] != ' ' {
			j++
		}
		unit := spanUnit(s[i:j])
		n, ok := parseNumber(s[:i])
		if !ok || unit == 0 {
			return 0, false
		}
		sum = min(sum+n.times(unit), farAhead)
		for s = s[j:]; s != "" && s[0] == ' '; {
			s = s[1:]
		}
	}
	return sum, true
}

func spanUnit(s string) time.Duration {
	switch s {
	case "ns":
		return time.Nanosecond
	case "us", "µs", "μs":
		return time.Microsecond
	case "ms":
		return time.Millisecond
	case "s":
		return time.Second
	case "m":
		return time.Minute
	case "h":
		return time.Hour
	case "d":
		return 24 * time.Hour
	case "w":
		return 7 * 24 * time.Hour
	default:
		return 0
	}
}

// parseClockSpan reads hh:mm:ss with an optional fraction.
func parseClockSpan(s string) (time.Duration, bool) {
	h, okH := twoDigits(s[0:])
	m, okM := twoDigits(s[3:])
	sec, okS := parseNumber(s[6:])
	if !okH || !okM || !okS || m > 59 || sec.negative || sec.whole > 59 {
		return 0, false
	}
	return time.Duration(h)*time.Hour + time.Duration(m)*time.Minute + sec.times(time.Second), true
}
