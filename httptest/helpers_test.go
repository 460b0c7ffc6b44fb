package httptest

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func itoa(n int) string { return strconv.Itoa(n) }

func requestTo(t *testing.T, path string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, BaseURL+path, nil)
	require.NoError(t, err)
	return req
}

// statuses sends n requests one after the other and returns what they were answered.
func statuses(t *testing.T, s *Server, path string, n int) []int {
	t.Helper()
	var all []int
	for range n {
		resp, _ := get(t, s, path)
		all = append(all, resp.StatusCode)
	}
	return all
}
