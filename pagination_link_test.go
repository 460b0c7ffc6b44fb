package polite_test

import (
	"fmt"
	"net/http"
	"testing"

	"botigaaroma.example/polite"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// linked serves a first page with the given Link values and then one without.
func linked(values ...string) *pageServer {
	return script(reply{body: "[1]", links: values}, reply{body: "[2]"})
}

func linkPager(s http.RoundTripper, url string) *polite.Pager[int] {
	return &polite.Pager[int]{
		Client: polite.New(&polite.Options{Base: s}),
		Scheme: polite.LinkPages{URL: url},
		Decode: polite.JSONPage[int](polite.PageFields{}),
		Header: http.Header{"Authorization": {"Bearer s3cr3t"}, "Cookie": {"sid=s3cr3t"}, "X-Api-Key": {"s3cr3t"}},
	}
}

// What a Link header says about the next page.
//
// Cases C123, C125, C127.
func TestLinkPagesFollowTheNextRelation(t *testing.T) {
	const two = "https://api.example/2"
	for name, c := range map[string]struct {
		links []string
		want  string
	}{
		"commas in the target":       {[]string{`<https://api.example/p?page=2&f=a,b,c>; rel="next"`}, "https://api.example/p?page=2&f=a,b,c"},
		"unquoted rel":               {[]string{`<https://api.example/2>;rel=next, <https://api.example/9>; rel="last"`}, two},
		"letter case":                {[]string{`<https://api.example/2>; REL=Next`}, two},
		"next is not first":          {[]string{`<https://api.example/0>; rel="prev", <https://api.example/2>; rel="next"`}, two},
		"two lines":                  {[]string{`<https://api.example/0>; rel="prev"`, `<https://api.example/2>; rel="next"`}, two},
		"several relations":          {[]string{`<https://api.example/2>; rel="last next"`}, two},
		"spaces":                     {[]string{" , <https://api.example/2> ;\trel = \"next\" "}, two},
		"other parameters":           {[]string{`<https://api.example/2>; title="a, b; rel=\"x\" <y>"; rel="next"; n`}, two},
		"comma in a quoted title":    {[]string{`<https://api.example/0>; title="x, <https://api.example/8>; rel=next"; rel=prev, <https://api.example/2>; rel=next`}, two},
		"only the first rel counts":  {[]string{`<https://api.example/8>; rel=prev; rel=next, <https://api.example/2>; rel=next`}, two},
		"a link about another page":  {[]string{`<https://api.example/8>; rel=next; anchor="/other", <https://api.example/2>; rel=next`}, two},
		"junk before":                {[]string{`junk; rel=next, <https://api.example/2>; rel=next`}, two},
		"a title that never ends":    {[]string{`<https://api.example/2>; rel=next; title="x`}, two},
		"no next":                    {[]string{`<https://api.example/0>; rel="prev"`}, ""},
		"next only as part of a rel": {[]string{`<https://api.example/0>; rel="nextish not-next"`}, ""},
		"a target that never ends":   {[]string{`<https://api.example/2; rel="next"`}, ""},
		"empty target":               {[]string{`<>; rel="next"`}, ""},
	} {
		s := linked(c.links...)
		items, err := collect(linkPager(s, "https://api.example/p"))
		require.NoError(t, err, name)
		if c.want == "" {
			assert.Equal(t, []int{1}, items, name)
			continue
		}
		assert.Equal(t, []int{1, 2}, items, name)
		assert.Equal(t, mustURL(t, c.want).String(), s.asked()[1], name)
	}
}

// Relative links are resolved against the page's own URL.
//
// Case C129.
func TestLinkPagesResolveRelativeLinks(t *testing.T) {
	next := func(ref string) []string { return []string{"<" + ref + `>; rel="next"`} }
	s := script(
		reply{body: "[1]", links: next("?page=2")}, reply{body: "[2]", links: next("/v1/items?page=3")},
		reply{body: "[3]", links: next("items?page=4#x")}, reply{body: "[4]"},
	)
	_, err := collect(linkPager(s, "https://api.example/v1/items?page=1"))
	require.NoError(t, err)
	assert.Equal(t, []string{
		"https://api.example/v1/items?page=1", "https://api.example/v1/items?page=2",
		"https://api.example/v1/items?page=3", "https://api.example/v1/items?page=4",
	}, s.asked())
}

func TestLinkPagesFollowALinkInTheBody(t *testing.T) {
	s := script(reply{body: page([]int{1}, -1, "https://api.example/v1/items?page=2")}, reply{body: page([]int{2}, -1, "")})
	items, err := collect(pagerOf(s, polite.LinkPages{URL: pagesURL}))
	require.NoError(t, err)
	assert.Equal(t, []int{1, 2}, items)
}

// A link must not lead away from the caller's origin.
//
// Cases C131, C133.
func TestLinkPagesRefuseOtherOriginsAndUserinfo(t *testing.T) {
	for ref, why := range map[string]string{
		"https://b.example/p2":                "it leads from https://a.example to https://b.example",
		"https://a.example@evil.example/p2":   "it holds userinfo",
		"https://user:s3cr3t@a.example/p2":    "it holds userinfo",
		"//evil.example/p2":                   "https://evil.example",
		"https://a.example.evil.example/":     "https://a.example.evil.example",
		"http://a.example/p2":                 "http://a.example",
		"https://a.example:8443/p2?k=s3cr3t":  "https://a.example:8443",
		"javascript:alert(1)":                 "it is not an http or https link",
		"https:p2":                            "it is not an http or https link",
		"https://a.example/%zz?k=s3cr3t":      "invalid URL escape",
		"https://[::1/":                       "missing ']' in host",
		"file:///etc/passwd":                  "it is not an http or https link",
		"https://a.example:443:443/p2":        "to https://a.example:443",
		"https://a.example\\@evil.example/p2": "invalid userinfo",
	} {
		s := linked("<" + ref + `>; rel="next"`)
		items, err := collect(linkPager(s, "https://a.example/p1"))
		require.ErrorIs(t, err, polite.ErrNextRefused, ref)
		assert.ErrorContains(t, err, why, ref)
		assert.NotContains(t, err.Error(), "s3cr3t")
		assert.Equal(t, []int{1}, items, ref)
		assert.Len(t, s.asked(), 1, ref)
	}
}

// A reference that begins with @ is a path.
//
// Case C133.
func TestLinkPagesReadAnAtSignAsAPath(t *testing.T) {
	s := linked(`<@evil.example/p2>; rel="next"`)
	_, err := collect(linkPager(s, "https://a.example/v1/p1"))
	require.NoError(t, err)
	assert.Equal(t, "https://a.example/v1/@evil.example/p2", s.asked()[1])
}

// An allowed origin is followed without anything of the caller's.
//
// Case C131.
func TestLinkPagesSendNoHeadersToAnAllowedOrigin(t *testing.T) {
	back := []string{`<https://a.example/p3>; rel="next"`}
	s := script(reply{body: "[1]", links: []string{`<https://B.example:443/p2>; rel="next"`}}, reply{body: "[2]", links: back}, reply{body: "[3]"})
	p := linkPager(s, "https://user:s3cr3t@a.example/p1")
	p.AllowOrigins = []string{"https://b.example/"}
	items, err := collect(p)
	require.NoError(t, err)
	assert.Equal(t, []int{1, 2, 3}, items)
	for i, want := range []string{"Bearer s3cr3t sid=s3cr3t s3cr3t", "  ", "Bearer s3cr3t sid=s3cr3t s3cr3t"} {
		h := s.requests[i].Header
		assert.Equal(t, want, h.Get("Authorization")+" "+h.Get("Cookie")+" "+h.Get("X-Api-Key"))
	}
}

// Spelling variants of the same origin are the same origin.
//
// Case C135.
func TestLinkPagesFollowSpellingVariantsOfTheirOrigin(t *testing.T) {
	for _, ref := range []string{"HTTPS://API.Example:443/p2", "https://api.example/p2", "https://api.example:/p2"} {
		s := linked("<" + ref + `>; rel="next"`)
		_, err := collect(linkPager(s, "https://Api.example/p1"))
		require.NoError(t, err)
		require.Len(t, s.asked(), 2)
		assert.Equal(t, "https://Api.example/p2", s.asked()[1])
		assert.Equal(t, "Bearer s3cr3t", s.requests[1].Header.Get("Authorization"))
	}
}

// Case C175.
func TestPagerSendsNoHeadersBehindARedirectToAnotherOrigin(t *testing.T) {
	for _, elsewhere := range []string{"https://b.example/", "https://sub.a.example/", "https://a.example:8443/", "http://a.example/"} {
		s := script(
			reply{status: 302, to: elsewhere}, reply{status: 302, to: "https://a.example/back"},
			reply{body: "[1]", links: []string{`<p2>; rel="next"`}}, reply{body: "[2]"},
		)
		p := linkPager(s, "https://user:s3cr3t@a.example/p1")
		p.Header = http.Header{"x-raw-key": {"s3cr3t"}, "X-Api-Key": {"s3cr3t"}}
		items, err := collect(p)
		require.NoError(t, err)
		assert.Equal(t, []int{1, 2}, items)
		assert.NotContains(t, fmt.Sprint(s.requests[1].Header), "s3cr3t", elsewhere)
		assert.Equal(t, []string{"s3cr3t"}, s.requests[2].Header["X-Api-Key"])
		assert.Equal(t, "https://a.example/p2", s.asked()[3])
	}
}

// A page that was redirected elsewhere cannot lead the walk on from there.
func TestLinkPagesRefuseARelativeLinkOfAPageFromAnotherOrigin(t *testing.T) {
	s := script(reply{status: 302, to: "https://b.example/p1"}, reply{body: "[1]", links: []string{`<p2>; rel="next"`}})
	_, err := collect(linkPager(s, "https://a.example/p1"))
	require.ErrorIs(t, err, polite.ErrNextRefused)
	assert.Len(t, s.asked(), 2)
}

func TestPagerKeepsTheClientsRuleForRedirects(t *testing.T) {
	loop := func(int, *http.Request) reply { return reply{status: 302, to: "/"} }
	s := &pageServer{answer: loop}
	_, err := collect(linkPager(s, "https://a.example/"))
	require.ErrorContains(t, err, "stopped after 10 redirects")
	assert.Len(t, s.asked(), 10)

	s = &pageServer{answer: loop}
	p := linkPager(s, "https://a.example/")
	p.Client.HTTPClient().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	_, err = collect(p)
	var failed *polite.ResponseError
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, 302, failed.StatusCode)
	assert.Len(t, s.asked(), 1)
}

func TestLinkPagesResumeAtALinkWithoutAPath(t *testing.T) {
	s := linked(`<?page=2>; rel="next"`)
	p := linkPager(s, "https://api.example?page=1")
	p.Resume = checkpointOf(t, p, 1)
	items, err := collect(p)
	require.NoError(t, err)
	assert.Equal(t, []int{2}, items)
	assert.Equal(t, "page=2", s.requests[1].URL.RawQuery)
}

func TestLinkPagesStopACircleOfLinks(t *testing.T) {
	s := linked(`<https://API.example:443/p1#again>; rel="next"`)
	_, err := collect(linkPager(s, "https://api.example/p1"))
	require.ErrorIs(t, err, polite.ErrPageLoop)
	assert.Len(t, s.asked(), 1)
}

func TestLinkPagesResumeAfterARefusedLinkOnceItIsAllowed(t *testing.T) {
	first := reply{body: "[1]", links: []string{`<https://b.example/p2?x=1>; rel="next"`}}
	s := script(first, first, reply{body: "[2]", links: []string{`<?x=2>; rel="next"`}}, reply{status: 500}, reply{body: "[3]"})
	p := linkPager(s, "https://a.example/p1")
	_, err := collect(p)
	require.ErrorIs(t, err, polite.ErrNextRefused)

	p.Resume, p.AllowOrigins = stop(t, err).Checkpoint, []string{"https://b.example"}
	items, err := collect(p)
	require.Error(t, err)
	assert.Equal(t, []int{2}, items)

	p.Resume = stop(t, err).Checkpoint
	items, err = collect(p)
	require.NoError(t, err)
	assert.Equal(t, []int{3}, items)
	assert.Equal(t, "https://b.example/p2?x=2", s.asked()[4])

	p.AllowOrigins = nil
	_, err = collect(p)
	require.ErrorIs(t, err, polite.ErrBadCheckpoint)
	require.ErrorIs(t, err, polite.ErrNextRefused)
}
