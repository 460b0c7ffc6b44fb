package httptest

import "time"

// fixedWindow keeps one counter. Reset is the end of the window.
type fixedWindow struct {
	limit Limit
	start time.Time
	count int
}

// advance opens the window that holds now, if another one is open.
func (f *fixedWindow) advance(now time.Time) {
	if !now.Before(f.end()) {
		f.start, f.count = windowStart(now, f.limit.Per), 0
	}
	if f.limit.FromFirst && f.count == 0 {
		f.start = now // none is open before something is counted
	}
}

func (f *fixedWindow) end() time.Time { return f.start.Add(f.limit.Per) }

func (f *fixedWindow) wait(now time.Time, cost int) time.Duration {
	f.advance(now)
	if f.count+cost <= f.limit.N {
		return 0
	}
	return f.end().Sub(now)
}

func (f *fixedWindow) take(now time.Time, cost int) time.Duration {
	f.advance(now)
	f.count += cost
	return 0
}

func (f *fixedWindow) remaining(now time.Time) int {
	f.advance(now)
	return f.limit.N - f.count
}

func (f *fixedWindow) reset(now time.Time) time.Time {
	f.advance(now)
	return f.end()
}

func (f *fixedWindow) idle(now time.Time) bool { return f.count == 0 || !now.Before(f.end()) }
