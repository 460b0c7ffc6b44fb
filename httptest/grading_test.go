package httptest_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
)

func TestNaiveClientAndPoliteOneSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := politetest.Must(t, politetest.Config{
			Limit: politetest.Limit{Algorithm: politetest.TokenBucket, N: 60, Per: time.Minute, Capacity: 20}, Latency: 20 * time.Millisecond,
		})
		assert.NoError(t, fetchAs(&http.Client{Transport: server.Transport()}, "naive", 100))
		client := polite.New(&polite.Options{Base: server.Transport()})
		assert.NoError(t, fetchAs(client.HTTPClient(), "careful", 100))

		card := server.Scorecard()
		careful, naive := card.Clients[0], card.Clients[1]
		assert.Empty(t, careful.Offences(politetest.Tolerance{Refusals: -1}), "not even the first refusal")
		assert.Equal(t, 100, careful.Requests)
		assert.NotEmpty(t, naive.Offences(politetest.Tolerance{}))
		assert.Greater(t, naive.Early, 1000)
		t.Logf("\n%s", card)
	})
}

func TestPoliteClientIsWellBehavedInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := politetest.Respond(503, "Retry-After", "10")
		server := politetest.Must(t, politetest.Config{
			Phases:  []politetest.Phase{{From: time.Second, For: 5 * time.Second, Outage: &down}},
			Latency: 20 * time.Millisecond,
		})
		client := polite.New(&polite.Options{Base: server.Transport()})
		for range 10 {
			req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, politetest.BaseURL+"/v1/cafes/caf_00001", nil)
			assert.NoError(t, err)
			_, err = client.Fetch(req, nil)
			assert.NoError(t, err)
			time.Sleep(300 * time.Millisecond)
		}
		politetest.RequireWellBehaved(t, server)
	})
}

func TestPoliteClientWhoseSearchesAreRefusedIsWellBehaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := politetest.Must(t, politetest.Aroma())
		ask := func(client *http.Client, path string) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, politetest.BaseURL+path, nil)
			assert.NoError(t, err)
			req.Header.Set("Authorization", "Bearer empleat:1")
			resp, err := client.Do(req)
			if assert.NoError(t, err) {
				assert.Equal(t, http.StatusOK, resp.StatusCode)
				assert.NoError(t, resp.Body.Close())
			}
		}
		for range 20 { // another process of the same user
			ask(&http.Client{Transport: server.Transport()}, "/v1/cafes?q=guji")
		}
		opts := polite.Aroma()
		opts.Base = server.Transport()
		client := polite.New(opts).HTTPClient()
		go ask(client, "/v1/cafes?q=sidama") // waits for the searches' limit
		time.Sleep(time.Second)
		ask(client, "/v1/cafes/caf_00001")
		time.Sleep(2 * time.Minute)
		assert.Equal(t, 1, server.Refusals())
		politetest.RequireWellBehaved(t, server)
	})
}

func TestGoroutinesOfOnePoliteClientAreWellBehaved(t *testing.T) {
	for _, workers := range []int{2, 4, 16} {
		for range 50 {
			synctest.Test(t, func(t *testing.T) {
				server := politetest.Must(t, politetest.Config{Limit: politetest.Limit{N: -1}, Latency: 20 * time.Millisecond})
				for range 5 {
					server.Script(politetest.Pass().Times(20), politetest.Respond(503, "Retry-After", "3"))
				}
				client := polite.New(&polite.Options{Base: server.Transport()})
				var all sync.WaitGroup
				for range workers {
					all.Go(func() { assert.NoError(t, fetchAs(client.HTTPClient(), "careful", 160/workers)) })
				}
				all.Wait()
				assert.Zero(t, server.Pending())
				politetest.RequireWellBehaved(t, server)
			})
		}
	}
}
