package polite

import (
	"cmp"
	"context"
	"net/http"
	"time"
)

// Overrides are settings of single requests. They ride on the request's
// context; see WithOverrides. Zero fields leave the Transport's setting.
type Overrides struct {
	// MaxAttempts, MaxElapsed, MaxWait and AttemptTimeout replace the fields
	// of that name of RetryOptions, with the same meaning of negatives.
	MaxAttempts    int
	MaxElapsed     time.Duration
	MaxWait        time.Duration
	AttemptTimeout time.Duration

	// AdmissionWait replaces LimitOptions.MaxWait.
	AdmissionWait time.Duration

	// Idempotent is the caller's promise that the request may be repeated
	// though its method alone does not say so (RFC 9110 section 9.2.2).
	Idempotent bool

	// Needs is how many requests the caller still has to send against this
	// quota, this one included. While all of them fit into what is left, they
	// are not spread over time. Zero means that it is not known.
	Needs int

	// QuotaKey and Cost replace the results of the Options functions.
	QuotaKey string
	Cost     int
}

type overridesKey struct{}

// WithOverrides returns a context whose requests use o. Fields that o leaves
// zero keep what an outer WithOverrides said. The requests' total time is
// bounded by the context's own deadline too, whichever comes first.
func WithOverrides(ctx context.Context, o Overrides) context.Context {
	outer := overridesFrom(ctx)
	o.MaxAttempts = cmp.Or(o.MaxAttempts, outer.MaxAttempts)
	o.MaxElapsed = cmp.Or(o.MaxElapsed, outer.MaxElapsed)
	o.MaxWait = cmp.Or(o.MaxWait, outer.MaxWait)
	o.AttemptTimeout = cmp.Or(o.AttemptTimeout, outer.AttemptTimeout)
	o.AdmissionWait = cmp.Or(o.AdmissionWait, outer.AdmissionWait)
	o.Idempotent = o.Idempotent || outer.Idempotent
	o.Needs = cmp.Or(o.Needs, outer.Needs)
	o.QuotaKey = cmp.Or(o.QuotaKey, outer.QuotaKey)
	o.Cost = cmp.Or(o.Cost, outer.Cost)
	return context.WithValue(ctx, overridesKey{}, &o)
}

func overridesFrom(ctx context.Context) Overrides {
	if o, ok := ctx.Value(overridesKey{}).(*Overrides); ok {
		return *o
	}
	return Overrides{}
}

// settingsOf are the options of one call: its overrides, or else the
// Transport's. They are not changed any more.
func (t *Transport) settingsOf(req *http.Request) *Overrides {
	given, overridden := req.Context().Value(overridesKey{}).(*Overrides)
	inner := nested(req.Context())
	if !overridden && !inner && t.opts.QuotaKey == nil && t.opts.Cost == nil {
		return &t.usual
	}
	var s Overrides
	if overridden {
		s = *given
	}
	if s.QuotaKey == "" && t.opts.QuotaKey != nil {
		s.QuotaKey = t.opts.QuotaKey(req)
	}
	if s.Cost == 0 && t.opts.Cost != nil {
		s.Cost = t.opts.Cost(req)
	}
	s.complete(&t.opts)
	if t.opts.Retry.Disable || inner {
		s.MaxAttempts = 1
	}
	return &s
}

// complete takes what is not overridden from the options.
func (s *Overrides) complete(o *Options) {
	s.MaxAttempts = cmp.Or(s.MaxAttempts, o.Retry.MaxAttempts)
	s.MaxElapsed = cmp.Or(s.MaxElapsed, o.Retry.MaxElapsed)
	s.MaxWait = cmp.Or(s.MaxWait, o.Retry.MaxWait)
	s.AttemptTimeout = cmp.Or(s.AttemptTimeout, o.Retry.AttemptTimeout)
	s.AdmissionWait = cmp.Or(s.AdmissionWait, o.Limit.MaxWait)
	s.Cost = max(1, s.Cost)
}
