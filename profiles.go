package polite

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Aroma returns options for the API of Botiga Aroma. Set ExpectedLimit to the
// limit of your tier, so that a missing Authorization header is noticed:
//
//	o := polite.Aroma()
//	o.ExpectedLimit = 300
//	client := polite.New(o)
//
// Requests that the server counts apart have a quota key, and so a ledger and a
// gate, of their own: "search" (GET /v1/cafes?q=), "login", "sign-up",
// "orders", "payments" and "uploads"; an exhausted search does not stop the
// catalog. Searches keep to 20 per minute from the first one on. Requests count
// as many units as the server charges for them: an order 10, expanded orders 5,
// a page of more than 20 coffees 3. A search is charged 5 in the bucket of all
// reads as well, and a payment or an upload 1 in that of the orders, of which
// their answers do not tell: each is sent when it fits into both (Surcharge).
// Everything else is the default, which reads the Aroma-RateLimit fields in
// both languages, and Retry-After.
//
// POST requests are repeated only with an Idempotency-Key, which orders need
// anyway. The result is a plain struct of its own: change what you like before
// New or NewTransport.
func Aroma() *Options {
	// Each search takes 5 of the general bucket's 20, so no more than 3 at once.
	searches := Rate{N: 20, Per: time.Minute, Burst: 3, Key: "search"}
	return &Options{
		QuotaKey:  aromaKey,
		Cost:      aromaCost,
		Surcharge: aromaSurcharge,
		Limit:     LimitOptions{Rates: []Rate{searches}},
	}
}

// aromaKey is the quota of the server that a request counts against.
func aromaKey(r *http.Request) string {
	path := r.URL.Path
	write := r.Method == http.MethodPost
	switch {
	case path == "/v1/cafes" && !write && r.URL.Query().Get("q") != "":
		return "search"
	case !write:
		return ""
	case path == "/v1/sessions":
		return "login"
	case path == "/v1/clients":
		return "sign-up"
	case path == "/v1/comandes":
		return "orders"
	case strings.HasSuffix(path, "/pagament"):
		return "payments"
	case strings.HasSuffix(path, "/imatge"):
		return "uploads"
	}
	return ""
}

// aromaCost is what the server charges, in units of the limit that it announces
// on the answer: for a search that is the limit of searches, which counts each
// one once.
func aromaCost(r *http.Request) int {
	path := r.URL.Path
	if r.URL.RawQuery == "" && path != "/v1/comandes" {
		return 1
	}
	query := r.URL.Query()
	switch {
	case path == "/v1/comandes" && r.Method == http.MethodPost:
		return 10
	case path == "/v1/comandes" && query.Get("expandir") != "":
		return 5
	case path == "/v1/cafes" && query.Get("q") == "":
		if limit, err := strconv.Atoi(query.Get("limit")); err == nil && limit > 20 {
			return 3
		}
	}
	return 1
}

// aromaSurcharge is what a request with a strict limit of its own takes out of
// the bucket of all reads, or of all writes.
func aromaSurcharge(r *http.Request) (quotaKey string, units int) {
	switch aromaKey(r) {
	case "search":
		return "", 5
	case "payments", "uploads":
		return "orders", 1
	}
	return "", 0
}

// SmartBill returns options for the API of SmartBill, which bears 3 requests
// per second and answers 403 to everything for up to ten minutes when it gets
// more, without a hint.
//
// They send at most 3 per second, evenly spaced. A 403 is taken as a refusal
// because of the rate: nobody sends for 60 s, and up to a fifth longer at random
// so that processes part; then the request is repeated once.
// If that is refused too, the response goes to the caller and nobody sends for
// ten minutes, since every further request may begin the ban anew; calls that
// would have to wait longer than LimitOptions.MaxWait (2 minutes) fail at once
// with a [*WaitError] that says until when. Every other error, of the server or
// of the connection, goes straight to the caller.
//
// A POST is repeated only if it carries an Idempotency-Key or
// Overrides.Idempotent vouches for it. The limit is per account: where several
// processes share one, divide Limit.Rates among them. The result is a plain
// struct of its own: change what you like before New or NewTransport.
func SmartBill() *Options {
	return &Options{
		Limit:    LimitOptions{Rates: []Rate{PerSecond(3)}},
		Retry:    RetryOptions{MaxAttempts: 2, MaxWait: time.Minute},
		Classify: classifySmartBill,
	}
}

func classifySmartBill(resp *http.Response, err error) Verdict {
	v := DefaultClassify(resp, err)
	v.Retry = false
	if err != nil || resp.StatusCode != http.StatusForbidden {
		return v
	}
	if triesOf(resp) > 1 {
		return Verdict{Outcome: Throttled, Wait: 10 * time.Minute}
	}
	return Verdict{Outcome: Throttled, Retry: true, Wait: time.Minute}
}

// PromoAzi returns options for the API of PromoAzi, which counts two windows at
// once per address: 120 requests per minute and 2,000 per hour; for costly
// endpoints 30 per minute and 300 per hour besides.
//
// The function says which requests are costly (it must be safe for concurrent
// use; nil means that none is). They get the quota key "costly", and so a
// ledger and a gate of their own, and count in all four windows. None of them
// is ever exceeded by this client, whatever the server counts from: bursts of a
// sixth of each minute's and a fifth of each hour's requests may leave at once,
// and what is sent steadily stays below the limit by as much. What the server
// announces is kept besides. Where several processes share one address, divide
// Limit.Rates among them. The result is a plain struct of its own: change what
// you like before New or NewTransport.
func PromoAzi(costly func(*http.Request) bool) *Options {
	return &Options{
		Limit: LimitOptions{Rates: []Rate{
			{N: 120, Per: time.Minute, Burst: 20},
			{N: 2000, Per: time.Hour, Burst: 400},
			{N: 30, Per: time.Minute, Burst: 5, Key: "costly"},
			{N: 300, Per: time.Hour, Burst: 60, Key: "costly"},
		}},
		QuotaKey: func(r *http.Request) string {
			if costly != nil && costly(r) {
				return "costly"
			}
			return ""
		},
	}
}

// GitHub returns options for the REST and GraphQL APIs of GitHub and of GitHub
// Enterprise Server.
//
// The primary limits (search, code search, GraphQL, and core for all others)
// have a ledger and a gate each, by path. 403 and 429 with Retry-After or with
// nothing remaining are refusals that end when the server says, and so is a 200
// of GraphQL whose errors name a limit. A 403 or such a 200 whose body speaks of a
// secondary limit or of abuse is one too, though the quota is not used up: then,
// and after a 429 without any hint, a minute is waited, and twice as long after
// each further refusal of the same call. Any other 403 is final.
//
// While requests remain of the quota that an answer announces, its refusal holds
// for the whole host, otherwise for that quota. Of the body the first 4 KiB are
// looked at; it stays readable. GraphQL's requests are POSTs and so are repeated
// only if Overrides.Idempotent vouches for them. At most 900 requests per minute
// and 100 at once are sent, which is as much as the secondary limits bear of
// requests that only read.
//
// Delays of up to 4 minutes are waited for, a longer one (up to an hour after
// the primary limit) comes back at once as the response, and further calls fail
// with a [*WaitError] until it is over. A batch job that has the time raises
// Retry.MaxWait, Retry.MaxElapsed and Limit.MaxWait. The result is a plain
// struct of its own: change what you like before New or NewTransport.
//
// Source: docs.github.com, "Rate limits for the REST API" and "Best practices
// for using the REST API".
func GitHub() *Options {
	return &Options{
		Limit: LimitOptions{
			Rates:       []Rate{{N: 900, Per: time.Minute, Burst: 100}},
			MaxInFlight: 100,
			MaxWait:     5 * time.Minute,
		},
		Retry:    RetryOptions{MaxAttempts: 3, MaxWait: 4 * time.Minute, MaxElapsed: 15 * time.Minute},
		QuotaKey: githubKey,
		Classify: classifyGitHub,
	}
}

// githubKey is the resource that X-RateLimit-Resource will name; core is "".
func githubKey(r *http.Request) string {
	path := strings.TrimPrefix(r.URL.Path, "/api/v3") // Enterprise Server
	switch {
	case strings.HasPrefix(path, "/search/code"):
		return "code_search"
	case strings.HasPrefix(path, "/search/"):
		return "search"
	case path == "/graphql", path == "/api/graphql":
		return "graphql"
	}
	return ""
}

func classifyGitHub(resp *http.Response, err error) Verdict {
	if err != nil || !githubRefuses(resp) {
		return DefaultClassify(resp, err)
	}
	v := Verdict{Outcome: Throttled, Retry: true}
	if !githubSaysWhen(resp) {
		v.Wait = time.Minute << max(0, min(triesOf(resp)-1, 10))
	}
	return v
}

// githubRefuses reports whether a response is a refusal because of a limit.
func githubRefuses(resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		return true
	case http.StatusForbidden:
		return githubSaysWhen(resp) || isSecondaryLimit(PeekBody(resp, 4<<10))
	case http.StatusOK: // which is how GraphQL refuses
		return githubKey(resp.Request) == "graphql" && isRefusedQuery(PeekBody(resp, 4<<10))
	}
	return false
}

// githubSaysWhen reports whether the headers of a refusal tell its end.
func githubSaysWhen(resp *http.Response) bool {
	return resp.Header.Get("Retry-After") != "" || resp.Header.Get("X-RateLimit-Remaining") == "0"
}

// isRefusedQuery reports whether the answer to a query has an error that names a
// limit. An answer that is longer than the part that is looked at brings data.
func isRefusedQuery(body []byte) bool {
	var answer struct {
		Errors []struct{ Type, Message string }
	}
	if json.Unmarshal(body, &answer) != nil {
		return false
	}
	for _, e := range answer.Errors {
		if strings.HasPrefix(e.Type, "RATE_LIMIT") || isSecondaryLimit([]byte(e.Message)) {
			return true
		}
	}
	return false
}

func isSecondaryLimit(body []byte) bool {
	body = bytes.ToLower(body)
	return bytes.Contains(body, []byte("secondary rate limit")) || bytes.Contains(body, []byte("abuse detection"))
}

// Generic returns options for an API of which nothing is known: the defaults,
// and LimitOptions.Adaptive, so that the rate of a server that refuses without
// a word is learned. Nothing is slowed until a server announces its quota or
// refuses. The result is a plain struct of its own: change what you like before
// New or NewTransport.
func Generic() *Options {
	return &Options{Limit: LimitOptions{Adaptive: true}}
}

// triesOf is how many attempts the call of a response has made, without the
// repetitions of net/http on connections that had died.
func triesOf(resp *http.Response) int {
	if a := attemptOf(resp); a != nil {
		return a.call.tries
	}
	return 1
}
