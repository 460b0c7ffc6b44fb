package httptest

import "time"

// slidingCounter keeps two counters and estimates the sliding window as
// previous × (1 − elapsed/window) + current. Reset is the end of the current window.
type slidingCounter struct {
	limit             Limit
	start             time.Time
	previous, current int
}

// advance moves to the window that holds now.
func (s *slidingCounter) advance(now time.Time) {
	switch end := s.start.Add(s.limit.Per); {
	case now.Before(end):
	case now.Before(end.Add(s.limit.Per)):
		s.start, s.previous, s.current = end, s.current, 0
	default:
		s.start, s.previous, s.current = windowStart(now, s.limit.Per), 0, 0
	}
	if s.limit.FromFirst && s.previous == 0 && s.current == 0 {
		s.start = now // none is open before something is counted
	}
}

// decayed is the instant, after a window's start, from which count requests of the window before it weigh at most room.
func (s *slidingCounter) decayed(count, room int) time.Duration {
	if count <= room {
		return 0
	}
	return s.limit.Per - time.Duration(mulDiv(int64(room), int64(s.limit.Per), int64(count)))
}

func (s *slidingCounter) wait(now time.Time, cost int) time.Duration {
	s.advance(now)
	elapsed := now.Sub(s.start)
	room := s.limit.N - s.current - cost
	if room < 0 { // this window is used up: the wait goes on into the next one
		return s.limit.Per - elapsed + s.decayed(s.current, s.limit.N-cost)
	}
	return max(0, s.decayed(s.previous, room)-elapsed)
}

func (s *slidingCounter) take(now time.Time, cost int) time.Duration {
	s.advance(now)
	s.current += cost
	return 0
}

func (s *slidingCounter) remaining(now time.Time) int {
	s.advance(now)
	left := s.limit.Per - now.Sub(s.start)
	weight := mulDivUp(int64(s.previous), int64(left), int64(s.limit.Per))
	return max(0, s.limit.N-s.current-int(weight))
}

func (s *slidingCounter) reset(now time.Time) time.Time {
	s.advance(now)
	return s.start.Add(s.limit.Per)
}

func (s *slidingCounter) idle(now time.Time) bool {
	s.advance(now)
	return s.previous == 0 && s.current == 0
}
