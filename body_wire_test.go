package polite_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
)

// bodyKind is one way of giving a request a body.
type bodyKind struct {
	name   string
	open   func() io.Reader
	want   string
	single bool // it cannot be sent again once it was read from
}

// bodyKinds are the ways in which callers do.
func bodyKinds(t *testing.T) []bodyKind {
	const content = "the body of an order"
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte("not this|"+strings.Repeat(content, 1000)), 0o600))
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	require.NoError(t, w.WriteField("nom", "Yirgacheffe"))
	part, err := w.CreateFormFile("foto", "cafe.png")
	require.NoError(t, err)
	part.Write(bytes.Repeat([]byte{0, 1, 2, 0xff}, 10_000))
	require.NoError(t, w.Close())
	fits, large := strings.Repeat("x", 1<<20), strings.Repeat("x", 1<<20+1)
	return []bodyKind{
		{name: "none", open: func() io.Reader { return nil }},
		{name: "http.NoBody", open: func() io.Reader { return http.NoBody }},
		{name: "bytes", open: func() io.Reader { return bytes.NewReader([]byte(content)) }, want: content},
		{name: "buffer", open: func() io.Reader { return bytes.NewBufferString(content) }, want: content},
		{name: "no bytes", open: func() io.Reader { return strings.NewReader("") }},
		{name: "file in its middle", open: func() io.Reader {
			file, err := os.Open(path)
			require.NoError(t, err)
			_, err = file.Seek(int64(len("not this|")), io.SeekStart)
			require.NoError(t, err)
			return file
		}, want: strings.Repeat(content, 1000)},
		{name: "multipart", open: func() io.Reader { return bytes.NewReader(form.Bytes()) }, want: form.String()},
		{name: "multipart stream", open: func() io.Reader { return io.MultiReader(bytes.NewReader(form.Bytes())) }, want: form.String()},
		{name: "stream", open: func() io.Reader { return io.MultiReader(strings.NewReader(content), strings.NewReader(content)) }, want: content + content},
		{name: "slow stream", open: func() io.Reader { return iotest.OneByteReader(strings.NewReader(content)) }, want: content},
		{name: "stream that ends with its last bytes", open: func() io.Reader { return iotest.DataErrReader(strings.NewReader(content)) }, want: content},
		{name: "empty stream", open: func() io.Reader { return io.MultiReader() }},
		{name: "stream that fits", open: func() io.Reader { return io.MultiReader(strings.NewReader(fits)) }, want: fits},
		{name: "stream too long", open: func() io.Reader { return io.MultiReader(strings.NewReader(large)) }, want: large, single: true},
	}
}

// Every kind of body arrives as the same bytes in each attempt, framed in the
// same way, or there is one attempt and a reason; on every wire, and whether the
// server reads before it refuses or not.
func TestBodiesOfAllKindsOnEveryWire(t *testing.T) {
	kinds := bodyKinds(t)
	for _, w := range wires {
		for _, early := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s early %t", w.name, early), func(t *testing.T) {
				var mu sync.Mutex
				whole := make(map[string][]string) // the bodies read to their end, by the kind's name
				lengths := make(map[string][]int64)
				attempts := make(map[string]int)
				url, base := w.start(t, http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
					kind := req.Header.Get("Kind")
					mu.Lock()
					attempts[kind]++
					first := attempts[kind] == 1
					lengths[kind] = append(lengths[kind], req.ContentLength)
					mu.Unlock()
					if first && early {
						rw.WriteHeader(503)
						return
					}
					body, err := io.ReadAll(req.Body)
					mu.Lock()
					if err == nil {
						whole[kind] = append(whole[kind], string(body))
					}
					mu.Unlock()
					if first {
						rw.WriteHeader(503)
					}
				}))
				c := polite.New(atOnceAfter(base))
				crowd(4, len(kinds), func(i int) {
					kind := kinds[i]
					req, err := http.NewRequest(http.MethodPut, url, kind.open())
					require.NoError(t, err)
					req.Header.Set("Kind", kind.name)
					resp, err := c.Do(req)
					if err == nil {
						defer resp.Body.Close()
					}
					mu.Lock()
					defer mu.Unlock()
					for _, body := range whole[kind.name] {
						assert.True(t, body == kind.want, "%s: %d bytes of %d", kind.name, len(body), len(kind.want))
					}
					for _, length := range lengths[kind.name] {
						assert.Equal(t, lengths[kind.name][0], length, kind.name)
					}
					if kind.single && attempts[kind.name] == 1 {
						assertNotRepeatable(t, resp, err)
						return
					}
					assert.False(t, kind.single && !early, "read, and sent again")
					if assert.NoError(t, err, kind.name) {
						assert.Equal(t, 200, resp.StatusCode, kind.name)
						assert.Equal(t, attempts[kind.name], polite.Attempts(resp), kind.name)
						assert.NotEmpty(t, whole[kind.name], kind.name)
					}
				})
			})
		}
	}
}

// assertNotRepeatable is about the last attempt of a body that is gone: its
// answer, or the failure of a connection that the server closed on it.
func assertNotRepeatable(t *testing.T, resp *http.Response, err error) {
	t.Helper()
	if err == nil {
		err = polite.CheckResponse(resp)
	}
	var answer *polite.ResponseError
	var lost *polite.RetryError
	switch {
	case errors.As(err, &answer):
		assert.Equal(t, polite.ReasonBodySpent, answer.Reason)
	case errors.As(err, &lost):
		assert.Equal(t, polite.ReasonBodySpent, lost.Reason)
	}
	assert.ErrorContains(t, err, "cannot be sent again")
}
