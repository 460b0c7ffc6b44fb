package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"botigaaroma.example/polite"
)

// display shows how far the download is: as a live bar on a terminal, as plain
// lines anywhere else. It is safe for concurrent use.
type display struct {
	out  io.Writer
	done chan struct{} // ends the goroutine that keeps the bar alive
	tick sync.WaitGroup

	mu     sync.Mutex
	bar    *progressbar.ProgressBar // nil = plain lines
	items  int
	total  int                      // -1 = not known
	waits  map[any]polite.WaitEvent // by request
	spoken time.Time                // of the last plain line
}

// quiet is the least time between two plain lines of progress.
const quiet = time.Second

// newDisplay begins to show a download that has so many items already. The
// caller calls end.
func newDisplay(out io.Writer, items int) *display {
	d := &display{out: out, items: items, total: -1, waits: map[any]polite.WaitEvent{}, done: make(chan struct{})}
	if isTerminal(out) {
		d.bar = newBar(out)
		d.tick.Go(d.keepAlive) // until end
	}
	return d
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb"
}

// newBar is narrow enough for 80 columns with the longest description.
func newBar(out io.Writer) *progressbar.ProgressBar {
	return progressbar.NewOptions(-1,
		progressbar.OptionSetWriter(out),
		progressbar.OptionSetWidth(16),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionSetItsString("items"),
		progressbar.OptionUseANSICodes(true),
		progressbar.OptionShowDescriptionAtLineEnd(),
	)
}

// keepAlive renders the bar while nothing arrives, so that waits count down.
func (d *display) keepAlive() {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		d.mu.Lock()
		d.bar.Describe(d.status())
		d.mu.Unlock()
		select {
		case <-d.done:
			return
		case <-ticker.C:
		}
	}
}

// end leaves the last state on the screen and the cursor below it.
func (d *display) end() {
	close(d.done)
	d.tick.Wait()
	if d.bar != nil {
		d.bar.Describe("")
		_ = d.bar.Exit() // a terminal that has gone is no reason to stop
		fmt.Fprintln(d.out)
	}
}

// status says in few words what the bar stands still for: the wait that ends
// first.
func (d *display) status() string {
	var next polite.WaitEvent
	for _, e := range d.waits {
		if next.Until.IsZero() || !e.Until.IsZero() && e.Until.Before(next.Until) {
			next = e
		}
	}
	what := brief(next.Reason)
	if left := time.Until(next.Until); left >= time.Second {
		what += ", " + left.Round(time.Second).String()
	}
	return what
}

// brief is a reason in the space that a bar leaves.
func brief(reason polite.Reason) string {
	switch reason {
	case 0:
		return ""
	case polite.ReasonBrake:
		return "braking"
	case polite.ReasonQuota:
		return "quota used up"
	case polite.ReasonRetryAfter:
		return "told to wait"
	case polite.ReasonRate:
		return "own limit"
	case polite.ReasonProbe:
		return "probing"
	}
	return reason.String()
}

// page shows that so many items are stored.
func (d *display) page(items, total int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bar != nil {
		if total >= 0 && total != d.total {
			d.bar.ChangeMax(total)
		}
		d.bar.Describe(d.status()) // or a finished bar would show the last wait for ever
		_ = d.bar.Set(items)
	}
	d.items, d.total = items, total
	if d.bar == nil && (time.Since(d.spoken) >= quiet || items == total) {
		d.speak(d.progress())
	}
}

// waiting shows what a request waits for, until it is over.
func (d *display) waiting(request any, e polite.WaitEvent) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waits[request] = e
	if d.bar == nil && e.Until.Sub(e.From) >= quiet && time.Since(d.spoken) >= quiet {
		d.speak(fmt.Sprintf("%s; waiting until %s: %s", d.progress(), clock(e.Until), e.Reason))
	}
}

// over notes that a request waits no longer.
func (d *display) over(request any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.waits, request)
}

// progress is the line that stands for the bar.
func (d *display) progress() string {
	if d.total <= 0 {
		return thousands(d.items) + " items"
	}
	return fmt.Sprintf("%s of %s items (%d %%)", thousands(d.items), thousands(d.total), 100*d.items/d.total)
}

func (d *display) speak(line string) {
	fmt.Fprintln(d.out, line)
	d.spoken = time.Now()
}

// line prints a line of its own, above the bar if there is one.
func (d *display) line(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bar == nil {
		fmt.Fprintln(d.out, text)
		return
	}
	_ = d.bar.Clear()
	fmt.Fprintln(d.out, text)
	_ = d.bar.RenderBlank()
}
