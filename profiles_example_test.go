package polite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
)

// With ExpectedLimit a forgotten token is noticed with the first answer.
func ExampleAroma() {
	server := simulated(politetest.Aroma())
	o := polite.Aroma()
	o.Base = server.Transport()
	o.ExpectedLimit = 300
	o.Trace = &polite.Trace{Diagnosis: func(e polite.DiagnosisEvent) {
		fmt.Printf("%s (%d, not %d): %s\n", e.Diagnosis, e.Quota.Limit, e.Expected, e.Diagnosis.Remedy())
	}}
	resp, err := polite.New(o).Get(context.Background(), "https://api.botigaaroma.example/v1/cafes")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	// Output: the server's limit is lower than expected (60, not 300): check the Authorization header: without it the server applies the low limit of anonymous callers
}

// Every error but the 403 goes straight to the caller.
func ExampleSmartBill() {
	server := simulated(politetest.SmartBill(true))
	server.Script(politetest.Respond(http.StatusServiceUnavailable))
	o := polite.SmartBill()
	o.Base = server.Transport()
	client := polite.New(o)

	start := time.Now()
	for range 2 {
		resp, err := client.Get(context.Background(), "https://ws.smartbill.test/v1/cafes/caf_00001")
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
		fmt.Println(resp.StatusCode, "after", polite.Attempts(resp), "attempt")
	}
	fmt.Println("no quicker than 3 per second:", time.Since(start) >= time.Second/3)
	// Output:
	// 503 after 1 attempt
	// 200 after 1 attempt
	// no quicker than 3 per second: true
}

// Five costly requests may leave at once; the sixth would have to wait, and here
// it may not.
func ExamplePromoAzi() {
	server := simulated(politetest.PromoAzi())
	o := polite.PromoAzi(func(r *http.Request) bool { return r.URL.Query().Has("q") })
	o.Base = server.Transport()
	o.Limit.MaxWait = time.Millisecond
	client := polite.New(o)

	for _, query := range []string{"?q=1", "?q=2", "?q=3", "?q=4", "?q=5", "?q=6", ""} {
		resp, err := client.Get(context.Background(), "https://api.promoazi.test/v1/cafes"+query)
		var wait *polite.WaitError
		if errors.As(err, &wait) {
			fmt.Println("not sent:", wait.Reason)
			continue
		}
		resp.Body.Close()
		fmt.Println(resp.StatusCode)
	}
	// Output:
	// 200
	// 200
	// 200
	// 200
	// 200
	// not sent: the client's own rate limit
	// 200
}

// A job that cannot wait lowers Retry.MaxWait: the response comes back at once,
// and tells how long nobody sends.
func ExampleGitHub() {
	server := simulated(politetest.Config{})
	server.Script(politetest.Respond(http.StatusForbidden, "X-RateLimit-Limit", "5000", "X-RateLimit-Remaining", "4999").
		WithBody(`{"message":"You have exceeded a secondary rate limit."}`))
	o := polite.GitHub()
	o.Base = server.Transport()
	o.Retry.MaxWait = time.Second
	resp, err := polite.New(o).Get(context.Background(), "https://github.example/repos/o/r")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	var refused *polite.ResponseError
	if errors.As(polite.CheckResponse(resp), &refused) {
		fmt.Println(refused.StatusCode, refused.Message, refused.RetryAfter)
	}
	// Output: 403 You have exceeded a secondary rate limit. 1m0s
}

// A server that says nothing: the refusal is repeated, and the rate is learned.
func ExampleGeneric() {
	server := simulated(politetest.Config{Silent: true, Limit: politetest.Limit{
		Algorithm: politetest.TokenBucket, N: 100, Per: time.Second, Capacity: 30}})
	o := polite.Generic()
	o.Base = server.Transport()
	client := polite.New(o)
	succeeded := 0
	for range 32 {
		resp, err := client.Get(context.Background(), "https://api.test/v1/cafes/caf_00001")
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			succeeded++
		}
	}
	fmt.Println(succeeded, "succeeded")
	// Output: 32 succeeded
}

// A query API that answers 200 and puts the refusal in the body.
func ExampleOptions_classifyBody() {
	server := simulated(politetest.Config{})
	server.Script(politetest.Respond(http.StatusOK, "X-RateLimit-Limit", "100", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "0.05").
		WithBody(`{"errors":[{"type":"RATE_LIMITED"}]}`))
	client := polite.New(&polite.Options{
		Base: server.Transport(),
		Classify: func(resp *http.Response, err error) polite.Verdict {
			if err != nil || !bytes.Contains(polite.PeekBody(resp, 4<<10), []byte("RATE_LIMITED")) {
				return polite.DefaultClassify(resp, err)
			}
			v := polite.Verdict{Outcome: polite.Throttled, Retry: true}
			if now := time.Now(); len(polite.ParseQuota(resp.Header, now)) > 0 {
				v.Wait = polite.ParseQuota(resp.Header, now)[0].Reset.Sub(now)
			}
			return v
		},
	})
	resp, err := client.Get(context.Background(), "https://api.test/v1/cafes?limit=1")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(polite.Attempts(resp), "attempts")
	// Output: 2 attempts
}

// Money that is used up does not come back by waiting: the 429 is final.
func ExampleOptions_classifyVeto() {
	server := simulated(politetest.Config{})
	server.Script(politetest.Respond(http.StatusTooManyRequests).
		WithBody(`{"error":{"code":"insufficient_quota"}}`))
	client := polite.New(&polite.Options{
		Base: server.Transport(),
		Classify: func(resp *http.Response, err error) polite.Verdict {
			v := polite.DefaultClassify(resp, err)
			if v.Outcome == polite.Throttled && bytes.Contains(polite.PeekBody(resp, 4<<10), []byte("insufficient_quota")) {
				v.Retry = false
			}
			return v
		},
	})
	resp, err := client.Get(context.Background(), "https://api.test/v1/cafes?limit=1")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode, "after", polite.Attempts(resp), "attempt")
	// Output: 429 after 1 attempt
}
