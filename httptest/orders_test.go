package httptest

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const anOrder = `{"linies":[{"cafe":"caf_00007","quantitat":2}]}`

func placeOrder(t *testing.T, s *Server, key, body string) (*http.Response, string) {
	t.Helper()
	header := []string{"Authorization", "Bearer empleat:1"}
	if key != "" {
		header = append(header, "Idempotency-Key", key)
	}
	return send(t, s, http.MethodPost, "/v1/comandes", strings.NewReader(body), header...)
}

func TestOrderNeedsAnIdempotencyKey(t *testing.T) {
	resp, _ := placeOrder(t, Must(t, Aroma()), "", anOrder)
	assert.Equal(t, 400, resp.StatusCode)
}

func TestOrderIsReplayedUnderItsKey(t *testing.T) {
	s := Must(t, Aroma())
	first, body := placeOrder(t, s, "k1", anOrder)
	require.Equal(t, 201, first.StatusCode)
	second, again := placeOrder(t, s, "k1", anOrder)
	assert.Equal(t, 201, second.StatusCode)
	assert.Equal(t, body, again)
	assert.Equal(t, "true", second.Header.Get("Idempotency-Replayed"))
	_, list := get(t, s, "/v1/comandes", "Authorization", "Bearer empleat:1")
	assert.Contains(t, list, `"total":1`)
}

func TestOrderUnderAKnownKeyWithAnotherBodyIsRefused(t *testing.T) {
	s := Must(t, Aroma())
	placeOrder(t, s, "k1", anOrder)
	resp, _ := placeOrder(t, s, "k1", strings.Replace(anOrder, "2", "3", 1))
	assert.Equal(t, 422, resp.StatusCode)
	assert.Equal(t, 1, s.Scorecard().All.Mismatches)
}

func TestOrderUnderAKeyInWorkIsAConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := Aroma()
		config.OrderTime = 3 * time.Second
		s := Must(t, config)
		go placeOrder(t, s, "k1", anOrder)
		time.Sleep(time.Second)
		resp, _ := placeOrder(t, s, "k1", anOrder)
		assert.Equal(t, 409, resp.StatusCode)
		time.Sleep(2 * time.Second)
		resp, _ = placeOrder(t, s, "k1", anOrder)
		assert.Equal(t, 201, resp.StatusCode)
	})
}

func TestOrderIsStoredWhenOnlyItsAnswerIsLost(t *testing.T) {
	s := Must(t, Aroma())
	s.Script(Fail(ResetAfter))
	req, err := http.NewRequest(http.MethodPost, BaseURL+"/v1/comandes", strings.NewReader(anOrder))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer empleat:1")
	req.Header.Set("Idempotency-Key", "k1")
	_, err = s.Transport().RoundTrip(req)
	require.Error(t, err)
	resp, _ := placeOrder(t, s, "k1", anOrder)
	assert.Equal(t, "true", resp.Header.Get("Idempotency-Replayed"))
}

func TestPaidOrderIsListedAsPaid(t *testing.T) {
	s := Must(t, Aroma())
	_, placed := placeOrder(t, s, "k1", anOrder)
	_, paid := send(t, s, http.MethodPost, "/v1/comandes/com_000001/pagament", nil, "Authorization", "Bearer empleat:1")
	assert.Equal(t, strings.Replace(placed, "rebuda", "pagada", 1), paid)
	_, list := get(t, s, "/v1/comandes", "Authorization", "Bearer empleat:1")
	assert.Equal(t, `{"dades":[`+paid+`],"total":1}`, list)
	_, again := placeOrder(t, s, "k1", anOrder)
	assert.Equal(t, placed, again, "what a key brings does not change")
}

func TestUsersOfOneAppHaveOrdersAndKeysOfTheirOwn(t *testing.T) {
	s := Must(t, Config{})
	order := func(user, body string) (int, string) {
		resp, text := send(t, s, http.MethodPost, "/v1/comandes", strings.NewReader(body), "Authorization", "Bearer app:catabox:"+user, "Idempotency-Key", "1")
		return resp.StatusCode, text
	}
	status, _ := order("ona", anOrder)
	require.Equal(t, 201, status)
	status, placed := order("pau", strings.Replace(anOrder, "2", "3", 1))
	assert.Equal(t, 201, status)
	_, list := get(t, s, "/v1/comandes", "Authorization", "Bearer app:catabox:pau")
	assert.Equal(t, `{"dades":[`+placed+`],"total":1}`, list)
	resp, _ := send(t, s, http.MethodPost, "/v1/comandes/com_000001/pagament", nil, "Authorization", "Bearer app:catabox:pau")
	assert.Equal(t, 404, resp.StatusCode, "it is another user's")
	RequireWellBehaved(t, s)
}
