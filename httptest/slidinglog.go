package httptest

import "time"

// slidingLog keeps one entry per counted request, at most N of them. An entry counts for exactly Per:
// in every interval [t, t+Per) at most N are admitted. Reset is the expiry of the oldest entry (or of the newest).
type slidingLog struct {
	limit   Limit
	entries []logEntry // oldest first
	used    int        // the sum of their costs
}

type logEntry struct {
	at   time.Time
	cost int
}

// expire forgets the entries that no longer count.
func (s *slidingLog) expire(now time.Time) {
	gone := 0
	for gone < len(s.entries) && !now.Before(s.entries[gone].at.Add(s.limit.Per)) {
		s.used -= s.entries[gone].cost
		gone++
	}
	s.entries = s.entries[gone:] // append moves them to other memory once in a while, so that what is gone is freed
}

func (s *slidingLog) wait(now time.Time, cost int) time.Duration {
	s.expire(now)
	excess := s.used + cost - s.limit.N
	if excess <= 0 {
		return 0
	}
	for _, e := range s.entries {
		if excess -= e.cost; excess <= 0 {
			return e.at.Add(s.limit.Per).Sub(now)
		}
	}
	return s.limit.Per // not reached: cost ≤ N, so expiring every entry makes room
}

func (s *slidingLog) take(now time.Time, cost int) time.Duration {
	s.expire(now)
	s.entries = append(s.entries, logEntry{now, cost})
	s.used += cost
	return 0
}

func (s *slidingLog) remaining(now time.Time) int {
	s.expire(now)
	return s.limit.N - s.used
}

func (s *slidingLog) reset(now time.Time) time.Time {
	s.expire(now)
	if len(s.entries) == 0 {
		return now
	}
	e := s.entries[0]
	if s.limit.ResetNewest {
		e = s.entries[len(s.entries)-1]
	}
	return e.at.Add(s.limit.Per)
}

func (s *slidingLog) idle(now time.Time) bool {
	s.expire(now)
	return len(s.entries) == 0
}
