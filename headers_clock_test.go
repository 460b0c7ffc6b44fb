package polite

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A hundred thousand answers of servers whose clocks are off by up to a day: the
// local instant never lies before the server's, and at most four seconds behind
// it when the header travels for less than one.
func TestRetryHintsAreNeverEarlyWhateverTheClocks(t *testing.T) {
	const seed = 20260301
	random := rand.New(rand.NewPCG(seed, seed))
	for i := range 100_000 {
		var (
			sent     = noon.Add(time.Duration(random.Int64N(int64(1000 * time.Hour)))) // server's clock
			travel   = time.Duration(random.Int64N(int64(time.Second)))
			offset   = randomOffset(random) // local clock minus server's
			received = sent.Add(travel + offset)
			wait     = time.Duration(1 + random.Int64N(int64(2*time.Hour)))
		)
		value, allowed := spellHint(random, sent, wait)
		h := http.Header{"Date": {sent.UTC().Format(http.TimeFormat)}, "Retry-After": {value}}

		at, ok := ParseRetryAfter(h, received)

		truth := allowed.Add(offset) // the server's instant on the local clock
		if late := at.Sub(truth); ok && (late < 0 || late > 4*time.Second) || !ok && truth.After(received) {
			// Only what is over by the time it arrives may be no hint.
			t.Fatalf("seed %d, case %d: %q sent %s received %s offset %s: %s (%t) is %s late", seed, i, value, sent, received, offset, at, ok, late)
		}
	}
}

// randomOffset is within a day, and often within what Date cannot tell.
func randomOffset(random *rand.Rand) time.Duration {
	if random.IntN(2) == 0 {
		return time.Duration(random.Int64N(int64(6*time.Second))) - 3*time.Second
	}
	return time.Duration(random.Int64N(int64(48*time.Hour))) - 24*time.Hour
}

// spellHint writes a wait in one of the spellings, rounded up as a careful server
// would, and returns the instant that it means on the server's clock.
func spellHint(random *rand.Rand, sent time.Time, wait time.Duration) (string, time.Time) {
	up := func(t time.Time, unit time.Duration) time.Time { return t.Add(unit - 1).Truncate(unit) }
	allowed := sent.Add(wait)
	switch random.IntN(6) {
	case 0:
		allowed = up(allowed, time.Second)
		return allowed.UTC().Format(http.TimeFormat), allowed
	case 1:
		allowed = up(allowed, time.Second)
		return fmt.Sprint(allowed.Unix()), allowed
	case 2:
		allowed = up(allowed, time.Millisecond)
		return fmt.Sprint(allowed.UnixMilli()), allowed
	case 3:
		return allowed.UTC().Format(time.RFC3339Nano), allowed
	case 4:
		seconds := (wait + time.Second - 1) / time.Second
		return fmt.Sprint(int64(seconds)), sent.Add(seconds * time.Second)
	default:
		return fmt.Sprintf("%d.%09d", wait/time.Second, wait%time.Second), allowed
	}
}

func TestResetsFollowDateOnlyBeyondTwoSeconds(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Second, 2 * time.Second, -2 * time.Second} {
		c := localClock{now: noon, ahead: ahead}
		require.True(t, c.reset(moment{at: noon.Add(time.Minute)}).Equal(noon.Add(time.Minute)), ahead)
	}
	for _, ahead := range []time.Duration{3 * time.Second, -time.Hour} {
		c := localClock{now: noon, ahead: ahead}
		require.True(t, c.reset(moment{at: noon.Add(time.Minute - ahead)}).Equal(noon.Add(time.Minute)), ahead)
	}
}

func TestInstantsKeepTheMonotonicReading(t *testing.T) {
	now := time.Now()
	at, ok := ParseRetryAfter(http.Header{"Retry-After": {"2"}}, now)
	require.True(t, ok)
	require.Equal(t, now.Add(2*time.Second), at, "a clock that is set meanwhile must not move the wait")
}

func TestAnInstantBeyondACenturyIsOneAhead(t *testing.T) {
	now := noon.Add(123456789 * time.Nanosecond)
	for _, value := range []string{"17723664370000", "Fri, 31 Dec 9999 23:59:59 GMT", "99999999999999999999"} {
		at, ok := ParseRetryAfter(http.Header{"Retry-After": {value}}, now)
		require.True(t, ok, value)
		require.Equal(t, now.Add(farAhead), at, value)
	}
}
