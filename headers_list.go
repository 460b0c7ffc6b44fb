package polite

import "strings"

// maxItems bounds the items of one list that are read.
const maxItems = 32

// itemList walks over the items of a list field: all lines, cut at commas.
// Commas inside double quotes or parentheses do not cut. It is more lenient than
// a parser of structured fields (RFC 9651) must be, because what servers send
// under these names is often none.
type itemList struct {
	lines []string
	rest  string
	left  int
}

func listOf(lines []string) itemList { return itemList{lines: lines, left: maxItems} }

// next returns the next item that is not blank.
func (l *itemList) next() (string, bool) {
	for l.left > 0 {
		for l.rest == "" {
			if len(l.lines) == 0 {
				return "", false
			}
			l.rest, l.lines = l.lines[0], l.lines[1:]
		}
		var item string
		item, l.rest = cutList(l.rest, ',')
		if item = trimBlank(item); item != "" {
			l.left--
			return item, true
		}
	}
	return "", false
}

// nextTime returns the next item of a list of times, in which the comma after a
// weekday belongs to the date.
func (l *itemList) nextTime() (string, bool) {
	item, ok := l.next()
	if l.rest == "" || !isWeekday(item) {
		return item, ok
	}
	// The item and what follows it are parts of one line: take both.
	date, rest := cutList(l.rest, ',')
	l.rest = rest
	return trimBlank(date), true
}

// count returns how many items are left.
func (l itemList) count() int {
	if len(l.lines) == 1 && l.rest == "" && strings.IndexByte(l.lines[0], ',') < 0 {
		return 1
	}
	n := 0
	for {
		if _, ok := l.next(); !ok {
			return n
		}
		n++
	}
}

func (l itemList) countTimes() int {
	n := 0
	for {
		if _, ok := l.nextTime(); !ok {
			return n
		}
		n++
	}
}

// cutList cuts s at the first separator outside quotes and parentheses. What
// opens and never closes reaches to the end.
func cutList(s string, separator byte) (item, rest string) {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case separator:
			return s[:i], s[i+1:]
		case '"':
			i = closingQuote(s, i)
		case '(':
			i = closingParenthesis(s, i)
		}
	}
	return s, ""
}

// closingParenthesis returns the place of the parenthesis that closes the one at
// i, or the end.
func closingParenthesis(s string, i int) int {
	depth := 1
	for i++; i < len(s); i++ {
		switch s[i] {
		case '"':
			i = closingQuote(s, i)
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return i
}

// closingQuote returns the place of the quote that closes the one at i, or the
// end.
func closingQuote(s string, i int) int {
	for i++; i < len(s) && s[i] != '"'; i++ {
		if s[i] == '\\' {
			i++
		}
	}
	return i
}
