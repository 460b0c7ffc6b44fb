package polite

import "time"

func (r *reading) perSecond(t *tally, q Quota, lines []string)      {}
func (r *reading) usedOf(t *tally, q Quota, lines []string)         {}
func (r *reading) windows(t *tally, q Quota, limits, used []string) {}
func (r *reading) named(t *tally, q Quota, lines []string)          {}
func (r *reading) categories(t *tally, q Quota, lines []string)     {}
func (r *reading) percentJSON(t *tally, q Quota, lines []string)    {}
func (r *reading) fraction(t *tally, q Quota, g fieldGroup)         {}

type dimension struct {
	policy, unit string
	window       time.Duration
}

func dimensionOf(s string) dimension { return dimension{policy: s} }
func unitOf(name string) string      { return "" }
