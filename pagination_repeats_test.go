package polite_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
)

// deaf knows no parameter: every page is the first one, in a body that is new
// each time. A total of -1 is not told.
func deaf(items []int, total int) *pageServer {
	return &pageServer{answer: func(n int, _ *http.Request) reply {
		return reply{body: fmt.Sprintf(`{"request":%d,%s`, n, page(items, total, "")[1:])}
	}}
}

// A server that does not know the parameter would send the first page for ever.
func TestServerThatIgnoresTheParameterIsNoticedAtTheSecondPage(t *testing.T) {
	for param, scheme := range map[string]polite.Scheme{
		"skip": polite.OffsetPages{URL: pagesURL, OffsetParam: "skip"},
		"p":    polite.NumberedPages{URL: pagesURL, PageParam: "p"},
	} {
		for _, total := range []int{-1, 24, 10} {
			s := deaf(upTo(0, 7), total)
			items, err := collect(pagerOf(s, scheme))
			require.ErrorIs(t, err, polite.ErrPageLoop)
			assert.ErrorContains(t, err, "this page is the same as the one before; does the server know the parameter "+strconv.Quote(param)+"?")
			assert.Equal(t, upTo(0, 7), items, "nothing comes twice")
			assert.Len(t, s.asked(), 2)
			assert.Equal(t, 7, stop(t, err).Items)
			assert.Equal(t, 2, stop(t, err).Page)
		}
	}
}

// Pages fetched ahead are compared in their turn.
func TestServerThatIgnoresTheParameterIsNoticedWhilePrefetching(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := deaf(upTo(0, 10), 2350)
		p := slowPager(s, 8)
		items, err := collect(p)
		require.ErrorIs(t, err, polite.ErrPageLoop)
		assert.Equal(t, upTo(0, 10), items)
		assert.LessOrEqual(t, len(s.asked()), 9)
	})
}

// A walk that is resumed knows what the page before it was, wherever in a page
// it had stopped: resuming again and again brings no item twice.
func TestServerThatIgnoresTheParameterIsNoticedAfterResume(t *testing.T) {
	for _, scheme := range []polite.Scheme{polite.OffsetPages{URL: pagesURL}, polite.NumberedPages{URL: pagesURL}} {
		for after := range 8 {
			p := pagerOf(deaf(upTo(0, 7), 24), scheme)
			p.Resume = checkpointOf(t, p, after)
			var items []int
			for range 3 {
				more, err := collect(p)
				require.ErrorIs(t, err, polite.ErrPageLoop)
				items = append(items, more...)
				p.Resume = stop(t, err).Checkpoint
			}
			if _, byOffset := scheme.(polite.OffsetPages); byOffset && after > 0 {
				assert.Empty(t, items, "the offset %d brought what the offset 0 had", after)
			} else {
				assert.Equal(t, upTo(after, 7), items)
			}
		}
	}
}

// The same page is told by the keys of its items, even where these change.
func TestKeyTellsThatAPageIsTheSame(t *testing.T) {
	s := &pageServer{answer: func(n int, _ *http.Request) reply {
		return reply{body: fmt.Sprintf(`{"items":["a %d","b %d"],"total":24}`, n, n)}
	}}
	p := &polite.Pager[string]{
		Client: polite.New(&polite.Options{Base: s}), Scheme: polite.OffsetPages{URL: pagesURL}, Decode: polite.JSONPage[string](pageFields),
		Key: func(item string) string { return item[:1] },
	}
	items, err := collect(p)
	require.ErrorIs(t, err, polite.ErrPageLoop)
	assert.Equal(t, []string{"a 0", "b 0"}, items)
}

// Without JSONPage the whole body stands for the items.
func TestBodyTellsThatAPageIsTheSame(t *testing.T) {
	for body, want := range map[string]error{"1 2": polite.ErrPageLoop, "1 2 #": polite.ErrTooManyPages} {
		s := &pageServer{answer: func(n int, _ *http.Request) reply {
			return reply{body: strings.Replace(body, "#", strconv.Itoa(n), 1)}
		}}
		p := pagerOf(s, polite.OffsetPages{URL: pagesURL})
		p.Decode = func(*http.Response, []byte) (polite.Batch[int], error) {
			return polite.Batch[int]{Items: []int{1, 2}}, nil
		}
		p.MaxPages = 5
		_, err := collect(p)
		require.ErrorIs(t, err, want)
	}
}

func TestPagesThatAreTheSameComeIfRepeatsAreAllowed(t *testing.T) {
	p := pagerOf(deaf([]int{5, 5}, 5), polite.OffsetPages{URL: pagesURL})
	p.AllowRepeats = true
	items, err := collect(p)
	require.NoError(t, err)
	assert.Equal(t, []int{5, 5, 5, 5, 5, 5}, items, "until the total is passed")

	p = pagerOf(deaf([]int{5, 5}, 9), polite.OffsetPages{URL: pagesURL})
	items, err = collect(p)
	require.ErrorIs(t, err, polite.ErrPageLoop)
	assert.Equal(t, []int{5, 5}, items)
	p.AllowRepeats, p.Resume = true, stop(t, err).Checkpoint
	items, err = collect(p)
	require.NoError(t, err)
	assert.Equal(t, []int{5, 5, 5, 5, 5, 5, 5, 5}, items, "the rest, from the page that was not delivered")
}

// As many items as a page holds, inserted in front between two requests, push
// the page before to where this one is. The total tells.
func TestPageThatInsertionsPushedOnIsNoLoop(t *testing.T) {
	s := script(reply{body: page([]int{3, 2}, 3, "")}, reply{body: page([]int{3, 2}, 5, "")}, reply{body: page([]int{1}, 5, "")})
	p := pagerOf(s, polite.OffsetPages{URL: pagesURL, Size: 2})
	p.Key = strconv.Itoa
	items, err := collect(p)
	require.NoError(t, err)
	assert.Equal(t, []int{3, 2, 1}, items)
}

// A page that reaches beyond its own total is the server's contradiction, and no
// success; a total that has shrunk, or grown, is not.
func TestMoreItemsThanTheTotalAreAnError(t *testing.T) {
	for name, scheme := range map[string]polite.Scheme{
		"offset": polite.OffsetPages{URL: pagesURL, OffsetParam: "from", Size: 2},
		"number": polite.NumberedPages{URL: pagesURL, PageParam: "from", Size: 2},
	} {
		s := script(reply{body: page([]int{1, 2}, 3, "")}, reply{body: page([]int{2, 1}, 3, "")}, reply{body: page(nil, 3, "")})
		p := pagerOf(s, scheme)
		items, err := collect(p)
		require.ErrorIs(t, err, polite.ErrTooManyItems, name)
		assert.ErrorContains(t, err, `does the server know the parameter "from"`)
		assert.Equal(t, []int{1, 2, 2, 1}, items, "all that came")

		p.AllowRepeats = true
		p.Client = polite.New(&polite.Options{Base: script(reply{body: page([]int{1, 2}, 3, "")}, reply{body: page([]int{2, 1}, 3, "")})})
		_, err = collect(p)
		require.NoError(t, err)
	}
}

// A total that lagged behind is caught up with: the walk that is resumed ends
// where the collection does.
func TestWalkResumesBehindATotalThatLagged(t *testing.T) {
	s := script(reply{body: page([]int{1, 2}, 3, "")}, reply{body: page([]int{3, 4}, 3, "")}, reply{body: page([]int{5}, 5, "")})
	p := pagerOf(s, polite.OffsetPages{URL: pagesURL, Size: 2})
	items, err := collect(p)
	require.ErrorIs(t, err, polite.ErrTooManyItems)
	p.Resume = stop(t, err).Checkpoint
	more, err := collect(p)
	require.NoError(t, err)
	assert.Equal(t, upTo(1, 6), append(items, more...))
}
