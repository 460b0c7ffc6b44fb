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

// Exponential returns a Backoff of initial × factor^(failed−1), randomised by
// ±jitter and never above max, the random part included: near the ceiling the
// undisturbed delay stops at max/(1+jitter), so that jitter survives there.
//
// Zero values are the defaults of polite: initial 1 s, max 60 s, factor 2,
// jitter 0.5 (delays spread from half to one and a half times). A negative
// jitter means none, a jitter above 1 means 1, any other factor below 1 means 1
// (a constant delay). Negative durations mean the default, as zero does.
//
// Without jitter clients that failed together return together; see RFC 6585
// section 4 and the literature on exponential backoff and jitter.
func Exponential(initial, max time.Duration, factor, jitter float64) Backoff {
	if initial <= 0 {
		initial = time.Second
	}
	if max <= 0 {
		max = time.Minute
	}
	switch {
	case factor == 0 || math.IsNaN(factor):
		factor = 2
	case factor < 1:
		factor = 1
	}
	switch {
	case jitter == 0 || math.IsNaN(jitter):
		jitter = 0.5
	case jitter < 0:
		jitter = 0
	case jitter > 1:
		jitter = 1
	}
	ceiling := time.Duration(float64(max) / (1 + jitter))
	return func(failed int) time.Duration {
		interval := backoff.ExponentialBackOff{
			InitialInterval:     grown(min(initial, ceiling), factor, failed-1, ceiling),
			RandomizationFactor: jitter,
			Multiplier:          factor,
			MaxInterval:         ceiling,
			Clock:               backoff.SystemClock,
		}
		interval.Reset()
		return min(interval.NextBackOff(), max)
	}
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
