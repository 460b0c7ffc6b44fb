package polite

import "hash/maphash"

// recent remembers at least the last recentKeys values and at most twice as
// many; what is older is forgotten.
type recent[K comparable] struct {
	now, before map[K]struct{}
}

const recentKeys = 1 << 16

func newRecent[K comparable]() *recent[K] { return &recent[K]{now: map[K]struct{}{}} }

// add reports whether k was not known, and remembers it.
func (r *recent[K]) add(k K) bool {
	_, now := r.now[k]
	_, before := r.before[k]
	if len(r.now) >= recentKeys && !now {
		r.before, r.now = r.now, map[K]struct{}{}
	}
	r.now[k] = struct{}{}
	return !now && !before
}

var pageSeed = maphash.MakeSeed()

// hash is a hash of the page's URL, by which walks know where they have been.
func (r *route) hash(p place) uint64 {
	return maphash.String(pageSeed, r.target(p).String())
}
