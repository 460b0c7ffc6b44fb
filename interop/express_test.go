package interop

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
)

// What the Express server allows and holds: the crowd and the catalog need
// three windows each.
const (
	expressLimit    = 20
	expressWindowMs = 2000
	expressItems    = 4250 // 43 pages
)

// The styles in which express-rate-limit announces its quota; "aroma" are the
// names of Botiga Aroma, written by its hooks.
var expressStyles = []string{"aroma", "draft-6", "draft-7", "draft-8", "legacy"}

func TestExpressNeverRefusesACatalogDownload(t *testing.T) {
	t.Parallel()
	url := startExpress(t)
	for _, style := range expressStyles {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			seen := downloadCatalog(t, polite.Options{}, url+"/"+style+"/catalog/v1/cafes", expressItems)
			assert.Equal(t, map[int]int{200: 43}, seen)
			requireManners(t, url, style+"/catalog", 43)
		})
	}
}

func TestExpressNeverRefusesACrowdOnOneClient(t *testing.T) {
	t.Parallel()
	url := startExpress(t)
	for _, style := range expressStyles {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			seen := askAllAtOnce(t, polite.Options{}, url+"/"+style+"/crowd/v1/cafes")
			assert.Equal(t, map[int]int{200: crowd}, seen)
			requireManners(t, url, style+"/crowd", crowd)
		})
	}
}

// requireManners asks the server what its limiter counted.
func requireManners(t *testing.T, url, limiter string, requests int) {
	t.Helper()
	resp, err := http.Get(url + "/counts")
	require.NoError(t, err)
	defer resp.Body.Close()
	var counts map[string]struct{ Asked, Passed, Windows int }
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&counts))
	got := counts[limiter]
	assert.Equal(t, requests, got.Asked)
	assert.Equal(t, requests, got.Passed, "it has refused the others")
	assert.GreaterOrEqual(t, got.Windows, 2)
}

const expressDir = "testdata/express"

// startExpress runs the server until the test ends, and returns its URL.
func startExpress(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("Node.js is not installed")
	}
	if _, err := os.Stat(filepath.Join(expressDir, "node_modules", "express-rate-limit")); err != nil {
		t.Skip("express-rate-limit is not installed: npm ci --prefix interop/" + expressDir)
	}
	cmd := exec.Command("node", "server.mjs", fmt.Sprint(expressLimit), fmt.Sprint(expressWindowMs), fmt.Sprint(expressItems))
	cmd.Dir = expressDir
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe() // its end is the server's, also when this process dies
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		assert.NoError(t, stdin.Close())
		assert.NoError(t, cmd.Wait())
	})
	port, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err, "the server did not print its port")
	return "http://127.0.0.1:" + strings.TrimSpace(port)
}
