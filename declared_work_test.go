package polite_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
)

// Declared work of ten whole windows takes ten, though the goroutines that share
// it overtake one another: no request of the first window is held back on the
// strength of a number that is out of order.
func TestDeclaredWorkOfWholeWindowsTakesNoMore(t *testing.T) {
	for _, phase := range []time.Duration{15, 18} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(phase * 517_007 * time.Microsecond)
			limit := politetest.Limit{Algorithm: politetest.FixedWindow, N: 100, Per: 10 * time.Second}
			server := politetest.Must(t, politetest.Config{Limit: limit, Latency: roundTime})
			client := patient(server.Transport(), 0)
			best, err := politetest.Oracle{Limit: limit, Calls: 1000, RTT: roundTime, Workers: 64, Start: time.Now()}.Makespan()
			require.NoError(t, err)
			took := crowd(64, 1000, func(i int) {
				ctx := polite.WithOverrides(t.Context(), polite.Overrides{Needs: 1000 - i})
				assert.Equal(t, http.StatusOK, fetch(ctx, client, coffees))
			})
			assert.Zero(t, server.Refusals())
			assert.LessOrEqual(t, took.Seconds()/best.Seconds(), 1.01, "phase %d", phase)
		})
	}
}
