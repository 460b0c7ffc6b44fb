package polite_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"botigaaroma.example/polite"
)

// A machine whose clock is put forwards or back between two answers, by hours,
// waits as long as the server meant: every answer is read by its own Date, and
// what was remembered of the answer before it stays where it was in time. A
// reset in whole seconds is waited for a second longer, and all are lengthened
// by a fifth at most.
func TestStepsOfTheClockChangeNoWait(t *testing.T) {
	const asked = 10 * time.Second
	steps := []time.Duration{0, 6 * time.Hour, -6 * time.Hour, 24 * time.Hour, -24 * time.Hour, 0}
	for name, tell := range map[string]func(h http.Header, until time.Time) int{
		"Retry-After": func(h http.Header, until time.Time) int {
			h.Set("Retry-After", until.UTC().Format(http.TimeFormat))
			return 429
		},
		"an instant": func(h http.Header, until time.Time) int {
			h.Set("X-RateLimit-Limit", "10")
			h.Set("X-RateLimit-Remaining", "0")
			h.Set("X-RateLimit-Reset", fmt.Sprint(until.Unix()))
			return 429
		},
		"an exhausted quota": func(h http.Header, until time.Time) int {
			h.Set("X-RateLimit-Limit", "10")
			h.Set("X-RateLimit-Remaining", "0")
			h.Set("X-RateLimit-Reset", fmt.Sprint(until.Unix()))
			return 200
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent []time.Time
				o := steadily(telling(func(n int, h http.Header) int {
					sent = append(sent, time.Now())
					if n > len(steps) {
						return 200
					}
					theirs := time.Now().Add(steps[n-1]) // the server's clock, as this machine sees it after the step
					h.Set("Date", theirs.UTC().Format(http.TimeFormat))
					return tell(h, theirs.Add(asked))
				}))
				o.Retry.MaxAttempts = 10
				c := polite.New(o)
				for len(sent) <= len(steps) {
					do(t, c, request(t, http.MethodGet, aCoffee, ""))
				}
				for i := range steps {
					wait := sent[i+1].Sub(sent[i])
					assert.GreaterOrEqual(t, wait, asked, "after a step of %s", steps[i])
					assert.LessOrEqual(t, wait, (asked+time.Second)*6/5, "after a step of %s", steps[i])
				}
			})
		})
	}
}

// Without a Date there is nothing to read an instant by but the own clock. One
// that is off makes a wait too long or none, and either is bounded.
func TestWrongClockWithoutADateIsBounded(t *testing.T) {
	for _, off := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			c := polite.New(steadily(telling(func(i int, h http.Header) int {
				n = i
				h.Set("Retry-After", time.Now().Add(off).UTC().Format(http.TimeFormat))
				return 429
			})))
			start := time.Now()
			resp, _ := do(t, c, request(t, http.MethodGet, aCoffee, ""))
			assert.Equal(t, 429, resp.StatusCode)
			if off < 0 { // past: the backoff, never a hot loop
				assert.Equal(t, 4, n)
				assert.GreaterOrEqual(t, time.Since(start), 7*time.Second)
				return
			}
			assert.Equal(t, 1, n)
			assert.Zero(t, time.Since(start), "beyond MaxWait: at once")
		})
	}
}
