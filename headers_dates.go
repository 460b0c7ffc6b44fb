package polite

import (
	"strings"
	"time"
)

// parseDate reads the date-times that servers send: the three forms of an HTTP
// date (RFC 9110 section 5.6.7), RFC 1123 with UTC or a numeric offset, the
// string of a JavaScript Date, and ISO 8601 with its loose cousins. A date
// without a zone is UTC; a zone by any other name than GMT, UTC, UT or Z is not
// understood rather than guessed.
func parseDate(s string, now time.Time) (time.Time, bool) {
	if len(s) < len("2006-01-02T15:04") {
		return time.Time{}, false
	}
	if at, ok := parseFixdate(s); ok {
		return at, true
	}
	if isDigit(s[0]) && s[4] == '-' {
		return parseISO(s)
	}
	return parseWordedDate(s, now)
}

// parseFixdate reads the preferred form of HTTP dates, which every response
// carries in Date: Sun, 06 Nov 1994 08:49:37 GMT.
func parseFixdate(s string) (time.Time, bool) {
	if len(s) != 29 || s[3:5] != ", " || s[7] != ' ' || s[11] != ' ' || s[16] != ' ' || s[19] != ':' || s[22] != ':' || s[25:] != " GMT" {
		return time.Time{}, false
	}
	var worst byte // the digit farthest from one
	two := func(i int) int {
		tens, ones := s[i]-'0', s[i+1]-'0'
		worst = max(worst, tens, ones)
		return int(tens)*10 + int(ones)
	}
	day, year, hour, minute, second := two(5), two(12)*100+two(14), two(17), two(20), two(23)
	if worst > 9 {
		return time.Time{}, false
	}
	return civil(year, monthNamed(s[8:11]), day, hour, minute, number{whole: int64(second)}, 0)
}

// parseISO reads 2006-01-02T15:04[:05[.999]] with T, t or a blank, and a zone.
func parseISO(s string) (time.Time, bool) {
	year, ok := fourDigits(s)
	month, ok1 := twoDigits(s[5:])
	day, ok2 := twoDigits(s[8:])
	hour, ok3 := twoDigits(s[11:])
	minute, ok4 := twoDigits(s[14:])
	if !ok || !ok1 || !ok2 || !ok3 || !ok4 || s[7] != '-' || s[13] != ':' || !strings.ContainsRune("Tt ", rune(s[10])) {
		return time.Time{}, false
	}
	s = s[16:]
	var second number
	if strings.HasPrefix(s, ":") {
		i := 1
		for i < len(s) && (isDigit(s[i]) || s[i] == '.') {
			i++
		}
		if second, ok = parseNumber(s[1:i]); !ok {
			return time.Time{}, false
		}
		s = s[i:]
	}
	offset, ok := parseZone(strings.TrimLeft(s, " "))
	if !ok {
		return time.Time{}, false
	}
	return civil(year, time.Month(month), day, hour, minute, second, offset)
}

// parseWordedDate reads dates with the month in letters. The parts may stand in
// any order that the known forms use: they are told apart by their shape.
func parseWordedDate(s string, now time.Time) (time.Time, bool) {
	if i := strings.IndexByte(s, '('); i >= 0 {
		s = s[:i] // JavaScript's name of the zone
	}
	var (
		year, day, hour, minute        = -1, -1, -1, -1
		month                          time.Month
		second                         number
		offset                         time.Duration
		short, weekday, zoned, trouble bool
	)
	for s != "" {
		var part string
		part, s = nextDatePart(s)
		switch {
		case part == "":
		case strings.IndexByte(part, ':') == 2 && hour < 0:
			hour, minute, second, trouble = parseClock(part)
		case isDigit(part[0]) && len(part) <= 2 && day < 0:
			day, trouble = smallNumber(part)
		case isDigit(part[0]) && len(part) == 2 && year < 0:
			year, trouble = smallNumber(part)
			short = true
		case isDigit(part[0]) && len(part) == 4 && year < 0:
			var ok bool
			year, ok = fourDigits(part)
			trouble = !ok
		case !weekday && month == 0 && hour < 0 && isWeekday(part):
			weekday = true
		case month == 0 && hour < 0 && monthNamed(part) != 0:
			month = monthNamed(part)
		case hour >= 0 && !zoned:
			var ok bool
			offset, ok = parseZone(part)
			zoned, trouble = true, !ok
		default:
			trouble = true
		}
		if trouble {
			return time.Time{}, false
		}
	}
	if year < 0 || day < 0 || month == 0 || hour < 0 {
		return time.Time{}, false
	}
	if short {
		year = fullYear(year, month, day, now)
	}
	return civil(year, month, day, hour, minute, second, offset)
}

// nextDatePart cuts off the next part. A hyphen separates only before a letter
// or inside 06-Nov-94, never in an offset.
func nextDatePart(s string) (part, rest string) {
	s = strings.TrimLeft(s, " ,\t")
	for i := range len(s) {
		switch c := s[i]; {
		case c == ' ', c == ',', c == '\t':
			return s[:i], s[i+1:]
		case c == '-' && i > 0 && (isDigit(s[0]) && i <= 2 || monthNamed(s[:i]) != 0):
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

func parseClock(s string) (hour, minute int, second number, trouble bool) {
	hour, ok := twoDigits(s)
	if !ok || len(s) < 5 {
		return 0, 0, second, true
	}
	minute, ok = twoDigits(s[3:])
	if !ok || len(s) == 5 {
		return hour, minute, second, !ok
	}
	if s[5] != ':' {
		return 0, 0, second, true
	}
	second, ok = parseNumber(s[6:])
	return hour, minute, second, !ok
}

// fullYear applies the fifty-year rule (RFC 9110 section 5.6.7): a two-digit
// year is the latest one that is not more than fifty years ahead.
func fullYear(short int, month time.Month, day int, now time.Time) int {
	horizon := now.UTC().AddDate(50, 0, 0)
	year := horizon.Year()/100*100 + short
	if time.Date(year, month, day, 0, 0, 0, 0, time.UTC).After(horizon) {
		year -= 100
	}
	return year
}

// parseZone reads Z, UTC, GMT, an offset, or both; nothing is UTC.
func parseZone(s string) (time.Duration, bool) {
	for _, name := range [...]string{"GMT", "UTC", "UT", "Z", "z"} {
		if strings.HasPrefix(s, name) {
			s = s[len(name):]
			break
		}
	}
	if s == "" {
		return 0, true
	}
	sign := time.Duration(1)
	switch s[0] {
	case '-':
		sign = -1
	case '+':
	default:
		return 0, false
	}
	hour, ok := twoDigits(s[1:])
	s = s[min(3, len(s)):]
	if len(s) == 3 && s[0] == ':' {
		s = s[1:]
	}
	minute, okMinute := 0, s == ""
	if len(s) == 2 {
		minute, okMinute = twoDigits(s)
	}
	if !ok || !okMinute || hour > 23 || minute > 59 {
		return 0, false
	}
	return sign * (time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute), true
}

// civil builds the instant, refusing fields out of their range (time.Date would
// carry them over). Second 60 is a leap second.
func civil(year int, month time.Month, day, hour, minute int, second number, offset time.Duration) (time.Time, bool) {
	if month < 1 || month > 12 || day < 1 || hour > 24 || minute > 59 || second.negative || second.whole > 60 || year < 1 {
		return time.Time{}, false
	}
	if hour == 24 && (minute > 0 || !second.isZero()) {
		return time.Time{}, false
	}
	if last := daysIn(year, month); day > last {
		return time.Time{}, false
	}
	seconds := int64(daysSince1970(year, int(month), day))*86400 + int64(hour)*3600 + int64(minute)*60 + second.whole
	return time.Unix(seconds-int64(offset/time.Second), second.nanos), true
}

// daysSince1970 counts the days of the Gregorian calendar in eras of 400 years,
// with the years beginning in March so that the leap day comes last. It is what
// time.Date does, at a fifth of the cost; every response has a Date.
func daysSince1970(year, month, day int) int {
	const daysPerEra, daysTo1970 = 146097, 719468
	if month <= 2 {
		year--
	}
	era, yearOfEra := year/400, year%400 // year is never negative
	dayOfYear := (153*((month+9)%12)+2)/5 + day - 1
	return era*daysPerEra + yearOfEra*365 + yearOfEra/4 - yearOfEra/100 + dayOfYear - daysTo1970
}

func daysIn(year int, month time.Month) int {
	switch {
	case month == time.February && year%4 == 0 && (year%100 != 0 || year%400 == 0):
		return 29
	case month == time.February:
		return 28
	case month == time.April, month == time.June, month == time.September, month == time.November:
		return 30
	default:
		return 31
	}
}

func twoDigits(s string) (int, bool) {
	if len(s) < 2 || !isDigit(s[0]) || !isDigit(s[1]) {
		return 0, false
	}
	return int(s[0]-'0')*10 + int(s[1]-'0'), true
}

func fourDigits(s string) (int, bool) {
	a, ok := twoDigits(s)
	if !ok || len(s) < 4 {
		return 0, false
	}
	b, ok := twoDigits(s[2:])
	return a*100 + b, ok
}

// smallNumber reads one or two digits.
func smallNumber(s string) (n int, trouble bool) {
	for i := range len(s) {
		if !isDigit(s[i]) {
			return 0, true
		}
		n = n*10 + int(s[i]-'0')
	}
	return n, false
}

// monthNamed returns the month of an English name or its first three letters.
func monthNamed(s string) time.Month {
	m := monthOf(s)
	if m == 0 || len(s) == 3 || strings.EqualFold(s, m.String()) {
		return m
	}
	return 0
}

// monthOf returns the month that begins with the first three letters of s.
func monthOf(s string) time.Month {
	if len(s) < 3 {
		return 0
	}
	switch string([]byte{s[0] | lower, s[1] | lower, s[2] | lower}) {
	case "jan":
		return time.January
	case "feb":
		return time.February
	case "mar":
		return time.March
	case "apr":
		return time.April
	case "may":
		return time.May
	case "jun":
		return time.June
	case "jul":
		return time.July
	case "aug":
		return time.August
	case "sep":
		return time.September
	case "oct":
		return time.October
	case "nov":
		return time.November
	case "dec":
		return time.December
	}
	return 0
}

// isWeekday reports whether s is an English weekday or its first three letters.
func isWeekday(s string) bool {
	const short = "sunmontuewedthufrisat"
	for d := time.Sunday; d <= time.Saturday; d++ {
		if begins(s, short[3*d:3*d+3]) {
			return len(s) == 3 || strings.EqualFold(s, d.String())
		}
	}
	return false
}

// lower is the bit in which a lower-case letter differs from the upper-case one.
const lower = 'a' - 'A'

// begins reports whether s begins with three lower-case letters, in any case.
func begins(s, letters string) bool {
	return len(s) >= 3 && s[0]|lower == letters[0] && s[1]|lower == letters[1] && s[2]|lower == letters[2]
}
