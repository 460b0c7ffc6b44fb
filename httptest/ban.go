package httptest

import "time"

// banning shuts its key out for a while after a refusal, as servers do that answer 403 for minutes.
type banning struct {
	meter
	limit Limit
	until time.Time
}

func (b *banning) wait(now time.Time, cost int) time.Duration {
	return max(b.until.Sub(now), b.meter.wait(now, cost), 0)
}

// refused begins the ban, or begins it anew if every knock extends it.
func (b *banning) refused(now time.Time) {
	if b.limit.BanExtends || !now.Before(b.until) {
		b.until = now.Add(b.limit.Ban)
	}
}

func (b *banning) remaining(now time.Time) int {
	if now.Before(b.until) {
		return 0
	}
	return b.meter.remaining(now)
}

func (b *banning) reset(now time.Time) time.Time {
	if now.Before(b.until) {
		return b.until
	}
	return b.meter.reset(now)
}

func (b *banning) idle(now time.Time) bool { return !now.Before(b.until) && b.meter.idle(now) }
