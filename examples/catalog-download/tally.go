package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"botigaaroma.example/polite"
)

// tally counts what the download did, from what polite tells its observers.
type tally struct {
	show     *display
	verbose  bool
	tellable func(string) string // takes out what must not be shown
	begun    time.Time

	mu       sync.Mutex
	pages    int
	total    int // of items, by the latest page; -1 = not told
	requests int
	statuses map[int]int // how many answers of each status; 0 = no answer
	waits    map[polite.Reason]*stopwatch
	waiting  stopwatch // for whatever reason
}

func newTally(show *display, verbose bool, tellable func(string) string) *tally {
	return &tally{show: show, verbose: verbose, tellable: tellable, begun: time.Now(), statuses: map[int]int{}, waits: map[polite.Reason]*stopwatch{}}
}

// stopwatch measures how long at least one request has waited.
type stopwatch struct {
	waiting int
	since   time.Time
	total   time.Duration
}

func (s *stopwatch) start(now time.Time) {
	if s.waiting++; s.waiting == 1 {
		s.since = now
	}
}

func (s *stopwatch) stop(now time.Time) {
	if s.waiting--; s.waiting == 0 {
		s.total += max(0, now.Sub(s.since))
	}
}

// observed gives each request an observer of its own, so that the waits of
// requests that are under way together are told apart.
type observed struct {
	next  http.RoundTripper
	tally *tally
}

func (o *observed) RoundTrip(req *http.Request) (*http.Response, error) {
	w := &watch{tally: o.tally}
	defer func() { w.ends(time.Now()) }()
	return o.next.RoundTrip(req.WithContext(w.observe(req.Context())))
}

func (o *observed) CloseIdleConnections() {
	if next, ok := o.next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

// watch observes one request. Its functions run on the request's goroutine.
type watch struct {
	tally  *tally
	reason polite.Reason // what it is waiting for; 0 = it is not
}

func (w *watch) observe(ctx context.Context) context.Context {
	return polite.WithTrace(ctx, &polite.Trace{
		Wait:    w.waits,
		Attempt: w.attempt,
		Quota: func(e polite.QuotaEvent) {
			w.tally.log("the quota%s has %s of %s left, until %s", quoted(e.Quota.Policy), amount(e.Quota.Remaining), amount(e.Quota.Limit), clock(e.Quota.Reset))
		},
		Gate: func(e polite.GateEvent) {
			w.tally.log("refused with %d: nothing is sent until %s", e.Status, clock(e.Until))
		},
		Breaker: func(e polite.BreakerEvent) {
			w.tally.log("the circuit breaker went from %s to %s", e.From, e.To)
		},
		Stop: func(e polite.StopEvent) {
			if e.Withdrawn() {
				w.tally.log("took back the page asked for ahead: %s", e.Reason)
				return
			}
			w.tally.log("ended after %s: %s", attempts(e.Attempts), e.Reason)
		},
	})
}

func (w *watch) waits(e polite.WaitEvent) {
	w.ends(e.From)
	t := w.tally
	t.mu.Lock()
	if t.waits[e.Reason] == nil {
		t.waits[e.Reason] = &stopwatch{}
	}
	t.waits[e.Reason].start(e.From)
	t.waiting.start(e.From)
	t.mu.Unlock()
	w.reason = e.Reason

	t.show.waiting(w, e)
	if e.Until.IsZero() {
		t.log("waiting: %s", e.Reason)
	} else {
		t.log("waiting %s, until %s: %s", short(e.Until.Sub(e.From)), clock(e.Until), e.Reason)
	}
}

// ends notes that the request no longer waits.
func (w *watch) ends(now time.Time) {
	if w.reason == 0 {
		return
	}
	w.tally.show.over(w)
	w.tally.mu.Lock()
	defer w.tally.mu.Unlock()
	w.tally.waits[w.reason].stop(now)
	w.tally.waiting.stop(now)
	w.reason = 0
}

func (w *watch) attempt(e polite.AttemptEvent) {
	w.ends(time.Now().Add(-e.Duration)) // when it was sent
	t := w.tally
	t.mu.Lock()
	t.requests++
	t.statuses[e.Status]++
	t.mu.Unlock()
	if e.Err != nil {
		t.log("attempt %d failed after %s: %v", e.Attempt, short(e.Duration), e.Err)
		return
	}
	t.log("answered %d after %s", e.Status, short(e.Duration))
}

// log prints a decision if they are wanted.
func (t *tally) log(format string, args ...any) {
	if t.verbose {
		t.show.line(clock(time.Now()) + "  " + t.tellable(fmt.Sprintf(format, args...)))
	}
}

// page notes that one more page is stored.
func (t *tally) page(items, total int) {
	t.mu.Lock()
	t.pages++
	t.total = total
	t.mu.Unlock()
	t.show.page(items, total)
}

// onePage reports whether one page was all, though nothing but its silence says
// so.
func (t *tally) onePage() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pages == 1 && t.total < 0
}

// print writes the summary; the file held begun items before this run.
func (t *tally) print(out io.Writer, file *journal, begun int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := new(bytes.Buffer)
	took := time.Since(t.begun)
	resumed := ""
	if begun > 0 {
		resumed = fmt.Sprintf(" (%s of them by this run)", thousands(file.Items-begun))
	}
	fmt.Fprintf(w, "items     %s%s\n", thousands(file.Items), resumed)
	fmt.Fprintf(w, "pages     %s\n", thousands(t.pages))
	fmt.Fprintf(w, "requests  %s%s\n", thousands(t.requests), t.failures())
	fmt.Fprintf(w, "429s      %d\n", t.statuses[http.StatusTooManyRequests])
	fmt.Fprintf(w, "waited    %s%s\n", short(t.waiting.total), t.reasons())
	fmt.Fprintf(w, "took      %s: %s items/s, %s requests/min\n", short(took), rate(file.Items-begun, took, time.Second), rate(t.requests, took, time.Minute))
	fmt.Fprintf(w, "file      %s, %s bytes\n", file.path, thousands(int(file.Bytes)))
	_, err := out.Write(w.Bytes())
	return err
}

// failures are the answers that were neither a success nor a 429.
func (t *tally) failures() string {
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(t.statuses)) {
		switch {
		case status == 0:
			parts = append(parts, fmt.Sprintf("%d without an answer", t.statuses[status]))
		case status >= 300 && status != http.StatusTooManyRequests:
			parts = append(parts, fmt.Sprintf("%d answered %d", t.statuses[status], status))
		}
	}
	return bracketed(parts)
}

// reasons are what was waited for, the longest first. Requests may have waited
// for different things at the same time.
func (t *tally) reasons() string {
	var parts []string
	longestFirst := func(a, b polite.Reason) int { return int(t.waits[b].total - t.waits[a].total) }
	for _, reason := range slices.SortedFunc(maps.Keys(t.waits), longestFirst) {
		parts = append(parts, fmt.Sprintf("%s %s", short(t.waits[reason].total), reason))
	}
	return bracketed(parts)
}

func bracketed(parts []string) string {
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}
