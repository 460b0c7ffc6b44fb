package polite_test

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"net/http"
	"strings"
	"testing"

	"botigaaroma.example/polite"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// decodedCheckpoint is what everybody can read in a checkpoint.
func decodedCheckpoint(t *testing.T, checkpoint string) string {
	t.Helper()
	data, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(checkpoint, "polite1."))
	require.NoError(t, err)
	return string(data[4:])
}

// forged is a checkpoint with a right checksum around any content.
func forged(body string) string {
	sum := binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(body)))
	return "polite1." + base64.RawURLEncoding.EncodeToString(append(sum, body...))
}

// checkpointOf is the checkpoint after the first n items of the first page.
func checkpointOf(t *testing.T, p *polite.Pager[int], n int) string {
	t.Helper()
	for got, err := range p.Pages(t.Context()) {
		require.NoError(t, err)
		return got.CheckpointAfter(n)
	}
	require.Fail(t, "no page")
	return ""
}

func TestCheckpointsAreShortPrintableWords(t *testing.T) {
	c := checkpointOf(t, pagerOf(rows(2350, 100), polite.OffsetPages{URL: pagesURL}), 100)
	assert.Regexp(t, `^[0-9A-Za-z._-]+$`, c)
	assert.Less(t, len(c), 120)
}

func TestCheckpointAfterCountsOutsideThePageMeanItsEnds(t *testing.T) {
	for got, err := range pagerOf(rows(30, 10), polite.OffsetPages{URL: pagesURL, Size: 10}).Pages(t.Context()) {
		require.NoError(t, err)
		assert.Equal(t, got.CheckpointAfter(0), got.CheckpointAfter(-1))
		assert.Equal(t, got.CheckpointAfter(10), got.CheckpointAfter(11))
	}
}

func TestBadCheckpointsAreRefused(t *testing.T) {
	offsets := polite.OffsetPages{URL: pagesURL + "?q=a&k=1", Size: 10}
	good := checkpointOf(t, pagerOf(rows(30, 10), offsets), 4)
	damaged := []byte(good)
	damaged[20] ^= 1
	content := decodedCheckpoint(t, good)
	for name, c := range map[string]struct {
		scheme polite.Scheme
		text   string
	}{
		"no checkpoint":         {offsets, "page 7"},
		"another version":       {offsets, "polite2." + good[8:]},
		"damaged":               {offsets, string(damaged)},
		"cut short":             {offsets, good[:len(good)-3]},
		"something behind it":   {offsets, good + "AA"},
		"empty content":         {offsets, "polite1."},
		"not JSON":              {offsets, forged("{")},
		"a negative offset":     {offsets, forged(strings.Replace(content, `"a":4`, `"a":-4`, 1))},
		"a huge offset":         {offsets, forged(strings.Replace(content, `"a":4`, `"a":9223372036854775807`, 1))},
		"a negative total":      {offsets, forged(strings.Replace(content, `"t":30`, `"t":-30`, 1))},
		"another scheme":        {polite.NumberedPages{URL: pagesURL + "?q=a&k=1", Size: 10}, good},
		"another path":          {polite.OffsetPages{URL: "https://api.example/v2/items?q=a&k=1"}, good},
		"another query":         {polite.OffsetPages{URL: pagesURL + "?q=b&k=1"}, good},
		"another host":          {polite.OffsetPages{URL: "https://other.example/v1/items?q=a&k=1"}, good},
		"page numbers by size":  {polite.NumberedPages{URL: pagesURL, Size: 20}, checkpointOf(t, pagerOf(rows(30, 0), polite.NumberedPages{URL: pagesURL, Size: 10}), 0)},
		"a forged link":         {polite.LinkPages{URL: pagesURL}, forgedLink(t, "https://evil.example/p")},
		"a forged link with @":  {polite.LinkPages{URL: pagesURL}, forgedLink(t, "https://api.example@evil.example/p")},
		"a forged link of none": {polite.LinkPages{URL: pagesURL}, forgedLink(t, "mailto:a@b")},
	} {
		s := rows(30, 10)
		p := pagerOf(s, c.scheme)
		p.Resume = c.text
		items, err := collect(p)
		require.ErrorIs(t, err, polite.ErrBadCheckpoint, name)
		assert.Empty(t, items)
		assert.Empty(t, s.asked(), name)
		assert.Empty(t, stop(t, err).Checkpoint)
	}
}

func TestCheckpointsReadTwoSlashesAsAPath(t *testing.T) {
	s := script(reply{body: "[2]"})
	p := linkPager(s, pagesURL)
	p.Resume = forgedLink(t, "//evil.example/p")
	_, err := collect(p)
	require.NoError(t, err)
	assert.Equal(t, []string{"https://api.example//evil.example/p?page=2"}, s.asked())
}

// A cursor in the checkpoint of a walk along links is none that a walk wrote: it
// would be followed as a link that nobody has looked at.
func TestCheckpointsOfLinksTakeNoCursor(t *testing.T) {
	content := decodedCheckpoint(t, forgedLink(t, "/v1/items"))
	s := script(reply{body: "[2]"})
	p := linkPager(s, pagesURL)
	p.Resume = forged(strings.Replace(content, `"l":"/v1/items"`, `"c":"//evil.example/p"`, 1))
	_, err := collect(p)
	assert.ErrorIs(t, err, polite.ErrBadCheckpoint)
	assert.Empty(t, s.asked())
}

// forgedLink is a checkpoint of LinkPages at pagesURL with another link in it.
func forgedLink(t *testing.T, link string) string {
	s := linked(`</v1/items?page=2>; rel="next"`)
	p := linkPager(s, pagesURL)
	content := decodedCheckpoint(t, checkpointOf(t, p, 1))
	require.Contains(t, content, `"l":"/v1/items"`)
	return forged(strings.Replace(content, `"/v1/items"`, `"`+link+`"`, 1))
}

func TestCheckpointsMayMoveToAnotherPortAndOffsetSize(t *testing.T) {
	c := checkpointOf(t, pagerOf(rows(30, 10), polite.OffsetPages{URL: "http://127.0.0.1:4001/v1", Size: 10}), 4)
	p := pagerOf(rows(30, 10), polite.OffsetPages{URL: "http://127.0.0.1:4002/v1", Size: 7})
	p.Resume = c
	items, err := collect(p)
	require.NoError(t, err)
	assert.Equal(t, upTo(4, 30), items)
}

// What the first page's URL holds, which may be a key, stays out of the
// checkpoints of its links and is put back when the walk resumes.
func TestCheckpointsOfLinksHoldNoKeysOfTheFirstPage(t *testing.T) {
	const first = "https://api.example//v1/items?key=s3%63r3t&per_page=2&flag&x=%2C"
	const second = "https://api.example//v1/items?flag&page=2&key=s3cr3t&x=,&x=&"
	s := linked("<" + second + `>; rel="next"`)
	p := linkPager(s, first)
	c := checkpointOf(t, p, 1)
	assert.NotContains(t, decodedCheckpoint(t, c), "3r3t")
	assert.NotContains(t, decodedCheckpoint(t, c), "s3")

	p.Resume = c
	items, err := collect(p)
	require.NoError(t, err)
	assert.Equal(t, []int{2}, items)
	assert.Equal(t, mustURL(t, second).Query(), s.requests[1].URL.Query())
	assert.Equal(t, "//v1/items", s.requests[1].URL.Path)
}

func TestCheckpointsHoldNoHeaders(t *testing.T) {
	p := pagerOf(rows(30, 10), polite.OffsetPages{URL: "https://user:s3cr3t@api.example/v1?key=s3cr3t"})
	p.Header = http.Header{"Authorization": {"Bearer s3cr3t"}}
	assert.NotContains(t, decodedCheckpoint(t, checkpointOf(t, p, 3)), "s3cr3t")
}

func FuzzResume(f *testing.F) {
	f.Add(`{"k":"link","f":"00000000","l":"/v1","q":["&0","page=2"],"s":3}`)
	f.Add(`{"k":"offset","a":100,"n":100,"t":2350}`)
	f.Add(`{"k":"link","l":"https://evil.example","e":true}`)
	schemes := []polite.Scheme{
		polite.OffsetPages{URL: pagesURL + "?a=1"}, polite.NumberedPages{URL: pagesURL + "?a=1"},
		polite.CursorPages{URL: pagesURL + "?a=1"}, polite.LinkPages{URL: pagesURL + "?a=1"},
	}
	fingerprints := make([]string, len(schemes))
	for i, scheme := range schemes {
		p := pagerOf(script(reply{status: 400}), scheme)
		_, err := collect(p)
		_, rest, _ := strings.Cut(stopOf(err).Checkpoint, ".")
		data, _ := base64.RawURLEncoding.DecodeString(rest)
		_, rest, _ = strings.Cut(string(data), `"f":"`)
		fingerprints[i] = rest[:8]
	}
	s := &pageServer{answer: func(int, *http.Request) reply { return reply{body: `{"items":[]}`} }}
	p := pagerOf(s, nil)
	f.Fuzz(func(t *testing.T, body string) {
		for i, scheme := range schemes {
			s.requests = nil
			p.Scheme = scheme
			p.Resume = forged(strings.Replace(body, "00000000", fingerprints[i], 1))
			_, _ = collect(p)
			for _, req := range s.requests {
				assert.Equal(t, "api.example", req.URL.Host, "a checkpoint leads nowhere else")
			}
		}
	})
}

func stopOf(err error) *polite.PageError {
	stopped, ok := err.(*polite.PageError)
	if !ok {
		return &polite.PageError{}
	}
	return stopped
}
