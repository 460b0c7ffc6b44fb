package interop

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
)

// nginx limits to so many requests per second, with a burst on top, and refuses
// with a 503 that says nothing.
const (
	nginxRate  = 10
	nginxBurst = 5
)

// asDocumented is what a user sets who knows the limit.
func asDocumented() polite.Options {
	return polite.Options{Limit: polite.LimitOptions{Rates: []polite.Rate{polite.PerSecond(nginxRate)}}}
}

// asMet is what a user sets who does not know it, but that 503 is a refusal
// there and no failure of the server.
func asMet() polite.Options {
	return polite.Options{
		Limit: polite.LimitOptions{MaxInFlight: 2},
		Retry: polite.RetryOptions{MaxAttempts: 20},
		Classify: func(resp *http.Response, err error) polite.Verdict {
			if err == nil && resp.StatusCode == http.StatusServiceUnavailable {
				return polite.Verdict{Outcome: polite.Throttled, Retry: true, Wait: 500 * time.Millisecond}
			}
			return polite.DefaultClassify(resp, err)
		},
	}
}

func TestNginxNeverRefusesWhoKeepsItsRate(t *testing.T) {
	t.Parallel()
	t.Run("catalog", func(t *testing.T) {
		t.Parallel()
		server := startNginx(t)
		seen := downloadCatalog(t, server.reachedBy(asDocumented()), server.url, politetest.DefaultCoffees)
		assert.Equal(t, map[int]int{200: 24}, seen)
		assert.Zero(t, server.refused(t))
	})
	t.Run("crowd", func(t *testing.T) {
		t.Parallel()
		server := startNginx(t)
		seen := askAllAtOnce(t, server.reachedBy(asDocumented()), server.url)
		assert.Equal(t, map[int]int{200: crowd}, seen)
		assert.Zero(t, server.refused(t))
	})
}

func TestNginxGivesAllToWhoTakesItsRefusalsAsSuch(t *testing.T) {
	t.Parallel()
	t.Run("catalog", func(t *testing.T) {
		t.Parallel()
		server := startNginx(t)
		seen := downloadCatalog(t, server.reachedBy(asMet()), server.url, politetest.DefaultCoffees)
		assert.Equal(t, 24, seen[200])
		assert.Equal(t, seen[503], server.refused(t))
		t.Logf("refused %d of %d", seen[503], seen[503]+seen[200])
	})
	t.Run("crowd", func(t *testing.T) {
		t.Parallel()
		server := startNginx(t)
		seen := askAllAtOnce(t, server.reachedBy(asMet()), server.url)
		assert.Equal(t, crowd, seen[200])
		assert.Equal(t, seen[503], server.refused(t))
		t.Logf("refused %d of %d", seen[503], seen[503]+seen[200])
	})
}

// nginx is one server, in a folder of its own, reached through a socket there.
type nginx struct {
	url string
	dir string
}

const nginxConfig = `
daemon off;
master_process off;
pid DIR/pid;
error_log DIR/error.log;
events { worker_connections 256; }
http {
	log_format status '$status';
	access_log DIR/access.log status;
	client_body_temp_path DIR/body;
	proxy_temp_path DIR/proxy;
	fastcgi_temp_path DIR/fastcgi;
	uwsgi_temp_path DIR/uwsgi;
	scgi_temp_path DIR/scgi;
	limit_req_zone $server_name zone=everybody:1m rate=RATEr/s;
	server {
		listen unix:DIR/socket;
		server_name nginx.example;
		location / {
			limit_req zone=everybody burst=BURST nodelay;
			proxy_pass UPSTREAM;
		}
	}
}
`

// startNginx runs nginx before a catalog without a limit until the test ends.
func startNginx(t *testing.T) *nginx {
	t.Helper()
	program := findNginx(t)
	catalog := politetest.Must(t, politetest.Config{Limit: politetest.Limit{N: -1}})
	upstream, stop, err := catalog.Listen("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, stop()) })

	dir, err := os.MkdirTemp("", "nginx") // short: a socket's path has at most 107 bytes
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	config := strings.NewReplacer("DIR", dir, "UPSTREAM", upstream, "RATE", fmt.Sprint(nginxRate), "BURST", fmt.Sprint(nginxBurst)).Replace(nginxConfig)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(config), 0o600))

	var complaints bytes.Buffer
	cmd := exec.Command(program, "-p", dir, "-c", filepath.Join(dir, "nginx.conf"))
	cmd.Stderr = &complaints
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		assert.NoError(t, cmd.Wait(), complaints.String())
	})
	server := &nginx{url: "http://nginx.example/v1/cafes", dir: dir}
	require.Eventually(t, server.answers, 10*time.Second, 10*time.Millisecond, "nginx does not listen")
	return server
}

func findNginx(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"nginx", "/usr/sbin/nginx"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("nginx is not installed")
	return ""
}

func (n *nginx) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(n.dir, "socket"))
}

// answers reports whether the server listens.
func (n *nginx) answers() bool {
	conn, err := n.dial(context.Background(), "", "")
	return err == nil && conn.Close() == nil
}

// reachedBy adds the way to this server to the options.
func (n *nginx) reachedBy(opts polite.Options) polite.Options {
	opts.Base = &http.Transport{DialContext: n.dial, DisableKeepAlives: true}
	return opts
}

// refused is how many requests the server has refused, by its own log.
func (n *nginx) refused(t *testing.T) int {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(n.dir, "access.log"))
	require.NoError(t, err)
	return strings.Count(string(log), "503")
}
