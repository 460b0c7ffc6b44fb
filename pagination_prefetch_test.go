package polite_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// slow serves total items by offset, 10 to a page, 100 ms after each request.
func slow(total int) *pageServer {
	s := rows(total, 10)
	s.latency = 100 * time.Millisecond
	return s
}

func slowPager(s http.RoundTripper, concurrency int) *polite.Pager[int] {
	p := pagerOf(s, polite.OffsetPages{URL: pagesURL, Size: 10})
	p.Concurrency = concurrency
	return p
}

func TestPrefetchKeepsOrderAndItsBound(t *testing.T) {
	for concurrency, want := range map[int]time.Duration{
		0: 2100 * time.Millisecond, 1: 2100 * time.Millisecond, -3: 2100 * time.Millisecond,
		5: 500 * time.Millisecond, 100: 200 * time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := slow(201)
			start := time.Now()
			items, err := collect(slowPager(s, concurrency))
			require.NoError(t, err)
			assert.Equal(t, upTo(0, 201), items)
			assert.Equal(t, want, time.Since(start))
			assert.LessOrEqual(t, s.most, max(1, concurrency))
			assert.Len(t, s.asked(), 21)
		})
	}
}

func TestPrefetchHoldsNoMorePagesThanItsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slow(1000)
		for got, err := range slowPager(s, 4).Pages(t.Context()) {
			require.NoError(t, err)
			time.Sleep(time.Second) // the server has answered all by now
			assert.LessOrEqual(t, len(s.asked()), got.Number+4)
		}
	})
}

func TestPrefetchEndsWithTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slow(1000)
		for _, err := range slowPager(s, 8).Items(t.Context()) {
			require.NoError(t, err)
			break
		}
		assert.Zero(t, s.current, "requests under way")
	})
}

func TestPrefetchEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		start := time.Now()
		var items []int
		for item, err := range slowPager(slow(1000), 4).Items(ctx) {
			if err != nil {
				require.ErrorIs(t, err, context.DeadlineExceeded)
				assert.Equal(t, len(items), stop(t, err).Items)
				break
			}
			items = append(items, item)
		}
		assert.Equal(t, upTo(0, 50), items, "one page, then four at once")
		assert.Equal(t, 250*time.Millisecond, time.Since(start))
	})
}

func TestPrefetchStopsAtTheFirstErrorAndDeliversWhatIsBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slow(1000)
		serve := s.answer
		start, given := time.Now(), time.Duration(0)
		s.answer = func(n int, req *http.Request) reply {
			switch intParam(req, "offset") {
			case 30:
				return reply{status: 400}
			case 10, 20:
				time.Sleep(time.Second) // the pages before it are slow
			case 40:
				<-req.Context().Done() // the one behind it never comes
				given = time.Since(start)
			}
			return serve(n, req)
		}
		p := slowPager(s, 4)
		items, err := collect(p)
		assert.Equal(t, 1200*time.Millisecond, time.Since(start))
		var failed *polite.ResponseError
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, upTo(0, 30), items)
		assert.Len(t, s.asked(), 5, "nothing is started after a failure")
		assert.Equal(t, 200*time.Millisecond, given, "and what is behind it is ended at once")
		assert.Equal(t, 30, stop(t, err).Items)

		s.answer = serve
		p.Resume = stop(t, err).Checkpoint
		items, err = collect(p)
		require.NoError(t, err)
		assert.Equal(t, upTo(30, 1000), items)
	})
}

// Pages of changing sizes cannot be foreseen: no item is lost or repeated, and
// few pages are asked for in vain.
func TestPrefetchCopesWithPagesOfChangingSizes(t *testing.T) {
	for _, concurrency := range []int{2, 5, 30} {
		synctest.Test(t, func(t *testing.T) {
			s := slow(1000)
			s.answer = func(_ int, req *http.Request) reply {
				offset := intParam(req, "offset")
				size := 10
				if offset%70 > 40 {
					size = 3 + offset%5
				}
				return reply{body: page(upTo(offset, min(offset+size, 1000)), 1000, "")}
			}
			alone := slowPager(s, 1)
			items, err := collect(alone)
			require.NoError(t, err)
			assert.Equal(t, upTo(0, 1000), items)
			inOrder := len(s.asked())

			items, err = collect(slowPager(s, concurrency))
			require.NoError(t, err)
			assert.Equal(t, upTo(0, 1000), items)
			assert.LessOrEqual(t, len(s.asked())-inOrder, 2*inOrder)
			assert.LessOrEqual(t, s.most, concurrency)
		})
	}
}

func TestPrefetchFollowsAServerThatClampsItsPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slow(200)
		p := pagerOf(s, polite.OffsetPages{URL: pagesURL, Size: 100})
		p.Concurrency = 20
		start := time.Now()
		items, err := collect(p)
		require.NoError(t, err)
		assert.Len(t, items, 200)
		assert.Len(t, s.asked(), 20)
		assert.Equal(t, 200*time.Millisecond, time.Since(start))
	})
}

func TestPrefetchFollowsATotalThatGrowsAndShrinks(t *testing.T) {
	for _, end := range []int{400, 130} {
		synctest.Test(t, func(t *testing.T) {
			s := slow(0)
			s.answer = func(n int, req *http.Request) reply {
				total := 200
				if n > 5 {
					total = end
				}
				offset := intParam(req, "offset")
				return reply{body: page(upTo(offset, min(offset+10, total)), total, "")}
			}
			items, err := collect(slowPager(s, 4))
			require.NoError(t, err)
			assert.Equal(t, upTo(0, end), items)
		})
	}
}

// A page that would have to wait too long behind the others is asked for again
// in its own turn: more concurrency must not make a walk fail.
func TestPrefetchDoesNotFailWhereOnePageAfterAnotherWouldNot(t *testing.T) {
	for _, concurrency := range []int{1, 16} {
		synctest.Test(t, func(t *testing.T) {
			server := politetest.Must(t, politetest.Config{Limit: politetest.Limit{Algorithm: politetest.FixedWindow, N: 3, Per: 10 * time.Second}})
			pager := polite.AromaPages[politetest.Coffee](polite.New(&polite.Options{
				Base:  server.Transport(),
				Limit: polite.LimitOptions{MaxWait: 15 * time.Second},
			}), "https://api.botigaaroma.example/v1/cafes")
			pager.Concurrency = concurrency
			coffees, err := collect(pager)
			require.NoError(t, err)
			assert.Len(t, coffees, politetest.DefaultCoffees)
			assert.Zero(t, server.Refusals())
		})
	}
}

// What is taken back is no failure, and is not logged as one: the page that is
// asked for again, and those behind a page that failed.
func TestPagesTakenBackAreNotLoggedAsGivenUp(t *testing.T) {
	logged := func(limit polite.LimitOptions, server http.RoundTripper) (levels map[string]slog.Level, err error) {
		var text bytes.Buffer
		trace := polite.SlogTrace(slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug})))
		p := slowPager(server, 4)
		p.Client = polite.New(&polite.Options{Base: server, Limit: limit, Trace: trace})
		_, err = collect(p)
		levels = map[string]slog.Level{}
		for line := range strings.Lines(text.String()) {
			for _, what := range []string{"polite: withdrawn", "polite: gave up"} {
				if strings.Contains(line, what) {
					var level slog.Level
					require.NoError(t, level.UnmarshalText([]byte(strings.Fields(line[strings.Index(line, "level=")+6:])[0])))
					levels[what] = level
				}
			}
		}
		return levels, err
	}
	synctest.Test(t, func(t *testing.T) {
		levels, err := logged(polite.LimitOptions{Rates: []polite.Rate{{N: 1, Per: time.Second}}, MaxWait: 1500 * time.Millisecond}, slow(100))
		require.NoError(t, err)
		assert.Equal(t, map[string]slog.Level{"polite: withdrawn": slog.LevelDebug}, levels)
	})
	synctest.Test(t, func(t *testing.T) {
		s := slow(100)
		levels, err := logged(polite.LimitOptions{}, roundTripper(func(req *http.Request) (*http.Response, error) {
			switch intParam(req, "offset") {
			case 20:
				return nil, errors.New("no route") // each time
			case 30:
				<-req.Context().Done() // it never comes
				return nil, req.Context().Err()
			}
			return s.RoundTrip(req)
		}))
		require.Error(t, err)
		assert.Equal(t, map[string]slog.Level{"polite: withdrawn": slog.LevelDebug, "polite: gave up": slog.LevelInfo}, levels)
	})
}
