package polite

import (
	"hash/maphash"
	"math/bits"
	"net/http"
	"strings"
	"time"
)

// evidence is what has been noticed on a lane that somebody wants diagnosed.
type evidence struct {
	told findings

	bucket   string   // the name that was heard last
	limit    int64    // announced last
	before   int64    // the limit announced before that one, if it was another
	endpoint endpoint // whose answer announced limit

	asked time.Duration // the wait that the last refusal asked for
	until time.Time     // the end of that wait; zero after a success

	spending trail
}

// examination is the end of an attempt under the eyes of diagnosis. The host's
// mutex is held.
type examination struct {
	*evidence
	l        *lane
	c        *call
	r        report        // copies: pointers would move
	s        signals       // the call's own to the heap
	asked    time.Duration // what the server asked for; 0 if it did not
	expected int64
	own      bool // the lane is the host's own,
	alone    bool // and there is no other
}

// examineLocked returns what the end of an attempt shows for the first time.
func (h *hostState) examineLocked(c *call, r *report, s *signals) findings {
	if s == nil || r.uncounted || c.trace == nil || c.trace.Diagnosis == nil {
		return 0
	}
	for _, l := range [...]*lane{&h.lane, c.lane} {
		if l.evidence == nil {
			l.evidence = new(evidence)
		}
	}
	x := examination{evidence: c.lane.evidence, l: c.lane, c: c, r: *r, s: *s, expected: h.opts.ExpectedLimit,
		own: c.lane == &h.lane, alone: len(h.lanes) == 0}
	if s.retryAt.After(r.now) {
		x.asked = s.retryAt.Sub(r.now)
	}
	var found findings
	for d := LowLimit; int(d) < len(diagnoses); d++ {
		told := &c.lane.evidence.told
		if diagnoses[d].ofHost {
			told = &h.lane.evidence.told
		}
		if diagnoses[d].shows(&x) && !told.has(d) {
			*told |= 1 << d
			found |= 1 << d
		}
	}
	return found
}

// diagnose tells what was found.
func (c *call) diagnose(found findings, s *signals, now time.Time) {
	for d := LowLimit; int(d) < len(diagnoses); d++ {
		if !found.has(d) {
			continue
		}
		e := DiagnosisEvent{Request: c.event(), Diagnosis: d, Expected: c.t.opts.ExpectedLimit, Skew: s.skew}
		if s.n > 0 {
			e.Quota = s.quotas[0]
		}
		if q := s.below(e.Expected); q != nil && d == LowLimit {
			e.Quota = *q
		}
		if s.asks() && s.retryAt.After(now) {
			e.Asked = s.retryAt.Sub(now)
		}
		c.trace.Diagnosis(e)
	}
}

// below is the largest quota of requests, if even that is below the expected one.
// A window of a second is smaller than that of the day for everybody.
func (s *signals) below(expected int64) *Quota {
	var largest *Quota
	for i := range s.n {
		if q := &s.quotas[i]; q.Unit == "" && q.Limit >= 0 && (largest == nil || q.Limit > largest.Limit) {
			largest = q
		}
	}
	if largest == nil || largest.Limit >= expected {
		return nil
	}
	return largest
}

// lowLimit looks at the host's own quota: what goes by another key or bucket,
// searches say, has a limit of its own.
func (x *examination) lowLimit() bool { return x.own && x.s.below(x.expected) != nil }

func (x *examination) noRetryAfter() bool {
	return x.r.verdict.Outcome == Throttled && x.c.current.status() == http.StatusTooManyRequests && !x.s.asks()
}

// asks reports whether the server said how long to wait, so that it need not be
// taken from the quota, or guessed.
func (s *signals) asks() bool {
	return s.hint != hintNone && s.hint != hintReset && s.hint != hintWindow
}

// skewedClock leaves out what the time of the exchange explains: a proxy may
// have held back the answer after it was dated.
func (x *examination) skewedClock() bool {
	return x.s.skew.Abs() > x.r.now.Sub(x.c.sentAt)
}

// longRetryAfter compares with the windows and the resets of this answer, and
// with the windows that the lane's ledgers know.
func (x *examination) longRetryAfter() bool {
	switch x.s.hint {
	case hintMilliseconds, hintRetryAfter, hintVendor:
	default:
		return false
	}
	var known time.Duration
	for i := range x.s.n {
		q := &x.s.quotas[i]
		known = max(known, q.Window, q.Reset.Sub(x.r.now))
	}
	for i := range x.l.ledgers {
		known = max(known, x.l.ledgers[i].window)
	}
	return known > 0 && x.asked > 2*known+settle
}

// mixedQuotaKey looks for another bucket's name than the last one, and for a
// limit that returns on another endpoint to what it was before.
func (x *examination) mixedQuotaKey() bool {
	if x.c.set.QuotaKey == "" {
		return false
	}
	if name := x.s.bucket; name != "" {
		if x.bucket == name {
			return false
		}
		other := x.bucket != ""
		x.bucket = strings.Clone(name) // not all of the response's header
		return other
	}
	if x.s.n == 0 || x.s.quotas[0].Policy != "" || x.s.quotas[0].Limit < 0 || x.r.verdict.Outcome == Throttled {
		return false
	}
	limit, elsewhere := x.s.quotas[0].Limit, x.c.endpoint != x.endpoint
	x.endpoint = x.c.endpoint
	if limit == x.limit {
		return false
	}
	returned := limit == x.before
	x.before, x.limit = x.limit, limit
	return returned && elsewhere
}

// shortestBan is the shortest wait that counts as a ban. An overloaded server
// that says the same few seconds to everybody does not ban.
const shortestBan = 10 * time.Second

func (x *examination) extendedBan() bool {
	if x.r.verdict.Outcome == OK {
		x.until = time.Time{}
		return false
	}
	explained := x.s.hint == hintReset || x.s.hint == hintWindow || x.s.hint == hintDialect ||
		!x.s.exhaustedReset.Before(x.s.retryAt.Add(-settle)) && !x.s.exhaustedReset.After(x.s.retryAt.Add(settle))
	if x.r.verdict.Outcome != Throttled || x.asked == 0 || explained {
		return false
	}
	sent := x.c.sentAt
	again := !x.until.IsZero() && !sent.Before(x.until) && sent.Before(x.until.Add(x.evidence.asked)) &&
		x.asked >= x.evidence.asked && x.asked >= shortestBan
	x.until, x.evidence.asked = x.s.retryAt, x.asked
	return again
}

// trail follows what single requests take from a quota within one window.
type trail struct {
	policy string
	limit  int64
	reset  time.Time // when the trail began
	left   int64     // after the last request
	units  int64     // sent up to and including it
	off    bool      // the quota comes back by itself, so that nothing can be compared

	request uint64 // fingerprint of the request whose price is measured
	least   int64  // that it took
	odd     int    // how often it took twice as much, or more

	endpoint endpoint
	prices   uint64 // of the requests to the endpoint, one bit each
}

const (
	// oddPrices are enough for a verdict: one request cannot have two prices.
	oddPrices = 3
	// manyPrices of one endpoint are more than a list of prices has.
	manyPrices = 4
)

// sharedQuota compares the answers of requests that were alone under way: what
// the quota lost between two of them is the price of the second. A price may be
// any, but one and the same request has one price, and the requests of an
// endpoint have few. Requests by another key may use this quota up, too.
func (x *examination) sharedQuota() bool {
	t, q := &x.spending, x.s.countsRequests()
	if q == nil || t.off || !x.alone || x.l.flight.n > 0 {
		t.limit = 0
		return false
	}
	ours, fall := x.c.units-t.units, t.left-q.Remaining
	follows := t.policy == q.Policy && t.limit == q.Limit && ours == int64(x.c.set.Cost)
	same := q.Reset.Sub(t.reset).Abs() <= settle
	if !follows || !same {
		policy := t.policy
		if policy != q.Policy {
			policy = strings.Clone(q.Policy)
		}
		*t = trail{policy: policy, limit: q.Limit, reset: q.Reset, left: q.Remaining, units: x.c.units}
		return false
	}
	t.left, t.units = q.Remaining, x.c.units
	if status := x.c.current.status(); status < 200 || status > 299 {
		return false // often free of charge
	}
	if fall < ours {
		t.off = true
		return false
	}
	return t.priced(x.c, fall, ours)
}

// priced enters what a request took, and reports whether that is no price.
func (t *trail) priced(c *call, fall, ours int64) bool {
	request := maphash.String(endpointSeed, c.req.URL.Path)*31 + maphash.String(endpointSeed, c.req.URL.RawQuery)
	if request != t.request {
		t.request, t.least, t.odd = request, fall, 0
	}
	t.least = min(t.least, fall)
	if fall >= 2*t.least && fall > ours {
		t.odd++
	}
	if c.endpoint != t.endpoint {
		t.endpoint, t.prices = c.endpoint, 0
	}
	t.prices |= 1 << min(fall/ours, 63)
	return t.odd >= oddPrices || bits.OnesCount64(t.prices) >= manyPrices
}

// countsRequests is the first quota that counts requests and says how many are
// left.
func (s *signals) countsRequests() *Quota {
	for i := range s.n {
		if q := &s.quotas[i]; q.Unit == "" && q.Limit > 0 && q.Remaining >= 0 && !q.Reset.IsZero() {
			return q
		}
	}
	return nil
}
