package polite

import (
	"sync"
	"time"
)

// hostState is all that is remembered of one host. Whoever looks at it moves
// it forward to the present; no goroutine tends it.
type hostState struct {
	key          hostKey
	opts         *Options
	dialect      *hostDialect // how it speaks of limits
	older, newer *hostState   // guarded by hostTable.mu

	mu        sync.Mutex
	lane      lane              // the requests with the empty quota key whose bucket has no lane of its own
	lanes     map[laneKey]*lane // the others, at most maxLanes
	endpoints endpoints         // nil until a second bucket is met
	gate      gate              // closed by failures that affect everybody
	meters    []meter           // the client's own rates
	last      time.Time         // when the last request left
	flying    int               // requests without an answer
	slots     int               // requests in flight, bodies included
	waiting   int               // calls in line
	began     uint64            // calls begun, which gives them their order
	budget    budget
	breaker   *breaker // nil until the first failure
}

// maxLanes bounds the quota keys and buckets that one host tells apart; calls
// of further ones share the host's own lane.
const maxLanes = 64

func newHostState(key hostKey, o *Options, d *hostDialect) *hostState {
	return &hostState{key: key, opts: o, dialect: d, meters: newMeters(o.Limit.Rates)}
}

// ruling is the answer to a call that asks for admission: admitted, or what to
// wait for and the earliest end of it (zero when it depends on others), or
// refused for good.
type ruling struct {
	reason  Reason // 0: admitted
	until   time.Time
	refused error
	first   bool // the call is the first in line: time alone may admit it
	second  bool // it is its second quota that objects; see surcharge
}

// add takes one stage's answer into the ruling; the latest instant prevails.
func (r *ruling) add(now, at time.Time, reason Reason) {
	switch {
	case reason == 0 || !at.IsZero() && !at.After(now): // no objection
	case at.After(r.until):
		r.until, r.reason = at, reason
	case r.reason == 0:
		r.reason = reason
	}
}

// admit lets the call depart if no stage objects. Otherwise the call stands in
// line, and is woken when its ruling may have changed.
func (h *hostState) admit(c *call, now time.Time) ruling {
	h.mu.Lock()
	defer h.mu.Unlock()
	now = later(now, h.last) // the clock may have been looked at before another call took its turn
	if c.lane == nil {
		h.began++
		c.order = h.began
	}
	h.followLocked(c, now)
	r := h.ruleLocked(c, now)
	switch {
	case r.refused != nil:
		h.leaveLocked(c)
	case r.reason != 0:
		r = h.enqueueLocked(c, r)
	default:
		h.leaveLocked(c)
		h.departLocked(c, now)
	}
	return r
}

// ruleLocked asks every stage in turn.
func (h *hostState) ruleLocked(c *call, now time.Time) ruling {
	if h.breaker != nil && h.breaker.blocked() {
		return ruling{refused: &CircuitOpenError{Host: h.key.String(), Until: h.breaker.until(now)}}
	}
	l := c.lane
	ahead := l.queue.before(c)
	r := ruling{first: ahead == 0}
	l.admitPaced(&r, now, ahead)
	at, reason := l.gate.admit(now, l.last, l.flight.n)
	r.add(now, at, reason)
	l.admit(&r, c, c, now, &h.opts.Preemptive)
	shares := r.first && r.reason == 0
	at, reason = h.gate.admit(now, h.last, h.flying)
	r.add(now, at, reason)
	for i := range h.meters {
		m := &h.meters[i]
		if !m.counts(c.set.QuotaKey) {
			continue
		}
		if !m.fit(now, c.set.Cost) {
			return ruling{refused: &WaitError{Host: h.key.String(), Reason: ReasonRate, Bound: boundRate, Attempts: c.attempts}}
		}
		if delay := m.delay(now, ahead, c.set.Cost); delay > 0 {
			r.add(now, now.Add(delay), ReasonRate)
			shares = shares && m.rate.Key == ""
		}
	}
	if limit := h.opts.Limit.MaxInFlight; limit > 0 && h.slots >= limit {
		r.add(now, time.Time{}, ReasonInFlight)
	}
	if shares { // or it has a wait of its own, at the end of which it looks again
		if elder := h.elderLocked(l); elder != nil && elder.order < c.order {
			r.add(now, time.Time{}, ReasonQueue)
			r.first = false
		}
	}
	if ahead > 0 {
		r.add(now, time.Time{}, ReasonQueue)
	}
	if c.surcharge != nil {
		h.surchargeLocked(c, &r, now)
	}
	if r.reason != 0 {
		h.shareLocked(c, shares && !r.second)
	}
	if r.reason == 0 && h.breaker != nil { // the probe's slot is taken last, after all waits
		permit, ok := h.breaker.allow()
		if !ok {
			return ruling{refused: &CircuitOpenError{Host: h.key.String(), Until: h.breaker.until(now)}}
		}
		c.permit = permit
	}
	return r
}

// elderLocked is the oldest call outside a lane that waits for nothing but what
// all quotas of the host share, which goes to it first. Nil if there is none.
func (h *hostState) elderLocked(except *lane) (elder *call) {
	if h.waiting == 0 || h.lanes == nil {
		return nil
	}
	h.eachLaneLocked(func(l *lane) {
		if c := l.queue.first; l != except && c != nil && c.shares && (elder == nil || c.order < elder.order) {
			elder = c
		}
	})
	return elder
}

// shareLocked notes whether the call waits for nothing but what all quotas share.
// If it does so no longer, the oldest of the others may be next.
func (h *hostState) shareLocked(c *call, shares bool) {
	was := c.shares
	c.shares = shares
	if was && !shares {
		if elder := h.elderLocked(c.lane); elder != nil {
			elder.rouse()
		}
	}
}

// enqueueLocked puts a call that has to wait into its lane's line.
func (h *hostState) enqueueLocked(c *call, r ruling) ruling {
	if !c.queued {
		if limit := h.opts.Limit.MaxWaiting; limit >= 0 && h.waiting >= limit {
			return ruling{refused: &WaitError{Host: h.key.String(), Reason: ReasonQueue, Until: r.until, Bound: boundWaiting, Attempts: c.attempts}}
		}
		if c.wake == nil {
			c.wake = make(chan struct{}, 1)
		}
		h.waiting++
		c.queued = true
		c.lane.queue.insert(c)
	}
	if r.second {
		c.surcharge.lineUp(c.wake)
	}
	return r
}

// leaveLocked takes the call out of line; whoever stands behind it is next.
func (h *hostState) leaveLocked(c *call) {
	if !c.queued {
		return
	}
	c.queued = false
	h.waiting--
	c.lane.unqueue(c)
	if next := c.lane.queue.first; c.shares && next != nil && !next.isSurcharge() {
		next.shares = true // until it has looked
	}
	h.shareLocked(c, false)
	if c.surcharge != nil {
		c.surcharge.stepOut()
	}
	select {
	case <-c.wake: // nobody rouses it any more, and its next wait is another one
	default:
	}
}

// mayAsk reports whether a call that would fail for a quota may be sent all the
// same, ahead of others like it, because the quota may not be its own: a strict
// one for signing in, say, must not end the use of a whole host.
func (h *hostState) mayAsk(c *call, why Reason) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.asks || why != ReasonQuota || !c.lane.stranger(c) {
		return false
	}
	c.asks = true
	return true
}

// leave takes a call that waits no longer out of line.
func (h *hostState) leave(c *call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leaveLocked(c)
}

// departLocked enters the call into all books: it is about to be sent.
func (h *hostState) departLocked(c *call, now time.Time) {
	for i := range h.meters {
		if m := &h.meters[i]; m.counts(c.set.QuotaKey) {
			m.take(now, c.set.Cost)
		}
	}
	h.last = now
	h.flying++
	h.slots++
	c.lane.depart(c, now)
	if c.surcharge != nil {
		c.surcharge.depart(now)
	}
}

// report is what an attempt has shown, for the host's books.
type report struct {
	now       time.Time
	verdict   Verdict
	answered  bool      // there was a response
	uncounted bool      // the server cannot have counted it: never sent, or answered by a cache
	until     time.Time // closes the gate, unless zero
	asked     bool      // the server named that instant
	latest    time.Time // the random lengthening ends here
}

// welcome reports whether the server let the request in.
func (r *report) welcome() bool {
	return r.answered && (r.verdict.Outcome == OK || r.verdict.Outcome == Ignored)
}

// arrive enters the end of an attempt into all books, wakes who may go and
// returns what the attempt has shown to be amiss.
func (h *hostState) arrive(c *call, r report, s *signals) findings {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.flying--
	h.moveLocked(c, &r, s)
	c.lane.arrive(c, r, s)
	if c.surcharge != nil {
		c.surcharge.arrive(&r)
	}
	found := h.examineLocked(c, &r, s)
	h.learnPaceLocked(c, &r)
	h.recordLocked(c, r.verdict.Outcome)
	longer := false
	switch {
	case !r.until.IsZero() && r.verdict.Outcome == Throttled && !h.stopsAllLocked(c, s):
		longer = c.lane.gate.close(r.now, r.until, r.latest, r.asked)
	case !r.until.IsZero():
		longer = h.gate.close(r.now, r.until, r.latest, r.asked)
	case r.welcome():
		c.lane.gate.passed(r.now)
		h.gate.passed(r.now)
	}
	if r.verdict.Outcome == OK {
		h.budget.success(h.opts.Retry.BudgetRatio)
	}
	if h.waiting == 0 {
		return found
	}
	if longer || h.breaker != nil && h.breaker.blocked() {
		h.eachLaneLocked(func(l *lane) { l.queue.wakeAll() }) // those who cannot wait that long shall know now
		return found
	}
	h.eachLaneLocked(func(l *lane) { l.queue.wakeFirst() })
	return found
}

// vacate gives the place in flight back: the response's body has ended.
func (h *hostState) vacate() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.slots--
	if h.opts.Limit.MaxInFlight > 0 && h.waiting > 0 {
		h.eachLaneLocked(func(l *lane) { l.queue.wakeFirst() })
	}
}

// grantRetry takes a token of the retry budget.
func (h *hostState) grantRetry(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.budget.take(now, h.opts.Retry.BudgetRatio)
}

// gatedUntil is when the gates that hold the call open, and why they are shut.
func (h *hostState) gatedUntil(c *call) (time.Time, Reason) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := &c.lane.gate
	if h.gate.until.After(g.until) {
		g = &h.gate
	}
	return g.until, g.reason()
}

func (h *hostState) eachLaneLocked(f func(*lane)) {
	f(&h.lane)
	for _, l := range h.lanes {
		f(l)
	}
}
