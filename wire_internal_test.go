package polite

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
)

// A timer that is left set holds its wire. However long the attempts may take, a
// wire that the pool has forgotten is free after a minute.
func TestWireIsNotHeldByTheTimeThatItsAttemptHad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		used := func() weak.Pointer[wire] {
			var pool wirePool
			w, a := pool.get(), new(attempt)
			w.take(a, func(error) {})
			w.limit(a, time.Now(), time.Hour)
			w.leave(a)
			pool.put(w)
			return weak.Make(w)
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		for range 3 { // a pool forgets in two
			runtime.GC()
		}
		assert.Nil(t, used.Value())
	})
}
