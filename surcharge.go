package polite

import "time"

// A surcharge is a request's place in the books of a second quota, which its
// answer says nothing about. It stands in that quota's line and among its
// requests under way as a call with that quota's cost; the call it belongs to
// does the waiting and the sending. It is guarded by the host's mutex.

// isSurcharge tells it from a call.
func (c *call) isSurcharge() bool { return c.req == nil }

// levy gives the call its surcharge, if there is one.
func (c *call) levy(key string, units int) {
	if units > 0 && key != c.set.QuotaKey {
		c.surcharge = &call{set: &Overrides{QuotaKey: key, Cost: units}}
	}
}

// surchargeLocked asks the second quota, once the call's own has no objection:
// until then the surcharge holds up nobody there.
func (h *hostState) surchargeLocked(c *call, r *ruling, now time.Time) {
	s := c.surcharge
	if r.reason != 0 {
		s.stepOut()
		return
	}
	l := &h.lane
	if s.set.QuotaKey != "" {
		l = h.openLocked(laneKey{quota: s.set.QuotaKey})
	}
	if l == c.lane { // beyond maxLanes two keys share one, and the call would wait behind itself
		s.stepOut()
		s.lane = nil
		return
	}
	s.lane, s.order = l, c.order
	s.endpoint = l.told.last // it is no stranger there
	at, reason := l.gate.admit(now, l.last, l.flight.n)
	r.add(now, at, reason)
	l.admit(r, s, c, now, &h.opts.Preemptive)
	if l.queue.before(s) > 0 {
		r.add(now, time.Time{}, ReasonQueue)
		r.first = false
	}
	r.second = r.reason != 0
}

// lineUp has the surcharge of a call that waits for the second quota stand in
// line there.
func (s *call) lineUp(wake chan struct{}) {
	if !s.queued {
		s.queued, s.wake = true, wake
		s.lane.queue.insert(s)
	}
}

// stepOut takes the surcharge out of line.
func (s *call) stepOut() {
	if s.queued {
		s.queued = false
		s.lane.unqueue(s)
	}
}

// depart enters the surcharge of a call that is about to be sent. It is never
// the probe of its lane, for its answer tells nothing.
func (s *call) depart(now time.Time) {
	if s.lane != nil {
		s.lane.book(s, now)
	}
}

// arrive enters the end of the attempt. What was refused is not charged.
func (s *call) arrive(r *report) {
	l := s.lane
	if l == nil {
		return
	}
	l.flight.remove(s)
	if r.uncounted || r.verdict.Outcome == Throttled {
		return
	}
	for i := range l.ledgers {
		l.ledgers[i].presume(s.sentAt, r.now)
	}
	l.bookLost(s, nil)
}
