package polite_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"botigaaroma.example/polite"
	"github.com/stretchr/testify/require"
)

// chaos serves the items 0..total-1 to every scheme, in pages of changing sizes
// if it likes, and fails in every way that a server can.
type chaos struct {
	total     int
	showTotal bool
	ragged    bool                           // pages without numbers may be short, and with cursors and links empty
	faults    float64                        // how often a request fails
	redirects bool                           // to the other origin, now and then
	links     string                         // "": all lead home; "allowed": some lead to the other origin; "refused": those of the second half
	pages     func(req *http.Request) string // instead of page

	mu      sync.Mutex
	rng     *rand.Rand
	foreign int             // requests to the other origin
	astray  []string        // requests with credentials where they do not belong, or without where they do
	served  map[string]bool // URLs of whole pages, in this walk
	again   []string        // those that were served twice in one
}

const ownHost, otherHost = "api.example", "other.example"

func (s *chaos) chance(p float64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.Float64() < p
}

func (s *chaos) intN(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}

func (s *chaos) RoundTrip(req *http.Request) (*http.Response, error) {
	s.look(req)
	select {
	case <-time.After(time.Duration(s.intN(200)) * time.Millisecond):
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	status, body, header := 200, "", http.Header{}
	var cut error
	switch fault := s.intN(6); {
	case s.redirects && req.URL.Host == ownHost && s.chance(0.2):
		status = 307
		header.Set("Location", "https://"+otherHost+req.URL.RequestURI())
	case !s.chance(s.faults):
		body = s.page(req, header)
		s.serve(req)
	case fault == 0:
		return nil, errors.New("connection reset")
	case fault == 1:
		status, body = 503, "{}"
	case fault == 2:
		status, body = 429, "{}"
		header.Set("Retry-After", strconv.Itoa(1+s.intN(3)))
	case fault == 3:
		status, body = 403, "{}" // not retried: ends the walk
	case fault == 4:
		body, cut = s.page(req, header), errors.New("body reset")
	default:
		body, cut = s.page(req, header), io.ErrUnexpectedEOF
	}
	size := int64(len(body))
	var reader io.Reader = strings.NewReader(body)
	if cut != nil {
		reader = io.MultiReader(strings.NewReader(body[:len(body)/2]), failing{cut})
	}
	return &http.Response{
		StatusCode: status, Status: strconv.Itoa(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Request: req, Body: io.NopCloser(reader), ContentLength: size,
	}, nil
}

// look notes who is asked, and whether credentials came along.
func (s *chaos) look(req *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	credentials := req.Header.Get("Authorization") + req.Header.Get("X-Api-Key")
	switch {
	case req.URL.Host == ownHost && credentials == "Bearer s3cr3tk3y":
		return
	case req.URL.Host == otherHost && credentials == "" && (s.redirects || s.links == "allowed"):
		s.foreign++
		return
	}
	s.astray = append(s.astray, req.URL.String())
}

// serve notes that a whole page is sent.
func (s *chaos) serve(req *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.served[req.URL.RequestURI()] {
		s.again = append(s.again, req.URL.String())
	}
	s.served[req.URL.RequestURI()] = true
}

// walk begins a new one.
func (s *chaos) walk() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served = make(map[string]bool)
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// page depends on the request alone, or no checkpoint could hold. A cursor is
// the offset of the next item, with an x behind an empty page.
func (s *chaos) page(req *http.Request, header http.Header) string {
	if s.pages != nil {
		return s.pages(req)
	}
	q := req.URL.Query()
	size := max(intParam(req, "limit"), intParam(req, "per_page"))
	cursor, again := strings.CutSuffix(q.Get("cursor"), "x")
	from, _ := strconv.Atoi(cursor + q.Get("offset"))
	if q.Has("page") {
		from = (intParam(req, "page") - 1) * size
	}
	to := min(from+size, s.total)
	next := strconv.Itoa(to)
	if s.ragged && from < to && !q.Has("page") {
		to = min(to, from+1+from*7%size)
		next = strconv.Itoa(to)
		if from%3 == 0 && !again && !q.Has("offset") {
			to, next = from, fmt.Sprint(from, "x")
		}
	}
	total := -1
	if s.showTotal {
		total = s.total
	}
	switch {
	case to >= s.total:
		next = ""
	case req.URL.Path == "/linked":
		header.Set("Link", fmt.Sprintf(`<%s/linked?a=1&limit=%d&cursor=%s>; rel="next"`, s.origin(from), size, next))
		next = ""
	}
	return page(upTo(from, to), total, next)
}

// origin is where the link on the page from that offset leads.
func (s *chaos) origin(from int) string {
	switch {
	case s.links == "allowed" && from%2 > 0, s.links == "refused" && from >= s.total/2:
		return "https://" + otherHost
	case s.redirects || s.links == "allowed": // a relative link leads to whom it came from
		return "https://" + ownHost
	}
	return ""
}

// disk is what a consumer has stored when it crashes.
type disk struct {
	items      []int
	checkpoint string
	stopped    error // what ended the last walk, if it was neither its end nor a crash
}

// consume ranges once and reports whether the walk has come to its end. It may
// crash at any item, and loses what it did not store.
func (d *disk) consume(p *polite.Pager[int], s *chaos) (done bool, err error) {
	items := d.items
	d.stopped = nil
	s.walk()
	for got, err := range p.Pages(context.Background()) {
		if err != nil {
			var stopped *polite.PageError
			if !errors.As(err, &stopped) || stopped.Items != len(items) {
				return false, fmt.Errorf("after %d items: %w", len(items), err)
			}
			d.items, d.checkpoint, d.stopped = items, stopped.Checkpoint, stopped.Err
			return false, nil
		}
		for i, item := range got.Items {
			items = append(items, item)
			if s.chance(0.1) {
				d.items, d.checkpoint = items, got.CheckpointAfter(i+1)
			}
			if s.chance(0.02) {
				return false, nil
			}
		}
		if s.chance(0.5) {
			d.items, d.checkpoint = items, got.CheckpointAfter(len(got.Items))
		}
	}
	d.items = items
	return true, nil
}

// persist ranges until the walk has come to its end, or to an error that a
// resumption would only meet again.
func (d *disk) persist(t *testing.T, p *polite.Pager[int], s *chaos, final error) (done bool) {
	for round := range 500 {
		p.Resume = d.checkpoint
		time.Sleep(time.Duration(round) * time.Second) // the circuit breaker may be open
		done, err := d.consume(p, s)
		require.NoError(t, err)
		if done || errors.Is(d.stopped, final) {
			return done
		}
	}
	require.Fail(t, "it does not come to an end")
	return false
}

// credentialed is a pager with two secrets.
func credentialed(s *chaos, scheme polite.Scheme) *polite.Pager[int] {
	p := pagerOf(s, scheme)
	p.Header = http.Header{"Authorization": {"Bearer s3cr3t"}, "X-Api-Key": {"k3y"}}
	return p
}

// Random collections, schemes, faults, crashes and resumes, redirects and links
// to another origin: every item arrives exactly once, in order, and credentials
// go to one origin only.
func TestPagerDeliversEveryItemExactlyOnceWhateverHappens(t *testing.T) {
	var items, foreign, refused int
	randomly(t, 500, 10_000, 20, func(t *testing.T, rng *rand.Rand) {
		size := 1 + rng.IntN(9)
		schemes := []polite.Scheme{
			polite.OffsetPages{URL: "https://api.example/v1?a=1", Size: size},
			polite.NumberedPages{URL: "https://api.example/v1?a=1", Size: size},
			polite.CursorPages{URL: "https://api.example/v1?a=1", Size: size},
			polite.LinkPages{URL: "https://api.example/linked?a=1&limit=" + strconv.Itoa(size)},
		}
		scheme := schemes[rng.IntN(len(schemes))]
		s := &chaos{total: rng.IntN(60), showTotal: rng.IntN(3) > 0, ragged: rng.IntN(2) > 0, faults: 0.3 * rng.Float64(), rng: rng}
		p := credentialed(s, scheme)
		p.Concurrency = rng.IntN(6)
		_, linked := scheme.(polite.LinkPages)
		switch {
		case linked && rng.IntN(2) == 0:
			s.links = []string{"allowed", "refused"}[rng.IntN(2)]
			if s.links == "allowed" {
				p.AllowOrigins = []string{"https://" + otherHost}
			}
		case rng.IntN(3) == 0:
			s.redirects = true
		}

		var stored disk
		if stored.persist(t, p, s, polite.ErrNextRefused) {
			require.Equal(t, upTo(0, s.total), stored.items, "%T", scheme)
		} else {
			require.Equal(t, "refused", s.links)
			require.Equal(t, upTo(0, len(stored.items)), stored.items)
			require.Zero(t, s.foreign)
			refused++
		}
		require.Empty(t, s.astray)
		items += len(stored.items)
		foreign += s.foreign
	})
	t.Logf("%d items, each once; %d requests to the other origin, without credentials; %d walks refused to go there", items, foreign, refused)
}

// A collection whose pages go in a circle of one to five, behind some that do
// not, with the same faults, crashes and resumes: no walk asks for a page twice.
func TestPagerStopsACircleWithinOneLapWhateverHappens(t *testing.T) {
	var pages int
	randomly(t, 300, 10_000, 50, func(t *testing.T, rng *rand.Rand) {
		lead, length := rng.IntN(6), 1+rng.IntN(5)
		param := []string{"", "cursor"}[rng.IntN(2)]
		s := &chaos{faults: 0.3 * rng.Float64(), rng: rng, pages: func(req *http.Request) string {
			n := intParam(req, "cursor")
			next := strconv.Itoa(n + 1)
			if n+1 >= lead+length {
				next = strconv.Itoa(lead)
			}
			if param == "" {
				next = "https://api.example/v1?a=1&cursor=" + next
			}
			return page([]int{n}, -1, next)
		}}
		var scheme polite.Scheme = polite.LinkPages{URL: "https://api.example/v1?a=1"}
		if param != "" {
			scheme = polite.CursorPages{URL: "https://api.example/v1?a=1"}
		}
		var stored disk
		require.False(t, stored.persist(t, credentialed(s, scheme), s, polite.ErrPageLoop))
		require.Empty(t, s.again, "%T, %d pages and a circle of %d", scheme, lead, length)
		require.Empty(t, s.astray)
		require.LessOrEqual(t, len(s.served), lead+length+1, "the first page has a URL of its own")
		pages += len(s.served)
	})
	t.Logf("%d pages in the walks that found the circle", pages)
}
