package polite_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
)

// Whatever the body of a page is, JSONPage finds numbers that can be, or an error
// of one line.
func FuzzJSONPage(f *testing.F) {
	f.Add(`{"items":[1,2],"total":2,"total_pages":1,"next":"x"}`, "items", "total")
	f.Add(`{"data":{"items":null},"meta":{"total":"17"}}`, "data.items", "meta.total")
	f.Add(`{"items":[1],"total":9e18}`, "items", "total")
	f.Add(`{"items":[1],"items":{},"total":-0.0}`, "items.", ".total")
	f.Fuzz(func(t *testing.T, body, items, total string) {
		decode := polite.JSONPage[int](polite.PageFields{Items: items, Total: total, Pages: total, Next: total})
		batch, err := decode(&http.Response{StatusCode: 200}, []byte(body))
		if err != nil {
			return
		}
		if batch.Total != nil {
			assert.LessOrEqual(t, int64(*batch.Total), int64(1<<53))
			assert.GreaterOrEqual(t, int64(*batch.Total), int64(-1<<53))
		}
		assert.LessOrEqual(t, int64(batch.Pages), int64(1<<53))
	})
}

// Whatever the body of an error is, CheckResponse makes one line of it and leaves
// it readable.
func FuzzCheckResponse(f *testing.F) {
	f.Add(`{"error":{"codi":"limit_peticions","missatge":"Massa peticions.","detalls":[],"tracaId":"trz_1"}}`, "")
	f.Add(`{"type":"about:blank","title":"Busy","detail":"Not\nnow."}`, "trz\x1b[31m")
	f.Add(`{"error":{"error":{}},"code":["x"],"message":null}`, "\xff")
	f.Fuzz(func(t *testing.T, body, trace string) {
		resp := answered(&http.Request{}, 500, body, "Aroma-Traca-Id", trace)
		err := polite.CheckResponse(resp)
		require.Error(t, err)
		assert.Less(t, len(err.Error()), 4000)
		assert.Negative(t, strings.IndexFunc(err.Error(), unicode.IsControl))
		left, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, body, string(left))
	})
}
