package polite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A call may look at the clock, and take its turn after another one that looked
// later. The time between is not counted twice.
func TestBooksDoNotGoBackInTime(t *testing.T) {
	tr := NewTransport(&Options{Limit: LimitOptions{Rates: []Rate{{N: 10, Per: 9 * time.Second, Burst: 2}}}}) // and one more per second
	h := newHostState(hostKey{"http", "a.test"}, &tr.opts, builtinDialects().host("a.test"))
	now := time.Now()
	admit := func(at time.Time) (ruling, *call) {
		c := &call{t: tr, host: h, set: &Overrides{Cost: 1}}
		return h.admit(c, at), c
	}
	for _, at := range []time.Time{now, now.Add(-2 * time.Second)} {
		r, c := admit(at)
		assert.Zero(t, r.reason)
		assert.Equal(t, now, c.sentAt)
		c.lane.met = true
		c.lane.probe = nil
	}
	r, _ := admit(now)
	assert.Equal(t, ReasonRate, r.reason)
	assert.Equal(t, now.Add(time.Second), r.until)
}
