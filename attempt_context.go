package polite

import (
	"context"
	"net/http"
	"time"
)

type attemptKey struct{}

// Deadline, Done, Err and Value make the attempt the context of its request.
func (a *attempt) Deadline() (time.Time, bool) { return a.call.ctx.Deadline() }

// Done is closed when the attempt is cancelled.
func (a *attempt) Done() <-chan struct{} { return a.live().Done() }

// Err says why Done is closed.
func (a *attempt) Err() error { return a.live().Err() }

// Value finds the attempt (the outermost one, where Transports are nested), its
// hooks, and all values of the caller.
func (a *attempt) Value(key any) any {
	switch key {
	case attemptKey{}:
		if outer := a.call.ctx.Value(key); outer != nil {
			return outer
		}
		return a
	case traceContextKey:
		if key != nil && a.call.ctx.Value(key) == nil {
			return a.hooks()
		}
	}
	return a.live().Value(key)
}

// hooks returns the attempt's hooks while it is under way, else nil.
func (a *attempt) hooks() any {
	if !a.wire.isOf(a) {
		return nil
	}
	return &a.wire.trace
}

// live is the attempt's context while it is under way, then the caller's.
func (a *attempt) live() context.Context {
	if a.over.Load() {
		return a.call.ctx
	}
	return a.ctx
}

// nested reports whether the request is an attempt of another Transport.
func nested(ctx context.Context) bool { return ctx.Value(attemptKey{}) != nil }

// attemptOf returns the attempt that brought the response, nil if polite did
// not.
func attemptOf(resp *http.Response) *attempt {
	if resp == nil || resp.Request == nil {
		return nil
	}
	a, _ := resp.Request.Context().Value(attemptKey{}).(*attempt)
	return a
}
