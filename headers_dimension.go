package polite

import (
	"strings"
	"time"
)

// dimension is what the variable part of a header name says of a quota.
type dimension struct {
	text   string // as it stands in the name
	policy string
	unit   string
	window time.Duration
}

// dimensions are those that were met.
var dimensions memo[dimension]

// dimensionOf takes the text that a * stands for apart, as net/http writes it
// ("Input-Tokens"). A word for a length of time is the window.
// A counted noun is the unit; a noun nobody knows is one where a window follows
// it ("videos-minute"), because then it names what is counted, and otherwise a
// mere name of the quota.
func dimensionOf(text string) dimension {
	text = shortName(text)
	d := dimension{text: text, policy: strings.ToLower(text)}
	unknown := ""
	for _, word := range strings.FieldsFunc(d.policy, isWordBreak) {
		switch w := dimensionWord(word); {
		case w.window > 0 && d.window == 0:
			d.window = w.window
			if d.unit == "" {
				d.unit = unknown
			}
		case w.unit != "":
			d.unit = w.unit
		case !w.plain && unknown == "":
			unknown = word
		}
	}
	return d
}

func isWordBreak(c rune) bool { return c == '-' || c == '_' || c == ' ' || c == '.' }

// unitOf returns what a quota of that name counts: the counted noun in it, "" for
// requests.
func unitOf(name string) string {
	for name != "" {
		i := 0
		for i < len(name) && !isWordBreak(rune(name[i])) {
			i++
		}
		word := name[:i]
		name = name[min(i+1, len(name)):]
		if w := dimensionWord(strings.ToLower(word)); w.unit != "" {
			return w.unit
		}
	}
	return ""
}

// wordMeaning is what a word in the name of a quota says.
type wordMeaning struct {
	window time.Duration
	unit   string
	plain  bool // known, and neither
}

// dimensionWord reads one word in lower case.
func dimensionWord(word string) wordMeaning {
	const day = 24 * time.Hour
	switch word {
	case "second", "seconds", "secondly", "persecond", "sec":
		return wordMeaning{window: time.Second}
	case "minute", "minutes", "minutely", "perminute", "min":
		return wordMeaning{window: time.Minute}
	case "hour", "hours", "hourly", "perhour":
		return wordMeaning{window: time.Hour}
	case "day", "days", "daily", "perday":
		return wordMeaning{window: day}
	case "week", "weekly", "perweek":
		return wordMeaning{window: 7 * day}
	case "month", "monthly", "permonth":
		return wordMeaning{window: 30 * day}
	case "year", "yearly", "peryear":
		return wordMeaning{window: 365 * day}
	case "tokens", "points", "bytes", "credits", "complexity", "characters", "neurons", "weight":
		return wordMeaning{unit: word}
	case "graphql":
		return wordMeaning{unit: "points"} // the cost of queries, not their number
	case "requests", "request", "calls", "user", "users", "client", "app", "ip", "key", "account", "per", "api", "read", "reads", "write", "writes":
		return wordMeaning{plain: true}
	}
	if word != "" && isDigit(word[0]) {
		if d, ok := parseSpan(word); ok {
			return wordMeaning{window: d}
		}
	}
	return wordMeaning{}
}
