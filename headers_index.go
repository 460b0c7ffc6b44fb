package polite

import (
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"time"
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
	other *hostDialect            // for the hosts that no row names
}

// hostDialect is what the rows for one host, and those for all hosts, say.
type hostDialect struct {
	names            nameIndex     // of the rows for this host
	everywhere       *nameIndex    // of the rows for all hosts
	known            memo[meaning] // of the names that were met
	refusals         []int
	refusalsWithHint []int
	wait             time.Duration
}

// meaning is what a field's name says: the roles of the field, and of which quota.
type meaning struct {
	fields []headerField
	dim    *dimension
}

// meaning looks a canonical name up, in the rows of the host first.
func (l *hostDialect) meaning(name string) meaning {
	fields, dim := l.names.find(name)
	if fields == nil {
		fields, dim = l.everywhere.find(name)
	}
	return meaning{fields, dimensions.of(dim, dimensionOf)}
}

func (l *hostDialect) refusal(status int) bool {
	return slices.Contains(l.refusals, status)
}

func (l *hostDialect) refusalWithHint(status int) bool {
	return slices.Contains(l.refusalsWithHint, status)
}

// builtinDialects is compiled once: it takes half a millisecond, never changes,
// and serves all Transports without rows of their own.
var builtinDialects = sync.OnceValue(func() *dialects { return compile(builtinTable) })

// newDialects compiles the built-in table with the user's rows before it.
func newDialects(extra []Dialect) *dialects {
	if len(extra) == 0 {
		return builtinDialects()
	}
	return compile(extra, builtinTable)
}

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
	}
	d.other = newHostDialect("", rows, &d.names)
	return d
}

// newHostDialect gathers what all rows say about a host, in their order.
func newHostDialect(suffix string, rows []*dialectRow, everywhere *nameIndex) *hostDialect {
	l := &hostDialect{names: newNameIndex(), everywhere: everywhere}
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
		{roleReach, r.reach, AnyTime},
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

// host returns the rows for the most specific suffix of a host.
func (d *dialects) host(host string) *hostDialect {
	for host = normalHost(host); host != ""; {
		if l := d.hosts[host]; l != nil {
			return l
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
