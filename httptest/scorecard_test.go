package httptest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEarlyCountsWhatWasSentAfterTheClientWasTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Must(t, Config{Limit: Limit{N: 1, Per: time.Minute}, Latency: 20 * time.Millisecond})
		var all sync.WaitGroup
		for range 5 { // all under way before the first refusal is known
			all.Go(func() { get(t, s, "/v1/cafes") })
		}
		all.Wait()
		assert.Equal(t, 4, s.Refusals())
		get(t, s, "/v1/cafes") // by a goroutine that may not know yet
		assert.Zero(t, s.Scorecard().All.Early)
		get(t, s, "/v1/cafes")
		assert.Equal(t, 1, s.Scorecard().All.Early)
		time.Sleep(time.Minute)
		get(t, s, "/v1/cafes")
		assert.Equal(t, 1, s.Scorecard().All.Early)
	})
}

func TestWhatWasUnderWayWhenTheRefusalArrivedIsNotEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Must(t, Config{Limit: Limit{N: 1, Per: time.Minute}, Latency: 20 * time.Millisecond})
		get(t, s, "/v1/cafes")
		go get(t, s, "/v1/cafes") // its refusal arrives after 20 ms
		time.Sleep(15 * time.Millisecond)
		get(t, s, "/v1/cafes") // reaches the server after 25 ms
		assert.Equal(t, 2, s.Refusals())
		assert.Zero(t, s.Scorecard().All.Early)
	})
}

func TestRefusalBindsOnlyWhatItsLimitCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Must(t, Aroma())
		token := []string{"Authorization", "Bearer empleat:1"}
		for range 21 { // the last one is told to wait a minute
			get(t, s, "/v1/cafes?q=guji", token...)
		}
		get(t, s, "/v1/cafes/caf_00001", token...)
		assert.Zero(t, s.Scorecard().All.Early, "a search that is refused does not stop the catalog")
		get(t, s, "/v1/cafes?q=guji", token...)
		assert.Equal(t, 1, s.Scorecard().All.Early)

		s.Script(Respond(503, "Retry-After", "9"))
		get(t, s, "/v1/cafes/caf_00001", token...)
		time.Sleep(8 * time.Second)
		get(t, s, "/v1/cafes/caf_00001", token...)
		assert.Equal(t, 2, s.Scorecard().All.Early, "a 503 is about everything, however long the wait for searches")
	})
}

func TestHealthCheckDuringARefusalIsNotEarly(t *testing.T) {
	s := Must(t, Config{Limit: Limit{N: 1, Per: time.Hour}})
	statuses(t, s, "/v1/cafes", 2)
	get(t, s, "/salut") // is never limited
	assert.Zero(t, s.Scorecard().All.Early)
}

func TestHotLoopWithoutLatencyIsEarlyEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Must(t, Config{Limit: Limit{N: 1, Per: time.Minute}})
		statuses(t, s, "/v1/cafes", 5)
		assert.Equal(t, 3, s.Scorecard().All.Early)
	})
}

func TestRefusalThatWasLostOnTheWireTellsNobodyToWait(t *testing.T) {
	for fault, early := range map[Fault]int{ResetAfter: 0, StallHeaders: 0, TruncateBody: 1} {
		synctest.Test(t, func(t *testing.T) {
			s := Must(t, Config{Limit: Limit{N: 1, Per: time.Hour}})
			transport, stop := s.Pipe()
			defer stop()
			s.Script(Pass(), Fail(fault))
			for range 3 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				req := requestTo(t, "/v1/clients").WithContext(ctx)
				req.URL.Scheme, req.Method = "http", http.MethodPost
				if resp, err := transport.RoundTrip(req); err == nil {
					_ = resp.Body.Close()
				}
				cancel()
				time.Sleep(time.Second)
			}
			assert.Equal(t, 2, s.Refusals())
			assert.Equal(t, early, s.Scorecard().All.Early, fault.String())
		})
	}
}

func TestBurstAfterAWaitIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Must(t, Config{Limit: Limit{N: 2, Per: time.Minute}})
		statuses(t, s, "/v1/cafes", 3)
		time.Sleep(time.Minute)
		for range 4 {
			go get(t, s, "/v1/cafes")
		}
		time.Sleep(500 * time.Millisecond)
		get(t, s, "/v1/cafes")
		m := s.Scorecard().All
		assert.Equal(t, 4, m.Reopen100ms)
		assert.Equal(t, 5, m.ReopenSecond)
	})
}

func TestBurstAfterAnOutageIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := Respond(503)
		s := Must(t, Config{Limit: Limit{N: -1}, Phases: []Phase{{For: time.Minute, Outage: &down}}})
		statuses(t, s, "/v1/cafes", 50)
		time.Sleep(time.Minute)
		statuses(t, s, "/v1/cafes", 7)
		assert.Equal(t, 7, s.Scorecard().All.Reopen100ms)
		assert.Equal(t, 50, s.Scorecard().All.Peak100ms)
	})
}

func TestBurstAfterAnOutageIsMeasuredForEveryClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := Respond(503)
		s := Must(t, Config{Limit: Limit{N: -1}, Phases: []Phase{{For: time.Minute, Outage: &down}}})
		for range 2 { // during it, and after it
			for i := range 9 {
				get(t, s, "/v1/cafes", "Authorization", "Bearer client:"+itoa(i%3))
			}
			time.Sleep(time.Minute)
		}
		for _, m := range s.Scorecard().Clients {
			assert.Equal(t, []int{3, 3}, []int{m.Reopen100ms, m.ReopenSecond}, m.Client)
		}
	})
}

func TestRepeatOfAnUnsafeRequestWithoutKeyIsCounted(t *testing.T) {
	s := Must(t, Aroma())
	post := func(path, body string, header ...string) {
		send(t, s, http.MethodPost, path, strings.NewReader(body), header...)
	}
	post("/v1/clients", `{"compte":"pau"}`)
	post("/v1/clients", `{"compte":"pau"}`)
	assert.Zero(t, s.Scorecard().All.UnsafeRepeats, "the first did not fail")
	s.Script(Respond(503))
	post("/v1/clients", `{"compte":"ona"}`)
	post("/v1/clients", `{"compte":"ona"}`)
	assert.Equal(t, 1, s.Scorecard().All.UnsafeRepeats)
	s.Script(Respond(503))
	post("/v1/comandes", anOrder, "Idempotency-Key", "k", "Authorization", "Bearer empleat:1")
	post("/v1/comandes", anOrder, "Idempotency-Key", "k", "Authorization", "Bearer empleat:1")
	assert.Equal(t, 1, s.Scorecard().All.UnsafeRepeats, "a key makes it safe")
}

func TestRepeatIsFoundAmongManyOtherRequests(t *testing.T) {
	s := Must(t, Config{Limit: Limit{N: -1}})
	signUp := func(account string) {
		send(t, s, http.MethodPost, "/v1/clients", strings.NewReader(`{"compte":"`+account+`"}`))
	}
	s.Script(Respond(503))
	signUp("pau")
	for i := range 2 * maxDeeds { // by other goroutines of the client
		signUp(itoa(i))
	}
	signUp("pau")
	assert.Equal(t, 1, s.Scorecard().All.UnsafeRepeats)
}

func TestSecondKeyForALostOrderIsADuplicate(t *testing.T) {
	s := Must(t, Aroma())
	s.Script(Respond(0).With(ResetAfter))
	req, err := http.NewRequest(http.MethodPost, BaseURL+"/v1/comandes", strings.NewReader(anOrder))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer empleat:1")
	req.Header.Set("Idempotency-Key", "k1")
	_, err = s.Transport().RoundTrip(req)
	require.Error(t, err)
	placeOrder(t, s, "k2", anOrder)
	assert.Equal(t, 1, s.Scorecard().All.Duplicates)
}

func TestRepeatOfWhatTheClientHasNotWaitedForIsCounted(t *testing.T) {
	for _, wire := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			config := Aroma()
			config.OrderTime = 5 * time.Second
			s := Must(t, config)
			transport := s.Transport()
			if wire {
				pipe, stop := s.Pipe()
				defer stop()
				transport = pipe
			}
			s.Script(Pass().After(5*time.Second).Times(2).On(http.MethodPost, "/v1/clients"))
			post := func(path, body, key string) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://api.botigaaroma.example"+path, strings.NewReader(body))
				require.NoError(t, err)
				req.Header.Set("Authorization", "Bearer empleat:1")
				if key != "" {
					req.Header.Set("Idempotency-Key", key)
				}
				_, err = transport.RoundTrip(req)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				synctest.Wait() // on a wire the server has to notice
			}
			for _, key := range []string{"k1", "k2"} {
				post("/v1/clients", `{"compte":"pau"}`, "")
				post("/v1/comandes", anOrder, key)
			}
			card := s.Scorecard()
			assert.Equal(t, []int{1, 1}, []int{card.All.UnsafeRepeats, card.All.Duplicates}, "wire: %t", wire)
		})
	}
}

func TestBodiesLeftOpenOrUnreadAreCounted(t *testing.T) {
	s := Must(t, Config{})
	resp, err := s.Transport().RoundTrip(requestTo(t, "/v1/cafes"))
	require.NoError(t, err)
	assert.Equal(t, 1, s.Scorecard().All.Unclosed)
	require.NoError(t, resp.Body.Close())
	require.NoError(t, resp.Body.Close())
	assert.Zero(t, s.Scorecard().All.Unclosed)
	assert.Equal(t, 1, s.Scorecard().All.Unread)
	get(t, s, "/v1/cafes")
	assert.Equal(t, 1, s.Scorecard().All.Unread)
}

func TestConnectionsAreCountedOnAWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Must(t, Config{})
		transport, stop := s.Pipe()
		defer stop()
		for range 3 {
			req := requestTo(t, "/v1/cafes/caf_00001")
			req.URL.Scheme = "http"
			resp, err := transport.RoundTrip(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close()) // unread: net/http cannot always reuse the connection
		}
		card := s.Scorecard()
		require.Len(t, card.Clients, 1)
		assert.Equal(t, "ip:192.0.2.1", card.Clients[0].Client)
		assert.Positive(t, card.All.Connections)
		assert.LessOrEqual(t, card.All.Connections, 3)
	})
}

func TestConnectionOfSeveralClientsCountsOnceForEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Must(t, Config{})
		transport, stop := s.Pipe()
		defer stop()
		for i := range 10 {
			req := requestTo(t, "/v1/cafes/caf_00001")
			req.URL.Scheme = "http"
			req.Header.Set("Authorization", "Bearer client:"+itoa(i%2))
			resp, err := transport.RoundTrip(req)
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
		}
		card := s.Scorecard()
		assert.Equal(t, 1, card.All.Connections)
		assert.Equal(t, []int{1, 1}, []int{card.Clients[0].Connections, card.Clients[1].Connections})
	})
}

func TestTableShowsEveryCount(t *testing.T) {
	m := Manners{
		Client: "usr:1", Requests: 101, Refusals: 102, Failures: 103, Early: 104, UnsafeRepeats: 105, Duplicates: 106, Mismatches: 107,
		Peak100ms: 108, PeakSecond: 109, Reopen100ms: 110, ReopenSecond: 111, Connections: 112, Unclosed: 113, Unread: 114,
	}
	lines := strings.Split(Scorecard{Clients: []Manners{m}}.String(), "\n")
	assert.Equal(t, "usr:1 101 102 103 104 105 106 107 108 109 110 111 112 113 114 rude", strings.Join(strings.Fields(lines[1]), " "))
	assert.Len(t, strings.Fields(lines[0]), len(strings.Fields(lines[1])))
}

func TestRefusalsBeyondToleranceAreAnOffence(t *testing.T) {
	for _, tc := range []struct {
		requests, refusals int
		tolerance          Tolerance
		offends            bool
	}{
		{100, 5, Tolerance{}, false},
		{100, 6, Tolerance{}, true},
		{4, 3, Tolerance{}, false}, // nobody knows a limit before the first answer
		{5, 4, Tolerance{}, true},
		{100, 20, Tolerance{Refusals: 20}, false},
		{100, 1, Tolerance{Refusals: -1}, true},
	} {
		m := Manners{Requests: tc.requests, Refusals: tc.refusals}
		assert.Equal(t, tc.offends, len(m.Offences(tc.tolerance)) > 0, "%d of %d", tc.refusals, tc.requests)
	}
	assert.NotEmpty(t, Manners{Reopen100ms: 9}.Offences(Tolerance{Reopen100ms: 8}))
}

// recorder is a testing.TB that notes a failure instead of failing.
type recorder struct {
	testing.TB
	failed string
}

func (r *recorder) Helper() {}
func (r *recorder) Fatalf(format string, args ...any) {
	r.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestRequireWellBehavedFailsForTheRudeAndSaysWhy(t *testing.T) {
	verdict := func(s *Server) string {
		r := &recorder{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			RequireWellBehaved(r, s)
		}()
		<-done
		return r.failed
	}
	s := Must(t, Config{Limit: Limit{N: 1, Per: time.Hour}})
	statuses(t, s, "/v1/cafes", 1)
	assert.Empty(t, verdict(s))
	statuses(t, s, "/v1/cafes", 2)
	failed := verdict(s)
	assert.Contains(t, failed, "ip:192.0.2.1: 1 request before the instant it had been told to wait for")
	assert.Contains(t, failed, "peak/100ms")
}

func TestCallersBeyondTheBoundShareARow(t *testing.T) {
	var c callers
	for i := range maxCallers + 100 {
		c.of([]byte(itoa(i))).Requests++
	}
	assert.Len(t, c.byKey, maxCallers+1)
	assert.Equal(t, 100, c.byKey["(others)"].Requests)
}

func TestCallersWhoShareARowAreNotTakenForEachOther(t *testing.T) {
	s := Must(t, Config{Limit: Limit{N: 1, Per: time.Hour}})
	for i := range maxCallers {
		s.callers.of([]byte(itoa(i)))
	}
	for _, who := range []string{"told", "told", "another"} {
		body := strings.NewReader(`{"compte":"` + who + `"}`)
		send(t, s, http.MethodPost, "/v1/clients", body, "Authorization", "Bearer client:"+who, "Idempotency-Key", "1")
	}
	shared := s.callers.byKey[others].Manners
	assert.Equal(t, []int{3, 1}, []int{shared.Requests, shared.Refusals}, "each has a counter of its own")
	assert.Equal(t, []int{0, 0}, []int{shared.Early, shared.Mismatches})
}

func TestArrivalsKeepTheLatest(t *testing.T) {
	s := Must(t, Config{KeepArrivals: 3})
	for i := range 20 {
		get(t, s, "/v1/cafes/"+itoa(i))
	}
	arrivals := s.Arrivals()
	require.Len(t, arrivals, 3)
	assert.Equal(t, "/v1/cafes/19", arrivals[2].Path)
	assert.Equal(t, 20, s.Requests())
	assert.Empty(t, Must(t, Config{KeepArrivals: -1}).Arrivals())
}

func TestServerIsSafeForConcurrentUse(t *testing.T) {
	config := Aroma()
	config.Chances = []Chance{{P: 0.1, Reply: Fail(ResetAfter)}}
	config.Phases = []Phase{{PerSecond: 1_000_000, Queue: -1}}
	s := Must(t, config)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 100 {
				req := requestTo(t, "/v1/cafes?q="+itoa(i)).WithContext(context.Background())
				if resp, err := s.Transport().RoundTrip(req); err == nil {
					_ = resp.Body.Close()
				}
				s.Script(Respond(503))
				_ = s.Scorecard().String()
			}
		})
	}
	all.Wait()
	assert.Equal(t, 800, s.Requests())
}

func TestBurstAfterAResetNobodyWasRefusedBeforeIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Must(t, Config{Limit: Limit{N: 3, Per: time.Minute}})
		statuses(t, s, "/v1/cafes", 3)
		time.Sleep(time.Minute)
		statuses(t, s, "/v1/cafes", 2)
		assert.Zero(t, s.Refusals())
		assert.Equal(t, 2, s.Scorecard().All.Reopen100ms)
	})
}
