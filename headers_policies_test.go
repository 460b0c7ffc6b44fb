package polite

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// What is remembered of a line of policies is what it says, however many lines
// come between, in both of the fields that it may stand in, for all goroutines.
func TestPoliciesOfALineAreRememberedAsTheyAre(t *testing.T) {
	var lines []string
	for i := range 3 << memoBits {
		lines = append(lines, fmt.Sprintf(`%d;w=%d, "p%d";q=%d`, i, i+1, i, i+2))
	}
	lines = append(lines, "", ",", "100, 100;w=60", strings.Repeat(`"long";q=1;w=60, `, maxRemembered))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 3 {
				for _, line := range lines {
					for _, parametersOnly := range []bool{false, true} {
						want := readPolicies([]string{line}, parametersOnly)
						for range 2 {
							assert.Equal(t, want, policiesIn([]string{line}, parametersOnly))
						}
					}
				}
			}
		})
	}
	wg.Wait()
}

// What one answer makes of its policies is not seen by the next one.
func TestRememberedPoliciesDoNotChange(t *testing.T) {
	const line = `100;w=60, "day";q=5000;qu="tokens"`
	before := readPolicies([]string{line}, false)
	for _, state := range []string{"limit=100, remaining=50, reset=30", `"day";r=8;t=1;w=7`, `"other";r=1`} {
		for range 2 {
			builtinDialects().saying("api.example.com", 429, ordinaryHeaderWith("RateLimit", state, "RateLimit-Policy", line,
				"RateLimit-Limit", "100, 100;w=60"), noon)
		}
	}
	assert.Equal(t, before, policiesIn([]string{line}, false))
}
