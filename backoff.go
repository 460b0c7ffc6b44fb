package polite

import (
	"math"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Backoff computes the delay before the next attempt when the server did not
// say how long to wait. It is called with the number of attempts that have
// failed so far (1 after the first) and may be called from many goroutines at
// once. A result that is not positive means "at once"; a result above
// RetryOptions.MaxWait ends the call.
type Backoff func(failed int) time.Duration

// Exponential is an exponential backoff with jitter. Its Delay is the Backoff:
//
//	Backoff: polite.Exponential{Initial: 200 * time.Millisecond}.Delay
//
// The zero value has the defaults. Without jitter clients that failed together
// return together; see RFC 6585 section 4 and the literature on exponential
// backoff and jitter.
type Exponential struct {
	// Initial is the delay after the first failure, before jitter: 0 or
	// negative means 1 s.
	Initial time.Duration

	// Max bounds every delay, the random part included: 0 or negative means
	// 60 s. Near it the undisturbed delay stops at Max/(1+Jitter), so that
	// jitter survives there.
	Max time.Duration

	// Factor is how many times longer each delay is than the one before: 0
	// means 2; negative, and anything else below 1, means 1 (a constant delay).
	Factor float64

	// Jitter is the share by which a delay is shortened or lengthened at
	// random: 0 means 0.5 (from half to one and a half times), negative means
	// none, above 1 means 1.
	Jitter float64
}

func (e *Exponential) withDefaults() {
	if e.Initial <= 0 {
		e.Initial = time.Second
	}
	if e.Max <= 0 {
		e.Max = time.Minute
	}
	switch {
	case e.Factor == 0 || math.IsNaN(e.Factor):
		e.Factor = 2
	case e.Factor < 1:
		e.Factor = 1
	}
	switch {
	case e.Jitter == 0 || math.IsNaN(e.Jitter):
		e.Jitter = 0.5
	default:
		e.Jitter = max(0, min(e.Jitter, 1))
	}
}

// Delay is a Backoff: Initial × Factor^(failed−1), randomised by ±Jitter, and
// never above Max. A failed below 1 counts as 1. It is safe for concurrent use.
func (e Exponential) Delay(failed int) time.Duration {
	e.withDefaults()
	ceiling := time.Duration(float64(e.Max) / (1 + e.Jitter))
	interval := backoff.ExponentialBackOff{
		InitialInterval:     grown(min(e.Initial, ceiling), e.Factor, failed-1, ceiling),
		RandomizationFactor: e.Jitter,
		Multiplier:          e.Factor,
		MaxInterval:         ceiling,
		Clock:               backoff.SystemClock,
	}
	interval.Reset()
	return min(interval.NextBackOff(), e.Max)
}

// Constant returns a Backoff that always waits d; zero or less means at once.
func Constant(d time.Duration) Backoff {
	return func(int) time.Duration { return d }
}

// grown is initial × factor^steps, stopped at ceiling before it can overflow.
func grown(initial time.Duration, factor float64, steps int, ceiling time.Duration) time.Duration {
	if steps <= 0 {
		return initial
	}
	d := float64(initial) * math.Pow(factor, float64(steps))
	if d < float64(ceiling) {
		return time.Duration(d)
	}
	return ceiling // for +Inf and NaN too
}
