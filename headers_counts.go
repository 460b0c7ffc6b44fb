package polite

import (
	"strings"
	"time"
)

// unmetered reports the pair of -1 and -1 with which a server says that it does
// not count this quota.
func unmetered(limits, remaining []string) bool {
	if len(limits) != 1 || len(remaining) != 1 {
		return false
	}
	limit, ok := parseCount(limits[0])
	left, okLeft := parseCount(remaining[0])
	return ok && okLeft && limit == -1 && left == -1
}

// lowest returns the remaining value of layer i of n; with another number of
// values, the lowest of them.
func (r *reading) lowest(m *match, i, n int) int64 {
	if m.isWhole() {
		return m.whole
	}
	best := int64(-1)
	list := listOf(m.lines())
	count := list.count()
	for at := 0; ; at++ {
		item, ok := list.next()
		if !ok {
			return best
		}
		if count == n && at != i {
			continue
		}
		if v, ok := parseCount(item); ok {
			if v = r.remaining(v); best < 0 || v >= 0 && v < best {
				best = v
			}
		}
	}
}

// highest returns the used value of layer i of n; with another number of values,
// the highest of them.
func (m *match) highest(i, n int) (int64, bool) {
	if m.isWhole() {
		return m.whole, true
	}
	best := int64(-1)
	list := listOf(m.values)
	count := list.count()
	for at := 0; ; at++ {
		item, ok := list.next()
		if !ok {
			return best, best >= 0
		}
		if count == n && at != i {
			continue
		}
		if v, ok := parseCount(item); ok {
			best = max(best, v)
		}
	}
}

// limitAt returns the limit of layer i of n. With parameters in the list the
// first bare item is the limit in force and the others are policies
// (draft-ietf-httpapi-ratelimit-headers-06 section 3.1); with another number of
// values than layers the first is.
func (m *match) limitAt(i, n int) int64 {
	if m.isWhole() {
		return m.whole
	}
	var (
		list  = listOf(m.lines())
		count = list.count()
		first = int64(-1)
		bare  bool
	)
	for at := 0; ; at++ {
		item, ok := list.next()
		if !ok {
			return first
		}
		if n > 1 && count == n && at != i {
			continue
		}
		v := limitIn(item)
		if v < 0 {
			continue
		}
		if simple := strings.IndexByte(item, ';') < 0; first < 0 || simple && !bare {
			first, bare = v, simple
		}
	}
}

// wholeIn returns the value of a field that is one whole number, else -1.
func wholeIn(values []string) int64 {
	if len(values) != 1 {
		return -1
	}
	return whole(values[0])
}

// limitIn reads one limit: a count, or pairs such as burst:100;rate:10.
func limitIn(item string) int64 {
	if v, ok := parseCount(item); ok {
		return max(v, -1)
	}
	if item == "" {
		return -1
	}
	var it rateItem
	it.parse(item)
	return it.limit
}

// layerCount returns how many parallel windows the values of a group describe.
func layerCount(g fieldGroup) int {
	limits := g.field(roleLimit)
	if limits == nil || limits.isWhole() || limits.hasParameters() {
		return 1
	}
	list, left, spent := listOf(limits.values), listOf(g.values(roleRemaining)), listOf(g.values(roleUsed))
	if n := list.count(); n > 1 && n <= maxLayers && (left.count() == n || spent.count() == n) {
		return n
	}
	return 1
}

// maxLayers bounds the parallel windows of one set of fields.
const maxLayers = 8

func (m *match) hasParameters() bool {
	if m.isWhole() {
		return false
	}
	for _, v := range m.lines() {
		if strings.IndexByte(v, ';') >= 0 {
			return true
		}
	}
	return false
}

// ordinal names the second and later of several unnamed windows.
func ordinal(i int) string { return "2345678"[i-1 : i] }

// joinPolicy qualifies a name.
func joinPolicy(prefix, name string) string {
	switch {
	case prefix == "":
		return name
	case name == "":
		return prefix
	default:
		return prefix + "/" + name
	}
}

func sum(a, b int64) int64 { return a + min(b, maxWhole) }

// spanFor returns count/rate times per, rounded up and cut at farAhead.
func spanFor(count, rate int64, per time.Duration) time.Duration {
	span := float64(count) / float64(rate) * float64(per)
	if span >= float64(farAhead) {
		return farAhead
	}
	return time.Duration(span)
}
