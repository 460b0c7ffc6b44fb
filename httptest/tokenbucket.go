package httptest

import "time"

// tokenBucket refills lazily: level = min(capacity, level + elapsed × rate), in whole units, without timers.
// Reset is the instant at which it is full again.
type tokenBucket struct {
	token, flow int64 // see Limit.units
	full        int64
	level       int64
	last        time.Time
}

func newTokenBucket(l Limit) *tokenBucket {
	token, flow := l.units()
	full := token * int64(l.Capacity)
	return &tokenBucket{token: token, flow: flow, full: full, level: full}
}

func (b *tokenBucket) refill(now time.Time) {
	elapsed := now.Sub(b.last)
	if elapsed == 0 {
		return
	}
	if elapsed >= b.untilFull() {
		b.level = b.full
	} else if elapsed > 0 {
		b.level += int64(elapsed) * b.flow
	}
	b.last = now
}

// untilFull is how long after last the bucket is full.
func (b *tokenBucket) untilFull() time.Duration {
	return time.Duration(divUp(b.full-b.level, b.flow))
}

func (b *tokenBucket) wait(now time.Time, cost int) time.Duration {
	b.refill(now)
	return time.Duration(max(0, divUp(int64(cost)*b.token-b.level, b.flow)))
}

func (b *tokenBucket) take(now time.Time, cost int) time.Duration {
	b.refill(now)
	b.level -= int64(cost) * b.token
	return 0
}

func (b *tokenBucket) remaining(now time.Time) int {
	b.refill(now)
	return int(b.level / b.token)
}

func (b *tokenBucket) reset(now time.Time) time.Time {
	b.refill(now)
	return now.Add(b.untilFull())
}

func (b *tokenBucket) idle(now time.Time) bool {
	b.refill(now)
	return b.level == b.full
}
