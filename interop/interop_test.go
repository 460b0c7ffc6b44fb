// Package interop tests polite against limiters that nobody here wrote: Express
// with express-rate-limit, and nginx. Each test is skipped, and says so, where
// its server is not installed:
//
//	apt-get install nginx nodejs npm
//	npm ci --prefix interop/testdata/express
package interop

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "32"); err != nil { // they wait for quotas, not for a processor
		panic(err)
	}
	os.Exit(m.Run())
}

// downloadCatalog walks a list and requires every item once and in order.
// It returns how many answers of each status came.
func downloadCatalog(t *testing.T, opts polite.Options, url string, want int) map[int]int {
	t.Helper()
	var seen statuses
	opts.Trace = seen.trace()
	type coffee struct {
		ID any `json:"id"`
	}
	client := polite.New(&opts)
	defer client.CloseIdleConnections()
	pager := polite.AromaPages[coffee](client, url)
	pager.Concurrency = 8
	pager.MaxAttempts = opts.Retry.MaxAttempts
	met := map[string]bool{}
	items := 0
	for item, err := range pager.Items(t.Context()) {
		require.NoError(t, err)
		items++
		met[fmt.Sprint(item.ID)] = true
	}
	assert.Equal(t, want, items)
	assert.Len(t, met, want)
	return seen.counts
}

// crowd is how many goroutines share one client.
const crowd = 50

// askAllAtOnce lets the crowd ask at the same time, and requires that every one
// of them gets its answer.
func askAllAtOnce(t *testing.T, opts polite.Options, url string) map[int]int {
	t.Helper()
	var seen statuses
	opts.Trace = seen.trace()
	client := polite.New(&opts)
	defer client.CloseIdleConnections()
	var all sync.WaitGroup
	for range crowd {
		all.Go(func() {
			resp, err := client.Get(t.Context(), url+"?limit=1")
			if !assert.NoError(t, err) {
				return
			}
			assert.Equal(t, http.StatusOK, resp.StatusCode)
			assert.NoError(t, resp.Body.Close())
		})
	}
	all.Wait()
	return seen.counts
}

// statuses counts the answers that the client got, the refused ones included.
type statuses struct {
	mu     sync.Mutex
	counts map[int]int
}

func (s *statuses) trace() *polite.Trace {
	s.counts = map[int]int{}
	return &polite.Trace{Attempt: func(e polite.AttemptEvent) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.counts[e.Status]++
	}}
}
