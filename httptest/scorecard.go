package httptest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

// Manners are the counts of one client, as the server saw them.
type Manners struct {
	Client   string // such as "usr:7" or "ip:192.0.2.1"
	Requests int
	Refusals int // answered 429, or refused by a limit in another way
	Failures int // answered 5xx

	// Early counts requests that came before an instant which the client had been told to wait for. Those that
	// were under way when the answer reached it, or were sent in that instant, do not count, nor those that the limit
	// which refused is not for. Without a Config.Latency all is one instant, and only what had reached the server
	// before the answer left does not count: goroutines that share a client need one.
	Early int
	// UnsafeRepeats counts POST and PATCH requests without an Idempotency-Key that repeat one that had failed, or whose
	// answer the client had not waited for.
	UnsafeRepeats int
	// Duplicates counts effects that happened twice because the answer to the first had been lost.
	Duplicates int
	// Mismatches counts requests that carry a known Idempotency-Key with another body.
	Mismatches int

	Peak100ms    int // most requests in a tenth of a second
	PeakSecond   int // most requests in a second
	Reopen100ms  int // the same within the second after a told instant, a reset or an outage had passed
	ReopenSecond int

	Connections int // through Listen, Pipe or HTTPServer: connections used; one that several clients share counts for each
	Unclosed    int // in memory: response bodies that are open now
	Unread      int // in memory: response bodies closed before their end
}

// Scorecard is what a server saw of its clients. It is a copy: it does not change any more.
type Scorecard struct {
	// Clients are the rows by name. Those beyond the first 10,000 clients share one, "(others)", which accuses nobody of
	// coming early or of repeating anything.
	Clients []Manners
	All     Manners // all clients together, called "all"
}

// Scorecard returns the counts so far.
func (s *Server) Scorecard() Scorecard {
	s.mu.Lock()
	defer s.mu.Unlock()
	card := Scorecard{All: s.callers.all.Manners}
	card.All.Client = "all"
	for _, client := range slices.Sorted(maps.Keys(s.callers.byKey)) {
		c := s.callers.byKey[client]
		m := c.Manners
		m.Unclosed, m.Unread = int(c.open.Load()), int(c.unread.Load())
		card.Clients = append(card.Clients, m)
		card.All.Unclosed += m.Unclosed
		card.All.Unread += m.Unread
		card.All.Early += m.Early
		card.All.UnsafeRepeats += m.UnsafeRepeats
		card.All.Duplicates += m.Duplicates
		card.All.Mismatches += m.Mismatches
	}
	return card
}

// String is a table for people, one row per client.
func (c Scorecard) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "client\trequests\trefused\tfailed\tearly\trepeats\tduplicates\tmismatches\tpeak/100ms\tpeak/s\treopen/100ms\treopen/s\tconnections\tunclosed\tunread\tverdict\t")
	for i, m := range append(slices.Clone(c.Clients), c.All) {
		verdict := "polite"
		if i == len(c.Clients) {
			verdict = ""
		} else if len(m.Offences(Tolerance{})) > 0 {
			verdict = "rude"
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t\n", m.Client, m.Requests, m.Refusals, m.Failures,
			m.Early, m.UnsafeRepeats, m.Duplicates, m.Mismatches, m.Peak100ms, m.PeakSecond, m.Reopen100ms, m.ReopenSecond,
			m.Connections, m.Unclosed, m.Unread, verdict)
	}
	_ = w.Flush() // a strings.Builder takes everything
	return b.String()
}

// Tolerance says how much is forgiven. The zero Tolerance is the one that [RequireWellBehaved] uses.
type Tolerance struct {
	// Refusals is how many of 100 requests may be refused; 0 = 5, negative = none.
	// The first three of a client are forgiven, unless negative: nobody knows a limit before the first answer.
	Refusals float64
	// Reopen100ms bounds the requests in a tenth of a second after a told instant has passed; 0 = not judged.
	Reopen100ms int
}

const (
	forgivenShare    = 5 // of 100 requests
	forgivenRefusals = 3
)

// Offences are the reasons, in words, why this client is not well behaved; none = it is.
func (m Manners) Offences(t Tolerance) []string {
	var all []string
	note := func(n int, one, more, what string) {
		if n == 1 {
			more = one
		}
		if n > 0 {
			all = append(all, fmt.Sprintf("%s: %d %s %s", m.Client, n, more, what))
		}
	}
	note(m.Early, "request", "requests", "before the instant it had been told to wait for")
	note(m.UnsafeRepeats, "repeat", "repeats", "of unsafe requests without an Idempotency-Key")
	note(m.Duplicates, "effect", "effects", "that happened twice")
	note(m.Mismatches, "request", "requests", "with an Idempotency-Key that had come with another body")
	note(m.Unclosed, "response body", "response bodies", "never closed")
	share, free := t.Refusals, forgivenRefusals
	if share == 0 {
		share = forgivenShare
	} else if share < 0 {
		share, free = 0, 0
	}
	if m.Refusals > free && float64(m.Refusals) > share/100*float64(m.Requests) {
		note(m.Refusals, "refusal", "refusals", fmt.Sprintf("in %d requests", m.Requests))
	}
	if t.Reopen100ms > 0 && m.Reopen100ms > t.Reopen100ms {
		note(m.Reopen100ms, "request", "requests", "in a tenth of a second after a wait was over")
	}
	return all
}

// Offences are those of all clients together.
func (c Scorecard) Offences(t Tolerance) []string {
	var all []string
	for _, m := range c.Clients {
		all = append(all, m.Offences(t)...)
	}
	return all
}

// RequireWellBehaved fails the test at once, with the reasons and the table, if a client of this server
// misbehaved: came early, repeated or doubled what was not safe, reused a key, left a body open, or was refused
// more than three times and in more than 5 % of its requests ([Manners.Offences] under the zero [Tolerance]). Call it
// when the work is done and every response body closed. A server that nobody called passes; see [Server.Requests].
//
// The server cannot tell a repetition from a second call that says the same, nor does it know what the caller vouched
// for: a POST or PATCH without an Idempotency-Key that comes again after a failure counts as a repeat. A test that
// does so on purpose (polite's Overrides.Idempotent, two alike sign-ups) looks at [Server.Scorecard] itself.
func RequireWellBehaved(t testing.TB, server *Server) {
	t.Helper()
	card := server.Scorecard()
	if offences := card.Offences(Tolerance{}); len(offences) > 0 {
		t.Fatalf("clients misbehaved:\n  %s\n%s", strings.Join(offences, "\n  "), card)
	}
}
