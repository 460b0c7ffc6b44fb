package polite_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
)

// simulated is the server of the examples.
func simulated(config politetest.Config) *politetest.Server {
	server, err := politetest.New(config)
	if err != nil {
		panic(err)
	}
	return server
}

func ExampleNew() {
	server := simulated(politetest.Config{})
	client := polite.New(&polite.Options{Base: server.Transport()}) // nil options are fine, too

	resp, err := client.Get(context.Background(), "https://api.botigaaroma.example/v1/cafes?limit=1")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode, "after", polite.Attempts(resp), "attempt")
	// Output: 200 after 1 attempt
}

func ExampleClient_Fetch() {
	server := simulated(politetest.Config{})
	server.Script(politetest.Respond(http.StatusBadGateway)) // the first answer only
	client := polite.New(&polite.Options{
		Base:  server.Transport(),
		Retry: polite.RetryOptions{Backoff: polite.Constant(time.Millisecond)},
	})

	var page struct {
		Total int `json:"total"`
	}
	req, _ := http.NewRequest(http.MethodGet, "https://api.botigaaroma.example/v1/cafes?limit=1", nil)
	resp, err := client.Fetch(req, polite.JSON(&page))
	fmt.Println(page.Total, "coffees,", polite.Attempts(resp), "attempts,", err)
	// Output: 2350 coffees, 2 attempts, <nil>
}

// A response that arrived is a response; CheckResponse makes an error of it.
// A delay above MaxWait is not slept through, and not shortened either.
func ExampleCheckResponse() {
	server := simulated(politetest.Config{})
	server.Script(politetest.Respond(http.StatusTooManyRequests, "Retry-After", "3120"))
	client := polite.New(&polite.Options{Base: server.Transport()})

	resp, err := client.Get(context.Background(), "https://api.botigaaroma.example/v1/cafes")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	var refused *polite.ResponseError
	if errors.As(polite.CheckResponse(resp), &refused) {
		fmt.Println(refused.StatusCode, refused.Code, "wait", refused.RetryAfter)
	}
	// Output: 429 limit_peticions wait 52m0s
}

// A policy for an API that answers 403 when it is asked too much: one retry
// after what it takes to calm down; every other outcome is the caller's.
func ExampleOptions_classify() {
	server := simulated(politetest.Config{})
	server.Script(politetest.Respond(http.StatusForbidden))
	client := polite.New(&polite.Options{
		Base:  server.Transport(),
		Retry: polite.RetryOptions{MaxAttempts: 2},
		Classify: func(resp *http.Response, err error) polite.Verdict {
			if resp != nil && resp.StatusCode == http.StatusForbidden {
				return polite.Verdict{Outcome: polite.Throttled, Retry: true, Wait: 10 * time.Millisecond} // a minute, in earnest
			}
			v := polite.DefaultClassify(resp, err)
			v.Retry = false
			return v
		},
	})
	resp, err := client.Get(context.Background(), "https://api.botigaaroma.example/v1/cafes/1")
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println(polite.Attempts(resp), "attempts")
	// Output: 2 attempts
}

// A POST is repeated only with an Idempotency-Key: the caller's, or one that
// polite makes, the same in all attempts of a call.
func ExampleRetryOptions_generateKeys() {
	server := simulated(politetest.Config{})
	server.Script(politetest.Respond(http.StatusServiceUnavailable))
	server.Script(politetest.Respond(http.StatusCreated))
	client := polite.New(&polite.Options{
		Base:  server.Transport(),
		Retry: polite.RetryOptions{GenerateKeys: true, Backoff: polite.Constant(time.Millisecond)},
	})
	resp, err := client.HTTPClient().Post("https://api.botigaaroma.example/v1/comandes", "application/json", strings.NewReader(`{"linies":[]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	arrivals := server.Arrivals()
	fmt.Println(resp.StatusCode, len(arrivals), arrivals[0].IdempotencyKey != "", arrivals[0].IdempotencyKey == arrivals[1].IdempotencyKey)
	// Output: 201 2 true true
}

// Three windows at once; the costly searches have one more of their own.
func ExampleLimitOptions() {
	server := simulated(politetest.Config{})
	client := polite.New(&polite.Options{
		Base: server.Transport(),
		QuotaKey: func(r *http.Request) string {
			if r.URL.Query().Has("q") {
				return "search"
			}
			return ""
		},
		Limit: polite.LimitOptions{Rates: []polite.Rate{
			polite.PerSecond(20),
			{N: 120, Per: time.Minute, Burst: 10},
			{N: 2000, Per: time.Hour, Burst: 400}, // evenly spaced it would be one in 1.8 s
			{N: 30, Per: time.Minute, Key: "search"},
		}},
	})
	start := time.Now()
	for range 2 {
		resp, err := client.Get(context.Background(), "https://api.botigaaroma.example/v1/cafes?limit=1")
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
	}
	fmt.Println("twenty a second are a twentieth of a second apart:", time.Since(start) >= time.Second/20)
	// Output: twenty a second are a twentieth of a second apart: true
}

// Trace observes what polite does and why.
func ExampleWithTrace() {
	server := simulated(politetest.Config{})
	server.Script(politetest.Respond(http.StatusServiceUnavailable))
	client := polite.New(&polite.Options{
		Base:  server.Transport(),
		Retry: polite.RetryOptions{Backoff: polite.Constant(50 * time.Millisecond)},
	})
	ctx := polite.WithTrace(context.Background(), &polite.Trace{
		Attempt: func(e polite.AttemptEvent) { fmt.Println("attempt", e.Attempt, e.Status, e.Outcome) },
		Wait:    func(e polite.WaitEvent) { fmt.Println("waits:", e.Reason) },
	})
	resp, err := client.Get(ctx, "https://api.botigaaroma.example/v1/cafes/1?token=never-shown")
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	// Output:
	// attempt 1 503 failed
	// waits: backoff
	// attempt 2 404 ok
}
