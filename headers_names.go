package polite

import (
	"math/bits"
	"strings"
)

// nameIndex finds the meaning of a header name.
type nameIndex struct {
	exact  nameTable
	prefix map[string][]wildcard // by what stands before the *
	suffix map[string][]wildcard // by what stands after a leading *

	// Most fields of a response begin and end like no pattern. These sets tell so
	// for nearly all of them without looking into the maps; they may be wrong only
	// the other way.
	starts nameSet // beginnings of patterns
	ends   nameSet // ends of patterns with a leading *
}

// nameTable holds the exact names. Most names that are looked up are not in it,
// and an empty slot says so faster than a map.
type nameTable struct {
	slots []*namedFields // a power of two of them, by the first bits of the hash
	n     int            // names
}

type namedFields struct {
	name   string
	fields []headerField
	next   *namedFields // in the same slot
}

// find returns the name's entry, nil without one.
func (t *nameTable) find(name string) *namedFields {
	if t.n == 0 {
		return nil
	}
	e := *t.slot(name)
	for e != nil && e.name != name {
		e = e.next
	}
	return e
}

func (t *nameTable) slot(name string) **namedFields {
	return &t.slots[nameHash(name)>>(32-bits.Len(uint(len(t.slots)-1)))]
}

// add enters a name that is not there yet.
func (t *nameTable) add(name string, f headerField) {
	t.n++
	if 2*t.n > len(t.slots) {
		old := t.slots
		t.slots = make([]*namedFields, max(16, 2*len(old)))
		for _, e := range old {
			for e != nil {
				next := e.next
				t.link(e)
				e = next
			}
		}
	}
	t.link(&namedFields{name: name, fields: []headerField{f}})
}

func (t *nameTable) link(e *namedFields) {
	slot := t.slot(e.name)
	e.next, *slot = *slot, e
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

// nameHash mixes the length and four letters of a name that is not empty, which
// keeps header names apart well enough.
func nameHash(name string) uint32 {
	n := len(name)
	return (uint32(n)<<24 ^ uint32(name[0])<<18 ^ uint32(name[n/2])<<12 ^ uint32(name[n/4])<<6 ^ uint32(name[n-1])) * oddFactor
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

func mixed(x uint32) uint32 { return x * oddFactor >> 21 }

// oddFactor carries every bit into the highest ones: 2^32 by the golden ratio.
const oddFactor = 0x9E3779B1

type wildcard struct {
	rest   string // what stands after the *
	fields []headerField
}

func newNameIndex() nameIndex {
	return nameIndex{
		prefix: make(map[string][]wildcard),
		suffix: make(map[string][]wildcard),
	}
}

// enter adds a field under a name. A name belongs to the first row that claims
// it; within a row it may play several roles.
func (x *nameIndex) enter(name string, f headerField) {
	before, after, wild := strings.Cut(name, "*")
	if !wild {
		switch e := x.exact.find(name); {
		case e == nil:
			x.exact.add(name, f)
		case e.fields[0].row == f.row:
			e.fields = append(e.fields, f)
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
	e := x.exact.find(name)
	return e != nil && e.fields[0].row.order < r.order
}

// find returns what a canonical header name means and the text that the * of
// its pattern stands for. An exact name wins over a pattern, and of the patterns
// the one with the longest beginning.
func (x *nameIndex) find(name string) (fields []headerField, dim string) {
	if e := x.exact.find(name); e != nil {
		return e.fields, ""
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
