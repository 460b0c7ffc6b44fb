package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	politetest "botigaaroma.example/polite/httptest"
)

// asProgram makes the test binary the program itself, for tests that need a
// process of their own.
const asProgram = "CATALOG_DOWNLOAD_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// outcome is one run of the program.
type outcome struct {
	code           int
	stdout, stderr string
}

// invoke runs the program within this process.
func invoke(t *testing.T, args ...string) outcome {
	return invokeWith(t, func(string) string { return "" }, args...)
}

func invokeWith(t *testing.T, getenv func(string) string, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), args, getenv, &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

func TestSummaryThatCannotBePrintedIsAnError(t *testing.T) {
	broken, writer := io.Pipe()
	broken.CloseWithError(errors.New("no space left on device"))
	out, url := outFile(t), serve(t, "offset", 30)
	for range 2 { // the download, and then the finding that it is done
		var stderr bytes.Buffer
		code := run(t.Context(), []string{"-url", url, "-out", out, "-resume"}, func(string) string { return "" }, writer, &stderr)
		assert.Equal(t, exitFailed, code)
		assert.Contains(t, stderr.String(), "catalog-download: "+out+" is complete, but the summary cannot be printed: no space left on device\n")
	}
	requireCatalog(t, out, 30)
}

// serve is a catalog without a limit, paged by the scheme.
func serve(t *testing.T, scheme string, coffees int) string {
	server := httptest.NewServer(speaking(scheme, politetest.Must(t, politetest.Config{Coffees: coffees, Limit: politetest.Limit{N: -1}})))
	t.Cleanup(server.Close)
	return server.URL
}

func outFile(t *testing.T) string { return filepath.Join(t.TempDir(), "catalog.jsonl") }

// requireCatalog requires that the file holds the coffees 1 to n in order, each
// once and whole.
func requireCatalog(t *testing.T, path string, n int) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.SplitAfter(string(data), "\n")
	require.Len(t, lines, n+1)
	require.Empty(t, lines[n], "the last line is not whole")
	for i, line := range lines[:n] {
		var coffee politetest.Coffee
		require.NoError(t, json.Unmarshal([]byte(line), &coffee), line)
		require.Equal(t, fmt.Sprintf("caf_%05d", i+1), coffee.ID)
		require.NotEmpty(t, coffee.Name)
	}
}

func TestEverySchemeBringsTheWholeCatalog(t *testing.T) {
	for _, scheme := range []string{"offset", "page", "cursor", "link"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			out := outFile(t)
			got := invoke(t, "-url", serve(t, scheme, politetest.DefaultCoffees), "-scheme", scheme, "-out", out)
			assert.Equal(t, exitDone, got.code, got.stderr)
			assert.Contains(t, got.stdout, "items     2,350\npages     24\nrequests  24\n429s      0\n")
			requireCatalog(t, out, 2350)
		})
	}
}

// The program's own server has a quota that the catalog does not fit into.
func TestOwnQuotaIsNeverOverrun(t *testing.T) {
	for _, algorithm := range politetest.Algorithms() {
		t.Run(algorithm.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := politetest.Must(t, politetest.Config{Limit: ownLimit(algorithm), Latency: 5 * time.Millisecond})
				out := outFile(t)
				set, err := parseFlags([]string{"-url", politetest.BaseURL, "-out", out, "-concurrency", "4"}, os.Getenv)
				require.NoError(t, err)
				set.base = server.Transport()
				var stdout, stderr bytes.Buffer
				begin := time.Now()
				require.NoError(t, work(t.Context(), set, &stdout, &stderr))
				assert.Less(t, time.Since(begin), 20*time.Second)
				if algorithm == politetest.SlidingCounter { // its shape shows late
					assert.LessOrEqual(t, server.Refusals(), 3)
				} else {
					assert.Contains(t, stdout.String(), "429s      0\n")
					assert.Zero(t, server.Refusals())
				}
				assert.Contains(t, stdout.String(), "spreading the rest of the quota")
				requireCatalog(t, out, 2350)
			})
		})
	}
}

func TestSummaryTellsWhatWasWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := politetest.Must(t, politetest.Config{Coffees: 300, Limit: politetest.Limit{N: -1}})
		server.Script(politetest.Pass(), politetest.Respond(503))
		set, err := parseFlags([]string{"-url", politetest.BaseURL, "-out", outFile(t), "-limit", "6/min", "-concurrency", "1", "-v"}, os.Getenv)
		require.NoError(t, err)
		set.base = server.Transport()
		var stdout, stderr bytes.Buffer
		require.NoError(t, work(t.Context(), set, &stdout, &stderr))
		assert.Contains(t, stdout.String(), "requests  4 (1 answered 503)\n")
		assert.Contains(t, stdout.String(), "waited    30s (")
		assert.Contains(t, stdout.String(), "the client's own rate limit")
		assert.Contains(t, stdout.String(), "took      30s: 10.0 items/s, 8.0 requests/min\n")
		assert.Contains(t, stderr.String(), "00:00:00.000  waiting 10s, until 00:00:10.000: the client's own rate limit\n")
		assert.Contains(t, stderr.String(), "100 of 300 items (33 %)")
	})
}

func TestTokenIsSentAndNeverShown(t *testing.T) {
	const secret = "s3cret-t0ken"
	var sent string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = r.Header.Get("Authorization")
		http.Error(w, `{"error":{"codi":"no_autenticat","missatge":"El token no és vàlid."}}`, http.StatusUnauthorized)
	}))
	defer server.Close()
	fromEnv := func(name string) string { return map[string]string{"POLITE_TOKEN": secret}[name] }
	out := outFile(t)
	for name, got := range map[string]outcome{
		"flag":        invoke(t, "-url", server.URL, "-out", out, "-token", secret, "-v"),
		"environment": invokeWith(t, fromEnv, "-url", server.URL, "-out", out, "-v"),
		"help":        invokeWith(t, fromEnv, "-h"),
		"bad flag":    invokeWith(t, fromEnv, "-token", secret, "-concurrency", "0"),
		"unsendable":  invoke(t, "-token", secret+"\n"),
		"a blank":     invoke(t, "-token=", secret),
	} {
		assert.NotContains(t, got.stdout+got.stderr, secret, name)
	}
	assert.Equal(t, "Bearer "+secret, sent)
}

// Servers that repeat the token in their errors, whole or cut, do not make the
// program show it, nor does -v.
func TestTokenThatTheServerRepeatsIsNotShown(t *testing.T) {
	secret := "eyJhbGciOi" + strings.Repeat("s3cr3t", 200)
	fromEnv := func(name string) string { return map[string]string{"POLITE_TOKEN": secret}[name] }
	for name, handler := range map[string]http.HandlerFunc{
		"body": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, `{"error":{"codi":"dolent","missatge":"No conec %s."}}`, r.Header.Get("Authorization"))
		},
		"header": func(w http.ResponseWriter, r *http.Request) {
			_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
			w.Header().Set("RateLimit-Policy", `"`+token[:200]+`";q=5;w=60`)
			w.Header().Set("RateLimit", `"`+token[:200]+`";r=4;t=60`)
			w.WriteHeader(http.StatusForbidden)
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(handler)
			defer server.Close()
			got := invokeWith(t, fromEnv, "-url", server.URL, "-out", outFile(t), "-v")
			assert.Equal(t, exitFailed, got.code)
			assert.Contains(t, got.stderr, "(token)")
			assert.NotContains(t, got.stderr, secret[:8])
			assert.NotContains(t, got.stderr, "s3cr3t")
		})
	}
}

func TestRefusedCredentialsAreOneClearLine(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"error":{"codi":"no_autenticat","missatge":"Cal iniciar sessió."}}`)
	}))
	defer server.Close()
	out := outFile(t)
	got := invoke(t, "-url", server.URL, "-out", out)
	assert.Equal(t, exitFailed, got.code)
	assert.Equal(t, "catalog-download: page 1, after 0 items: GET "+server.URL+"/v1/cafes: 401 Unauthorized: no_autenticat: Cal iniciar sessió.; no token was sent: give one in the variable POLITE_TOKEN\n", got.stderr)
	assert.NoFileExists(t, out, "a file that nothing came into would be in the way of the next try")
	assert.NoFileExists(t, out+".state")
}

func TestUnusableCommandLines(t *testing.T) {
	exists := outFile(t)
	require.NoError(t, os.WriteFile(exists, []byte("mine\n"), 0o644))
	free := outFile(t)
	for name, args := range map[string][]string{
		"unknown flag":       {"-fast"},
		"argument":           {"catalog.jsonl"},
		"concurrency":        {"-concurrency", "0"},
		"no number":          {"-concurrency", "many"},
		"rate":               {"-limit", "60"},
		"rate of nothing":    {"-limit", "0/min"},
		"rate per nothing":   {"-limit", "3/0s"},
		"second rate":        {"-limit", "3/s,fast"},
		"algorithm":          {"-algorithm", "bucket"},
		"algorithm of a URL": {"-algorithm", "token-bucket", "-url", "http://localhost"},
		"scheme":             {"-scheme", "pages"},
		"relative URL":       {"-url", "/v1/cafes"},
		"URL of a file":      {"-url", "file:///etc/passwd"},
		"no URL":             {"-url", "http://[::1"},
		"empty URL":          {"-url", ""},
		"params":             {"-params", "offset"},
		"fields":             {"-fields", "rows=data"},
		"clashing params":    {"-url", "http://localhost", "-out", free, "-params", "offset=limit"},
		"file exists":        {"-out", exists},
		"directory":          {"-out", t.TempDir()},
		"no directory":       {"-out", filepath.Join(t.TempDir(), "no", "catalog.jsonl")},
		"empty name":         {"-out", ""},
		"standard output":    {"-out", "-"},
		"URL without scheme": {"-url", "127.0.0.1:8080"},
		"host without one":   {"-url", "localhost"},
	} {
		t.Run(name, func(t *testing.T) {
			got := invoke(t, args...)
			assert.Equal(t, exitUsage, got.code, got.stderr)
			assert.Equal(t, 1, strings.Count(got.stderr, "\n"), got.stderr)
			assert.True(t, strings.HasPrefix(got.stderr, "catalog-download: "), got.stderr)
			assert.Empty(t, got.stdout)
		})
	}
	data, err := os.ReadFile(exists)
	require.NoError(t, err)
	assert.Equal(t, "mine\n", string(data))
	assert.NoFileExists(t, free)
}

func TestUnknownFieldsPointToTheFlag(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"items":[{"id":1}]}`)
	}))
	defer server.Close()
	got := invoke(t, "-url", server.URL, "-out", outFile(t))
	assert.Equal(t, exitFailed, got.code)
	assert.Contains(t, got.stderr, `the page has no field "dades"; it has "items"; -fields gives the API's own names`)
}

func TestHelpNamesEveryFlag(t *testing.T) {
	got := invoke(t, "-h")
	assert.Equal(t, exitDone, got.code)
	for _, name := range []string{"url", "token", "out", "resume", "concurrency", "limit", "algorithm", "scheme", "v"} {
		assert.Contains(t, got.stdout, "\n  -"+name)
	}
}

func TestUnreachableServerIsOneClearLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, err := parseFlags([]string{"-url", "http://localhost:1/v1/cafes", "-out", outFile(t)}, os.Getenv)
		require.NoError(t, err)
		set.base = failing{syscall.ECONNREFUSED}
		err = work(t.Context(), set, &bytes.Buffer{}, &bytes.Buffer{})
		require.Error(t, err)
		var stderr bytes.Buffer
		complain(&stderr, err)
		assert.Equal(t, "catalog-download: page 1, after 0 items: http://localhost:1: 3 attempts (no attempts left; the server may have received it): connection refused\n", stderr.String())
	})
}

type failing struct{ err error }

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

func TestForeignNamesOfParametersAndFields(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("after") {
		case "":
			fmt.Fprint(w, `{"data":{"rows":[{"id":1},{"id":2}]},"meta":{"next":"b2"}}`)
		case "b2":
			fmt.Fprint(w, `{"data":{"rows":[{"id" : 3}]},"meta":{"next":null}}`)
		}
	}))
	defer server.Close()
	out := outFile(t)
	got := invoke(t, "-url", server.URL+"/rows", "-scheme", "cursor", "-params", "cursor=after", "-fields", "items=data.rows,next=meta.next", "-out", out)
	require.Equal(t, exitDone, got.code, got.stderr)
	data, err := os.ReadFile(out)
	require.NoError(t, err)
	assert.Equal(t, "{\"id\":1}\n{\"id\":2}\n{\"id\":3}\n", string(data))
}

func TestPagesThatAreArrays(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("page") == "" {
			w.Header().Set("Link", `<?page=2>; rel="next"`)
			fmt.Fprint(w, "\n [1,\n 2]")
			return
		}
		fmt.Fprint(w, `["a\nb"]`)
	}))
	defer server.Close()
	out := outFile(t)
	got := invoke(t, "-url", server.URL+"/rows", "-scheme", "link", "-out", out)
	require.Equal(t, exitDone, got.code, got.stderr)
	data, err := os.ReadFile(out)
	require.NoError(t, err)
	assert.Equal(t, "1\n2\n\"a\\nb\"\n", string(data))
}

func TestDeviceIsWrittenAsItComes(t *testing.T) {
	if _, err := os.Stat(os.DevNull); err != nil {
		t.Skip("there is no " + os.DevNull + " here")
	}
	got := invoke(t, "-url", serve(t, "offset", 150), "-out", os.DevNull)
	assert.Equal(t, exitDone, got.code, got.stderr)
	assert.Contains(t, got.stderr, "items     150\n")
	assert.Equal(t, exitUsage, invoke(t, "-out", os.DevNull, "-resume").code)
}

func TestFullDiskIsOneClearLine(t *testing.T) {
	const full = "/dev/full"
	if _, err := os.Stat(full); err != nil {
		t.Skip("there is no " + full + " here")
	}
	got := invoke(t, "-url", serve(t, "offset", 150), "-out", full)
	assert.Equal(t, exitFailed, got.code)
	assert.Equal(t, "catalog-download: write /dev/full: no space left on device\n", got.stderr)
}

func TestRatesOfTheCommandLine(t *testing.T) {
	rates, err := parseRates("3/s, 60/min,2000/h,50000/day,100/10s")
	require.NoError(t, err)
	var got []string
	for _, r := range rates {
		got = append(got, fmt.Sprint(r.N, " per ", r.Per))
	}
	assert.Equal(t, []string{"3 per 1s", "60 per 1m0s", "2000 per 1h0m0s", "50000 per 24h0m0s", "100 per 10s"}, got)
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 2350: "2,350", 1234567: "1,234,567"} {
		assert.Equal(t, want, thousands(n))
	}
}

func TestStoppedDownloadSaysHowToGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := politetest.Must(t, politetest.Config{Limit: politetest.Limit{N: 5, Per: time.Minute}})
		out := outFile(t)
		set, err := parseFlags([]string{"-url", politetest.BaseURL, "-out", out}, os.Getenv)
		require.NoError(t, err)
		set.base = server.Transport()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Second, cancel)
		begin := time.Now()
		err = work(ctx, set, &bytes.Buffer{}, &bytes.Buffer{})
		assert.Equal(t, 50*time.Second, time.Since(begin))
		stored := strings.Count(content(t, out), "\n")
		require.EqualError(t, err, fmt.Sprintf("stopped; %s holds %d items; to go on, run the same command with -resume", out, stored))
		requireCatalog(t, out, stored)
	})
}
