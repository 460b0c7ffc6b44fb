// Package httptest simulates the rate-limiting API of Botiga Aroma, a coffee shop, for testing HTTP clients:
// any client, not only polite's. Import it as politetest.
//
// A [Server] counts with one of five algorithms ([Limit]), announces the quota in any dialect ([Dialect]), refuses
// with 429 and Retry-After, misbehaves on purpose, and grades the manners of its clients ([Scorecard]):
//
//	func TestMyClient(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			server := politetest.Must(t, politetest.Config{
//				Limit:   politetest.Limit{Algorithm: politetest.SlidingLog, N: 60, Per: time.Minute},
//				Latency: 20 * time.Millisecond,
//			})
//			client := NewMyClient(&http.Client{Transport: server.Transport()})
//			client.DownloadEverything()
//			politetest.RequireWellBehaved(t, server)
//		})
//	}
//
// The same server can be used
//
//   - in memory, without goroutines or sockets: [Server.Transport], made for testing/synctest bubbles, where an
//     hour of waiting takes no time and every instant is exact,
//   - over net/http's own wire inside a bubble: [Server.Pipe],
//   - on a port: [Server.Listen], or as the [http.Handler] that it is.
//
// # What it can be
//
// The zero [Config] has one limit, [DefaultLimit], counted for each caller alone. [Aroma] is the whole shop with its
// tiers, keys and costs; other ready configs imitate other systems: [PromoAzi], [SmartBill], [GitHub], [Nginx],
// [WrongHint], [SkewedClock]. A list of [Policy] values describes any other. [NewFleet] runs several instances, with
// counters of their own or in a common [Store]. [Oracle] computes how fast a client could possibly be.
//
// # Who is asking
//
// The server issues no tokens; it believes what a token says, and counts against the first key that it can tell:
//
//	Authorization: Bearer app:CLIENT_ID:SUBJECT  oauth:CLIENT_ID   a third-party app, all its users together
//	Authorization: Bearer ROLE:SUBJECT           usr:SUBJECT       role client, soci, empleat or administrador
//	Authorization: Bearer ANYTHING               usr:#FINGERPRINT  role client
//	X-API-Key: NAME                              key:#FINGERPRINT  a partner
//	(none)                                       ip:ADDRESS        anonymous; IPv6 by its /64
//
// # What can be asked for
//
// Coffees are called caf_00001 and up ([Config.Coffees] of them):
//
//	GET  /v1/cafes?limit=100&desplacament=200  a page of the catalog; with q=… a search
//	GET  /v1/cafes/caf_00001                   one coffee
//	POST /v1/comandes                          an order: {"linies":[{"cafe":"caf_00001","quantitat":1}]}
//	GET  /v1/comandes                          the caller's own orders
//	POST /v1/comandes/{id}/pagament            pays one of them; no body
//	POST /v1/clients                           a sign-up: {"compte":"pau"}
//	POST /v1/sessions                          a login: {"compte":"pau","contrasenya":"espresso"}
//	POST /v1/cafes/{id}/imatge                 an upload of any body, by partners and staff
//	GET  /salut                                the server's health; never limited
//
// Orders need a token ("Authorization: Bearer client:7", or it is a 401) and an Idempotency-Key (or a 400).
//
// # How it can misbehave
//
// [Server.Script] plans the next answers one by one, [Chance] strikes at random from a seed, and [Phase] describes
// outages and spells of limited capacity. What happens is a [Reply]: a status with headers and a body, a [Fault]
// of the connection, a delay, or [Redirect], [Huge] and [Bomb].
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
//
// # Repeatable runs
//
// Whatever is left to chance is drawn from [Config.Seed]. In virtual time two runs with the same seeds have the same
// [Server.TraceHash]. Only if different requests for one counter, from one client, for one scripted reply or for a machine
// of limited capacity ([Phase]) arrive in the same instant, the scheduler decides which of them comes first, and so
// perhaps which of them is refused.
package httptest
