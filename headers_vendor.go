package polite

import (
	"strings"
	"time"
)

// Readers of the shapes that single servers invented. Each adds the quotas of
// one field; what it cannot read it leaves out.

const percent = "percent"

// perSecond reads a rate in requests per second that is itself the quota
// (X-Amzn-RateLimit-Limit: 0.5), as whole requests per window.
func (r *reading) perSecond(t *tally, q Quota, lines []string) {
	rate, ok := parseNumber(trim(lines[0]))
	if !ok || rate.negative || rate.isZero() {
		return
	}
	perSecond := float64(rate.whole) + float64(rate.nanos)/1e9
	q.Limit = max(rate.whole, 1)
	q.Window = farAhead
	if w := float64(q.Limit) / perSecond * float64(time.Second); w < float64(farAhead) {
		q.Window = time.Duration(w) + 1 // to the later side
	}
	if rate.nanos == 0 {
		q.Window = time.Second
	}
	t.add(q, r.clock.now)
}

// usedOf reads used/limit, one pair or several with names:
// 32/40; api-usage=25/5000, per-app-api-usage=17/250(appName=sample).
func (r *reading) usedOf(t *tally, base Quota, lines []string) {
	for list := listOf(lines); ; {
		item, ok := list.next()
		if !ok {
			return
		}
		for item != "" {
			var part string
			part, item = cutList(item, ';')
			name, pair, keyed := strings.Cut(part, "=")
			if !keyed {
				name, pair = "", part
			}
			pair, _, _ = strings.Cut(pair, "(")
			u, l, _ := strings.Cut(pair, "/")
			used, okUsed := parseCount(u)
			limit, okLimit := parseCount(l)
			if !okUsed || !okLimit || limit <= 0 {
				continue
			}
			q := base
			q.Policy = joinPolicy(base.Policy, strings.TrimSpace(name))
			q.Limit, q.Remaining = limit, limit-min(max(used, 0), limit)
			t.add(q, r.clock.now)
		}
	}
}

// windows reads count:seconds pairs, the limits in one field and what is used in
// another (20:1,100:120 and 3:1,57:120). They are joined by the seconds, for the
// order differs from field to field.
func (r *reading) windows(t *tally, base Quota, limits, used []string) {
	for list := listOf(limits); ; {
		item, ok := list.next()
		if !ok {
			return
		}
		limit, seconds, ok := countPerWindow(item)
		if !ok {
			continue
		}
		q := base
		q.Policy = joinPolicy(base.Policy, seconds+"s")
		q.Limit = limit
		if n, ok := parseNumber(seconds); ok && !n.isZero() {
			q.Window = n.times(time.Second)
		}
		for spent := listOf(used); ; {
			item, ok := spent.next()
			if !ok {
				break
			}
			if n, s, ok := countPerWindow(item); ok && s == seconds {
				q.Remaining = max(limit-n, 0)
			}
		}
		t.add(q, r.clock.now)
	}
}

func countPerWindow(item string) (count int64, seconds string, ok bool) {
	c, seconds, _ := strings.Cut(item, ":")
	count, ok = parseCount(c)
	seconds = strings.TrimSpace(seconds)
	n, okWindow := parseNumber(seconds)
	return count, seconds, ok && count >= 0 && okWindow && !n.negative
}

// named reads name;remaining pairs whose names end in their window
// (Compute/GetVM3Min;197), or a bare remaining.
func (r *reading) named(t *tally, base Quota, lines []string) {
	for list := listOf(lines); ; {
		item, ok := list.next()
		if !ok {
			return
		}
		q := base
		name, left, pair := strings.Cut(item, ";")
		if !pair {
			name, left = "", item
		}
		n, ok := parseCount(left)
		if !ok {
			continue
		}
		name = strings.TrimSpace(name)
		q.Policy = joinPolicy(base.Policy, name)
		q.Remaining = r.remaining(n)
		if w := windowAtEnd(name); w > 0 {
			q.Window = w
		}
		t.add(q, r.clock.now)
	}
}

// windowAtEnd reads the window off names such as GetVM30Min.
func windowAtEnd(name string) time.Duration {
	digits := strings.TrimRight(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	unit := name[len(digits):]
	start := len(strings.TrimRight(digits, "0123456789"))
	n, ok := parseNumber(digits[start:])
	each := dimensionWord(strings.ToLower(unit)).window
	if !ok || each == 0 { // a name that merely holds a number: GetVMv2
		return 0
	}
	return n.times(each)
}

// categories reads seconds:categories:scope:reason items (60:error;security:org).
// Each says that nothing of these categories is taken for so long; without
// categories, nothing at all is.
func (r *reading) categories(t *tally, base Quota, lines []string) {
	for list := listOf(lines); ; {
		item, ok := list.next()
		if !ok {
			return
		}
		wait, rest, _ := strings.Cut(item, ":")
		names, _, _ := strings.Cut(rest, ":")
		m, ok := parseTime(wait, DeltaSeconds, r.clock.now)
		if !ok || m.delta <= 0 {
			continue
		}
		q := base
		q.Remaining, q.Reset = 0, r.clock.reset(m)
		if names = strings.TrimSpace(names); names != "" {
			q.Policy, q.Unit = names, "events"
		}
		t.add(q, r.clock.now)
	}
}

// percentJSON reads a JSON object, or an object of lists of them, whose numbers
// are percentages used. The largest counts: the server throttles when any of
// them reaches 100. The field is searched for its keys rather than decoded, so a
// broken object still says what can be read of it.
func (r *reading) percentJSON(t *tally, q Quota, lines []string) {
	used, wait := int64(-1), time.Duration(0)
	for _, line := range lines {
		for rest := line; ; {
			var key, value string
			var ok bool
			if key, value, rest, ok = nextNumberIn(rest); !ok {
				break
			}
			n, ok := parseNumber(value)
			if !ok || n.negative {
				continue
			}
			switch key {
			case "call_count", "total_cputime", "total_time", "acc_id_util_pct":
				whole := n.whole
				if n.nanos > 0 {
					whole++
				}
				used = max(used, whole)
			case "estimated_time_to_regain_access":
				wait = max(wait, n.times(time.Minute))
			case "reset_time_duration":
				wait = max(wait, n.times(time.Second))
			}
		}
	}
	if used < 0 {
		return
	}
	q.Unit, q.Limit, q.Remaining = percent, 100, max(100-used, 0)
	if wait > 0 {
		q.Reset = r.clock.now.Add(wait)
	}
	t.add(q, r.clock.now)
}

// nextNumberIn returns the next "key": number of a JSON text.
func nextNumberIn(s string) (key, value, rest string, ok bool) {
	for {
		colon := strings.IndexByte(s, ':')
		if colon < 0 {
			return "", "", "", false
		}
		before := strings.TrimRight(s[:colon], " \t")
		s = strings.TrimLeft(s[colon+1:], " \t")
		end := 0
		for end < len(s) && (isDigit(s[end]) || s[end] == '.' || s[end] == '-') {
			end++
		}
		if end == 0 || !strings.HasSuffix(before, `"`) {
			continue
		}
		before = before[:len(before)-1]
		return before[strings.LastIndexByte(before, '"')+1:], s[:end], s[end:], true
	}
}

// fraction reads the used fraction of a quota (0.12) and the verdict on it
// (allowed, rejected).
func (r *reading) fraction(t *tally, q Quota, g fieldGroup) {
	q.Unit, q.Limit = percent, 100
	if lines := g.values(roleFractionUsed); lines != nil {
		if n, ok := parseNumber(trim(lines[0])); ok && !n.negative {
			n.whole, n.nanos = min(n.whole, 100)*100+n.nanos/1e7, n.nanos%1e7
			if n.nanos > 0 {
				n.whole++
			}
			q.Remaining = max(100-n.whole, 0)
		}
	}
	if lines := g.values(roleVerdict); lines != nil && strings.EqualFold(trim(lines[0]), "rejected") {
		q.Remaining = 0
	}
	if q.Remaining < 0 {
		return
	}
	q.Reset = r.reset(g, 0, 1, q.Window)
	t.add(q, r.clock.now)
}
