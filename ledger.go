package polite

import (
	"math"
	"time"
)

// ledger is what is known about one quota of the server, to the unit: what the
// answers said is left, less what is under way. It decides when the next
// request fits. It is guarded by the host's mutex.
//
// Answers arrive in another order than the server counted in, so the books are
// kept around one governing answer: left is what it told, less every request
// that the server may not have counted when it wrote that answer. A younger
// answer (to a request sent after the governing one was read) takes over; one
// that was under way at the same time does so only if it tells of less.
type ledger struct {
	policy string
	scope  scope         // whom it concerns
	limit  float64       // -1 unknown
	window time.Duration // 0 unknown; if not announced, the longest time to a reset that was seen
	reset  time.Time     // zero unknown

	// The governing answer.
	low    float64   // what it said is left
	silent float64   // of it, what requests whose ends said nothing may have used up since
	sent   time.Time // when its request left
	read   time.Time // when it arrived
	seen   int64     // all units sent when it arrived: a request beyond them is younger

	shape  shape
	refill float64 // units per second that come back by themselves; 0: at the reset only
	price  float64 // units of the quota that one of ours uses up, at least 1
	wary   float64 // so many under way at most while only one answer is known

	fresh  bool          // a window has begun and nobody has answered in it
	began  int64         // units sent when the present window began
	before float64       // units that the window before it used, as far as we sent them
	base   baseline      // the first answer of the window
	opened time.Time     // when the present window began
	margin time.Duration // how much later than announced the reset has proved, or is likely, to be
}

// baseline is an answer that later ones are compared with.
type baseline struct {
	left  float64
	reset time.Duration // from its arrival to the reset it told
	sent  time.Time
	units int64
	aside float64 // units that were under way, counted or not, when it arrived
}

// answer is one response's place in the books.
type answer struct {
	sent, read time.Time
	units      int64   // all units sent up to and including its request
	total      int64   // all units sent until now
	aside      float64 // units under way that the server may not have counted
	cost       int64   // its own
	silent     int64   // the same of requests that ended since it was sent, and said nothing
	refused    bool
	absolute   bool // it told a reset by the server's clock, not from its receipt
}

// left is what remains for new requests at now, when aside units are under way
// that the governing answer may not include.
func (l *ledger) left(now time.Time, aside float64) float64 {
	left := l.low - l.silent
	if l.refill > 0 {
		left += l.refill * now.Sub(l.read).Seconds()
		if full := l.full(); !full.IsZero() && now.After(full) {
			left = max(left, l.limit-l.silent+l.refill*now.Sub(full).Seconds())
		}
		if l.limit > 0 {
			left = min(left, l.limit)
		}
	}
	return left - aside*l.price
}

// full is when a bucket is full at the latest, but for what was used since the
// governing answer: at its reset, which may have been rounded down by a second.
// Zero is never.
func (l *ledger) full() time.Time {
	if l.shape != bucketShape || l.limit <= 0 || l.reset.IsZero() {
		return time.Time{}
	}
	return l.reset.Add(settle)
}

// known reports whether the ledger says anything about how much is left.
func (l *ledger) known() bool { return !l.read.IsZero() }

// turn begins a new window when the reset has passed: what was learned of the
// old one no longer holds, and all of the limit is assumed to be back until the
// first answer tells.
func (l *ledger) turn(now time.Time, total int64) {
	if l.reset.IsZero() || now.Before(l.due()) || l.shape == bucketShape {
		return
	}
	if !l.known() { // a reset alone, of which nothing follows once it has passed
		l.reset = time.Time{}
		return
	}
	if l.shape == slidingShape {
		l.slide(now, total)
		return
	}
	l.open(l.reset, total)
	l.low, l.silent, l.sent, l.read, l.seen = l.limit, 0, now, now, total
	if l.limit < 0 {
		l.low = math.Inf(1)
	}
	l.reset = time.Time{}
	l.fresh = true
}

// outdated reports whether what was last told says nothing about a request sent at
// that time.
func (l *ledger) outdated(sent time.Time) bool {
	switch {
	case l.fresh, l.reset.IsZero(): // a window has begun, or its end is not known
		return true
	case l.shape == bucketShape: // it is full by now, but for requests that it was silent about
		return !sent.Before(l.reset)
	case l.shape == slidingShape: // nothing that it counted then is left in it
		return sent.Sub(l.sent) >= l.window
	}
	return false
}

// open notes when a window began, and after how many units in all. One that was
// shorter than a window says nothing of how the quota comes back: it is a log of
// requests that told of its next one.
func (l *ledger) open(at time.Time, total int64) {
	l.before = float64(total-l.began) * l.price
	if !l.opened.IsZero() && at.Sub(l.opened) < l.window-settle {
		l.before = 0
	}
	l.began = total
	l.opened = at
}

// due is when the reset counts as passed. While it is not known how the quota
// comes back, and nothing of it is left, that is one request's share of the
// window later, a tenth of it at most: if the window slides, one request has
// left it by then.
func (l *ledger) due() time.Time {
	if l.shape == unknownShape && l.limit > 0 && l.low-l.silent < l.price {
		return l.edge().Add(l.reset.Sub(l.base.sent) / time.Duration(max(l.limit, 10)))
	}
	return l.edge()
}

// edge is when the server has seen the reset pass, as far as is known. The reset
// of a sliding window is our own mark and no edge of the server's.
func (l *ledger) edge() time.Time {
	if l.shape == slidingShape {
		return l.reset
	}
	return l.reset.Add(l.margin)
}

// tooEarly learns that the reset comes later than announced, because the server
// rounds down or the clocks differ by less than can be told: the first request
// after it was refused in the name of the old window.
func (l *ledger) tooEarly(q *Quota, a answer) {
	l.margin = min(l.margin+settle, 3*settle)
	l.fresh = false
	l.low, l.silent, l.sent, l.read, l.seen = 0, 0, a.sent, a.read, a.total
	l.reset = l.opened
	if l.due().Before(a.read) {
		l.reset = a.read
	}
}

// observe enters what an answer says.
func (l *ledger) observe(q *Quota, a answer) {
	if limit := float64(q.Limit); limit >= 0 && limit != l.limit {
		if l.limit >= 0 { // another quota from now on: nothing learned of the old one holds
			*l = ledger{policy: l.policy, scope: l.scope, price: 1, margin: l.margin}
		}
		l.limit = limit
	}
	if q.Window >= time.Millisecond { // nobody means less
		l.window = q.Window
	}
	if q.Remaining < 0 {
		if !q.Reset.IsZero() {
			l.reset = q.Reset
		}
		return
	}
	left := float64(q.Remaining)
	switch {
	case !l.known():
		l.begin(q, a)
		l.beWary(left)
	case l.stale(q, a):
	case l.fresh && a.refused && !q.Reset.After(l.opened.Add(settle/2)):
		l.tooEarly(q, a)
	case l.fresh:
		l.judgeShape(q, a)
		l.begin(q, a)
	case l.rolled(q, a): // it is the first of its window, and nobody has turned the page
		l.open(earlier(l.reset, a.sent), a.units-1)
		l.judgeShape(q, a)
		l.begin(q, a)
	case a.units > l.seen:
		l.learn(q, a, true)
		l.govern(left, q, a)
	default:
		l.learn(q, a, false)
		if left < l.left(a.read, 0)+l.silent { // counted after the governing one
			l.govern(left, q, a)
		}
	}
	if a.refused { // and so not counted
		l.uncount(a.units, a.cost)
	}
}

// uncount takes a request that the server has not counted out of what we used of
// the window and since its first answer.
func (l *ledger) uncount(units, cost int64) {
	if units > l.began {
		l.began += cost
	}
	if units > l.base.units {
		l.base.units += cost
	}
}

// begin opens the books of a window with its first answer.
func (l *ledger) begin(q *Quota, a answer) {
	l.fresh = false
	l.silent = float64(a.silent) * l.price
	if l.shape != slidingShape {
		l.reset = q.Reset
	}
	l.govern(float64(q.Remaining), q, a)
	l.base = baseline{left: float64(q.Remaining), sent: a.sent, units: a.units, aside: a.aside}
	if !q.Reset.IsZero() {
		l.base.reset = q.Reset.Sub(a.read)
	}
	if q.Window == 0 && l.shape != slidingShape {
		l.window = max(l.window, l.base.reset)
	}
	if a.absolute {
		l.margin = max(l.margin, min(l.window/100, clockError))
	}
}

// govern makes an answer the governing one. The reset of a bucket belongs to what
// its answer said is left; that of a window holds for all who answer in it.
func (l *ledger) govern(left float64, q *Quota, a answer) {
	switch {
	case l.shape == slidingShape || l.repeats(left, q, a):
	case !q.Reset.IsZero() || l.shape == bucketShape:
		l.reset = q.Reset
	}
	l.low, l.sent, l.read, l.seen = left, a.sent, a.read, a.total
	l.silent = min(l.silent, float64(a.silent)*l.price)
}

// repeats reports whether an answer tells the window's reset again, in whole
// seconds from now, rounded up. If more is left than our requests since the
// governing answer explain, it is another reset: a log of requests, whose oldest
// one has left it, tells of the next.
func (l *ledger) repeats(left float64, q *Quota, a answer) bool {
	if l.shape != windowShape || !q.Reset.After(l.reset) || q.Reset.Sub(l.reset) > settle {
		return false
	}
	counted := float64(a.units-l.seen-a.silent) - a.aside // of those requests, at least
	return a.units <= l.seen || left <= l.low-counted*l.price
}

// stale reports whether an answer speaks of the window that is over.
func (l *ledger) stale(q *Quota, a answer) bool {
	return a.sent.Before(l.opened) && !q.Reset.After(l.opened.Add(settle))
}

// rolled reports whether an answer belongs to a later window than the books. A
// reset that was rounded up to a whole second comes up to a second before it is
// due; then the next reset is another one, and what is left has risen or, where the
// window slides, no bucket explains it.
func (l *ledger) rolled(q *Quota, a answer) bool {
	if l.shape == bucketShape || l.shape == slidingShape || l.reset.IsZero() || q.Reset.Sub(l.reset) <= settle/2 {
		return false
	}
	if a.read.Before(l.reset) {
		risen := a.units > l.seen && float64(q.Remaining) > l.low
		moved := q.Reset.After(l.reset.Add(3*settle/2)) && !l.fills(q, a) // by more than the rounding
		return a.read.After(l.reset.Add(-settle)) && (risen || moved)
	}
	return true
}

// lost enters that a request ended without an answer about the quota: it may
// have been counted.
func (l *ledger) lost(units int, uncounted bool) {
	if uncounted {
		l.silent += float64(units) * l.price
		l.base.units += int64(units) // as if it had been under way when the base arrived
		l.base.aside += float64(units)
	}
}

// presume takes the window that has begun to be as long as the others, when a
// request in it ends that brings no answer about the quota: another one, which
// would tell the reset, may never be sent.
func (l *ledger) presume(sent, read time.Time) {
	if l.fresh && l.reset.IsZero() && l.window > 0 && !sent.Before(l.opened) {
		l.reset = read.Add(l.window)
	}
}

// quota is what the ledger holds, in the public form.
func (l *ledger) quota() Quota {
	q := Quota{Policy: l.policy, Limit: int64(l.limit), Remaining: -1, Reset: l.reset, Window: l.window}
	if l.known() && !math.IsInf(l.low, 0) {
		q.Remaining = max(0, int64(l.low-l.silent))
	}
	return q
}
