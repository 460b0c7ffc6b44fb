package polite

import (
	"strings"
	"time"
)

// laneKey names a lane: by the caller's quota key, by the bucket that the server
// named, or by the limit that tells a bucket without a name from the others.
// The host's own lane has the zero key.
type laneKey struct {
	quota, bucket string
	limit         int64
}

// learned reports whether the server's answers brought the lane about, and not
// the caller.
func (k laneKey) learned() bool { return k.quota == "" }

// maxEndpoints bounds the endpoints of one host whose bucket is remembered. A host
// with more has all of them forgotten at once: the next answer of each tells
// its bucket again, and until then it counts against the host's own lane.
const maxEndpoints = 256

// endpoints remembers which requests count against which of a host's buckets. It
// holds only what does not belong to the host's own lane, which is the bucket
// that was met first, and that of every endpoint not met yet. Most hosts have one
// bucket and never need the table.
type endpoints map[endpoint]*lane

// laneLocked is the lane that a call has to use: that of the caller's quota key,
// which always wins, or else of its endpoint's bucket.
func (h *hostState) laneLocked(c *call) *lane {
	if key := c.set.QuotaKey; key != "" {
		return h.openLocked(laneKey{quota: key})
	}
	if l := h.endpoints[c.endpoint]; l != nil {
		return l
	}
	return &h.lane
}

// openLocked returns the lane of a key, new or known; beyond maxLanes it is the
// host's own.
func (h *hostState) openLocked(key laneKey) *lane {
	if l := h.lanes[key]; l != nil {
		return l
	}
	if len(h.lanes) >= maxLanes {
		return &h.lane
	}
	if h.lanes == nil {
		h.lanes = make(map[laneKey]*lane)
	}
	l := new(lane)
	key.bucket = strings.Clone(key.bucket) // or it would keep all of the response's header
	h.lanes[key] = l
	return l
}

// followLocked puts a call that is not under way into its lane, which may have
// become known while it waited. A call that was refused stays in the lane whose
// gate it closed until it may try again.
func (h *hostState) followLocked(c *call, now time.Time) {
	l := h.laneLocked(c)
	if a := c.current; l == c.lane || a != nil && now.Before(a.retryAt) {
		return
	}
	if c.queued {
		c.lane.unqueue(c)
		l.queue.insert(c)
	}
	c.lane = l
}

// moveLocked moves a call whose answer has arrived, and with it what else is
// under way or waits on its endpoint, to the lane of the bucket that the answer
// speaks of.
func (h *hostState) moveLocked(c *call, r *report, s *signals) {
	if s == nil || r.uncounted || c.set.QuotaKey != "" {
		return
	}
	was, l := h.laneLocked(c), h.bucketLocked(c, r, s)
	if l != was {
		h.assignLocked(c.endpoint, l)
		was.queue.wakeAll() // they look for their lane again
	}
	if from := c.lane; l != from {
		for o := from.flight.first; o != nil; {
			next := o.next
			if o == c || o.endpoint == c.endpoint && o.set.QuotaKey == "" && !o.isSurcharge() {
				from.handOver(o, l)
			}
			o = next
		}
	}
}

// assignLocked notes the lane of an endpoint.
func (h *hostState) assignLocked(e endpoint, l *lane) {
	if l == &h.lane {
		delete(h.endpoints, e)
		return
	}
	if h.endpoints == nil {
		h.endpoints = make(endpoints)
	}
	if len(h.endpoints) >= maxEndpoints {
		clear(h.endpoints)
	}
	h.endpoints[e] = l
}

// bucketLocked is the lane of the bucket that an answer speaks of. A bucket with
// a name is told by it. Without names an answer that announces another limit
// than the last one on its lane speaks of another bucket if it came on another
// endpoint; on the same endpoint the limit has changed. A refusal may speak of
// another quota than the endpoint's usual one; see larger.
func (h *hostState) bucketLocked(c *call, r *report, s *signals) *lane {
	if s.bucket != "" {
		return h.namedLocked(s.bucket)
	}
	l := h.laneLocked(c)
	if s.n == 0 {
		return l
	}
	limit, known := l.differs(s)
	switch {
	case limit == known:
	case r.verdict.Outcome == Throttled && l.larger(s):
		return l
	case l != &h.lane && h.lane.agrees(s):
		l = &h.lane
	case l.told.last != c.endpoint || h.lanes[laneKey{limit: limit}] != nil:
		l = h.openLocked(laneKey{limit: limit})
	}
	return l
}

// namedLocked is the lane of a bucket with a name. The name that is met first
// is that of the host's own lane.
func (h *hostState) namedLocked(bucket string) *lane {
	if h.lane.bucket == "" {
		h.lane.bucket = strings.Clone(bucket) // or it would keep all of the response's header
	}
	if h.lane.bucket == bucket {
		return &h.lane
	}
	return h.openLocked(laneKey{bucket: bucket})
}

// differs returns the limit of an answer that is another than the lane knows of
// its policy, and the one known; both are 0 if there is none.
func (l *lane) differs(s *signals) (limit, known int64) {
	for i := range s.n {
		q := &s.quotas[i]
		if q.Unit != "" || q.Limit < 0 {
			continue
		}
		for j := range l.ledgers {
			if g := &l.ledgers[j]; g.policy == q.Policy && g.limit >= 0 && g.limit != float64(q.Limit) {
				return q.Limit, int64(g.limit)
			}
		}
	}
	return 0, 0
}

// larger reports whether an answer announces a larger limit than the lane knows.
// A refusal that does so speaks of a wider quota, such as the one of the day,
// that its bucket counts against as well: closing the gate is all it has to say.
func (l *lane) larger(s *signals) bool {
	limit, known := l.differs(s)
	return limit > known
}

// agrees reports whether the lane knows the limits of an answer as they are.
func (l *lane) agrees(s *signals) bool {
	limit, known := l.differs(s)
	return limit == known && len(l.ledgers) > 0
}

// handOver moves a request under way to another lane's books. Its number there
// must not make it younger than those that left after it.
func (l *lane) handOver(c *call, to *lane) {
	l.flight.remove(c)
	if l.probe == c {
		l.probe = nil
	}
	before := to.total - int64(to.flight.units)
	to.total += int64(c.set.Cost)
	if c.lane, c.units = to, to.total; c.sentAt.Before(to.last) {
		c.units = before
	}
	to.last = later(to.last, c.sentAt)
	to.flight.insertSent(c)
}

// stopsAllLocked reports whether a refusal for the rate holds for every lane of
// the host, because it blames none: no bucket is named or has too little left for
// the request. Of a quota that does not count requests nobody knows how much was
// needed, so it may be to blame. A call with a quota key of the caller's blames
// its key where the answer tells nothing; but if that has enough left, a limit
// beyond all keys has refused, such as GitHub's secondary ones.
func (h *hostState) stopsAllLocked(c *call, s *signals) bool {
	switch {
	case s == nil, s.reach == reachBucket:
		return false
	case s.reach == reachAll:
		return true
	}
	needed := int64(c.set.Cost)
	if c.surcharge != nil {
		needed = max(needed, int64(c.surcharge.set.Cost))
	}
	for i := range s.n {
		if q := &s.quotas[i]; q.Unit != "" || q.Remaining < needed { // -1 is unknown, and so to blame
			return false
		}
	}
	return s.n > 0 || s.bucket == "" && c.set.QuotaKey == "" && h.endpoints != nil
}
