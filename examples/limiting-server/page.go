package main

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	politetest "botigaaroma.example/polite/httptest"
)

//go:embed page.html
var page []byte

const (
	chartSeconds = 120 // how much of the past the page's chart shows
	latestShown  = 12  // how many of the latest arrivals it lists
)

// withPage puts the live page at / and its data at /-/state before the server. Neither is limited or counted.
func withPage(server *politetest.Server, set *settings) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", server)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'self'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:")
		_, _ = w.Write(page) // nobody is left to tell if this fails
	})
	mux.HandleFunc("GET /-/state", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(stateOf(server, set))
	})
	return mux
}

// state is what the page shows.
type state struct {
	Summary  string               `json:"summary"`
	Requests int                  `json:"requests"`
	Refusals int                  `json:"refusals"`
	Rate     float64              `json:"rate"` // share of refusals in the last minute
	Seconds  []second             `json:"seconds"`
	Counters []counter            `json:"counters"`
	Clients  []client             `json:"clients"`
	Latest   []politetest.Arrival `json:"latest"` // newest first
}

type second struct {
	Passed  int `json:"passed"`
	Refused int `json:"refused"`
	Failed  int `json:"failed"`
}

type counter struct {
	Policy    string  `json:"policy"`
	Key       string  `json:"key"` // whom it counts
	Limit     string  `json:"limit"`
	Remaining int     `json:"remaining"`
	Most      int     `json:"most"` // what remaining can be at most
	Resets    float64 `json:"resets"`
}

type client struct {
	politetest.Manners
	Offences []string
}

func stateOf(server *politetest.Server, set *settings) state {
	now := time.Now()
	s := state{
		Summary: set.summary(), Requests: server.Requests(), Refusals: server.Refusals(), Rate: server.RefusalRate(time.Minute),
		Seconds: []second{}, Counters: []counter{}, Clients: []client{}, Latest: []politetest.Arrival{},
	}
	seconds := server.Timeline()
	for _, t := range seconds[len(seconds)-chartSeconds:] {
		s.Seconds = append(s.Seconds, second{t.Requests - t.Refusals - t.Failures, t.Refusals, t.Failures})
	}
	for _, c := range server.Counters(50) {
		most := c.Limit.N
		if c.Limit.Algorithm == politetest.TokenBucket || c.Limit.Algorithm == politetest.LeakyBucket {
			most = c.Limit.Capacity
		}
		policy, key, _ := strings.Cut(c.Key, "|")
		s.Counters = append(s.Counters, counter{policy, key, c.Limit.String(), c.Remaining, most, max(0, c.Reset.Sub(now).Seconds())})
	}
	for _, m := range server.Scorecard().Clients {
		s.Clients = append(s.Clients, client{m, m.Offences(politetest.Tolerance{})})
		if len(s.Clients) == 50 {
			break
		}
	}
	s.Latest = append(s.Latest, server.Arrivals()...)
	slices.Reverse(s.Latest)
	return s
}
