package polite

import (
	"cmp"
	"math"
	"net/http"
	"time"
)

// pace is a rate learned from refusals alone, for servers that tell nothing
// about their limit. A refusal lowers it; then it grows along a cubic that is
// steep at first, flat around the rate that was refused, and steep again beyond
// it: the control of CUBIC (RFC 9438) with the constants of the AWS SDKs'
// adaptive retry mode. It is guarded by the host's mutex.
type pace struct {
	// What the server admits, in units per second.
	since    time.Time // the present count began
	seen     time.Time // the last success arrived
	count    float64   // units since then
	measured float64   // smoothed over several counts; 0 unknown

	// The learned rate; while top is 0 nothing is slowed.
	top  float64   // where the cubic is flat; +Inf: unknown, as the first refusal came too soon
	from float64   // the rate right after the last cut
	cut  time.Time // when that was
	row  int       // refusals without a success between them, each sent after the one before

	total int64     // units sent that next accounts for
	next  time.Time // when the next unit may leave
}

const (
	cutDeep    = 0.7  // share that is left of the rate after a refusal
	cutShallow = 0.95 // the same where the refusal only confirms what was known
	resumed    = 0.9  // the same after a long row of them
	near       = 0.1  // share of the plateau within which a refusal confirms it
	cubicScale = 0.4  // units per second, per second cubed

	// The way back to the plateau takes so many units' time at least, so that a
	// slow limit is not tried out more often per request than a quick one, but
	// never more than plateauTime.
	plateauUnits = 25
	plateauTime  = 30 * time.Second

	measureTime = time.Second / 2  // one count, at least
	trusted     = 10               // units that a first estimate has to rest on
	horizon     = time.Second      // how long a server may hold against us what it has admitted
	catchUp     = time.Second / 20 // lateness of timers that is made good
	slowest     = 1.0 / 60         // units per second
	forgetPace  = 10 * time.Minute
)

// closings are how long nobody sends after the first, second and third refusal
// in a row: so many units' time, and at least so long. The third outlasts what
// is left of a window of a second. From the fourth on the backoff decides.
var closings = [...]struct {
	units float64
	least time.Duration
}{{2, 0}, {12, 0}, {32, time.Second}}

// learnPaceLocked enters the end of an attempt into the lane's pace. After a
// refusal without a hint it shortens the closing of the gate from the backoff
// to what the learned rate requires: closed for a second and more each time, a
// client could not come near the limit.
func (h *hostState) learnPaceLocked(c *call, r *report) {
	if !h.opts.Limit.Adaptive {
		return
	}
	l := c.lane
	announced := !h.opts.Preemptive.Disable && l.announced()
	if l.pace == nil {
		if announced {
			return
		}
		l.pace = new(pace)
	}
	switch {
	case r.welcome():
		l.pace.succeed(r.now, c.sentAt, float64(c.set.Cost))
	case r.asked || announced: // the gate or the ledger knows better
	case r.verdict.Outcome == Throttled:
		r.until = l.pace.refuse(l.total, r.now, c.sentAt, c.current.retryAt)
		c.current.retryAt = r.until
	case r.verdict.Outcome == Failed && c.current.status() == http.StatusServiceUnavailable:
		l.pace.refuse(l.total, r.now, c.sentAt, c.current.retryAt) // too much for it, for whatever cause
	}
}

// announced reports whether the server has told how much is left of a quota.
func (l *lane) announced() bool {
	for i := range l.ledgers {
		if l.ledgers[i].known() {
			return true
		}
	}
	return false
}

// admitPaced asks the learned rate, with ahead units to be sent before.
func (l *lane) admitPaced(r *ruling, now time.Time, ahead int) {
	p := l.pace
	switch {
	case p == nil || p.top == 0:
		return
	case now.Sub(p.cut) > forgetPace:
		p.top, p.row = 0, 0
		return
	case p.row < 2:
		l.gate.ramp = 0 // at this pace those behind a closed gate need no further order
	}
	p.spend(l.total, l.last)
	r.add(now, p.next.Add(clampDuration(float64(ahead)/p.rate(now)*1e9)), ReasonRate)
}

// spend moves next past what was sent since it was asked last.
func (p *pace) spend(total int64, last time.Time) {
	if units := total - p.total; units > 0 {
		p.total = total
		p.next = later(p.next, last.Add(-catchUp)).Add(clampDuration(float64(units) / p.rate(last) * 1e9))
	}
}

// rate is the learned rate at now, at most twice what was measured.
func (p *pace) rate(now time.Time) float64 {
	r := p.top
	switch {
	case !p.unknown():
		depth := p.top - p.from
		plateau := max(math.Cbrt(depth/cubicScale), min(plateauUnits/p.top, plateauTime.Seconds()))
		x := now.Sub(p.cut).Seconds()/plateau - 1
		r += depth * x * x * x
	case p.measured == 0:
		r = p.from
	}
	if p.measured > 0 {
		r = min(r, 2*p.measured)
	}
	return max(r, slowest)
}

// unknown reports whether the limit is still searched for: the rate doubles
// with each measurement.
func (p *pace) unknown() bool { return math.IsInf(p.top, 1) }

// succeed enters a success.
func (p *pace) succeed(now, sent time.Time, units float64) {
	p.measure(now, units)
	switch {
	case p.row > 0 && !sent.After(p.cut): // it says nothing about the time since
		if p.measured == 0 {
			p.begin(now) // but it was admitted with those that the cut rests on
		}
	case p.row >= len(closings):
		p.resume(now)
		fallthrough
	default:
		p.row = 0
	}
}

// measure counts what the server admits.
func (p *pace) measure(now time.Time, units float64) {
	switch {
	case p.since.IsZero():
		p.since = now
	case p.row == 0 && now.Sub(p.seen) > p.idle(now):
		p.since = p.since.Add(now.Sub(p.seen)) // nobody wanted more: time without meaning
	}
	p.seen = now
	p.count += units
	if p.row < len(closings) && now.Sub(p.since) >= measureTime {
		p.sum(now, now)
	}
}

// idle is the time without a success that shows a lack of demand.
func (p *pace) idle(now time.Time) time.Duration {
	if p.top == 0 {
		return 2 * measureTime
	}
	return max(2*measureTime, clampDuration(3/p.rate(now)*1e9))
}

// sum closes a count that stands for the time until then.
func (p *pace) sum(now, until time.Time) {
	rate := p.counted(until, measureTime)
	switch {
	case p.unknown():
		rate = max(rate, p.measured)
	case p.measured > 0:
		rate = 0.8*rate + 0.2*p.measured
	}
	p.measured = rate
	p.since, p.count = now, 0
}

// refuse enters a refusal and returns until when nobody sends, which is not
// after latest unless it was settled before.
func (p *pace) refuse(total int64, now, sent, latest time.Time) time.Time {
	switch {
	case p.top == 0:
		p.total, p.next, p.row = total, now, 0
	case !sent.After(p.cut):
		return later(now, p.next) // it was under way at the cut that answers for it
	}
	p.row++
	switch p.row {
	case 1:
		p.lower(now)
	case 2:
		p.from = min(p.from, max(cutDeep*p.top, slowest))
	}
	p.cut = now
	until := latest
	if p.row <= len(closings) {
		closed := closings[p.row-1]
		at := now.Add(max(closed.least, clampDuration(closed.units/p.from*1e9)))
		if at.Before(latest) {
			until = at
		}
	}
	p.next = later(p.next, until)
	return p.next
}

// lower cuts the rate at the first refusal of a row.
func (p *pace) lower(now time.Time) {
	admitted := p.measured
	if admitted == 0 {
		admitted = p.counted(now, horizon)
	}
	rate, soon := p.rate(now), now.Sub(p.cut) <= horizon
	share := cutDeep
	switch {
	case p.top == 0 && p.measured == 0:
		p.begin(now)
		return
	case p.top == 0:
		p.top = admitted
	case p.unknown() && p.measured == 0:
		p.from = max(cutDeep*p.from, slowest)
		return
	case p.unknown(): // it lies between the rate and what was admitted
		p.top = (rate + max(admitted, p.counted(now, measureTime))) / 2
	case soon && rate <= (1-near)*p.top: // too much was sent before the cut, not since
		p.top = min(p.top, max(rate, admitted))
		p.from = max(cutDeep*rate, slowest)
		return
	default:
		if !soon && rate > (1-near)*p.top && rate < (1+2*near)*p.top {
			share = cutShallow
		}
		p.top = min(rate, admitted)
	}
	p.top = max(p.top, slowest)
	p.from = share * p.top
}

// begin cuts the rate for the first time, before it was measured: to what was
// admitted of the first volley, as if that were a second's share, or, if that
// is next to nothing, to where a search begins.
func (p *pace) begin(now time.Time) {
	admitted := p.counted(now, horizon)
	if p.count < trusted {
		p.top, p.from = math.Inf(1), max(admitted, 1)
		return
	}
	p.top = max(admitted, slowest)
	p.from = cutDeep * p.top
}

// counted is the rate of the present count, as if it had lasted least.
func (p *pace) counted(now time.Time, least time.Duration) float64 {
	return p.count / max(least, now.Sub(p.since)).Seconds()
}

// resume begins anew when a long row of refusals has ended: with the rate that
// the server admitted in a second before them and in the present count, the
// time in which it admitted nothing included. That ended at some time since the
// last refusal.
func (p *pace) resume(now time.Time) {
	if !p.unknown() {
		p.count += cmp.Or(p.measured, p.top) * horizon.Seconds()
		p.since = p.since.Add(-horizon)
		p.measured = 0
	}
	p.sum(now, p.cut.Add(now.Sub(p.cut)/2))
	if !p.unknown() {
		p.top = max(min(p.top, p.measured), slowest)
		p.from = resumed * p.top
		p.cut = now
	}
}
