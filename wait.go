package polite

import (
	"context"
	"time"
)

// bounded returns an error if a wait until then would end too late for the call,
// or more than most (negative: unlimited) after since. A zero instant, which is
// not known, never does.
func (c *call) bounded(until time.Time, reason Reason, since time.Time, most time.Duration) error {
	bound := ""
	deadline, has := c.ctx.Deadline()
	switch {
	case has && !until.Before(deadline): // what is sent at the deadline has no time to be answered
		bound = boundDeadline
	case !c.deadline.IsZero() && !until.Before(c.deadline):
		bound = boundElapsed
	case most >= 0 && until.Sub(since) > most:
		bound = boundMaxWait
	default:
		return nil
	}
	return &WaitError{Host: c.host.key.String(), Reason: reason, Until: until, Bound: bound, Attempts: c.attempts}
}

// endOfBrake is when the brake lets a call go that began to wait at since: it
// takes half of the time that the call has, for what it spreads is there.
func (c *call) endOfBrake(since time.Time) time.Time {
	var end time.Time
	if c.set.AdmissionWait >= 0 {
		end = since.Add(c.set.AdmissionWait)
	}
	if !c.deadline.IsZero() && (end.IsZero() || c.deadline.Before(end)) {
		end = c.deadline
	}
	if deadline, ok := c.ctx.Deadline(); ok && (end.IsZero() || deadline.Before(end)) {
		end = deadline
	}
	if end.IsZero() {
		return end
	}
	return since.Add(end.Sub(since) / 2)
}

// sleep is the only place where polite waits: until the given instant (zero:
// for as long as the bounds allow), until the call is woken, or until its
// context ends.
func (c *call) sleep(until time.Time, reason Reason, since time.Time, most time.Duration) error {
	end, bound := until, ""
	if most >= 0 && (end.IsZero() || since.Add(most).Before(end)) {
		end, bound = since.Add(most), boundMaxWait
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
		return &WaitError{Host: c.host.key.String(), Reason: reason, Bound: bound, Attempts: c.attempts}
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
	err := c.sleep(a.retryAt, ReasonBackoff, c.now, -1)
	c.now = time.Now()
	return err
}
