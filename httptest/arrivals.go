package httptest

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Arrival is one request as the server saw it.
type Arrival struct {
	At             time.Time // when it reached the server
	Method         string
	Path           string
	Query          string // raw, without the question mark
	Client         string // whom it was counted against, such as "usr:7" or "ip:192.0.2.1"
	IdempotencyKey string
	Status         int           // what it was answered; 0 if the connection failed first
	Remaining      int           // what the limiter had left for this client afterwards; -1 = it was not asked
	Refused        bool          // the limiter said no
	Told           time.Duration // the wait that a refusal announced
	Scripted       bool          // a Reply of Script took part
	Fault          Fault         // what was done to the connection
}

// journal keeps the latest arrivals and the totals. Its owner's mutex guards it.
type journal struct {
	keep     int
	arrivals []Arrival
	requests int
	refusals int
}

func (j *journal) addLocked(a Arrival) {
	j.requests++
	if a.Status == http.StatusTooManyRequests || a.Refused {
		j.refusals++
	}
	if j.keep < 0 {
		return
	}
	// Dropping half of twice the number costs a constant amount per arrival.
	if len(j.arrivals) >= 2*j.keep {
		j.arrivals = slices.Delete(j.arrivals, 0, len(j.arrivals)-j.keep+1)
	}
	j.arrivals = append(j.arrivals, a)
}

// Requests is how many requests arrived, refused ones included.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.requests
}

// Refusals is how many requests were answered 429, or refused by the limiter in another way.
func (s *Server) Refusals() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.refusals
}

// Arrivals returns the latest arrivals, oldest first; [Config.KeepArrivals] says how many.
func (s *Server) Arrivals() []Arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.log.arrivals
	return slices.Clone(all[max(0, len(all)-max(0, s.log.keep)):])
}

// clientKey says whom a request counts against: the bearer token's holder, else the address.
func clientKey(r *http.Request) string {
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && token != "" {
		return "usr:" + token
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return "ip:" + host
}
