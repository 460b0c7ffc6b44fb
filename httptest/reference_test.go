package httptest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// reference is the obvious model of an algorithm: it keeps everything that was ever admitted and asks of the
// whole history whether one more would be admitted. Both sides of every comparison are multiplied by Per, so
// that nothing is ever rounded.
type reference struct {
	limit   Limit
	history []logEntry
}

func (r *reference) admits(now time.Time, cost int) bool {
	per := int64(r.limit.Per)
	switch r.limit.Algorithm {
	case FixedWindow:
		return r.sum(r.opened(now), now)+cost <= r.limit.N
	case SlidingLog:
		return r.sum(now.Add(-r.limit.Per+1), now)+cost <= r.limit.N
	case SlidingCounter:
		start := windowStart(now, r.limit.Per)
		previous := r.sum(start.Add(-r.limit.Per), start.Add(-1))
		left := per - int64(now.Sub(start))
		return int64(previous)*left+int64(r.sum(start, now)+cost)*per <= int64(r.limit.N)*per
	default: // both buckets: the level falls at the rate, and what is admitted is poured in
		level, last := int64(0), epoch
		for _, e := range append(r.history[:len(r.history):len(r.history)], logEntry{now, cost}) {
			level = max(0, level-int64(e.at.Sub(last))*int64(r.limit.N)) + int64(e.cost)*per
			last = e.at
		}
		found := level - int64(cost)*per // what the request itself has to wait for
		patient := r.limit.MaxDelay == 0 || found <= int64(r.limit.MaxDelay)*int64(r.limit.N)
		return level <= int64(r.limit.Capacity)*per && patient
	}
}

// opened is when the fixed window that holds now began.
func (r *reference) opened(now time.Time) time.Time {
	if !r.limit.FromFirst {
		return windowStart(now, r.limit.Per)
	}
	var opened time.Time
	for _, e := range append(r.history[:len(r.history):len(r.history)], logEntry{at: now}) {
		if e.at.Sub(opened) >= r.limit.Per {
			opened = e.at
		}
	}
	return opened
}

// sum is the cost of what was admitted from one instant to another, both included.
func (r *reference) sum(from, to time.Time) int {
	total := 0
	for _, e := range r.history {
		if !e.at.Before(from) && !e.at.After(to) {
			total += e.cost
		}
	}
	return total
}

func (r *reference) take(now time.Time, cost int) { r.history = append(r.history, logEntry{now, cost}) }

func (r *reference) remaining(now time.Time) int {
	sent := len(r.history)
	defer func() { r.history = r.history[:sent] }()
	for n := 0; ; n++ {
		if !r.admits(now, 1) {
			return n
		}
		r.take(now, 1)
	}
}

func TestEveryAlgorithmAgreesWithItsReference(t *testing.T) {
	for _, algorithm := range Algorithms() {
		t.Run(algorithm.String(), func(t *testing.T) {
			for seed := range uint64(30) {
				rnd := rand.New(rand.NewPCG(seed, uint64(algorithm)))
				l := Limit{Algorithm: algorithm, N: 1 + rnd.IntN(9), Per: time.Second + time.Duration(rnd.Int64N(int64(20*time.Second))), Capacity: 1 + rnd.IntN(12)}
				l.FromFirst = algorithm == FixedWindow && rnd.IntN(2) == 0
				if algorithm == LeakyBucket && rnd.IntN(2) == 0 {
					l.MaxDelay = time.Duration(1 + rnd.Int64N(int64(l.Per)))
				}
				compareWithReference(t, l, rnd, fmt.Sprintf("seed %d, %s", seed, l))
			}
		})
	}
}

func compareWithReference(t *testing.T, l Limit, rnd *rand.Rand, what string) {
	m, ref := meterFor(t, l), &reference{limit: l}
	now := epoch
	for step := range 60 {
		switch rnd.IntN(4) {
		case 0: // at the same instant
		case 1, 2:
			now = now.Add(time.Duration(rnd.Int64N(int64(l.Per)/int64(l.N) + 1)))
		case 3:
			now = now.Add(time.Duration(rnd.Int64N(2 * int64(l.Per))))
		}
		cost := min(1+rnd.IntN(3), l.ceiling())
		where := fmt.Sprintf("%s, step %d", what, step)
		require.Equal(t, ref.remaining(now), m.remaining(now), where)
		wait := m.wait(now, cost)
		require.Equal(t, ref.admits(now, cost), wait == 0, where)
		if wait > 0 {
			require.False(t, ref.admits(now.Add(wait-1), cost), "%s: could have come earlier than %s", where, wait)
			require.True(t, ref.admits(now.Add(wait), cost), "%s: not admitted after %s", where, wait)
			if rnd.IntN(2) == 0 {
				continue
			}
			now = now.Add(wait)
		}
		m.take(now, cost)
		ref.take(now, cost)
	}
}

func TestSlidingLogNeverAdmitsMoreThanTheLimitInAnyWindow(t *testing.T) {
	l := Limit{Algorithm: SlidingLog, N: 7, Per: time.Second}
	m := meterFor(t, l)
	rnd := rand.New(rand.NewPCG(7, 7))
	var admitted []time.Time
	now := epoch
	for range 5000 {
		now = now.Add(time.Duration(rnd.Int64N(int64(100 * time.Millisecond))))
		if m.wait(now, 1) == 0 {
			m.take(now, 1)
			admitted = append(admitted, now)
		}
	}
	require.Greater(t, len(admitted), 1000)
	for i := l.N; i < len(admitted); i++ {
		require.GreaterOrEqual(t, admitted[i].Sub(admitted[i-l.N]), l.Per)
	}
}

func TestTokenBucketSustainsItsRateAndNoMore(t *testing.T) {
	m := meterFor(t, DefaultLimit())
	passed := 0
	for now := epoch; now.Before(epoch.Add(time.Minute)); now = now.Add(10 * time.Millisecond) {
		passed += admit(m, now, 1)
	}
	require.Equal(t, 20+299, passed, "the burst, and 5 per second up to 59.99 s")
}

func TestLeakyBucketLetsOutAtAConstantPace(t *testing.T) {
	m := meterFor(t, Limit{Algorithm: LeakyBucket, N: 5, Per: time.Second, Capacity: 10})
	rnd := rand.New(rand.NewPCG(1, 2))
	now, last := epoch, time.Time{}
	for range 1000 {
		now = now.Add(time.Duration(rnd.Int64N(int64(300 * time.Millisecond))))
		if m.wait(now, 1) > 0 {
			continue
		}
		out := now.Add(m.take(now, 1))
		if !last.IsZero() {
			require.GreaterOrEqual(t, out.Sub(last), 200*time.Millisecond)
		}
		last = out
	}
}

func TestBanShutsOutForItsWholeLength(t *testing.T) {
	for _, tc := range []struct {
		extends bool
		want    time.Duration // from the first refusal to the next admission, knocking every minute
	}{{false, 10 * time.Minute}, {true, 0}} {
		store := NewMemory(0)
		l, err := Limit{Algorithm: SlidingLog, N: 3, Per: time.Second, Ban: 10 * time.Minute, BanExtends: tc.extends}.resolved()
		require.NoError(t, err)
		take := func(at time.Duration) Ruling {
			rulings, err := store.Take(t.Context(), epoch.Add(at), []Charge{{Key: "k", Limit: l, Cost: 1}})
			require.NoError(t, err)
			return rulings[0]
		}
		for range 3 {
			require.True(t, take(0).Admitted)
		}
		require.Equal(t, 10*time.Minute, take(0).Wait)
		admitted := time.Duration(0)
		for at := time.Minute; at <= 15*time.Minute && admitted == 0; at += time.Minute {
			if take(at).Admitted {
				admitted = at
			}
		}
		require.Equal(t, tc.want, admitted, "extends: %t", tc.extends)
	}
}

func TestMemoryForgetsIdleKeysAndBoundsTheRest(t *testing.T) {
	store := NewMemory(100)
	l, err := Limit{N: 5, Per: time.Minute}.resolved()
	require.NoError(t, err)
	take := func(key string, at time.Duration) {
		_, err := store.Take(t.Context(), epoch.Add(at), []Charge{{Key: key, Limit: l, Cost: 1}})
		require.NoError(t, err)
	}
	for i := range 1000 {
		take(itoa(i), 0)
	}
	require.LessOrEqual(t, store.Len(), 100)
	for i := range 60 {
		take("later"+itoa(i), time.Hour)
	}
	require.LessOrEqual(t, store.Len(), 60, "the windows of the first keys are long over")
}

func TestMemoryCountsOnWhenAClockReadingComesLate(t *testing.T) {
	store := NewMemory(0)
	l, err := Limit{Algorithm: TokenBucket, N: 1, Per: time.Second, Capacity: 3}.resolved()
	require.NoError(t, err)
	admitted := func(at time.Duration) bool {
		rulings, err := store.Take(t.Context(), epoch.Add(at), []Charge{{Key: "k", Limit: l, Cost: 3}})
		require.NoError(t, err)
		return rulings[0].Admitted
	}
	require.True(t, admitted(10*time.Second))
	require.False(t, admitted(5*time.Second))
	require.False(t, admitted(10*time.Second), "five seconds must not pass twice")
}

func TestMemoryRefusesALimitThatCannotBeCounted(t *testing.T) {
	store := NewMemory(0)
	good := Charge{Key: "good", Limit: Limit{N: 2, Per: time.Minute}, Cost: 1}
	for field, l := range map[string]Limit{"Limit.Per": {N: 5}, "Limit.N": {Per: time.Second}} {
		_, err := store.Take(t.Context(), epoch, []Charge{good, {Key: "bad", Limit: l, Cost: 1}})
		var bad *ConfigError
		require.ErrorAs(t, err, &bad)
		require.Equal(t, field, bad.Field)
	}
	rulings, err := store.Take(t.Context(), epoch, []Charge{good, {Key: "default", Cost: 1}})
	require.NoError(t, err)
	require.Equal(t, []int{1, 19}, []int{rulings[0].Remaining, rulings[1].Remaining}, "nothing was counted before, and the zero limit is the default")
}

func TestMemoryCountsAllChargesOrNone(t *testing.T) {
	store := NewMemory(0)
	wide, err := Limit{N: 10, Per: time.Minute}.resolved()
	require.NoError(t, err)
	narrow, err := Limit{N: 1, Per: time.Minute}.resolved()
	require.NoError(t, err)
	charges := []Charge{{Key: "wide", Limit: wide, Cost: 1}, {Key: "narrow", Limit: narrow, Cost: 1}}
	for _, left := range []int{9, 9, 9} {
		rulings, err := store.Take(t.Context(), epoch, charges)
		require.NoError(t, err)
		require.Equal(t, left, rulings[0].Remaining, "a refusal by one limit costs nothing in the other")
	}
}
