package httptest

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOutageAnswersEverythingUntilItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := Respond(503, "Retry-After", "120")
		s := Must(t, Config{Phases: []Phase{{From: time.Minute, For: time.Minute, Outage: &down}}})
		assert.Equal(t, []int{200}, statuses(t, s, "/salut", 1))
		time.Sleep(time.Minute)
		assert.Equal(t, []int{503, 503}, statuses(t, s, "/v1/cafes", 2))
		assert.Equal(t, []int{503}, statuses(t, s, "/salut", 1))
		time.Sleep(time.Minute)
		assert.Equal(t, []int{200}, statuses(t, s, "/v1/cafes", 1))
	})
}

func TestOutageGoesBeforeChanceAndAfterAScript(t *testing.T) {
	down := Respond(503)
	s := Must(t, Config{
		Chances: []Chance{{P: 1, Reply: Pass().After(time.Nanosecond)}},
		Phases:  []Phase{{Outage: &down}},
	})
	s.Script(Pass())
	assert.Equal(t, []int{200, 503}, statuses(t, s, "/v1/cafes", 2))
}

func TestReplyIsKeptAsItWas(t *testing.T) {
	reply := Respond(503, "Retry-After", "1")
	scripted := Must(t, Config{})
	scripted.Script(reply)
	struck := Must(t, Config{Chances: []Chance{{P: 1, Reply: reply}}})
	down := Must(t, Config{Phases: []Phase{{Outage: &reply}}})
	reply.Header.Set("Retry-After", "2")
	reply.Status = 502
	for name, s := range map[string]*Server{"script": scripted, "chance": struck, "outage": down} {
		resp, _ := get(t, s, "/v1/cafes")
		assert.Equal(t, 503, resp.StatusCode, name)
		assert.Equal(t, "1", resp.Header.Get("Retry-After"), name)
	}
}

func TestCallersMayChangeTheHeadersTheyGet(t *testing.T) {
	s := Must(t, Config{Limit: Limit{N: -1}})
	s.Script(Respond(429, "X-Note", "scripted").Times(3))
	for range 6 { // three that are scripted, and three that are not
		resp, _ := get(t, s, "/v1/cafes/caf_00001")
		for name, values := range resp.Header {
			assert.NotEqual(t, "spoilt", values[0], name)
			assert.Equal(t, 1, cap(values), "appending to %s must not reach another header", name)
			values[0] = "spoilt"
		}
	}
}

func TestOutageCanRefuseConnections(t *testing.T) {
	refuse := Fail(Refuse)
	s := Must(t, Config{Phases: []Phase{{Outage: &refuse}}})
	_, err := s.Transport().RoundTrip(requestTo(t, "/v1/cafes"))
	assert.ErrorContains(t, err, "connection refused")
	assert.Zero(t, s.Requests())
}

func TestRefusedConnectionLeavesTheBodyUnread(t *testing.T) {
	s := Must(t, Config{})
	s.Script(Fail(Refuse))
	body := strings.NewReader("four")
	req, err := http.NewRequest(http.MethodPost, BaseURL+"/v1/comandes", io.NopCloser(body))
	require.NoError(t, err)
	_, err = s.Transport().RoundTrip(req)
	require.Error(t, err)
	assert.Equal(t, 4, body.Len())
}

func TestMachineOfLimitedCapacityWorksOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Must(t, Config{Limit: Limit{N: -1}, Phases: []Phase{{PerSecond: 10, Queue: 3}}})
		start := time.Now()
		var mu sync.Mutex
		took := map[time.Duration]int{}
		busy := ""
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				resp, _ := get(t, s, "/v1/cafes/caf_00001")
				mu.Lock()
				defer mu.Unlock()
				if resp.StatusCode == 503 {
					busy = resp.Header.Get("Retry-After")
					return
				}
				took[time.Since(start)]++
			})
		}
		all.Wait()
		assert.Equal(t, map[time.Duration]int{100 * time.Millisecond: 1, 200 * time.Millisecond: 1, 300 * time.Millisecond: 1}, took)
		assert.Equal(t, "1", busy)
	})
}

func TestSlowRecoveryWorksOffTheQueueAtTheSpeedOfEachPhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Must(t, Config{Limit: Limit{N: -1}, Phases: []Phase{
			{PerSecond: 10, Queue: -1}, {From: 0, For: 2 * time.Second, PerSecond: 1, Queue: -1},
		}})
		start := time.Now()
		var all sync.WaitGroup
		for range 12 {
			all.Go(func() { get(t, s, "/v1/cafes/caf_00001") })
		}
		all.Wait()
		assert.Equal(t, 3*time.Second, time.Since(start), "two in two seconds, ten in the third")
		get(t, s, "/v1/cafes/caf_00001")
		assert.Equal(t, 3100*time.Millisecond, time.Since(start))
	})
}

func TestWhatIsMeantToBeEndlessIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		roomy := Must(t, Config{Phases: []Phase{{PerSecond: 1000, Queue: math.MaxInt}}})
		assert.Equal(t, []int{200, 200}, statuses(t, roomy, "/v1/cafes", 2))

		down := Respond(503)
		gone := Must(t, Config{Phases: []Phase{{From: time.Second, For: math.MaxInt64, Outage: &down}}})
		time.Sleep(time.Minute)
		assert.Equal(t, []int{503}, statuses(t, gone, "/v1/cafes", 1))

		banned := Must(t, Config{Limit: Limit{N: 1, Per: time.Second, Ban: math.MaxInt64}})
		get(t, banned, "/v1/cafes")
		resp, _ := get(t, banned, "/v1/cafes")
		assert.Equal(t, "9223372037", resp.Header.Get("Retry-After"))

		busy := Must(t, Config{Latency: time.Second, KeepArrivals: math.MaxInt})
		busy.Script(Pass().After(math.MaxInt64))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := busy.Transport().RoundTrip(requestTo(t, "/v1/cafes").WithContext(ctx))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Len(t, busy.Arrivals(), 1)
	})
}

func TestMachineWorksOnRequestsWhoseClientHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Must(t, Config{Limit: Limit{N: -1}, Phases: []Phase{{PerSecond: 1, Queue: -1}}})
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := s.Transport().RoundTrip(requestTo(t, "/v1/cafes").WithContext(ctx))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		get(t, s, "/v1/cafes/caf_00001")
		assert.Equal(t, 2*time.Second, time.Since(start))
	})
}

func TestChancesStrikeAsOftenAsTheySayAndRepeatWithTheSeed(t *testing.T) {
	run := func(seed uint64) []int {
		s := Must(t, Config{Limit: Limit{N: -1}, Seed: seed, Chances: []Chance{{P: 0.1, Reply: Respond(503)}, {P: 0.2, Reply: Respond(502)}}})
		return statuses(t, s, "/v1/cafes/caf_00001", 5000)
	}
	first := run(1)
	assert.InDelta(t, 500, countStatus(first, 503), 75)
	assert.InDelta(t, 1000, countStatus(first, 502), 100)
	assert.Equal(t, first, run(1))
	assert.NotEqual(t, first, run(2))
}

func TestChanceIsBoundToWhatItMatches(t *testing.T) {
	s := Must(t, Config{Limit: Limit{N: -1}, Chances: []Chance{{P: 1, Reply: Respond(500).On("POST", "")}}})
	assert.Equal(t, []int{200, 200}, statuses(t, s, "/v1/cafes", 2))
	resp, _ := send(t, s, http.MethodPost, "/v1/clients", nil)
	assert.Equal(t, 500, resp.StatusCode)
}

func TestScriptedDelayAndRedirectAndBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Must(t, Config{})
		s.Script(Pass().After(3*time.Second), Redirect("https://elsewhere.example/"), Huge(500, 5_000_000), Respond(200).WithBody("hola"))
		start := time.Now()
		resp, _ := get(t, s, "/v1/cafes")
		assert.Equal(t, 200, resp.StatusCode)
		assert.Equal(t, 3*time.Second, time.Since(start))
		resp, _ = get(t, s, "/v1/cafes")
		assert.Equal(t, "https://elsewhere.example/", resp.Header.Get("Location"))
		_, body := get(t, s, "/v1/cafes")
		assert.Len(t, body, 5_000_000)
		_, body = get(t, s, "/v1/cafes")
		assert.Equal(t, "hola", body)
	})
}

func TestBombUnpacksInTheTransportLikeInNetHTTP(t *testing.T) {
	s := Must(t, Config{})
	s.Script(Bomb(200, 2_000_000), Bomb(200, 2_000_000))
	resp, body := get(t, s, "/v1/cafes")
	assert.True(t, resp.Uncompressed)
	assert.Len(t, body, 2_000_000)
	resp, body = get(t, s, "/v1/cafes", "Accept-Encoding", "gzip")
	assert.Equal(t, "gzip", resp.Header.Get("Content-Encoding"))
	assert.Less(t, len(body), 5_000)
}

func TestStalledHeadersEndWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Must(t, Config{})
		s.Script(Fail(StallHeaders))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		_, err := s.Transport().RoundTrip(requestTo(t, "/v1/cafes").WithContext(ctx))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Minute, time.Since(start))
	})
}

func TestClosingAStalledBodyEndsItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Must(t, Config{})
		s.Script(Fail(StallBody))
		resp, err := s.Transport().RoundTrip(requestTo(t, "/v1/cafes"))
		require.NoError(t, err)
		go func() {
			time.Sleep(time.Second)
			assert.NoError(t, resp.Body.Close())
		}()
		_, err = io.ReadAll(resp.Body)
		assert.ErrorIs(t, err, errBodyClosed)
	})
}

func TestBlockedRequestBodyEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Must(t, Config{})
		reader, writer := io.Pipe()
		defer writer.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, BaseURL+"/v1/clients", reader)
		require.NoError(t, err)
		_, err = s.Transport().RoundTrip(req)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestFaultsOverARealWire(t *testing.T) {
	for fault := Refuse; fault <= ResetBody; fault++ {
		t.Run(fault.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := Must(t, Config{})
				transport, stop := s.Pipe()
				defer stop()
				s.Script(Fail(fault))
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://api.botigaaroma.example/v1/clients", strings.NewReader(`{"compte":"pau"}`))
				require.NoError(t, err)
				resp, err := transport.RoundTrip(req)
				if err == nil {
					_, err = io.ReadAll(resp.Body)
					require.NoError(t, resp.Body.Close())
					assert.True(t, fault.breaksBody())
				}
				assert.Error(t, err)
			})
		})
	}
}

func TestStallOverAWireEndsWithTheClientEvenIfItsBodyWasNotRead(t *testing.T) {
	for _, fault := range []Fault{StallHeaders, StallBody} {
		for _, size := range []int{maxBody + 1, 5 * maxBody} {
			synctest.Test(t, func(t *testing.T) { // and no goroutine is left in the bubble
				s := Must(t, Config{})
				transport, stop := s.Pipe()
				defer stop()
				s.Script(Fail(fault))
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				body := strings.NewReader(strings.Repeat("x", size))
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://api.botigaaroma.example/v1/clients", body)
				require.NoError(t, err)
				start := time.Now()
				resp, err := transport.RoundTrip(req)
				if err == nil {
					_, err = io.ReadAll(resp.Body)
					require.NoError(t, resp.Body.Close())
				}
				assert.ErrorIs(t, err, context.DeadlineExceeded, fault.String())
				assert.Equal(t, time.Second, time.Since(start))
			})
		}
	}
}

func TestBodyOfAnotherLengthThanAnnouncedBreaksTheConnection(t *testing.T) {
	for _, sent := range []string{"", "fo", "four and more"} {
		s := Must(t, Config{})
		req, err := http.NewRequest(http.MethodPost, BaseURL+"/v1/clients", io.NopCloser(strings.NewReader(sent)))
		require.NoError(t, err)
		req.ContentLength = 4
		_, err = s.Transport().RoundTrip(req)
		assert.ErrorContains(t, err, "ContentLength=4 with Body length "+itoa(len(sent)))
		assert.Zero(t, s.Requests())
	}
}

func TestErrorOfTheBodysOwnReaderComesBack(t *testing.T) {
	s := Must(t, Config{})
	broken := errors.New("disk gone")
	req, err := http.NewRequest(http.MethodPost, BaseURL+"/v1/clients", io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(broken)))
	require.NoError(t, err)
	_, err = s.Transport().RoundTrip(req)
	assert.ErrorIs(t, err, broken)
}
