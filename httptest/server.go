package httptest

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Server is a simulated rate-limiting server: an [http.Handler] that can also be reached in memory
// ([Server.Transport], [Server.Pipe]) or on a port ([Server.Listen]). Create one with [New].
// It is safe for concurrent use, starts no goroutine of its own and needs no closing.
type Server struct {
	config  Config
	catalog *catalog
	traces  atomic.Uint64

	mu     sync.Mutex
	script []Reply
	log    journal
}

// New returns a server, or a [*ConfigError] that names the setting it cannot honour.
func New(config Config) (*Server, error) {
	config, err := config.resolved()
	if err != nil {
		return nil, err
	}
	return &Server{
		config:  config,
		catalog: newCatalog(config.Seed, config.Coffees),
		log:     journal{keep: config.KeepArrivals},
	}, nil
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

// answer is everything that the server has decided about one request, at the instant it arrived.
type answer struct {
	status int
	header http.Header
	body   []byte
	delay  time.Duration // from the arrival to the headers
	fault  Fault
}

// ServeHTTP answers over a real connection.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := s.handle(r)
	a.write(r.Context(), w, r.Method == http.MethodHead)
}

// handle decides, records and returns the answer. It reads the clock once and never sleeps.
func (s *Server) handle(r *http.Request) answer {
	now := time.Now()
	seen := Arrival{
		At: now, Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery,
		Client: clientKey(r), IdempotencyKey: r.Header.Get("Idempotency-Key"), Remaining: -1,
	}
	a := s.decide(r, now, &seen)
	s.stamp(&a, now)
	seen.Status, seen.Fault = a.status, a.fault
	s.mu.Lock()
	s.log.addLocked(seen)
	s.mu.Unlock()
	return a
}

// decide goes the way of one request: script, health check, limiter, endpoint.
func (s *Server) decide(r *http.Request, now time.Time, seen *Arrival) answer {
	reply, scripted := s.nextReply(r)
	if scripted {
		seen.Scripted = true
		if reply.Status != 0 {
			return reply.answer()
		}
		if reply.Fault == Refuse || reply.Fault == ResetBefore {
			return answer{header: http.Header{}, fault: reply.Fault, delay: reply.Delay}
		}
	}
	a := s.admit(r, now, seen)
	if scripted {
		a.fault, a.delay = reply.Fault, a.delay+reply.Delay
	}
	return a
}

// admit asks the limiter, and the endpoint if the limiter agrees.
func (s *Server) admit(r *http.Request, now time.Time, seen *Arrival) answer {
	if r.URL.Path == "/salut" {
		return answer{status: http.StatusOK, header: http.Header{}, body: []byte(`{"estat":"ok"}`)}
	}
	charge := Charge{Key: "general|" + seen.Client, Limit: s.config.Limit, Cost: s.config.Cost(r)}
	rulings, err := s.config.Store.Take(r.Context(), now, []Charge{charge})
	if err != nil { // fail-open: the shop stays open while its counters are down
		return s.route(r)
	}
	ruling := rulings[0]
	seen.Remaining = ruling.Remaining
	var a answer
	if ruling.Admitted {
		a = s.route(r)
		a.delay = ruling.Hold
	} else {
		seen.Refused, seen.Told = true, max(time.Second, time.Duration(secondsUp(ruling.Wait))*time.Second)
		a = errorAnswer(http.StatusTooManyRequests, "limit_peticions", "Has superat el límit de peticions. Torna-ho a provar més tard.")
		if !s.config.Silent {
			set(a.header, "Retry-After", strconv.FormatInt(int64(seen.Told/time.Second), 10))
		}
	}
	if ruling.Remaining >= 0 && !s.config.Silent {
		quotas := []quota{{"general", s.config.Limit, ruling.Remaining, ruling.Reset}}
		for _, d := range s.config.Dialects {
			d.announce(a.header, quotas, now, s.config.Skew)
		}
	}
	return a
}

// route finds the endpoint.
func (s *Server) route(r *http.Request) answer {
	switch path := r.URL.Path; {
	case path == "/v1/cafes":
		return s.listCoffees(r)
	case len(path) > len("/v1/cafes/") && path[:len("/v1/cafes/")] == "/v1/cafes/":
		return s.oneCoffee(r, path[len("/v1/cafes/"):])
	}
	return errorAnswer(http.StatusNotFound, "no_trobat", "Aquest recurs no existeix.")
}

func (s *Server) listCoffees(r *http.Request) answer {
	if !isRead(r) {
		return methodNotAllowed("GET, HEAD")
	}
	query := r.URL.Query()
	limit, offset := 20, 0
	for _, p := range []struct {
		name     string
		to       *int
		low, top int
	}{{"limit", &limit, 1, 100}, {"desplacament", &offset, 0, 1 << 30}} {
		text := query.Get(p.name)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < p.low {
			return errorAnswer(http.StatusBadRequest, "parametre_invalid", "El paràmetre "+p.name+" no és vàlid.")
		}
		*p.to = min(n, p.top)
	}
	if q := query.Get("q"); q != "" {
		return jsonAnswer(http.StatusOK, s.catalog.search(q, offset, limit))
	}
	return jsonAnswer(http.StatusOK, s.catalog.page(offset, limit))
}

func (s *Server) oneCoffee(r *http.Request, id string) answer {
	if !isRead(r) {
		return methodNotAllowed("GET, HEAD")
	}
	i, ok := s.catalog.index(id)
	if !ok {
		return errorAnswer(http.StatusNotFound, "no_trobat", "Aquest cafè no existeix.")
	}
	return jsonAnswer(http.StatusOK, s.catalog.json(i))
}

func isRead(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// stamp adds what every response carries.
func (s *Server) stamp(a *answer, now time.Time) {
	h := a.header
	set(h, "Date", now.Add(s.config.Skew).UTC().Format(http.TimeFormat))
	trace := traceID(s.config.Seed, s.traces.Add(1))
	set(h, "Aroma-Traca-Id", trace)
	set(h, "Access-Control-Allow-Origin", "*")
	set(h, "Access-Control-Expose-Headers", exposed)
	if a.body == nil && a.status >= 500 {
		a.body = errorBody("servei_no_disponible", "El servei no està disponible ara mateix.", trace)
	}
	if a.body == nil && a.status == http.StatusTooManyRequests {
		a.body = errorBody("limit_peticions", "Has superat el límit de peticions.", "")
	}
	if len(a.body) > 0 && h["Content-Type"] == nil {
		set(h, "Content-Type", "application/json; charset=utf-8")
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
