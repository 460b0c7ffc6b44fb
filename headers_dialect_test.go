package polite

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// readWith reads a response for api.example.com with rows of the user.
func readWith(rows []Dialect, status int, h http.Header) []string {
	return facts(newDialects(rows).saying("api.example.com", status, h, noon), noon)
}

// Case C159.
func TestUserRowAddsNames(t *testing.T) {
	rows := []Dialect{{
		Limit: "x-budget-size", Remaining: "X-Budget-Left, X-Budget-Rest", Reset: "X-Budget-Renewal", ResetAs: DeltaMinutes,
		Retry: "X-Budget-Wait", RetryAs: DeltaMilliseconds, Policy: "budget", Unit: "credits", Period: time.Hour,
	}}
	h := http.Header{"X-Budget-Size": {"500"}, "X-Budget-Rest": {"0"}, "X-Budget-Renewal": {"3"}, "X-Budget-Wait": {"1500"}}
	assert.Equal(t, []string{"quota budget 0/500 credits reset 3m window 1h", "retry 1.5s by vendor"}, readWith(rows, 429, h))
}

func TestUserRowWinsOverBuiltinRow(t *testing.T) {
	h := http.Header{"X-Ratelimit-Remaining": {"5"}, "X-Ratelimit-Reset": {"1500"}}
	rows := []Dialect{{Remaining: "X-RateLimit-Remaining", Reset: "X-RateLimit-Reset", ResetAs: DeltaMilliseconds}}
	assert.Equal(t, []string{"quota 5/? reset 25m"}, readWith(nil, 200, h))
	assert.Equal(t, []string{"quota 5/? reset 1.5s"}, readWith(rows, 200, h))
}

func TestUserRowForEveryHostWinsOverBuiltinRowForOne(t *testing.T) {
	h := http.Header{"X-Rate-Limit-Remaining": {"5"}, "X-Rate-Limit-Reset": {"3000"}}
	rows := []Dialect{{Remaining: "X-Rate-Limit-Remaining", Reset: "X-Rate-Limit-Reset", ResetAs: DeltaSeconds}}
	read := func(rows []Dialect) []string {
		return facts(newDialects(rows).saying("api.nuvemshop.com.br", 200, h, noon), noon)
	}
	assert.Equal(t, []string{"quota 5/? reset 3s"}, read(nil))
	assert.Equal(t, []string{"quota 5/? reset 50m"}, read(rows))
}

func TestRowForAHostHoldsBelowItAndNowhereElse(t *testing.T) {
	d := newDialects([]Dialect{{Hosts: []string{"Example.com"}, Remaining: "X-Left"}})
	h := http.Header{"X-Left": {"5"}}
	for _, host := range []string{"example.com", "api.example.com", "API.EXAMPLE.COM:8443", "a.b.example.com."} {
		assert.Len(t, facts(d.saying(host, 200, h, noon), noon), 1, host)
	}
	for _, host := range []string{"", "com", "example.org", "notexample.com", "example.com.evil.org", "[::1]:80", "192.0.2.1"} {
		assert.Empty(t, facts(d.saying(host, 200, h, noon), noon), host)
	}
}

func TestRowsForAHostAndBelowItAddUp(t *testing.T) {
	d := newDialects([]Dialect{
		{Hosts: []string{"example.com"}, Remaining: "X-Left", Refusals: []int{420}},
		{Hosts: []string{"api.example.com"}, Reset: "X-Wait-Until", Wait: time.Minute},
	})
	s := d.saying("api.example.com", 420, http.Header{"X-Left": {"5"}}, noon)
	assert.Equal(t, []string{"quota 5/?", "retry 1m by dialect", "refused"}, facts(s, noon))
}

func TestStarNamesTheQuota(t *testing.T) {
	rows := []Dialect{{Limit: "X-*-Cap", Remaining: "X-*-Left", Reset: "X-*-Renewal"}}
	h := http.Header{"X-Search-Cap": {"10"}, "X-Search-Left": {"1"}, "X-Search-Renewal": {"9"}, "X-Input-Tokens-Left": {"7"}}
	assert.Equal(t, []string{"quota search 1/10 reset 9s", "quota input-tokens 7/? tokens"}, readWith(rows, 200, h))
}

func TestStarStandsForSomething(t *testing.T) {
	rows := []Dialect{{Remaining: "X-Left-*"}}
	assert.Empty(t, readWith(rows, 200, http.Header{"X-Left-": {"5"}, "X-Left": {"5"}}))
}

func TestStatusesOfARowForAllHosts(t *testing.T) {
	rows := []Dialect{{Refusals: []int{420, 200, 0, -1}, RefusalsWithHint: []int{409}}}
	assert.Equal(t, []string{"refused"}, readWith(rows, 420, nil))
	assert.Empty(t, readWith(rows, 200, http.Header{"Retry-After": {"5"}}), "a success is no refusal")
	assert.Empty(t, readWith(rows, 409, nil))
	assert.Equal(t, []string{"retry 5s by retry-after", "refused"}, readWith(rows, 409, http.Header{"Retry-After": {"5"}}))
	assert.Equal(t, []string{"refused"}, facts(newDialects(rows).saying("api.github.com", 420, nil, noon), noon)[1:], "also where a row names the host")
}

func TestRetryAfterOfAUserKeepsItsPlace(t *testing.T) {
	rows := []Dialect{{Retry: "Retry-After", RetryAs: DeltaMinutes}}
	h := http.Header{"Retry-After": {"2"}, "X-Retry-In": {"9s"}}
	assert.Equal(t, []string{"retry 2m by retry-after"}, readWith(rows, 429, h))
}

func TestBadRowsDoNothing(t *testing.T) {
	rows := []Dialect{
		{},
		{Limit: "*", Remaining: "X-*-*", Reset: "no header", Retry: "näme", Window: ",,", Bucket: "a:b"},
		{Hosts: []string{"", "  "}, Remaining: "X-Ratelimit-Remaining", Reset: "X-Ratelimit-Remaining"},
		{Wait: -time.Second, Period: -time.Hour, Remaining: "X-Left"},
	}
	h := http.Header{"X-Ratelimit-Remaining": {"5"}, "X-Left": {"3"}, "X-A-B": {"1"}}
	assert.Equal(t, []string{"quota 3/?"}, readWith(rows, 200, h)[:1], "the unnamed quota of two rows is one, the least counts")
	assert.Empty(t, readWith(rows, 429, http.Header{"No header": {"1"}, "Date": {"x"}}))
}

func TestProtocolFieldsCannotBeTakenOver(t *testing.T) {
	rows := []Dialect{{Remaining: "Age", Reset: "Date"}}
	h := http.Header{"Age": {"10"}, "X-Ratelimit-Remaining": {"5"}}
	assert.Empty(t, readWith(rows, 200, h))
}

func TestRowsAreCopied(t *testing.T) {
	rows := []Dialect{{Remaining: "X-Left", Refusals: []int{420}, Hosts: []string{"example.com"}}}
	d := newDialects(rows)
	rows[0].Refusals[0], rows[0].Hosts[0], rows[0].Remaining = 418, "example.org", "X-Other"
	s := d.saying("example.com", 420, http.Header{"X-Left": {"5"}}, noon)
	assert.Equal(t, []string{"quota 5/?", "refused"}, facts(s, noon))
}

func TestEveryBuiltinRowIsReachable(t *testing.T) {
	d := builtinDialects()
	reached := make(map[string]bool)
	visit := func(x *nameIndex) {
		for _, fields := range x.exact {
			reached[fields[0].row.Name] = true
		}
		for _, index := range []map[string][]wildcard{x.prefix, x.suffix} {
			for _, cards := range index {
				for _, c := range cards {
					reached[c.fields[0].row.Name] = true
				}
			}
		}
	}
	visit(&d.names)
	for _, l := range d.hosts {
		visit(&l.names)
	}
	names := make(map[string]bool)
	for _, row := range builtinTable {
		require.False(t, names[row.Name], "%s twice", row.Name)
		names[row.Name] = true
		matters := len(row.Refusals)+len(row.RefusalsWithHint) > 0 || row.Wait > 0
		assert.True(t, reached[row.Name] || matters, "no name of %s means anything", row.Name)
		for _, h := range row.Hosts {
			assert.NotNil(t, d.hosts[h], h)
		}
	}
}

func TestQuotasDoNotDependOnTheOrderOfTheHeader(t *testing.T) {
	for _, c := range readHeaderCases(t) {
		first := facts(builtinDialects().saying(c.host, c.status, c.header, c.now), c.now)
		for range 8 { // a map is walked in another order each time
			require.Equal(t, first, facts(builtinDialects().saying(c.host, c.status, c.header, c.now), c.now), c.title)
		}
	}
}

func TestParseQuotaAgreesWithWhatTheTransportReads(t *testing.T) {
	for _, c := range readHeaderCases(t) {
		s := builtinDialects().saying("api.example.com", http.StatusOK, c.header, c.now)
		require.Equal(t, append([]Quota(nil), s.quotas[:s.n]...), ParseQuota(c.header, c.now), c.title)
	}
}

func TestHeaderMadeByHandIsRead(t *testing.T) {
	got := ParseQuota(http.Header{"x-ratelimit-remaining": {"5"}, "": {"1"}, "X-Ratelimit-Limit": {}}, noon)
	assert.Equal(t, []Quota{{Limit: -1, Remaining: 5}}, got)
	assert.Nil(t, ParseQuota(nil, noon))
}

func TestMoreBindingIsAnOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	one := func() Quota {
		q := Quota{Limit: random.Int64N(4) - 1, Remaining: random.Int64N(4) - 1, Policy: fmt.Sprint(random.IntN(3))}
		if random.IntN(2) == 0 {
			q.Reset = noon.Add(time.Duration(random.IntN(3)) * time.Second)
		}
		if q.Limit == 0 {
			q.Limit = -1
		}
		return q
	}
	for range 20_000 {
		a, b, c := one(), one(), one()
		require.False(t, moreBinding(&a, &b) && moreBinding(&b, &a), "%v %v", a, b)
		if moreBinding(&a, &b) && moreBinding(&b, &c) {
			require.True(t, moreBinding(&a, &c), "%v %v %v", a, b, c)
		}
	}
}

func TestALongHeaderIsReadInPart(t *testing.T) {
	h := http.Header{}
	for i := range 5000 {
		h.Set(fmt.Sprintf("X-RateLimit-Remaining-%d", i), "5")
		h.Add("RateLimit", fmt.Sprintf(`"p%d";r=%d`, i, i))
		h.Add("RateLimit-Policy", fmt.Sprintf(`"q%d";q=%d`, i, i))
	}
	assert.Len(t, ParseQuota(h, noon), maxQuotas)
}
