package polite

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// follow resolves a link found on the page at from (RFC 3986 section 5), and
// refuses one that leads where the walk must not go. A link within the first
// page's origin comes back with that origin's own spelling.
func (r *route) follow(from *url.URL, ref string) (*url.URL, error) {
	parsed, err := url.Parse(strings.TrimSpace(ref))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNextRefused, withoutURL(err))
	}
	page := *from
	page.User = nil
	next := page.ResolveReference(parsed)
	next.Fragment, next.RawFragment = "", ""
	switch {
	case next.User != nil:
		return nil, fmt.Errorf("%w: it holds userinfo", ErrNextRefused)
	case !isWeb(next):
		return nil, fmt.Errorf("%w: it is not an http or https link", ErrNextRefused)
	case r.home(next):
		next.Scheme, next.Host = r.base.Scheme, r.base.Host
		return next, nil
	}
	for _, origin := range r.allowed {
		if origin == hostKeyOf(next) {
			return next, nil
		}
	}
	return nil, fmt.Errorf("%w: it leads from %s to %s", ErrNextRefused, hostKeyOf(r.base), hostKeyOf(next))
}

// home reports whether u is in the origin of the first page, the only one that
// is sent the caller's headers.
func (r *route) home(u *url.URL) bool { return hostKeyOf(u) == hostKeyOf(r.base) }

// allow reads the other origins that links may lead to.
func (r *route) allow(origins []string) error {
	for _, origin := range origins {
		u, err := url.Parse(origin)
		if err != nil || !isWeb(u) || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
			return fmt.Errorf("%w: an entry of AllowOrigins is not of the form https://host", ErrBadPager)
		}
		r.allowed = append(r.allowed, hostKeyOf(u))
	}
	return nil
}

// nextLink returns the target of the first link with relation "next" in the
// Link header, or "" (RFC 8288 section 3). Links about another context, which
// have an anchor, are left aside, as section 3.2 permits.
func nextLink(h http.Header) string {
	for _, line := range h.Values("Link") {
		for line != "" {
			var l link
			l, line = cutLink(line)
			if l.target != "" && !l.anchored && l.relates("next") {
				return l.target
			}
		}
	}
	return ""
}

// link is one value of a Link header.
type link struct {
	target   string
	rel      string // relation types, separated by spaces
	anchored bool
}

func (l link) relates(to string) bool {
	for rel := range strings.FieldsSeq(l.rel) {
		if strings.EqualFold(rel, to) {
			return true
		}
	}
	return false
}

// cutLink takes the first link off a field value, by the algorithm of RFC 8288
// appendix B.2. A value that is not a link is passed over up to its comma.
func cutLink(s string) (l link, rest string) {
	s = strings.TrimLeft(s, " \t,")
	if !strings.HasPrefix(s, "<") {
		_, rest, _ = strings.Cut(s, ",")
		return link{}, rest
	}
	target, s, closed := strings.Cut(s[1:], ">")
	if !closed {
		return link{}, ""
	}
	l.target = strings.TrimSpace(target)
	hasRel := false
	for {
		var name, value string
		name, value, s = cutLinkParam(s)
		switch {
		case name == "":
			_, rest, _ = strings.Cut(s, ",")
			return l, rest
		case strings.EqualFold(name, "anchor"):
			l.anchored = true
		case strings.EqualFold(name, "rel") && !hasRel: // only the first counts, section 3.3
			l.rel, hasRel = value, true
		}
	}
}

// cutLinkParam takes `; name="value"` off the rest of a link. An empty name
// means that there is no further parameter.
func cutLinkParam(s string) (name, value, rest string) {
	s = strings.TrimLeft(s, " \t;") // empty parameters are passed over
	end := strings.IndexAny(s, "=;,")
	if end < 0 {
		return strings.TrimSpace(s), "", ""
	}
	name, s = strings.TrimSpace(s[:end]), s[end:]
	if s[0] != '=' {
		return name, "", s
	}
	s = strings.TrimLeft(s[1:], " \t")
	if strings.HasPrefix(s, `"`) {
		value, rest = cutQuoted(s[1:])
		return cmp.Or(name, "?"), value, rest
	}
	end = strings.IndexAny(s, ";,")
	if end < 0 {
		end = len(s)
	}
	return cmp.Or(name, "?"), strings.TrimSpace(s[:end]), s[end:]
}

// cutQuoted takes a quoted string off s, whose opening quote is gone already
// (RFC 9110 section 5.6.4).
func cutQuoted(s string) (value, rest string) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:]
		case '\\':
			if i++; i == len(s) {
				return b.String(), ""
			}
		}
		b.WriteByte(s[i])
	}
	return b.String(), ""
}
