//go:build race

package httptest

const raceEnabled = true
