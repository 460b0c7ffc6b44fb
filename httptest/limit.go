package httptest

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
	"time"
)

// Algorithm says how a [Limit] counts. The zero value is [FixedWindow].
type Algorithm int

// The five algorithms that rate-limiting servers use.
const (
	// FixedWindow counts in consecutive windows. At the edge between two of them 2N pass in an instant.
	FixedWindow Algorithm = iota
	// SlidingLog remembers the instant of every counted request: never more than N in any window.
	SlidingLog
	// SlidingCounter weighs the previous window's count: previous × (1 − elapsed/window) + current.
	SlidingCounter
	// TokenBucket refills all the time up to its capacity; a request takes its cost.
	TokenBucket
	// LeakyBucket is a queue with a constant outflow: it delays first and refuses when the queue is full.
	LeakyBucket
)

var algorithmNames = [...]string{"fixed-window", "sliding-log", "sliding-counter", "token-bucket", "leaky-bucket"}

// String returns the name that [ParseAlgorithm] reads, such as "token-bucket".
func (a Algorithm) String() string {
	if a < 0 || int(a) >= len(algorithmNames) {
		return fmt.Sprintf("Algorithm(%d)", int(a))
	}
	return algorithmNames[a]
}

// Algorithms lists all of them, in the order of their values.
func Algorithms() []Algorithm {
	return []Algorithm{FixedWindow, SlidingLog, SlidingCounter, TokenBucket, LeakyBucket}
}

// ParseAlgorithm reads a name as [Algorithm.String] writes it, in any case.
// An unknown name is a [*ConfigError] that lists the known ones.
func ParseAlgorithm(name string) (Algorithm, error) {
	for a, known := range algorithmNames {
		if strings.EqualFold(name, known) {
			return Algorithm(a), nil
		}
	}
	return 0, unknownName("algorithm", name, algorithmNames[:])
}

// Limit is one rule: N requests in every Per, counted by an [Algorithm].
// The zero Limit stands for [DefaultLimit]; N < 0 means that nothing is limited (and no quota is announced).
type Limit struct {
	Algorithm Algorithm

	// N is the number of requests (or of cost units) allowed in every Per; it is the announced limit.
	N int
	// Per is the window; for the two buckets N/Per is the rate of refill or of outflow.
	Per time.Duration

	// Capacity is, for the token bucket, the burst; for the leaky bucket, how many requests it holds, the one
	// being served included (1 = no queue at all: whatever comes early is refused). 0 = N. Other algorithms ignore it.
	Capacity int
	// MaxDelay is the longest that a leaky bucket lets a request wait; what would wait longer is refused.
	// 0 = Capacity alone decides.
	MaxDelay time.Duration

	// FromFirst makes a window begin with the first counted request that finds none open. The default is the clock:
	// windows begin at multiples of Per since the Unix epoch. Fixed window and sliding counter only.
	FromFirst bool
	// ResetNewest makes a sliding log announce the instant at which its newest entry expires (all is restored);
	// the default is the oldest (one is restored).
	ResetNewest bool

	// Ban shuts a key out for so long once it has been refused, whatever it does meanwhile. 0 = no ban.
	Ban time.Duration
	// BanExtends starts the ban anew with every request that comes during it.
	BanExtends bool
}

// DefaultLimit is the general limit of Botiga Aroma for signed-in clients:
// a token bucket that holds 20 and refills at 300 per minute, which is 5 per second.
func DefaultLimit() Limit {
	return Limit{Algorithm: TokenBucket, N: 300, Per: time.Minute, Capacity: 20}
}

// String describes the limit for people, such as "token-bucket 300/1m capacity 20".
func (l Limit) String() string {
	if l.N < 0 {
		return "unlimited"
	}
	s := fmt.Sprintf("%s %d/%s", l.Algorithm, l.N, short(l.Per))
	if l.Algorithm >= TokenBucket && l.Capacity != 0 {
		s += fmt.Sprintf(" capacity %d", l.Capacity)
	}
	return s
}

// short is the duration without the zeros at its end: 24h instead of 24h0m0s.
func short(d time.Duration) string {
	s := d.String()
	for _, zero := range []struct{ end, keep string }{{"m0s", "m"}, {"h0m", "h"}} {
		if strings.HasSuffix(s, zero.end) {
			s = strings.TrimSuffix(s, zero.end) + zero.keep
		}
	}
	return s
}

// ConfigError says which setting of a [Config] cannot be honoured, and why.
type ConfigError struct {
	Field   string // the setting, such as "Limit.Per"
	Problem string // what is wrong with its value
}

func (e *ConfigError) Error() string { return "httptest: " + e.Field + ": " + e.Problem }

func unknownName(field, name string, known []string) *ConfigError {
	return &ConfigError{field, fmt.Sprintf("unknown name %q, want one of %s", name, strings.Join(known, ", "))}
}

// resolved fills in the defaults and refuses what cannot be counted.
func (l Limit) resolved() (Limit, error) {
	if l == (Limit{}) {
		l = DefaultLimit()
	}
	if l.N < 0 {
		return l, nil
	}
	if l.Algorithm < FixedWindow || l.Algorithm > LeakyBucket {
		return l, &ConfigError{"Limit.Algorithm", fmt.Sprintf("unknown value %d", int(l.Algorithm))}
	}
	if l.N == 0 {
		return l, &ConfigError{"Limit.N", "must not be 0 (negative means unlimited)"}
	}
	if l.Per <= 0 {
		return l, &ConfigError{"Limit.Per", fmt.Sprintf("must be positive, is %s", l.Per)}
	}
	if l.Capacity < 0 {
		return l, &ConfigError{"Limit.Capacity", fmt.Sprintf("must not be negative, is %d", l.Capacity)}
	}
	if l.MaxDelay < 0 {
		return l, &ConfigError{"Limit.MaxDelay", fmt.Sprintf("must not be negative, is %s", l.MaxDelay)}
	}
	if l.Ban < 0 {
		return l, &ConfigError{"Limit.Ban", fmt.Sprintf("must not be negative, is %s", l.Ban)}
	}
	if l.Capacity == 0 {
		l.Capacity = l.N
	}
	if token, _ := l.units(); token > math.MaxInt64/2/int64(l.Capacity) {
		return l, &ConfigError{"Limit", fmt.Sprintf("capacity %d over %s is too fine to count", l.Capacity, l.Per)}
	}
	return l, nil
}

// ceiling is the most that one request can be charged: more could never be admitted.
func (l Limit) ceiling() int {
	if l.Algorithm >= TokenBucket {
		return l.Capacity
	}
	return l.N
}

// units expresses the buckets' rate in whole numbers, so that no instant is rounded twice:
// one request is worth `token` units, and `flow` units pass per nanosecond.
func (l Limit) units() (token, flow int64) {
	g := gcd(int64(l.N), int64(l.Per))
	return int64(l.Per) / g, int64(l.N) / g
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// mulDiv is a×b/c rounded down, without overflow in the middle. a×b/c must fit, and nothing may be negative.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(q)
}

// mulDivUp is mulDiv rounded up.
func mulDivUp(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, r := bits.Div64(hi, lo, uint64(c))
	if r > 0 {
		q++
	}
	return int64(q)
}

// divUp is a/b rounded up, for a positive a.
func divUp(a, b int64) int64 {
	q := a / b
	if a%b > 0 {
		q++
	}
	return q
}
