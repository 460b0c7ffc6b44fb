package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
)

// tokenVariable is the environment variable that -token can be given in.
const tokenVariable = "POLITE_TOKEN"

// settings is the command line, checked.
type settings struct {
	url         string // "" = the program's own server
	token       string
	out         string
	resume      bool
	concurrency int
	rates       []polite.Rate
	algorithm   politetest.Algorithm
	scheme      string
	params      names // of the query: offset, limit, page, per_page, cursor
	fields      names // of the body: items, total, pages, next
	verbose     bool
	base        http.RoundTripper // nil = the network; tests put a server in memory here
}

// item is one item of the catalog, stored as the server wrote it.
type item = json.RawMessage

// flags declares the command line; what it parses goes into the settings.
func flags(set *settings) *flag.FlagSet {
	f := flag.NewFlagSet("catalog-download", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	f.StringVar(&set.url, "url", "", "`URL` of the list (http://host alone means http://host/v1/cafes); none starts a limited server of this program's own")
	f.StringVar(&set.token, "token", "", "bearer `token`; better given in the environment variable "+tokenVariable)
	f.StringVar(&set.out, "out", "catalog.jsonl", "`file` to write, one JSON item per line; its state is kept in file.state")
	f.BoolVar(&set.resume, "resume", false, "go on with a file that was left incomplete, or start it; the other flags are not remembered: give them again")
	f.IntVar(&set.concurrency, "concurrency", 4, "how many pages to fetch at once, once their number is known (offset and page)")
	f.Func("limit", "own `rate` limit beside the server's, evenly spread: 60/min, 3/s, 100/10s, or several: 3/s,120/min", func(s string) (err error) {
		set.rates, err = parseRates(s)
		return err
	})
	set.algorithm = politetest.FixedWindow
	f.Func("algorithm", "how the program's own server counts: fixed-window (default), sliding-log, sliding-counter, token-bucket or leaky-bucket", func(s string) (err error) {
		set.algorithm, err = politetest.ParseAlgorithm(s)
		var unknown *politetest.ConfigError
		if errors.As(err, &unknown) {
			return errors.New(unknown.Problem)
		}
		return err
	})
	f.StringVar(&set.scheme, "scheme", "offset", "how the server names its pages: offset, page, cursor or link")
	set.params = names{"offset": "desplacament", "limit": "limit", "page": "page", "per_page": "per_page", "cursor": "cursor"}
	f.Var(set.params, "params", "the API's own names for query parameters, such as offset=skip,limit=count")
	set.fields = names{"items": "dades", "total": "total", "pages": "", "next": "next"}
	f.Var(set.fields, "fields", "the API's own names for the fields of a page, such as items=data,next=meta.next_cursor; a page that is an array has none")
	f.BoolVar(&set.verbose, "v", false, "one line per decision: what was answered, what is waited for and until when")
	return f
}

func printUsage(w io.Writer) {
	f := flags(&settings{})
	f.SetOutput(w)
	fmt.Fprintln(w, "usage: catalog-download [flags]")
	f.PrintDefaults()
}

// parseFlags reads the command line. The token never becomes part of an error
// or of the help.
func parseFlags(args []string, getenv func(string) string) (*settings, error) {
	set := &settings{}
	f := flags(set)
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	given := map[string]bool{}
	f.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if !given["token"] {
		set.token = getenv(tokenVariable)
	}
	var err error
	switch {
	case f.NArg() > 0:
		err = errors.New("there is an argument without a flag, which is not repeated here since it may be a token; a URL follows -url")
	case set.out == "":
		err = errors.New("-out is empty")
	case set.out == "-":
		err = errors.New("-out needs a file, since the state is kept beside it; \"-\" is none")
	case set.concurrency < 1:
		err = fmt.Errorf("-concurrency is %d, must be at least 1", set.concurrency)
	case strings.ContainsFunc(set.token, func(r rune) bool { return r <= ' ' || r > '~' }):
		err = errors.New("the token holds a space, a line end or another character that cannot be sent")
	case set.paging() == nil:
		err = fmt.Errorf("-scheme %q is none of offset, page, cursor, link", set.scheme)
	case given["url"] && given["algorithm"]:
		err = errors.New("-algorithm is for the program's own server, not for a -url")
	case given["url"]:
		set.url, err = checkURL(set.url)
	}
	return set, err
}

// discreet is the text without the token, which servers may repeat in their
// errors, whole or cut. One of less than eight characters is no secret.
func (set *settings) discreet(text string) string {
	const least = 8
	if len(set.token) < least {
		return text
	}
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, set.token[:least])
		out.WriteString(before)
		if !found {
			return out.String()
		}
		out.WriteString("(token)")
		for n := least; n < len(set.token) && rest != "" && rest[0] == set.token[n]; n++ {
			rest = rest[1:]
		}
		text = rest
	}
}

// checkURL refuses what cannot be asked for and completes a bare host. The URL
// may hold secrets and is not repeated.
func checkURL(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return "", errors.New("-url must begin with http:// or https://, and a host, as http://127.0.0.1:8080 or https://api.example.com/v1/items")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = cafes
	}
	return u.String(), nil
}

// paging is the scheme of the pages; nil if there is none of that name.
func (set *settings) paging() polite.Scheme {
	switch p := set.params; set.scheme {
	case "offset":
		return polite.OffsetPages{URL: set.url, OffsetParam: p["offset"], LimitParam: p["limit"]}
	case "page":
		return polite.NumberedPages{URL: set.url, PageParam: p["page"], SizeParam: p["per_page"]}
	case "cursor":
		return polite.CursorPages{URL: set.url, Size: 100, CursorParam: p["cursor"], LimitParam: p["limit"]}
	case "link":
		return polite.LinkPages{URL: set.url}
	}
	return nil
}

// patience is how long one page may have to wait: enough for a quota per day.
// A batch job waits where a request that a person waits for would give up.
const patience = 25 * time.Hour

// mostPages is where a download stops that has no end, by default with ten
// million items. It can be gone on with.
const mostPages = 100_000

// pager is the polite download, observed by the tally.
func (set *settings) pager(t *tally, checkpoint string) *polite.Pager[item] {
	client := polite.New(&polite.Options{
		Base:  set.base,
		Retry: polite.RetryOptions{MaxWait: patience, MaxElapsed: -1},
		Limit: polite.LimitOptions{MaxWait: patience, Rates: set.rates},
	})
	client.HTTPClient().Transport = &observed{next: client.Transport(), tally: t}
	p := &polite.Pager[item]{
		Client:      client,
		Scheme:      set.paging(),
		Decode:      decodePage(polite.PageFields{Items: set.fields["items"], Total: set.fields["total"], Pages: set.fields["pages"], Next: set.fields["next"]}),
		Resume:      checkpoint,
		Concurrency: set.concurrency,
		MaxPages:    mostPages,
		Header:      http.Header{"Accept": {"application/json"}},
	}
	if set.token != "" {
		p.Header.Set("Authorization", "Bearer "+set.token)
	}
	return p
}

// decodePage reads pages with the given fields, and pages that are an array.
func decodePage(fields polite.PageFields) func(*http.Response, []byte) (polite.Batch[item], error) {
	object, array := polite.JSONPage[item](fields), polite.JSONPage[item](polite.PageFields{})
	return func(resp *http.Response, body []byte) (polite.Batch[item], error) {
		if strings.HasPrefix(strings.TrimSpace(string(body[:min(len(body), 64)])), "[") {
			return array(resp, body)
		}
		batch, err := object(resp, body)
		if err != nil && json.Valid(body) { // a page, but not of the fields expected
			err = fmt.Errorf("%w; -fields gives the API's own names", err)
		}
		return batch, err
	}
}

// parseRates reads rates such as 60/min, separated by commas.
func parseRates(text string) (rates []polite.Rate, err error) {
	for one := range strings.SplitSeq(text, ",") {
		number, unit, ok := strings.Cut(strings.TrimSpace(one), "/")
		n, err := strconv.Atoi(number)
		per := period(unit)
		if !ok || err != nil || n < 1 || per <= 0 {
			return nil, fmt.Errorf("%q is no rate such as 60/min, 3/s or 100/10s", one)
		}
		rates = append(rates, polite.Rate{N: n, Per: per})
	}
	return rates, nil
}

// period is the length of a unit of time; 0 if it is none.
func period(unit string) time.Duration {
	switch unit {
	case "s", "sec", "second":
		return time.Second
	case "m", "min", "minute":
		return time.Minute
	case "h", "hour":
		return time.Hour
	case "d", "day":
		return 24 * time.Hour
	}
	per, _ := time.ParseDuration(unit)
	return per
}

// names maps what this program calls something to what the API calls it. As a
// flag it reads a=b,c=d.
type names map[string]string

func (n names) String() string { return "" }

// Set replaces the names that are given.
func (n names) Set(text string) error {
	for pair := range strings.SplitSeq(text, ",") {
		ours, theirs, ok := strings.Cut(pair, "=")
		if _, known := n[ours]; !ok || !known {
			return fmt.Errorf("%q is not one of %s with = and a name", pair, strings.Join(sorted(n), ", "))
		}
		n[ours] = theirs
	}
	return nil
}
