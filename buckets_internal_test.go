package polite

import (
	"net/http"
	"net/url"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func endpointAt(t testing.TB, method, address string) endpoint {
	t.Helper()
	u, err := url.Parse("http://api.test" + address)
	require.NoError(t, err)
	return endpointOf(&http.Request{Method: method, URL: u})
}

func TestEndpointsAreToldApart(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		same bool
	}{
		{"/v1/cafes", "/v1/cafes", true},
		{"/v1/cafes?limit=100&desplacament=0", "/v1/cafes?desplacament=200&limit=100", true},
		{"/v1/cafes?q=a", "/v1/cafes?q=b", true},
		{"/v1/cafes?id=1&id=2&id=3", "/v1/cafes?id=1", true},
		{"/v1/cafes?q=a", "/v1/cafes?limit=100", false},
		{"/v1/cafes", "/v1/cafes?q=a", false},
		{"/v1/cafes/caf_00001", "/v1/cafes/caf_09999", true},
		{"/v1/cafes/1", "/v1/cafes/22", true},
		{"/v1/cafes/1", "/v1/cafes", false},
		{"/x/6ba7b810-9dad-11d1-80b4-00c04fd430c8", "/x/f81d4fae-7dec-11d0-a765-00a0c91e6bf6", true},
		{"/x/da39a3ee5e6b4b0d3255bfef95601890afd80709", "/x/6ba7b810-9dad-11d1-80b4-00c04fd430c8", true},
		{"/x/2026-11-30", "/x/2026-12-01", true},
		{"/v1/cafes", "/v2/cafes", false},
		{"/a/b", "/b/a", false},
		{"/s3/x", "/s4/x", false},
		{"", "/", false},
	} {
		assert.Equal(t, tc.same, endpointAt(t, "GET", tc.a) == endpointAt(t, "GET", tc.b), "%s %s", tc.a, tc.b)
	}
	assert.NotEqual(t, endpointAt(t, "GET", "/a"), endpointAt(t, "POST", "/a"))
	assert.Equal(t, endpointAt(t, "GET", "/a"), endpointAt(t, "", "/a"), "no method is GET")
	assert.NotEqual(t, endpointAt(t, "GET", "/POST/5"), endpointAt(t, "POST", "/GET/5"))
}

func TestEndpointOfAllocatesNothing(t *testing.T) {
	u, err := url.Parse("http://api.test/v1/cafes/caf_00001?limit=100&desplacament=200")
	require.NoError(t, err)
	req := &http.Request{Method: http.MethodGet, URL: u}
	assert.Zero(t, testing.AllocsPerRun(100, func() { endpointOf(req) }))
}

// The memory of an ordinary host stays within 1 KiB: its state fits into the
// allocator's class of 480 bytes, and with a ledger, its name and its place in
// the table BenchmarkHosts finds about 1,000.
func TestHostStateIsSmall(t *testing.T) {
	assert.LessOrEqual(t, unsafe.Sizeof(hostState{}), uintptr(480))
	assert.LessOrEqual(t, unsafe.Sizeof(ledger{}), uintptr(288))
}

func TestEndpointsAreForgottenBeyondTheBound(t *testing.T) {
	h := newHostState(hostKey{}, new(Options), nil)
	l := h.openLocked(laneKey{bucket: "b"})
	for e := range endpoint(2*maxEndpoints + 1) {
		h.assignLocked(e, l)
		require.LessOrEqual(t, len(h.endpoints), maxEndpoints)
	}
	assert.Equal(t, endpoints{2 * maxEndpoints: l}, h.endpoints)
}
