package httptest

import (
	"fmt"
	"math/rand/v2"
)

// Chance is a [Reply] that strikes at random: P of the requests that no script and no outage is for, and that are no
// health checks. The draw depends on [Config.Seed], the caller and how many requests that caller has sent, so that a
// run can be repeated.
// The chances of a server exclude each other: their P add up to at most 1. The reply's Count is ignored.
type Chance struct {
	P     float64
	Reply Reply
}

func checkChances(chances []Chance) error {
	sum := 0.0
	for i, c := range chances {
		if !(c.P >= 0 && c.P <= 1) { // NaN too
			return &ConfigError{fmt.Sprintf("Chances[%d].P", i), "must be between 0 and 1"}
		}
		if !c.Reply.meaningful() {
			return &ConfigError{fmt.Sprintf("Chances[%d].Reply", i), "must have a Status, a Fault or a Delay"}
		}
		if !c.Reply.Fault.known() {
			return &ConfigError{fmt.Sprintf("Chances[%d].Reply.Fault", i), fmt.Sprintf("unknown value %d", int(c.Reply.Fault))}
		}
		sum += c.P
	}
	if sum > 1+1e-9 {
		return &ConfigError{"Chances", "the probabilities add up to more than 1"}
	}
	return nil
}

// draw decides whether a chance strikes this request; nil = it does not.
func (s *Server) draw(x *exchange) *Reply {
	if len(s.config.Chances) == 0 || x.class == ClassHealth {
		return nil
	}
	var source rand.PCG
	source.Seed(s.config.Seed^digest(x.client), x.nth)
	u := float64(source.Uint64()<<11>>11) / (1 << 53) // as rand.Rand.Float64 does, without allocating
	for i := range s.config.Chances {
		c := &s.config.Chances[i]
		if u -= c.P; u >= 0 {
			continue
		}
		if c.Reply.Match == nil || c.Reply.Match(x.request) {
			return &c.Reply
		}
		return nil
	}
	return nil
}
