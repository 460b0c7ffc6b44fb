package httptest

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func requestFrom(addr string, header ...string) *http.Request {
	r := &http.Request{Header: http.Header{}, RemoteAddr: addr}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

func TestCallerIsKnownByTheFirstKeyInOrderOfPreference(t *testing.T) {
	for _, tc := range []struct {
		name    string
		request *http.Request
		proxies int
		key     string
		tier    Tier
	}{
		{"app", requestFrom("192.0.2.9:1", "Authorization", "Bearer app:catabox:42"), 0, "oauth:catabox", TierThirdParty},
		{"client", requestFrom("192.0.2.9:1", "Authorization", "Bearer client:42"), 0, "usr:42", TierClient},
		{"partner by role", requestFrom("192.0.2.9:1", "Authorization", "bearer soci:rapidenviaments"), 0, "usr:rapidenviaments", TierPartner},
		{"internal", requestFrom("192.0.2.9:1", "Authorization", "Bearer administrador:1"), 0, "usr:1", TierInternal},
		{"partner by key", requestFrom("192.0.2.9:1", "X-API-Key", "sesam"), 0, "key:" + fingerprint("sesam"), TierPartner},
		{"anonymous", requestFrom("192.0.2.9:1"), 0, "ip:192.0.2.9", TierAnonymous},
		{"empty token", requestFrom("192.0.2.9:1", "Authorization", "Bearer "), 0, "ip:192.0.2.9", TierAnonymous},
		{"another scheme", requestFrom("192.0.2.9:1", "Authorization", "Basic YTpi"), 0, "ip:192.0.2.9", TierAnonymous},
		{"IPv6 by /64", requestFrom("[2001:db8:1:2:3:4:5:6]:1"), 0, "ip:2001:db8:1:2::/64", TierAnonymous},
		{"IPv4 in IPv6", requestFrom("[::ffff:192.0.2.9]:1"), 0, "ip:192.0.2.9", TierAnonymous},
		{"forged forwarding without proxies", requestFrom("192.0.2.9:1", "X-Forwarded-For", "203.0.113.1"), 0, "ip:192.0.2.9", TierAnonymous},
		{"one proxy", requestFrom("192.0.2.9:1", "X-Forwarded-For", "203.0.113.1, 198.51.100.7"), 1, "ip:198.51.100.7", TierAnonymous},
		{"two proxies, two lines", requestFrom("192.0.2.9:1", "X-Forwarded-For", "6.6.6.6, 203.0.113.1", "X-Forwarded-For", "198.51.100.7"), 2, "ip:203.0.113.1", TierAnonymous},
		{"more proxies than entries", requestFrom("192.0.2.9:1", "X-Forwarded-For", "203.0.113.1"), 2, "ip:192.0.2.9", TierAnonymous},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := identify(tc.request, peerOf(tc.request), tc.proxies)
			assert.Equal(t, tc.key, string(c.appendKey(nil)))
			assert.Equal(t, tc.tier, c.tier)
		})
	}
	secret := identify(requestFrom("", "Authorization", "Bearer eyJhbGciOi"), "192.0.2.9", 0)
	assert.NotContains(t, string(secret.appendKey(nil)), "eyJ", "a real token never shows")
}

func TestTiersAnnounceTheirOwnLimits(t *testing.T) {
	s := Must(t, Aroma())
	for token, want := range map[string]string{
		"": "60", "client:1": "300", "app:catabox:1": "600", "soci:1": "1000", "empleat:1": "2000",
	} {
		header := []string{}
		if token != "" {
			header = []string{"Authorization", "Bearer " + token}
		}
		resp, _ := get(t, s, "/v1/cafes/caf_00001", header...)
		assert.Equal(t, want, resp.Header.Get("Aroma-RateLimit-Limit"), token)
	}
}

func TestAppHasOneLimitForAllItsUsers(t *testing.T) {
	s := Must(t, Aroma())
	first, _ := get(t, s, "/v1/cafes/caf_00001", "Authorization", "Bearer app:catabox:1")
	second, _ := get(t, s, "/v1/cafes/caf_00001", "Authorization", "Bearer app:catabox:2")
	assert.Equal(t, "39", first.Header.Get("Aroma-RateLimit-Restants"))
	assert.Equal(t, "38", second.Header.Get("Aroma-RateLimit-Restants"))
}

func TestCostsAreChargedInTokens(t *testing.T) {
	for _, tc := range []struct {
		method, path string
		cost         int
	}{
		{"GET", "/v1/cafes/caf_00001", 1}, {"GET", "/v1/cafes?limit=100", 3}, {"GET", "/v1/cafes?limit=20", 1},
		{"GET", "/v1/cafes?q=guji", 5}, {"GET", "/v1/cafes?%71=guji", 5}, {"GET", "/v1/cafes?q=", 1}, {"GET", "/v1/comandes?expandir=linies.cafe", 5}, {"GET", "/v1/comandes", 1}, {"POST", "/v1/comandes", 10},
	} {
		r, err := http.NewRequest(tc.method, BaseURL+tc.path, nil)
		require.NoError(t, err)
		assert.Equal(t, tc.cost, AromaCost(r), tc.path)
	}
}

func TestSearchFlipsTheHeadersToItsOwnLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Must(t, Aroma())
		resp, body := get(t, s, "/v1/cafes?q=yirgacheffe+natural", "Authorization", "Bearer client:1")
		assert.Equal(t, "20", resp.Header.Get("Aroma-RateLimit-Limit"))
		assert.Equal(t, "19", resp.Header.Get("Aroma-RateLimit-Restants"))
		assert.Contains(t, body, "Yirgacheffe")
		resp, _ = get(t, s, "/v1/cafes/caf_00001", "Authorization", "Bearer client:1")
		assert.Equal(t, "300", resp.Header.Get("Aroma-RateLimit-Limit"))
		assert.Equal(t, "14", resp.Header.Get("Aroma-RateLimit-Restants"), "20 − 5 for the search − 1")
	})
}

func TestUsedUpDailyQuotaIsRefusedWithItsStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Must(t, Config{Policies: []Policy{
			{Name: "day", Hidden: true, Status: 402, Limit: Limit{N: 1, Per: 24 * time.Hour}},
			{Name: "minute", Limit: Limit{N: 60, Per: time.Minute}},
		}})
		get(t, s, "/v1/cafes")
		resp, body := get(t, s, "/v1/cafes")
		assert.Equal(t, 402, resp.StatusCode)
		assert.Equal(t, "86400", resp.Header.Get("Retry-After"))
		assert.Equal(t, "60", resp.Header.Get("Aroma-RateLimit-Limit"), "the hidden quota is not announced")
		assert.Contains(t, body, `"codi":"quota_exhaurida"`)
	})
}

func login(t *testing.T, s *Server, account, password string) int {
	t.Helper()
	body := strings.NewReader(`{"compte":"` + account + `","contrasenya":"` + password + `"}`)
	resp, _ := send(t, s, http.MethodPost, "/v1/sessions", body)
	return resp.StatusCode
}

func TestLoginCountsFailuresOnly(t *testing.T) {
	s := Must(t, Aroma())
	for range 20 {
		require.Equal(t, 201, login(t, s, "ona", Password))
	}
	for range 5 {
		require.Equal(t, 401, login(t, s, "ona", "wrong"))
	}
	assert.Equal(t, 429, login(t, s, "ona", Password), "even the right password has to wait now")
}

func TestFailedLoginArrivesWithWhatIsLeftAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Must(t, Aroma())
		for _, left := range []int{4, 3} {
			require.Equal(t, 401, login(t, s, "ona", "wrong"))
			arrival := s.Arrivals()[4-left]
			assert.Equal(t, left, arrival.Remaining)
			assert.Equal(t, 15*time.Minute, time.Until(arrival.Reset))
		}
	})
}

func TestLoginCountsTheTargetAccountToo(t *testing.T) {
	s := Must(t, Aroma())
	attempt := func(ip string) int {
		req, err := http.NewRequest(http.MethodPost, BaseURL+"/v1/sessions", strings.NewReader(`{"compte":"ona","contrasenya":"x"}`))
		require.NoError(t, err)
		resp, err := s.TransportFrom(ip).RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}
	for i := range 5 {
		require.Equal(t, 401, attempt("192.0.2."+itoa(i+1)))
	}
	assert.Equal(t, 429, attempt("192.0.2.200"), "a sixth address does not help against one account")
}

func TestOtherEndpoints(t *testing.T) {
	s := Must(t, Aroma())
	_, body := placeOrder(t, s, "k1", anOrder)
	require.Contains(t, body, "com_000001")
	for _, tc := range []struct {
		method, path, token, body string
		status                    int
	}{
		{"POST", "/v1/comandes/com_000001/pagament", "empleat:1", "", 201},
		{"POST", "/v1/comandes/com_000001/pagament", "empleat:1", "", 409},
		{"POST", "/v1/comandes/com_000001/pagament", "client:2", "", 404},
		{"POST", "/v1/cafes/caf_00001/imatge", "soci:1", "png", 201},
		{"POST", "/v1/cafes/caf_00001/imatge", "client:1", "png", 403},
		{"POST", "/v1/cafes/caf_00001/imatge", "", "png", 401},
		{"POST", "/v1/cafes/caf_00001/imatge", "soci:1", strings.Repeat("x", maxBody+1), 413},
		{"POST", "/v1/clients", "", `{"compte":"pau"}`, 201},
		{"POST", "/v1/comandes", "", anOrder, 401},
		{"GET", "/v1/comandes", "", "", 401},
		{"GET", "/v1/cafes/caf_99999", "", "", 404},
		{"GET", "/v1/cafes/caf_1", "", "", 404},
		{"GET", "/v1/cafes?limit=zero", "", "", 400},
		{"GET", "/v1/cafes?desplacament=-1", "", "", 400},
		{"DELETE", "/v1/cafes", "", "", 405},
		{"GET", "/v2", "", "", 404},
		{"GET", "/v1/cafes/", "", "", 404},
	} {
		header := []string{}
		if tc.token != "" {
			header = []string{"Authorization", "Bearer " + tc.token}
		}
		resp, text := send(t, s, tc.method, tc.path, strings.NewReader(tc.body), header...)
		assert.Equal(t, tc.status, resp.StatusCode, "%s %s as %q: %s", tc.method, tc.path, tc.token, text)
		if tc.status >= 400 {
			assert.Contains(t, text, `"detalls":[]`)
			assert.NotContains(t, text, "tracaId", "only a 5xx shows the trace id")
		}
	}
}

func TestWhatStrangersMayNotWriteCountsAllTheSame(t *testing.T) {
	s := Must(t, Aroma())
	for _, want := range []struct {
		status    int
		remaining string
	}{{401, "10"}, {401, "0"}, {429, "0"}} {
		resp, _ := send(t, s, http.MethodPost, "/v1/comandes", strings.NewReader(anOrder))
		assert.Equal(t, want.status, resp.StatusCode)
		assert.Equal(t, "60", resp.Header.Get("Aroma-RateLimit-Limit"))
		assert.Equal(t, want.remaining, resp.Header.Get("Aroma-RateLimit-Remaining"))
	}
}

func TestPageIsCutToTheMaximum(t *testing.T) {
	s := Must(t, Config{})
	_, body := get(t, s, "/v1/cafes?limit=5000")
	assert.Equal(t, maxPage, strings.Count(body, `"id":`))
	_, body = get(t, s, "/v1/cafes?desplacament=2345")
	assert.Equal(t, 5, strings.Count(body, `"id":`))
	_, body = get(t, s, "/v1/cafes?desplacament=9999")
	assert.Equal(t, `{"dades":[],"total":2350}`, body)
}

func TestHealthCheckIsNotLimited(t *testing.T) {
	s := Must(t, Config{Limit: Limit{N: 1, Per: time.Hour}})
	for range 5 {
		resp, _ := get(t, s, "/salut")
		require.Equal(t, 200, resp.StatusCode)
	}
	resp, _ := get(t, s, "/v1/cafes")
	assert.Equal(t, 200, resp.StatusCode, "and costs nothing")
}

func TestObserveModeCountsButLetsPass(t *testing.T) {
	s := Must(t, Config{Limit: Limit{N: 1, Per: time.Hour}, Observe: true})
	for range 3 {
		resp, _ := get(t, s, "/v1/cafes")
		require.Equal(t, 200, resp.StatusCode)
		require.Equal(t, "0", resp.Header.Get("Aroma-RateLimit-Restants"))
	}
	assert.Zero(t, s.Refusals())
	assert.True(t, s.Arrivals()[2].Observed)
}

func TestHeadHasNoBody(t *testing.T) {
	resp, body := send(t, Must(t, Config{}), http.MethodHead, "/v1/cafes", nil)
	assert.Equal(t, 200, resp.StatusCode)
	assert.Empty(t, body)
}

func TestRefusalIsReadableInABrowser(t *testing.T) {
	s := Must(t, Config{Limit: Limit{N: 1, Per: time.Hour}})
	get(t, s, "/v1/cafes")
	resp, _ := get(t, s, "/v1/cafes")
	assert.Equal(t, "*", resp.Header.Get("Access-Control-Allow-Origin"))
	assert.Contains(t, resp.Header.Get("Access-Control-Expose-Headers"), "Retry-After")
}

func TestTransportRefusesARequestWithoutHost(t *testing.T) {
	req, err := http.NewRequest(http.MethodGet, "/v1/cafes", io.NopCloser(strings.NewReader("")))
	require.NoError(t, err)
	_, err = Must(t, Config{}).Transport().RoundTrip(req)
	assert.Error(t, err)
}

func TestPreflightOfABrowserIsNotLimited(t *testing.T) {
	s := Must(t, Config{Limit: Limit{N: 1, Per: time.Hour}})
	for range 3 {
		resp, _ := send(t, s, http.MethodOptions, "/v1/comandes", nil, "Access-Control-Request-Method", "POST")
		require.Equal(t, 204, resp.StatusCode)
		require.Contains(t, resp.Header.Get("Access-Control-Allow-Headers"), "Idempotency-Key")
	}
	assert.Equal(t, []int{200, 429}, statuses(t, s, "/v1/cafes", 2))
}
