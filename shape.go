package polite

import (
	"math"
	"time"
)

// shape is how a quota comes back.
type shape int

const (
	unknownShape shape = iota
	windowShape        // all at once, at the reset
	bucketShape        // all the time; the reset is when it would be full
	slidingShape       // as old requests leave the window; the reset brings nothing
)

// slide moves a sliding window on: what the last one used comes back over the
// next one, which is taken as 5 % slower than it should be.
func (l *ledger) slide(now time.Time, total int64) {
	used := float64(total-l.began) * l.price
	l.low = min(l.limit, l.low+l.refill*l.reset.Sub(l.read).Seconds())
	l.read = l.reset
	if now.Sub(l.reset) >= l.window { // a whole window went by unused
		used, l.low, l.silent = 0, l.limit, 0
		l.read = now
	}
	switch {
	case used > 0:
	case l.before > 0:
		l.low, l.silent = max(l.low, l.price), 0 // nothing of ours is left in it, so one may ask
	default:
		l.low, l.silent = l.limit, 0 // nor was in the one before: who waits now takes several units
	}
	l.before, l.began = used, total
	l.refill = slidingShare * used / l.window.Seconds()
	l.reset = l.reset.Add(l.window * (1 + now.Sub(l.reset)/l.window))
}

const slidingShare = 0.95

// judgeShape draws the conclusion about the shape from the first answer after a
// reset. All of the limit back means a window. Little back, with the next
// reset far away and just as much missing as our own requests of the window
// before explain, means that it slides. What has left it since its true reset,
// up to a second before the one that was told, is missing no more.
func (l *ledger) judgeShape(q *Quota, a answer) {
	if q.Reset.IsZero() || l.limit <= 0 || l.before == 0 {
		return
	}
	since := float64(a.units-l.began) * l.price
	used := l.limit - float64(q.Remaining)
	if used <= since+a.aside*l.price && l.before > l.limit/2 {
		l.shape = windowShape
	}
	if used <= max(2*since, l.limit/2) {
		return
	}
	length, elapsed := q.Reset.Sub(l.opened), a.read.Sub(l.opened)
	if elapsed > length/2 || !a.refused && length < max(l.window-settle, 3*settle/2) {
		return // the next reset is near, or a log of requests would tell the same
	}
	perSecond := l.before / length.Seconds()
	most := l.before - perSecond*elapsed.Seconds() + since
	least := most - perSecond*settle.Seconds()
	if slack := 2 + l.limit/50; least-slack <= used && used <= most+slack {
		l.shape, l.window = slidingShape, length
		l.refill = slidingShare * l.before / l.window.Seconds()
		l.reset = q.Reset
	}
}

// learn draws conclusions from two answers of one window: what one of our
// requests uses up, and whether the quota comes back by itself. Whether more is
// left than before can only be said of a younger answer.
func (l *ledger) learn(q *Quota, a answer, younger bool) {
	left := float64(q.Remaining)
	if younger {
		l.wary = math.Inf(1)
		l.learnPrice(left, a)
	}
	switch {
	case a.refused && !younger: // it was under way when the refill was seen, and says nothing of it
		return
	case a.refused && l.shape == slidingShape:
		l.refill *= 0.9
		return
	case a.refused:
		l.refill /= 2
		return
	case l.shape == slidingShape:
		return
	case l.shape == bucketShape:
	case younger && left > l.low && l.reset.Sub(a.read) > settle && l.fills(q, a):
		l.shape = bucketShape // more than before, and the reset is still to come
	case l.opened.IsZero() && left < l.base.left && l.base.reset > 0 && q.Reset.Sub(a.read) > l.base.reset+settle && l.fills(q, a):
		l.shape = bucketShape // the more is missing, the later the reset, and none has passed that could explain it
	default:
		return
	}
	l.refill = max(l.refill, l.refillSeen(q, a, younger))
}

// fills reports whether a bucket, whose reset is when it is full, may have told the
// governing answer and then this one: what is missing comes back at one rate, both
// resets were rounded up to whole seconds, and it holds no more than the limit.
func (l *ledger) fills(q *Quota, a answer) bool {
	left, full := float64(q.Remaining), q.Reset.Sub(a.read)
	slowest := l.reset.Sub(l.sent).Seconds() / max(1, l.base.left-l.low) // seconds for a unit
	if fall := l.base.left - left; fall > 1 {
		slowest = min(slowest, (full-l.base.reset+settle).Seconds()/(fall-1))
	}
	return l.limit < 0 || (full-settle).Seconds() <= slowest*(l.limit-left)
}

// refillSeen is the least rate that explains the difference of the base and
// this answer, given that both were rounded down to whole units and their
// resets up to whole seconds. How many of ours the server counted in between is
// known of a younger answer only.
func (l *ledger) refillSeen(q *Quota, a answer, younger bool) float64 {
	left := float64(q.Remaining)
	rate := 0.0
	if !q.Reset.IsZero() && left < l.base.left {
		moved := (q.Reset.Sub(a.read) - l.base.reset + settle).Seconds()
		rate = (l.base.left - left - 1) / max(moved, 1)
	}
	if elapsed := a.read.Sub(l.base.sent).Seconds(); younger && l.price == 1 && elapsed > 0 {
		counted := float64(a.units-l.base.units) - a.aside
		rate = max(rate, (left-l.base.left+counted-1)/elapsed)
	}
	return rate
}

// beWary bounds what is under way until a second answer tells what a request
// uses up: the first one may have used all that is missing.
func (l *ledger) beWary(left float64) {
	l.wary = math.Inf(1)
	if l.limit > 0 {
		l.wary = max(1, left/max(1, min(l.limit-left, l.limit/4)))
	}
}

// learnPrice measures what one of our units uses up of the quota, rounded
// down: a server that counts costs takes several, and so do strangers who
// spend the same quota.
func (l *ledger) learnPrice(left float64, a answer) {
	ours := float64(a.units-l.base.units) + (l.base.aside-a.aside)/2
	if ours < max(1, 2*l.base.aside, 2*a.aside) {
		return
	}
	fall := l.base.left - left + l.refill*a.read.Sub(l.base.sent).Seconds()
	l.price = max(1, min(math.Floor(fall/ours+0.3), l.limit/2, l.base.left/2))
}
