package httptest

import (
	"net/http"
	"time"
)

// Aroma is the whole Botiga Aroma: all tiers, endpoints and costs.
func Aroma() Config { return Config{Policies: AromaPolicies(0)} }

// PromoAzi counts two windows at once per address: 120 per minute and 2,000 per hour, and for costly endpoints
// (here: searches and everything that writes) 30 per minute and 300 per hour.
func PromoAzi() Config {
	costly := ClassSearch | ClassLogin | ClassSignUp | Writes
	window := func(name string, classes Class, n int, per time.Duration) Policy {
		return Policy{Name: name, Classes: classes, Key: ByIP, Limit: Limit{N: n, Per: per}}
	}
	return Config{Dialects: []Dialect{XRateLimit}, Policies: []Policy{
		window("hour", 0, 2000, time.Hour),
		window("minute", 0, 120, time.Minute),
		window("costly-hour", costly, 300, time.Hour),
		window("costly-minute", costly, 30, time.Minute),
	}}
}

// SmartBill lets 3 requests per second pass. Whoever sends more gets 403 for ten minutes, without any hint; with
// extending, every request during the ban starts the ten minutes anew.
func SmartBill(extending bool) Config {
	return Config{Silent: true, Policies: []Policy{{
		Name: "ban", Status: http.StatusForbidden, Body: `{"errorText":"Prea multe cereri."}`,
		Limit: Limit{Algorithm: SlidingLog, N: 3, Per: time.Second, Ban: 10 * time.Minute, BanExtends: extending},
	}}}
}

// GitHub has a primary limit of 5,000 per hour, refused with 403 and X-RateLimit headers but no Retry-After, and a
// hidden secondary limit of 900 per minute, refused with 403 and Retry-After while the headers still show plenty left.
func GitHub() Config {
	return Config{Dialects: []Dialect{XRateLimit}, Policies: []Policy{
		{Name: "secondary", Hidden: true, Status: http.StatusForbidden,
			Body:  `{"message":"You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}`,
			Limit: Limit{N: 900, Per: time.Minute, FromFirst: true}},
		{Name: "core", Status: http.StatusForbidden, Hint: HintNone,
			Body:  `{"message":"API rate limit exceeded"}`,
			Limit: Limit{N: 5000, Per: time.Hour, FromFirst: true}},
	}}
}

// Nginx is limit_req as usually configured: rate per second, a burst on top that passes at once, and beyond it a
// 503 with an HTML page and no hint of any kind. A rate below 1 counts as 1, a negative burst as 0.
func Nginx(rate, burst int) Config {
	return Config{Silent: true, Policies: []Policy{{
		Name: "limit_req", Key: ByIP, Status: http.StatusServiceUnavailable,
		Body:  "<html>\n<head><title>503 Service Temporarily Unavailable</title></head>\n<body>\n<center><h1>503 Service Temporarily Unavailable</h1></center>\n<hr><center>nginx</center>\n</body>\n</html>\n",
		Limit: Limit{Algorithm: TokenBucket, N: max(1, rate), Per: time.Second, Capacity: max(0, burst) + 1},
	}}}
}

// WrongHint is Botiga Aroma's catalog under 60 per minute, with a Retry-After of this kind on every refusal.
func WrongHint(hint Hint) Config {
	return Config{Limit: Limit{N: 60, Per: time.Minute}, Hint: hint}
}

// SkewedClock is Botiga Aroma's catalog under 60 per minute, with honest HTTP-dates in Retry-After from a clock that is
// ahead by skew (negative: behind).
func SkewedClock(skew time.Duration) Config {
	return Config{Limit: Limit{N: 60, Per: time.Minute}, Hint: HintDate, Skew: skew}
}

// profiles are the ready configs by name, in the order in which they are listed.
var profiles = []struct {
	name   string
	config func() Config
}{
	{"catalog", func() Config { return Config{} }},
	{"aroma", Aroma},
	{"promoazi", PromoAzi},
	{"smartbill", func() Config { return SmartBill(false) }},
	{"smartbill-extending", func() Config { return SmartBill(true) }},
	{"github", GitHub},
	{"nginx", func() Config { return Nginx(5, 10) }},
	{"hint-date", func() Config { return WrongHint(HintDate) }},
	{"hint-none", func() Config { return WrongHint(HintNone) }},
	{"hint-early", func() Config { return WrongHint(HintEarly) }},
	{"hint-late", func() Config { return WrongHint(HintLate) }},
	{"hint-past", func() Config { return WrongHint(HintPast) }},
	{"hint-huge", func() Config { return WrongHint(HintHuge) }},
	{"hint-zero", func() Config { return WrongHint(HintZero) }},
	{"hint-junk", func() Config { return WrongHint(HintJunk) }},
	{"clock-ahead", func() Config { return SkewedClock(time.Hour) }},
	{"clock-behind", func() Config { return SkewedClock(-time.Hour) }},
}

// Profiles are the names that [Profile] knows.
func Profiles() []string {
	names := make([]string, len(profiles))
	for i, p := range profiles {
		names[i] = p.name
	}
	return names
}

// Profile returns a ready Config by its name; an unknown one is a [*ConfigError] that lists the known names.
func Profile(name string) (Config, error) {
	for _, p := range profiles {
		if p.name == name {
			return p.config(), nil
		}
	}
	return Config{}, unknownName("profile", name, Profiles())
}
