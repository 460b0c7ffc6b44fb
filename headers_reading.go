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
	dim    string   // what the * of the pattern stands for
	values []string // never empty
}

// reading is one response on its way from header fields to facts.
type reading struct {
	clock   localClock
	status  int
	refusal bool // the status is a refusal: a negative remaining means none
}

// scan looks every field of the response up in the table, those of the host
// first, and appends what means something to dst. It costs what the response
// holds, not what the table holds.
func scan(d *dialects, local *hostDialect, h http.Header, now time.Time, dst fieldGroup) (localClock, fieldGroup) {
	clock := localClock{now: now}
	cached := false
	for name, values := range h {
		if len(values) == 0 || name == "" {
			continue
		}
		if 'a' <= name[0] && name[0] <= 'z' {
			name = textproto.CanonicalMIMEHeaderKey(name) // a map made by hand
		}
		fields, dim := d.meaning(local, name)
		for i := range fields {
			switch f := &fields[i]; {
			case f.role == roleDate:
				clock.ahead = aheadOf(values[0], now)
			case f.role == roleAge:
				n, ok := parseNumber(trim(values[0]))
				cached = ok && !n.negative && !n.isZero()
			case len(dst) < maxFields:
				dst = append(dst, match{headerField: f, dim: dim, values: values})
			}
		}
	}
	if cached {
		// What a cache hands out was said about another request, some time ago,
		// and its Date is as old (RFC 9111 section 5.1).
		clock.ahead = 0
		dst = slices.DeleteFunc(dst, func(m match) bool { return m.role <= roleBucket })
	}
	dst.sort()
	return clock, dst
}

// meaning looks a canonical name up, in the rows of the host first.
func (d *dialects) meaning(local *hostDialect, name string) ([]headerField, string) {
	if local.hasNames {
		if fields, dim := local.names.find(name); fields != nil {
			return fields, dim
		}
	}
	return d.names.find(name)
}

// aheadOf returns how far the local clock is ahead of a Date field, 0 when that
// cannot be read.
func aheadOf(date string, now time.Time) time.Duration {
	at, ok := parseDate(trim(date), now)
	if !ok {
		return 0
	}
	return min(max(now.Sub(at), -farAhead), farAhead)
}

// sort brings the fields of one quota together, in the order of their roles. It
// makes the result independent of the order of the header map. Few fields, often
// in order: insertion is the fastest.
func (g fieldGroup) sort() {
	for i := 1; i < len(g); i++ {
		for j := i; j > 0 && g[j].before(&g[j-1]); j-- {
			g[j], g[j-1] = g[j-1], g[j]
		}
	}
}

func (m *match) before(o *match) bool {
	switch {
	case m.row != o.row:
		return m.row.order < o.row.order
	case m.dim != o.dim:
		return m.dim < o.dim
	case m.role != o.role:
		return m.role < o.role
	default:
		return m.rank < o.rank
	}
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
		for j < len(fields) && fields[j].row == first.row && fields[j].dim == first.dim {
			j++
		}
		r.quota(t, fields[i:j])
		i = j
	}
}

// fieldGroup is fields in the order of before: those of a response, or
// of them the ones that describe one quota or its parallel windows.
type fieldGroup []match

// values returns the lines of the preferred field of a role, nil without one.
func (g fieldGroup) values(role headerRole) []string {
	for i := range g {
		if g[i].role == role {
			return g[i].values
		}
	}
	return nil
}

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
			r.items(t, base, m.values, g.values(rolePolicies))
			stated = true
		case rolePolicies:
			if !stated {
				var policies policySet
				policies.read(m.values, false)
				r.announced(t, base, &policies)
			}
		case roleLimit, roleRemaining, roleUsed, roleReset:
			if !stated {
				r.layered(t, base, g)
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
	if g[0].dim != "" {
		dim := dimensionOf(g[0].dim)
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

// reset returns the reset that a group states for layer i of n. Relative values
// go before absolute ones, which need the clocks to agree; twins of one kind
// give the latest. window tells milliseconds from seconds where it is known: a
// span longer than the window whose thousandth fits is in milliseconds.
func (r *reading) reset(g fieldGroup, i, n int, window time.Duration) time.Time {
	var twins resetTwins
	for k := range g {
		m := &g[k]
		if m.role != roleReset {
			continue
		}
		if value, ok := single(m.values); ok {
			twins.add(r, value, m.form, window)
			continue
		}
		list := listOf(m.values)
		count := list.countTimes()
		for at := 0; ; at++ {
			value, ok := list.nextTime()
			if !ok {
				break
			}
			if n == 1 || count != n || at == i { // else another layer's
				twins.add(r, value, m.form, window)
			}
		}
	}
	if !twins.relative.IsZero() {
		return twins.relative
	}
	return twins.absolute
}

// resetTwins is the latest reset of each kind.
type resetTwins struct{ relative, absolute time.Time }

func (w *resetTwins) add(r *reading, value string, form TimeForm, window time.Duration) {
	m, ok := parseTime(beforeParameters(value), form, r.clock.now)
	switch {
	case !ok:
	case m.absolute():
		w.absolute = later(w.absolute, r.clock.reset(m))
	default:
		if m.plain && window > 0 && m.delta >= 1000*time.Second && m.delta > window && m.delta/1000 <= window {
			m.delta /= 1000
		}
		w.relative = later(w.relative, r.clock.reset(m))
	}
}

// layered reads the separate fields for limit, remaining, used, reset and
// window. Several values of the same number in each describe parallel windows,
// paired by position: repeated lines of stacked limiters, or one line with
// commas.
func (r *reading) layered(t *tally, base Quota, g fieldGroup) {
	var (
		limits    = g.values(roleLimit)
		remaining = g.values(roleRemaining)
		used      = g.values(roleUsed)
		policies  policySet
		n         = layerCount(limits, remaining, used)
		layers    = g[0].row.layers
	)
	policies.read(g.values(rolePolicies), false)
	if hasParameters(limits) {
		policies.read(limits, true)
	}
	if window := g.values(roleWindow); window != nil {
		base.Window = r.window(g)
	}
	for i := range n {
		q := base
		if i < len(layers) {
			q.Policy, q.Window = joinPolicy(base.Policy, layers[i].policy), layers[i].window
		}
		q.Limit = limitAt(limits, i, n)
		if !unmetered(limits, remaining) {
			q.Remaining = r.lowest(remaining, i, n)
		}
		spent, knowsSpent := highest(used, i, n)
		switch {
		case !knowsSpent:
		case q.Remaining < 0 && q.Limit > 0:
			q.Remaining = max(q.Limit-spent, 0)
		case q.Limit < 0 && q.Remaining >= 0:
			q.Limit = sum(q.Remaining, spent)
		}
		if at := policies.byLimit(q.Limit, i); at >= 0 {
			if q.Policy == "" {
				q.Policy = policies.nameOf(at)
			}
			if q.Window == 0 {
				q.Window = policies.items[at].window
			}
			if unit := policies.items[at].unit; unit != "" {
				q.Unit = unit
			}
		}
		if i > 0 && q.Policy == base.Policy {
			q.Policy = joinPolicy(base.Policy, ordinal(i))
		}
		q.Window = r.refill(g, q)
		q.Reset = r.reset(g, i, n, q.Window)
		t.add(q, r.clock.now)
	}
	r.announced(t, base, &policies)
}

// window reads the field with the window's length; 0 when unreadable.
func (r *reading) window(g fieldGroup) time.Duration {
	for i := range g {
		if g[i].role != roleWindow {
			continue
		}
		if m, ok := parseTime(g[i].values[0], g[i].form, r.clock.now); ok && !m.absolute() && m.delta > 0 {
			return m.delta
		}
	}
	return 0
}

// refill returns the time in which a bucket fills up, for servers that tell the
// rate: units per window, or per second without one.
func (r *reading) refill(g fieldGroup, q Quota) time.Duration {
	values := g.values(roleRate)
	if values == nil || q.Limit <= 0 {
		return q.Window
	}
	rate, ok := parseCount(values[0])
	if !ok || rate <= 0 {
		return q.Window
	}
	per := q.Window
	if per == 0 {
		per = time.Second
	}
	return spanFor(q.Limit, rate, per)
}

// unmetered reports the pair of -1 and -1 with which a server says that it does
// not count this quota.
func unmetered(limits, remaining []string) bool {
	if len(limits) != 1 || len(remaining) != 1 {
		return false
	}
	limit, ok := parseCount(limits[0])
	left, okLeft := parseCount(remaining[0])
	return ok && okLeft && limit == -1 && left == -1
}

// lowest returns the remaining value of layer i of n; with another number of
// values, the lowest of them.
func (r *reading) lowest(values []string, i, n int) int64 {
	best := int64(-1)
	if value, ok := single(values); ok {
		if v, ok := parseCount(value); ok {
			return r.remaining(v)
		}
		return best
	}
	list := listOf(values)
	count := list.count()
	for at := 0; ; at++ {
		item, ok := list.next()
		if !ok {
			return best
		}
		if count == n && at != i {
			continue
		}
		if v, ok := parseCount(item); ok {
			if v = r.remaining(v); best < 0 || v >= 0 && v < best {
				best = v
			}
		}
	}
}

// highest returns the used value of layer i of n; with another number of values,
// the highest of them.
func highest(values []string, i, n int) (int64, bool) {
	best := int64(-1)
	if value, ok := single(values); ok {
		v, ok := parseCount(value)
		return v, ok && v >= 0
	}
	list := listOf(values)
	count := list.count()
	for at := 0; ; at++ {
		item, ok := list.next()
		if !ok {
			return best, best >= 0
		}
		if count == n && at != i {
			continue
		}
		if v, ok := parseCount(item); ok {
			best = max(best, v)
		}
	}
}

// limitAt returns the limit of layer i of n. With parameters in the list the
// first bare item is the limit in force and the others are policies
// (draft-ietf-httpapi-ratelimit-headers-06 section 3.1); with another number of
// values than layers the first is.
func limitAt(values []string, i, n int) int64 {
	if value, ok := single(values); ok || values == nil {
		return limitIn(value)
	}
	var (
		list  = listOf(values)
		count = list.count()
		first = int64(-1)
		bare  bool
	)
	for at := 0; ; at++ {
		item, ok := list.next()
		if !ok {
			return first
		}
		if n > 1 && count == n && at != i {
			continue
		}
		v := limitIn(item)
		if v < 0 {
			continue
		}
		if simple := strings.IndexByte(item, ';') < 0; first < 0 || simple && !bare {
			first, bare = v, simple
		}
	}
}

// single returns the value of a field that is no list.
func single(values []string) (string, bool) {
	if len(values) != 1 || strings.IndexByte(values[0], ',') >= 0 {
		return "", false
	}
	return values[0], true
}

// limitIn reads one limit: a count, or pairs such as burst:100;rate:10.
func limitIn(item string) int64 {
	if v, ok := parseCount(item); ok {
		return max(v, -1)
	}
	if item == "" {
		return -1
	}
	return parseItem(item).limit
}

// layerCount returns how many parallel windows the values describe.
func layerCount(limits, remaining, used []string) int {
	if _, ok := single(limits); ok || limits == nil || remaining == nil && used == nil {
		return 1
	}
	list := listOf(limits)
	n := list.count()
	if n == 1 || n > maxLayers || hasParameters(limits) {
		return 1
	}
	left, spent := listOf(remaining), listOf(used)
	if left.count() == n || spent.count() == n {
		return n
	}
	return 1
}

// maxLayers bounds the parallel windows of one set of fields.
const maxLayers = 8

func hasParameters(values []string) bool {
	for _, v := range values {
		if strings.IndexByte(v, ';') >= 0 {
			return true
		}
	}
	return false
}

// ordinal names the second and later of several unnamed windows.
func ordinal(i int) string { return "2345678"[i-1 : i] }

// joinPolicy qualifies a name.
func joinPolicy(prefix, name string) string {
	switch {
	case prefix == "":
		return name
	case name == "":
		return prefix
	default:
		return prefix + "/" + name
	}
}

func sum(a, b int64) int64 { return a + min(b, maxWhole) }

// spanFor returns count/rate times per, rounded up and cut at farAhead.
func spanFor(count, rate int64, per time.Duration) time.Duration {
	span := float64(count) / float64(rate) * float64(per)
	if span >= float64(farAhead) {
		return farAhead
	}
	return time.Duration(span)
}
