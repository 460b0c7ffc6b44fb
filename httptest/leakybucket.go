package httptest

import "time"

// leakyBucket is a queue that lets requests out at a constant pace, N per Per. A request is held until
// those before it have left; it is refused when the queue is full or the stay would be too long.
// Reset is the instant at which the queue is empty.
type leakyBucket struct {
	token, flow int64 // see Limit.units
	full        int64 // the queue's ceiling
	longest     int64 // the backlog that a request may find, from Limit.MaxDelay
	backlog     int64
	last        time.Time
}

func newLeakyBucket(l Limit) *leakyBucket {
	token, flow := l.units()
	b := &leakyBucket{token: token, flow: flow, full: token * int64(l.Capacity)}
	b.longest = b.full
	if l.MaxDelay > 0 && int64(l.MaxDelay) < b.full/flow {
		b.longest = int64(l.MaxDelay) * flow
	}
	return b
}

func (b *leakyBucket) drain(now time.Time) {
	elapsed := now.Sub(b.last)
	if elapsed == 0 {
		return
	}
	if elapsed >= b.untilEmpty() {
		b.backlog = 0
	} else if elapsed > 0 {
		b.backlog -= int64(elapsed) * b.flow
	}
	b.last = now
}

func (b *leakyBucket) untilEmpty() time.Duration { return time.Duration(divUp(b.backlog, b.flow)) }

// excess is by how many units the backlog is too high for a request of that cost.
func (b *leakyBucket) excess(cost int) int64 {
	return b.backlog - min(b.full-int64(cost)*b.token, b.longest)
}

func (b *leakyBucket) wait(now time.Time, cost int) time.Duration {
	b.drain(now)
	return time.Duration(max(0, divUp(b.excess(cost), b.flow)))
}

func (b *leakyBucket) take(now time.Time, cost int) time.Duration {
	b.drain(now)
	held := b.untilEmpty()
	b.backlog += int64(cost) * b.token
	return held
}

func (b *leakyBucket) remaining(now time.Time) int {
	b.drain(now)
	if b.backlog > b.longest {
		return 0
	}
	// Requests sent at once find a backlog that grows by one token each.
	byCeiling := (b.full - b.backlog) / b.token
	byDelay := (b.longest-b.backlog)/b.token + 1
	return int(min(byCeiling, byDelay))
}

func (b *leakyBucket) reset(now time.Time) time.Time {
	b.drain(now)
	return now.Add(b.untilEmpty())
}

func (b *leakyBucket) idle(now time.Time) bool {
	b.drain(now)
	return b.backlog == 0
}
