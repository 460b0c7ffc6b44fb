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
	timer  *time.Timer
	armed  bool
	fired  bool // the timer's function has run, or is about to
	cancel context.CancelCauseFunc
	after  time.Duration // what the timer was last set to
	trace  httptrace.ClientTrace

	asked   atomic.Int32 // connections asked for
	conns   atomic.Int32 // connections got
	written atomic.Int32 // request headers written
	before  atomic.Int32 // of them, before the last connection was got
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

// put takes a wire back if nothing can touch it any more: its timer has not
// fired, and each connection has seen its request written, so that no hook is
// still to come.
func (p *wirePool) put(w *wire) {
	got := w.conns.Load()
	if w.fired || w.armed || got != w.asked.Load() || got != w.written.Load() {
		return
	}
	w.asked.Store(0)
	w.conns.Store(0)
	w.written.Store(0)
	w.before.Store(0)
	w.cancel = nil
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

// limit bounds the time until the next unlimit. Once time was up it stays up.
func (w *wire) limit(d time.Duration) {
	if w.fired {
		return
	}
	w.after, w.armed = d, true
	if w.timer == nil {
		w.timer = time.AfterFunc(d, func() { w.cancel(&AttemptTimeoutError{After: w.after}) })
		return
	}
	w.timer.Reset(d)
}

func (w *wire) unlimit() {
	if w.armed && !w.timer.Stop() {
		w.fired = true
	}
	w.armed = false
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
