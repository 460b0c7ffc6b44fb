package httptest

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// exchange is one request on its way through the server.
type exchange struct {
	request  *http.Request
	peer     string    // the address at the other end
	sent     uint64    // when the client sent it, on Server.clock
	now      time.Time // when it had arrived
	caller   caller
	client   string                        // the caller's key
	conduct  *conduct                      // what is known of that client
	last     *atomic.Pointer[acquaintance] // of the transport; nil over a real connection
	nth      uint64                        // how many of its requests came before
	class    Class
	id       string // of the coffee or the order that the path names
	plan     *Reply // what a script, an outage or a chance has in store for it; nil = nothing
	down     bool   // the plan is an outage
	body     []byte
	bodyErr  error   // the body could not be read
	effect   bool    // an endpoint has changed something
	refusing *Policy // that has refused the request
	counter  string  // of that policy
	seen     Arrival
	room     room
}

// room is what the limits need for one request, kept for the next one.
type room struct {
	policies []*Policy // those that are for the request
	charges  []Charge  // what each of them charges
	rulings  []Ruling  // what each of them says
	quotas   []quota   // what is announced
}

// exchanges saves allocating one for each request: nothing of an exchange outlives the call that began it.
var exchanges = sync.Pool{New: func() any { return new(exchange) }}

// newExchange begins an exchange, which its caller must release.
func newExchange(r *http.Request, peer string, sent uint64, last *atomic.Pointer[acquaintance]) *exchange {
	x := exchanges.Get().(*exchange)
	x.request, x.peer, x.sent, x.last = r, peer, sent, last
	return x
}

func (x *exchange) release() {
	r := x.room
	*x = exchange{}
	x.room = room{r.policies[:0], r.charges[:0], r.rulings[:0], r.quotas[:0]}
	exchanges.Put(x)
}

// acquaintance is the client that a transport spoke for last, and most likely speaks for again.
type acquaintance struct {
	caller  caller
	client  string
	conduct *conduct
}

func (x *exchange) hasBody() bool { return x.request.Body != nil && x.request.Body != http.NoBody }

// owner is whose orders and keys they are: limits count an app's users together, but each has orders of its own.
func (x *exchange) owner() string {
	if x.caller.clientID == "" {
		return x.client
	}
	return x.client + ":" + x.caller.subject
}

func (x *exchange) digest() uint64 { return digest(string(x.body)) }

// answer is everything that the server has decided about one request, at the instant it arrived, and what the
// in-memory transport makes of it: one piece of memory for all.
type answer struct {
	status int
	header http.Header
	values []string // of the header, see set
	body   []byte
	delay  time.Duration // from the arrival to the headers
	fault  Fault

	response http.Response
	memory   memoryBody
	few      [11]string // enough for most answers' values
}

func newAnswer(status int, header http.Header, body []byte) *answer {
	a := &answer{status: status, header: header, body: body}
	a.values = a.few[:0]
	return a
}

// set sets a header whose name is in canonical form. The values share one array, which is most of the cost of a header.
func (a *answer) set(canonical, value string) {
	if len(a.values) == cap(a.values) {
		a.values = make([]string, 0, 12)
	}
	a.values = append(a.values, value)
	last := len(a.values)
	a.header[canonical] = a.values[last-1 : last : last]
}

// first is Header.Get for a name in canonical form.
func first(h http.Header, canonical string) string {
	if values := h[canonical]; len(values) > 0 {
		return values[0]
	}
	return ""
}
