package polite

import (
	"context"
	"errors"
	"runtime"
	"sync"
)

// ahead fetches pages before the walk comes to them. All methods but halt are
// called by the walk's goroutine alone.
type ahead[T any] struct {
	fetch   func(context.Context, place, int) (*fetchedPage[T], error)
	limit   int // most pages under way or waiting to be taken; 0 = none
	width   int // how many of them are worth it now
	running *sync.WaitGroup

	mu      sync.Mutex
	flights []*flight[T] // in the order of their pages
	failed  bool         // one of them; none is started behind it
}

// flight is one page being fetched.
type flight[T any] struct {
	place
	cancel context.CancelFunc
	done   chan struct{} // closed once the rest is set
	got    *fetchedPage[T]
	err    error
	broken bool // fetching it did not return:
	thrown any  // it panicked with this, or ended its goroutine if nil
}

// newAhead fetches at most concurrency pages at once. With one there is no
// need of it: every page is fetched when it is taken.
func newAhead[T any](fetch func(context.Context, place, int) (*fetchedPage[T], error), concurrency int, running *sync.WaitGroup) *ahead[T] {
	if concurrency <= 1 {
		concurrency = 0
	}
	return &ahead[T]{fetch: fetch, limit: concurrency, width: concurrency, running: running}
}

// take returns the page at p: the one fetched ahead, or else fetched now.
func (a *ahead[T]) take(ctx context.Context, p place, needs int) (*fetchedPage[T], error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f := a.pop()
	if f == nil {
		return a.fetch(ctx, p, needs)
	}
	<-f.done // which ends with the context too
	f.carry()
	got, err := f.got, f.err
	for notAdmitted(err) {
		a.width = 0
		behind := a.waiting()
		if behind == nil {
			return a.fetch(ctx, p, needs)
		}
		got, err = a.fetch(early(ctx), p, needs)
		if notAdmitted(err) { // those behind it stood before it in the client's line
			<-behind.done
		}
	}
	return got, err
}

// waiting returns the first page that is still under way, nil if none is.
func (a *ahead[T]) waiting() *flight[T] {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range a.flights {
		select {
		case <-f.done:
		default:
			return f
		}
	}
	return nil
}

// notAdmitted reports whether a page was not asked for because it would have
// had to wait too long behind others. In its own turn it may not have to.
func notAdmitted(err error) bool {
	return errors.As(err, new(*WaitError)) && !errors.As(err, new(*ResponseError))
}

func (a *ahead[T]) pop() *flight[T] {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.flights) == 0 {
		return nil
	}
	f := a.flights[0]
	a.flights = a.flights[1:]
	return f
}

// asked is how many pages are under way or waiting to be taken.
func (a *ahead[T]) asked() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.flights)
}

// keep throws away what was fetched ahead unless the walk goes on there.
func (a *ahead[T]) keep(p place) {
	a.mu.Lock()
	if len(a.flights) > 0 && a.flights[0].place == p {
		a.mu.Unlock()
		return
	}
	wrong := a.flights
	a.flights, a.failed = nil, false
	a.mu.Unlock()
	cancelAll(wrong)
}

// adjust follows how well pages can be foreseen: where their sizes vary, what
// is fetched ahead is mostly thrown away, so it ends, and comes back slowly.
func (a *ahead[T]) adjust(regular bool) {
	if !regular {
		a.width = 0
		return
	}
	a.width = min(a.limit, a.width+1)
}

// aheadKey is the context key that marks the calls for pages fetched ahead.
type aheadKey struct{}

// early marks the call for a page that may be asked for again in its turn.
func early(ctx context.Context) context.Context { return context.WithValue(ctx, aheadKey{}, true) }

// isAhead reports whether the context is marked by early.
func isAhead(ctx context.Context) bool { return ctx.Value(aheadKey{}) != nil }

// start fetches the page at p, the next in order, in a goroutine that ends with
// the context and that the walk waits for.
func (a *ahead[T]) start(ctx context.Context, p place, needs int) {
	ctx, cancel := context.WithCancel(early(ctx))
	f := &flight[T]{place: p, cancel: cancel, done: make(chan struct{})}
	if !a.push(f) {
		cancel()
		return
	}
	a.running.Go(func() {
		defer close(f.done)
		defer cancel()
		a.fly(ctx, f, needs)
	})
}

// fly fetches a flight's page. What one of the caller's functions throws is
// kept for the walk, which may never come to it.
func (a *ahead[T]) fly(ctx context.Context, f *flight[T], needs int) {
	f.broken = true
	defer func() {
		if f.broken {
			f.thrown = recover()
		}
		if f.broken || f.err != nil && !notAdmitted(f.err) {
			a.halt(f)
		}
	}()
	f.got, f.err = a.fetch(ctx, f.place, needs)
	f.broken = false
}

// carry ends the walk's goroutine in the way in which one of the caller's
// functions has ended the page's: with the same panic, or by runtime.Goexit.
func (f *flight[T]) carry() {
	switch {
	case !f.broken:
	case f.thrown != nil:
		panic(f.thrown)
	default:
		runtime.Goexit()
	}
}

// push queues a page, unless one before it has failed already.
func (a *ahead[T]) push(f *flight[T]) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failed {
		return false
	}
	a.flights = append(a.flights, f)
	return true
}

// halt ends the pages behind one that failed: the walk will not come to them.
func (a *ahead[T]) halt(failed *flight[T]) {
	a.mu.Lock()
	var behind []*flight[T]
	for i, f := range a.flights {
		if f == failed {
			a.failed = true
			behind = a.flights[i+1:]
		}
	}
	a.mu.Unlock()
	cancelAll(behind)
}

func cancelAll[T any](flights []*flight[T]) {
	for _, f := range flights {
		f.cancel()
	}
}
