// Package httptest simulates the rate-limiting API of Botiga Aroma, a coffee shop, for testing HTTP clients.
// Import it as politetest.
//
// A [Server] counts with one of five algorithms ([Limit]), announces the quota in any dialect ([Dialect]),
// refuses with 429 and Retry-After, and fails on demand ([Server.Script]). The same server can be used
//
//   - in memory, without goroutines or sockets: [Server.Transport], made for testing/synctest bubbles,
//   - over net/http's own wire inside a bubble: [Server.Pipe],
//   - on a port: [Server.Listen], or as the [http.Handler] that it is.
//
// [Oracle] computes how fast a client could possibly be.
//
// # What the headers say
//
// Remaining is how many requests of cost 1 would be admitted right now. Reset is an instant, rounded up to a
// whole second so that it is never early; what it means depends on the algorithm:
//
//	fixed window     the end of the window, when everything is restored
//	sliding log      the instant at which the oldest counted request expires (or the newest: Limit.ResetNewest)
//	sliding counter  the end of the current window; little is restored then, for the previous one still weighs
//	token bucket     the instant at which the bucket is full again
//	leaky bucket     the instant at which the queue is empty
//
// Retry-After on a refusal is the exact wait for the refused request, rounded up to seconds, at least 1.
package httptest
