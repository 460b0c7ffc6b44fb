package polite

import (
	"strings"
	"time"
)

// rateItem is one item of a RateLimit or RateLimit-Policy field, in any of the
// spellings of the drafts.
type rateItem struct {
	text      string // as sent
	name      string
	limit     int64 // -1 without one
	remaining int64 // as sent
	left      bool  // remaining was sent
	reset     string
	window    time.Duration
	unit      string
}

// parse reads an item. Parameters it does not know are skipped, and values it
// cannot read leave theirs unknown.
func (it *rateItem) parse(text string) {
	*it = rateItem{text: text, limit: -1}
	for rest := text; rest != ""; {
		var part string
		part, rest = cutList(rest, ';')
		if part = trimBlank(part); part == "" {
			continue
		}
		if part[0] == '"' {
			it.name = unquote(part) // of several the last one counts
			continue
		}
		key, value, ok := strings.Cut(part, "=")
		if !ok {
			key, value, ok = strings.Cut(part, ":")
		}
		if !ok || !it.set(trimBlank(key), trimBlank(value)) {
			it.bare(part)
		}
	}
}

// bare takes a part without a known key or quotes: a quantity, or a name, which a
// quoted one goes before.
func (it *rateItem) bare(part string) {
	if v, ok := parseCount(part); ok {
		if it.limit < 0 {
			it.limit = max(v, -1)
		}
		return
	}
	if it.name == "" && strings.IndexByte(part, '=') < 0 {
		it.name = part
	}
}

// set takes a parameter, and reports whether it knows the key.
func (it *rateItem) set(key, value string) bool {
	switch key {
	case "q", "l", "limit", "total", "max", "burst":
		if v, ok := parseCount(trim(value)); ok {
			it.limit = max(v, -1)
		}
	case "r", "a", "remaining", "available":
		if v, ok := parseCount(trim(value)); ok {
			it.remaining, it.left = v, true
		}
	case "t", "reset", "resets":
		it.reset = trim(value)
	case "w", "window":
		if m, ok := parseTime(value, DeltaSeconds, time.Time{}); ok && !m.absolute() && m.delta > 0 {
			it.window = m.delta
		}
	case "b", "name":
		it.name = unquote(value)
	case "qu":
		if unit := unquote(value); unit != "requests" {
			it.unit = unit
		}
	case "pk", "rate":
	default:
		lower := strings.ToLower(key)
		return lower != key && it.set(lower, value)
	}
	return true
}

// unquote returns the text of a string or a token. It allocates only for
// escapes.
func unquote(s string) string {
	s = strings.TrimSuffix(strings.TrimPrefix(s, `"`), `"`)
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// items reads a field whose items state quotas: named items (drafts 08 and
// later), key=value pairs at commas (draft 07) or at semicolons.
func (r *reading) items(t *tally, base *Quota, lines, policyLines []string) {
	policies := policiesIn(policyLines, false)
	var it rateItem
	pairs, unnamed := rateItem{limit: -1}, 0
	for list := listOf(lines); ; {
		text, ok := list.next()
		if !ok {
			break
		}
		it.parse(text)
		if it.name != "" {
			r.stated(t, base, &it, policies, 0)
			continue
		}
		if pairs.overlaps(&it) {
			r.stated(t, base, &pairs, policies, unnamed)
			pairs, unnamed = rateItem{limit: -1}, unnamed+1
		}
		pairs.join(&it)
	}
	if pairs.says() {
		r.stated(t, base, &pairs, policies, unnamed)
	}
	r.announced(t, base, policies)
}

// says reports whether an item states anything of its quota.
func (it *rateItem) says() bool { return it.limit >= 0 || it.left || it.reset != "" }

// overlaps reports whether an item says again what another said: the next of
// several stacked limiters.
func (it *rateItem) overlaps(o *rateItem) bool {
	return it.limit >= 0 && o.limit >= 0 || it.left && o.left || it.reset != "" && o.reset != ""
}

func (it *rateItem) join(o *rateItem) {
	if o.limit >= 0 {
		it.limit = o.limit
	}
	if o.left {
		it.remaining, it.left = o.remaining, true
	}
	if o.reset != "" {
		it.reset = o.reset
	}
	if o.window > 0 {
		it.window = o.window
	}
	if o.unit != "" {
		it.unit = o.unit
	}
}

// stated adds the quota of an item, completed by its policy. unnamed counts the
// items without a name before it.
func (r *reading) stated(t *tally, base *Quota, it *rateItem, policies policySet, unnamed int) {
	q := *base
	at := -1
	if it.name != "" {
		at = policies.byName(it.name)
		q.Policy = joinPolicy(base.Policy, it.name)
	} else if at = policies.byLimit(it.limit, unnamed); at >= 0 && base.Policy == "" {
		q.Policy = policies.nameOf(at)
	}
	if unnamed > 0 && q.Policy == base.Policy {
		q.Policy = joinPolicy(base.Policy, ordinal(min(unnamed, maxLayers-1)))
	}
	if at >= 0 {
		it.complete(&policies[at])
	}
	q.Limit = it.limit
	if it.left {
		q.Remaining = r.remaining(it.remaining)
	}
	if m, ok := parseTime(it.reset, AnyTime, r.clock.now); ok {
		q.Reset = r.clock.reset(m)
		r.absolute = r.absolute || m.absolute()
	}
	q.complete(it)
	t.add(q, r.clock.now)
}

// complete takes what an item leaves out from its policy.
func (it *rateItem) complete(p *rateItem) {
	if it.limit < 0 {
		it.limit = p.limit
	}
	if it.window == 0 {
		it.window = p.window
	}
	if it.unit == "" {
		it.unit = p.unit
	}
}

// announced adds the policies of which no item states what is left.
func (r *reading) announced(t *tally, base *Quota, policies policySet) {
	for i := range policies {
		p := &policies[i]
		q := *base
		q.Policy = joinPolicy(base.Policy, policies.nameOf(i))
		q.Limit = p.limit
		if !t.knows(&q, p.window) {
			q.complete(p)
			t.add(q, r.clock.now)
		}
	}
}

// knows reports whether a quota of that name, or of that limit and window, is
// in already.
func (t *tally) knows(q *Quota, window time.Duration) bool {
	for i := range t.list() {
		if k := &t.quotas[i]; k.Policy == q.Policy || k.Limit == q.Limit && k.Window == window {
			return true
		}
	}
	return false
}

// complete takes unit and window from the quota's item, or else from its name.
func (q *Quota) complete(it *rateItem) {
	switch {
	case it.window > 0:
		q.Window = it.window
	case q.Window == 0 && it.name != "":
		q.Window = dimensionWord(strings.TrimPrefix(it.name, "per_")).window
	}
	switch {
	case it.unit != "":
		q.Unit = it.unit
	case it.name != "" && q.Unit == "":
		q.Unit = unitOf(it.name)
	}
}
