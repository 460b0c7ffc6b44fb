package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// thousands writes 2350 as 2,350.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 { // counts are never negative
		s = s[:i] + "," + s[i:]
	}
	return s
}

// short writes a duration as a person would say it.
func short(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// clock is a time of day, with the date if it is not today.
func clock(t time.Time) string {
	switch {
	case t.IsZero():
		return "an unknown time"
	case t.Format(time.DateOnly) != time.Now().Format(time.DateOnly):
		return t.Format("2006-01-02 15:04:05")
	}
	return t.Format("15:04:05.000")
}

// rate is n per unit of time.
func rate(n int, took, unit time.Duration) string {
	if took <= 0 {
		return "0"
	}
	return fmt.Sprintf("%.1f", float64(n)*float64(unit)/float64(took))
}

// amount is a number that a server may not have told.
func amount(n int64) string {
	if n < 0 {
		return "?"
	}
	return thousands(int(n))
}

// attempts is a number of attempts.
func attempts(n int) string {
	if n == 1 {
		return "1 attempt"
	}
	return thousands(n) + " attempts"
}

func quoted(name string) string {
	if name == "" {
		return ""
	}
	return " " + strconv.Quote(name)
}

func sorted(n names) []string { return slices.Sorted(maps.Keys(n)) }
