package httptest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func meterFor(t *testing.T, l Limit) meter {
	t.Helper()
	l, err := l.resolved()
	require.NoError(t, err)
	return newMeter(l)
}

// admit sends up to n requests of cost 1 at one instant and returns how many pass.
func admit(m meter, at time.Time, n int) int {
	for passed := range n {
		if m.wait(at, 1) > 0 {
			return passed
		}
		m.take(at, 1)
	}
	return n
}

func TestFixedWindowAdmitsTwiceTheLimitAtItsEdge(t *testing.T) {
	m := meterFor(t, Limit{Algorithm: FixedWindow, N: 60, Per: time.Minute})
	assert.Equal(t, 60, admit(m, epoch.Add(59*time.Second), 100))
	assert.Equal(t, 60, admit(m, epoch.Add(60*time.Second), 100))
}

func TestOtherAlgorithmsDoNotAdmitTwiceTheLimitAtTheEdge(t *testing.T) {
	for _, tc := range []struct {
		limit         Limit
		before, after int
	}{
		{Limit{Algorithm: SlidingLog, N: 60, Per: time.Minute}, 60, 0},
		{Limit{Algorithm: SlidingCounter, N: 60, Per: time.Minute}, 60, 0},
		{Limit{Algorithm: TokenBucket, N: 60, Per: time.Minute}, 60, 1},
		{Limit{Algorithm: LeakyBucket, N: 60, Per: time.Minute}, 60, 1},
	} {
		t.Run(tc.limit.Algorithm.String(), func(t *testing.T) {
			m := meterFor(t, tc.limit)
			assert.Equal(t, tc.before, admit(m, epoch.Add(59*time.Second), 100))
			assert.Equal(t, tc.after, admit(m, epoch.Add(60*time.Second), 100))
		})
	}
}

func TestSlidingCounterWeighsThreeQuartersAfterAQuarterOfTheWindow(t *testing.T) {
	m := meterFor(t, Limit{Algorithm: SlidingCounter, N: 100, Per: time.Minute})
	require.Equal(t, 80, admit(m, epoch, 80))
	assert.Equal(t, 100-60, m.remaining(epoch.Add(75*time.Second)))
}

func TestTokenBucketWaitIsCostMinusTokensOverRate(t *testing.T) {
	m := meterFor(t, DefaultLimit())
	require.Equal(t, 20, admit(m, epoch, 100))
	assert.Equal(t, 200*time.Millisecond, m.wait(epoch, 1))
	assert.Equal(t, 2*time.Second, m.wait(epoch, 10))
	assert.Equal(t, epoch.Add(4*time.Second), m.reset(epoch))
	assert.False(t, m.idle(epoch.Add(4*time.Second-1)))
	assert.True(t, m.idle(epoch.Add(4*time.Second)), "a full bucket equals an absent one")
}

func TestLeakyBucketDelaysThenRefuses(t *testing.T) {
	m := meterFor(t, Limit{Algorithm: LeakyBucket, N: 5, Per: time.Second, Capacity: 3})
	for i := range 3 {
		require.Zero(t, m.wait(epoch, 1))
		assert.Equal(t, time.Duration(i)*200*time.Millisecond, m.take(epoch, 1))
	}
	assert.Equal(t, 200*time.Millisecond, m.wait(epoch, 1))
	assert.Zero(t, m.remaining(epoch))
	assert.Equal(t, epoch.Add(600*time.Millisecond), m.reset(epoch))
}

func TestLeakyBucketRefusesWhatWouldStayTooLong(t *testing.T) {
	m := meterFor(t, Limit{Algorithm: LeakyBucket, N: 5, Per: time.Second, Capacity: 100, MaxDelay: time.Second})
	assert.Equal(t, 6, m.remaining(epoch))
	assert.Equal(t, 6, admit(m, epoch, 100), "the sixth waits exactly a second")
	assert.Equal(t, 200*time.Millisecond, m.wait(epoch, 1))
}

func TestBadLimitIsRefusedWithTheSettingsName(t *testing.T) {
	for field, l := range map[string]Limit{
		"Limit.Algorithm": {Algorithm: 9, N: 1, Per: time.Second},
		"Limit.N":         {Per: time.Second},
		"Limit.Per":       {N: 1},
		"Limit.Capacity":  {N: 1, Per: time.Second, Capacity: -1},
		"Limit.MaxDelay":  {N: 1, Per: time.Second, MaxDelay: -1},
		"Limit":           {Algorithm: TokenBucket, N: 1, Per: 24 * time.Hour, Capacity: 1 << 30},
	} {
		_, err := New(Config{Limit: l})
		var bad *ConfigError
		require.ErrorAs(t, err, &bad, field)
		assert.Equal(t, field, bad.Field)
	}
}

func TestParseAlgorithmReadsWhatStringWrites(t *testing.T) {
	for _, a := range Algorithms() {
		got, err := ParseAlgorithm(a.String())
		require.NoError(t, err)
		assert.Equal(t, a, got)
	}
	_, err := ParseAlgorithm("leaky")
	assert.ErrorContains(t, err, "leaky-bucket")
}

func TestOracleMakespan(t *testing.T) {
	const rtt = 20 * time.Millisecond
	per := 10 * time.Second
	for _, tc := range []struct {
		name string
		o    Oracle
		want time.Duration
	}{
		{"all fit", Oracle{Limit: Limit{N: 100, Per: per}, Calls: 100, RTT: rtt}, rtt},
		{"fixed window", Oracle{Limit: Limit{N: 100, Per: per}, Calls: 1000, RTT: rtt}, 9*per + rtt/2},
		{"sliding log", Oracle{Limit: Limit{Algorithm: SlidingLog, N: 100, Per: per}, Calls: 1000, RTT: rtt}, 9*per + rtt},
		{"token bucket", Oracle{Limit: Limit{Algorithm: TokenBucket, N: 5, Per: time.Second, Capacity: 20}, Calls: 200, RTT: rtt}, 36*time.Second + rtt},
		{"leaky bucket", Oracle{Limit: Limit{Algorithm: LeakyBucket, N: 5, Per: time.Second, Capacity: 1}, Calls: 200, RTT: rtt}, 199*200*time.Millisecond + rtt},
		{"one worker", Oracle{Limit: Limit{N: -1}, Calls: 10, RTT: rtt, Workers: 1}, 10 * rtt},
		{"four workers", Oracle{Limit: Limit{N: -1}, Calls: 10, RTT: rtt, Workers: 4}, 3 * rtt},
		{"nothing to do", Oracle{RTT: rtt}, 0},
	} {
		got, err := tc.o.Makespan()
		require.NoError(t, err, tc.name)
		assert.Equal(t, tc.want, got, tc.name)
	}
	_, err := Oracle{Limit: Limit{N: 3}}.Makespan()
	assert.Error(t, err)
}
