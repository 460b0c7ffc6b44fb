package polite

import (
	"cmp"
	"time"
)

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
		if m.isWhole() {
			twins.add(r, number{whole: m.whole}.moment(m.form, r.clock.now), window)
			continue
		}
		list, count := listOf(m.values), 0
		if n > 1 { // or else all are the one layer's
			count = list.countTimes()
		}
		for at := 0; ; at++ {
			value, ok := list.nextTime()
			if !ok {
				break
			}
			if count == n && at != i {
				continue // another layer's
			}
			if moment, ok := parseTime(beforeParameters(value), m.form, r.clock.now); ok {
				twins.add(r, moment, window)
			}
		}
	}
	if !twins.relative.IsZero() {
		return twins.relative
	}
	r.absolute = r.absolute || !twins.absolute.IsZero()
	return twins.absolute
}

// resetTwins is the latest reset of each kind.
type resetTwins struct{ relative, absolute time.Time }

func (w *resetTwins) add(r *reading, m moment, window time.Duration) {
	if m.absolute() {
		w.absolute = later(w.absolute, r.clock.reset(m))
		return
	}
	if m.plain && window > 0 && m.delta >= 1000*time.Second && m.delta > window && m.delta/1000 <= window {
		m.delta /= 1000
	}
	w.relative = later(w.relative, r.clock.reset(m))
}

// layered reads the separate fields for limit, remaining, used, reset and
// window. Several values of the same number in each describe parallel windows,
// paired by position: repeated lines of stacked limiters, or one line with
// commas.
func (r *reading) layered(t *tally, base *Quota, g fieldGroup) {
	if g.field(roleWindow) != nil {
		base.Window = r.window(g)
	}
	policies := policiesIn(g.values(rolePolicies), false)
	if limits := g.field(roleLimit); limits.hasParameters() {
		policies = policies.and(policiesIn(limits.values, true))
	}
	r.layers(t, base, g, policies)
	r.announced(t, base, policies)
}

// layers adds the parallel windows of a group, completed by their policies.
func (r *reading) layers(t *tally, base *Quota, g fieldGroup, policies policySet) {
	n := layerCount(g)
	names := g[0].row.layers
	for i := range n {
		q := *base
		if i < len(names) {
			q.Policy, q.Window = joinPolicy(base.Policy, names[i].policy), names[i].window
		}
		r.count(&q, g, i, n)
		if at := policies.byLimit(q.Limit, i); at >= 0 {
			if q.Policy == "" {
				q.Policy = policies.nameOf(at)
			}
			if q.Window == 0 {
				q.Window = policies[at].window
			}
			if unit := policies[at].unit; unit != "" {
				q.Unit = unit
			}
		}
		if i > 0 && q.Policy == base.Policy {
			q.Policy = joinPolicy(base.Policy, ordinal(i))
		}
		r.refill(&q, g)
		q.Reset = r.reset(g, i, n, q.Window)
		t.add(q, r.clock.now)
	}
}

// count reads limit, remaining and used of layer i of n; two of them give the
// third.
func (r *reading) count(q *Quota, g fieldGroup, i, n int) {
	limits, remaining := g.field(roleLimit), g.field(roleRemaining)
	q.Limit = limits.limitAt(i, n)
	if q.Limit >= 0 || !unmetered(limits.lines(), remaining.lines()) {
		q.Remaining = r.lowest(remaining, i, n)
	}
	used := g.field(roleUsed)
	if used == nil || q.Limit >= 0 && q.Remaining >= 0 {
		return
	}
	spent, ok := used.highest(i, n)
	switch {
	case !ok:
	case q.Limit > 0:
		q.Remaining = max(q.Limit-spent, 0)
	case q.Remaining >= 0:
		q.Limit = sum(q.Remaining, spent)
	}
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

// refill makes the window the time in which a bucket fills up, for servers that
// tell the rate: units per window, or per second without one.
func (r *reading) refill(q *Quota, g fieldGroup) {
	values := g.values(roleRate)
	if values == nil || q.Limit <= 0 {
		return
	}
	if rate, ok := parseCount(values[0]); ok && rate > 0 {
		q.Window = spanFor(q.Limit, rate, cmp.Or(q.Window, time.Second))
	}
}
