package polite

import (
	"strings"
	"time"
)

// lane is one quota's road: who waits, who is under way, and what is known of
// the quota. It is guarded by the host's mutex.
type lane struct {
	gate     gate
	ledgers  []ledger  // one per policy, at most maxQuotas
	met      bool      // an answer has arrived
	bucket   string    // of the host's own lane: what the server calls it
	told     audience  // whose answers told of a quota
	probe    *call     // the request that goes ahead while nothing is known
	queue    callList  // who waits, in the order in which the calls began
	flight   callList  // who has no answer yet, in the order of sending
	total    int64     // units sent since the beginning
	silence  *silence  // who of them ended without a word; nil until one has
	last     time.Time // when the last request left
	pace     *pace     // learned from refusals; nil until an answer, and without Adaptive
	evidence *evidence // for diagnosis; nil while nobody wants one
}

// admit asks what is known of the quota for c, or for the surcharge c of the call
// that waits.
func (l *lane) admit(r *ruling, c, waiting *call, now time.Time, o *PreemptiveOptions) {
	if o.Disable {
		return
	}
	for i := range l.ledgers {
		l.ledgers[i].turn(now, l.total)
	}
	stranger, threshold := l.stranger(c), o.Threshold
	if stranger { // what is left of a quota that it may not share is not spread for it
		threshold = -1
	}
	if l.probe != nil && (stranger && c.asks || l.unsure(c.endpoint)) {
		r.add(now, l.probe.sentAt.Add(settle), ReasonProbe)
	}
	if stranger && c.asks {
		return
	}
	for i := range l.ledgers {
		g := &l.ledgers[i]
		if !g.scope.includes(c.endpoint) {
			continue
		}
		at, reason := g.admit(now, spending{
			units:     c.set.Cost,
			aside:     l.aside(g.sent, &g.scope),
			needs:     l.needs(c),
			unsent:    l.unsent(c, g),
			threshold: threshold,
			last:      l.last,
		})
		if reason == ReasonBrake && !at.IsZero() {
			at = earlier(at, waiting.endOfBrake())
		}
		r.add(now, at, reason)
	}
}

// needs is how many requests the call's caller has to send, this one included.
// Calls of one caller that overtake each other declare their numbers out of
// order, so those under way may be among them and are taken off.
func (l *lane) needs(c *call) int {
	return max(min(c.set.Needs, 1), c.set.Needs-l.flight.n)
}

// unsent is how many requests the call's caller has to send, this one included,
// as a window that may slide has to know it exactly; 0 if it is not known or
// does not matter. Those in line are of one caller, and who is not in line yet
// has a lower number than all who are, though they stand there out of order.
func (l *lane) unsent(c *call, g *ledger) int {
	switch {
	case c.set.Needs <= 0, g.shape != unknownShape, !g.opened.IsZero():
		return 0
	case l.queue.first != nil && l.queue.first != c: // it waits for those before it
		return 0
	}
	least, waiting := c.set.Needs, 0
	if !c.queued {
		waiting = 1
	}
	for o := l.queue.first; o != nil; o = o.next {
		if o.set.Needs > 0 {
			least = min(least, o.set.Needs)
			waiting++
		}
	}
	return least - 1 + waiting
}

// unsure reports whether it is unknown how much the server would admit to an
// endpoint: at the first contact, and when a window has begun.
func (l *lane) unsure(e endpoint) bool {
	for i := range l.ledgers {
		if g := &l.ledgers[i]; g.fresh && g.scope.includes(e) {
			return true
		}
	}
	return !l.met
}

// stranger reports whether it is only assumed that the call's endpoint counts
// against the lane's quotas: others were told of them, and it has not been.
func (l *lane) stranger(c *call) bool {
	return c.set.QuotaKey == "" && l.told.last != 0 && !l.told.includes(c.endpoint)
}

// depart enters a request that is about to be sent.
func (l *lane) depart(c *call, now time.Time) {
	if l.probe == nil && (c.asks || l.unsure(c.endpoint)) {
		l.probe = c
	}
	l.book(c, now)
}

// book counts a request's units and puts it among those under way.
func (l *lane) book(c *call, now time.Time) {
	l.last = now
	l.total += int64(c.set.Cost)
	c.sentAt, c.units = now, l.total
	l.flight.push(c)
}

// arrive enters the end of a request and what its answer says.
func (l *lane) arrive(c *call, r report, s *signals) {
	l.flight.remove(c)
	if l.probe == c {
		l.probe = nil
	}
	l.met = l.met || r.answered
	if r.uncounted {
		for i := range l.ledgers {
			l.ledgers[i].uncount(c.units, int64(c.set.Cost))
		}
		return
	}
	a := answer{sent: c.sentAt, read: r.now, units: c.units, total: l.total, cost: int64(c.set.Cost), refused: r.verdict.Outcome == Throttled,
		aside: l.aside(c.sentAt, nil), silent: l.silence.since(c.units)}
	l.bookLost(c, s)
	if s == nil || a.refused && l.larger(s) {
		return
	}
	a.absolute = s.absolute
	known, told := len(l.ledgers), false
	for i := range s.n {
		if q := &s.quotas[i]; q.Unit == "" { // tokens, points and bytes are no requests
			l.ledger(q.Policy).observe(q, a)
			told = true
		}
	}
	if told {
		l.narrow(c.endpoint, known, s, a.refused)
	}
	if r.verdict.Outcome == OK && s.n == 0 {
		l.untold(c.endpoint, c.sentAt)
	}
}

// bookLost enters a request into the ledgers that its answer says nothing about:
// all of those that concern it where there is no answer.
func (l *lane) bookLost(c *call, s *signals) {
	concerns, spoken := c.isSurcharge(), false // which is charged before the quota is known
	for i := range l.ledgers {
		g := &l.ledgers[i]
		switch {
		case s.speaksOf(g.policy):
			spoken = true
		case g.scope.includes(c.endpoint):
			g.lost(c.set.Cost, !c.sentAt.Before(g.sent.Add(-settle)))
			concerns = true
		}
	}
	if concerns && !spoken && l.flight.n > 0 { // whose answers may not include it
		if l.silence == nil {
			l.silence = new(silence)
		}
		l.silence.add(silentEnd{sent: l.total, units: int64(c.set.Cost)})
	}
}

// unqueue takes a call out of the lane's line; whoever stands behind it is next.
func (l *lane) unqueue(c *call) {
	first := l.queue.first == c
	l.queue.remove(c)
	if first {
		l.queue.wakeFirst()
	}
}

// quotas appends what the lane's ledgers hold.
func (l *lane) quotas(to []Quota) []Quota {
	for i := range l.ledgers {
		to = append(to, l.ledgers[i].quota())
	}
	return to
}

// speaksOf reports whether the answer told about the policy.
func (s *signals) speaksOf(policy string) bool {
	if s == nil {
		return false
	}
	for i := range s.n {
		if q := &s.quotas[i]; q.Policy == policy && q.Unit == "" {
			return true
		}
	}
	return false
}

// ledger returns the ledger of a policy. Beyond maxQuotas, which a server that
// invents names would reach, the oldest one is reused.
func (l *lane) ledger(policy string) *ledger {
	for i := range l.ledgers {
		if l.ledgers[i].policy == policy {
			return &l.ledgers[i]
		}
	}
	if len(l.ledgers) >= maxQuotas {
		copy(l.ledgers, l.ledgers[1:])
		l.ledgers = l.ledgers[:maxQuotas-1]
	}
	policy = strings.Clone(policy) // or it would keep all of the response's header
	l.ledgers = append(l.ledgers, ledger{policy: policy, limit: -1, price: 1})
	return &l.ledgers[len(l.ledgers)-1]
}

// aside is how many units are under way that the server may not have counted
// when it answered a request sent at t: those sent after it, and those sent
// less than a second before, which may have been overtaken. Nil counts all
// endpoints.
func (l *lane) aside(t time.Time, of *scope) float64 {
	if l.flight.first == nil {
		return 0
	}
	counted := 0
	certain := t.Add(-settle) // what left before it was counted
	for c := l.flight.first; c != nil; c = c.next {
		old := c.sentAt.Before(certain)
		if !old && of.everybody() {
			break
		}
		if old || !of.includes(c.endpoint) {
			counted += c.set.Cost
		}
	}
	return float64(l.flight.units - counted)
}
