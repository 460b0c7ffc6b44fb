package httptest

import (
	"context"
	"io"
	"net/http"
	stdtest "net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Many requests share one connection, so that only the stream of the one that fails may break.
func TestFaultsOverHTTP2BreakTheirOwnStreamOnly(t *testing.T) {
	s := Must(t, Config{Limit: Limit{N: -1}})
	server := stdtest.NewUnstartedServer(nil)
	server.Config, server.EnableHTTP2 = s.HTTPServer(nil), true
	server.StartTLS()
	defer server.Close()
	client := server.Client()

	ask := func(method, path, body string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if method == http.MethodPost {
			ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond) // what stalls ends with it
		}
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, method, server.URL+path, strings.NewReader(body))
		require.NoError(t, err)
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		assert.Equal(t, 2, resp.ProtoMajor)
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	require.NoError(t, ask(http.MethodGet, "/salut", ""))

	var all sync.WaitGroup
	for fault := Refuse; fault <= ResetBody; fault++ {
		s.Script(Fail(fault).On(http.MethodPost, "/v1/cafes/"+coffeeID(int(fault))+"/*"))
		all.Go(func() {
			body := strings.Repeat("x", int(fault)*maxBody/2) // some of them too large
			assert.Error(t, ask(http.MethodPost, "/v1/cafes/"+coffeeID(int(fault))+"/imatge", body), fault.String())
		})
		all.Go(func() { assert.NoError(t, ask(http.MethodGet, "/v1/cafes?limit=100", "")) })
	}
	all.Wait()
	require.NoError(t, ask(http.MethodGet, "/salut", ""))
}
