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
	hash := pathHash(maphash.String(endpointSeed, cmp.Or(req.Method, http.MethodGet)), req.URL.Path)
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

// pathHash folds a path into a fingerprint. All of its parts that are IDs count
// as one.
func pathHash(hash uint64, path string) uint64 {
	if !hasID(path) {
		return hash*31 + maphash.String(endpointSeed, path)
	}
	for rest, more := path, true; more; {
		var part string
		part, rest, more = strings.Cut(rest, "/")
		if hasID(part) {
			part = "0"
		}
		hash = hash*31 + maphash.String(endpointSeed, part)
	}
	return hash
}

// hasID reports whether a part of a path only says which one of many: digits, or
// something long with several digits in it, such as a UUID, a hash, a date or
// caf_00001.
func hasID(path string) bool {
	digits, from := 0, 0
	for i := 0; i <= len(path); i++ {
		switch {
		case i == len(path), path[i] == '/':
			if length := i - from; digits > 0 && (digits == length || digits >= 3 && length >= 8) {
				return true
			}
			digits, from = 0, i+1
		case isDigit(path[i]):
			digits++
		}
	}
	return false
}
