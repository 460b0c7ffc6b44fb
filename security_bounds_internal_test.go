package polite

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The response headers that the default base takes are 1 MiB at most, over
// HTTP/1.1 and HTTP/2.
func TestResponseHeadersAreBounded(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
			size := 900 << 10
			if req.URL.Path == "/large" {
				size = 1100 << 10
			}
			for range size / 1000 {
				rw.Header().Add("X-Padding", strings.Repeat("x", 950))
			}
		}))
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.EnableHTTP2 = http2
		s.StartTLS()
		defer s.Close()
		base := newBase().(*http.Transport)
		base.TLSClientConfig = &tls.Config{RootCAs: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
		defer base.CloseIdleConnections()
		c := New(&Options{Base: base, Retry: RetryOptions{Disable: true}})

		resp, err := c.Get(t.Context(), s.URL+"/small")
		require.NoError(t, err)
		assert.Equal(t, map[bool]int{false: 1, true: 2}[http2], resp.ProtoMajor)
		resp.Body.Close()

		_, err = c.Get(t.Context(), s.URL+"/large")
		var e *RetryError
		require.ErrorAs(t, err, &e, "HTTP/2 %t", http2)
		assert.Less(t, len(err.Error()), 1000)
	}
}
