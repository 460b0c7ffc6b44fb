package polite

import (
	"cmp"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// BreakerOptions configure the circuit breaker of each host. Failures of the
// connection, time-outs and failed responses (see [DefaultClassify]) count; 429,
// other 4xx and the caller's own cancellation do not. While it is open, calls
// fail at once with a [*CircuitOpenError]; after OpenFor one probe at a time is
// let through, and a probe that succeeds closes it.
type BreakerOptions struct {
	// Failures is how many failures in a row open the breaker: 0 means 5,
	// negative means never on this ground.
	Failures int

	// Ratio opens the breaker when this share of at least MinRequests
	// outcomes within Window are failures: 0 means 0.5, negative means never
	// on this ground. MinRequests: 0 or less means 20. Window: 0 means 10 s,
	// negative means that counts are never forgotten. Counting starts with a
	// host's first failure.
	Ratio       float64
	MinRequests int
	Window      time.Duration

	// OpenFor is how long the breaker stays open before the first probe, and
	// between two probes that fail: 0 or less means 5 s.
	OpenFor time.Duration

	// Disable switches the breaker off.
	Disable bool
}

func (o *BreakerOptions) withDefaults() {
	o.Failures = cmp.Or(o.Failures, 5)
	o.Ratio = cmp.Or(o.Ratio, 0.5)
	if o.MinRequests <= 0 {
		o.MinRequests = 20
	}
	o.Window = min(cmp.Or(o.Window, 10*time.Second), math.MaxInt64/2) // gobreaker adds to it
	if o.OpenFor <= 0 {
		o.OpenFor = 5 * time.Second
	}
}

// BreakerState is the state of a host's circuit breaker.
type BreakerState int

const (
	BreakerClosed   BreakerState = iota // requests pass
	BreakerHalfOpen                     // one probe at a time passes
	BreakerOpen                         // requests fail at once
)

// String returns the state's name in lower case.
func (s BreakerState) String() string {
	return [...]string{"closed", "half-open", "open"}[max(0, min(s, BreakerOpen))]
}

// errFailed and errNeutral are how outcomes are told to gobreaker.
var (
	errFailed  = errors.New("failed")
	errNeutral = errors.New("neutral")
)

// breaker is the circuit breaker of one host, made at the host's first failure
// (a host that never failed needs none). It is safe for concurrent use and
// never calls out of the package: gobreaker's callbacks run under its lock.
type breaker struct {
	opts   *BreakerOptions
	steps  *gobreaker.TwoStepCircuitBreaker[struct{}]
	opened atomic.Pointer[time.Time] // when it opened last
	told   atomic.Int32              // the BreakerState last published
}

func newBreaker(o *BreakerOptions) *breaker {
	b := &breaker{opts: o}
	b.steps = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests:  1,
		Interval:     max(0, o.Window),
		BucketPeriod: max(0, o.Window) / 10,
		Timeout:      max(1, o.OpenFor-1), // gobreaker probes strictly after it, and takes 0 for a minute
		ReadyToTrip:  b.tripped,
		IsExcluded:   func(err error) bool { return err == errNeutral },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				now := time.Now()
				b.opened.Store(&now)
			}
		},
	})
	return b
}

// tripped reports whether the counts are reason enough to open.
func (b *breaker) tripped(n gobreaker.Counts) bool {
	if b.opts.Failures > 0 && int(n.ConsecutiveFailures) >= b.opts.Failures {
		return true
	}
	outcomes := n.TotalSuccesses + n.TotalFailures
	return b.opts.Ratio > 0 && int(outcomes) >= b.opts.MinRequests &&
		float64(n.TotalFailures) >= b.opts.Ratio*float64(outcomes)
}

func (b *breaker) state() BreakerState {
	switch b.steps.State() {
	case gobreaker.StateOpen:
		return BreakerOpen
	case gobreaker.StateHalfOpen:
		return BreakerHalfOpen
	}
	return BreakerClosed
}

// until is when an open breaker lets a probe through; zero if it is not open.
func (b *breaker) until(now time.Time) time.Time {
	if opened := b.opened.Load(); opened != nil && opened.Add(b.opts.OpenFor).After(now) {
		return opened.Add(b.opts.OpenFor)
	}
	return time.Time{}
}

// changed returns the change of state that was not yet published, if any.
func (b *breaker) changed() (from, to BreakerState, ok bool) {
	to = b.state()
	from = BreakerState(b.told.Swap(int32(to)))
	return from, to, from != to
}

// blocked reports whether a request would be refused now: the look before any
// wait. It takes nothing.
func (b *breaker) blocked() bool {
	switch b.steps.State() {
	case gobreaker.StateOpen:
		return true
	case gobreaker.StateHalfOpen:
		return b.probing()
	}
	return false
}

// probing reports whether the half-open breaker's one probe is under way.
func (b *breaker) probing() bool {
	n := b.steps.Counts()
	return n.Requests > n.TotalSuccesses+n.TotalFailures+n.TotalExclusions
}

// allow takes the permit of one attempt. The permit must be given back by
// calling the function it returns exactly once.
func (b *breaker) allow() (done func(Outcome), ok bool) {
	report, err := b.steps.Allow()
	if err != nil {
		return nil, false
	}
	return func(o Outcome) {
		switch o {
		case OK:
			report(b.success())
		case Failed:
			report(errFailed)
		default:
			report(errNeutral)
		}
	}, true
}

// success is how a success is reported: gobreaker looks at the ratio after a
// failure only, so a success that completes the minimum of an already bad
// window is handed over as one failure more, which opens the breaker.
func (b *breaker) success() error {
	n := b.steps.Counts()
	n.TotalSuccesses++
	n.ConsecutiveFailures = 0
	if b.steps.State() == gobreaker.StateClosed && b.tripped(n) {
		return errFailed
	}
	return nil
}

// recordLocked tells the breaker, which the first failure brings to life.
func (h *hostState) recordLocked(c *call, o Outcome) {
	if h.breaker == nil && o == Failed && !h.opts.Breaker.Disable {
		h.breaker = newBreaker(&h.opts.Breaker)
	}
	permit := c.permit
	c.permit = nil
	if permit == nil && h.breaker != nil { // sent before the breaker was there
		permit, _ = h.breaker.allow()
	}
	if permit != nil {
		permit(o)
	}
}

// brokenUntil is when the breaker lets a probe through, if it is known to be
// open still at the given instant; zero otherwise.
func (h *hostState) brokenUntil(at time.Time) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.breaker == nil {
		return time.Time{}
	}
	return h.breaker.until(at)
}

// breakerChanged returns a change of the breaker's state not yet published.
func (h *hostState) breakerChanged(now time.Time) (e BreakerEvent, ok bool) {
	h.mu.Lock()
	b := h.breaker
	h.mu.Unlock()
	if b == nil {
		return e, false
	}
	if e.From, e.To, ok = b.changed(); ok {
		e.Host = h.key.String()
		if e.To == BreakerOpen {
			e.Until = b.until(now)
		}
	}
	return e, ok
}
