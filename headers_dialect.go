package polite

import (
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"time"
)

// Dialect is one row of the table of rate-limit dialects: the header names that
// one kind of server uses and what their values mean. The built-in table knows
// the common ones; Options.Dialects adds rows for others.
//
// A field that holds header names takes one name or several separated by commas,
// in order of preference, in any case. One * in a name stands for one or more
// segments and names the quota: "X-Limit-*" reads X-Limit-Search as the quota
// "search". Fields whose * matched the same text belong to one quota, as do
// fields of one row without a *.
//
// A row of the user wins over a built-in one for the same name, and a row for a
// host over one for all. A name that is no header name, or that holds more than
// one *, is ignored, and so are host "" and statuses below 400; a row of which
// nothing is left does nothing. The zero Dialect is such a row. Rows are copied
// when a Transport is made.
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
	// quota comes with them. 429, 503, and 403 with a hint, hold for everybody.
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
	roleRefusal
	roleDate
	roleAge
)

// headerField is one compiled name: what a field of that name means.
type headerField struct {
	row  *dialectRow
	role headerRole
	rank uint8 // place among the alternatives of its role; for roleRetry the order of precedence
	form TimeForm
}

// dialectRow is a row with its place in the order of precedence.
type dialectRow struct {
	Dialect
	order int
}

// dialects is the compiled table: an index from header names to meanings. It
// does not change after newDialects, and the cost of a look-up does not depend
// on the number of rows.
type dialects struct {
	names nameIndex
	hosts map[string]*hostDialect // by suffix
	named nameSet                 // the suffixes
	other *hostDialect            // for the hosts that no row names
}

// hostDialect is what the rows for one host, and those for all, say beyond the
// names that hold everywhere.
type hostDialect struct {
	names            nameIndex
	hasNames         bool
	refusals         []int
	refusalsWithHint []int
	wait             time.Duration
}

func (l *hostDialect) refusal(status int) bool {
	return slices.Contains(l.refusals, status)
}

func (l *hostDialect) refusalWithHint(status int) bool {
	return slices.Contains(l.refusalsWithHint, status)
}

// nameIndex finds the meaning of a header name.
type nameIndex struct {
	exact  map[string][]headerField
	prefix map[string][]wildcard // by what stands before the *
	suffix map[string][]wildcard // by what stands after a leading *

	// Most fields of a response mean nothing here. These sets tell so for nearly
	// all of them without looking into the maps; they may be wrong only the other
	// way.
	names  nameSet // exact names
	starts nameSet // beginnings of patterns
	ends   nameSet // ends of patterns with a leading *
}

// nameSet is a set of small hashes, for which one bit each is kept.
type nameSet [32]uint64

func (s *nameSet) add(hash uint32)      { s[hash/64%32] |= 1 << (hash % 64) }
func (s *nameSet) has(hash uint32) bool { return s[hash/64%32]&(1<<(hash%64)) != 0 }

// fill makes every hash a member.
func (s *nameSet) fill() {
	for i := range s {
		s[i] = ^uint64(0)
	}
}

// nameHash mixes the length and four letters, which keeps header names apart well
// enough.
func nameHash(name string) uint32 {
	n := len(name)
	return mixed(uint32(n)<<24 ^ uint32(name[0])<<18 ^ uint32(name[n/2])<<12 ^ uint32(name[n/4])<<6 ^ uint32(name[n-1]))
}

// startHash and endHash need minAffix letters.
func startHash(s string) uint32 {
	return mixed(uint32(s[0])<<16 ^ uint32(s[2])<<8 ^ uint32(s[3]))
}

func endHash(s string) uint32 {
	n := len(s)
	return mixed(uint32(s[n-4])<<16 ^ uint32(s[n-2])<<8 ^ uint32(s[n-1]))
}

const minAffix = 4

func mixed(x uint32) uint32 { return x * 0x9E3779B1 >> 21 }

type wildcard struct {
	rest   string // what stands after the *
	fields []headerField
}

var builtinDialects = sync.OnceValue(func() *dialects { return newDialects(nil) })

// newDialects compiles the built-in table with the user's rows before it.
func newDialects(extra []Dialect) *dialects { return compile(extra, builtinTable) }

// compile builds the index of tables, the first going before the others.
func compile(tables ...[]Dialect) *dialects {
	var rows []*dialectRow
	for _, table := range tables {
		for _, hosted := range []bool{true, false} {
			for _, row := range table {
				if (len(row.Hosts) > 0) == hosted {
					rows = append(rows, &dialectRow{Dialect: row, order: len(rows)})
				}
			}
		}
	}
	d := &dialects{names: newNameIndex(), hosts: make(map[string]*hostDialect)}
	// The clock and the cache are read first hand; no row can take these over.
	protocol := &dialectRow{order: -1}
	d.names.enter("Date", headerField{row: protocol, role: roleDate})
	d.names.enter("Age", headerField{row: protocol, role: roleAge})
	for _, r := range rows {
		if len(r.Hosts) == 0 {
			r.index(&d.names, nil)
		}
	}
	suffixes := make(map[string]bool)
	for _, r := range rows {
		for _, h := range r.Hosts {
			if h = normalHost(strings.TrimPrefix(strings.TrimSpace(h), "*.")); h != "" {
				suffixes[h] = true
			}
		}
	}
	for suffix := range suffixes {
		d.hosts[suffix] = newHostDialect(suffix, rows, &d.names)
		d.named.add(nameHash(suffix))
	}
	d.other = newHostDialect("", rows, &d.names)
	return d
}

// newHostDialect gathers what all rows say about a host, in their order.
func newHostDialect(suffix string, rows []*dialectRow, everywhere *nameIndex) *hostDialect {
	l := &hostDialect{names: newNameIndex()}
	for _, r := range rows {
		if len(r.Hosts) > 0 && !r.speaksAt(suffix) {
			continue
		}
		l.refusals = appendStatuses(l.refusals, r.Refusals)
		l.refusalsWithHint = appendStatuses(l.refusalsWithHint, r.RefusalsWithHint)
		if l.wait <= 0 {
			l.wait = r.Wait
		}
		if len(r.Hosts) > 0 {
			r.index(&l.names, everywhere)
		}
	}
	l.hasNames = len(l.names.exact)+len(l.names.prefix)+len(l.names.suffix) > 0
	return l
}

func appendStatuses(to, statuses []int) []int {
	for _, s := range statuses {
		if s >= 400 && s < 600 {
			to = append(to, s)
		}
	}
	return to
}

func (r *dialectRow) speaksAt(host string) bool {
	return slices.ContainsFunc(r.Hosts, func(h string) bool {
		h = normalHost(strings.TrimPrefix(strings.TrimSpace(h), "*."))
		return h != "" && (host == h || strings.HasSuffix(host, "."+h))
	})
}

func newNameIndex() nameIndex {
	return nameIndex{
		exact:  make(map[string][]headerField),
		prefix: make(map[string][]wildcard),
		suffix: make(map[string][]wildcard),
	}
}

// index enters the names of a row. A name that an earlier row claimed, here or
// everywhere, stays that row's.
func (r *dialectRow) index(x, everywhere *nameIndex) {
	for _, list := range []struct {
		role  headerRole
		names string
		form  TimeForm
	}{
		{roleLimit, r.Limit, AnyTime},
		{roleRemaining, r.Remaining, AnyTime},
		{roleUsed, r.Used, AnyTime},
		{roleRate, r.rate, AnyTime},
		{roleWindow, r.Window, r.WindowAs},
		{roleReset, r.Reset, r.ResetAs},
		{rolePolicies, r.policies, AnyTime},
		{roleState, r.state, AnyTime},
		{rolePerSecond, r.perSecond, AnyTime},
		{roleUsedOf, r.usedOf, AnyTime},
		{roleWindows, r.windows, AnyTime},
		{roleWindowsUsed, r.windowsUsed, AnyTime},
		{roleNamed, r.named, AnyTime},
		{roleCategories, r.categories, AnyTime},
		{rolePercentJSON, r.percentJSON, AnyTime},
		{roleFractionUsed, r.fractionUsed, AnyTime},
		{roleVerdict, r.verdict, AnyTime},
		{roleBucket, r.Bucket, AnyTime},
		{roleRetry, r.Retry, r.RetryAs},
		{roleVeto, r.veto, AnyTime},
		{roleRefusal, r.refusal, AnyTime},
	} {
		for i, name := range strings.Split(list.names, ",") {
			name = canonicalPattern(name)
			if name == "" {
				continue
			}
			f := headerField{row: r, role: list.role, rank: uint8(min(i, 255)), form: formOf(name, list.form)}
			if f.role == roleRetry {
				f.rank = retryRank(name)
			}
			if everywhere != nil && everywhere.claimedBefore(name, r) {
				continue
			}
			x.enter(name, f)
		}
	}
}

// The order of precedence of retry fields: the finer one first.
const (
	rankMilliseconds = iota
	rankAzureMilliseconds
	rankRetryAfter
	rankVendor
)

func retryRank(name string) uint8 {
	switch name {
	case "Retry-After-Ms":
		return rankMilliseconds
	case "X-Ms-Retry-After-Ms":
		return rankAzureMilliseconds
	case "Retry-After":
		return rankRetryAfter
	default:
		return rankVendor
	}
}

// canonicalPattern returns the canonical form of a header name with at most one
// *, "" when it is none.
func canonicalPattern(name string) string {
	name = strings.TrimSpace(name)
	if name == "" || name == "*" || strings.Count(name, "*") > 1 {
		return ""
	}
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return "" // no token of RFC 9110 section 5.6.2
		}
	}
	return textproto.CanonicalMIMEHeaderKey(name)
}

// formOf reads the unit off the name of a field where the row does not say it.
func formOf(name string, form TimeForm) TimeForm {
	if form != AnyTime {
		return form
	}
	switch {
	case strings.HasSuffix(name, "-Ms"), strings.HasSuffix(name, "-Milliseconds"):
		return DeltaMilliseconds
	case strings.HasSuffix(name, "-Seconds"):
		return DeltaSeconds
	case strings.HasSuffix(name, "-Minutes"):
		return DeltaMinutes
	default:
		return AnyTime
	}
}

// enter adds a field under a name. A name belongs to the first row that claims
// it; within a row it may play several roles.
func (x *nameIndex) enter(name string, f headerField) {
	before, after, wild := strings.Cut(name, "*")
	if !wild {
		if fs := x.exact[name]; len(fs) == 0 || fs[0].row == f.row {
			x.exact[name] = append(fs, f)
			x.names.add(nameHash(name))
		}
		return
	}
	key, index := before, x.prefix
	switch {
	case before == "" && len(after) < minAffix:
		key, index = after, x.suffix
		x.ends.fill()
	case before == "":
		key, index = after, x.suffix
		x.ends.add(endHash(after))
	case len(before) < minAffix:
		x.starts.fill()
	default:
		x.starts.add(startHash(before))
	}
	cards := index[key]
	for i := range cards {
		if cards[i].rest == after {
			if cards[i].fields[0].row == f.row {
				cards[i].fields = append(cards[i].fields, f)
			}
			return
		}
	}
	index[key] = append(cards, wildcard{rest: after, fields: []headerField{f}})
}

// claimedBefore reports whether an earlier row owns the exact name.
func (x *nameIndex) claimedBefore(name string, r *dialectRow) bool {
	fs := x.exact[name]
	return len(fs) > 0 && fs[0].row.order < r.order
}

// find returns what a canonical header name means and the text that the * of
// its pattern stands for. An exact name wins over a pattern, and of the patterns
// the one with the longest beginning.
func (x *nameIndex) find(name string) (fields []headerField, dim string) {
	if x.names.has(nameHash(name)) {
		if fields = x.exact[name]; fields != nil {
			return fields, ""
		}
	}
	if len(name) < minAffix {
		return nil, ""
	}
	if x.starts.has(startHash(name)) {
		if fields, dim = x.findStart(name); fields != nil {
			return fields, dim
		}
	}
	if x.ends.has(endHash(name)) {
		return x.findEnd(name)
	}
	return nil, ""
}

// findStart looks for a pattern with its beginning in name.
func (x *nameIndex) findStart(name string) (fields []headerField, dim string) {
	for i := strings.LastIndexByte(name, '-'); i > 0; i = strings.LastIndexByte(name[:i], '-') {
		for _, w := range x.prefix[name[:i+1]] {
			if dim = name[i+1:]; len(dim) > len(w.rest) && strings.HasSuffix(dim, w.rest) {
				return w.fields, dim[:len(dim)-len(w.rest)]
			}
		}
	}
	return nil, ""
}

// findEnd looks for a pattern that begins with * and ends as name does.
func (x *nameIndex) findEnd(name string) (fields []headerField, dim string) {
	for i := 1; i < len(name); i++ {
		if name[i] != '-' {
			continue
		}
		for _, w := range x.suffix[name[i:]] {
			return w.fields, name[:i]
		}
	}
	return nil, ""
}

// host returns the rows for the most specific suffix of a host.
func (d *dialects) host(host string) *hostDialect {
	for host = normalHost(host); host != ""; {
		if d.named.has(nameHash(host)) {
			if l := d.hosts[host]; l != nil {
				return l
			}
		}
		i := strings.IndexByte(host, '.')
		if i < 0 {
			break
		}
		host = host[i+1:]
	}
	return d.other
}

// normalHost drops the port and the root dot and folds case. It allocates only
// when there is something to fold.
func normalHost(host string) string {
	switch i := strings.LastIndexByte(host, ':'); {
	case i < 0, strings.IndexByte(host[i:], ']') >= 0:
	case host[0] == '[', strings.IndexByte(host, ':') == i: // else an IPv6 address without a port
		host = host[:i]
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
