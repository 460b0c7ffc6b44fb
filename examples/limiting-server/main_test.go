package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	politetest "botigaaroma.example/polite/httptest"
)

func TestBadCommandLineIsOneLineAndExitCode2(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{"-profile nothing", "unknown name"},
		{"-algorithm leaky", "leaky-bucket"},
		{"-dialect draft-9", "draft-8"},
		{"-limit many", "-limit"},
		{"-limit -3", "must be positive"},
		{"-limit 0", "must be positive"},
		{"-window 0s", "must be positive"},
		{"-burst -1", "must not be negative"},
		{"-window 0.5", "-window"},
		{"-profile aroma -limit 3", "limits of its own"},
		{"-faults 503", "probability"},
		{"-faults 503=NaN", "probability"},
		{"-faults 200=0.1", "no status from 400 to 599"},
		{"-faults 503=0.7,502=0.7", "more than 1"},
		{"-seed x", "-seed"},
		{"-nothing", "-nothing"},
		{"extra", "extra"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), strings.Fields(tc.args), &stdout, &stderr)
		if code != exitUsage || strings.Count(stderr.String(), "\n") != 1 || !strings.Contains(stderr.String(), tc.want) || stdout.Len() > 0 {
			t.Errorf("%s: exit %d, stdout %q, stderr %q; want one line with %q and exit 2", tc.args, code, &stdout, &stderr, tc.want)
		}
	}
}

func TestUnusableAddressIsOneLineAndExitCode1(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"-addr", "nowhere"}, &stdout, &stderr); code != exitFailed || strings.Count(stderr.String(), "\n") != 1 {
		t.Errorf("exit %d, stderr %q", code, &stderr)
	}
}

func TestAddressWithoutAColonIsToldHowToBeWritten(t *testing.T) {
	for addr, want := range map[string]string{"8080": "; write -addr :8080\n", "localhost": "; write -addr localhost:8080\n", "256.0.0.1:x": "unknown port\n"} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), []string{"-addr", addr}, &stdout, &stderr); code != exitFailed || !strings.HasSuffix(stderr.String(), want) {
			t.Errorf("%q: exit %d, stderr %q, want %q at its end", addr, code, &stderr, want)
		}
	}
}

func TestHelpListsTheFlags(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"-h"}, &stdout, &stderr); code != exitDone || !strings.Contains(stdout.String(), "-faults") || stderr.Len() > 0 {
		t.Errorf("exit %d, stdout %q, stderr %q", code, &stdout, &stderr)
	}
}

// started runs the program until the test ends and returns its URL and what it printed.
func started(t *testing.T, args ...string) (url, printed string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	var ended sync.WaitGroup
	ended.Go(func() {
		if code := run(ctx, append([]string{"-addr", "127.0.0.1:0"}, args...), in, io.Discard); code != exitDone {
			t.Errorf("exit %d, want 0 after being stopped", code)
		}
		in.Close()
	})
	t.Cleanup(func() { cancel(); ended.Wait() })
	var text strings.Builder
	buffer := make([]byte, 4096)
	for !strings.Contains(text.String(), "Authorization") { // the last line
		n, err := out.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(buffer[:n])
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // ends when run closes its end
	return regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(text.String()), text.String()
}

func fetch(t *testing.T, url string) (int, []byte) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, body
}

func TestOneRequestTooManyIsRefusedAsPrinted(t *testing.T) {
	url, printed := started(t, "-algorithm", "fixed-window", "-limit", "3", "-window", "1000h")
	if !strings.Contains(printed, "3 are admitted") || !strings.Contains(printed, "?[1-4]'") {
		t.Errorf("no check of N+1 in %s", printed)
	}
	for i, want := range []int{200, 200, 200, 429} {
		if got, _ := fetch(t, url+"/v1/cafes/caf_00001"); got != want {
			t.Errorf("request %d: %d, want %d", i+1, got, want)
		}
	}
}

func TestQueueThatCurlCannotFillIsNotSaidToRefuse(t *testing.T) {
	for limit, want := range map[string]string{"299": "?[1-300]'", "300": "nobody is refused"} {
		_, printed := started(t, "-algorithm", "leaky-bucket", "-limit", limit)
		if !strings.Contains(printed, want) {
			t.Errorf("-limit %s: %q is not in %s", limit, want, printed)
		}
	}
}

func TestPageShowsTheStateWithoutCountingItself(t *testing.T) {
	url, _ := started(t, "-profile", "hint-date", "-dialect", "draft-7,draft-8")
	fetch(t, url+"/v1/cafes/caf_00001")
	code, body := fetch(t, url+"/")
	if code != 200 || bytes.Contains(body, []byte("http://")) || bytes.Contains(body, []byte("https://")) {
		t.Errorf("page: %d, or it loads something from elsewhere", code)
	}
	_, body = fetch(t, url+"/-/state")
	var s state
	if err := json.Unmarshal(body, &s); err != nil {
		t.Fatal(err)
	}
	if s.Requests != 1 || len(s.Counters) != 1 || s.Counters[0].Remaining != 59 || len(s.Seconds) != chartSeconds || len(s.Clients) != 1 || len(s.Latest) != 1 {
		t.Errorf("state %+v", s)
	}
}

func TestChartTellsRefusalsFromFailures(t *testing.T) {
	config, err := politetest.Profile("nginx")
	if err != nil {
		t.Fatal(err)
	}
	server := politetest.Must(t, config)
	client := &http.Client{Transport: server.Transport()}
	for range 20 {
		resp, err := client.Get(politetest.BaseURL + "/v1/cafes")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	var all second
	for _, s := range stateOf(server, &settings{}).Seconds {
		all = second{all.Passed + s.Passed, all.Refused + s.Refused, all.Failed + s.Failed}
	}
	if refused := server.Refusals(); refused == 0 || all != (second{20 - refused, refused, 0}) {
		t.Errorf("%+v of 20 requests, %d of them refused", all, refused)
	}
}

func TestFaultsAreReadByName(t *testing.T) {
	set, err := parseFlags([]string{"-faults", "503=0.5, reset-after=0.2, 2s=0.1"})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(set.config.Chances); n != 3 {
		t.Fatalf("%d chances, want 3", n)
	}
	if got := set.config.Chances[1].Reply.Fault.String(); got != "reset-after" {
		t.Errorf("fault %s", got)
	}
	if got := set.config.Chances[2].Reply.Delay.String(); got != "2s" {
		t.Errorf("delay %s", got)
	}
}
