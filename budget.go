package polite

import "time"

// budget is the retry budget of one host: a token for every retry of a failure
// for which the server named no delay. Successes fill it, so in an outage the
// retries end and the host sees little more than the callers' own demand.
type budget struct {
	spent float64   // tokens taken and not yet returned; 0 is full
	floor time.Time // when the last retry was granted for free
}

const (
	budgetReserve = 10
	budgetFloor   = 10 * time.Second
)

// success returns a share of a token.
func (b *budget) success(ratio float64) { b.spent = max(0, b.spent-max(0, ratio)) }

// take takes a token for a retry and reports whether there was one.
func (b *budget) take(now time.Time, ratio float64) bool {
	switch {
	case ratio < 0:
		return true
	case b.spent <= budgetReserve-1:
		b.spent++
		return true
	case now.Sub(b.floor) >= budgetFloor:
		b.floor = now // an idle client is not starved
		return true
	}
	return false
}
