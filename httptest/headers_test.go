package httptest

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEachDialectAnnouncesTheSameQuota(t *testing.T) {
	for dialect, want := range map[Dialect]map[string]string{
		AromaCatalan:   {"Aroma-RateLimit-Limit": "60", "Aroma-RateLimit-Restants": "59", "Aroma-RateLimit-Reinici": "946684860"},
		AromaEnglish:   {"Aroma-RateLimit-Limit": "60", "Aroma-RateLimit-Remaining": "59", "Aroma-RateLimit-Reset": "946684860"},
		XRateLimit:     {"X-RateLimit-Limit": "60", "X-RateLimit-Remaining": "59", "X-RateLimit-Reset": "946684860"},
		XRateLimitLeft: {"X-RateLimit-Limit": "60", "X-RateLimit-Remaining": "59", "X-RateLimit-Reset": "50"},
		Draft6:         {"RateLimit-Limit": "60", "RateLimit-Remaining": "59", "RateLimit-Reset": "50", "RateLimit-Policy": "60;w=60"},
		Draft7:         {"RateLimit": "limit=60, remaining=59, reset=50", "RateLimit-Policy": "60;w=60"},
		Draft8:         {"RateLimit": `"general";r=59;t=50`, "RateLimit-Policy": `"general";q=60;w=60`},
	} {
		t.Run(dialect.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := Must(t, Config{Limit: Limit{N: 60, Per: time.Minute}, Dialects: []Dialect{dialect}})
				time.Sleep(10*time.Second + time.Millisecond)
				resp, _ := get(t, s, "/v1/cafes")
				for name, value := range want {
					assert.Equal(t, value, resp.Header.Get(name), name)
				}
				quotaHeaders := 0
				for name := range resp.Header {
					if strings.Contains(strings.ToLower(name), "ratelimit") {
						quotaHeaders++
					}
				}
				assert.Equal(t, len(want), quotaHeaders, "and nothing of another dialect")
			})
		})
	}
}

func TestNewestDraftNamesEveryPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := PromoAzi()
		config.Dialects = []Dialect{Draft8, XRateLimit}
		resp, _ := get(t, Must(t, config), "/v1/cafes")
		assert.Equal(t, `"hour";r=1999;t=3600, "minute";r=119;t=60`, resp.Header.Get("RateLimit"))
		assert.Equal(t, `"hour";q=2000;w=3600, "minute";q=120;w=60`, resp.Header.Get("RateLimit-Policy"))
		assert.Equal(t, "120", resp.Header.Get("X-RateLimit-Limit"))
	})
}

// After one request at 00:00:00.3 and two at 00:00:10.3, what each algorithm announces then.
func TestResetMeansWhatTheManualSays(t *testing.T) {
	for _, tc := range []struct {
		limit     Limit
		remaining string
		reset     int64 // seconds after the epoch of the bubble
	}{
		{Limit{Algorithm: FixedWindow, N: 10, Per: time.Minute}, "7", 60},
		{Limit{Algorithm: FixedWindow, N: 10, Per: time.Minute, FromFirst: true}, "7", 61},
		{Limit{Algorithm: SlidingLog, N: 10, Per: time.Minute}, "7", 61},
		{Limit{Algorithm: SlidingLog, N: 10, Per: time.Minute, ResetNewest: true}, "7", 71},
		{Limit{Algorithm: SlidingCounter, N: 10, Per: time.Minute}, "7", 60},
		{Limit{Algorithm: TokenBucket, N: 6, Per: time.Minute, Capacity: 10}, "8", 31},
		{Limit{Algorithm: LeakyBucket, N: 6, Per: time.Minute, Capacity: 10}, "8", 31},
	} {
		t.Run(tc.limit.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := Must(t, Config{Limit: tc.limit})
				time.Sleep(300 * time.Millisecond)
				get(t, s, "/v1/cafes")
				time.Sleep(10 * time.Second)
				get(t, s, "/v1/cafes")
				resp, _ := get(t, s, "/v1/cafes")
				assert.Equal(t, tc.remaining, resp.Header.Get("Aroma-RateLimit-Restants"))
				assert.Equal(t, itoa(int(epoch.Unix()+tc.reset)), resp.Header.Get("Aroma-RateLimit-Reinici"))
			})
		})
	}
}

func TestLookingAtACounterDoesNotBeginItsWindow(t *testing.T) {
	for _, algorithm := range []Algorithm{FixedWindow, SlidingCounter} {
		synctest.Test(t, func(t *testing.T) {
			s := Must(t, Config{Limit: Limit{Algorithm: algorithm, N: 10, Per: time.Minute, FromFirst: true}})
			get(t, s, "/v1/cafes")
			time.Sleep(150 * time.Second)
			require.Len(t, s.Counters(1), 1)
			time.Sleep(30 * time.Second)
			resp, _ := get(t, s, "/v1/cafes")
			assert.Equal(t, itoa(int(epoch.Unix())+180+60), resp.Header.Get("Aroma-RateLimit-Reset"), algorithm.String())
		})
	}
}

func TestHintsSayWhatTheirNamesSay(t *testing.T) {
	now := epoch.Add(250 * time.Millisecond)
	for hint, want := range map[Hint]string{
		HintSeconds:  "38",
		HintDate:     "Sat, 01 Jan 2000 00:00:38 GMT",
		HintNone:     "",
		HintEarly:    "19",
		HintLate:     "136",
		HintPast:     "Fri, 31 Dec 1999 23:00:00 GMT",
		HintHuge:     "864000",
		HintZero:     "0",
		HintNegative: "-1",
		HintJunk:     "d'aquí a una estona",
	} {
		assert.Equal(t, want, hint.value(37500*time.Millisecond, now, 0), hint.String())
	}
}

func TestSkewedClockShiftsEveryAbsoluteInstantAlike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := SkewedClock(time.Hour)
		config.Limit.N = 1
		s := Must(t, config)
		get(t, s, "/v1/cafes")
		resp, _ := get(t, s, "/v1/cafes")
		assert.Equal(t, "Sat, 01 Jan 2000 01:00:00 GMT", resp.Header.Get("Date"))
		assert.Equal(t, "Sat, 01 Jan 2000 01:01:00 GMT", resp.Header.Get("Retry-After"))
		assert.Equal(t, itoa(int(epoch.Unix())+3660), resp.Header.Get("Aroma-RateLimit-Reinici"))
		assert.Equal(t, epoch.Add(time.Minute), s.Arrivals()[1].Until.UTC(), "the server itself knows better")
	})
}

func TestDateFromAClockThatIsBehindIsUnderstoodByTheServerItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := SkewedClock(-time.Hour)
		config.Limit.N = 1
		s := Must(t, config)
		statuses(t, s, "/v1/cafes", 3)
		assert.Equal(t, epoch.Add(time.Minute), s.Arrivals()[1].Until.UTC())
		assert.Equal(t, 1, s.Scorecard().All.Early)
	})
}

func TestDateFromAClockThatIsPartOfASecondOffIsNotEarly(t *testing.T) {
	for _, skew := range []time.Duration{-500 * time.Millisecond, -time.Nanosecond, 300 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			config := SkewedClock(skew)
			config.Limit.N = 1
			s := Must(t, config)
			statuses(t, s, "/v1/cafes", 2)
			time.Sleep(time.Until(s.Arrivals()[1].Until))
			assert.Equal(t, []int{200}, statuses(t, s, "/v1/cafes", 1), skew.String())
		})
	}
}

func TestScriptedDateIsTheClockOfItsHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Must(t, Config{})
		clock := time.Now().Add(time.Hour)
		s.Script(Respond(429, "Date", httpDate(clock), "Retry-After", httpDate(clock.Add(30*time.Second))))
		get(t, s, "/v1/cafes")
		assert.Equal(t, epoch.Add(30*time.Second), s.Arrivals()[0].Until.UTC())
		time.Sleep(29 * time.Second)
		get(t, s, "/v1/cafes")
		assert.Equal(t, 1, s.Scorecard().All.Early)
		time.Sleep(time.Second)
		get(t, s, "/v1/cafes")
		assert.Equal(t, 1, s.Scorecard().All.Early)
	})
}

func TestSilentServerGivesNoHint(t *testing.T) {
	s := Must(t, Config{Limit: Limit{N: 1, Per: time.Minute}, Silent: true})
	get(t, s, "/v1/cafes")
	resp, _ := get(t, s, "/v1/cafes")
	assert.Equal(t, 429, resp.StatusCode)
	assert.Empty(t, resp.Header.Get("Retry-After"))
	assert.Empty(t, resp.Header.Get("Aroma-RateLimit-Limit"))
}

func TestParseDialectReadsWhatStringWrites(t *testing.T) {
	for d := AromaCatalan; d <= Draft8; d++ {
		got, err := ParseDialect(d.String())
		require.NoError(t, err)
		assert.Equal(t, d, got)
	}
	_, err := ParseDialect("draft-9")
	assert.ErrorContains(t, err, "draft-8")
}
