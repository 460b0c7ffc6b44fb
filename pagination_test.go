package polite_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// reply is what a pageServer answers; status 0 means 200.
type reply struct {
	status int
	links  []string // values of Link
	to     string   // Location
	body   string
}

// pageServer is an http.RoundTripper that answers by a function and remembers
// what it was asked.
type pageServer struct {
	latency time.Duration
	answer  func(n int, req *http.Request) reply // n counts the requests, from 0

	mu       sync.Mutex
	requests []*http.Request
	current  int
	most     int // requests at once
}

func (s *pageServer) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	n := len(s.requests)
	s.requests = append(s.requests, req)
	s.current++
	s.most = max(s.most, s.current)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.current--
		s.mu.Unlock()
	}()
	select {
	case <-req.Context().Done():
		return nil, req.Context().Err()
	case <-time.After(s.latency):
	}
	r := s.answer(n, req)
	if r.status == 0 {
		r.status = 200
	}
	return &http.Response{
		StatusCode: r.status, Status: strconv.Itoa(r.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Link": r.links, "Location": {r.to}}, Request: req,
		Body: io.NopCloser(strings.NewReader(r.body)), ContentLength: int64(len(r.body)),
	}, nil
}

// asked is the URLs of all requests.
func (s *pageServer) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	urls := make([]string, len(s.requests))
	for i, req := range s.requests {
		urls[i] = req.URL.String()
	}
	return urls
}

// values is one query parameter of all requests.
func (s *pageServer) values(name string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	values := make([]string, len(s.requests))
	for i, req := range s.requests {
		values[i] = req.URL.Query().Get(name)
	}
	return values
}

// script answers the requests in order; one beyond the last gets a 400.
func script(replies ...reply) *pageServer {
	return &pageServer{answer: func(n int, _ *http.Request) reply {
		if n >= len(replies) {
			return reply{status: 400, body: "the script has ended"}
		}
		return replies[n]
	}}
}

// rows serves the items 0..total-1 by offset, at most clamp of them at once.
func rows(total, clamp int) *pageServer {
	return &pageServer{answer: func(_ int, req *http.Request) reply {
		offset, limit := intParam(req, "offset"), min(intParam(req, "limit"), clamp)
		return reply{body: page(upTo(offset, min(offset+limit, total)), total, "")}
	}}
}

func intParam(req *http.Request, name string) int {
	n, _ := strconv.Atoi(req.URL.Query().Get(name))
	return n
}

// upTo is from, from+1, ..., to-1.
func upTo(from, to int) []int {
	var items []int
	for i := from; i < to; i++ {
		items = append(items, i)
	}
	return items
}

// page is a page's JSON; a total of -1 and an empty next are left out.
func page(items []int, total int, next string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"items":[%s]`, strings.Trim(strings.ReplaceAll(fmt.Sprint(items), " ", ","), "[]"))
	if total >= 0 {
		fmt.Fprintf(&b, `,"total":%d`, total)
	}
	if next != "" {
		fmt.Fprintf(&b, `,"next":%q`, next)
	}
	return b.String() + "}"
}

const pagesURL = "https://api.example/v1/items"

var pageFields = polite.PageFields{Items: "items", Total: "total", Pages: "total_pages", Next: "next"}

func pagerOf(s http.RoundTripper, scheme polite.Scheme) *polite.Pager[int] {
	return &polite.Pager[int]{Client: polite.New(&polite.Options{Base: s}), Scheme: scheme, Decode: polite.JSONPage[int](pageFields)}
}

// collect returns the items of a walk and the error that ended it.
func collect[T any](p *polite.Pager[T]) (items []T, err error) {
	for item, err := range p.Items(context.Background()) {
		if err != nil {
			return items, err
		}
		items = append(items, item)
	}
	return items, nil
}

// stop returns err as a *PageError.
func stop(t *testing.T, err error) *polite.PageError {
	t.Helper()
	var stopped *polite.PageError
	require.ErrorAs(t, err, &stopped)
	return stopped
}

// The walk steps by what came, not by what was asked for.
//
// Case C105.
func TestPagerStepsByTheItemsThatArrive(t *testing.T) {
	s := rows(1200, 500)
	items, err := collect(pagerOf(s, polite.OffsetPages{URL: pagesURL, Size: 1000}))
	require.NoError(t, err)
	assert.Equal(t, upTo(0, 1200), items)
	assert.Equal(t, []string{"0", "500", "1000"}, s.values("offset"))
	assert.Equal(t, []string{"1000", "1000", "1000"}, s.values("limit"))
}

func TestPagerWithoutATotalEndsWithAnEmptyPage(t *testing.T) {
	s := script(reply{body: `{"items":[1,2,3]}`}, reply{body: `{"items":[4]}`}, reply{body: `{"items":[]}`})
	items, err := collect(pagerOf(s, polite.OffsetPages{URL: pagesURL, Size: 3}))
	require.NoError(t, err)
	assert.Equal(t, []int{1, 2, 3, 4}, items)
	assert.Equal(t, []string{"0", "3", "4"}, s.values("offset"))
}

func TestPagerAsksForNoEmptyPageWhenTheTotalIsKnown(t *testing.T) {
	s := rows(200, 100)
	items, err := collect(pagerOf(s, polite.OffsetPages{URL: pagesURL}))
	require.NoError(t, err)
	assert.Len(t, items, 200)
	assert.Len(t, s.asked(), 2)
}

func TestPagerOverAnEmptyCollectionAsksOnce(t *testing.T) {
	s := rows(0, 100)
	for p, err := range pagerOf(s, polite.OffsetPages{URL: pagesURL}).Pages(t.Context()) {
		require.NoError(t, err)
		assert.Empty(t, p.Items)
		assert.Equal(t, polite.Progress{Items: 0, Total: 0}, p.Progress)
	}
	assert.Len(t, s.asked(), 1)
}

func TestPagerKeepsTheQueryOfItsURLAsSpelled(t *testing.T) {
	s := rows(3, 2)
	_, err := collect(pagerOf(s, polite.OffsetPages{URL: pagesURL + "?q=a+b%2Cc;d&limit=7&z#top", Size: 2}))
	require.NoError(t, err)
	assert.Equal(t, []string{
		pagesURL + "?q=a+b%2Cc;d&z&offset=0&limit=2",
		pagesURL + "?q=a+b%2Cc;d&z&offset=2&limit=2",
	}, s.asked())
}

// A short page in the middle is not the end when the number of pages is known.
//
// Case C107.
func TestPagerGoesOnAfterAShortPageWhenTheNumberOfPagesIsKnown(t *testing.T) {
	counts := []int{100, 49, 100, 51}
	s := &pageServer{answer: func(_ int, req *http.Request) reply {
		n := intParam(req, "page")
		items := slices.Repeat([]int{n}, counts[n-1])
		return reply{body: strings.Replace(page(items, -1, ""), "{", `{"total_pages":4,`, 1)}
	}}
	for _, concurrency := range []int{1, 3} {
		p := pagerOf(s, polite.NumberedPages{URL: pagesURL})
		p.Concurrency = concurrency
		items, err := collect(p)
		require.NoError(t, err)
		assert.Len(t, items, 300)
	}
	assert.Len(t, s.asked(), 8)
	assert.Equal(t, []string{"1", "2", "3", "4"}, s.values("page")[:4])
}

func TestPagerGoesOnAfterAShortPageWhenTheTotalIsKnown(t *testing.T) {
	s := script(reply{body: page(upTo(0, 3), 7, "")}, reply{body: page(upTo(3, 4), 7, "")}, reply{body: page(upTo(4, 7), 7, "")})
	items, err := collect(pagerOf(s, polite.OffsetPages{URL: pagesURL, Size: 3}))
	require.NoError(t, err)
	assert.Equal(t, upTo(0, 7), items)
	assert.Equal(t, []string{"0", "3", "4"}, s.values("offset"))
}

func TestNumberedPagesMayBeginAtZero(t *testing.T) {
	s := script(reply{body: page([]int{1, 2}, 3, "")}, reply{body: page([]int{3}, 3, "")})
	items, err := collect(pagerOf(s, polite.NumberedPages{URL: pagesURL, Size: 2, ZeroBased: true, SizeParam: "size"}))
	require.NoError(t, err)
	assert.Equal(t, []int{1, 2, 3}, items)
	assert.Equal(t, []string{"0", "1"}, s.values("page"))
	assert.Equal(t, []string{"2", "2"}, s.values("size"))
}

// In cursor mode only the missing token ends the walk.
//
// Case C103.
func TestCursorPagesGoOnAfterAnEmptyPage(t *testing.T) {
	s := script(reply{body: page([]int{1, 2}, -1, "t1")}, reply{body: page(nil, -1, "t2")}, reply{body: page([]int{3}, -1, "")})
	items, err := collect(pagerOf(s, polite.CursorPages{URL: pagesURL}))
	require.NoError(t, err)
	assert.Equal(t, []int{1, 2, 3}, items)
	assert.Equal(t, []string{pagesURL, pagesURL + "?cursor=t1", pagesURL + "?cursor=t2"}, s.asked())
}

func TestCursorPagesEndWithAnEmptyCursor(t *testing.T) {
	for _, end := range []string{`{"items":[1]}`, `{"items":[1],"next":null}`, `{"items":[1],"next":""}`} {
		s := script(reply{body: end})
		items, err := collect(pagerOf(s, polite.CursorPages{URL: pagesURL}))
		require.NoError(t, err, end)
		assert.Equal(t, []int{1}, items)
	}
}

func TestCursorPagesSendTheCursorEncoded(t *testing.T) {
	s := script(reply{body: page([]int{1}, -1, "a&b=/+ ü")}, reply{body: page([]int{2}, -1, "")})
	_, err := collect(pagerOf(s, polite.CursorPages{URL: pagesURL + "?cursor=&x=1", Size: 5}))
	require.NoError(t, err)
	assert.Equal(t, "a&b=/+ ü", s.values("cursor")[1])
	assert.Equal(t, []string{"5", "5"}, s.values("limit"))
	assert.Equal(t, []string{"1", "1"}, s.values("x"))
}

// A cycle of any length is found within one lap.
//
// Case C099.
func TestPagerStopsACycleOfCursorsWithinOneLap(t *testing.T) {
	for length := 1; length <= 5; length++ {
		s := &pageServer{answer: func(n int, _ *http.Request) reply {
			return reply{body: page([]int{n}, -1, fmt.Sprint("c", n%length))}
		}}
		items, err := collect(pagerOf(s, polite.CursorPages{URL: pagesURL}))
		require.ErrorIs(t, err, polite.ErrPageLoop)
		assert.Len(t, items, length+1)
		assert.Len(t, s.asked(), length+1)
	}
}

// A constant handle is an error by default, and a way on by option.
//
// Case C101.
func TestPagerFollowsAConstantCursorOnlyIfRepeatsAreAllowed(t *testing.T) {
	server := func() *pageServer {
		return script(reply{body: page([]int{1}, -1, "h")}, reply{body: page([]int{2}, -1, "h")}, reply{body: page([]int{3}, -1, "")})
	}
	s := server()
	p := pagerOf(s, polite.CursorPages{URL: pagesURL})
	items, err := collect(p)
	require.ErrorIs(t, err, polite.ErrPageLoop)
	assert.Equal(t, []int{1, 2}, items)

	p.AllowRepeats, p.Resume = true, stop(t, err).Checkpoint
	items, err = collect(p)
	require.NoError(t, err)
	assert.Equal(t, []int{3}, items, "the checkpoint stands before the page that was not asked for")

	p = pagerOf(server(), polite.CursorPages{URL: pagesURL})
	p.AllowRepeats = true
	items, err = collect(p)
	require.NoError(t, err)
	assert.Equal(t, []int{1, 2, 3}, items)
}

// Cases C101, C111.
func TestMaxPagesEndsAWalkWithAnErrorAndACheckpoint(t *testing.T) {
	s := &pageServer{answer: func(n int, _ *http.Request) reply { return reply{body: page([]int{n}, -1, "h")} }}
	p := pagerOf(s, polite.CursorPages{URL: pagesURL})
	p.AllowRepeats, p.MaxPages = true, 4
	items, err := collect(p)
	require.ErrorIs(t, err, polite.ErrTooManyPages)
	assert.Equal(t, upTo(0, 4), items)
	assert.Len(t, s.asked(), 4)
	p.Resume = stop(t, err).Checkpoint
	items, _ = collect(p)
	assert.Equal(t, upTo(4, 8), items)
}

func TestMaxPagesBoundsThePrefetch(t *testing.T) {
	s := rows(100, 10)
	p := pagerOf(s, polite.OffsetPages{URL: pagesURL, Size: 10})
	p.MaxPages, p.Concurrency = 3, 8
	items, err := collect(p)
	require.ErrorIs(t, err, polite.ErrTooManyPages)
	assert.Len(t, items, 30)
	assert.Len(t, s.asked(), 3)
}

func TestMaxPagesEqualToTheCollectionIsNoError(t *testing.T) {
	p := pagerOf(rows(30, 10), polite.OffsetPages{URL: pagesURL, Size: 10})
	p.MaxPages = 3
	items, err := collect(p)
	require.NoError(t, err)
	assert.Len(t, items, 30)
}

// A total that is not reached is not a silent hole.
//
// Case C109.
func TestPagerSaysIncompleteWhenTheTotalIsNotReached(t *testing.T) {
	server := func() *pageServer {
		return script(reply{body: page([]int{1, 2}, 5, "t")}, reply{body: page([]int{3}, 5, "")}, reply{body: page([]int{3, 4, 5}, 5, "")})
	}
	p := pagerOf(server(), polite.CursorPages{URL: pagesURL})
	items, err := collect(p)
	require.ErrorIs(t, err, polite.ErrIncomplete)
	assert.Equal(t, []int{1, 2, 3}, items)
	assert.EqualError(t, err, "polite: page 3, after 3 of 5 items: incomplete: the last page has come")

	p.Resume = stop(t, err).Checkpoint // the last page is asked for again: it may have grown
	items, err = collect(p)
	require.NoError(t, err)
	assert.Equal(t, []int{4, 5}, items)

	p = pagerOf(server(), polite.CursorPages{URL: pagesURL})
	p.AllowIncomplete = true
	items, err = collect(p)
	require.NoError(t, err)
	assert.Equal(t, []int{1, 2, 3}, items)
}

// A total that promises too much costs one empty page, not thousands.
//
// Case C111.
func TestPagerStopsAtTheFirstEmptyPageOfAHugeTotal(t *testing.T) {
	s := &pageServer{answer: func(_ int, req *http.Request) reply {
		offset := intParam(req, "offset")
		return reply{body: page(upTo(offset, min(offset+10, 100)), 100000, "")}
	}}
	items, err := collect(pagerOf(s, polite.OffsetPages{URL: pagesURL, Size: 10}))
	require.ErrorIs(t, err, polite.ErrIncomplete)
	assert.Len(t, items, 100)
	assert.Len(t, s.asked(), 11)
}

func TestNumberedPagesThatEndBeforeTheirLastNumberAreIncomplete(t *testing.T) {
	s := script(reply{body: `{"items":[1],"total_pages":3}`}, reply{body: `{"items":[],"total_pages":3}`})
	_, err := collect(pagerOf(s, polite.NumberedPages{URL: pagesURL}))
	require.ErrorIs(t, err, polite.ErrIncomplete)
}

func TestPagerFollowsATotalThatChanges(t *testing.T) {
	for _, c := range []struct {
		name   string
		totals []int
		sizes  []int
	}{
		{"grows", []int{4, 6, 6}, []int{2, 2, 2}},
		{"shrinks", []int{6, 4}, []int{2, 2}},
		{"shrinks below what has come", []int{6, 1}, []int{2, 0}},
		{"shrinks to nothing", []int{6, 0}, []int{2, 0}},
	} {
		var replies []reply
		at := 0
		for i, total := range c.totals {
			replies = append(replies, reply{body: page(upTo(at, at+c.sizes[i]), total, "")})
			at += c.sizes[i]
		}
		items, err := collect(pagerOf(script(replies...), polite.OffsetPages{URL: pagesURL, Size: 2}))
		require.NoError(t, err, c.name)
		assert.Equal(t, upTo(0, at), items, c.name)
	}
}

// Rows inserted in front repeat items; a key drops them.
//
// Case C113.
func TestKeyDropsItemsThatDriftRepeats(t *testing.T) {
	server := func() *pageServer {
		return script(reply{body: page([]int{5, 4, 3}, 5, "")}, reply{body: page([]int{3, 2, 1}, 6, "")})
	}
	items, err := collect(pagerOf(server(), polite.OffsetPages{URL: pagesURL, Size: 3}))
	require.NoError(t, err)
	assert.Equal(t, []int{5, 4, 3, 3, 2, 1}, items)

	p := pagerOf(server(), polite.OffsetPages{URL: pagesURL, Size: 3})
	p.Key = strconv.Itoa
	items, err = collect(p)
	require.NoError(t, err)
	assert.Equal(t, []int{5, 4, 3, 2, 1}, items)
}

func TestCheckpointsCountTheItemsThatKeyDropped(t *testing.T) {
	s := script(
		reply{body: page([]int{5, 4, 3}, 6, "")}, reply{body: page([]int{3, 2, 1}, 6, "")},
		reply{body: page([]int{1}, 6, "")},
	)
	p := pagerOf(s, polite.OffsetPages{URL: pagesURL, Size: 3})
	p.Key = strconv.Itoa
	for got, err := range p.Pages(t.Context()) {
		require.NoError(t, err)
		if got.Number == 2 {
			p.Resume = got.CheckpointAfter(1) // after item 2
		}
	}
	items, err := collect(p)
	require.NoError(t, err)
	assert.Equal(t, []int{1}, items)
	assert.Equal(t, "5", s.values("offset")[2])
}

// A 404 in the middle is an error, whatever is thought of the first page.
//
// Case C115.
func TestPagerTakes404ForEmptyOnlyOnTheFirstPageAndByOption(t *testing.T) {
	missing := reply{status: 404}
	one, two := reply{body: page([]int{1}, -1, "")}, reply{body: page([]int{2}, -1, "")}
	scheme := polite.NumberedPages{URL: pagesURL}

	p := pagerOf(script(one, two, missing), scheme)
	p.EmptyOn404 = true
	items, err := collect(p)
	assert.Equal(t, []int{1, 2}, items)
	var failed *polite.ResponseError
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, 404, failed.StatusCode)

	p = pagerOf(script(missing), scheme)
	_, err = collect(p)
	require.ErrorAs(t, err, &failed)
	p.EmptyOn404, p.Resume = true, stop(t, err).Checkpoint
	p.Client = polite.New(&polite.Options{Base: script(missing)})
	_, err = collect(p)
	require.ErrorAs(t, err, &failed, "a resumed walk has no first page")

	p = pagerOf(script(missing), scheme)
	p.EmptyOn404 = true
	items, err = collect(p)
	require.NoError(t, err)
	assert.Empty(t, items)
}

// A long walk that fails goes on where it failed.
//
// Case C117.
func TestPagerResumesAtThePageThatFailed(t *testing.T) {
	limited := true
	s := &pageServer{answer: func(_ int, req *http.Request) reply {
		n := intParam(req, "cursor")
		if n == 40 && limited {
			return reply{status: 403, body: `{"message":"You have exceeded a secondary rate limit."}`}
		}
		next := strconv.Itoa(n + 1)
		if n == 49 {
			next = ""
		}
		return reply{body: page([]int{n}, -1, next)}
	}}
	p := pagerOf(s, polite.CursorPages{URL: pagesURL})
	items, err := collect(p)
	assert.Equal(t, upTo(0, 40), items)
	stopped := stop(t, err)
	assert.Equal(t, 41, stopped.Page)
	assert.Equal(t, 40, stopped.Items)
	assert.Equal(t, -1, stopped.Total)

	limited = false
	p.Resume = stopped.Checkpoint
	items, err = collect(p)
	require.NoError(t, err)
	assert.Equal(t, upTo(40, 50), items)
}

// An expired cursor is told apart, and restarts are bounded and flagged.
//
// Case C119.
func TestPagerSurfacesAnExpiredCursor(t *testing.T) {
	gone := reply{status: 410, body: `{"continue":"fresh"}`}
	s := script(reply{body: page([]int{1}, -1, "t")}, gone)
	items, err := collect(pagerOf(s, polite.CursorPages{URL: pagesURL}))
	assert.Equal(t, []int{1}, items)
	require.ErrorIs(t, err, polite.ErrCursorExpired)
	var failed *polite.ResponseError
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, 410, failed.StatusCode)
}

// Case C119.
func TestPagerRestartsAfterAnExpiredCursorAsOftenAsAllowed(t *testing.T) {
	first, gone := reply{body: page([]int{1}, -1, "t")}, reply{status: 410}
	p := pagerOf(script(first, gone, first, reply{body: page([]int{2}, -1, "")}), polite.CursorPages{URL: pagesURL})
	p.Restarts = 1
	var items, flags []int
	for got, err := range p.Pages(t.Context()) {
		require.NoError(t, err)
		items, flags = append(items, got.Items...), append(flags, got.Restarts)
	}
	assert.Equal(t, []int{1, 1, 2}, items)
	assert.Equal(t, []int{0, 1, 1}, flags)

	p = pagerOf(script(first, gone, first, gone, first), polite.CursorPages{URL: pagesURL})
	p.Restarts, p.Key = 1, strconv.Itoa
	items, err := collect(p)
	assert.Equal(t, []int{1}, items, "the key drops what a restart repeats")
	require.ErrorIs(t, err, polite.ErrCursorExpired)
}

// Case C119.
func TestMaxPagesBoundsTheRestarts(t *testing.T) {
	s := &pageServer{answer: func(_ int, req *http.Request) reply {
		if req.URL.Query().Has("cursor") {
			return reply{status: 410}
		}
		return reply{body: page([]int{1}, -1, "t")}
	}}
	p := pagerOf(s, polite.CursorPages{URL: pagesURL})
	p.Restarts, p.MaxPages = 1000, 6
	_, err := collect(p)
	require.ErrorIs(t, err, polite.ErrTooManyPages)
	assert.Len(t, s.asked(), 6)
}

// Looking and breaking does not use anything up.
//
// Case C121.
func TestPagerBeginsAnewWithEveryRange(t *testing.T) {
	s := rows(25, 10)
	p := pagerOf(s, polite.OffsetPages{URL: pagesURL, Size: 10})
	p.Concurrency = 2
	for item, err := range p.Items(t.Context()) {
		require.NoError(t, err)
		if item == 12 {
			break
		}
	}
	for range 2 {
		items, err := collect(p)
		require.NoError(t, err)
		assert.Equal(t, upTo(0, 25), items)
	}
}

func TestPagerResumesInTheMiddleOfAPage(t *testing.T) {
	schemes := map[string]polite.Scheme{
		"offset": polite.OffsetPages{URL: pagesURL, Size: 4},
		"number": polite.NumberedPages{URL: pagesURL, Size: 4},
		"cursor": polite.CursorPages{URL: pagesURL, Size: 4},
		"link":   polite.LinkPages{URL: "https://api.example/linked?limit=4"},
	}
	for name, scheme := range schemes {
		s := &pageServer{answer: fourWays(10)}
		for after := range 11 {
			p := pagerOf(s, scheme)
			for got, err := range p.Pages(t.Context()) {
				require.NoError(t, err, name)
				if before := got.Progress.Items - len(got.Items); before <= after && after <= got.Progress.Items {
					p.Resume = got.CheckpointAfter(after - before)
				}
			}
			items, err := collect(p)
			require.NoError(t, err, name)
			assert.Equal(t, upTo(after, 10), items, "%s after %d", name, after)
		}
	}
}

// fourWays serves the items 0..total-1 to every scheme; links under /linked.
func fourWays(total int) func(int, *http.Request) reply {
	return func(_ int, req *http.Request) reply {
		size := max(intParam(req, "limit"), intParam(req, "per_page"))
		from := intParam(req, "offset") + intParam(req, "cursor")
		if n := intParam(req, "page"); n > 0 {
			from = (n - 1) * size
		}
		to := min(from+size, total)
		if to == total {
			return reply{body: page(upTo(from, to), total, "")}
		}
		if req.URL.Path == "/linked" {
			link := fmt.Sprintf(`<?limit=%d&cursor=%d>; rel="next"`, size, to)
			return reply{body: page(upTo(from, to), total, ""), links: []string{link}}
		}
		return reply{body: page(upTo(from, to), total, strconv.Itoa(to))}
	}
}

func TestPagerResumedAtTheEndAsksForNothing(t *testing.T) {
	s := rows(20, 10)
	p := pagerOf(s, polite.OffsetPages{URL: pagesURL, Size: 10})
	for got, err := range p.Pages(t.Context()) {
		require.NoError(t, err)
		p.Resume = got.CheckpointAfter(len(got.Items))
	}
	before := len(s.asked())
	items, err := collect(p)
	require.NoError(t, err)
	assert.Empty(t, items)
	assert.Len(t, s.asked(), before)
}

func TestProgressCountsItemsBeforeTheCheckpoint(t *testing.T) {
	p := pagerOf(rows(25, 10), polite.OffsetPages{URL: pagesURL, Size: 10})
	var progress []polite.Progress
	for got, err := range p.Pages(t.Context()) {
		require.NoError(t, err)
		progress = append(progress, got.Progress)
		if got.Number == 1 {
			p.Resume = got.CheckpointAfter(5)
		}
	}
	assert.Equal(t, []polite.Progress{{10, 25}, {20, 25}, {25, 25}}, progress)
	progress = nil
	for got, err := range p.Pages(t.Context()) {
		require.NoError(t, err)
		progress = append(progress, got.Progress)
	}
	assert.Equal(t, []polite.Progress{{15, 25}, {25, 25}}, progress)
}

func TestPagerTriesAPageThreeTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &pageServer{answer: func(int, *http.Request) reply { return reply{status: 503} }}
		p := pagerOf(s, polite.OffsetPages{URL: pagesURL})
		_, err := collect(p)
		var failed *polite.ResponseError
		require.ErrorAs(t, err, &failed)
		assert.Len(t, s.asked(), 3)

		p.MaxAttempts = 2
		p.Client = polite.New(&polite.Options{Base: s})
		_, err = collect(p)
		require.Error(t, err)
		assert.Len(t, s.asked(), 5)
	})
}

func TestItemsStopBetweenItemsWhenTheContextEnds(t *testing.T) {
	p := pagerOf(rows(10, 10), polite.OffsetPages{URL: pagesURL})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var items []int
	for item, err := range p.Items(ctx) {
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
			assert.Equal(t, 3, stop(t, err).Items)
			p.Resume = stop(t, err).Checkpoint
			break
		}
		if items = append(items, item); item == 2 {
			cancel()
		}
	}
	rest, err := collect(p)
	require.NoError(t, err)
	assert.Equal(t, upTo(0, 10), append(items, rest...))
}

func TestPagerWithACancelledContextSendsNothing(t *testing.T) {
	s := rows(10, 10)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range pagerOf(s, polite.OffsetPages{URL: pagesURL}).Pages(ctx) {
		require.ErrorIs(t, err, context.Canceled)
	}
	assert.Empty(t, s.asked())
}

func TestBadPagersSayWhatIsWrong(t *testing.T) {
	decode := polite.JSONPage[int](pageFields)
	client := polite.New(&polite.Options{Base: rows(1, 1)})
	good := polite.OffsetPages{URL: pagesURL}
	for want, p := range map[string]*polite.Pager[int]{
		"Client is nil":                         {Scheme: good, Decode: decode},
		"Scheme is nil":                         {Client: client, Decode: decode},
		"Client was not made with New":          {Client: new(polite.Client), Scheme: good, Decode: decode},
		"Decode is nil":                         {Client: client, Scheme: good},
		"page size -5 is negative":              {Client: client, Decode: decode, Scheme: polite.OffsetPages{URL: pagesURL, Size: -5}},
		"page size -1 is negative":              {Client: client, Decode: decode, Scheme: polite.NumberedPages{URL: pagesURL, Size: -1}},
		"page size -2 is negative":              {Client: client, Decode: decode, Scheme: polite.CursorPages{URL: pagesURL, Size: -2}},
		"URL: missing ']' in host":              {Client: client, Decode: decode, Scheme: polite.LinkPages{URL: "https://u:secret@[::1/x"}},
		"URL is not an absolute http or https":  {Client: client, Decode: decode, Scheme: polite.LinkPages{URL: "/v1/items?key=secret"}},
		"URL is not an absolute http or https ": {Client: client, Decode: decode, Scheme: polite.LinkPages{URL: "ftp://a.example/secret"}},
		`two parameters have the name "limit"`:  {Client: client, Decode: decode, Scheme: polite.OffsetPages{URL: pagesURL, OffsetParam: "limit"}},
		"entry of AllowOrigins":                 {Client: client, Decode: decode, Scheme: good, AllowOrigins: []string{"b.example"}},
		"entry of AllowOrigins is not":          {Client: client, Decode: decode, Scheme: good, AllowOrigins: []string{"https://u:secret@b.example"}},
	} {
		items, err := collect(p)
		assert.Empty(t, items)
		require.ErrorIs(t, err, polite.ErrBadPager, want)
		assert.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "secret")
		assert.Zero(t, stop(t, err).Page)
	}
}

func TestPagerErrorsHoldNoQueryAndNoUserinfo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := &brokenTransport{}
		for _, s := range []http.RoundTripper{broken, script(reply{status: 401}), script(reply{body: "<html>"})} {
			p := pagerOf(s, polite.OffsetPages{URL: "https://user:s3cr3t@api.example/v1?key=s3cr3t"})
			_, err := collect(p)
			require.Error(t, err)
			assert.NotContains(t, err.Error(), "s3cr3t")
			assert.NotContains(t, decodedCheckpoint(t, stop(t, err).Checkpoint), "s3cr3t")
		}
	})
}

type brokenTransport struct{}

func (*brokenTransport) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, io.ErrUnexpectedEOF
}

func TestPagerSendsUserinfoOfItsURLAsCredentials(t *testing.T) {
	s := rows(1, 1)
	_, err := collect(pagerOf(s, polite.OffsetPages{URL: "https://user:pass@api.example/v1"}))
	require.NoError(t, err)
	user, password, _ := s.requests[0].BasicAuth()
	assert.Equal(t, "user pass", user+" "+password)
	assert.Equal(t, "https://api.example/v1?offset=0&limit=100", s.asked()[0])
}

const manyFields = `{"f9":0,"f8":0,"f7":0,"f6":0,"f5":0,"f4":0,"f3":0,"f2":0,"f1":0}`

func TestPagesOfAnUndecodableBodyAreAnError(t *testing.T) {
	for body, want := range map[string]string{
		`{"data":[1]}`:                 `the page has no field "items"; it has "data"`,
		`{"b":{},"meta":{},"a":1}`:     `the page has no field "items"; it has "a", "b", "meta"`,
		`{}`:                           `the page has no field "items", nor any other`,
		manyFields:                     `the page has no field "items"; it has "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", …`,
		`{"items":7}`:                  `field "items"`,
		`{"items":["x"]}`:              `field "items"`,
		`{"items":[1],"total":"many"}`: `field "total"`,
		`{"items":[1],"total":1.5}`:    `field "total" is not a whole number`,
		`{"items":[1],"total":1e300}`:  `field "total" is not a whole number`,
		`{"items":[1],"next":{}}`:      `field "next" is neither a string nor a number`,
		`[1]`:                          `cannot unmarshal array`,
		``:                             `unexpected end of JSON input`,
		`{"items":[1]} trailing`:       `invalid character`,
	} {
		_, err := collect(pagerOf(script(reply{body: body}), polite.CursorPages{URL: pagesURL}))
		assert.ErrorContains(t, err, want, body)
	}
}

func TestJSONPageReadsTheUsualShapes(t *testing.T) {
	total := func(n int) *int { return &n }
	for _, c := range []struct {
		fields polite.PageFields
		status int
		body   string
		want   polite.Batch[int]
	}{
		{polite.PageFields{}, 200, `[1,2]`, polite.Batch[int]{Items: []int{1, 2}}},
		{polite.PageFields{}, 204, ``, polite.Batch[int]{}},
		{polite.PageFields{Items: "data.rows", Total: "meta.page.total", Next: "meta.next"}, 200,
			`{"data":{"rows":[1]},"meta":{"page":{"total":7},"next":"c"}}`, polite.Batch[int]{Items: []int{1}, Total: total(7), Next: "c"}},
		{pageFields, 200, `{"items":null,"total":null,"total_pages":null,"next":null}`, polite.Batch[int]{}},
		{pageFields, 200, `{"items":[],"total":"7","total_pages":2.0,"next":9007199254740993}`,
			polite.Batch[int]{Items: []int{}, Total: total(7), Pages: 2, Next: "9007199254740993"}},
		{pageFields, 200, `{"items":[3],"total":-1}`, polite.Batch[int]{Items: []int{3}, Total: total(-1)}},
		{polite.PageFields{Items: "items", Total: "meta.total"}, 200, `{"items":[3],"meta":null}`, polite.Batch[int]{Items: []int{3}}},
	} {
		got, err := polite.JSONPage[int](c.fields)(&http.Response{StatusCode: c.status}, []byte(c.body))
		require.NoError(t, err, c.body)
		assert.Equal(t, c.want, polite.Batch[int]{Items: got.Items, Total: got.Total, Pages: got.Pages, Next: got.Next}, c.body)
	}
}

func TestAromaPagesSpeakTheContract(t *testing.T) {
	s := &pageServer{answer: func(_ int, req *http.Request) reply {
		if intParam(req, "desplacament") == 0 {
			return reply{body: `{"dades":[{"id":"caf_1"}],"total":2}`}
		}
		return reply{body: `{"dades":[{"id":"caf_2"}],"total":2}`}
	}}
	type coffee struct{ ID string }
	items, err := collect(polite.AromaPages[coffee](polite.New(&polite.Options{Base: s}), "https://api.botigaaroma.example/v1/cafes"))
	require.NoError(t, err)
	assert.Equal(t, []coffee{{"caf_1"}, {"caf_2"}}, items)
	assert.Equal(t, "https://api.botigaaroma.example/v1/cafes?desplacament=1&limit=100", s.asked()[1])
}

// mustURL is for tests that compare URLs.
func mustURL(t *testing.T, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	require.NoError(t, err)
	return u
}

// A limited catalog comes whole, at any concurrency, without one refusal.
func TestPagerDownloadsALimitedCatalogWithoutARefusal(t *testing.T) {
	for _, algorithm := range []politetest.Algorithm{politetest.FixedWindow, politetest.TokenBucket} {
		for _, concurrency := range []int{1, 8} {
			synctest.Test(t, func(t *testing.T) {
				limit := politetest.Limit{Algorithm: algorithm, N: 10, Per: 10 * time.Second}
				server := politetest.Must(t, politetest.Config{Limit: limit, Latency: 20 * time.Millisecond})
				client := polite.New(&polite.Options{Base: server.Transport()})
				pager := polite.AromaPages[politetest.Coffee](client, "https://api.botigaaroma.example/v1/cafes")
				pager.Concurrency = concurrency
				coffees, err := collect(pager)
				require.NoError(t, err)
				assert.Len(t, coffees, politetest.DefaultCoffees)
				assert.Zero(t, server.Refusals())
			})
		}
	}
}

func BenchmarkPagerItems(b *testing.B) {
	client := polite.New(&polite.Options{Base: shop(10_000).Transport()})
	pager := polite.AromaPages[politetest.Coffee](client, "https://api.botigaaroma.example/v1/cafes")
	b.ReportAllocs()
	items := 0
	for b.Loop() {
		for _, err := range pager.Items(b.Context()) {
			if err != nil {
				b.Fatal(err)
			}
			items++
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(items), "ns/item")
}
