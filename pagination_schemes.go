package polite

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Scheme says how a server names its pages. The schemes are [OffsetPages],
// [NumberedPages], [CursorPages] and [LinkPages]. Their URL is absolute, http or
// https; its own query is kept on every page. Userinfo in it is sent as Basic
// credentials to that origin.
type Scheme interface {
	route() (*route, error)
}

// OffsetPages are pages that begin after a number of items:
// ?limit=100&offset=200. The walk advances by the items that arrive, since
// servers may send fewer than asked, and ends when it reaches the total that
// the pages tell, or with an empty page. A page that is the same as the one
// before, as from a server that calls the offset otherwise, is ErrPageLoop.
type OffsetPages struct {
	URL         string
	Size        int    // items to ask for per page; 0 means 100, negative is an error
	OffsetParam string // query parameter; "" means "offset"
	LimitParam  string // query parameter; "" means "limit"
}

// NumberedPages are pages with numbers: ?page=3&per_page=100. The walk ends
// with the last page if the pages tell their number, when it reaches the total
// if they tell that, or with an empty page. A page that is the same as the one
// before, as from a server that calls the number otherwise, is ErrPageLoop.
type NumberedPages struct {
	URL       string
	Size      int    // items to ask for per page; 0 means 100, negative is an error
	PageParam string // query parameter; "" means "page"
	SizeParam string // query parameter; "" means "per_page"
	ZeroBased bool   // the first page is number 0, not 1
}

// CursorPages are pages that each tell a token for the next one, Batch.Next.
// The first request has no cursor, unless the URL has one. The walk ends with
// the page that tells none; an empty page does not end it.
type CursorPages struct {
	URL         string
	Size        int    // items to ask for per page; 0 does not ask, negative is an error
	CursorParam string // query parameter; "" means "cursor"
	LimitParam  string // query parameter; "" means "limit"
}

// LinkPages are pages that link to the next one: with Batch.Next, or else with
// rel="next" in the Link header (RFC 8288). A link is resolved against its
// page's URL and followed within the first page's origin, and to
// Pager.AllowOrigins. The walk ends with the page that has no such link; an
// empty page does not end it.
type LinkPages struct {
	URL string
}

func (s OffsetPages) route() (*route, error) {
	r := &route{kind: byOffset, size: cmp.Or(s.Size, 100), atParam: cmp.Or(s.OffsetParam, "offset"), sizeParam: cmp.Or(s.LimitParam, "limit")}
	return r, r.parse(s.URL)
}

func (s NumberedPages) route() (*route, error) {
	r := &route{kind: byNumber, size: cmp.Or(s.Size, 100), atParam: cmp.Or(s.PageParam, "page"), sizeParam: cmp.Or(s.SizeParam, "per_page"), first: 1}
	if s.ZeroBased {
		r.first = 0
	}
	return r, r.parse(s.URL)
}

func (s CursorPages) route() (*route, error) {
	r := &route{kind: byCursor, size: s.Size, atParam: cmp.Or(s.CursorParam, "cursor"), sizeParam: cmp.Or(s.LimitParam, "limit")}
	return r, r.parse(s.URL)
}

func (s LinkPages) route() (*route, error) {
	r := &route{kind: byLink}
	return r, r.parse(s.URL)
}

// pageKind is the way in which a scheme names pages; it is written into
// checkpoints, so the values stay.
type pageKind string

const (
	byOffset pageKind = "offset"
	byNumber pageKind = "number"
	byCursor pageKind = "cursor"
	byLink   pageKind = "link"
)

// route is a validated Scheme: it turns places into URLs and knows which place
// follows another. It does not change after it was made.
type route struct {
	kind      pageKind
	base      *url.URL      // the scheme's URL without userinfo and fragment
	user      *url.Userinfo // what stood in the URL
	size      int           // items to ask for; 0 = not asked
	first     int           // number of the first page
	atParam   string
	sizeParam string
	allowed   []hostKey // other origins that links may lead to
}

// place names one page, and how many of its items are already delivered.
type place struct {
	at    int    // offset or page number
	token string // cursor or absolute link; "" is the first page
	skip  int    // items of the page to leave out; 0 with offsets, which count items themselves
	end   bool   // after the last page
}

// mark is a place and what stands before its page.
type mark struct {
	place
	passed int    // items
	before uint64 // imprint of the page before, or of the one that an offset cuts; 0 = not known
}

// parse reads the scheme's URL and checks the rest of the scheme.
func (r *route) parse(rawURL string) error {
	u, err := url.Parse(rawURL)
	if err != nil {
		return fmt.Errorf("%w: URL: %w", ErrBadPager, withoutURL(err))
	}
	if !isWeb(u) {
		return fmt.Errorf("%w: URL is not an absolute http or https URL", ErrBadPager)
	}
	if r.size < 0 {
		return fmt.Errorf("%w: page size %d is negative", ErrBadPager, r.size)
	}
	if r.kind != byLink && r.atParam == r.sizeParam {
		return fmt.Errorf("%w: two parameters have the name %q", ErrBadPager, r.atParam)
	}
	r.user, u.User = u.User, nil
	u.Fragment, u.RawFragment = "", ""
	r.base = u
	return nil
}

// start is the mark of the first page.
func (r *route) start() mark { return mark{place: place{at: r.first}} }

// counted reports whether pages are named by numbers, so that the walk's end is
// found by counting and any page can be asked for at any time.
func (r *route) counted() bool { return r.kind == byOffset || r.kind == byNumber }

// target is the URL of the page at p.
func (r *route) target(p place) *url.URL {
	u := *r.base
	switch {
	case r.kind == byLink && p.token != "":
		// Links were parsed when they were found, and so were those of checkpoints.
		if link, err := url.Parse(p.token); err == nil {
			return link
		}
	case r.counted():
		u.RawQuery = withParam(u.RawQuery, r.atParam, strconv.Itoa(p.at))
	case p.token != "":
		u.RawQuery = withParam(u.RawQuery, r.atParam, p.token)
	}
	if r.size > 0 {
		u.RawQuery = withParam(u.RawQuery, r.sizeParam, strconv.Itoa(r.size))
	}
	return &u
}

// within is the mark after the first n items of the page at m, which has that
// imprint.
func (r *route) within(m mark, n int, imprint uint64) mark {
	switch {
	case r.kind != byOffset:
		m.skip = n
		return m
	case n == 0: // the page itself is yet to come
		return m
	}
	return mark{place{at: m.at + n}, m.passed + n, imprint}
}

// sighting is what a page tells about the way on.
type sighting struct {
	items  int // on the page
	next   string
	header http.Header
	url    *url.URL // the page's own, after redirects
}

// maxNext is the longest cursor or link that is followed. Servers read request
// lines of some 8 KiB; what a hostile one sends beyond would be sent and stored
// in checkpoints over and over.
const maxNext = 64 << 10

// after is the place that follows p by what its page tells; an error is a link
// that must not be followed. Totals are the walk's business.
func (r *route) after(p place, s sighting) (place, error) {
	next := s.next
	switch {
	case r.kind == byOffset:
		return place{at: p.at + s.items, end: s.items == 0}, nil
	case r.kind == byNumber:
		return place{at: p.at + 1, end: s.items == 0}, nil
	case r.kind == byLink && next == "":
		next = nextLink(s.header)
	}
	switch {
	case next == "":
		return place{end: true}, nil
	case len(next) > maxNext:
		return place{}, fmt.Errorf("%w: it is longer than %d bytes", ErrNextRefused, maxNext)
	case r.kind == byCursor:
		return place{token: next}, nil
	}
	link, err := r.follow(s.url, next)
	if err != nil {
		return place{}, err
	}
	return place{token: link.String()}, nil
}

// fingerprint tells collections apart in checkpoints. It leaves out the port,
// since test servers move, and the size of offset pages, which does not matter.
// Four bytes of a hash say nothing about a random key in the query, though they
// can confirm the guess of a weak one.
func (r *route) fingerprint() string {
	pairs := strings.Split(r.base.RawQuery, "&")
	slices.Sort(pairs)
	size := r.size
	if r.kind == byOffset {
		size = 0
	}
	facts := fmt.Sprintf("%s %s %q %q %d %d", r.kind, strings.ToLower(r.base.Hostname()), r.base.EscapedPath(), pairs, r.first, size)
	sum := sha256.Sum256([]byte(facts))
	return hex.EncodeToString(sum[:4])
}

// withParam sets one parameter of a query and leaves the others as they are
// spelled, in their order.
func withParam(query, name, value string) string {
	var pairs []string
	for pair := range strings.SplitSeq(query, "&") {
		key, _, _ := strings.Cut(pair, "=")
		if decoded, err := url.QueryUnescape(key); pair != "" && (err != nil || decoded != name) {
			pairs = append(pairs, pair)
		}
	}
	pairs = append(pairs, url.QueryEscape(name)+"="+url.QueryEscape(value))
	return strings.Join(pairs, "&")
}

// isWeb reports whether u can be asked for over HTTP.
func isWeb(u *url.URL) bool {
	return (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
}

// withoutURL takes the URL, which may hold secrets, off an error of net/url or
// net/http.
func withoutURL(err error) error {
	if urlErr, ok := err.(*url.Error); ok {
		return urlErr.Err
	}
	return err
}
