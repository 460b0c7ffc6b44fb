package polite_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
)

// shop is the simulated coffee shop API with a small catalog and no limit.
func shop(coffees int) *politetest.Server {
	server, err := politetest.New(politetest.Config{Coffees: coffees, Limit: politetest.Limit{N: -1}})
	if err != nil {
		panic(err)
	}
	return server
}

// Items hides the pages: the loop asks for the next one when it needs it.
func ExamplePager_Items() {
	client := polite.New(&polite.Options{Base: shop(250).Transport()})

	type coffee struct {
		ID   string `json:"id"`
		Name string `json:"nom"`
	}
	pager := polite.Pager[coffee]{
		Client: client,
		Scheme: polite.OffsetPages{URL: "https://api.botigaaroma.example/v1/cafes", OffsetParam: "desplacament"},
		Decode: polite.JSONPage[coffee](polite.PageFields{Items: "dades", Total: "total"}),
	}
	count, last := 0, ""
	for coffee, err := range pager.Items(context.Background()) {
		if err != nil {
			fmt.Println(err)
			return
		}
		count, last = count+1, coffee.ID
	}
	fmt.Println(count, "coffees, the last one is", last)
	// Output: 250 coffees, the last one is caf_00250
}

// Pages shows progress, and a checkpoint to store with what was processed.
func ExamplePager_Pages() {
	client := polite.New(&polite.Options{Base: shop(250).Transport()})
	pager := polite.AromaPages[politetest.Coffee](client, "https://api.botigaaroma.example/v1/cafes")
	pager.Concurrency = 4

	stored := "" // on disk, in a real program
	for page, err := range pager.Pages(context.Background()) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d of %d\n", page.Progress.Items, page.Progress.Total)
		if page.Number == 1 {
			stored = page.CheckpointAfter(30) // only 30 of its items were processed
			break                             // and then the program was killed
		}
	}

	pager.Resume = stored
	for page, err := range pager.Pages(context.Background()) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d of %d, from %s on\n", page.Progress.Items, page.Progress.Total, page.Items[0].ID)
	}
	// Output:
	// 100 of 250
	// 130 of 250, from caf_00031 on
	// 230 of 250, from caf_00131 on
	// 250 of 250, from caf_00231 on
}

// The error that ends a walk says how to go on from where it ended.
func ExamplePageError() {
	server := shop(250)
	client := polite.New(&polite.Options{Base: server.Transport()})
	pager := polite.AromaPages[politetest.Coffee](client, "https://api.botigaaroma.example/v1/cafes")
	pager.MaxPages = 2

	count := 0
	for {
		var stopped *polite.PageError
		for _, err := range pager.Items(context.Background()) {
			if errors.As(err, &stopped) {
				fmt.Println(err)
				break
			}
			count++
		}
		if stopped == nil {
			break
		}
		pager.Resume = stopped.Checkpoint
	}
	fmt.Println(count, "coffees")
	// Output:
	// polite: page 3, after 200 of 250 items: too many pages: MaxPages is 2
	// 250 coffees
}

// feed answers with a body and a Link header, as many APIs do.
func feed(req *http.Request) reply {
	if req.URL.Query().Get("since") == "" {
		return reply{body: `["Kenya","Huila"]`, links: []string{`<?since=2>; rel="next"`}}
	}
	return reply{body: `["Sidama"]`}
}

// LinkPages follow the Link header. The body is a plain array.
func ExampleLinkPages() {
	server := &pageServer{answer: func(_ int, req *http.Request) reply { return feed(req) }}
	pager := polite.Pager[string]{
		Client: polite.New(&polite.Options{Base: server}),
		Scheme: polite.LinkPages{URL: "https://api.example/origins"},
		Decode: polite.JSONPage[string](polite.PageFields{}),
		Header: http.Header{"Authorization": {"Bearer token"}},
	}
	for origin, err := range pager.Items(context.Background()) {
		fmt.Println(origin, err)
	}
	// Output:
	// Kenya <nil>
	// Huila <nil>
	// Sidama <nil>
}

// CursorPages put a token from each page's body into the next page's query.
func ExampleCursorPages() {
	server := script(
		reply{body: `{"data":{"rows":[1,2]},"meta":{"next_cursor":"b2"}}`},
		reply{body: `{"data":{"rows":[3]},"meta":{"next_cursor":null}}`},
	)
	pager := polite.Pager[int]{
		Client: polite.New(&polite.Options{Base: server}),
		Scheme: polite.CursorPages{URL: "https://api.example/rows", Size: 2, CursorParam: "after"},
		Decode: polite.JSONPage[int](polite.PageFields{Items: "data.rows", Next: "meta.next_cursor"}),
	}
	for row, err := range pager.Items(context.Background()) {
		fmt.Println(row, err)
	}
	for _, url := range server.asked() {
		fmt.Println(url)
	}
	// Output:
	// 1 <nil>
	// 2 <nil>
	// 3 <nil>
	// https://api.example/rows?limit=2
	// https://api.example/rows?after=b2&limit=2
}
