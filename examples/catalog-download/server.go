package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	politetest "botigaaroma.example/polite/httptest"
)

// cafes is the path of the catalog at Botiga Aroma.
const cafes = "/v1/cafes"

// ownLimit is less than the catalog needs, so that the download has to wait
// for the quota, and enough for it to be over soon.
func ownLimit(a politetest.Algorithm) politetest.Limit {
	return politetest.Limit{Algorithm: a, N: 10, Per: 4 * time.Second}
}

// ownServer is the limited server that a download without -url gets.
type ownServer struct {
	url   string
	limit politetest.Limit
	http  *http.Server
	ended chan error
}

// startServer serves the simulated catalog on a loopback port until stop.
func startServer(set *settings) (*ownServer, error) {
	limit := ownLimit(set.algorithm)
	shop, err := politetest.New(politetest.Config{Limit: limit})
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &ownServer{
		url:   "http://" + listener.Addr().String() + cafes,
		limit: limit,
		http:  &http.Server{Handler: speaking(set.scheme, shop), ReadHeaderTimeout: 10 * time.Second},
		ended: make(chan error, 1),
	}
	go func() { s.ended <- s.http.Serve(listener) }() // ends when stop closes the server
	return s, nil
}

func (s *ownServer) stop() {
	_ = s.http.Close() // nobody is left to be told
	<-s.ended
}

// speaking puts another paging scheme in front of the shop, which knows offsets
// only.
func speaking(scheme string, shop http.Handler) http.Handler {
	switch scheme {
	case "page":
		return byOffset(shop, func(q url.Values) (offset, limit string) {
			page, _ := strconv.Atoi(q.Get("page"))
			size, _ := strconv.Atoi(q.Get("per_page"))
			return strconv.Itoa((page - 1) * size), q.Get("per_page")
		}, nil)
	case "cursor":
		return byOffset(shop, func(q url.Values) (offset, limit string) { return q.Get("cursor"), q.Get("limit") },
			func(_ *http.Request, a *answer, next int) {
				body, _ := bytes.CutSuffix(a.body.Bytes(), []byte("}"))
				body = fmt.Appendf(body, `,"next":"%d"}`, next)
				a.body = *bytes.NewBuffer(body)
			})
	case "link":
		return byOffset(shop, func(q url.Values) (offset, limit string) { return q.Get("after"), "100" },
			func(r *http.Request, a *answer, next int) {
				a.header.Add("Link", fmt.Sprintf(`<%s?after=%d>; rel="next"`, r.URL.Path, next))
			})
	}
	return shop
}

// byOffset translates a request into offsets by read, and lets tell add the way
// to the next page to the answer, unless it is the last one or a refusal.
func byOffset(shop http.Handler, read func(url.Values) (offset, limit string), tell func(r *http.Request, a *answer, next int)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		offset, limit := read(r.URL.Query())
		inner := r.Clone(r.Context())
		inner.URL.RawQuery = url.Values{"desplacament": {offset}, "limit": {limit}}.Encode()
		a := &answer{header: w.Header(), status: http.StatusOK}
		shop.ServeHTTP(a, inner)

		at, _ := strconv.Atoi(offset)
		size, _ := strconv.Atoi(limit)
		if next := at + size; tell != nil && a.status == http.StatusOK && next < politetest.DefaultCoffees {
			tell(r, a, next)
		}
		a.header.Set("Content-Length", strconv.Itoa(a.body.Len()))
		w.WriteHeader(a.status)
		_, _ = w.Write(a.body.Bytes()) // a client that has gone needs no answer
	})
}

// answer is an http.ResponseWriter that keeps what is written to it.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header            { return a.header }
func (a *answer) WriteHeader(status int)         { a.status = status }
func (a *answer) Write(data []byte) (int, error) { return a.body.Write(data) }
