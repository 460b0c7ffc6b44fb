package polite

import "time"

// localClock moves instants of the server's clock onto the local one.
type localClock struct {
	now    time.Time     // the receipt of the header
	ahead  time.Duration // now minus the response's Date; 0 without a usable Date
	cached bool          // the response, and with it its Date, is out of a cache
}

// maxTrusted is the difference between Date and the local clock up to which the
// clocks count as equal: Date is cut to whole seconds and the header travelled.
const maxTrusted = 2 * time.Second

// skew returns the server's clock minus the local one where they differ by more
// than what Date can tell.
func (c *localClock) skew() time.Duration {
	if c.ahead.Abs() <= maxTrusted {
		return 0
	}
	return -c.ahead
}

// reset returns the local instant of a reset, never before the receipt.
func (c *localClock) reset(m moment) time.Time {
	if !m.absolute() {
		return c.now.Add(max(m.delta, 0))
	}
	return c.now.Add(max(c.until(m.at, -c.skew()), 0))
}

// retry returns the local instant at which a retry hint allows the next
// attempt, zero when that is not ahead.
//
// It is never early. Date is cut to whole seconds when the response is made, so
// at the receipt the server's clock shows at least Date, and a wait of hint
// minus Date, begun at the receipt, ends at the hint or later. That holds for
// small differences too, so a local clock that is ahead of Date by less than two
// seconds is corrected as well; one that is behind by so little only waits the
// longer.
func (c *localClock) retry(m moment) time.Time {
	d := m.delta
	if m.absolute() {
		shift := -c.skew()
		if shift == 0 {
			shift = max(c.ahead, 0)
		}
		d = c.until(m.at, shift)
	}
	if d <= 0 {
		return time.Time{}
	}
	return c.now.Add(d)
}

// until returns how long after the receipt an instant of the server's clock
// lies, the local clock being ahead by shift. Both terms are cut before they are
// added.
func (c *localClock) until(at time.Time, shift time.Duration) time.Duration {
	return min(span(c.now, at)+min(max(shift, -farAhead), farAhead), farAhead)
}

// span returns how long after one instant the other one lies, cut at farAhead
// either way, by the wall clock: a server's instants know no other.
func span(from, to time.Time) time.Duration {
	const most = int64(farAhead/time.Second) + 1 // the nanoseconds may take it back
	seconds := min(max(to.Unix()-from.Unix(), -most), most)
	d := time.Duration(seconds)*time.Second + time.Duration(to.Nanosecond()-from.Nanosecond())
	return min(max(d, -farAhead), farAhead)
}
