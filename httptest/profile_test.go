package httptest

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func countStatus(all []int, status int) int {
	n := 0
	for _, s := range all {
		n += count(s == status)
	}
	return n
}

func TestEveryProfileStarts(t *testing.T) {
	for _, name := range Profiles() {
		config, err := Profile(name)
		require.NoError(t, err)
		resp, _ := get(t, Must(t, config), "/v1/cafes")
		assert.Equal(t, 200, resp.StatusCode, name)
	}
	_, err := Profile("nothing")
	assert.ErrorContains(t, err, "promoazi")
}

func TestPromoAziCountsTwoWindowsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Must(t, PromoAzi())
		passed := 0
		for range 17 { // 17 minutes of 120 are 2,040
			passed += countStatus(statuses(t, s, "/v1/cafes/caf_00001", 121), 200)
			time.Sleep(time.Minute)
		}
		assert.Equal(t, 2000, passed)
		assert.Equal(t, 30, countStatus(statuses(t, Must(t, PromoAzi()), "/v1/cafes?q=guji", 40), 200), "searches are costly")
	})
}

func TestRefusalIsThatOfThePolicyWhichRefusesForLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, order := range [][]Policy{
			{{Name: "minute", Limit: Limit{N: 1, Per: time.Minute}}, {Name: "hour", Limit: Limit{N: 1, Per: time.Hour}}},
			{{Name: "hour", Limit: Limit{N: 1, Per: time.Hour}}, {Name: "minute", Limit: Limit{N: 1, Per: time.Minute}}},
		} {
			s := Must(t, Config{Policies: order})
			get(t, s, "/v1/cafes")
			resp, _ := get(t, s, "/v1/cafes")
			assert.Equal(t, "3600", resp.Header.Get("Retry-After"))
			assert.Equal(t, itoa(int(epoch.Unix())+3600), resp.Header.Get("Aroma-RateLimit-Reinici"))
			assert.Equal(t, "hour", s.Arrivals()[1].Policy)
		}
	})
}

func TestSmartBillAnswers403ForTenMinutes(t *testing.T) {
	for _, tc := range []struct {
		extending bool
		after     int
	}{{false, 200}, {true, 403}} {
		synctest.Test(t, func(t *testing.T) {
			s := Must(t, SmartBill(tc.extending))
			assert.Equal(t, []int{200, 200, 200, 403}, statuses(t, s, "/v1/cafes", 4))
			time.Sleep(5 * time.Minute)
			resp, _ := get(t, s, "/v1/cafes")
			assert.Equal(t, 403, resp.StatusCode)
			assert.Empty(t, resp.Header.Get("Retry-After"))
			time.Sleep(5 * time.Minute)
			assert.Equal(t, []int{tc.after}, statuses(t, s, "/v1/cafes", 1))
		})
	}
}

func TestGitHubHidesItsSecondaryLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Must(t, GitHub())
		assert.Equal(t, 900, countStatus(statuses(t, s, "/v1/cafes/caf_00001", 900), 200))
		resp, body := get(t, s, "/v1/cafes/caf_00001")
		assert.Equal(t, 403, resp.StatusCode)
		assert.Equal(t, "60", resp.Header.Get("Retry-After"))
		assert.Equal(t, "4100", resp.Header.Get("X-RateLimit-Remaining"), "the shown quota is not the one that refused")
		assert.Contains(t, body, "secondary rate limit")
	})
}

func TestGitHubRefusesItsPrimaryLimitWithoutRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Must(t, GitHub())
		for range 6 {
			statuses(t, s, "/v1/cafes/caf_00001", 850)
			time.Sleep(time.Minute)
		}
		resp, _ := get(t, s, "/v1/cafes/caf_00001")
		assert.Equal(t, 403, resp.StatusCode)
		assert.Equal(t, "0", resp.Header.Get("X-RateLimit-Remaining"))
		assert.Equal(t, itoa(int(epoch.Unix())+3600), resp.Header.Get("X-RateLimit-Reset"))
		assert.Empty(t, resp.Header.Get("Retry-After"))
	})
}

func TestNginxAnswersASilent503(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Must(t, Nginx(5, 10))
		assert.Equal(t, 11, countStatus(statuses(t, s, "/v1/cafes", 20), 200))
		resp, body := get(t, s, "/v1/cafes")
		assert.Equal(t, 503, resp.StatusCode)
		assert.Equal(t, "text/html; charset=utf-8", resp.Header.Get("Content-Type"))
		assert.Contains(t, body, "503 Service Temporarily Unavailable")
		for name := range resp.Header {
			assert.NotContains(t, []string{"Retry-After", "Aroma-Ratelimit-Limit"}, name)
		}
	})
}

func TestEarlyHintLeadsToAnotherRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := WrongHint(HintEarly)
		config.Limit.N = 1
		s := Must(t, config)
		get(t, s, "/v1/cafes")
		resp, _ := get(t, s, "/v1/cafes")
		assert.Equal(t, "30", resp.Header.Get("Retry-After"))
		time.Sleep(30 * time.Second)
		assert.Equal(t, []int{429}, statuses(t, s, "/v1/cafes", 1))
	})
}

func TestBadConfigIsRefusedWithTheSettingsName(t *testing.T) {
	unit := Limit{N: 1, Per: time.Second}
	for field, c := range map[string]Config{
		"Latency":                {Latency: -1},
		"OrderTime":              {OrderTime: -1},
		"Coffees":                {Coffees: 1 << 40},
		"TrustedProxies":         {TrustedProxies: -1},
		"Dialects":               {Dialects: []Dialect{99}},
		"Hint":                   {Hint: 99},
		"Limit":                  {Limit: unit, Policies: []Policy{{Name: "a", Limit: unit}}},
		"Policies[0].Name":       {Policies: []Policy{{Limit: unit}}},
		"Policies[0].Limit":      {Policies: []Policy{{Name: "a"}}},
		"Policies[0].Status":     {Policies: []Policy{{Name: "a", Limit: unit, Status: 200}}},
		"Policies[1].Name":       {Policies: []Policy{{Name: "a", Limit: unit}, {Name: "a", Limit: unit}}},
		"Policies[0].Key":        {Policies: []Policy{{Name: "a", Limit: unit, Key: 99}}},
		"Policies[0].Hint":       {Policies: []Policy{{Name: "a", Limit: unit, Hint: 99}}},
		"Policies[1].Limit.Per":  {Policies: []Policy{{Name: "a", Limit: unit}, {Name: "b", Limit: Limit{N: 1}}}},
		"Chances[0].Reply.Fault": {Chances: []Chance{{P: 0.5, Reply: Fail(99)}}},
		"Phases[0].Outage.Fault": {Phases: []Phase{{Outage: &Reply{Fault: -1}}}},
		"Limit.Ban":              {Limit: Limit{N: 1, Per: time.Second, Ban: -1}},
		"Chances[0].P":           {Chances: []Chance{{P: 1.5, Reply: Respond(503)}}},
		"Chances[0].Reply":       {Chances: []Chance{{P: 0.5}}},
		"Chances":                {Chances: []Chance{{P: 0.6, Reply: Respond(503)}, {P: 0.6, Reply: Respond(502)}}},
		"Phases[0]":              {Phases: []Phase{{From: -1}}},
		"Phases[0].Outage":       {Phases: []Phase{{Outage: &Reply{}}}},
		"Phases[0].PerSecond":    {Phases: []Phase{{PerSecond: 1e7}}},
	} {
		_, err := New(c)
		var bad *ConfigError
		require.ErrorAs(t, err, &bad, field)
		assert.Equal(t, field, bad.Field)
	}
	_, err := NewFleet(0, Config{})
	assert.Error(t, err)
}

func TestFleetWithItsOwnCountersMultipliesTheLimit(t *testing.T) {
	fleet, err := NewFleet(3, Config{Limit: Limit{N: 10, Per: time.Minute}})
	require.NoError(t, err)
	assert.Equal(t, 30, passThrough(t, fleet, 40))
	fleet.Instances()[0].Restart()
	assert.Equal(t, 10, passThrough(t, fleet, 40), "a restart forgets that instance's counters")
	assert.Equal(t, 80, fleet.Requests())
	assert.Equal(t, 40, fleet.Refusals())
}

func TestFleetWithASharedStoreIsExactAndSurvivesARestart(t *testing.T) {
	fleet, err := NewFleet(3, Config{Limit: Limit{N: 10, Per: time.Hour}, Store: NewMemory(0)})
	require.NoError(t, err)
	assert.Equal(t, 10, passThrough(t, fleet, 40))
	for _, s := range fleet.Instances() {
		s.Restart()
	}
	assert.Zero(t, passThrough(t, fleet, 40))
}

func TestFleetSharesItsOrders(t *testing.T) {
	fleet, err := NewFleet(2, Aroma())
	require.NoError(t, err)
	for _, s := range fleet.Instances() {
		placeOrder(t, s, "k1", anOrder)
	}
	_, list := get(t, fleet.Instances()[0], "/v1/comandes", "Authorization", "Bearer empleat:1")
	assert.Contains(t, list, `"total":1`)
}

func passThrough(t *testing.T, fleet *Fleet, n int) int {
	t.Helper()
	passed := 0
	for range n {
		resp, err := fleet.Transport().RoundTrip(requestTo(t, "/v1/cafes/caf_00001"))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		passed += count(resp.StatusCode == http.StatusOK)
	}
	return passed
}

func TestStoreDownOpensTheShopAndShutsTheLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &BreakableStore{Store: NewMemory(0)}
		var alerts []Alert
		config := Aroma()
		config.Store, config.Alert = store, func(a Alert) { alerts = append(alerts, a) }
		s := Must(t, config)
		store.Break()
		assert.Equal(t, []int{200, 200}, statuses(t, s, "/v1/cafes", 2))
		assert.Equal(t, 503, login(t, s, "ona", Password))
		require.Len(t, alerts, 1, "a flood is one message")
		assert.ErrorIs(t, alerts[0].Err, ErrStoreDown)

		time.Sleep(AlertCoolDown)
		statuses(t, s, "/v1/cafes", 1)
		require.Len(t, alerts, 2)
		assert.Equal(t, 2, alerts[1].Silent)

		store.Mend()
		assert.Equal(t, 201, login(t, s, "ona", Password))
	})
}

func TestSilentServerGivesNoHintWhileItsStoreIsDown(t *testing.T) {
	for _, tc := range []struct {
		silent bool
		hint   Hint
		want   string
	}{{false, HintSeconds, "30"}, {false, HintLate, "120"}, {true, HintSeconds, ""}} {
		store := &BreakableStore{Store: NewMemory(0)}
		store.Break()
		s := Must(t, Config{Silent: tc.silent, Hint: tc.hint, Store: store, Policies: []Policy{
			{Name: "strict", Limit: Limit{N: 1, Per: time.Hour}, FailClosed: true},
		}})
		resp, _ := get(t, s, "/v1/cafes")
		assert.Equal(t, 503, resp.StatusCode)
		assert.Equal(t, tc.want, resp.Header.Get("Retry-After"))
	}
}

func TestObserveModeShutsNoDoorWhileTheStoreIsDown(t *testing.T) {
	store := &BreakableStore{Store: NewMemory(0)}
	store.Break()
	config := Aroma()
	config.Store, config.Observe = store, true
	s := Must(t, config)
	assert.Equal(t, 201, login(t, s, "ona", Password))
	assert.Equal(t, []int{200}, statuses(t, s, "/v1/cafes", 1))
	assert.True(t, s.Arrivals()[0].Observed)
	assert.False(t, s.Arrivals()[1].Observed)
}

// forgetful is a store that answers only its first question.
type forgetful struct {
	Store
	asked int
}

func (f *forgetful) Take(ctx context.Context, now time.Time, charges []Charge) ([]Ruling, error) {
	f.asked++
	if f.asked > 1 {
		return nil, nil
	}
	return f.Store.Take(ctx, now, charges)
}

func TestStoreWithoutAnAnswerIsDown(t *testing.T) {
	var alerts []Alert
	config := Aroma()
	config.Store, config.Alert = &forgetful{Store: NewMemory(0)}, func(a Alert) { alerts = append(alerts, a) }
	s := Must(t, config)
	assert.Equal(t, 401, login(t, s, "ona", "wrong"), "admitted, but the failure cannot be counted")
	require.Len(t, alerts, 1)
	assert.ErrorContains(t, alerts[0].Err, "0 rulings for 2 charges")
}
