package polite

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Quota is what one response says about one quota of the server.
//
// A response may speak of several (a window per minute and one per day,
// requests beside tokens); each has its own Policy name, which stays the same
// from response to response. A Quota is a plain value: copy it, compare it,
// keep it.
type Quota struct {
	// Policy is the server's name for the quota: the policy of the IETF
	// RateLimit fields, the resource or bucket, or the dimension in a header
	// name ("minute", "input-tokens"), cut after 100 bytes. "" is the only quota
	// of the host.
	Policy string

	// Unit is what the quota counts: "" is requests; otherwise "tokens",
	// "points", "bytes" and so on. A quota with a unit says nothing about how
	// many requests may follow.
	Unit string

	// Limit is the size of the quota in units; -1 when the server did not say.
	Limit int64

	// Remaining is what is left in units; -1 when the server did not say,
	// never negative otherwise. 0 is exhausted.
	Remaining int64

	// Reset is the instant, on the local clock, at which the server restores
	// the quota; the zero Time when it did not say. A reset that lies in the
	// past is given as the instant of receipt.
	Reset time.Time

	// Window is the length of the window, or the time in which an empty bucket
	// fills up; 0 when the server did not say. It is a length, not a reset.
	Window time.Duration
}

// exhausted reports whether the server said that nothing is left.
func (q Quota) exhausted() bool { return q.Remaining == 0 }

// ParseQuota returns every quota that the header fields of a response speak of,
// the most binding first: exhausted ones by the latest reset, then by the share
// that is left. now is the local time at which the header arrived; relative
// resets count from it, absolute ones are moved onto the local clock with the
// help of the Date field.
//
// It understands the three shapes of the IETF RateLimit fields
// (draft-ietf-httpapi-ratelimit-headers, revisions 00 to 10), the X-RateLimit
// and X-Rate-Limit families and the vendors of the built-in table, whatever
// their units. Several fields may describe one quota; a field that cannot be
// read leaves its value unknown and never becomes 0. A response from a cache
// (Age above 0) says nothing. Beyond six quotas the least binding are left
// out. The result is nil when nothing was understood.
//
// The status is taken to be 200: a remaining of exactly -1 means unknown.
// ParseQuota is safe for concurrent use.
func ParseQuota(h http.Header, now time.Time) []Quota {
	var (
		space [usualFields]match
		t     tally
	)
	clock, fields := builtinDialects().other.scan(h, now, space[:0])
	r := reading{clock: clock}
	r.quotas(&t, fields)
	if t.n == 0 {
		return nil
	}
	return slices.Clone(t.list())
}

// ParseRetryAfter returns the first instant, on the local clock, at which the
// server allows another attempt, and whether it gave one that lies ahead. It is
// never earlier than what the server said.
//
// The first of these that gives an instant after now counts: Retry-After-Ms,
// X-Ms-Retry-After-Ms, Retry-After (RFC 9110 section 10.2.3), then the retry
// fields of single vendors (X-RateLimit-Retry-After and the like). Values may
// be whole or decimal seconds, Unix seconds or milliseconds (told by their
// size), any of the three HTTP date forms, an ISO 8601 date-time or a duration
// such as 1m30s. Of repeated fields the longest counts. An absent, zero, past,
// negative or unreadable value is no hint; a value beyond a century is cut to
// one. The status is not looked at: on a success Retry-After means something
// else and should be ignored.
//
// ParseRetryAfter is safe for concurrent use.
func ParseRetryAfter(h http.Header, now time.Time) (time.Time, bool) {
	var space [usualFields]match
	clock, fields := builtinDialects().other.scan(h, now, space[:0])
	at, _ := clock.retryHint(fields)
	return at, !at.IsZero()
}

// hintSource says where the instant of a retry came from.
type hintSource uint8

const (
	hintNone         hintSource = iota // the server gave no usable hint
	hintMilliseconds                   // Retry-After-Ms, X-Ms-Retry-After-Ms
	hintRetryAfter                     // Retry-After
	hintVendor                         // a vendor's own retry field
	hintReset                          // the reset of an exhausted quota
	hintWindow                         // the length of an exhausted window: an upper bound
	hintDialect                        // the wait that the dialect documents
)

func (s hintSource) String() string {
	switch s {
	case hintMilliseconds:
		return "retry-after-ms"
	case hintRetryAfter:
		return "retry-after"
	case hintVendor:
		return "vendor"
	case hintReset:
		return "reset"
	case hintWindow:
		return "window"
	case hintDialect:
		return "dialect"
	default:
		return "none"
	}
}

const (
	// maxQuotas bounds the quotas of one response. No server met announces more
	// that matter at once; beyond it the least binding are dropped.
	maxQuotas = 6
	// maxFields bounds the fields of one response that are looked at, so that a
	// hostile header costs no more than a long honest one.
	maxFields = 64
	// maxName bounds what is read of the name of a quota or bucket, since the
	// books of a host keep several.
	maxName = 100
	// usualFields fit on the stack.
	usualFields = 16
)

// signals is everything that the header fields of one response say about
// waiting.
type signals struct {
	tally
	retryAt time.Time     // first instant of another attempt; zero: not said. Refusals only
	hint    hintSource    // where retryAt came from
	refused bool          // a refusal for the rate although the status is not 429 or 503
	veto    bool          // the server says that a retry is pointless
	reach   reach         // whom a refusal stops, if the server says so
	bucket  string        // the bucket this request counted against; "" when not named
	skew    time.Duration // server clock minus local clock when above two seconds, else 0
	cached  bool          // the response is out of a cache: the server did not count the request

	absolute bool // a reset was told by the server's clock, not from the receipt
}

// read enters into s, which is empty, what a response of a host says; now is the
// local time at which the header arrived.
func (l *hostDialect) read(s *signals, status int, h http.Header, now time.Time) {
	var space [usualFields]match
	clock, fields := l.scan(h, now, space[:0])
	s.skew, s.cached = clock.skew(), clock.cached
	if len(fields) == 0 && status < http.StatusBadRequest {
		return
	}
	r := reading{
		clock:   clock,
		status:  status,
		refusal: status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable || l.refusal(status),
	}
	r.quotas(&s.tally, fields)
	s.absolute = r.absolute
	said := s.words(fields)
	if s.bucket == "" {
		s.bucket = fields.onlyPolicy(s.list())
	}
	if status >= http.StatusBadRequest || said { // on a success Retry-After is polling advice, not a refusal
		r.decide(s, fields, l, said)
	}
}

// decide settles whether the response, which fails or said so in words, is a
// refusal and when the server allows the next attempt.
func (r *reading) decide(s *signals, fields fieldGroup, local *hostDialect, said bool) {
	at, hint := r.clock.retryHint(fields)
	exhausted := s.n > 0 && s.quotas[0].exhausted()
	evidence := !at.IsZero() || exhausted

	throttled := r.status == http.StatusTooManyRequests
	switch {
	case throttled, r.status == http.StatusServiceUnavailable:
	case said, local.refusal(r.status):
		s.refused = true
	case evidence && (r.status == http.StatusForbidden || local.refusalWithHint(r.status)):
		s.refused = true
	case r.status >= http.StatusInternalServerError:
		// Not a refusal for the rate, but a hint is a hint (RFC 9110 10.2.3).
		s.retryAt, s.hint = at, hint
		return
	default:
		return
	}
	if at.IsZero() {
		at, hint = s.wait(r.clock.now, throttled || s.refused)
	}
	if at.IsZero() && local.wait > 0 && (throttled || s.refused) {
		at, hint = r.clock.now.Add(min(local.wait, farAhead)), hintDialect
	}
	s.retryAt, s.hint = at, hint
}

// wait returns when the quotas allow another attempt after a refusal: all that
// are exhausted must have been restored. A quota with something left did not
// refuse, so its reset is no hint.
func (t *tally) wait(now time.Time, refusedForRate bool) (time.Time, hintSource) {
	switch {
	case t.exhaustedReset.After(now):
		return t.exhaustedReset, hintReset
	case !t.saysRemaining && refusedForRate && t.latestReset.After(now):
		return t.latestReset, hintReset
	case t.exhaustedWindow > 0:
		return now.Add(min(t.exhaustedWindow, farAhead)), hintWindow
	default:
		return time.Time{}, hintNone
	}
}

// reach is whom the server says that a refusal stops.
type reach uint8

const (
	reachUnknown reach = iota
	reachAll           // every request to the host
	reachBucket        // those of the same bucket
)

// reachNamed reads whom a refusal stops. Discord has global limits, those of a
// bucket (user), and those of a resource that others use too (shared).
func reachNamed(word string) reach {
	switch {
	case strings.EqualFold(word, "global"):
		return reachAll
	case strings.EqualFold(word, "user"), strings.EqualFold(word, "shared"):
		return reachBucket
	}
	return reachUnknown
}

// words enters what the fields say in words, the first bucket and the first reach
// counting, and reports whether one names the refusal, whatever the status.
func (s *signals) words(fields fieldGroup) (refused bool) {
	for i := range fields {
		m := &fields[i]
		switch m.role {
		case roleVeto: // X-Should-Retry: false and its kin
			s.veto = s.veto || strings.EqualFold(trim(m.values[0]), "false")
		case roleReach:
			s.reach = cmp.Or(s.reach, reachNamed(trim(m.values[0])))
		case roleBucket:
			s.bucket = cmp.Or(s.bucket, shortName(strings.TrimSpace(m.values[0])))
		case roleRefusal:
			refused = refused || m.namesRefusal()
		}
	}
	return refused
}

func (m *match) namesRefusal() bool {
	word, _, _ := strings.Cut(m.values[0], ":") // AWS appends the address of a schema
	word = strings.TrimSpace(word)
	return slices.ContainsFunc(m.row.refusalWords, func(w string) bool { return strings.EqualFold(w, word) })
}

// onlyPolicy returns the name of the only quota in the sense of the RateLimit
// drafts. Only those name what a request counted against. Other names, like
// "minute" or "requests", tell quotas of every request apart.
func (g fieldGroup) onlyPolicy(quotas []Quota) string {
	if len(quotas) != 1 || quotas[0].Unit != "" {
		return ""
	}
	for i := range g {
		if g[i].role == roleState || g[i].role == rolePolicies {
			return quotas[0].Policy
		}
	}
	return ""
}

// shortName is a name that a server uses, as far as it is read.
func shortName(name string) string { return name[:min(len(name), maxName)] }
