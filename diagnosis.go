package polite

import (
	"time"
)

// Diagnosis is something amiss that the caller, or whoever runs the server, can
// mend.
type Diagnosis int

const (
	// LowLimit is a quota below Options.ExpectedLimit. Where a server announces
	// several windows, it is the largest that is too small.
	LowLimit Diagnosis = iota + 1
	// SharedQuota is a quota that falls faster than this client's requests and
	// any list of prices explain: somebody else spends it.
	SharedQuota
	// NoRetryAfter is a 429 without Retry-After: how long to wait had to be
	// taken from the quota, or guessed.
	NoRetryAfter
	// SkewedClock is a server whose clock differs from this machine's by more
	// than two seconds and more than the exchange took.
	SkewedClock
	// LongRetryAfter is a Retry-After of more than twice the longest window
	// that the server has announced.
	LongRetryAfter
	// MixedQuotaKey is one quota key for requests that the server counts in
	// different buckets.
	MixedQuotaKey
	// ExtendedBan is a refusal after the whole wait that the server had asked
	// for, with a wait at least as long, which no exhausted quota explains.
	ExtendedBan
)

// diagnoses are the findings: how they read, what helps, and the function that
// looks for them in the end of an attempt. Those of the host are told once per
// host, the others once per quota.
var diagnoses = [...]struct {
	phrase, remedy string
	shows          func(*examination) bool
	ofHost         bool
}{
	LowLimit: {
		phrase: "the server's limit is lower than expected",
		remedy: "check the Authorization header: without it the server applies the low limit of anonymous callers",
		shows:  (*examination).lowLimit,
	},
	SharedQuota: {
		phrase: "somebody else spends the same quota",
		remedy: "use credentials of its own for each program, or divide the limit among them with LimitOptions.Rates; if single requests cost more than others, say so with Options.Cost",
		shows:  (*examination).sharedQuota,
	},
	NoRetryAfter: {
		phrase: "the server refuses without Retry-After",
		remedy: "stay below its limit with LimitOptions.Rates or Adaptive, and ask whoever runs the server to send Retry-After with every 429",
		shows:  (*examination).noRetryAfter,
		ofHost: true,
	},
	SkewedClock: {
		phrase: "the server's clock and this machine's differ",
		remedy: "synchronise this machine's clock (NTP); if it is right, tell whoever runs the server",
		shows:  (*examination).skewedClock,
		ofHost: true,
	},
	LongRetryAfter: {
		phrase: "the server asks for a wait far longer than the windows it announces",
		remedy: "look for a quota of the day or a ban that its headers do not tell of, and send less from the start",
		shows:  (*examination).longRetryAfter,
	},
	MixedQuotaKey: {
		phrase: "one quota key stands for several of the server's buckets",
		remedy: "give each bucket a key of its own in Options.QuotaKey, or leave the key empty: polite learns the buckets from the responses",
		shows:  (*examination).mixedQuotaKey,
	},
	ExtendedBan: {
		phrase: "the server's ban starts anew though it was waited for",
		remedy: "send nothing to this server for much longer than it asks, from any program with these credentials, and raise RetryOptions.MaxWait",
		shows:  (*examination).extendedBan,
	},
}

// String returns the finding as a short phrase.
func (d Diagnosis) String() string {
	if d < 1 || int(d) >= len(diagnoses) {
		return "unknown"
	}
	return diagnoses[d].phrase
}

// Remedy returns what usually helps, as a sentence without a full stop.
func (d Diagnosis) Remedy() string {
	if d < 1 || int(d) >= len(diagnoses) {
		return ""
	}
	return diagnoses[d].remedy
}

// DiagnosisEvent is one finding, with what the response said that gave rise to
// it.
type DiagnosisEvent struct {
	Request
	Diagnosis Diagnosis
	Expected  int64         // Options.ExpectedLimit
	Quota     Quota         // for LowLimit the low one, otherwise the most binding; zero if none was announced
	Asked     time.Duration // how long the server asked to wait; 0 if it did not
	Skew      time.Duration // server clock minus this machine's; 0 if they are alike
}

// findings is a set of Diagnosis values.
type findings uint16

func (f findings) has(d Diagnosis) bool { return f&(1<<d) != 0 }
