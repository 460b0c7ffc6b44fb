package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	politetest "botigaaroma.example/polite/httptest"
)

// answering is a server that answers everything with one body.
func answering(t *testing.T, status int, body string) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// A parameter that the server does not know brings its first page, and an error.
func TestServerThatIgnoresTheParameterIsNoSuccess(t *testing.T) {
	for _, args := range [][]string{{"-params", "offset=from"}, {"-scheme", "page", "-params", "page=from"}} {
		out := outFile(t)
		got := invoke(t, append(args, "-url", serve(t, "offset", 250), "-out", out)...)
		assert.Equal(t, exitFailed, got.code)
		assert.Contains(t, got.stderr, `does the server know the parameter "from"? Name it by -params `)
		assert.Contains(t, got.stderr, "; begin anew with another -out\n")
		assert.NotContains(t, got.stderr, "-resume")
		assert.LessOrEqual(t, strings.Count(content(t, out), "\n"), 100, "no item twice")
	}

	got := invoke(t, "-url", answering(t, 200, `[1,2,3]`), "-out", outFile(t))
	assert.Equal(t, exitFailed, got.code)
	assert.Contains(t, got.stderr, `does the server know the parameter "desplacament"?`)
}

// A single page is a success that is doubted where nothing but the missing way on
// tells that it was the last one.
func TestOnlyPageOfACursorOrLinkIsDoubted(t *testing.T) {
	const body = `{"dades":[1,2],"meta":{"next":"c"}}`
	for scheme, want := range map[string]string{
		"cursor": "catalog-download: warning: one page only; it named none in its field \"next\": are -scheme cursor and -fields next=… right?\n",
		"link":   "catalog-download: warning: one page only; it had no Link header with rel=next: is -scheme link right?\n",
	} {
		got := invoke(t, "-url", answering(t, 200, body), "-scheme", scheme, "-out", outFile(t))
		assert.Equal(t, exitDone, got.code, got.stderr)
		assert.Contains(t, got.stderr, want)

		got = invoke(t, "-url", serve(t, scheme, 50), "-scheme", scheme, "-out", outFile(t))
		assert.Equal(t, exitDone, got.code, got.stderr)
		assert.NotContains(t, got.stderr, "warning", "the total tells that it was all")

		got = invoke(t, "-url", serve(t, scheme, 250), "-scheme", scheme, "-fields", "total=", "-out", outFile(t))
		assert.Equal(t, exitDone, got.code, got.stderr)
		assert.NotContains(t, got.stderr, "warning", "three pages")
	}
}

// Where the server names no next page, going on would only end there again.
func TestIncompleteCursorOrLinkIsBegunAnew(t *testing.T) {
	for scheme, question := range map[string]string{
		"cursor": `it named none in its field "next": are -scheme cursor and -fields next=… right?`,
		"link":   `it had no Link header with rel=next: is -scheme link right?`,
	} {
		out := outFile(t)
		got := invoke(t, "-url", serve(t, "offset", 2350), "-scheme", scheme, "-out", out)
		assert.Equal(t, exitFailed, got.code)
		held := strings.Count(content(t, out), "\n")
		assert.Contains(t, got.stderr, fmt.Sprintf("catalog-download: incomplete: the server told no next page after %d of 2,350 items; %s; %s holds %d items; begin anew with another -out\n", held, question, out, held))
	}
}

func TestRefusalsAskForTheTokenOrWhetherItIsRight(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		url := answering(t, status, "")
		assert.Contains(t, invoke(t, "-url", url, "-out", outFile(t)).stderr, "; no token was sent: give one in the variable POLITE_TOKEN\n")
		assert.Contains(t, invoke(t, "-url", url, "-out", outFile(t), "-token", "x").stderr, "; is the token right? (-token, or the variable POLITE_TOKEN)\n")
	}
}

func TestURLWithoutItsSchemeIsToldHowToBegin(t *testing.T) {
	for _, url := range []string{"127.0.0.1:8080", "localhost", "localhost:8080/v1/cafes"} {
		assert.Contains(t, invoke(t, "-url", url).stderr, "-url must begin with http:// or https://", url)
	}
}

func TestFinishedFileSaysHowToDownloadAnew(t *testing.T) {
	out := outFile(t)
	url := serve(t, "offset", 5)
	require.Equal(t, exitDone, invoke(t, "-url", url, "-out", out).code)
	assert.Contains(t, invoke(t, "-url", url, "-out", out).stderr, "exists; go on with it by -resume, or download anew into another -out")
	assert.Contains(t, invoke(t, "-url", url, "-out", out, "-resume").stdout, "nothing to do; to download anew, name another -out\n")
}

// A complete file of one collection is no success for another one.
func TestFinishedFileOfAnotherCollectionIsNoSuccess(t *testing.T) {
	out := outFile(t)
	url := serve(t, "offset", 5)
	require.Equal(t, exitDone, invoke(t, "-url", url, "-out", out).code)
	for _, args := range [][]string{{"-url", url + "/v1/teteres"}, {"-url", url, "-scheme", "page"}} {
		got := invoke(t, append(args, "-out", out, "-resume")...)
		assert.Equal(t, exitUsage, got.code, args)
		assert.Contains(t, got.stderr, out)
		assert.Empty(t, got.stdout)
	}
	assert.Equal(t, exitDone, invoke(t, "-out", out, "-resume").code, "the own server has one collection")
	requireCatalog(t, out, 5)
}

func TestResumeByAnotherSchemeNamesTheFlag(t *testing.T) {
	out := outFile(t)
	shop := politetest.Must(t, politetest.Config{Coffees: 250, Limit: politetest.Limit{N: -1}})
	shop.Script(politetest.Pass(), politetest.Respond(http.StatusBadRequest))
	server := httptest.NewServer(shop)
	defer server.Close()
	require.Equal(t, exitFailed, invoke(t, "-url", server.URL, "-out", out, "-concurrency", "1").code)
	got := invoke(t, "-url", server.URL, "-out", out, "-resume", "-scheme", "page")
	assert.Equal(t, exitUsage, got.code)
	assert.Equal(t, "catalog-download: "+out+" was begun with -scheme offset, not page; resume with that\n", got.stderr)
	assert.Equal(t, exitDone, invoke(t, "-url", server.URL, "-out", out, "-resume").code)
	requireCatalog(t, out, 250)
}

func TestUnknownAlgorithmIsNamedPlainly(t *testing.T) {
	got := invoke(t, "-algorithm", "foo")
	assert.Contains(t, got.stderr, `invalid value "foo" for flag -algorithm: unknown name "foo", want one of `)
	assert.NotContains(t, got.stderr, "httptest")
}

// A dash is no file: nothing of that name is left behind.
func TestDashIsNoFile(t *testing.T) {
	t.Chdir(t.TempDir())
	assert.Equal(t, exitUsage, invoke(t, "-url", serve(t, "offset", 5), "-out", "-").code)
	left, err := os.ReadDir(".")
	require.NoError(t, err)
	assert.Empty(t, left)
}
