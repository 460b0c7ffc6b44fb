package polite

import (
	"context"
	"errors"
)

// Reason says why a request waits, or why it was not sent or not repeated.
type Reason int

const (
	// ReasonBackoff is the computed delay before a retry; after a refusal it
	// holds for every request that shares the quota.
	ReasonBackoff Reason = iota + 1
	// ReasonRetryAfter is the server's own delay (Retry-After and its kin),
	// which holds for every request that shares the quota.
	ReasonRetryAfter
	// ReasonProbe is the wait for the answer of the one request that goes
	// ahead while the state of the quota is not known.
	ReasonProbe
	// ReasonQuota is an exhausted quota that has not been reset yet.
	ReasonQuota
	// ReasonBrake is the spreading of the last requests of a quota.
	ReasonBrake
	// ReasonRate is the client's own limit: LimitOptions.Rates, or the rate
	// learned with LimitOptions.Adaptive.
	ReasonRate
	// ReasonInFlight is the client's own limit, LimitOptions.MaxInFlight.
	ReasonInFlight
	// ReasonQueue is that others wait already and go first.
	ReasonQueue
	// ReasonBreaker is an open circuit breaker.
	ReasonBreaker
	// ReasonBudget is an exhausted retry budget: a refusal of this client's
	// own, not of the server.
	ReasonBudget
	// ReasonAttempts is that all attempts are used up.
	ReasonAttempts
	// ReasonNotRepeatable is that a repetition could do twice what the caller
	// asked for once. An Idempotency-Key (see RetryOptions.GenerateKeys) or
	// Overrides.Idempotent makes it safe.
	ReasonNotRepeatable
	// ReasonBodySpent is that the request's body cannot be sent again: it has no
	// Request.GetBody and is not kept, because it is longer than 1 MiB or was
	// not thought repeatable.
	ReasonBodySpent
	// ReasonFinal is that a repetition cannot help.
	ReasonFinal
	// ReasonMaxWait is that the delay before the next attempt is longer than
	// RetryOptions.MaxWait or LimitOptions.MaxWait; the call itself had time.
	ReasonMaxWait
	// ReasonTime is that the delay would pass the deadline of the call's context
	// or RetryOptions.MaxElapsed, or that either has passed.
	ReasonTime
	// ReasonCancelled is that the caller cancelled the call's context.
	ReasonCancelled
)

var reasons = [...]string{
	ReasonBackoff:       "backoff",
	ReasonRetryAfter:    "asked by the server",
	ReasonProbe:         "a probe is under way",
	ReasonQuota:         "quota exhausted",
	ReasonBrake:         "spreading the rest of the quota",
	ReasonRate:          "the client's own rate limit",
	ReasonInFlight:      "the client's own limit of requests in flight",
	ReasonQueue:         "others wait before it",
	ReasonBreaker:       "circuit breaker open",
	ReasonBudget:        "the client's own retry budget is spent",
	ReasonAttempts:      "no attempts left",
	ReasonNotRepeatable: "not safe to repeat without an Idempotency-Key",
	ReasonBodySpent:     "its body cannot be sent again without Request.GetBody",
	ReasonFinal:         "a repetition cannot help",
	ReasonMaxWait:       "the wait is longer than MaxWait allows",
	ReasonTime:          "not enough time left",
	ReasonCancelled:     "the caller cancelled",
}

// String returns the reason as a short phrase.
func (r Reason) String() string {
	if r < 1 || int(r) >= len(reasons) {
		return "unknown"
	}
	return reasons[r]
}

// endOf is why a context ended, or else that a time within it did.
func endOf(ctx context.Context) Reason {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ReasonCancelled
	}
	return ReasonTime
}
