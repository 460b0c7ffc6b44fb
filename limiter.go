package polite

import (
	"cmp"
	"math"
	"time"

	"golang.org/x/time/rate"
)

// LimitOptions are the client's own limits, kept per host. The zero value has
// no rates and no ceiling in flight: a host that names no limit is not slowed.
type LimitOptions struct {
	// Rates all hold at once: 3 per second and 120 per minute, say.
	Rates []Rate

	// MaxInFlight is how many requests may be under way to one host, from
	// sending to the end or the closing of the response body: 0 or negative
	// means unlimited. A response whose body is never closed keeps its place.
	MaxInFlight int

	// MaxWaiting is how many requests may wait for admission to one host; one
	// more fails at once with a *WaitError: 0 means 10,000, negative means
	// unlimited. They are admitted in the order in which their calls began.
	MaxWaiting int

	// MaxWait bounds one wait for admission, be it for these limits, for a
	// closed gate or for the server's quota: 0 means 2 minutes, negative means
	// unlimited. A wait that is known to be longer is not begun: the call
	// fails at once with a *WaitError.
	MaxWait time.Duration

	// Adaptive learns, per host and quota, the rate that a server bears which
	// refuses without saying for how long (no Retry-After or its kin) and
	// announces no quota. Nothing is slowed before the first such refusal: a
	// Throttled attempt, or a 503. Then all goroutines together keep to the
	// learned rate, evenly spaced (ReasonRate). A refusal lowers it to 70 % of
	// what the server has admitted, or to 95 % where it only confirms the
	// limit; from there it grows along a cubic, in 2 to 7 s back to the refused
	// rate and then beyond it, more slowly where the limit is a few requests
	// per second or less. It is never above twice the measured rate, nor above
	// Rates. After ten minutes without a refusal it is forgotten.
	//
	// A refusal closes the gate for two requests' time at the learned rate
	// instead of the backoff; the second in a row for 12, the third for 32 but at
	// least a second, and from the fourth on the backoff decides. None closes it
	// for longer than the backoff. Where a limit counts over minutes rather
	// than seconds, Rates serve better.
	//
	// The control is that of RFC 9438 (CUBIC) with the constants of the AWS
	// SDKs' adaptive retry mode.
	Adaptive bool

	// Disable switches Rates, MaxInFlight and Adaptive off.
	Disable bool
}

func (o *LimitOptions) withDefaults() {
	o.MaxWaiting = cmp.Or(o.MaxWaiting, 10_000)
	o.MaxWait = cmp.Or(o.MaxWait, 2*time.Minute)
	if o.Disable {
		o.Rates, o.MaxInFlight, o.Adaptive = nil, 0, false
	}
}

// Rate is a limit of N units per Per. In any interval of that length, wherever
// it begins (and not containing its own end), at most N units are admitted.
type Rate struct {
	// N and Per are the limit; if one of them is zero or negative there is
	// none.
	N   int
	Per time.Duration

	// Burst is how many units may be admitted at one instant after a pause: 0
	// or negative means 1, which spaces the requests evenly and uses the whole
	// rate; N or more means N. A larger burst lowers the steady rate to
	// (N + 1 − Burst) / Per, because both must fit into one interval. Of several
	// rates give the longer ones a burst: evenly spaced, 2,000 an hour are one
	// in 1.8 s, whatever the shorter ones allow. It grows for good to the largest
	// Cost that is met, which lowers the steady rate just as much: one request
	// of cost N leaves 1 / Per. A Cost above N fails at once with a *WaitError.
	Burst int

	// Key limits only requests with this quota key (Options.QuotaKey); empty
	// means every request to the host.
	Key string
}

// PerSecond returns an evenly spaced rate of n per second. Of several evenly
// spaced rates only the slowest has an effect; see Rate.Burst.
func PerSecond(n int) Rate { return Rate{N: n, Per: time.Second} }

// PerMinute returns an evenly spaced rate of n per minute.
func PerMinute(n int) Rate { return Rate{N: n, Per: time.Minute} }

// PerHour returns an evenly spaced rate of n per hour.
func PerHour(n int) Rate { return Rate{N: n, Per: time.Hour} }

// meter counts what one Rate admits: a token bucket of Burst units whose refill
// is chosen so that burst and refill together keep the promise of Rate. It is
// guarded by the host's mutex.
type meter struct {
	rate   Rate
	bucket *rate.Limiter
}

func newMeters(rates []Rate) []meter {
	var meters []meter
	for _, r := range rates {
		if r.N <= 0 || r.Per <= 0 {
			continue
		}
		r.Burst = max(1, min(r.Burst, r.N))
		meters = append(meters, meter{rate: r, bucket: rate.NewLimiter(r.refill(), r.Burst)})
	}
	return meters
}

// refill is the highest rate at which an interval of length Per that does not
// contain its own end admits fewer than N + 1 units.
func (r Rate) refill() rate.Limit {
	return rate.Limit(float64(r.N+1-r.Burst) / r.Per.Seconds())
}

func (m *meter) counts(key string) bool { return m.rate.Key == "" || m.rate.Key == key }

// fit makes room for a cost above the burst; false if it can never fit.
func (m *meter) fit(now time.Time, cost int) bool {
	if cost > m.rate.Burst && cost <= m.rate.N {
		m.rate.Burst = cost
		m.bucket.SetBurstAt(now, cost)
		m.bucket.SetLimitAt(now, m.rate.refill())
	}
	return cost <= m.rate.N
}

// delay is how long it takes until cost units, which fit, are there, when ahead
// units are to be admitted before them.
func (m *meter) delay(now time.Time, ahead, cost int) time.Duration {
	missing := float64(ahead+cost) - m.bucket.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	// Up to the next whole nanosecond, and not one more for a rounding error.
	nanos := math.Ceil(missing/float64(m.bucket.Limit())*1e9 - 1e-3)
	return clampDuration(nanos)
}

// take uses cost units, which delay has found to be there.
func (m *meter) take(now time.Time, cost int) { m.bucket.AllowN(now, cost) }

// clampDuration is nanos as a Duration, at most the longest one.
func clampDuration(nanos float64) time.Duration {
	if nanos >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(nanos)
}
