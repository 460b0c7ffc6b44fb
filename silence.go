package polite

// silence is the requests of a lane that ended without a word about its quotas,
// such as surcharges and those that got no answer. The server may have counted
// them later than a request that left before their end, whose answer then does
// not include them. Only the newest are kept: of what more than these say, an
// answer is taken to include the rest.
type silence struct {
	ends [8]silentEnd // the oldest first
	n    int
}

// silentEnd is the end of such a request: when it was, in units sent on the lane
// until then, and how many units it had.
type silentEnd struct{ sent, units int64 }

func (s *silence) add(e silentEnd) {
	if s.n == len(s.ends) {
		copy(s.ends[:], s.ends[1:])
		s.n--
	}
	s.ends[s.n] = e
	s.n++
}

// since is how many units ended after the departure of a request, which made it
// so many units sent. Nil is no end at all.
func (s *silence) since(sent int64) int64 {
	if s == nil {
		return 0
	}
	units := int64(0)
	for _, e := range s.ends[:s.n] {
		if e.sent >= sent {
			units += e.units
		}
	}
	return units
}
