package polite

import "strings"

// nameIndex finds the meaning of a header name.
type nameIndex struct {
	exact  map[string][]headerField
	prefix map[string][]wildcard // by what stands before the *
	suffix map[string][]wildcard // by what stands after a leading *

	// Most fields of a response begin and end like no name in here. These sets tell
	// so without looking into the maps; they may be wrong only the other way.
	heads  letterSet // of exact names
	starts letterSet // of patterns
	ends   letterSet // of patterns with a leading *

	longest int // what stands before or after a *: more of a name is not looked at
}

func newNameIndex() nameIndex {
	return nameIndex{
		exact:  make(map[string][]headerField),
		prefix: make(map[string][]wildcard),
		suffix: make(map[string][]wildcard),
	}
}

func (x *nameIndex) isEmpty() bool { return len(x.exact)+len(x.prefix)+len(x.suffix) == 0 }

// letterSet is a set of four letters, for which one bit each is kept.
type letterSet [32]uint64

func (s *letterSet) add(letters uint32) {
	s[letters*oddFactor>>27] |= 1 << (letters * oddFactor >> 21 % 64)
}

func (s *letterSet) has(letters uint32) bool {
	return s[letters*oddFactor>>27]&(1<<(letters*oddFactor>>21%64)) != 0
}

// fill makes everything a member.
func (s *letterSet) fill() {
	for i := range s {
		s[i] = ^uint64(0)
	}
}

// firstLetters returns the first four letters of a name, lastLetters the last
// ones. Where there are fewer than minAffix, they stand for all of them.
func firstLetters(s string) uint32 {
	if len(s) < minAffix {
		return fewLetters(s)
	}
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

func lastLetters(s string) uint32 {
	if len(s) < minAffix {
		return fewLetters(s)
	}
	s = s[len(s)-minAffix:]
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

func fewLetters(s string) (n uint32) {
	for i := range len(s) {
		n = n<<8 | uint32(s[i])
	}
	return n
}

const minAffix = 4

// oddFactor carries every bit into the highest ones: 2^32 by the golden ratio.
const oddFactor = 0x9E3779B1

type wildcard struct {
	rest   string // what stands after the *
	fields []headerField
}

// enter adds a field under a name. A name belongs to the first row that claims
// it; within a row it may play several roles.
func (x *nameIndex) enter(name string, f headerField) {
	before, after, wild := strings.Cut(name, "*")
	if !wild {
		if fields := x.exact[name]; len(fields) == 0 || fields[0].row == f.row {
			x.heads.add(firstLetters(name))
			x.exact[name] = append(fields, f)
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
		x.ends.add(lastLetters(after))
	case len(before) < minAffix:
		x.starts.fill()
	default:
		x.starts.add(firstLetters(before))
	}
	x.longest = max(x.longest, len(key))
	cards := index[key]
	for i := range cards {
		if w := &cards[i]; w.rest == after {
			if w.fields[0].row == f.row {
				w.fields = append(w.fields, f)
			}
			return
		}
	}
	index[key] = append(cards, wildcard{rest: after, fields: []headerField{f}})
}

// claimedBefore reports whether an earlier row owns the exact name.
func (x *nameIndex) claimedBefore(name string, r *dialectRow) bool {
	fields := x.exact[name]
	return len(fields) > 0 && fields[0].row.order < r.order
}

// find returns what a canonical header name means and the text that the * of
// its pattern stands for. An exact name wins over a pattern, and of the patterns
// the one with the longest beginning.
func (x *nameIndex) find(name string) (fields []headerField, dim string) {
	first := firstLetters(name)
	if x.heads.has(first) {
		if fields = x.exact[name]; fields != nil {
			return fields, ""
		}
	}
	if x.starts.has(first) {
		if fields, dim = x.findStart(name); fields != nil {
			return fields, dim
		}
	}
	if x.ends.has(lastLetters(name)) {
		return x.findEnd(name)
	}
	return nil, ""
}

// findStart looks for a pattern with its beginning in name.
func (x *nameIndex) findStart(name string) (fields []headerField, dim string) {
	for i := strings.LastIndexByte(name[:min(len(name), x.longest)], '-'); i > 0; i = strings.LastIndexByte(name[:i], '-') {
		cards := x.prefix[name[:i+1]]
		for k := range cards {
			dim = name[i+1:]
			if w := &cards[k]; len(dim) > len(w.rest) && strings.HasSuffix(dim, w.rest) {
				return w.fields, dim[:len(dim)-len(w.rest)]
			}
		}
	}
	return nil, ""
}

// findEnd looks for a pattern that begins with * and ends as name does.
func (x *nameIndex) findEnd(name string) (fields []headerField, dim string) {
	for i := max(1, len(name)-x.longest); i < len(name); i++ {
		if name[i] != '-' {
			continue
		}
		if cards := x.suffix[name[i:]]; cards != nil {
			return cards[0].fields, name[:i] // all of it stands after the *
		}
	}
	return nil, ""
}
