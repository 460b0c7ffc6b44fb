package httptest

import "time"

// timelineSeconds is how far back [Server.Timeline] reaches.
const timelineSeconds = 600

// Second counts what arrived in one second. What was neither refused nor failed has passed.
type Second struct {
	At       time.Time // its beginning
	Requests int
	Refusals int
	Failures int // not refused, but answered 5xx, or not completely
}

// timeline is a ring of seconds. The server's mutex guards it.
type timeline struct {
	ring [timelineSeconds]Second
}

func (t *timeline) add(a *Arrival) {
	at := a.At.Unix()
	second := &t.ring[uint64(at)%timelineSeconds]
	if second.At.Unix() != at {
		*second = Second{At: time.Unix(at, 0)}
	}
	second.Requests++
	second.Refusals += count(a.refusal())
	second.Failures += count(a.failed() && !a.refusal())
}

// Timeline counts the requests of each of the last ten minutes' seconds up to now, oldest first. The rate of
// refusals is what to watch on a server that limits: it says whether the limits or the clients need attention.
func (s *Server) Timeline() []Second {
	now := time.Now().Unix()
	s.mu.Lock()
	defer s.mu.Unlock()
	seconds := make([]Second, 0, timelineSeconds)
	for at := now - timelineSeconds + 1; at <= now; at++ {
		second := s.timeline.ring[uint64(at)%timelineSeconds]
		if second.At.Unix() != at {
			second = Second{At: time.Unix(at, 0)}
		}
		seconds = append(seconds, second)
	}
	return seconds
}

// RefusalRate is the share of requests that were refused in the last d (at most ten minutes), and in all of the second
// in which that began; 0 if there were none.
func (s *Server) RefusalRate(d time.Duration) float64 {
	from := time.Now().Add(-d)
	requests, refusals := 0, 0
	for _, second := range s.Timeline() {
		if second.At.Add(time.Second).After(from) {
			requests, refusals = requests+second.Requests, refusals+second.Refusals
		}
	}
	if requests == 0 {
		return 0
	}
	return float64(refusals) / float64(requests)
}
