package httptest

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The three checks that anybody should make of a server that limits.

func TestOneRequestTooManyIsRefusedWithAWait(t *testing.T) {
	for _, algorithm := range Algorithms() {
		t.Run(algorithm.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const n = 30
				s := Must(t, Config{Limit: Limit{Algorithm: algorithm, N: n, Per: time.Minute, Capacity: n}})
				for range n {
					go get(t, s, "/v1/cafes/caf_00001") // at once: a leaky bucket holds them back
				}
				synctest.Wait()
				resp, _ := get(t, s, "/v1/cafes/caf_00001")
				require.Equal(t, 429, resp.StatusCode)
				seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
				require.NoError(t, err)
				time.Sleep(time.Duration(seconds) * time.Second)
				resp, _ = get(t, s, "/v1/cafes/caf_00001")
				assert.Equal(t, 200, resp.StatusCode, "whoever waits as told is served")
				time.Sleep(time.Hour)
			})
		})
	}
}

func TestRestartForgetsCountersInMemoryOnly(t *testing.T) {
	limit := Limit{N: 3, Per: time.Hour}
	lost := Must(t, Config{Limit: limit})
	kept := Must(t, Config{Limit: limit, Store: NewMemory(0)})
	for s, want := range map[*Server][]int{lost: {200, 200, 200, 429}, kept: {429, 429, 429, 429}} {
		require.Equal(t, []int{200, 200, 200, 429}, statuses(t, s, "/v1/cafes", 4))
		s.Restart()
		assert.Equal(t, want, statuses(t, s, "/v1/cafes", 4))
	}
}

func TestRefusalRateIsMeasuredAndAlertedOncePerKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var alerts []Alert
		s := Must(t, Config{Limit: Limit{N: 10, Per: time.Minute}, Alert: func(a Alert) { alerts = append(alerts, a) }})
		statuses(t, s, "/v1/cafes", 40)
		assert.Equal(t, 0.75, s.RefusalRate(time.Minute))
		require.Len(t, alerts, 1)
		assert.Equal(t, "ip:192.0.2.1", alerts[0].Key)
		assert.Equal(t, "general", alerts[0].Policy)

		get(t, s, "/v1/cafes", "Authorization", "Bearer client:7")
		assert.Len(t, alerts, 1, "another key that is not refused")
		time.Sleep(AlertCoolDown)
		statuses(t, s, "/v1/cafes", 11)
		require.Len(t, alerts, 2)
		assert.Equal(t, 29, alerts[1].Silent)
		assert.InDelta(t, 1.0/11, s.RefusalRate(time.Minute), 1e-9, "the first minute is past")
	})
}

func TestRefusalRateReachesBackIntoTheSecondThatHasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Must(t, Config{Limit: Limit{N: 1, Per: time.Minute}})
		time.Sleep(700 * time.Millisecond)
		statuses(t, s, "/v1/cafes", 2)
		assert.Equal(t, 0.5, s.RefusalRate(500*time.Millisecond))
		time.Sleep(500 * time.Millisecond)
		assert.Equal(t, 0.5, s.RefusalRate(time.Second), "half a second ago")
		time.Sleep(800 * time.Millisecond)
		assert.Zero(t, s.RefusalRate(time.Second))
	})
}

func TestRefusalsAndFailuresOfASecondExcludeEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Must(t, Nginx(5, 10)) // refuses with 503
		statuses(t, s, "/v1/cafes", 20)
		time.Sleep(time.Second)
		s.Script(Fail(ResetAfter))
		_, err := s.Transport().RoundTrip(requestTo(t, "/v1/cafes"))
		require.Error(t, err)
		seconds := s.Timeline()
		before, last := seconds[timelineSeconds-2], seconds[timelineSeconds-1]
		assert.Equal(t, Second{At: before.At, Requests: 20, Refusals: 9}, before)
		assert.Equal(t, Second{At: last.At, Requests: 1, Failures: 1}, last)
	})
}

func TestTimelineCountsEverySecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Must(t, Config{Limit: Limit{N: 2, Per: time.Minute}})
		statuses(t, s, "/v1/cafes", 3)
		time.Sleep(time.Second)
		s.Script(Respond(503))
		statuses(t, s, "/v1/cafes", 1)
		seconds := s.Timeline()
		require.Len(t, seconds, timelineSeconds)
		before, last := seconds[timelineSeconds-2], seconds[timelineSeconds-1]
		assert.Equal(t, Second{At: before.At, Requests: 3, Refusals: 1}, before)
		assert.Equal(t, Second{At: last.At, Requests: 1, Failures: 1}, last)
	})
}
