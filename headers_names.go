package polite

import "strings"

// nameIndex finds the meaning of a header name.
type nameIndex struct {
	exact  map[string][]headerField
	prefix map[string][]wildcard // by what stands before the *
	suffix map[string][]wildcard // by what stands after a leading *

	longest int // what stands before or after a *: more of a name is not looked at
}

func newNameIndex() nameIndex {
	return nameIndex{
		exact:  make(map[string][]headerField),
		prefix: make(map[string][]wildcard),
		suffix: make(map[string][]wildcard),
	}
}

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
			x.exact[name] = append(fields, f)
		}
		return
	}
	key, index := before, x.prefix
	if before == "" {
		key, index = after, x.suffix
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
	if fields = x.exact[name]; fields != nil {
		return fields, ""
	}
	if fields, dim = x.findStart(name); fields != nil {
		return fields, dim
	}
	return x.findEnd(name)
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
