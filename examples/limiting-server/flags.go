package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	politetest "botigaaroma.example/polite/httptest"
)

// settings is what the command line says.
type settings struct {
	addr    string
	profile string
	config  politetest.Config
}

// limitFlags describe the one limit of a profile that has no limits of its own.
type limitFlags struct {
	algorithm string
	limit     int
	window    time.Duration
	burst     int
}

func flagSet(set *settings, l *limitFlags, dialects, faults *string) *flag.FlagSet {
	f := flag.NewFlagSet("limiting-server", flag.ContinueOnError)
	f.SetOutput(io.Discard) // run prints errors in one line, and the usage only when asked
	f.StringVar(&set.addr, "addr", "127.0.0.1:8080", "`address` to listen on; port 0 picks a free one")
	f.StringVar(&set.profile, "profile", "catalog", "what to be, by `name`: "+strings.Join(politetest.Profiles(), ", "))
	f.StringVar(&l.algorithm, "algorithm", "token-bucket", "how to count, by `name`: "+algorithmNames()+"; this, -limit, -window or -burst replaces the profile's limit")
	f.IntVar(&l.limit, "limit", 60, "requests per window")
	f.DurationVar(&l.window, "window", time.Minute, "length of the window, such as 10s or 1m")
	f.IntVar(&l.burst, "burst", 0, "capacity of a token bucket, or places in a leaky bucket's queue (default: the limit)")
	f.StringVar(dialects, "dialect", "", "headers to announce the quota with, `name[,name...]`: "+dialectNames()+" (default: the profile's)")
	f.StringVar(faults, "faults", "", "what goes wrong at random, `what=probability[,...]`: a status, a fault ("+faultNames()+") or a delay: 503=0.05,reset-after=0.01,2s=0.1")
	f.Uint64Var(&set.config.Seed, "seed", 1, "seed of the catalog and of the faults")
	return f
}

// parseFlags turns the command line into a config. Every error is one clear line.
func parseFlags(args []string) (*settings, error) {
	set, l := &settings{}, limitFlags{}
	var dialects, faults string
	f := flagSet(set, &l, &dialects, &faults)
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	seed := set.config.Seed
	var err error
	if set.config, err = politetest.Profile(set.profile); err != nil {
		return nil, err
	}
	set.config.Seed = seed
	if limited(f) {
		if len(set.config.Policies) > 0 {
			return nil, fmt.Errorf("profile %s has limits of its own: leave out -algorithm, -limit, -window and -burst", set.profile)
		}
		if set.config.Limit, err = l.parse(); err != nil {
			return nil, err
		}
	}
	if dialects != "" {
		if set.config.Dialects, err = parseDialects(dialects); err != nil {
			return nil, err
		}
	}
	set.config.Chances, err = parseFaults(faults)
	return set, err
}

// limited reports that the command line describes a limit.
func limited(f *flag.FlagSet) bool {
	found := false
	f.Visit(func(given *flag.Flag) {
		found = found || slices.Contains([]string{"algorithm", "limit", "window", "burst"}, given.Name)
	})
	return found
}

func (l limitFlags) parse() (politetest.Limit, error) {
	algorithm, err := politetest.ParseAlgorithm(l.algorithm)
	if err == nil && (l.limit <= 0 || l.window <= 0 || l.burst < 0) {
		err = errors.New("-limit and -window must be positive, and -burst must not be negative")
	}
	return politetest.Limit{Algorithm: algorithm, N: l.limit, Per: l.window, Capacity: l.burst}, err
}

func parseDialects(text string) ([]politetest.Dialect, error) {
	var all []politetest.Dialect
	for name := range strings.SplitSeq(text, ",") {
		d, err := politetest.ParseDialect(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

// parseFaults reads what=probability pairs.
func parseFaults(text string) ([]politetest.Chance, error) {
	var all []politetest.Chance
	if text == "" {
		return nil, nil
	}
	for pair := range strings.SplitSeq(text, ",") {
		what, probability, _ := strings.Cut(strings.TrimSpace(pair), "=")
		p, err := strconv.ParseFloat(probability, 64)
		if err != nil || !(p >= 0 && p <= 1) {
			return nil, fmt.Errorf("-faults: %q needs a probability from 0 to 1, as in 503=0.05", pair)
		}
		reply, ok := parseReply(what)
		if !ok {
			return nil, fmt.Errorf("-faults: %q is no status from 400 to 599, no delay, and none of %s", what, faultNames())
		}
		all = append(all, politetest.Chance{P: p, Reply: reply})
	}
	return all, nil
}

func parseReply(what string) (politetest.Reply, bool) {
	if status, err := strconv.Atoi(what); err == nil {
		reply := politetest.Respond(status)
		if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
			reply = politetest.Respond(status, "Retry-After", "2")
		}
		return reply, status >= 400 && status <= 599
	}
	if delay, err := time.ParseDuration(what); err == nil {
		return politetest.Pass().After(delay), delay > 0
	}
	for fault := politetest.Refuse; fault <= politetest.ResetBody; fault++ {
		if fault.String() == what {
			return politetest.Fail(fault), true
		}
	}
	return politetest.Reply{}, false
}

func algorithmNames() string {
	var names []string
	for _, a := range politetest.Algorithms() {
		names = append(names, a.String())
	}
	return strings.Join(names, ", ")
}

func dialectNames() string {
	var names []string
	for d := politetest.AromaCatalan; d <= politetest.Draft8; d++ {
		names = append(names, d.String())
	}
	return strings.Join(names, ", ")
}

func faultNames() string {
	var names []string
	for fault := politetest.Refuse; fault <= politetest.ResetBody; fault++ {
		names = append(names, fault.String())
	}
	return strings.Join(names, ", ")
}

func printUsage(w io.Writer) {
	var dialects, faults string
	f := flagSet(&settings{}, &limitFlags{}, &dialects, &faults)
	f.SetOutput(w)
	fmt.Fprintln(w, "usage: limiting-server [flags]")
	f.PrintDefaults()
}

// summary is what the server is, in a line.
func (s *settings) summary() string {
	switch {
	case len(s.config.Policies) > 0:
		return "profile " + s.profile
	case s.config.Limit == (politetest.Limit{}):
		return fmt.Sprintf("profile %s, %s per key", s.profile, politetest.DefaultLimit())
	}
	return fmt.Sprintf("profile %s, %s per key", s.profile, s.config.Limit)
}

// queues reports that requests are held back, so that it takes many at once to be refused.
func (s *settings) queues() bool { return s.config.Limit.Algorithm == politetest.LeakyBucket }

// tried is how many requests admitted sends at most.
func (s *settings) tried() int { return 20_000 }

// admitted finds out how many requests in a row an anonymous client gets through, by asking a copy of the server.
func (s *settings) admitted() (int, bool) {
	if l := s.config.Limit; s.queues() && l.Capacity > 0 {
		return l.Capacity, true
	} else if s.queues() {
		return l.N, true
	}
	config := s.config
	config.Chances, config.Alert = nil, nil
	twin, err := politetest.New(config)
	if err != nil {
		return 0, false
	}
	client := &http.Client{Transport: twin.Transport()}
	for n := range s.tried() {
		resp, err := client.Get(politetest.BaseURL + "/v1/cafes/caf_00001")
		if err != nil {
			return 0, false
		}
		resp.Body.Close()
		if twin.Refusals() > 0 {
			return n, true
		}
	}
	return 0, false
}
