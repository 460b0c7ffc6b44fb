package httptest

import (
	"fmt"
	"net/http"
	"time"
)

// Config describes a server. The zero Config is Botiga Aroma under [DefaultLimit], without latency or faults.
// Functions that return a ready Config: [Aroma], [PromoAzi], [SmartBill], [GitHub], [Nginx], [WrongHint],
// [SkewedClock].
type Config struct {
	// Limit applies to every caller, each on its own. Zero = [DefaultLimit]; N < 0 = unlimited.
	// It is short for Policies with a single one called "general".
	Limit Limit
	// Cost is what a request is charged under Limit; nil = 1 each. See [AromaCost].
	Cost func(*http.Request) int
	// Policies are all the limits, general first and specific last: the plain header dialects describe the last
	// one that is for a request, or on a refusal the one that refuses for longest. See [AromaPolicies].
	Policies []Policy
	// TrustedProxies is how many proxies stand before the server; the client's address is so many entries from
	// the right of X-Forwarded-For. 0 = none: that header is ignored.
	TrustedProxies int
	// Observe counts and announces, but lets everything pass.
	Observe bool

	// Store keeps the counters; nil = a [Memory] of this server's own, lost at a restart.
	Store Store
	// Alert is told when the store is down and when a caller is refused, at most once in five minutes per key.
	// It is called without locks, within the request. nil = nobody is told.
	Alert func(Alert)

	// Dialects announce the quota on every response; empty = AromaCatalan and AromaEnglish.
	Dialects []Dialect
	// Hint is what refusals say in Retry-After.
	Hint Hint
	// Silent leaves out all quota headers and Retry-After.
	Silent bool
	// Skew is how far this server's clock is ahead (negative: behind) in Date and in every absolute instant it announces.
	Skew time.Duration

	// Latency is the round trip of the in-memory transport: half of it before the server, half after.
	Latency time.Duration
	// Chances are the faults that strike at random. See [Chance].
	Chances []Chance
	// Phases are outages and spells of limited capacity, by the time since the server began. See [Phase].
	Phases []Phase
	// OrderTime is how long an order takes to be carried out; 0 = no time.
	OrderTime time.Duration

	// Coffees is the size of the catalog, at most 2^30; 0 = [DefaultCoffees], negative = an empty one.
	Coffees int
	// Seed varies the catalog and whatever else is drawn by chance. The same seed draws the same.
	Seed uint64
	// KeepArrivals is how many of the latest arrivals [Server.Arrivals] remembers; 0 = 100,000, negative = none.
	KeepArrivals int
}

const defaultKeepArrivals = 100_000

// resolved checks the config, copies its slices and fills in the defaults.
func (c Config) resolved() (Config, error) {
	var err error
	if c.Policies, err = c.resolvedPolicies(); err != nil {
		return c, err
	}
	if err = checkChances(c.Chances); err != nil {
		return c, err
	}
	if err = checkPhases(c.Phases); err != nil {
		return c, err
	}
	for field, d := range map[string]time.Duration{"Latency": c.Latency, "OrderTime": c.OrderTime} {
		if d < 0 {
			return c, &ConfigError{field, "must not be negative"}
		}
	}
	if c.Coffees > maxOffset {
		return c, &ConfigError{"Coffees", fmt.Sprintf("must be at most %d", maxOffset)}
	}
	if c.TrustedProxies < 0 {
		return c, &ConfigError{"TrustedProxies", "must not be negative"}
	}
	for _, d := range c.Dialects {
		if d < AromaCatalan || int(d) >= len(dialectNames) {
			return c, &ConfigError{"Dialects", fmt.Sprintf("unknown value %d", int(d))}
		}
	}
	if !c.Hint.known() {
		return c, &ConfigError{"Hint", fmt.Sprintf("unknown value %d", int(c.Hint))}
	}
	c.Dialects = append([]Dialect(nil), c.Dialects...)
	if len(c.Dialects) == 0 {
		c.Dialects = []Dialect{AromaCatalan, AromaEnglish}
	}
	c.Chances = append([]Chance(nil), c.Chances...)
	for i := range c.Chances {
		c.Chances[i].Reply = c.Chances[i].Reply.kept()
	}
	c.Phases = append([]Phase(nil), c.Phases...)
	for i := range c.Phases {
		if outage := c.Phases[i].Outage; outage != nil {
			kept := outage.kept()
			c.Phases[i].Outage = &kept
		}
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
