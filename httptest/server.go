package httptest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// maxBody is the largest request body that the API accepts, 100 kB.
const maxBody = 100_000

// Server is a simulated rate-limiting server: an [http.Handler] that can also be reached in memory
// ([Server.Transport], [Server.Pipe]) or on a port ([Server.Listen]). Create one with [New].
// It is safe for concurrent use, starts no goroutine of its own and needs no closing.
type Server struct {
	config Config
	shop   *shop
	store  Store
	own    *Memory // store, if it is this server's own
	began  time.Time
	clock  atomic.Uint64 // numbers what happens on the clients' side: requests sent, refusals delivered
	traces atomic.Uint64
	dated  atomic.Pointer[dated]
	script script

	mu       sync.Mutex
	log      journal
	callers  callers
	timeline timeline
	alerts   alerts
	capacity capacity
}

// New returns a server, or a [*ConfigError] that names the setting it cannot honour.
func New(config Config) (*Server, error) {
	config, err := config.resolved()
	if err != nil {
		return nil, err
	}
	return newServer(config, newShop(config)), nil
}

func newServer(config Config, shop *shop) *Server {
	s := &Server{config: config, shop: shop, store: config.Store, began: time.Now()}
	if s.store == nil {
		s.own = NewMemory(0)
		s.store = s.own
	}
	s.log.keep = config.KeepArrivals
	return s
}

// Must is New for tests: a bad config fails the test at once.
func Must(t testing.TB, config Config) *Server {
	t.Helper()
	s, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Counters are the states of at most max keys, most recently asked first; none if the counters are in a [Store]
// that was handed in.
func (s *Server) Counters(max int) []Counter {
	if s.own == nil {
		return nil
	}
	return s.own.Counters(time.Now(), max)
}

// Restart forgets the counters, if they are in the server's own memory. Orders survive, as in a database.
func (s *Server) Restart() {
	if s.own != nil {
		s.own.Clear()
	}
}

// ServeHTTP answers over a real connection.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := newExchange(r, peerOf(r), s.clock.Add(1), nil)
	defer x.release()
	s.arrive(x)
	if x.refused() {
		abort(w)
	}
	x.read()
	a := s.handle(x)
	s.connected(x)
	came := false
	defer func() {
		if !came {
			s.lost(x)
		}
	}()
	a.writeHead(w, r)
	came = true
	s.delivered(x, wireGrace)
	a.writeBody(w, r)
}

// arrive looks at the request's head and at what is planned for it: script, outage or chance.
func (s *Server) arrive(x *exchange) {
	x.now = time.Now()
	x.class, x.id = classify(x.request)
	x.caller = identify(x.request, x.peer, s.config.TrustedProxies)
	s.recognize(x)
	x.nth = x.conduct.arrivals.Add(1) - 1
	x.plan = s.script.next(x.request)
	x.seen.Scripted = x.plan != nil
	if x.plan == nil {
		x.plan = s.outage(x.now)
		x.down = x.plan != nil
	}
	if x.plan == nil {
		x.plan = s.draw(x)
	}
}

// recognize finds the client's name and record. A transport mostly speaks for one client, and remembers it.
func (s *Server) recognize(x *exchange) {
	if x.last != nil {
		if a := x.last.Load(); a != nil && a.caller == x.caller {
			x.client, x.conduct = a.client, a.conduct
			return
		}
	}
	var room [64]byte
	name := x.caller.appendKey(room[:0])
	s.mu.Lock()
	x.conduct = s.callers.of(name)
	s.mu.Unlock()
	x.client = x.conduct.Client
	if x.client == others {
		x.client = string(name)
	}
	if x.last != nil {
		x.last.Store(&acquaintance{x.caller, x.client, x.conduct})
	}
}

// refused reports that the connection is refused: nothing is read, and nothing recorded.
func (x *exchange) refused() bool { return x.plan != nil && x.plan.Fault == Refuse }

// handle decides, records and returns the answer. It reads the clock once the body has come, and never sleeps.
func (s *Server) handle(x *exchange) *answer {
	r := x.request
	if x.hasBody() {
		x.now = time.Now()
	}
	x.seen.BodySize, x.seen.BodyHash = len(x.body), x.digest()
	x.seen.At, x.seen.Method, x.seen.Path, x.seen.Query = x.now, r.Method, r.URL.Path, r.URL.RawQuery
	x.seen.Client, x.seen.IdempotencyKey, x.seen.Remaining = x.client, first(r.Header, "Idempotency-Key"), -1
	a := s.decide(x)
	if a.fault == ResetBefore {
		a.status = 0
	}
	s.stamp(a, x.now)
	x.seen.Status, x.seen.Fault, x.seen.Until = a.status, a.fault, a.told(x.now, s.config.Skew)
	s.record(x)
	return a
}

// read takes as much of the body as the API would accept. Nothing parses it before the limits have agreed.
func (x *exchange) read() {
	if !x.hasBody() {
		return
	}
	var b bytes.Buffer
	_, x.bodyErr = b.ReadFrom(io.LimitReader(x.request.Body, maxBody+1))
	x.body = b.Bytes()
}

// decide goes the way of one request: plan, health check, limits, endpoint.
func (s *Server) decide(x *exchange) *answer {
	if x.plan != nil && x.plan.final() {
		return x.plan.answer()
	}
	var a *answer
	switch {
	case x.class == ClassHealth:
		a = jsonAnswer(http.StatusOK, []byte(`{"estat":"ok"}`))
	case isPreflight(x.request):
		a = preflight()
	default:
		a = s.admit(x)
	}
	if x.plan != nil {
		a.fault, a.delay = x.plan.Fault, a.delay+x.plan.Delay
	}
	return a
}

// carryOut asks the endpoint, after the limits and before the machine's capacity.
func (s *Server) carryOut(x *exchange) *answer {
	work, busy := s.work(x.now)
	if busy {
		a := errorAnswer(http.StatusServiceUnavailable, "", "")
		a.body = nil
		s.hint(a, s.config.Hint, work, x.now)
		return a
	}
	if len(x.body) > maxBody {
		return errorAnswer(http.StatusRequestEntityTooLarge, "cos_massa_gran", "El cos passa de 100 kB.")
	}
	if x.bodyErr != nil {
		return errorAnswer(http.StatusBadRequest, "cos_incomplet", "El cos no ha arribat sencer.")
	}
	a := s.route(x)
	a.delay += work
	return a
}

// dated remembers how a second is written.
type dated struct {
	unix int64
	text string
}

// date writes the header's text once per second.
func (s *Server) date(now time.Time) string {
	unix := now.Unix()
	if last := s.dated.Load(); last != nil && last.unix == unix {
		return last.text
	}
	fresh := &dated{unix, httpDate(now)}
	s.dated.Store(fresh)
	return fresh.text
}

// isPreflight reports that a browser asks whether it may send a request: it is no request of the client's own.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && first(r.Header, "Access-Control-Request-Method") != ""
}

func preflight() *answer {
	a := jsonAnswer(http.StatusNoContent, nil)
	a.set("Access-Control-Allow-Methods", "GET, HEAD, POST")
	a.set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, X-API-Key")
	a.set("Access-Control-Max-Age", "600")
	return a
}

// stamp adds what every response carries. A script's own Date and Content-Type stay.
func (s *Server) stamp(a *answer, now time.Time) {
	h := a.header
	if h["Date"] == nil {
		a.set("Date", s.date(now.Add(s.config.Skew)))
	}
	trace := traceID(s.config.Seed, s.traces.Add(1))
	a.set("Aroma-Traca-Id", trace)
	a.set("Access-Control-Allow-Origin", "*")
	a.set("Access-Control-Expose-Headers", exposed)
	if a.body == nil && a.status >= 500 {
		a.body = errorBody("servei_no_disponible", "El servei no està disponible ara mateix.", trace)
	}
	if a.body == nil && a.status == http.StatusTooManyRequests {
		a.body = refusalBody
	}
	if len(a.body) > 0 && h["Content-Type"] == nil {
		a.set("Content-Type", "application/json; charset=utf-8")
	}
}

// pause sleeps for d, or until the context ends.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
