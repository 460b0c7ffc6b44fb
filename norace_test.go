//go:build !race

package polite_test

// raceDetector is off: random tests make all of their rounds.
const raceDetector = false
