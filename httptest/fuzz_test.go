package httptest

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// Whatever comes in, the answer is an HTTP answer in the API's shape.
func FuzzServer(f *testing.F) {
	f.Add("GET", "/v1/cafes", "limit=100&desplacament=2300", "Bearer client:1", "", "")
	f.Add("GET", "/v1/cafes", "q=%zz", "Bearer app::", "203.0.113.1, ,", "")
	f.Add("POST", "/v1/comandes", "", "Bearer soci:", "", `{"linies":[{"cafe":"caf_00001","quantitat":1}]}`)
	f.Add("POST", "/v1/comandes//pagament", "", "bearer", "::1%eth0", "{")
	f.Add("POST", "/v1/sessions", "", "", "", `{"compte":1}`)
	f.Add("PUT", "/v1/cafes/caf_99999999999999999999/imatge", "", "", "", "")
	f.Add("", "", "", "", "", "")
	config := Aroma()
	config.TrustedProxies = 1
	s, err := New(config)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, method, path, query, authorization, forwarded, body string) {
		req := &http.Request{
			Method: method, URL: &url.URL{Scheme: "https", Host: "api.botigaaroma.example", Path: path, RawQuery: query},
			Header: http.Header{"Authorization": {authorization}, "X-Forwarded-For": {forwarded}, "Idempotency-Key": {body}},
			Body:   http.NoBody,
		}
		if body != "" {
			req.Body = watched(body)
		}
		resp, err := s.Transport().RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode < 200 || resp.StatusCode > 429 {
			t.Errorf("status %d", resp.StatusCode)
		}
		if resp.StatusCode == http.StatusTooManyRequests && resp.Header.Get("Retry-After") == "" {
			t.Error("a refusal without Retry-After")
		}
		if resp.Header.Get("Aroma-Traca-Id") == "" {
			t.Error("no trace id")
		}
	})
}

// What a hint says can be read back, unless it is one of those that make no sense.
func FuzzTold(f *testing.F) {
	for _, text := range []string{"37", "-1", "0", "Sat, 01 Jan 2000 00:00:38 GMT", "soon", "99999999999999999999", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a := jsonAnswer(http.StatusTooManyRequests, nil)
		a.set("Retry-After", text)
		if until := a.told(epoch, 0); !until.IsZero() && !until.After(epoch) {
			t.Errorf("%q tells to wait until %s, which is not after %s", text, until, epoch)
		}
	})
}

func watched(body string) *watchedBody { return &watchedBody{Reader: strings.NewReader(body)} }
