package polite

import "time"

// scope says which endpoints of a lane a policy concerns, where some answers name
// more policies than others: all but the exceptions or, for a narrow one, the
// exceptions alone. It is learned from the answers that speak of the policy or
// leave it out. Nil is everybody.
type scope struct {
	narrow bool
	except map[endpoint]struct{} // at most maxEndpoints
}

func (s *scope) everybody() bool { return s == nil || !s.narrow && len(s.except) == 0 }

func (s *scope) includes(e endpoint) bool {
	if s.everybody() {
		return true
	}
	_, excepted := s.except[e]
	return s.narrow == excepted
}

func (s *scope) set(e endpoint, included bool) {
	switch {
	case s.includes(e) == included:
	case s.narrow != included:
		delete(s.except, e)
	default:
		if s.except == nil {
			s.except = make(map[endpoint]struct{})
		}
		if len(s.except) >= maxEndpoints {
			clear(s.except)
		}
		s.except[e] = struct{}{}
	}
}

// audience is the endpoints whose answers have told of a lane's quotas.
type audience struct {
	last endpoint              // 0: none
	all  map[endpoint]struct{} // nil while there is one only; at most maxEndpoints, then anew
}

func (a *audience) includes(e endpoint) bool {
	_, among := a.all[e]
	return among || a.last == e
}

func (a *audience) add(e endpoint) {
	if a.last != 0 && a.last != e {
		if a.all == nil || len(a.all) >= maxEndpoints {
			a.all = map[endpoint]struct{}{a.last: {}}
		}
		a.all[e] = struct{}{}
	}
	a.last = e
}

// narrow learns whom the policies concern from an answer that told of some; the
// first so many were known before it. A refusal may name its own policy alone.
func (l *lane) narrow(e endpoint, known int, s *signals, refused bool) {
	for i := range l.ledgers {
		g := &l.ledgers[i]
		if i >= known { // a policy for everybody would have been told of before
			g.scope.narrow = l.told.last != 0 && l.told.last != e
		}
		if spoken := s.speaksOf(g.policy); spoken || !refused {
			g.scope.set(e, spoken)
		}
	}
	l.told.add(e)
}

// untold learns from a success, of a request sent at that time, that told of no
// quota. Policies that another endpoint was told of last do not concern this
// one. Those that do, and of which nothing that was told still holds, are
// forgotten: the server has stopped speaking, and an unknown quota stops nobody.
func (l *lane) untold(e endpoint, sent time.Time) {
	kept := l.ledgers[:0]
	for _, g := range l.ledgers {
		if l.told.last != e {
			g.scope.set(e, false)
		}
		if !g.scope.includes(e) || !g.outdated(sent) {
			kept = append(kept, g)
		}
	}
	l.ledgers = kept
}
