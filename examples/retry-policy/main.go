// Retry-policy shows how policies are configured in code: the default one, an
// API with three windows at once, an API that answers 403 where others answer
// 429, and orders that must not be made twice. Everything runs against servers
// in memory and prints what happened:
//
//	go run ./examples/retry-policy
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
)

func main() {
	if len(os.Args) > 1 {
		os.Exit(usage(os.Args[1:], os.Stdout, os.Stderr))
	}
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "retry-policy:", err)
		os.Exit(1)
	}
}

// usage answers a command line, of which the program has none: help on stdout
// if that was asked for, or else one line on stderr.
func usage(args []string, stdout, stderr io.Writer) (code int) {
	f := flag.NewFlagSet("retry-policy", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	err := f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintln(stdout, "usage: retry-policy, without flags: it shows four policies against servers in memory, in a few seconds")
		return 0
	case err == nil:
		err = fmt.Errorf("unexpected argument %q", args[0])
	}
	fmt.Fprintf(stderr, "retry-policy: %v (see -h)\n", err)
	return 2
}

// run shows one policy after the other.
func run(w io.Writer) error {
	for _, show := range []func(io.Writer) error{showDefault, showThreeWindows, showSmartBill, showOrders} {
		if err := show(w); err != nil {
			return err
		}
	}
	return nil
}

// showDefault needs no options: up to four attempts for what is safe to repeat,
// never earlier than the server allows.
func showDefault(w io.Writer) error {
	fmt.Fprintln(w, "\nThe default, and a server that is down for a second:")
	server, err := politetest.New(politetest.Config{})
	if err != nil {
		return err
	}
	server.Script(politetest.Respond(http.StatusServiceUnavailable, "Retry-After", "1"))
	client := polite.New(&polite.Options{Base: server.Transport(), Trace: told(w)})

	resp, err := client.Get(context.Background(), politetest.BaseURL+"/v1/cafes")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	fmt.Fprintf(w, "  the caller gets %s after %d attempts\n", resp.Status, polite.Attempts(resp))
	return nil
}

// threeWindows keeps three limits at once, of which the narrowest one holds a
// request back. Burst lets the first three of a second leave together; the
// promise of every Rate, at most N in any Per, holds all the same.
func threeWindows() *polite.Options {
	return &polite.Options{Limit: polite.LimitOptions{Rates: []polite.Rate{
		{N: 5, Per: time.Second, Burst: 3},
		{N: 120, Per: time.Minute, Burst: 20},
		{N: 2000, Per: time.Hour, Burst: 100},
	}}}
}

func showThreeWindows(w io.Writer) error {
	fmt.Fprintln(w, "\nThree windows at once: 5 per second, 120 per minute, 2,000 per hour:")
	server, err := politetest.New(politetest.PromoAzi())
	if err != nil {
		return err
	}
	opts := threeWindows()
	opts.Base = server.Transport()
	client := polite.New(opts)

	begin := time.Now()
	for i := range 5 {
		resp, err := client.Get(context.Background(), politetest.BaseURL+"/v1/cafes")
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "  request %d answered %d after %s\n", i+1, resp.StatusCode, time.Since(begin).Round(10*time.Millisecond))
		if err := resp.Body.Close(); err != nil {
			return err
		}
	}
	return nil
}

// smartBillPause is how long SmartBill wants to be left alone after a 403.
const smartBillPause = time.Minute

// smartBill is the policy for an API that has no 429 and no headers: past three
// requests per second it answers 403 to everything for minutes. That 403 is
// taken as a limit: everybody pauses, then it is tried once more. Every other
// failure goes straight to the caller.
func smartBill(pause time.Duration) *polite.Options {
	return &polite.Options{
		Limit: polite.LimitOptions{Rates: []polite.Rate{polite.PerSecond(3)}},
		Retry: polite.RetryOptions{MaxAttempts: 2},
		Classify: func(resp *http.Response, err error) polite.Verdict {
			if err == nil && resp.StatusCode == http.StatusForbidden {
				return polite.Verdict{Outcome: polite.Throttled, Retry: true, Wait: pause}
			}
			v := polite.DefaultClassify(resp, err)
			v.Retry = false
			return v
		},
	}
}

func showSmartBill(w io.Writer) error {
	const pause = 1100 * time.Millisecond // nobody wants to watch smartBillPause
	fmt.Fprintf(w, "\nSmartBill, whose 403 is a limit (a pause of %s here, of %s for the real one):\n", pause, smartBillPause)
	config := politetest.SmartBill(false)
	config.Policies[0].Limit.Ban = pause
	server, err := politetest.New(config)
	if err != nil {
		return err
	}
	if err := useUp(server.Transport()); err != nil {
		return err
	}
	opts := smartBill(pause)
	opts.Base, opts.Trace = server.Transport(), told(w)

	resp, err := polite.New(opts).Get(context.Background(), politetest.BaseURL+"/v1/cafes")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	fmt.Fprintf(w, "  the caller gets %s after %d attempts\n", resp.Status, polite.Attempts(resp))
	return nil
}

// useUp is somebody else who has asked too fast with the same account.
func useUp(base http.RoundTripper) error {
	for range 4 {
		req, err := http.NewRequest(http.MethodGet, politetest.BaseURL+"/v1/cafes", nil)
		if err != nil {
			return err
		}
		resp, err := base.RoundTrip(req)
		if err != nil {
			return err
		}
		if err := resp.Body.Close(); err != nil {
			return err
		}
	}
	return nil
}

// showOrders loses the answers of two orders on their way back. The one with an
// Idempotency-Key can be sent again, the other cannot: it may have been carried
// out.
func showOrders(w io.Writer) error {
	fmt.Fprintln(w, "\nAn order whose answer is lost on its way back:")
	server, err := politetest.New(politetest.Config{})
	if err != nil {
		return err
	}
	client := polite.New(&polite.Options{
		Base:  server.Transport(),
		Retry: polite.RetryOptions{Backoff: polite.Constant(100 * time.Millisecond)},
		Trace: told(w),
	})
	server.Script(politetest.Fail(politetest.ResetAfter))
	keyed, err := newOrder("order-2041")
	if err != nil {
		return err
	}
	resp, err := client.Do(keyed)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	fmt.Fprintf(w, "  with a key the caller gets %s after %d attempts; made twice: %d\n", resp.Status, polite.Attempts(resp), server.Scorecard().All.Duplicates)

	server.Script(politetest.Fail(politetest.ResetAfter))
	bare, err := newOrder("")
	if err != nil {
		return err
	}
	if _, err = client.Do(bare); err == nil {
		return errors.New("an order without a key was repeated")
	}
	fmt.Fprintf(w, "  without a key the caller gets an error:\n    %v\n", err)
	return nil
}

// newOrder is a POST that is safe to repeat if it has a key.
func newOrder(key string) (*http.Request, error) {
	req, err := http.NewRequest(http.MethodPost, politetest.BaseURL+"/v1/comandes", strings.NewReader(`{"linies":[{"cafe":"caf_00042","quantitat":2}]}`))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer client:demo")
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	return req, nil
}

// told prints what polite decides.
func told(w io.Writer) *polite.Trace {
	return &polite.Trace{
		Attempt: func(e polite.AttemptEvent) {
			if e.Err != nil {
				fmt.Fprintf(w, "  attempt %d: %v\n", e.Attempt, e.Err)
				return
			}
			fmt.Fprintf(w, "  attempt %d: %d %s\n", e.Attempt, e.Status, http.StatusText(e.Status))
		},
		Wait: func(e polite.WaitEvent) {
			fmt.Fprintf(w, "  waiting %s: %s\n", e.Until.Sub(e.From).Round(10*time.Millisecond), e.Reason)
		},
		Stop: func(e polite.StopEvent) {
			fmt.Fprintf(w, "  not repeated: %s\n", e.Reason)
		},
	}
}
