package polite

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
)

func TestMemoReadsATextOnce(t *testing.T) {
	var m memo[string]
	texts := []string{"", "Date", "Etag", "RateLimit", "X-Ratelimit-Limit-Requests", "X-Ratelimit-Reset-Requests", strings.Repeat("x", maxRemembered)}
	for range 3 {
		for _, text := range texts {
			m.of(text, strings.ToUpper)
		}
	}
	for _, text := range texts {
		assert.Equal(t, strings.ToUpper(text), *m.of(text, func(string) string { return "read again" }))
	}
}

// However many texts come, and however alike they are, each is read as it is, by
// all goroutines.
func TestMemoThatOverflowsIsRight(t *testing.T) {
	var m memo[string]
	var texts []string
	for i := range 3 << memoBits {
		texts = append(texts, fmt.Sprint("X-Ratelimit-", i))
	}
	alike := strings.Repeat("-", 50)
	for i := range alike { // all in one place
		texts = append(texts, alike[:i]+"x"+alike[i+1:])
	}
	texts = append(texts, strings.Repeat("long", maxRemembered))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 3 {
				for _, text := range texts {
					for range 2 {
						assert.Equal(t, strings.ToUpper(text), *m.of(text, strings.ToUpper))
					}
				}
			}
		})
	}
	wg.Wait()
}

// What fits is remembered after an overflow too.
func TestMemoRemembersAfterAnOverflow(t *testing.T) {
	var m memo[int64]
	var reads atomic.Int64
	count := func(string) int64 { return reads.Add(1) }
	for i := range 3 << memoBits {
		m.of(fmt.Sprint("X-Ratelimit-", i), count)
	}
	first := *m.of("Date", count)
	assert.Equal(t, first, *m.of("Date", count))
}

// A header of a mebibyte must not stay in memory for one of its names.
func TestMemoKeepsNoMoreThanTheText(t *testing.T) {
	var m memo[string]
	header := "X-Ratelimit-Limit: 5"
	kept := *m.of(header[:17], func(text string) string { return text })
	assert.Equal(t, header[:17], kept)
	assert.NotSame(t, unsafe.StringData(header), unsafe.StringData(kept))
}

func TestMemoRemembersNoLongText(t *testing.T) {
	var m memo[int]
	reads := 0
	for range 3 {
		m.of(strings.Repeat("x", maxRemembered+1), func(string) int { reads++; return reads })
	}
	assert.Equal(t, 3, reads)
}
