package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
)

// The bar of a download that is complete no longer says what it waited for.
func TestFinishedBarWaitsForNothing(t *testing.T) {
	var screen bytes.Buffer
	d := newDisplay(&bytes.Buffer{}, 0)
	d.out, d.bar = &screen, newBar(&screen)
	for page := 1; page <= 2; page++ {
		now := time.Now()
		d.waiting(d, polite.WaitEvent{Reason: polite.ReasonBrake, From: now, Until: now.Add(time.Minute)})
		d.mu.Lock()
		d.bar.Describe(d.status())
		d.mu.Unlock()
		d.over(d)
		d.page(100*page, 200)
	}
	d.end()
	drawn := strings.Split(screen.String(), "\r")
	last := drawn[len(drawn)-1]
	require.Contains(t, screen.String(), "braking, 1m0s")
	assert.Contains(t, last, "(200/200")
	assert.NotContains(t, last, "braking")
}
