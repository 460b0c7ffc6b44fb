package polite

import (
	"context"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

// wire is what an attempt needs from net/http and the clock: it counts the
// connections that the attempt was given and ends it when time is up. Wires
// are used again and again, because their timers and hooks are costly to make.
type wire struct {
	trace httptrace.ClientTrace

	asked   atomic.Int32 // connections asked for
	conns   atomic.Int32 // connections got
	written atomic.Int32 // request headers written
	before  atomic.Int32 // of them, before the last connection was got

	mu     sync.Mutex
	of     *attempt // nil in the pool
	cancel context.CancelCauseFunc
	due    time.Time     // when the attempt's time is up; zero: never
	after  time.Duration // how long that was
	timer  *time.Timer
	rings  time.Time // when the timer goes off; zero: it is not set
}

// wirePool is a pool of wires. It belongs to one Transport, so that timers do
// not wander between synctest bubbles.
type wirePool struct{ pool sync.Pool }

func (p *wirePool) get() *wire {
	if w, ok := p.pool.Get().(*wire); ok {
		return w
	}
	w := new(wire)
	w.trace = httptrace.ClientTrace{
		GetConn:      func(string) { w.asked.Add(1) },
		GotConn:      func(httptrace.GotConnInfo) { w.conns.Add(1); w.before.Store(w.written.Load()) },
		WroteHeaders: func() { w.written.Add(1) },
	}
	return w
}

// put takes a wire back if nothing can touch it any more: each connection has
// seen its request written, so that no hook is still to come.
func (p *wirePool) put(w *wire) {
	got := w.conns.Load()
	if got != w.asked.Load() || got != w.written.Load() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.timer != nil {
			w.timer.Stop()
		}
		return
	}
	w.asked.Store(0)
	w.conns.Store(0)
	w.written.Store(0)
	w.before.Store(0)
	p.pool.Put(w)
}

// requests is how many were sent. A connection that was got and then found to
// be dead, or to take no more, has carried none, so those that were written
// count; but over HTTP/2 an answer may be there before the hook that tells so.
func (w *wire) requests(answered bool) int {
	n := w.written.Load()
	if answered && n == w.before.Load() {
		n++
	}
	return int(n)
}

// take makes the wire the attempt's.
func (w *wire) take(a *attempt, cancel context.CancelCauseFunc) {
	w.mu.Lock()
	w.of, w.cancel = a, cancel
	w.mu.Unlock()
}

// isOf reports whether the wire is still the attempt's.
func (w *wire) isOf(a *attempt) bool {
	w.mu.Lock()
	is := w.of == a
	w.mu.Unlock()
	return is
}

// leave ends what take began, and returns how the attempt is to be cancelled; nil
// if it had left already.
func (w *wire) leave(a *attempt) (cancel context.CancelCauseFunc) {
	w.mu.Lock()
	if w.of == a {
		cancel = w.cancel
		w.of, w.cancel, w.due = nil, nil, time.Time{}
	}
	w.mu.Unlock()
	return cancel
}

// limit ends the attempt at now and d, unless unlimit comes before.
//
// Most time-outs never come, so a timer that is set is left alone as long as it
// does not go off too late: it looks by itself whether it was wanted. One that
// is set and stopped for every request costs the most where requests are cheap,
// because the runtime wakes a thread to wait for it.
func (w *wire) limit(a *attempt, now time.Time, d time.Duration) {
	due := now.Add(d)
	w.mu.Lock()
	if w.of == a {
		w.due, w.after = due, d
		if w.rings.IsZero() || due.Before(w.rings) {
			w.setLocked(now, d)
		}
	}
	w.mu.Unlock()
}

func (w *wire) unlimit(a *attempt) {
	w.mu.Lock()
	if w.of == a {
		w.due = time.Time{}
	}
	w.mu.Unlock()
}

// longestSet is for how long a timer is set at most. It holds its wire, which the
// pool may have forgotten, however long the attempt was allowed to take.
const longestSet = time.Minute

// setLocked has the timer go off at now and d, or before, to look again.
func (w *wire) setLocked(now time.Time, d time.Duration) {
	d = min(d, longestSet)
	w.rings = now.Add(d)
	if w.timer == nil {
		w.timer = time.AfterFunc(d, w.ring)
		return
	}
	w.timer.Reset(d)
}

// ring is called when the timer goes off.
func (w *wire) ring() {
	w.mu.Lock()
	w.rings = time.Time{}
	now, cancel := time.Now(), w.cancel
	switch {
	case w.due.IsZero():
		cancel = nil
	case w.due.After(now):
		w.setLocked(now, w.due.Sub(now))
		cancel = nil
	}
	err := &AttemptTimeoutError{After: w.after}
	w.mu.Unlock()
	if cancel != nil {
		cancel(err)
	}
}

// traceContextKey is the key under which net/http looks for a ClientTrace,
// learned by listening, so that an attempt can answer it without a context of
// its own. Nil, should it ever not be found, leads to httptrace.WithClientTrace.
var traceContextKey = func() (key any) {
	httptrace.WithClientTrace(listener{context.Background(), &key}, new(httptrace.ClientTrace))
	return key
}()

type listener struct {
	context.Context
	heard *any
}

func (l listener) Value(key any) any {
	if *l.heard == nil {
		*l.heard = key
	}
	return nil
}
