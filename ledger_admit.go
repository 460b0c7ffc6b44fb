package polite

import (
	"math"
	"time"
)

// spending is a request that asks the ledger for admission.
type spending struct {
	units     int
	aside     float64 // units under way that the governing answer may not include
	needs     int     // requests that the caller has to send, this one included, at least; 0 unknown
	unsent    int     // the same, exactly, as far as those in line tell; 0 unknown
	threshold int
	last      time.Time // when the last request left
}

// admit reports when a request fits: at now, later, or (zero) when the answers
// of others have arrived. With others under way the instant is the earliest
// that their answers can make it.
func (l *ledger) admit(now time.Time, r spending) (time.Time, Reason) {
	if !l.known() {
		return now, 0
	}
	if r.aside > 0 && r.aside >= l.wary && now.Sub(r.last) < settle {
		return r.last.Add(settle), ReasonProbe
	}
	at, reason := l.fits(now, l.left(now, r.aside), &r)
	if reason == 0 || r.aside == 0 || !at.After(now) {
		return at, reason
	}
	if at, _ = l.fits(now, l.left(now, 0), &r); !at.After(now) {
		at = time.Time{}
	}
	return at, reason
}

// fits reports when a request fits into what is left.
func (l *ledger) fits(now time.Time, left float64, r *spending) (time.Time, Reason) {
	price := float64(r.units) * l.price
	if l.limit > 0 {
		price = min(price, l.limit) // nothing is ever given more
	}
	switch {
	case left < price:
		at := l.refilled(now, price-left)
		if at.IsZero() && r.aside == 0 {
			return now, 0 // nothing is left and nobody said until when: ask
		}
		return at, ReasonQuota
	case l.holdsBack(left, price, r.unsent):
		return l.edge(), ReasonBrake
	case r.threshold < 0, left >= float64(r.threshold), l.reset.IsZero(),
		r.needs > 0 && float64(r.needs)*price <= left:
		return now, 0
	}
	return later(now, r.last.Add(l.interval(r.last, left, price))), ReasonBrake
}

// holdsBack reports whether the last request of the first window is better kept
// until the reset, while it is not known how the quota comes back: if it slides,
// that one fits at the reset, where after a full window none would. It must not
// cost the caller a window more.
func (l *ledger) holdsBack(left, price float64, needs int) bool {
	if l.shape != unknownShape || !l.opened.IsZero() || l.reset.IsZero() || left >= 2*price || l.limit < 2*price {
		return false
	}
	perWindow := l.limit / price
	more := float64(needs) > perWindow // not the last few, which may have overtaken each other
	return more && math.Ceil(float64(needs)/perWindow) == math.Ceil(float64(needs-1)/perWindow)
}

// refilled is when missing units have come back: as the quota refills, or at
// its reset; zero if that is not known, has passed or depends on the answers
// under way.
func (l *ledger) refilled(now time.Time, missing float64) time.Time {
	if l.refill > 0 {
		at := now.Add(clampDuration(math.Ceil(missing / l.refill * 1e9)))
		if l.shape == slidingShape && !l.reset.IsZero() && at.After(l.reset) {
			return l.reset
		}
		if full := l.full(); !full.Before(now) {
			return earlier(at, full.Add(1)) // after it; see left
		}
		return at
	}
	if due := l.due(); due.After(now) {
		return due
	}
	return time.Time{}
}

// interval is how long after the last request the next one may go when what is
// left is spread over the time to the reset.
func (l *ledger) interval(last time.Time, left, price float64) time.Duration {
	share := max(2, left/price) // the last one goes before the reset, or it would be lost
	even := max(0, time.Duration(float64(l.reset.Sub(last))/share))
	if l.refill > 0 {
		return min(even, clampDuration(price/l.refill*1e9))
	}
	return even
}
