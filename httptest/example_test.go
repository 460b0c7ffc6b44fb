package httptest_test

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
)

// fetchAs downloads some coffees, each as often as it takes, and says who it is.
func fetchAs(client *http.Client, who string, coffees int) error {
	for i := range coffees {
		for {
			req, err := http.NewRequest(http.MethodGet, fmt.Sprintf("%s/v1/cafes/caf_%05d", politetest.BaseURL, i+1), nil)
			if err != nil {
				return err
			}
			req.Header.Set("Authorization", "Bearer client:"+who)
			resp, err := client.Do(req)
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if err != nil {
				return err
			}
			if resp.StatusCode == http.StatusOK {
				break
			}
			time.Sleep(10 * time.Millisecond) // "that should be enough"
		}
	}
	return nil
}

// A naive client and a polite one do the same work against one server, which then grades both.
func Example() {
	server, err := politetest.New(politetest.Config{
		Limit: politetest.Limit{Algorithm: politetest.FixedWindow, N: 20, Per: time.Second, FromFirst: true},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	naive := &http.Client{Transport: server.Transport()}
	careful := polite.New(&polite.Options{Base: server.Transport()}).HTTPClient()
	for who, client := range map[string]*http.Client{"naive": naive, "careful": careful} {
		if err := fetchAs(client, who, 30); err != nil {
			fmt.Println(err)
		}
	}

	for _, client := range server.Scorecard().Clients {
		fmt.Printf("%s: came early %t, was refused %t, well behaved %t\n",
			client.Client, client.Early > 0, client.Refusals > 0, len(client.Offences(politetest.Tolerance{})) == 0)
	}
	// Output:
	// usr:careful: came early false, was refused false, well behaved true
	// usr:naive: came early true, was refused true, well behaved false
}

// One request too many, and what the server says about it.
func ExampleServer_Transport() {
	server, err := politetest.New(politetest.Config{
		Limit: politetest.Limit{Algorithm: politetest.TokenBucket, N: 6, Per: time.Hour, Capacity: 2},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: server.Transport()}
	for range 3 {
		resp, err := client.Get(politetest.BaseURL + "/v1/cafes/caf_00001")
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
		fmt.Printf("%d, left %s, wait %q\n", resp.StatusCode, resp.Header.Get("Aroma-RateLimit-Remaining"), resp.Header.Get("Retry-After"))
	}
	// Output:
	// 200, left 1, wait ""
	// 200, left 0, wait ""
	// 429, left 0, wait "600"
}

// The next two answers are scripted; then the server is itself again.
func ExampleServer_Script() {
	server, err := politetest.New(politetest.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	server.Script(
		politetest.Respond(503, "Retry-After", "120"),
		politetest.Fail(politetest.ResetAfter).On("GET", "/v1/cafes/*"),
	)
	client := &http.Client{Transport: server.Transport()}
	for range 3 {
		resp, err := client.Get(politetest.BaseURL + "/v1/cafes/caf_00001")
		if err != nil {
			fmt.Println(err)
			continue
		}
		resp.Body.Close()
		fmt.Println(resp.Status, resp.Header.Get("Retry-After"))
	}
	// Output:
	// 503 Service Unavailable 120
	// Get "https://api.botigaaroma.example/v1/cafes/caf_00001": read tcp: connection reset by peer
	// 200 OK
}

// A server of your own: two windows at once, the narrow one for searches only, announced by name.
func ExamplePolicy() {
	server, err := politetest.New(politetest.Config{
		Dialects: []politetest.Dialect{politetest.Draft8},
		Policies: []politetest.Policy{
			{Name: "hour", Limit: politetest.Limit{Algorithm: politetest.SlidingLog, N: 1000, Per: time.Hour}},
			{Name: "search", Classes: politetest.ClassSearch, Limit: politetest.Limit{Algorithm: politetest.SlidingLog, N: 10, Per: time.Hour}},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: server.Transport()}
	for _, path := range []string{"/v1/cafes/caf_00001", "/v1/cafes?q=geisha"} {
		resp, err := client.Get(politetest.BaseURL + path)
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
		fmt.Println(resp.Header.Get("RateLimit-Policy"))
	}
	// Output:
	// "hour";q=1000;w=3600
	// "hour";q=1000;w=3600, "search";q=10;w=3600
}

// How long 1,000 requests take at the very least.
func ExampleOracle() {
	for _, algorithm := range politetest.Algorithms() {
		shortest, err := politetest.Oracle{
			Limit: politetest.Limit{Algorithm: algorithm, N: 100, Per: 10 * time.Second, Capacity: 10},
			Calls: 1000, RTT: 20 * time.Millisecond,
		}.Makespan()
		fmt.Println(algorithm, shortest, err)
	}
	// Output:
	// fixed-window 1m30.01s <nil>
	// sliding-log 1m30.02s <nil>
	// sliding-counter 1m40.818080809s <nil>
	// token-bucket 1m39.02s <nil>
	// leaky-bucket 1m39.92s <nil>
}

// Three instances that count each on its own let three times the limit pass; a shared store is exact.
func ExampleNewFleet() {
	limit := politetest.Limit{N: 10, Per: time.Hour}
	for _, store := range []politetest.Store{nil, politetest.NewMemory(0)} {
		fleet, err := politetest.NewFleet(3, politetest.Config{Limit: limit, Store: store})
		if err != nil {
			fmt.Println(err)
			return
		}
		client := &http.Client{Transport: fleet.Transport()}
		for range 40 {
			resp, err := client.Get(politetest.BaseURL + "/v1/cafes/caf_00001")
			if err != nil {
				fmt.Println(err)
				return
			}
			resp.Body.Close()
		}
		fmt.Println(fleet.Requests()-fleet.Refusals(), "of", fleet.Requests(), "passed")
	}
	// Output:
	// 30 of 40 passed
	// 10 of 40 passed
}
