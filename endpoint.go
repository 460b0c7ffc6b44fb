package polite

import (
	"cmp"
	"hash/maphash"
	"net/http"
	"strings"
)

// endpoint is a fingerprint of what a server is likely to count together: the
// method, the path without the parts that only say which one, and the names of
// the query's parameters.
type endpoint uint64

var endpointSeed = maphash.MakeSeed()

// maxNames bounds the parameters that are looked at.
const maxNames = 16

func endpointOf(req *http.Request) endpoint {
	hash := maphash.String(endpointSeed, cmp.Or(req.Method, http.MethodGet))
	for rest, more := req.URL.Path, true; more; {
		var part string
		part, rest, more = strings.Cut(rest, "/")
		if isID(part) {
			part = "0"
		}
		hash = hash*31 + maphash.String(endpointSeed, part)
	}
	var names [maxNames]uint64
	n := 0
next:
	for rest := req.URL.RawQuery; rest != "" && n < maxNames; {
		var pair string
		pair, rest, _ = strings.Cut(rest, "&")
		name, _, _ := strings.Cut(pair, "=")
		h := maphash.String(endpointSeed, name)
		for _, known := range names[:n] {
			if h == known {
				continue next
			}
		}
		names[n] = h
		n++
		hash += h // in any order
	}
	return endpoint(hash)
}

// isID reports whether a part of a path only says which one of many: digits, or
// something long with several digits in it, such as a UUID, a hash, a date or
// caf_00001.
func isID(part string) bool {
	digits := 0
	for i := range len(part) {
		if part[i] >= '0' && part[i] <= '9' {
			digits++
		}
	}
	return digits > 0 && (digits == len(part) || digits >= 3 && len(part) >= 8)
}
