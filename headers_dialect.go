package polite

import "time"

// Dialect is one row of the table of rate-limit dialects: the header names that
// one kind of server uses and what their values mean. The built-in table knows
// the common ones; Options.Dialects adds rows for others.
//
// A field that holds header names takes one name or several separated by commas,
// in order of preference, in any case. One * in a name stands for one or more
// whole words between hyphens and names the quota: "X-Limit-*" reads
// X-Limit-Search as the quota "search". Fields whose * matched the same text
// belong to one quota, as do fields of one row without a *.
//
// A row of the user wins over a built-in one for the same name, and a row for a
// host over one for all. Ignored are names that are no header names, that hold
// more than one * or a * for part of a word, host "", and statuses outside 400 to
// 599; a row of which nothing is left does nothing, like the zero Dialect. Rows
// are copied when a Transport is made.
type Dialect struct {
	// Name is for people: the API or the gateway.
	Name string

	// Hosts are the hosts that speak it, with everything below them:
	// "example.com" is also api.example.com. Empty means every host.
	Hosts []string

	// Policy names the quota of this row. Default: the text that * stands for,
	// else the bucket, else "".
	Policy string

	// Unit is what the quota counts: "" means requests, unless the text that *
	// stands for says otherwise ("tokens").
	Unit string

	// Limit, Remaining and Used name the fields with the size of the quota, what
	// is left of it, and what is spent. Any two give the third.
	Limit, Remaining, Used string

	// Reset names the field with the time at which the quota is restored, and
	// ResetAs how to read it. Of several the relative ones count, and of those
	// the latest.
	Reset   string
	ResetAs TimeForm

	// Window names the field with the length of the window; WindowAs as for
	// Reset, with plain numbers taken as seconds. Period is the length where no
	// field says it; 0 means unknown.
	Window   string
	WindowAs TimeForm
	Period   time.Duration

	// Retry names the field with the time of the next attempt after a refusal.
	Retry   string
	RetryAs TimeForm

	// Bucket names the field with the name of the bucket that the request
	// counted against.
	Bucket string

	// Refusals are further statuses with which the server refuses for the rate;
	// RefusalsWithHint are such statuses only when a retry hint or an exhausted
	// quota comes with them. 429, 503, and 402 and 403 with a hint, hold for
	// everybody; a 402 is not repeated, whoever lists it.
	Refusals, RefusalsWithHint []int

	// Wait is what the server's documentation asks to wait after a refusal that
	// carries no hint. 0 or negative: nothing, the computed backoff applies.
	Wait time.Duration

	// The shapes that only single servers use; see the readers of the same name
	// in headers_ietf.go and headers_vendor.go.
	state        string // IETF RateLimit: items with r, t, q, w
	policies     string // IETF RateLimit-Policy
	layers       []layer
	rate         string // units per second, or per window where the row has one
	perSecond    string // a rate that is itself the quota
	usedOf       string // 32/40, api-usage=18/15000
	windows      string // limit:seconds pairs
	windowsUsed  string // used:seconds pairs
	named        string // name;remaining list
	categories   string // seconds:categories:scope list
	percentJSON  string // JSON object of percentages used
	fractionUsed string // 0.0 to 1.0 and above
	verdict      string // allowed, rejected
	veto         string // false: do not retry
	reach        string // global, or user and shared: whom a refusal stops
	refusal      string // names the refusal
	refusalWords []string
}

// layer names one of the parallel windows in comma-separated values.
type layer struct {
	policy string
	window time.Duration
}

// TimeForm says how a plain number in a time field is to be read. Dates and
// durations with units (1m30s) are read as what they are in every form.
type TimeForm uint8

const (
	// AnyTime tells by the size: below 1e9 seconds from receipt, below 1e11 Unix
	// seconds, below 1e14 Unix milliseconds, then micro- and nanoseconds. Names
	// that end in -Ms, -Milliseconds, -Seconds or -Minutes hold those, from
	// receipt.
	AnyTime TimeForm = iota
	// DeltaSeconds counts seconds from the receipt of the header.
	DeltaSeconds
	// DeltaMilliseconds counts milliseconds from the receipt of the header.
	DeltaMilliseconds
	// DeltaMinutes counts minutes from the receipt of the header.
	DeltaMinutes
	// EpochSeconds counts seconds since 1970-01-01 UTC on the server's clock;
	// numbers of 1e11 and above are taken as in AnyTime.
	EpochSeconds
	// EpochMilliseconds counts milliseconds since 1970-01-01 UTC.
	EpochMilliseconds
)

// headerRole is what a header field contributes. The order is the order in
// which the fields of one quota are sorted.
type headerRole uint8

const (
	roleLimit headerRole = iota
	roleRemaining
	roleUsed
	roleRate
	roleWindow
	roleReset
	roleState
	rolePolicies
	rolePerSecond
	roleUsedOf
	roleWindows
	roleWindowsUsed
	roleNamed
	roleCategories
	rolePercentJSON
	roleFractionUsed
	roleVerdict
	roleBucket // the last that belongs to a quota
	roleRetry
	roleVeto
	roleReach
	roleRefusal
	roleDate
	roleAge
)
