package polite

import (
	"context"
	"time"
)

// bounded returns an error if a wait until then would end too late for the call,
// or longer after since than maxWait, boundRetry or boundAdmission, allows. A
// zero instant, which is not known, never does.
func (c *call) bounded(until time.Time, reason Reason, since time.Time, maxWait string) *WaitError {
	bound, most := maxWait, c.most(maxWait)
	switch {
	case !c.ctxEnd.IsZero() && !until.Before(c.ctxEnd): // what is sent at the deadline has no time to be answered
		bound = boundDeadline
	case !c.deadline.IsZero() && !until.Before(c.deadline):
		bound = boundElapsed
	case most >= 0 && until.Sub(since) > most:
	default:
		return nil
	}
	return c.tooLong(until, reason, bound)
}

// tooLong is the error of a wait that would pass, or has passed, a bound.
func (c *call) tooLong(until time.Time, reason Reason, bound string) *WaitError {
	return &WaitError{Host: c.host.key.String(), Reason: reason, Until: until, Bound: bound,
		Most: max(0, c.most(bound)), Attempts: c.attempts}
}

// most is the setting behind a bound: how long it allows, negative if there is
// no limit.
func (c *call) most(bound string) time.Duration {
	switch bound {
	case boundRetry:
		return c.set.MaxWait
	case boundAdmission:
		return c.set.AdmissionWait
	case boundElapsed:
		return c.set.MaxElapsed
	}
	return -1
}

// clock is the present, as the call's own time goes on: for half the price of
// time.Now, and a step of the local clock does not show in it.
func (c *call) clock() time.Time { return c.now.Add(time.Since(c.now)) }

// endOfBrake is when the brake lets a call go that waits for admission; zero
// never. It takes half of the time that the call has, for what it spreads is
// there.
func (c *call) endOfBrake() time.Time {
	since := c.now
	end := earlier(c.deadline, c.ctxEnd)
	if c.set.AdmissionWait >= 0 {
		end = earlier(end, since.Add(c.set.AdmissionWait))
	}
	if end.IsZero() {
		return end
	}
	return since.Add(end.Sub(since) / 2)
}

// sleep is the only place where polite waits: until the given instant (zero:
// for as long as the bounds allow, maxWait among them if it is not ""), until
// the call is woken, or until its context ends.
func (c *call) sleep(until time.Time, reason Reason, since time.Time, maxWait string) error {
	end, bound := until, ""
	if most := c.most(maxWait); most >= 0 && (end.IsZero() || since.Add(most).Before(end)) {
		end, bound = since.Add(most), maxWait
	}
	if !c.deadline.IsZero() && (end.IsZero() || c.deadline.Before(end)) {
		end, bound = c.deadline, boundElapsed
	}
	var fired <-chan time.Time
	if !end.IsZero() {
		timer := time.NewTimer(time.Until(end))
		defer timer.Stop()
		fired = timer.C
	}
	select {
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	case <-c.wake:
		return nil
	case <-fired:
		if bound == "" {
			return nil
		}
		return c.tooLong(time.Time{}, reason, bound)
	}
}

// rouse makes a waiting call look again. It never blocks.
func (c *call) rouse() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// pause waits out the delay of the call's own retry. Delays that hold for
// everybody are the gate's, at the next admission.
func (c *call) pause(a *attempt) error {
	c.now = time.Now()
	if a.closesGate() || !a.retryAt.After(c.now) {
		return nil
	}
	if c.trace != nil && c.trace.Wait != nil {
		c.trace.Wait(WaitEvent{Request: c.event(), Reason: ReasonBackoff, Attempt: c.attempts + 1, From: c.now, Until: a.retryAt})
	}
	err := c.sleep(a.retryAt, ReasonBackoff, c.now, "")
	c.now = time.Now()
	return err
}
