package httptest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Policy is one limit of a server: whom and what it is for, against which key it counts, and how it refuses.
// A request passes when every policy that is for it admits it, and is then counted by all of them.
type Policy struct {
	// Name tells policies apart, and is the one that the newest IETF draft announces.
	Name string
	// Limit counts. It must not be zero.
	Limit Limit
	// Tiers are the callers that it is for; 0 = all.
	Tiers Tier
	// Classes are the requests that it is for; 0 = all. Health checks are never limited.
	Classes Class
	// Key says against whom it counts.
	Key KeyKind
	// Cost is what a request is charged; nil = 1. A cost below 1 counts as 1.
	Cost func(*http.Request) int

	// FailuresOnly counts only requests that were answered 401, such as failed logins.
	FailuresOnly bool
	// FailClosed refuses with 503 while the store is down; the default lets requests pass uncounted.
	FailClosed bool
	// Hidden keeps the policy out of the quota headers.
	Hidden bool

	// Status is the answer to what it refuses; 0 = 429.
	Status int
	// Body is sent with a refusal; empty = the API's error shape.
	Body string
	// Hint is what its refusals say in Retry-After; the zero value follows [Config.Hint].
	Hint Hint
}

// KeyKind says against whom a [Policy] counts. The zero value is [ByCaller].
type KeyKind int

// The kinds of key.
const (
	ByCaller  KeyKind = iota // app, user, API key or address
	ByIP                     // the address, whoever signs in from it
	BySubject                // the user, also behind a third-party app
	ByAccount                // the account that a login is for
	ByAll                    // one counter for everybody
)

// key is the counter of this policy that the request is counted in.
func (p *Policy) key(x *exchange) string {
	switch p.Key {
	case ByIP:
		return p.Name + "|ip:" + x.caller.ip
	case BySubject:
		return p.Name + "|usr:" + x.caller.subject
	case ByAccount:
		var c credentials
		_ = json.Unmarshal(x.body, &c) // what is no login counts against the empty account
		return p.Name + "|account:" + c.Account
	case ByAll:
		return p.Name + "|all"
	default:
		return x.conduct.counterOf(p, x.client)
	}
}

// covers reports that the policy is for this request.
func (p *Policy) covers(x *exchange) bool {
	return (p.Tiers == 0 || p.Tiers&x.caller.tier != 0) && (p.Classes == 0 || p.Classes&x.class != 0)
}

func (p *Policy) charge(x *exchange) Charge {
	cost := 1
	if p.Cost != nil {
		cost = p.Cost(x.request)
	}
	return Charge{Key: p.key(x), Limit: p.Limit, Cost: cost, Peek: p.FailuresOnly}
}

// resolvedPolicies checks and completes the config's policies.
func (c Config) resolvedPolicies() ([]Policy, error) {
	policies := append([]Policy(nil), c.Policies...)
	if len(policies) == 0 {
		policies = []Policy{{Name: "general", Limit: c.Limit, Cost: c.Cost}}
		if c.Limit == (Limit{}) {
			policies[0].Limit = DefaultLimit()
		}
	} else if c.Limit != (Limit{}) || c.Cost != nil {
		return nil, &ConfigError{"Limit", "cannot be combined with Policies, which have their own limits and costs"}
	}
	names := map[string]bool{}
	for i := range policies {
		p := &policies[i]
		field := fmt.Sprintf("Policies[%d]", i)
		if p.Name == "" || names[p.Name] {
			return nil, &ConfigError{field + ".Name", "must be given and different from the others"}
		}
		names[p.Name] = true
		if p.Limit == (Limit{}) {
			return nil, &ConfigError{field + ".Limit", "must be given"}
		}
		if p.Status == 0 {
			p.Status = http.StatusTooManyRequests
		}
		if p.Status < 400 || p.Status > 599 {
			return nil, &ConfigError{field + ".Status", fmt.Sprintf("must be a 4xx or 5xx, is %d", p.Status)}
		}
		if p.Key < ByCaller || p.Key > ByAll {
			return nil, &ConfigError{field + ".Key", fmt.Sprintf("unknown value %d", int(p.Key))}
		}
		if !p.Hint.known() {
			return nil, &ConfigError{field + ".Hint", fmt.Sprintf("unknown value %d", int(p.Hint))}
		}
		var err error
		if p.Limit, err = p.Limit.resolved(); err != nil {
			var bad *ConfigError
			if len(c.Policies) > 0 && errors.As(err, &bad) {
				err = &ConfigError{field + "." + bad.Field, bad.Problem}
			}
			return nil, err
		}
	}
	return policies, nil
}

// AromaPolicies are the limits of the whole API, tier by tier, general first and specific last. A daily quota that
// is used up is refused with quotaStatus: 429 or 402 (0 = 429).
func AromaPolicies(quotaStatus int) []Policy {
	var all []Policy
	day := func(name string, tier Tier, n int) {
		all = append(all, Policy{Name: "day-" + name, Tiers: tier, Hidden: true, Status: quotaStatus,
			Limit: Limit{Algorithm: FixedWindow, N: n, Per: 24 * time.Hour}})
	}
	bucket := func(name string, tier Tier, classes Class, perMinute, capacity int) {
		all = append(all, Policy{Name: name, Tiers: tier, Classes: classes, Cost: AromaCost,
			Limit: Limit{Algorithm: TokenBucket, N: perMinute, Per: time.Minute, Capacity: capacity}})
	}
	strict := func(name string, class Class, key KeyKind, n int, per time.Duration) {
		login := class == ClassLogin // counts failures, and shuts while nobody can count them
		all = append(all, Policy{Name: name, Classes: class, Key: key, FailuresOnly: login, FailClosed: login,
			Limit: Limit{Algorithm: SlidingLog, N: n, Per: per}})
	}

	day("client", TierClient, 50_000)
	day("app", TierThirdParty, 100_000)
	day("partner", TierPartner, 500_000)
	// Four seconds' worth of burst, and never less than the twenty that opening a screen may need.
	bucket("anonymous", TierAnonymous, Reads|Writes, 60, 20) // what they may not write is refused, and counts all the same
	bucket("client-read", TierClient, Reads, 300, 20)
	bucket("app-read", TierThirdParty, Reads, 600, 40)
	bucket("partner-read", TierPartner, Reads, 1000, 67)
	bucket("internal-read", TierInternal, Reads, 2000, 134)
	bucket("client-write", TierClient, Writes, 60, 20)
	bucket("app-write", TierThirdParty, Writes, 60, 20)
	bucket("partner-write", TierPartner, Writes, 300, 20)
	bucket("internal-write", TierInternal, Writes, 600, 40)
	strict("search", ClassSearch, ByCaller, 20, time.Minute)
	strict("sign-up", ClassSignUp, ByIP, 5, time.Hour)
	strict("payment", ClassPayment, ByCaller, 10, time.Minute)
	strict("upload", ClassUpload, ByCaller, 5, time.Minute)
	strict("login-ip", ClassLogin, ByIP, 5, 15*time.Minute)
	strict("login-account", ClassLogin, ByAccount, 5, 15*time.Minute)
	return all
}
