//go:build race

package polite_test

// raceDetector is on: random tests make a tenth of their rounds.
const raceDetector = true
