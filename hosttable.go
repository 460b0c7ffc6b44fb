package polite

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
)

// hostKey identifies a host, which is an origin (RFC 9110 section 4.3.1): scheme,
// name and port, in normal form.
type hostKey struct{ scheme, host string }

// hostKeyOf normalises as RFC 9110 section 4.2.3 does: names without case, the
// default port and an empty one left out.
func hostKeyOf(u *url.URL) hostKey {
	k := hostKey{strings.ToLower(u.Scheme), strings.ToLower(u.Host)}
	port := ":"
	switch {
	case strings.HasSuffix(k.host, ":"): // an empty one
	case k.scheme == "http":
		port = ":80"
	case k.scheme == "https":
		port = ":443"
	}
	k.host = strings.TrimSuffix(k.host, port)
	return k
}

func (k hostKey) String() string { return k.scheme + "://" + k.host }

// hostTable is the bounded memory of hosts, the least recently used one
// forgotten first. A forgotten state lives on in the calls that hold it; what
// it learned is learned again.
type hostTable struct {
	opts     *Options
	dialects *dialects

	mu    sync.Mutex
	byKey map[hostKey]*hostState
	edge  hostState // ring: edge.newer is the oldest, edge.older the newest
}

func newHostTable(o *Options, d *dialects) *hostTable {
	t := &hostTable{opts: o, dialects: d, byKey: make(map[hostKey]*hostState)}
	t.edge.older, t.edge.newer = &t.edge, &t.edge
	return t
}

// of returns the state of the URL's host, new or remembered.
func (t *hostTable) of(u *url.URL) *hostState {
	t.mu.Lock()
	defer t.mu.Unlock()
	if newest := t.edge.older; newest.key == (hostKey{u.Scheme, u.Host}) { // as most URLs are, in normal form
		return newest
	}
	key := hostKeyOf(u)
	h := t.byKey[key]
	switch {
	case h == nil:
		h = newHostState(key, t.opts, t.dialects.host(key.host))
		t.byKey[key] = h
		if t.opts.MaxHosts > 0 && len(t.byKey) > t.opts.MaxHosts {
			oldest := t.edge.newer
			t.unlinkLocked(oldest)
			delete(t.byKey, oldest.key)
		}
	case t.edge.older == h:
		return h
	default:
		t.unlinkLocked(h)
	}
	h.older, h.newer = t.edge.older, &t.edge
	h.older.newer, h.newer.older = h, h
	return h
}

func (t *hostTable) unlinkLocked(h *hostState) {
	h.older.newer, h.newer.older = h.newer, h.older
}

// snapshot returns the states remembered, most recently used first.
func (t *hostTable) snapshot() []*hostState {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*hostState
	for h := t.edge.older; h != &t.edge; h = h.older {
		all = append(all, h)
	}
	return all
}

// HostStats is a moment's view of one host.
type HostStats struct {
	InFlight    int          // requests under way, bodies included
	Waiting     int          // calls that wait for admission
	Breaker     BreakerState // BreakerClosed where there is none
	ClosedUntil time.Time    // end of the wait that the server asked everybody for; zero or past: open
	Quotas      []Quota      // what was last understood of the quotas of requests without a quota key, by policy and limit
}

func (h *hostState) stats() HostStats {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := HostStats{InFlight: h.slots, Waiting: h.waiting, ClosedUntil: later(h.gate.until, h.lane.gate.until)}
	if h.breaker != nil {
		s.Breaker = h.breaker.state()
	}
	s.Quotas = h.lane.quotas(nil)
	for key, l := range h.lanes {
		if key.learned() {
			s.Quotas = l.quotas(s.Quotas)
		}
	}
	slices.SortFunc(s.Quotas, func(a, b Quota) int {
		return cmp.Or(strings.Compare(a.Policy, b.Policy), cmp.Compare(a.Limit, b.Limit))
	})
	return s
}

// Hosts iterates over the hosts remembered, by scheme://host:port, the most
// recently used first.
func (t *Transport) Hosts() iter.Seq2[string, HostStats] {
	t.made.Do(t.make)
	return t.hosts.hosts()
}

// hosts yields a view of every host, most recently used first.
func (t *hostTable) hosts() iter.Seq2[string, HostStats] {
	return func(yield func(string, HostStats) bool) {
		for _, h := range t.snapshot() {
			if !yield(h.key.String(), h.stats()) {
				return
			}
		}
	}
}

// checkRequest refuses what net/http would refuse, before anything is counted.
func checkRequest(req *http.Request) error {
	switch {
	case req.URL == nil:
		return errors.New("polite: request without a URL; not sent")
	case req.URL.Host == "" && req.URL.Scheme != "http" && req.URL.Scheme != "https": // localhost is one in "localhost:8080/x"
		return errors.New("polite: request URL without a host (is http:// missing?); not sent")
	case req.URL.Host == "":
		return errors.New("polite: request URL without a host; not sent")
	case strings.IndexByte(req.URL.Host, '@') >= 0: // a URL made by hand
		return errors.New("polite: request URL with userinfo in its Host; not sent")
	case strings.ContainsFunc(req.URL.Host, unicode.IsControl):
		return errors.New("polite: request URL with a control character in its host; not sent")
	case len(req.URL.Scheme)+len(req.URL.Host) > maxOrigin:
		return fmt.Errorf("polite: request URL with more than %d bytes of scheme and host; not sent", maxOrigin)
	}
	return nil
}

// maxOrigin bounds what is kept and told of a host. A server may redirect to any
// name; those that exist have 255 bytes at most (RFC 3986 section 3.2.2).
const maxOrigin = 1000
