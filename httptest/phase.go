package httptest

import (
	"fmt"
	"time"
)

// Phase is a spell in the server's life, by the time since the server began. Where several overlap, the last of
// the list counts. A slow recovery is an outage followed by phases of growing PerSecond.
type Phase struct {
	// From is when it begins, and For how long it lasts (0 = for ever).
	From, For time.Duration
	// Outage is what everything without a script is answered during it, before any limit; nil = no outage. Its Count
	// and Match are ignored.
	Outage *Reply
	// PerSecond is how many requests per second the machine can carry out, one after the other; 0 = any number.
	// It works on requests whose client has gone, too.
	PerSecond int
	// Queue is how many requests may be waiting or in work; one more is answered 503.
	// 0 = PerSecond, so that nobody waits longer than a second; negative = any number.
	Queue int
}

func checkPhases(phases []Phase) error {
	for i, p := range phases {
		if p.From < 0 || p.For < 0 || p.PerSecond < 0 {
			return &ConfigError{fmt.Sprintf("Phases[%d]", i), "From, For and PerSecond must not be negative"}
		}
		if p.PerSecond > 1e6 {
			return &ConfigError{fmt.Sprintf("Phases[%d].PerSecond", i), "must be at most 1,000,000"}
		}
		if p.Outage != nil && !p.Outage.meaningful() {
			return &ConfigError{fmt.Sprintf("Phases[%d].Outage", i), "must have a Status, a Fault or a Delay"}
		}
		if p.Outage != nil && !p.Outage.Fault.known() {
			return &ConfigError{fmt.Sprintf("Phases[%d].Outage.Fault", i), fmt.Sprintf("unknown value %d", int(p.Outage.Fault))}
		}
	}
	return nil
}

func (p Phase) covers(at time.Duration) bool {
	return at >= p.From && (p.For == 0 || at-p.From < p.For)
}

// phaseAt is the phase in force, or a phase without effect.
func (c *Config) phaseAt(at time.Duration) Phase {
	for i := len(c.Phases) - 1; i >= 0; i-- {
		if c.Phases[i].covers(at) {
			return c.Phases[i]
		}
	}
	return Phase{}
}

// phaseEnd is when another phase may come into force; ok is false if this one stays.
func (c *Config) phaseEnd(at time.Duration) (end time.Duration, ok bool) {
	for _, p := range c.Phases {
		for _, edge := range [...]time.Duration{p.From, p.From + p.For} {
			if edge > at && (!ok || edge < end) {
				end, ok = edge, true
			}
		}
	}
	return end, ok
}

// outage is the reply to everything at this instant; nil = there is no outage.
func (s *Server) outage(now time.Time) *Reply {
	if len(s.config.Phases) == 0 {
		return nil
	}
	p := s.config.phaseAt(now.Sub(s.began))
	if p.Outage != nil {
		s.mu.Lock()
		s.callers.down = true // also if the connection is refused, and nothing recorded
		s.mu.Unlock()
	}
	return p.Outage
}

// capacity is the machine's queue, in parts of a request: one request is 1e9 parts, and PerSecond of them
// are worked off in a nanosecond. The server's mutex guards it.
type capacity struct {
	backlog int64
	last    time.Duration
}

const partsPerRequest = int64(time.Second)

// work queues a request: how long until it is carried out, or, when the queue is full, how long until there is room.
func (s *Server) work(now time.Time) (delay time.Duration, busy bool) {
	if len(s.config.Phases) == 0 {
		return 0, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c, at := &s.capacity, now.Sub(s.began)
	if at > c.last {
		c.workOff(&s.config, at)
	}
	p := s.config.phaseAt(at)
	if p.PerSecond == 0 {
		c.backlog = 0
		return 0, false
	}
	places := p.Queue
	if places == 0 {
		places = p.PerSecond
	}
	if places > 0 && divUp(c.backlog, partsPerRequest) >= int64(places) {
		return c.timeFor(&s.config, at, c.backlog-int64(places-1)*partsPerRequest), true
	}
	c.backlog += partsPerRequest
	return c.timeFor(&s.config, at, c.backlog), false
}

// workOff moves the queue forward to an instant, phase by phase.
func (c *capacity) workOff(config *Config, to time.Duration) {
	for at := c.last; at < to && c.backlog > 0; {
		next := to
		if end, ok := config.phaseEnd(at); ok && end < to {
			next = end
		}
		rate := int64(config.phaseAt(at).PerSecond)
		if rate == 0 || divUp(c.backlog, rate) <= int64(next-at) {
			c.backlog = 0
			break
		}
		c.backlog -= int64(next-at) * rate
		at = next
	}
	c.last = to
}

// timeFor is how long the machine takes for so many parts from an instant on, phase by phase.
func (c *capacity) timeFor(config *Config, from time.Duration, parts int64) time.Duration {
	at := from
	for {
		rate := int64(config.phaseAt(at).PerSecond)
		if rate == 0 {
			return at - from
		}
		done := at + time.Duration(divUp(parts, rate))
		end, ok := config.phaseEnd(at)
		if !ok || done <= end {
			return done - from
		}
		parts -= int64(end-at) * rate
		at = end
	}
}
