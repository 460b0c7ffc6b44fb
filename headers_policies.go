package polite

import (
	"slices"
	"strings"
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
	case len(lines) > 1:
		return readPolicies(lines, parametersOnly)
	}
	known := &policyLines
	if parametersOnly {
		known = &limitLines
	}
	return *known.of(lines[0], func(line string) policySet { return readPolicies([]string{line}, parametersOnly) })
}

// The lines that were met, in the two fields that policies stand in.
var policyLines, limitLines memo[policySet]

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
