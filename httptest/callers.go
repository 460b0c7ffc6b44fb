package httptest

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"
)

// wireGrace is how long after an answer was written to a real connection requests may still arrive that were
// sent before it was read. In memory the server knows the instant.
const wireGrace = 50 * time.Millisecond

// What is remembered of each caller is bounded.
const (
	maxCallers = 10_000 // further ones share a row, others
	maxTells   = 8      // instants that a caller was told to wait for
	maxDeeds   = 32     // requests that could be repeats of each other
)

// others is the name of the row that callers above maxCallers share. What it counts cannot be told apart by caller.
const others = "(others)"

// callers holds what the server has seen of each client. The server's mutex guards it.
type callers struct {
	byKey map[string]*conduct
	all   conduct
	down  bool      // the last request met an outage
	up    time.Time // when the last outage was over
}

// of finds or begins a client's record.
func (c *callers) of(name []byte) *conduct {
	if known, ok := c.byKey[string(name)]; ok { // does not allocate
		return known
	}
	client := string(name)
	if c.byKey == nil {
		c.byKey = map[string]*conduct{}
	}
	if len(c.byKey) >= maxCallers {
		client = others
		if known, ok := c.byKey[client]; ok {
			return known
		}
	}
	fresh := &conduct{Manners: Manners{Client: client}}
	c.byKey[client] = fresh
	return fresh
}

// conduct is what the server has seen of one client. The server's mutex guards it, except for what is atomic and for
// the client's name, which never changes.
type conduct struct {
	arrivals atomic.Uint64
	open     atomic.Int64 // response bodies that were handed over in memory, and are not closed
	unread   atomic.Int64 // those that were closed before their end

	Manners
	tells    []tell
	deeds    []deed
	flow     flow
	reset    time.Time // when a quota that is used up is restored
	reopened time.Time // when a wait, a reset or an outage was last over
	after    flow      // since reopened

	counters atomic.Pointer[counter] // of some policies; for the row of others, of none
}

// counter is the key of one policy's counter for one client, in a list of them.
type counter struct {
	policy *Policy
	key    string
	next   *counter
}

// counterOf is the key of the policy's counter for the client. It is written once, and again only for a request
// that loses a race with another one of the same client.
func (c *conduct) counterOf(p *Policy, client string) string {
	first := c.counters.Load()
	for known := first; known != nil; known = known.next {
		if known.policy == p {
			return known.key
		}
	}
	key := p.Name + "|" + client
	if c.Client != others {
		c.counters.CompareAndSwap(first, &counter{p, key, first})
	}
	return key
}

// tell is one answer that asked the client to wait. It binds what the client sent after it had been delivered; the
// refusal of a limit binds only what that limit counts in the same counter.
type tell struct {
	policy    *Policy // that refused; nil = everything is bound
	key       string  // its counter
	until     time.Time
	delivered uint64    // on Server.clock
	binds     time.Time // requests that arrive before this may have been under way
}

// deed is one unsafe request, or one with a key.
type deed struct {
	print  uint64 // whose it is, method, address and body
	owner  string // as in exchange
	key    string
	body   uint64
	sent   uint64 // as in exchange
	failed bool   // the client cannot have taken it for done
	effect bool   // it was carried out
}

// flow finds the largest number of arrivals in a tenth of a second and in a second, on a grid of tenths.
type flow struct {
	tenth             int64 // of the newest arrival, since the Unix epoch
	counts            [10]int32
	peak100ms, peak1s int
}

func (f *flow) add(at time.Time) {
	tenth := at.UnixNano() / int64(100*time.Millisecond)
	if tenth-f.tenth >= 10 {
		f.counts = [10]int32{}
	} else {
		for t := f.tenth + 1; t <= tenth; t++ {
			f.counts[t%10] = 0
		}
	}
	f.tenth = max(f.tenth, tenth)
	f.counts[tenth%10]++
	f.peak100ms = max(f.peak100ms, int(f.counts[tenth%10]))
	second := int32(0)
	for _, n := range f.counts {
		second += n
	}
	f.peak1s = max(f.peak1s, int(second))
}

// record enters one request in every book.
func (s *Server) record(x *exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log.addLocked(&x.seen)
	s.timeline.add(&x.seen)
	if s.callers.down && !x.down {
		s.callers.up = x.now
	}
	s.callers.down = x.down
	client := x.conduct
	for _, c := range [...]*conduct{client, &s.callers.all} {
		c.reopen(s.callers.up)
		early := c.toldToWait(x)
		c.awaitReset(x)
		c.tally(x)
		if c == client && c.Client != others { // only a client itself can come early or repeat itself
			c.Early += count(early)
			c.compare(x)
		}
	}
}

func (c *conduct) reopen(at time.Time) {
	if at.After(c.reopened) {
		c.reopened, c.after = at, flow{peak100ms: c.after.peak100ms, peak1s: c.after.peak1s}
	}
}

// tally counts one arrival.
func (c *conduct) tally(x *exchange) {
	c.Requests++
	if x.seen.refusal() {
		c.Refusals++
	}
	if x.seen.Status >= 500 {
		c.Failures++
	}
	c.flow.add(x.now)
	c.Peak100ms, c.PeakSecond = c.flow.peak100ms, c.flow.peak1s
	if !c.reopened.IsZero() && x.now.Sub(c.reopened) < time.Second {
		c.after.add(x.now)
		c.Reopen100ms, c.ReopenSecond = c.after.peak100ms, c.after.peak1s
	}
}

// awaitReset opens the door when a quota that was used up has been restored.
func (c *conduct) awaitReset(x *exchange) {
	if !c.reset.IsZero() && !x.now.Before(c.reset) {
		c.reopen(c.reset)
		c.reset = time.Time{}
	}
	if x.seen.Remaining == 0 {
		c.reset = x.seen.Reset
	}
}

// toldToWait reports that the client knew of an instant it should have waited for. Instants that have passed
// are dropped, and the latest of them is when the door opened.
func (c *conduct) toldToWait(x *exchange) bool {
	c.tells = slices.DeleteFunc(c.tells, func(t tell) bool {
		passed := !x.now.Before(t.until)
		if passed {
			c.reopen(t.until)
		}
		return passed
	})
	for i := range c.tells {
		if t := &c.tells[i]; x.sent > t.delivered && !x.now.Before(t.binds) && t.isFor(x) {
			return true
		}
	}
	return false
}

// isFor reports that the request is one of those that the answer spoke of.
func (t *tell) isFor(x *exchange) bool {
	return t.policy == nil || x.class != ClassHealth && t.policy.covers(x) && t.policy.key(x) == t.key
}

// compare looks for repeats among the client's latest deeds.
func (c *conduct) compare(x *exchange) {
	safe := x.request.Method != http.MethodPost && x.request.Method != http.MethodPatch
	if safe && x.seen.IdempotencyKey == "" {
		return
	}
	d := deed{owner: x.owner(), body: x.digest(), key: x.seen.IdempotencyKey, sent: x.sent, failed: x.seen.failed(), effect: x.effect}
	d.print = hashInt(digest(d.owner, x.seen.Method, x.seen.Path, x.seen.Query), d.body)
	repeat, mismatch, duplicate := false, false, false
	for _, old := range c.deeds {
		same := old.print == d.print
		repeat = repeat || same && old.failed && d.key == "" && !safe
		duplicate = duplicate || same && old.failed && old.effect && d.effect
		mismatch = mismatch || d.key != "" && old.key == d.key && old.owner == d.owner && old.body != d.body
	}
	c.UnsafeRepeats += count(repeat)
	c.Duplicates += count(duplicate)
	c.Mismatches += count(mismatch)
	if len(c.deeds) >= maxDeeds { // one that has failed is the last to be forgotten
		oldest := max(0, slices.IndexFunc(c.deeds, func(d deed) bool { return !d.failed }))
		c.deeds = slices.Delete(c.deeds, oldest, oldest+1)
	}
	c.deeds = append(c.deeds, d)
}

func count(happened bool) int {
	if happened {
		return 1
	}
	return 0
}

// lost notes that the client has gone before the answer came: to it the request has failed.
func (s *Server) lost(x *exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range x.conduct.deeds {
		if d := &x.conduct.deeds[i]; d.sent == x.sent {
			d.failed = true
		}
	}
}

// delivered notes that the client has been told to wait.
func (s *Server) delivered(x *exchange, grace time.Duration) {
	if x.seen.Until.IsZero() {
		return
	}
	t := tell{x.refusing, x.counter, x.seen.Until, s.clock.Add(1), time.Now().Add(grace)}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range [...]*conduct{x.conduct, &s.callers.all} {
		c.tell(t)
	}
}

// tell remembers one more instant. One that an earlier answer about the same has already put as late adds nothing;
// when there are too many, the newest takes the place of the one before it.
func (c *conduct) tell(t tell) {
	for _, old := range c.tells {
		if old.policy == t.policy && old.key == t.key && !old.until.Before(t.until) {
			return
		}
	}
	if len(c.tells) == maxTells {
		c.tells[maxTells-1] = t
		return
	}
	c.tells = append(c.tells, t)
}

// connKey marks a connection's context.
type connKey struct{}

// connSeen says which clients a connection has been counted for. The server's mutex guards it.
type connSeen struct{ clients map[*conduct]bool }

// withConn is the http.Server's ConnContext.
func withConn(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, &connSeen{map[*conduct]bool{}})
}

// connected counts the connections that a client has used.
func (s *Server) connected(x *exchange) {
	seen, ok := x.request.Context().Value(connKey{}).(*connSeen)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if seen.clients[x.conduct] {
		return
	}
	if len(seen.clients) == 0 {
		s.callers.all.Connections++
	}
	seen.clients[x.conduct] = true
	x.conduct.Connections++
}
