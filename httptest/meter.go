package httptest

import "time"

// meter is the state of one limit for one key. It never reads the clock and never sleeps. Its methods are
// called with instants that do not go back; a cost is between 1 and the limit's ceiling.
type meter interface {
	// wait is how long after now a request of that cost would first be admitted, if no other came; 0 = now.
	wait(now time.Time, cost int) time.Duration
	// take counts a request for which wait said 0, and returns how long the server holds it back.
	take(now time.Time, cost int) time.Duration
	// remaining is how many requests of cost 1 would be admitted at now.
	remaining(now time.Time) int
	// reset is the instant that the server announces beside remaining.
	reset(now time.Time) time.Time
	// idle reports that the state equals that of a key never seen, so that it may be forgotten.
	idle(now time.Time) bool
}

// refuser is a meter that changes when it has refused.
type refuser interface {
	refused(now time.Time)
}

// newMeter returns the empty state for a resolved limit.
func newMeter(l Limit) meter {
	if l.N < 0 {
		return unlimited{}
	}
	if l.Ban > 0 {
		inner := l
		inner.Ban = 0
		return &banning{meter: newMeter(inner), limit: l}
	}
	switch l.Algorithm {
	case SlidingLog:
		return &slidingLog{limit: l}
	case SlidingCounter:
		return &slidingCounter{limit: l}
	case TokenBucket:
		return newTokenBucket(l)
	case LeakyBucket:
		return newLeakyBucket(l)
	default:
		return &fixedWindow{limit: l}
	}
}

// unlimited admits everything.
type unlimited struct{}

func (unlimited) wait(time.Time, int) time.Duration { return 0 }
func (unlimited) take(time.Time, int) time.Duration { return 0 }
func (unlimited) remaining(time.Time) int           { return -1 }
func (unlimited) reset(now time.Time) time.Time     { return now }
func (unlimited) idle(time.Time) bool               { return true }

// windowStart is where the window that holds now begins, aligned to the Unix epoch.
func windowStart(now time.Time, per time.Duration) time.Time {
	since := now.UnixNano() % int64(per)
	if since < 0 {
		since += int64(per)
	}
	return now.Add(-time.Duration(since))
}
