package polite_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"botigaaroma.example/polite"
)

// No number of attempts overflows.
//
// Case C161.
func TestBackoffGrowsToItsCeilingAndStays(t *testing.T) {
	backoff := polite.Exponential{Initial: 100 * time.Millisecond, Max: time.Second, Jitter: -1}.Delay
	before := time.Duration(0)
	for failed := 1; failed <= 10_000; failed++ {
		d := backoff(failed)
		assert.GreaterOrEqual(t, d, before)
		assert.LessOrEqual(t, d, time.Second)
		if failed >= 5 {
			assert.Equal(t, time.Second, d)
		}
		before = d
	}
}

// Jitter survives at the ceiling and never passes it.
//
// Case C163.
func TestBackoffKeepsItsJitterAtTheCeiling(t *testing.T) {
	backoff := polite.Exponential{Max: 10 * time.Second}.Delay
	for _, failed := range []int{50, 63, 64, 1000, math.MaxInt} {
		distinct := make(map[time.Duration]bool)
		for range 200 {
			d := backoff(failed)
			assert.GreaterOrEqual(t, d, time.Second)
			assert.LessOrEqual(t, d, 10*time.Second)
			distinct[d] = true
		}
		assert.Greater(t, len(distinct), 190)
	}
}

// Odd settings have a documented meaning, and none of them gives a negative
// delay or one above the maximum.
func TestBackoffWithOddSettings(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, initial := range []time.Duration{-1, 0, 1, time.Hour, math.MaxInt64} {
		for _, ceiling := range []time.Duration{-1, 0, 1, time.Minute, math.MaxInt64 / 2} {
			for _, factor := range []float64{-2, 0, 0.5, 1, 3, inf, nan} {
				for _, jitter := range []float64{-1, 0, 0.3, 1, 7, inf, nan} {
					backoff := polite.Exponential{Initial: initial, Max: ceiling, Factor: factor, Jitter: jitter}
					for _, failed := range []int{-1, 0, 1, 2, 100} {
						d := backoff.Delay(failed)
						most := ceiling
						if most <= 0 {
							most = time.Minute
						}
						if d < 0 || d > most {
							t.Fatalf("%+v.Delay(%d) = %v", backoff, failed, d)
						}
					}
				}
			}
		}
	}
	assert.Equal(t, 3*time.Second, polite.Exponential{Initial: 3 * time.Second, Factor: 0.2, Jitter: -1}.Delay(9), "a factor below 1 means a constant delay")
	assert.Equal(t, time.Minute, polite.Exponential{Initial: time.Hour, Jitter: -1}.Delay(1), "the ceiling holds for the first delay too")
	assert.Equal(t, 5*time.Second, polite.Constant(5*time.Second)(7))
}
