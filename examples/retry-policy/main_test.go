package main

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
)

const list = politetest.BaseURL + "/v1/cafes"

func get(t *testing.T, client *polite.Client) *http.Response {
	resp, err := client.Get(t.Context(), list)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp
}

func TestSmartBillPausesAMinuteAfterA403AndTriesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := politetest.Must(t, politetest.Config{})
		server.Script(politetest.Respond(403))
		opts := smartBill(smartBillPause)
		opts.Base = server.Transport()
		begin := time.Now()
		resp := get(t, polite.New(opts))
		assert.Equal(t, 200, resp.StatusCode)
		assert.GreaterOrEqual(t, time.Since(begin), time.Minute)
		assert.LessOrEqual(t, time.Since(begin), time.Minute*6/5, "processes part")
		assert.Equal(t, 2, server.Requests())
	})
}

func TestSmartBillHandsOverTheSecond403(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := politetest.Must(t, politetest.Config{})
		server.Script(politetest.Respond(403).Times(-1))
		opts := smartBill(smartBillPause)
		opts.Base = server.Transport()
		resp := get(t, polite.New(opts))
		assert.Equal(t, 403, resp.StatusCode)
		assert.Equal(t, 2, server.Requests())
	})
}

func TestSmartBillRepeatsNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, reply := range []politetest.Reply{
			politetest.Respond(500), politetest.Respond(503), politetest.Respond(404), politetest.Fail(politetest.ResetBefore),
		} {
			server := politetest.Must(t, politetest.Config{})
			server.Script(reply)
			opts := smartBill(smartBillPause)
			opts.Base = server.Transport()
			begin := time.Now()
			resp, err := polite.New(opts).Get(t.Context(), list)
			if err == nil {
				require.NoError(t, resp.Body.Close())
			}
			assert.Equal(t, 1, server.Requests(), "%+v", reply)
			assert.Zero(t, time.Since(begin), "%+v", reply)
		}
	})
}

func TestSmartBillNeverMeetsItsLimitAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := politetest.Must(t, politetest.SmartBill(true))
		opts := smartBill(smartBillPause)
		opts.Base = server.Transport()
		client := polite.New(opts)
		for range 30 {
			assert.Equal(t, 200, get(t, client).StatusCode)
		}
		assert.Equal(t, 30, server.Requests())
	})
}

func TestThreeWindowsAllHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := politetest.Must(t, politetest.Config{Limit: politetest.Limit{N: -1}})
		opts := threeWindows()
		opts.Base = server.Transport()
		opts.Limit.MaxWait = time.Hour
		client := polite.New(opts)
		for range 2100 {
			get(t, client)
		}
		var at []time.Time
		for _, a := range server.Arrivals() {
			at = append(at, a.At)
		}
		assert.LessOrEqual(t, most(at, time.Second), 5)
		assert.LessOrEqual(t, most(at, time.Minute), 120)
		assert.LessOrEqual(t, most(at, time.Hour), 2000)
	})
}

// most is the largest number of instants in any interval of that length that
// does not contain its end.
func most(at []time.Time, per time.Duration) (n int) {
	first := 0
	for i := range at {
		for !at[i].Before(at[first].Add(per)) {
			first++
		}
		n = max(n, i-first+1)
	}
	return n
}

func TestProgramTellsWhatHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var out strings.Builder
		require.NoError(t, run(&out))
		for _, line := range []string{
			"the caller gets 200 OK after 2 attempts",
			"request 4 answered 200 after 330ms",
			": asked by the server",
			"with a key the caller gets 201 Created after 2 attempts; made twice: 0",
			"not repeated: not safe to repeat",
		} {
			assert.Contains(t, out.String(), line)
		}
		assert.NotContains(t, out.String(), "no attempts left")
		assert.Less(t, time.Since(begin), 4*time.Second)
	})
}

func TestCommandLineIsNotIgnored(t *testing.T) {
	var stdout, stderr strings.Builder
	assert.Zero(t, usage([]string{"-h"}, &stdout, &stderr))
	assert.Contains(t, stdout.String(), "usage: retry-policy")
	assert.Empty(t, stderr.String())
	for _, arg := range []string{"-fast", "all"} {
		stdout.Reset()
		stderr.Reset()
		assert.Equal(t, 2, usage([]string{arg}, &stdout, &stderr))
		assert.Empty(t, stdout.String())
		assert.Regexp(t, "^retry-policy: .*"+arg+".*\n$", stderr.String())
	}
}

func TestProgramReportsAServerThatDoesNotAnswer(t *testing.T) {
	broken := errors.New("no server")
	assert.ErrorIs(t, useUp(roundTripper(func(*http.Request) (*http.Response, error) { return nil, broken })), broken)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
