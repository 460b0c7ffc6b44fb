package polite

import (
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"time"
)

// match is a field of the response that means something.
type match struct {
	*headerField
	dim    *dimension // what the * of its name stands for
	values []string   // never empty
	whole  int64      // the value, where it is one whole number, as most are; else -1
}

// lines returns the values of a field, nil without one.
func (m *match) lines() []string {
	if m == nil {
		return nil
	}
	return m.values
}

// isWhole reports whether there is a field, and it is one whole number.
func (m *match) isWhole() bool { return m != nil && m.whole >= 0 }

// reading is one response on its way from header fields to facts.
type reading struct {
	clock   localClock
	status  int
	refusal bool // the status is a refusal: a negative remaining means none

	absolute bool // a reset was told by the server's clock
}

// scan looks every field of the response up in the table, those of the host
// first, and appends what means something to dst. It costs what the response
// holds, not what the table holds.
func (l *hostDialect) scan(h http.Header, now time.Time, dst fieldGroup) (localClock, fieldGroup) {
	clock := localClock{now: now}
	for name, values := range h {
		if len(values) == 0 || name == "" {
			continue
		}
		if 'a' <= name[0] && name[0] <= 'z' {
			name = textproto.CanonicalMIMEHeaderKey(name) // a map made by hand
		}
		known := l.known.find(name)
		if known == nil {
			known = l.known.learn(name, l.meaning)
		}
		for i := range known.fields {
			switch f := &known.fields[i]; {
			case f.role == roleDate:
				clock.ahead = aheadOf(values[0], now)
			case f.role == roleAge:
				n, ok := parseNumber(trim(values[0]))
				clock.cached = ok && !n.negative && !n.isZero()
			case len(dst) < maxFields:
				dst = append(dst, match{headerField: f, dim: known.dim, values: values, whole: wholeIn(values)})
			}
		}
	}
	if clock.cached {
		// What a cache hands out was said about another request, some time ago,
		// and its Date is as old (RFC 9111 section 5.1).
		clock.ahead = 0
		dst = slices.DeleteFunc(dst, func(m match) bool { return m.role <= roleBucket })
	}
	dst.sort()
	return clock, dst
}

// aheadOf returns how far the local clock is ahead of a Date field, 0 when that
// cannot be read.
func aheadOf(date string, now time.Time) time.Duration {
	at, ok := parseDate(trim(date), now)
	if !ok {
		return 0
	}
	return span(at, now)
}

// sort brings the fields of one quota together, in the order of their roles. It
// makes the result independent of the order of the header map. Few fields, often
// in order: insertion is the fastest.
func (g fieldGroup) sort() {
	for i := 1; i < len(g); i++ {
		m, j := g[i], i
		for ; j > 0 && m.before(&g[j-1]); j-- {
			g[j] = g[j-1]
		}
		g[j] = m
	}
}

func (m *match) before(o *match) bool {
	switch {
	case m.row != o.row:
		return m.row.order < o.row.order
	case m.dim != o.dim && m.dim.text != o.dim.text:
		return m.dim.text < o.dim.text
	case m.role != o.role:
		return m.role < o.role
	default:
		return m.rank < o.rank
	}
}

// sameQuota reports whether two fields describe one quota.
func (m *match) sameQuota(o *match) bool {
	return m.row == o.row && (m.dim == o.dim || m.dim.text == o.dim.text)
}

// retryHint returns the first instant that the retry fields allow, by their
// precedence; of several vendors' fields the latest.
func (c *localClock) retryHint(fields fieldGroup) (time.Time, hintSource) {
	var best time.Time
	rank := uint8(rankVendor + 1)
	for i := range fields {
		m := &fields[i]
		if m.role != roleRetry || m.rank > rank {
			continue
		}
		at := c.retryAt(m)
		switch {
		case at.IsZero():
		case m.rank < rank:
			best, rank = at, m.rank
		default:
			best = later(best, at)
		}
	}
	switch {
	case best.IsZero():
		return best, hintNone
	case rank < rankRetryAfter:
		return best, hintMilliseconds
	case rank == rankRetryAfter:
		return best, hintRetryAfter
	default:
		return best, hintVendor
	}
}

// retryAt returns the longest wait of all lines of one retry field.
func (c *localClock) retryAt(m *match) time.Time {
	var best time.Time
	for list := listOf(m.values); ; {
		value, ok := list.nextTime()
		if !ok {
			return best
		}
		if moment, ok := parseTime(value, m.form, c.now); ok {
			best = later(best, c.retry(moment))
		}
	}
}

// quotas reads every quota of the response into t.
func (r *reading) quotas(t *tally, fields fieldGroup) {
	for i := 0; i < len(fields); {
		first := &fields[i]
		j := i + 1
		for j < len(fields) && first.sameQuota(&fields[j]) {
			j++
		}
		r.quota(t, fields[i:j])
		i = j
	}
}

// fieldGroup is fields in the order of before: those of a response, or
// of them the ones that describe one quota or its parallel windows.
type fieldGroup []match

// field returns the preferred field of a role, nil without one.
func (g fieldGroup) field(role headerRole) *match {
	for i := range g {
		if g[i].role >= role {
			if g[i].role == role {
				return &g[i]
			}
			break // of one quota they are in order
		}
	}
	return nil
}

// values returns the lines of the preferred field of a role, nil without one.
func (g fieldGroup) values(role headerRole) []string { return g.field(role).lines() }

// quota hands a group to the readers of the shapes that it holds.
func (r *reading) quota(t *tally, g fieldGroup) {
	base := r.base(g)
	if g.values(roleFractionUsed) != nil || g.values(roleVerdict) != nil {
		r.fraction(t, base, g)
		return
	}
	var stated bool
	for i := range g {
		m := &g[i]
		switch m.role {
		case roleState:
			r.items(t, &base, m.values, g.values(rolePolicies))
			stated = true
		case rolePolicies:
			if !stated {
				r.announced(t, &base, policiesIn(m.values, false))
			}
		case roleLimit, roleRemaining, roleUsed, roleReset:
			if !stated {
				r.layered(t, &base, g)
			}
			stated = true
		case rolePerSecond:
			r.perSecond(t, base, m.values)
		case roleUsedOf:
			r.usedOf(t, base, m.values)
		case roleWindows:
			r.windows(t, base, m.values, g.values(roleWindowsUsed))
		case roleNamed:
			r.named(t, base, m.values)
		case roleCategories:
			r.categories(t, base, m.values)
		case rolePercentJSON:
			r.percentJSON(t, base, m.values)
		}
	}
}

// base returns what all quotas of a group share.
func (r *reading) base(g fieldGroup) Quota {
	row := g[0].row
	q := Quota{Policy: row.Policy, Unit: row.Unit, Limit: -1, Remaining: -1, Window: max(row.Period, 0)}
	if dim := g[0].dim; dim.text != "" {
		q.Policy = dim.policy
		if q.Unit == "" {
			q.Unit = dim.unit
		}
		if q.Window == 0 {
			q.Window = dim.window
		}
	}
	if bucket := g.values(roleBucket); bucket != nil && q.Policy == "" {
		q.Policy = strings.TrimSpace(bucket[0])
		if q.Unit == "" {
			q.Unit = unitOf(q.Policy)
		}
	}
	return q
}

// remaining applies the rules for negative values: exactly -1 where nothing was
// refused is a limiter that cannot tell; everything else below zero is
// overdrawn.
func (r *reading) remaining(n int64) int64 {
	if n == -1 && !r.refusal {
		return -1
	}
	return max(n, 0)
}
