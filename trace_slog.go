package polite

import (
	"context"
	"log/slog"
)

// SlogTrace returns a Trace that writes structured lines to log: waits, quotas,
// attempts and withdrawn calls at debug level; closed gates and the reasons of calls that end
// without success at info level; a breaker that opens and diagnoses, with their
// remedies, at warn level. A nil log is slog.Default.
func SlogTrace(log *slog.Logger) *Trace {
	if log == nil {
		log = slog.Default()
	}
	request := func(r Request) slog.Attr {
		return slog.Group("request", "method", r.Method, "host", r.Host, "path", oneLine(r.Path, maxText))
	}
	ctx := context.Background()
	return &Trace{
		Wait: func(e WaitEvent) {
			log.LogAttrs(ctx, slog.LevelDebug, "polite: waiting", request(e.Request),
				slog.String("reason", e.Reason.String()), slog.Int("attempt", e.Attempt), slog.Time("until", e.Until))
		},
		Attempt: func(e AttemptEvent) {
			attrs := []slog.Attr{request(e.Request), slog.Int("attempt", e.Attempt), slog.Int("status", e.Status),
				slog.String("outcome", e.Outcome.String()), slog.Duration("duration", e.Duration)}
			if e.Err != nil {
				attrs = append(attrs, slog.String("error", causeOf(e.Err)))
			}
			log.LogAttrs(ctx, slog.LevelDebug, "polite: attempt", attrs...)
		},
		Quota: func(e QuotaEvent) {
			attrs := []slog.Attr{request(e.Request), slog.String("policy", e.Quota.Policy)}
			log.LogAttrs(ctx, slog.LevelDebug, "polite: quota", append(attrs, e.Quota.facts()...)...)
		},
		Gate: func(e GateEvent) {
			log.LogAttrs(ctx, slog.LevelInfo, "polite: gate closed", request(e.Request),
				slog.Int("status", e.Status), slog.Time("until", e.Until), slog.Bool("asked", e.Asked))
		},
		Breaker: func(e BreakerEvent) {
			level := slog.LevelInfo
			if e.To == BreakerOpen {
				level = slog.LevelWarn
			}
			log.LogAttrs(ctx, level, "polite: circuit breaker", slog.String("host", e.Host),
				slog.String("from", e.From.String()), slog.String("to", e.To.String()), slog.Time("until", e.Until))
		},
		Stop: func(e StopEvent) {
			attrs := []slog.Attr{request(e.Request), slog.String("reason", e.Reason.String()),
				slog.Int("attempts", e.Attempts), slog.Int("status", e.Status)}
			if e.Err != nil {
				attrs = append(attrs, slog.String("error", causeOf(e.Err)))
			}
			level, what := slog.LevelInfo, "polite: gave up"
			if e.Withdrawn() {
				level, what = slog.LevelDebug, "polite: withdrawn"
			}
			log.LogAttrs(ctx, level, what, attrs...)
		},
		Diagnosis: func(e DiagnosisEvent) {
			attrs := append([]slog.Attr{request(e.Request)}, e.facts()...)
			attrs = append(attrs, slog.String("remedy", e.Diagnosis.Remedy()))
			log.LogAttrs(ctx, slog.LevelWarn, "polite: "+e.Diagnosis.String(), attrs...)
		},
	}
}

// facts are what is known of a finding, and nothing that is not.
func (e DiagnosisEvent) facts() (attrs []slog.Attr) {
	if e.Expected > 0 {
		attrs = append(attrs, slog.Int64("expected", e.Expected))
	}
	attrs = append(attrs, e.Quota.facts()...)
	if e.Asked > 0 {
		attrs = append(attrs, slog.Duration("asked", e.Asked))
	}
	if e.Skew != 0 {
		attrs = append(attrs, slog.Duration("skew", e.Skew))
	}
	return attrs
}

// facts are what is known of a quota. What is not known is left out, and so is a
// quota that nobody announced: either would read as an exhausted one.
func (q Quota) facts() (attrs []slog.Attr) {
	if q == (Quota{}) {
		return nil
	}
	if q.Limit >= 0 {
		attrs = append(attrs, slog.Int64("limit", q.Limit))
	}
	if q.Remaining >= 0 {
		attrs = append(attrs, slog.Int64("remaining", q.Remaining))
	}
	if q.Unit != "" {
		attrs = append(attrs, slog.String("unit", q.Unit))
	}
	if !q.Reset.IsZero() {
		attrs = append(attrs, slog.Time("reset", q.Reset))
	}
	if q.Window > 0 {
		attrs = append(attrs, slog.Duration("window", q.Window))
	}
	return attrs
}
