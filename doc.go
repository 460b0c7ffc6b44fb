// Package polite is an HTTP client for rate-limited APIs: it wraps http.Client
// with retries that know what is safe to repeat, obeys Retry-After to the
// second, slows down before the server says 429, and stops calling a server
// that is down. All goroutines that share a Client share what it learns.
//
//	client := polite.New(nil)
//	resp, err := client.Get(ctx, "https://api.botigaaroma.example/v1/cafes")
//
// It drops into any SDK that takes an http.Client or an http.RoundTripper:
//
//	sdk.New(sdk.WithHTTPClient(polite.New(nil).HTTPClient()))
//	http.Client{Transport: polite.NewTransport(&polite.Options{Base: otherTransport})}
//
// [Client.Fetch] reads a whole body with the same care, and a [Pager] walks a
// collection page by page. Package botigaaroma.example/polite/httptest is a
// server that limits and misbehaves on purpose, for your own tests.
//
// # The way of a request
//
// [Transport.RoundTrip] takes every attempt through these stages, per host
// (scheme, name and port):
//
//   - circuit breaker: a server that fails is left alone ([BreakerOptions]);
//   - gate: after a refusal nobody sends before the instant the server named
//     (Retry-After and its kin), plus up to 20 % at random so that processes
//     part; then one request goes ahead and the rest follow as it succeeds;
//   - quota ledger: what the response headers say is left, less what is under
//     way; nothing is sent at 0 before the reset, and the last few requests of
//     a quota are spread over the time to it ([PreemptiveOptions]). The first
//     request goes ahead alone: the others wait at most 1 s for its answer;
//   - the client's own limits: rates, requests in flight, and for a server that
//     refuses without a hint a learned rate ([LimitOptions], Adaptive);
//   - the attempt itself, bounded in time;
//   - the verdict: classify, retry or return ([RetryOptions]).
//
// Calls wait in the order in which they began. A wait that is known to end too
// late for the call is not begun: the call fails at once and says why.
//
// # Ready options
//
// [Aroma], [SmartBill], [PromoAzi] and [GitHub] return options for one API each.
// [Generic] is for an API of which nothing is known: the defaults and
// LimitOptions.Adaptive. Each returns a plain Options struct, to be changed at
// will and given to New.
//
// # Defaults
//
//	attempts per call           4 in all       RetryOptions.MaxAttempts
//	a call, waits included      5 min          RetryOptions.MaxElapsed
//	one delay before a retry    60 s           RetryOptions.MaxWait
//	an attempt to its headers   30 s           RetryOptions.AttemptTimeout
//	a pause within a body       30 s           RetryOptions.AttemptTimeout
//	backoff                     1 s × 2ⁿ ±50 %, at most 60 s
//	retries of failures         10 % of the successes, 10 in reserve
//	one wait for admission      2 min          LimitOptions.MaxWait
//	calls waiting               10,000 a host  LimitOptions.MaxWaiting
//	own rates, in flight        unlimited      LimitOptions
//	a learned rate              off            LimitOptions.Adaptive
//	spreading begins below      10 remaining   PreemptiveOptions.Threshold
//	breaker opens after         5 failures in a row, or half of 20 in 10 s
//	breaker's probe             every 5 s      BreakerOptions.OpenFor
//	hosts remembered            1,024          Options.MaxHosts
//	a body in memory            64 MiB         MaxFetch
//	response headers            1 MiB          Options.Base
//	attempts per page           3 in all       Pager.MaxAttempts
//	pages per walk              10,000         Pager.MaxPages
//	a cursor or link            64 KiB         ErrNextRefused
//
// A batch job that may wait for several windows of a quota raises
// LimitOptions.MaxWait and RetryOptions.MaxElapsed.
//
// The two MaxWaits are for two moments. A call that is refused ends at once if
// the server asks for more than RetryOptions.MaxWait; a call that begins while
// the gate is closed waits for up to LimitOptions.MaxWait. So with Retry-After:
// 90 the first call returns its 429 at once and the next one waits; with
// Retry-After: 150 the next one fails at once too.
//
// # Who is calling
//
// Polite adds no header but the keys of RetryOptions.GenerateKeys, so the
// User-Agent is net/http's. Say who you are and where you can be reached, so
// that whoever runs the server can write to you before it shuts you out; a Pager
// has a Header for it:
//
//	req.Header.Set("User-Agent", "catalog-sync/1.2 (ops@example.com)")
//
// # What is retried
//
// Statuses 429, 502, 503 and 504 and failures of the connection; a 403 that the
// headers show to be a limit that ends; with what single servers refuse instead
// ([Dialect]); nothing else. A 402 that tells its end comes back at once, and
// until then nobody asks. Options.Classify takes the place of this
// judgement, with [DefaultClassify] as its base. Repeated are GET, HEAD, PUT,
// DELETE, OPTIONS and TRACE, requests with an Idempotency-Key, requests that
// Overrides.Idempotent vouches for, and any request that certainly was not sent.
// The second attempt sends the same bytes, from Request.GetBody or from a copy of
// at most 1 MiB, or is not made.
//
// A delay that the server names is never shortened. If it is longer than the
// call may wait, the response comes back at once and [CheckResponse] tells the
// delay.
//
// # Responses and errors
//
// A response that arrived is returned with a nil error, whatever its status and
// however many attempts it took ([Attempts] tells). [CheckResponse] makes a
// [*ResponseError] of it. Without a response the error, inside http.Client's
// *url.Error, is one of
//
//   - [*RetryError]: the last attempt failed; it wraps the cause and says whether
//     the server may have received the request. In a Fetch the cause may also
//     be decode's error or a [*BodyTooLargeError];
//   - [*WaitError]: the wait before the next attempt would pass a bound;
//   - [*CircuitOpenError]: nothing was sent, the breaker is open;
//   - the context's error, when that ended the call;
//   - an error of no type of its own for a request that cannot be sent at all,
//     such as one whose URL has no host.
//
// Their messages are one line and hold no header, no query and no userinfo of a
// URL. A Client follows ten redirects, each of them a call of its own, and takes
// no credentials to another origin; see Client.HTTPClient.
//
// # What happens and why
//
// A [Trace] observes waits, attempts, quotas, refusals and breakers; [SlogTrace]
// makes one that logs. Trace.Diagnosis tells what the caller can mend, with the
// remedy: a limit lower than expected, a quota that others spend too, clocks
// that differ, a missing Retry-After. [Transport.Hosts] shows the present state.
//
// # Concurrency and lifetime
//
// Clients, Transports and Pagers are safe for concurrent use. Transports start
// no goroutine and need no closing; what is remembered of a host is bounded and
// brought up to date by whoever uses it. The caller closes response bodies, as
// with net/http. Functions given in Options and Trace run on the calling
// goroutine, outside all locks.
package polite
