package httptest

import (
	"net/http"
	"time"
)

// Config describes a server. The zero Config is Botiga Aroma's catalog under [DefaultLimit], without latency or faults.
type Config struct {
	// Limit applies to every key, each on its own. Zero = [DefaultLimit]; N < 0 = unlimited.
	Limit Limit
	// Cost is what a request is charged; nil = 1 each. See [AromaCost].
	Cost func(*http.Request) int
	// Store keeps the counters; nil = a [Memory] of this server's own.
	Store Store

	// Dialects announce the quota on every response; empty = AromaCatalan and AromaEnglish.
	Dialects []Dialect
	// Silent leaves out all quota headers and Retry-After.
	Silent bool
	// Skew is how far this server's clock is ahead (negative: behind) in Date and in every absolute instant it announces.
	Skew time.Duration

	// Latency is the round trip of the in-memory transport: half of it before the server, half after.
	Latency time.Duration
	// Coffees is the size of the catalog; 0 = [DefaultCoffees], negative = an empty one.
	Coffees int
	// Seed varies the catalog and whatever else is drawn by chance. The same seed draws the same.
	Seed uint64
	// KeepArrivals is how many of the latest arrivals [Server.Arrivals] remembers; 0 = 100,000, negative = none.
	KeepArrivals int
}

const defaultKeepArrivals = 100_000

func (c Config) resolved() (Config, error) {
	var err error
	if c.Limit, err = c.Limit.resolved(); err != nil {
		return c, err
	}
	if c.Latency < 0 {
		return c, &ConfigError{"Latency", "must not be negative"}
	}
	for _, d := range c.Dialects {
		if d < AromaCatalan || d > Draft8 {
			return c, &ConfigError{"Dialects", "holds an unknown dialect"}
		}
	}
	if len(c.Dialects) == 0 {
		c.Dialects = []Dialect{AromaCatalan, AromaEnglish}
	}
	if c.Cost == nil {
		c.Cost = func(*http.Request) int { return 1 }
	}
	if c.Store == nil {
		c.Store = NewMemory(0)
	}
	if c.Coffees == 0 {
		c.Coffees = DefaultCoffees
	}
	c.Coffees = max(0, c.Coffees)
	if c.KeepArrivals == 0 {
		c.KeepArrivals = defaultKeepArrivals
	}
	return c, nil
}
