package polite_test

import (
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// atScale is the size of a random test: small, so that the usual run is short,
// or full, which takes some minutes, with
//
//	POLITE_SCALE=full go test -timeout 2h -v -run '<test>' .
//
// Under the race detector it is a tenth.
func atScale(small, full int) int {
	n := small
	if os.Getenv("POLITE_SCALE") == "full" {
		n = full
	}
	if raceDetector {
		n = max(1, n/10)
	}
	return n
}

// randomly plays so many rounds, some of them in each bubble, with choices of
// their own, and says what they took. A round that fails, panics or stands still
// says how to repeat it alone. It is then played often, because the jitter of a
// gate and goroutines that wake at one instant are not the round's to choose.
func randomly(t *testing.T, small, full, perBubble int, play func(t *testing.T, random *rand.Rand)) {
	total, seed := atScale(small, full), rand.Uint64()
	number := func(played int) uint64 { return uint64(played) }
	if alone := os.Getenv("POLITE_ROUND"); alone != "" {
		s, n, _ := strings.Cut(alone, ":")
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
		round, err := strconv.ParseUint(n, 10, 64)
		require.NoError(t, err)
		total, perBubble = 200, 1
		number = func(int) uint64 { return round }
	}
	if total != small { // virtual time has little use for a second processor, and less for collecting a small heap all the time
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		defer debug.SetGCPercent(debug.SetGCPercent(400))
	}
	start, played := time.Now(), 0
	defer func() {
		if played < total {
			t.Logf("again, alone: POLITE_ROUND=%d:%d go test -v -run '^%s$' .", seed, number(played), t.Name())
		}
	}()
	for played < total {
		synctest.Test(t, func(t *testing.T) {
			for end := min(total, played+perBubble); played < end; played++ {
				play(t, rand.New(rand.NewPCG(seed, number(played))))
				if t.Failed() {
					t.FailNow()
				}
			}
		})
	}
	t.Logf("seed %d: %d rounds in %s", seed, total, time.Since(start).Round(time.Millisecond))
}
