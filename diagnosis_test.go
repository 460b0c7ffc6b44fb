package polite_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
)

// diagnosed are the options of a client whose findings are collected.
func diagnosed(base http.RoundTripper) (*polite.Options, func() []polite.DiagnosisEvent) {
	var mu sync.Mutex
	var told []polite.DiagnosisEvent
	opts := quick(base)
	opts.Limit.MaxWait, opts.Retry.MaxElapsed, opts.Retry.MaxWait = -1, -1, -1
	opts.Trace = &polite.Trace{Diagnosis: func(e polite.DiagnosisEvent) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, e)
	}}
	return opts, func() []polite.DiagnosisEvent {
		mu.Lock()
		defer mu.Unlock()
		return told
	}
}

// kinds are the findings without their facts.
func kinds(events []polite.DiagnosisEvent) []polite.Diagnosis {
	var all []polite.Diagnosis
	for _, e := range events {
		all = append(all, e.Diagnosis)
	}
	return all
}

// aMinute is 60 requests a minute, from a clock that begins with the test.
var aMinute = politetest.Limit{Algorithm: politetest.FixedWindow, N: 60, Per: time.Minute}

// impatient sends without asking anybody, as a program that shares the quota
// might.
func impatient(t testing.TB, server *politetest.Server, n int) {
	for range n {
		resp, err := server.Transport().RoundTrip(request(t, http.MethodGet, aCoffee, ""))
		require.NoError(t, err)
		readBody(t, resp)
	}
}

func TestEveryFindingHasAPhraseAndARemedy(t *testing.T) {
	seen := map[string]bool{}
	for d := polite.LowLimit; d <= polite.ExtendedBan; d++ {
		assert.NotEmpty(t, d.Remedy(), d)
		assert.False(t, seen[d.String()], d)
		seen[d.String()] = true
	}
	for _, d := range []polite.Diagnosis{-1, 0, polite.ExtendedBan + 1} {
		assert.Equal(t, "unknown", d.String())
		assert.Empty(t, d.Remedy())
	}
}

func TestMissingAuthorizationIsDiagnosed(t *testing.T) {
	for _, signedIn := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			base := politetest.Must(t, politetest.Aroma()).Transport()
			if signedIn {
				base = withToken(base)
			}
			opts, told := diagnosed(base)
			opts.ExpectedLimit = 300
			client := polite.New(opts)
			took(t, client, aCoffee)
			took(t, client, aCoffee)
			if signedIn {
				assert.Empty(t, told())
				return
			}
			require.Equal(t, []polite.Diagnosis{polite.LowLimit}, kinds(told()))
			assert.EqualValues(t, 60, told()[0].Quota.Limit)
		})
	}
}

// A burst is smaller than the quota of the day for everybody.
func TestSmallWindowBesideAnExpectedOneIsNotLow(t *testing.T) {
	for expected, want := range map[int64][]polite.Diagnosis{1200: nil, 1201: {polite.LowLimit}} {
		synctest.Test(t, func(t *testing.T) {
			server := politetest.Must(t, politetest.Config{Dialects: []politetest.Dialect{politetest.Draft8}, Policies: []politetest.Policy{
				{Name: "burst", Limit: politetest.Limit{N: 100, Per: 10 * time.Second}},
				{Name: "default", Limit: politetest.Limit{N: 1200, Per: 5 * time.Minute}},
			}})
			opts, told := diagnosed(server.Transport())
			opts.ExpectedLimit = expected
			took(t, polite.New(opts), aCoffee)
			require.Equal(t, want, kinds(told()))
			for _, e := range told() {
				assert.EqualValues(t, 1200, e.Quota.Limit)
			}
		})
	}
}

// Somebody else takes one, two or five requests between two of ours.
func TestStrangerInTheQuotaIsDiagnosed(t *testing.T) {
	for name, tc := range map[string]struct {
		url    func(i int) string
		others []int
	}{
		"one address has one price":   {func(int) string { return aCoffee }, []int{0, 1}},
		"an endpoint has few of them": {func(i int) string { return coffees + "&desplacament=" + strconv.Itoa(i) }, []int{0, 1, 0, 2, 5, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := politetest.Must(t, politetest.Config{Latency: roundTime, Limit: aMinute})
				opts, told := diagnosed(server.Transport())
				client := polite.New(opts)
				for i := range 12 {
					took(t, client, tc.url(i))
					impatient(t, server, tc.others[i%len(tc.others)])
				}
				assert.Equal(t, []polite.Diagnosis{polite.SharedQuota}, kinds(told()))
			})
		})
	}
}

// A wait a little beyond the window is a cautious server's.
func TestWaitSomewhatBeyondTheWindowIsNotDiagnosed(t *testing.T) {
	for after, want := range map[string][]polite.Diagnosis{"121": nil, "122": {polite.LongRetryAfter}} {
		synctest.Test(t, func(t *testing.T) {
			opts, told := diagnosed(roundTripper(func(req *http.Request) (*http.Response, error) {
				return answered(req, http.StatusTooManyRequests, "", "Retry-After", after, "RateLimit-Policy", "60;w=60"), nil
			}))
			opts.Retry.Disable = true
			fetch(t.Context(), polite.New(opts), aCoffee)
			assert.Equal(t, want, kinds(told()), after)
		})
	}
}

// Whatever a server charges and however it counts: prices are no strangers.
func TestPricesAreNotTakenForAStranger(t *testing.T) {
	for _, algorithm := range politetest.Algorithms() {
		for _, pause := range []time.Duration{0, 100 * time.Millisecond, 700 * time.Millisecond, 3 * time.Second} {
			t.Run(fmt.Sprint(algorithm, pause), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server := politetest.Must(t, politetest.Config{Latency: roundTime, Cost: politetest.AromaCost,
						Limit: politetest.Limit{Algorithm: algorithm, N: 300, Per: time.Minute}})
					opts, told := diagnosed(server.Transport())
					client := polite.New(opts)
					pages := "http://api.test/v1/cafes?desplacament=0&limit="
					for i := range 300 {
						for _, url := range [][]string{{aCoffee}, {pages + "100"}, {pages + "10", pages + "100"}, {aSearch}, {aCoffee, aSearch}}[i/60] {
							took(t, client, url)
							time.Sleep(pause * time.Duration(i%3))
						}
					}
					assert.Empty(t, kinds(told()))
				})
			})
		}
	}
}

func TestRefusalWithoutRetryAfterIsDiagnosed(t *testing.T) {
	for hint, want := range map[politetest.Hint][]polite.Diagnosis{
		politetest.HintNone:    {polite.NoRetryAfter},
		politetest.HintSeconds: nil,
		politetest.HintDate:    nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			server := politetest.Must(t, politetest.WrongHint(hint))
			opts, told := diagnosed(server.Transport())
			opts.Preemptive.Disable = true
			client := polite.New(opts)
			for range 200 {
				took(t, client, aCoffee)
			}
			require.NotZero(t, server.Refusals())
			assert.Equal(t, want, kinds(told()), hint)
		})
	}
}

func TestClockThatDiffersIsDiagnosed(t *testing.T) {
	for _, skew := range []time.Duration{time.Hour, -5 * time.Second, 0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			config := politetest.SkewedClock(skew)
			config.Latency = roundTime
			opts, told := diagnosed(politetest.Must(t, config).Transport())
			client := polite.New(opts)
			took(t, client, aCoffee)
			took(t, client, aCoffee)
			if skew.Abs() < 2*time.Second {
				assert.Empty(t, told())
				return
			}
			require.Equal(t, []polite.Diagnosis{polite.SkewedClock}, kinds(told()))
			assert.InDelta(t, skew, told()[0].Skew, float64(time.Second)) // Date has whole seconds
		})
	}
}

// An answer that took long is dated long ago.
func TestSlowAnswerIsNotTakenForAWrongClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts, told := diagnosed(roundTripper(func(req *http.Request) (*http.Response, error) {
			date := time.Now().UTC().Format(http.TimeFormat)
			time.Sleep(10 * time.Second)
			return answered(req, http.StatusOK, "", "Date", date, "X-RateLimit-Limit", "60"), nil
		}))
		took(t, polite.New(opts), aCoffee)
		assert.Empty(t, told())
	})
}

func TestWaitFarBeyondTheWindowIsDiagnosed(t *testing.T) {
	for hint, want := range map[politetest.Hint][]polite.Diagnosis{
		politetest.HintHuge:    {polite.LongRetryAfter},
		politetest.HintLate:    {polite.LongRetryAfter},
		politetest.HintSeconds: nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			server := politetest.Must(t, politetest.WrongHint(hint))
			opts, told := diagnosed(server.Transport())
			opts.Preemptive.Disable, opts.Retry.Disable = true, true
			client := polite.New(opts)
			for range 61 {
				fetch(t.Context(), client, aCoffee)
			}
			require.Equal(t, 1, server.Refusals())
			require.Equal(t, want, kinds(told()), hint)
			for _, e := range told() {
				assert.Greater(t, e.Asked, 2*time.Minute)
			}
		})
	}
}

func TestQuotaKeyThatMixesBucketsIsDiagnosed(t *testing.T) {
	for _, dialect := range []politetest.Dialect{politetest.Draft8, politetest.XRateLimit} {
		for name, key := range map[string]func(*http.Request) string{
			"one key for all": func(*http.Request) string { return "all" },
			"one each":        func(r *http.Request) string { return r.URL.Path },
			"none":            nil,
		} {
			t.Run(dialect.String()+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					opts, told := diagnosed(twoBuckets(t, dialect).Transport())
					opts.QuotaKey = key
					client := polite.New(opts)
					for range 3 {
						took(t, client, aCoffee)
						took(t, client, aSearch)
					}
					if name == "one key for all" {
						assert.Equal(t, []polite.Diagnosis{polite.MixedQuotaKey}, kinds(told()))
					} else {
						assert.Empty(t, told())
					}
				})
			})
		}
	}
}

// A limit that is raised and lowered again is no other bucket.
func TestLimitThatGoesUpAndDownIsNoMixedKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := 60
		opts, told := diagnosed(roundTripper(func(req *http.Request) (*http.Response, error) {
			return answered(req, http.StatusOK, "", "X-RateLimit-Limit", strconv.Itoa(limit)), nil
		}))
		opts.QuotaKey = func(*http.Request) string { return "all" }
		client := polite.New(opts)
		for _, limit = range []int{60, 300, 60, 300} {
			took(t, client, aCoffee)
		}
		assert.Empty(t, told())
	})
}

// A server that tells half of the ban: with one that starts anew at each
// request the next wait is as long again, with an honest ban it is what is left.
func TestBanThatStartsAnewIsDiagnosed(t *testing.T) {
	for _, extends := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			server := politetest.Must(t, politetest.Config{Hint: politetest.HintEarly, Limit: politetest.Limit{
				N: 3, Per: time.Second, Ban: 10 * time.Minute, BanExtends: extends}})
			opts, told := diagnosed(server.Transport())
			opts.Preemptive.Disable = true
			client := polite.New(opts)
			for range 4 {
				fetch(t.Context(), client, aCoffee)
			}
			require.NotZero(t, server.Refusals())
			if found := kinds(told()); extends {
				assert.Contains(t, found, polite.ExtendedBan)
			} else {
				assert.NotContains(t, found, polite.ExtendedBan)
			}
		})
	}
}

// A stranger who is quicker at every reset makes each refusal as long as the
// last one, but the quota explains it; and an overloaded server bans nobody.
func TestWaitsOfEqualLengthAreNoBan(t *testing.T) {
	for name, headers := range map[string][]string{
		"quota":    {"Retry-After", "60", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "60"},
		"overload": {"Retry-After", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opts, told := diagnosed(roundTripper(func(req *http.Request) (*http.Response, error) {
					return answered(req, http.StatusTooManyRequests, "", headers...), nil
				}))
				assert.Equal(t, http.StatusTooManyRequests, fetch(t.Context(), polite.New(opts), aCoffee))
				assert.Empty(t, told())
			})
		})
	}
}

// Each finding is told once for its quota, and those of the host once.
func TestFindingsAreToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts, told := diagnosed(roundTripper(func(req *http.Request) (*http.Response, error) {
			return answered(req, http.StatusTooManyRequests, "", "X-RateLimit-Limit", "60", "Date", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)), nil
		}))
		opts.ExpectedLimit, opts.Retry.Disable = 300, true
		opts.QuotaKey = func(r *http.Request) string { return strings.TrimPrefix(r.URL.Path, "/a") }
		client := polite.New(opts)
		for range 3 {
			for _, path := range []string{"/a", "/b"} {
				fetch(t.Context(), client, "http://api.test"+path)
			}
		}
		assert.Equal(t, []polite.Diagnosis{polite.LowLimit, polite.NoRetryAfter, polite.SkewedClock}, kinds(told()))
	})
}

func TestFindingsAreLoggedAsWarningsWithTheirRemedy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		server := politetest.Must(t, politetest.Config{Limit: aMinute})
		client := polite.New(&polite.Options{Base: server.Transport(), ExpectedLimit: 300,
			Trace: polite.SlogTrace(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})))})
		took(t, client, aCoffee)
		assert.Contains(t, log.String(), `level=WARN msg="polite: the server's limit is lower than expected"`)
		assert.Contains(t, log.String(), "limit=60")
		assert.Contains(t, log.String(), "Authorization")
	})
}

// A delay that was taken from the quota is none that the server asked for.
func TestMissingRetryAfterIsNotToldAsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts, told := diagnosed(serving(t, politetest.Respond(429, "X-RateLimit-Limit", "60", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "60").Times(-1)).Transport())
		opts.Retry.Disable = true
		fetch(t.Context(), polite.New(opts), aCoffee)
		require.Equal(t, []polite.Diagnosis{polite.NoRetryAfter}, kinds(told()))
		assert.EqualValues(t, 60, told()[0].Quota.Limit)
		assert.Zero(t, told()[0].Asked)
	})
}

// What is not known is left out: remaining=0 would read as an exhausted quota.
func TestFindingsAreLoggedWithoutWhatIsNotKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		server := serving(t, politetest.Respond(429))
		client := polite.New(&polite.Options{Base: server.Transport(), Retry: polite.RetryOptions{Disable: true},
			Trace: polite.SlogTrace(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})))})
		fetch(t.Context(), client, aCoffee)
		assert.Contains(t, log.String(), "without Retry-After")
		assert.NotRegexp(t, "expected=|limit=|remaining=|asked=|skew=", log.String())
	})
}

// A quota of tokens that is used up is not taken for one of requests.
func TestQuotasAreLoggedWithTheirUnitAndWithoutWhatIsNotKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		server := serving(t, politetest.Respond(200, "X-RateLimit-Limit-Tokens", "1000", "X-RateLimit-Remaining-Tokens", "0",
			"X-RateLimit-Reset-Tokens", "6m0s", "X-RateLimit-Limit-Requests", "60"))
		client := polite.New(&polite.Options{Base: server.Transport(),
			Trace: polite.SlogTrace(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))})
		fetch(t.Context(), client, aCoffee)
		var quotas []string
		for line := range strings.Lines(log.String()) {
			if _, facts, ok := strings.Cut(line, "policy="); ok {
				quotas = append(quotas, strings.TrimSpace(facts))
			}
		}
		assert.Equal(t, []string{"tokens limit=1000 remaining=0 unit=tokens reset=2000-01-01T00:06:00.000Z", "requests limit=60"}, quotas)
	})
}

// What polite finds is told once, with what helps.
func ExampleDiagnosis() {
	server, err := politetest.New(politetest.Aroma())
	if err != nil {
		fmt.Println(err)
		return
	}
	client := polite.New(&polite.Options{
		Base:          server.Transport(),
		ExpectedLimit: 300,
		Trace: &polite.Trace{Diagnosis: func(e polite.DiagnosisEvent) {
			fmt.Printf("%v (%d instead of %d)\n", e.Diagnosis, e.Quota.Limit, e.Expected)
			fmt.Println(e.Diagnosis.Remedy())
		}},
	})
	for range 2 {
		resp, err := client.HTTPClient().Get(politetest.BaseURL + "/v1/cafes/caf_00001")
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
	}
	// Output:
	// the server's limit is lower than expected (60 instead of 300)
	// check the Authorization header: without it the server applies the low limit of anonymous callers
}

// Searches have a limit of their own; that it is lower than the reads' says
// nothing about the caller's credentials.
func TestLimitOfAnotherKeyIsNotLow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := politetest.Must(t, politetest.Aroma())
		o := polite.Aroma()
		o.Base, o.ExpectedLimit = server.Transport(), 60
		o.Trace = &polite.Trace{Diagnosis: func(e polite.DiagnosisEvent) { t.Error(e.Diagnosis) }}
		client := polite.New(o)
		fetch(t.Context(), client, coffees)
		fetch(t.Context(), client, "http://api.test/v1/cafes?q=etiopia")
	})
}

// A quota that another key's requests use up, too, is not a stranger's work.
func TestOwnRequestsByAnotherKeyAreNotAStranger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := politetest.Must(t, politetest.PromoAzi())
		o := polite.PromoAzi(func(r *http.Request) bool { return r.URL.Query().Has("q") })
		o.Base = server.Transport()
		o.Trace = &polite.Trace{Diagnosis: func(e polite.DiagnosisEvent) {
			assert.NotEqual(t, polite.SharedQuota, e.Diagnosis)
		}}
		client := polite.New(o)
		for i := range 40 {
			url := coffees
			if i%3 == 0 {
				url = "http://api.test/v1/cafes?q=etiopia"
			}
			fetch(t.Context(), client, url)
		}
	})
}
