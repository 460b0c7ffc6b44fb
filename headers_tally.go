package polite

import "time"

// tally collects the quotas of one response, the most binding first, and what
// the decision about a refusal needs to know of all of them, dropped ones
// included.
type tally struct {
	quotas          [maxQuotas]Quota // the most binding first
	n               int              // so many are valid
	saysRemaining   bool
	latestReset     time.Time
	exhaustedReset  time.Time
	exhaustedWindow time.Duration
}

// add takes a quota in. A quota about which nothing is known is left out; the
// same quota announced twice is kept once.
func (t *tally) add(q Quota, now time.Time) {
	q.Policy = shortName(q.Policy)
	if q.Limit <= 0 {
		q.Limit = -1 // a limit of nothing names no window
	}
	if q.Limit < 0 && q.Remaining < 0 && !q.Reset.After(now) {
		return
	}
	t.saysRemaining = t.saysRemaining || q.Remaining >= 0
	t.latestReset = later(t.latestReset, q.Reset)
	if q.exhausted() {
		t.exhaustedReset = later(t.exhaustedReset, q.Reset)
		if q.Reset.IsZero() {
			t.exhaustedWindow = max(t.exhaustedWindow, q.Window)
		}
	}
	for i := range t.list() {
		if t.quotas[i].Policy == q.Policy && t.quotas[i].Unit == q.Unit {
			q = merged(t.quotas[i], q)
			copy(t.quotas[i:t.n], t.quotas[i+1:t.n])
			t.n--
			break
		}
	}
	at := t.n
	for at > 0 && moreBinding(&q, &t.quotas[at-1]) {
		at--
	}
	if at == len(t.quotas) {
		return
	}
	t.n = min(t.n+1, len(t.quotas))
	copy(t.quotas[at+1:t.n], t.quotas[at:])
	t.quotas[at] = q
}

func (t *tally) list() []Quota { return t.quotas[:t.n] }

// merged joins two announcements of one quota: the more binding one, completed
// by the other where both speak of the same limit.
func merged(a, b Quota) Quota {
	if moreBinding(&b, &a) {
		a, b = b, a
	}
	if a.Limit >= 0 && b.Limit >= 0 && a.Limit != b.Limit {
		return a
	}
	a.Limit = max(a.Limit, b.Limit)
	if a.Reset.IsZero() {
		a.Reset = b.Reset
	}
	if a.Window == 0 {
		a.Window = b.Window
	}
	return a
}

// moreBinding orders quotas: exhausted before the others, and of those the one
// that lasts longest; then the smallest share left; then, where no limit is
// known, the least left; then the unknown. Shares make requests and tokens
// comparable, amounts do not.
func moreBinding(a, b *Quota) bool {
	if ra, rb := a.rank(), b.rank(); ra != rb {
		return ra < rb
	}
	switch {
	case a.Remaining == 0 && !a.Reset.Equal(b.Reset):
		return a.Reset.After(b.Reset)
	case a.Remaining > 0 && a.Limit > 0:
		if sa, sb := float64(a.Remaining)/float64(a.Limit), float64(b.Remaining)/float64(b.Limit); sa != sb {
			return sa < sb
		}
	case a.Remaining != b.Remaining:
		return a.Remaining < b.Remaining
	}
	if a.Unit != b.Unit {
		return a.Unit < b.Unit // requests first
	}
	return a.Policy < b.Policy
}

func (q *Quota) rank() int {
	switch {
	case q.Remaining == 0:
		return 0
	case q.Remaining > 0 && q.Limit > 0:
		return 1
	case q.Remaining > 0:
		return 2
	default:
		return 3
	}
}
