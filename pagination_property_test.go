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
	"testing/synctest"
	"time"

	"botigaaroma.example/polite"
	"github.com/stretchr/testify/require"
)

// chaos serves the items 0..total-1 to every scheme, in pages of changing sizes
// if it likes, and fails in every way that a server can.
type chaos struct {
	total     int
	showTotal bool
	ragged    bool    // pages without numbers may be short, and with cursors and links empty
	faults    float64 // how often a request fails

	mu  sync.Mutex
	rng *rand.Rand
	log []string // requests that did not go to api.example with its credentials
}

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
	if req.URL.Host != "api.example" || req.Header.Get("Authorization") != "Bearer s3cr3t" {
		s.mu.Lock()
		s.log = append(s.log, req.URL.String())
		s.mu.Unlock()
	}
	select {
	case <-time.After(time.Duration(s.intN(200)) * time.Millisecond):
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	status, body, header := 200, "", http.Header{}
	var cut error
	switch fault := s.intN(6); {
	case !s.chance(s.faults):
		body = s.page(req, header)
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

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// page depends on the request alone, or no checkpoint could hold. A cursor is
// the offset of the next item, with an x behind an empty page.
func (s *chaos) page(req *http.Request, header http.Header) string {
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
		header.Set("Link", fmt.Sprintf(`</linked?a=1&limit=%d&cursor=%s>; rel="next"`, size, next))
		next = ""
	}
	return page(upTo(from, to), total, next)
}

// disk is what a consumer has stored when it crashes.
type disk struct {
	items      []int
	checkpoint string
}

// consume ranges once and reports whether the walk has come to its end. It may
// crash at any item, and loses what it did not store.
func (d *disk) consume(p *polite.Pager[int], s *chaos) (done bool, err error) {
	items := d.items
	for got, err := range p.Pages(context.Background()) {
		if err != nil {
			var stopped *polite.PageError
			if !errors.As(err, &stopped) || stopped.Items != len(items) {
				return false, fmt.Errorf("after %d items: %w", len(items), err)
			}
			d.items, d.checkpoint = items, stopped.Checkpoint
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

// Random collections, schemes, faults, crashes and resumes: every item arrives
// exactly once, in order, and credentials go to one host only.
func TestPagerDeliversEveryItemExactlyOnceWhateverHappens(t *testing.T) {
	const walks = 700
	for seed := range uint64(walks) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			size := 1 + rng.IntN(9)
			schemes := []polite.Scheme{
				polite.OffsetPages{URL: "https://api.example/v1?a=1", Size: size},
				polite.NumberedPages{URL: "https://api.example/v1?a=1", Size: size},
				polite.CursorPages{URL: "https://api.example/v1?a=1", Size: size},
				polite.LinkPages{URL: "https://api.example/linked?a=1&limit=" + strconv.Itoa(size)},
			}
			scheme := schemes[rng.IntN(len(schemes))]
			s := &chaos{total: rng.IntN(60), showTotal: rng.IntN(3) > 0, ragged: rng.IntN(2) > 0, faults: 0.3 * rng.Float64(), rng: rng}
			p := pagerOf(s, scheme)
			p.Header = http.Header{"Authorization": {"Bearer s3cr3t"}}
			p.Concurrency = rng.IntN(6)

			var stored disk
			for round := 0; ; round++ {
				require.Less(t, round, 500, "seed %d does not come to an end", seed)
				p.Resume = stored.checkpoint
				time.Sleep(time.Duration(round) * time.Second) // the circuit breaker may be open
				done, err := stored.consume(p, s)
				require.NoError(t, err, "seed %d", seed)
				if done {
					break
				}
			}
			require.Equal(t, upTo(0, s.total), stored.items, "seed %d, %T", seed, scheme)
			require.Empty(t, s.log, "seed %d", seed)
		})
	}
}
