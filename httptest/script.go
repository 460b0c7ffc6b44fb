package httptest

import (
	"net/http"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Reply is a scripted answer to requests that match it; see [Server.Script].
// Build one with [Respond], [Fail] or [Pass] and refine it with its methods, which return a copy.
// A server copies what it is given, except for the bytes of Body: they must not change any more.
type Reply struct {
	// Status is answered before the limiter is asked; 0 = the request goes on to the limiter and its endpoint.
	// What is no final status (below 200 or above 599) is answered as 500.
	Status int
	// Header is sent with it. Only Date, the trace id and the CORS headers are added, no quota.
	Header http.Header
	// Body is sent with it; nil = the API's error shape for a 429 or 5xx, otherwise an empty body.
	Body []byte
	// Fault is what happens to the connection.
	Fault Fault
	// Delay is waited before the answer's headers.
	Delay time.Duration
	// Count is how many requests get this reply; 0 = one, negative = all from then on.
	Count int
	// Match says which requests it is for; nil = any. It must be safe for concurrent use.
	Match func(*http.Request) bool
}

// Respond scripts one answer with the given status and headers: Respond(503, "Retry-After", "2").
// A name without a value is sent empty.
func Respond(status int, namesAndValues ...string) Reply {
	h := http.Header{}
	for i := 0; i < len(namesAndValues); i += 2 {
		value := ""
		if i+1 < len(namesAndValues) {
			value = namesAndValues[i+1]
		}
		h.Add(namesAndValues[i], value)
	}
	return Reply{Status: status, Header: h}
}

// Fail scripts a failure of the connection. A fault that strikes after the headers does so on the real answer.
func Fail(fault Fault) Reply { return Reply{Fault: fault} }

// Pass lets a request through to the limiter, so that a script can say "the second one fails".
func Pass() Reply { return Reply{} }

// WithBody returns a copy of the reply with this body.
func (r Reply) WithBody(body string) Reply {
	r.Body = []byte(body)
	return r
}

// After returns a copy of the reply that comes so much later.
func (r Reply) After(delay time.Duration) Reply {
	r.Delay = delay
	return r
}

// Times returns a copy of the reply for the next n matching requests; negative = all from then on.
func (r Reply) Times(n int) Reply {
	r.Count = n
	return r
}

// With returns a copy of the reply with this fault.
func (r Reply) With(fault Fault) Reply {
	r.Fault = fault
	return r
}

// On returns a copy of the reply for requests of one method (empty = any) whose path fits
// a pattern of [path.Match], such as "/v1/cafes/*" (empty = any).
func (r Reply) On(method, pattern string) Reply {
	r.Match = func(req *http.Request) bool {
		if method != "" && req.Method != method {
			return false
		}
		fits, err := path.Match(pattern, req.URL.Path)
		return pattern == "" || (err == nil && fits)
	}
	return r
}

// Script queues replies. Each request takes the first reply of the queue that matches it, before any limiter is asked.
// A reply leaves the queue when its Count is used up; a request that nothing matches is served as usual.
func (s *Server) Script(replies ...Reply) {
	s.script.mu.Lock()
	defer s.script.mu.Unlock()
	all := slices.Clone(s.script.replies())
	for _, r := range replies {
		if r.Count == 0 {
			r.Count = 1
		}
		all = append(all, &scripted{reply: r.kept(), left: r.Count})
	}
	s.script.queue.Store(&all)
}

// script is the queue of replies. It is replaced and never changed, so that requests walk it without a lock.
type script struct {
	queue atomic.Pointer[[]*scripted]

	mu sync.Mutex // for replacing the queue, and for what is left of each reply
}

func (q *script) replies() []*scripted {
	if all := q.queue.Load(); all != nil {
		return *all
	}
	return nil
}

// scripted is a reply in the queue.
type scripted struct {
	reply Reply
	left  int // requests that will still get it; negative = all; 0 = it has left the queue
}

// Pending is how many scripted replies were not asked for yet; replies without end count as none.
func (s *Server) Pending() int {
	s.script.mu.Lock()
	defer s.script.mu.Unlock()
	n := 0
	for _, p := range s.script.replies() {
		n += max(0, p.left)
	}
	return n
}

// next takes the first reply that matches, or nil. Match is foreign code, so it runs without the lock.
func (q *script) next(r *http.Request) *Reply {
	for _, p := range q.replies() {
		if (p.reply.Match == nil || p.reply.Match(r)) && q.use(p) {
			return &p.reply
		}
	}
	return nil
}

// use takes one of a reply's uses; false if another request has taken the last one.
func (q *script) use(p *scripted) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.left == 0 {
		return false
	}
	if p.left < 0 {
		return true
	}
	if p.left--; p.left == 0 {
		rest := slices.DeleteFunc(slices.Clone(q.replies()), func(other *scripted) bool { return other == p })
		q.queue.Store(&rest)
	}
	return true
}

// kept is the reply as a server keeps it, whatever becomes of the caller's header.
func (r Reply) kept() Reply {
	r.Header = r.Header.Clone()
	return r
}

// final reports that the reply is the whole answer: neither limits nor endpoint are asked.
func (r *Reply) final() bool { return r.Status != 0 || r.Fault == Refuse || r.Fault == ResetBefore }

// meaningful reports that the reply changes anything.
func (r *Reply) meaningful() bool { return r.Status != 0 || r.Fault != NoFault || r.Delay > 0 }

func (r *Reply) answer() *answer {
	h := r.Header.Clone()
	if h == nil {
		h = http.Header{}
	}
	status := r.Status
	if status != 0 && (status < 200 || status > 599) {
		status = http.StatusInternalServerError
	}
	a := newAnswer(status, h, r.Body)
	a.delay, a.fault = r.Delay, r.Fault
	return a
}
