package httptest

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

const refusalMessage = "Has superat el límit de peticions. Torna-ho a provar més tard."

// The bodies of refusals; all of them share these.
var (
	refusalBody = errorBody("limit_peticions", refusalMessage, "")
	quotaBody   = errorBody("quota_exhaurida", refusalMessage, "")
)

// admit asks the limits, and the endpoint if all of them agree.
func (s *Server) admit(x *exchange) *answer {
	for i := range s.config.Policies {
		if p := &s.config.Policies[i]; p.covers(x) {
			x.room.policies, x.room.charges = append(x.room.policies, p), append(x.room.charges, p.charge(x))
		}
	}
	policies, charges := x.room.policies, x.room.charges
	if len(policies) == 0 {
		return s.carryOut(x)
	}
	rulings, err := s.take(x, charges)
	if err != nil {
		return s.uncounted(x, policies, err)
	}

	refusing := -1 // the policy that refuses for longest
	hold := time.Duration(0)
	for i := range rulings {
		if r := &rulings[i]; r.Admitted {
			hold = max(hold, r.Hold)
		} else if refusing < 0 || r.Wait > rulings[refusing].Wait {
			refusing = i
		}
	}
	refuses := refusing >= 0 && !s.config.Observe
	decisive := &rulings[len(rulings)-1]
	if refuses {
		decisive = &rulings[refusing]
	}
	var a *answer
	if refuses {
		x.refusing, x.counter = policies[refusing], charges[refusing].Key
		a = s.refuse(x, policies[refusing], decisive.Wait)
	} else {
		x.seen.Observed = refusing >= 0
		a = s.carryOut(x)
		a.delay += hold
		rulings = s.countFailure(x, a.status, policies, charges, rulings)
	}
	x.seen.Remaining, x.seen.Reset = decisive.Remaining, decisive.Reset // which a failure has changed
	s.announce(x, a, rulings, refusing)
	return a
}

// take asks the store. Only the server's own is trusted to keep nothing of the charges, and given memory to answer in.
func (s *Server) take(x *exchange, charges []Charge) ([]Ruling, error) {
	if s.own != nil {
		x.room.rulings = s.own.take(x.now, charges, x.room.rulings[:0])
		return x.room.rulings, nil
	}
	return s.ask(x, slices.Clone(charges))
}

// ask asks the store, whosever it is, and makes sure that its answer is one.
func (s *Server) ask(x *exchange, charges []Charge) ([]Ruling, error) {
	rulings, err := s.store.Take(x.request.Context(), x.now, charges)
	if err == nil && len(rulings) != len(charges) {
		err = fmt.Errorf("httptest: the store gave %d rulings for %d charges", len(rulings), len(charges))
	}
	return rulings, err
}

// refuse answers for the policy that refuses for longest.
func (s *Server) refuse(x *exchange, p *Policy, wait time.Duration) *answer {
	x.seen.Refused, x.seen.Policy = true, p.Name
	s.alert(Alert{At: x.now, Key: x.client, Kind: AlertRefused, Policy: p.Name})
	a := jsonAnswer(p.Status, refusalBody)
	if p.Status == http.StatusPaymentRequired {
		a.body = quotaBody
	}
	if p.Status >= 500 {
		a.body = nil // the shape of a 5xx needs the trace id
	}
	if p.Body != "" {
		a.body = []byte(p.Body)
		a.set("Content-Type", http.DetectContentType(a.body))
		if p.Body[0] == '{' {
			a.set("Content-Type", "application/json; charset=utf-8")
		}
	}
	hint := p.Hint
	if hint == HintSeconds {
		hint = s.config.Hint
	}
	s.hint(a, hint, wait, x.now)
	return a
}

// hint sets Retry-After, unless the server is silent.
func (s *Server) hint(a *answer, hint Hint, wait time.Duration, now time.Time) {
	if text := hint.value(wait, now, s.config.Skew); text != "" && !s.config.Silent {
		a.set("Retry-After", text)
	}
}

// uncounted decides while the store is down: fail-open in general, fail-closed where guessing would be easy.
func (s *Server) uncounted(x *exchange, policies []*Policy, err error) *answer {
	s.alert(Alert{At: x.now, Key: "store", Kind: AlertStoreDown, Err: err})
	for _, p := range policies {
		if p.FailClosed && s.config.Observe {
			x.seen.Observed = true
		} else if p.FailClosed {
			a := errorAnswer(http.StatusServiceUnavailable, "", "")
			a.body = nil
			s.hint(a, s.config.Hint, storeDownHint, x.now)
			return a
		}
	}
	return s.carryOut(x)
}

// storeDownHint is the wait that a closed door estimates while the counters are down.
const storeDownHint = 30 * time.Second

// countFailure charges the policies that count failed logins only, now that the outcome is known.
func (s *Server) countFailure(x *exchange, status int, policies []*Policy, charges []Charge, rulings []Ruling) []Ruling {
	if status != http.StatusUnauthorized {
		return rulings
	}
	var late []Charge
	var places []int
	for i, p := range policies {
		if p.FailuresOnly {
			charges[i].Peek = false
			late, places = append(late, charges[i]), append(places, i)
		}
	}
	if len(late) == 0 {
		return rulings
	}
	counted, err := s.ask(x, late)
	if err != nil {
		s.alert(Alert{At: x.now, Key: "store", Kind: AlertStoreDown, Err: err})
		return rulings
	}
	for n, i := range places {
		rulings[i] = counted[n]
	}
	return rulings
}

// announce writes the quota headers. The plain dialects describe the refusing policy, or else the last one.
func (s *Server) announce(x *exchange, a *answer, rulings []Ruling, refusing int) {
	if s.config.Silent {
		return
	}
	quotas, policies := x.room.quotas, x.room.policies
	var shown quota
	for i, p := range policies {
		if p.Hidden || rulings[i].Remaining < 0 {
			continue
		}
		q := quota{p, rulings[i].Remaining, rulings[i].Reset}
		quotas = append(quotas, q)
		if decided := refusing >= 0 && shown.policy == policies[refusing]; !decided {
			shown = q
		}
	}
	x.room.quotas = quotas
	if len(quotas) == 0 {
		return
	}
	announce(a, s.config.Dialects, quotas, shown, x.now, s.config.Skew)
}
