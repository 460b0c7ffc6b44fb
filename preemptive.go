package polite

import (
	"cmp"
	"math/rand/v2"
	"time"
)

// PreemptiveOptions configure how requests are slowed down before the server
// refuses them, from what its responses say about the quota.
type PreemptiveOptions struct {
	// Threshold is the number of remaining requests below which the rest is
	// spread evenly over the time to the reset, for all goroutines together: 0
	// means 10; negative means that requests are never spread and only an
	// exhausted quota waits for its reset.
	Threshold int

	// Disable ignores what the server says about its quota. Retry-After is
	// obeyed all the same.
	Disable bool
}

func (o *PreemptiveOptions) withDefaults() { o.Threshold = cmp.Or(o.Threshold, 10) }

// settle is how long after sending a request may be taken as not counted by
// the server, and how long the others wait for the answer of a probe.
const settle = time.Second

// clockError is how much later than an absolute reset the server may see it pass,
// though its clock and ours agree: clocks are set and pushed while they run. It is
// a hundredth of a window at most.
const clockError = 10 * time.Millisecond

// spread is the largest share by which the wait of a closed gate is lengthened
// at random, so that processes which were refused together return apart.
const spread = 0.2

// resetMargin is how much later than a reset a retry is made, where there is no
// Retry-After: many servers cut the instant down to a whole second, and refuse
// once more in its course. The margin alone never passes the longest wait for
// admission.
func resetMargin(asked, longest time.Duration) time.Duration {
	if longest < 0 {
		return settle
	}
	return max(0, min(settle, longest-asked))
}

// gate stops everybody after a refusal until the instant that the server named
// (or that the backoff computed), and then lets few go first.
type gate struct {
	until time.Time // nobody before it
	share float64   // of the wait, added at random; drawn once per closing
	asked bool      // the server named the instant
	ramp  uint8     // after it, as many at a time, growing with each answer; 0 is all
}

// rampOpen is the width at which a ramp no longer holds anybody back.
const rampOpen = 64

// close keeps the gate shut until at, lengthened at random but not past latest.
// A gate that is shut already is never opened earlier. It reports whether those
// who wait have a second or more to wait longer than they knew.
func (g *gate) close(now, at, latest time.Time, asked bool) (longer bool) {
	switch {
	case now.Before(g.until): // shut already: one closing, one share
	case asked:
		g.share = spread * rand.Float64()
	default:
		g.share = 0 // the backoff has its own jitter
	}
	until := at.Add(time.Duration(g.share * float64(at.Sub(now))))
	if !latest.IsZero() && until.After(latest) {
		until = later(at, latest)
	}
	if until.After(g.until) {
		longer = until.Sub(later(now, g.until)) >= settle
		g.until, g.asked = until, asked
	}
	g.ramp = 1
	return longer
}

// reason is why a closed gate is closed.
func (g *gate) reason() Reason {
	if g.asked {
		return ReasonRetryAfter
	}
	return ReasonBackoff
}

// admit reports when one more request may pass the gate while inFlight others
// of its kind are unanswered and the last one left at last.
func (g *gate) admit(now, last time.Time, inFlight int) (time.Time, Reason) {
	switch {
	case now.Before(g.until):
		return g.until, g.reason()
	case g.ramp == 0 || inFlight < int(g.ramp):
		return now, 0
	case last.Before(g.until): // those in flight left before the gate closed
		return now, 0
	}
	return later(now, last.Add(settle)), ReasonProbe
}

// passed is told of each answer that is neither a refusal nor a failure: the ramp
// widens, which doubles it per round trip.
func (g *gate) passed(now time.Time) {
	if g.ramp > 0 && !now.Before(g.until) {
		if g.ramp++; g.ramp >= rampOpen {
			g.ramp = 0
		}
	}
}

// later is the later of two instants; a zero one is before all others.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// earlier is the earlier of two instants, of which a zero one never comes.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
