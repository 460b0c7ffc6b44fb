package polite

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"
)

// policySet is the policies of a response: the items of RateLimit-Policy, and
// those with parameters in RateLimit-Limit. Of more than are kept of quotas the
// first count. It is shared, and does not change.
type policySet []rateItem

// policiesIn returns the policies in the lines of a field. Servers repeat them in
// every answer, so what a line says is remembered.
func policiesIn(lines []string, parametersOnly bool) policySet {
	switch {
	case len(lines) == 0:
		return nil
	case len(lines) > 1, len(lines[0]) > maxRemembered:
		return readPolicies(lines, parametersOnly)
	}
	slot := &policyLines[maphash.String(policySeed, lines[0])%uint64(len(policyLines))]
	if p := slot.Load(); p != nil && p.line == lines[0] && p.parametersOnly == parametersOnly {
		return p.set
	}
	line := strings.Clone(lines[0]) // or it would keep all of the response's header
	p := &policyLine{line, parametersOnly, readPolicies([]string{line}, parametersOnly)}
	slot.Store(p)
	return p.set
}

// policyLine is what one line of a field says.
type policyLine struct {
	line           string
	parametersOnly bool
	set            policySet
}

// policyLines are the lines that were met of late, of at most maxRemembered bytes,
// each in the place that its hash names: who comes next to the same place takes it.
var (
	policyLines [64]atomic.Pointer[policyLine]
	policySeed  = maphash.MakeSeed()
)

const maxRemembered = 256

func readPolicies(lines []string, parametersOnly bool) (s policySet) {
	for list := listOf(lines); len(s) < maxQuotas; {
		text, ok := list.next()
		if !ok {
			break
		}
		if parametersOnly && strings.IndexByte(text, ';') < 0 {
			continue // the limit in force, no policy
		}
		s = append(s, rateItem{})
		s[len(s)-1].parse(text)
	}
	return s
}

// and returns the policies of two fields.
func (s policySet) and(o policySet) policySet {
	if len(s) == 0 {
		return o
	}
	both := slices.Concat(s, o)
	return both[:min(len(both), maxQuotas)]
}

// byName returns the place of the policy with a name, -1 without one.
func (s policySet) byName(name string) int {
	for i := range s {
		if s[i].name == name {
			return i
		}
	}
	return -1
}

// byLimit returns the place of the first policy with a limit from the i-th on, or
// else of the last one before it; -1 without one.
func (s policySet) byLimit(limit int64, i int) int {
	found := -1
	for k := range s {
		if limit >= 0 && s[k].limit == limit {
			if found = k; k >= i {
				break
			}
		}
	}
	return found
}

// nameOf names a policy: by its name, or by its text where several must be told
// apart.
func (s policySet) nameOf(i int) string {
	switch {
	case s[i].name != "":
		return s[i].name
	case len(s) > 1:
		return s[i].text
	default:
		return ""
	}
}
