package polite

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// checkpointPrefix names the format and its version. Behind it stands, in
// base64url, the CRC-32 of the JSON of a savedMark and that JSON.
const checkpointPrefix = "polite1."

// savedMark is the content of a checkpoint.
type savedMark struct {
	Kind   pageKind `json:"k"`
	Of     string   `json:"f"` // the route's fingerprint
	At     int      `json:"a,omitempty"`
	Cursor string   `json:"c,omitempty"`
	Link   string   `json:"l,omitempty"` // without its query; only the path within the first page's origin
	Query  []string `json:"q,omitempty"` // the link's query, see abridge
	Skip   int      `json:"s,omitempty"`
	Passed int      `json:"n,omitempty"`
	Before uint64   `json:"b,omitempty"` // see mark
	Total  *int     `json:"t,omitempty"`
	End    bool     `json:"e,omitempty"`
}

// checkpoint writes a mark down. A total of -1 is not known.
func (r *route) checkpoint(m mark, total int) string {
	s := savedMark{Kind: r.kind, Of: r.fingerprint(), At: m.at, Skip: m.skip, Passed: m.passed, Before: m.before, End: m.end}
	if total >= 0 {
		s.Total = &total
	}
	switch {
	case r.kind == byCursor:
		s.Cursor = m.token
	case m.token != "":
		u := r.target(m.place)
		s.Query = abridge(u.RawQuery, r.base.RawQuery)
		s.Link = cmp.Or(u.EscapedPath(), "/")
		if !r.home(u) {
			s.Link = u.Scheme + "://" + u.Host + s.Link
		}
	}
	body, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings, integers and booleans always marshal
	}
	sum := binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(body))
	return checkpointPrefix + base64.RawURLEncoding.EncodeToString(append(sum, body...))
}

// resume reads a checkpoint of this route and the total that it knew. The text
// may come from anywhere: its link passes the same guard as a server's link.
func (r *route) resume(text string) (m mark, total int, err error) {
	bad := func(why string) (mark, int, error) {
		return mark{}, 0, fmt.Errorf("%w: %s", ErrBadCheckpoint, why)
	}
	encoded, ok := strings.CutPrefix(text, checkpointPrefix)
	if !ok {
		return bad("it is none, or of another version")
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil || len(data) < 4 || crc32.ChecksumIEEE(data[4:]) != binary.BigEndian.Uint32(data) {
		return bad("it is damaged")
	}
	var s savedMark
	if json.Unmarshal(data[4:], &s) != nil || !s.sane() {
		return bad("it is damaged")
	}
	if s.Kind != r.kind {
		return bad(fmt.Sprintf("it is of pages by %q, not by %q", s.Kind, r.kind))
	}
	if s.Of != r.fingerprint() {
		return bad("it is of another collection or page size")
	}
	m = mark{place{at: s.At, token: s.Cursor, skip: s.Skip, end: s.End}, s.Passed, s.Before}
	if s.Link != "" {
		link, err := r.follow(r.base, r.restored(s.Link, s.Query))
		if err != nil {
			return mark{}, 0, fmt.Errorf("%w: %w", ErrBadCheckpoint, err)
		}
		m.token = link.String()
	}
	total = -1
	if s.Total != nil {
		total = *s.Total
	}
	return m, total, nil
}

// restored puts a saved link together again.
func (r *route) restored(link string, query []string) string {
	if strings.HasPrefix(link, "/") { // two slashes are a path here, not a host
		link = r.base.Scheme + "://" + r.base.Host + link
	}
	if len(query) > 0 {
		link += "?" + unabridge(query, r.base.RawQuery)
	}
	return link
}

// maxCount is the largest number of items or pages: what JSON can hold exactly
// (RFC 8259 section 6) and an int too. It keeps sums far from overflow.
const maxCount = min(1<<53, math.MaxInt)

// sane reports whether the checkpoint is such as a walk writes: its numbers,
// and no cursor or link but by the scheme that has them: a cursor would be followed
// as a link that no guard has looked at.
func (s *savedMark) sane() bool {
	if s.Cursor != "" && s.Kind != byCursor || s.Link != "" && s.Kind != byLink {
		return false
	}
	for _, n := range []int{s.At, s.Skip, s.Passed} {
		if n < 0 || n > maxCount {
			return false
		}
	}
	return s.Total == nil || *s.Total >= 0 && *s.Total <= maxCount
}

// abridge writes a link's query as its pairs, and those that the first page's
// query has too as references to that one ("&2" is its pair 2): what the
// caller's own URL holds, which may be a key, stays out of checkpoints.
func abridge(query, base string) []string {
	if query == "" {
		return nil
	}
	known := strings.Split(base, "&")
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		same := func(other string) bool { return samePair(pair, other) }
		if k := slices.IndexFunc(known, same); pair != "" && k >= 0 {
			pairs[i] = "&" + strconv.Itoa(k)
		}
	}
	return pairs
}

// samePair reports whether two pairs of a query are equal, though perhaps
// spelled differently.
func samePair(a, b string) bool {
	nameA, valueA, _ := strings.Cut(a, "=")
	nameB, valueB, _ := strings.Cut(b, "=")
	return sameText(nameA, nameB) && sameText(valueA, valueB)
}

func sameText(a, b string) bool {
	if a == b {
		return true
	}
	a, errA := url.QueryUnescape(a)
	b, errB := url.QueryUnescape(b)
	return errA == nil && errB == nil && a == b
}

// unabridge is the inverse of abridge. References to pairs that do not exist,
// which abridge does not write, are left out.
func unabridge(pairs []string, base string) string {
	known := strings.Split(base, "&")
	var query []string
	for _, pair := range pairs {
		if ref, ok := strings.CutPrefix(pair, "&"); ok {
			k, err := strconv.Atoi(ref)
			if err != nil || k < 0 || k >= len(known) {
				continue
			}
			pair = known[k]
		}
		query = append(query, pair)
	}
	return strings.Join(query, "&")
}
