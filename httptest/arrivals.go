package httptest

import (
	"fmt"
	"math/bits"
	"net/http"
	"slices"
	"time"
)

// Arrival is one request as the server saw it.
type Arrival struct {
	At             time.Time // when it reached the server
	Method         string
	Path           string
	Query          string // raw, without the question mark
	Client         string // whom it was counted against, such as "usr:7"
	IdempotencyKey string
	Status         int       // what it was answered; 0 if the connection failed first
	BodySize       int       // bytes of the request's body; at most 100,001 are read
	BodyHash       uint64    // equal for equal bodies
	Remaining      int       // what the limits had left for this client afterwards; -1 = they were not asked
	Reset          time.Time // the instant announced beside Remaining; zero = none
	Refused        bool      // the limits said no
	Policy         string    // which of them, if it was refused
	Observed       bool      // it would have been refused, had the server not been told to observe only
	Until          time.Time // the instant that the answer told the client to wait for; zero = none
	Scripted       bool      // a Reply of Script took part
	Fault          Fault     // what was done to the connection
}

// refusal reports that the client was told that it asks too much.
func (a *Arrival) refusal() bool { return a.Refused || a.Status == http.StatusTooManyRequests }

// failed reports that the client cannot have taken the answer for a success.
func (a *Arrival) failed() bool { return a.Fault != NoFault || a.refusal() || a.Status >= 500 }

// journal keeps the latest arrivals, the totals and a running hash. The server's mutex guards it.
type journal struct {
	keep     int
	arrivals []Arrival
	requests int
	refusals int
	trace    trace
}

func (j *journal) addLocked(a *Arrival) {
	j.requests++
	if a.refusal() {
		j.refusals++
	}
	j.trace.add(a)
	if j.keep < 0 {
		return
	}
	// Dropping half of twice the number costs a constant amount per arrival.
	if len(j.arrivals)/2 >= j.keep {
		j.arrivals = slices.Delete(j.arrivals, 0, len(j.arrivals)-j.keep+1)
	}
	j.arrivals = append(j.arrivals, *a)
}

// trace is a hash over all arrivals. Those of one instant have no order of their own, so they count as a set.
type trace struct {
	instant int64
	set     uint64
	chain   uint64
}

func (t *trace) add(a *Arrival) {
	if at := a.At.UnixNano(); at != t.instant {
		t.chain, t.instant, t.set = t.folded(), at, 0
	}
	h := hashString(hashSeed, a.Method)
	for _, s := range [...]string{a.Path, a.Query, a.Client, a.IdempotencyKey, a.Policy} {
		h = hashString(h, s)
	}
	for _, n := range [...]int{a.Status, a.Remaining, int(a.Fault)} {
		h = hashInt(h, uint64(n))
	}
	t.set += h
}

func (t *trace) folded() uint64 {
	if t.set == 0 {
		return t.chain
	}
	return hashInt(hashInt(hashInt(hashSeed, t.chain), uint64(t.instant)), t.set)
}

// The FNV-1a hash, without the allocations of hash/fnv.
const (
	hashSeed  = uint64(14695981039346656037)
	hashPrime = uint64(1099511628211)
)

func hashString(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * hashPrime
	}
	return (h ^ 0xff) * hashPrime
}

// hashInt takes all of a number at once. Both halves of the product count, so that every bit of n can change every
// bit of the hash; the factor is the golden ratio's fraction.
func hashInt(h, n uint64) uint64 {
	high, low := bits.Mul64(h^n, 0x9e3779b97f4a7c15)
	return high ^ low
}

// digest is a short, stable fingerprint of some texts.
func digest(parts ...string) uint64 {
	h := hashSeed
	for _, p := range parts {
		h = hashString(h, p)
	}
	return h
}

// TraceHash is a hash of everything that arrived: when, from whom, and what was answered. Two runs of one
// program in virtual time with the same seeds have the same hash; requests of the same instant count as a set.
// The package documentation says where that ends.
func (s *Server) TraceHash() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("%016x", s.log.trace.folded())
}

// Requests is how many requests arrived, refused ones included.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.requests
}

// Refusals is how many requests were answered 429, or refused by the limiter in another way.
func (s *Server) Refusals() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.refusals
}

// Arrivals returns the latest arrivals, oldest first; [Config.KeepArrivals] says how many.
func (s *Server) Arrivals() []Arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.log.arrivals
	return slices.Clone(all[max(0, len(all)-max(0, s.log.keep)):])
}
