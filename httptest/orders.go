package httptest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// maxOrders is how many orders are remembered; above it the oldest half is forgotten, and so are their keys.
const maxOrders = 200_000

// order is one order that was carried out. Its answer is stored under the Idempotency-Key.
type order struct {
	id     string
	owner  string
	key    string
	sent   uint64    // digest of the request's body
	ready  time.Time // until then it is being carried out
	status int
	answer []byte
	lines  []orderLine
	paid   bool
}

// orderLine is one line of an order's body.
type orderLine struct {
	Coffee   string `json:"cafe"`
	Quantity int    `json:"quantitat"`
}

// order carries out POST /v1/comandes. The same key gives the stored answer; with another body it is a 422,
// and a 409 while the first request is being carried out.
func (s *shop) order(x *exchange) *answer {
	if x.caller.tier == TierAnonymous {
		return forbidden(x.caller)
	}
	key := first(x.request.Header, "Idempotency-Key")
	if key == "" {
		return errorAnswer(http.StatusBadRequest, "falta_clau", "Cal la capçalera Idempotency-Key.")
	}
	var body struct {
		Lines []orderLine `json:"linies"`
	}
	if json.Unmarshal(x.body, &body) != nil || len(body.Lines) == 0 {
		return errorAnswer(http.StatusUnprocessableEntity, "comanda_invalida", "Cal almenys una línia.")
	}
	for _, line := range body.Lines {
		if _, ok := s.catalog.index(line.Coffee); !ok || line.Quantity < 1 {
			return errorAnswer(http.StatusUnprocessableEntity, "comanda_invalida", "Hi ha una línia que no és vàlida.")
		}
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	owned := x.owner() + "|" + key
	if known, ok := s.byKey[owned]; ok {
		return known.again(x)
	}
	s.created++
	o := &order{
		id: fmt.Sprintf("com_%06d", s.created), owner: x.owner(), key: owned,
		sent: x.digest(), ready: x.now.Add(s.work), status: http.StatusCreated, lines: body.Lines,
	}
	o.answer = o.render()
	s.rememberLocked(o)
	x.effect = true
	a := jsonAnswer(o.status, o.answer)
	a.delay = s.work
	return a
}

// again answers a request that carries a known key.
func (o *order) again(x *exchange) *answer {
	if o.sent != x.digest() {
		return errorAnswer(http.StatusUnprocessableEntity, "clau_reutilitzada", "Aquesta clau ja s'ha fet servir amb un altre cos.")
	}
	if x.now.Before(o.ready) {
		a := errorAnswer(http.StatusConflict, "en_curs", "La primera petició amb aquesta clau encara s'està executant.")
		return a
	}
	a := jsonAnswer(o.status, o.answer)
	a.set("Idempotency-Replayed", "true")
	return a
}

func (o *order) render() []byte {
	b, err := json.Marshal(struct {
		ID    string      `json:"id"`
		State string      `json:"estat"`
		Lines []orderLine `json:"linies"`
	}{o.id, o.state(), o.lines})
	if err != nil {
		return []byte("{}") // not reached: plain strings and numbers
	}
	return b
}

func (o *order) state() string {
	if o.paid {
		return "pagada"
	}
	return "rebuda"
}

func (s *shop) rememberLocked(o *order) {
	if len(s.orders) >= maxOrders {
		forgotten := s.orders[:maxOrders/2]
		for _, old := range forgotten {
			delete(s.byKey, old.key)
		}
		s.orders = append([]*order(nil), s.orders[maxOrders/2:]...)
	}
	s.orders = append(s.orders, o)
	s.byKey[o.key] = o
}

// listOrders answers GET /v1/comandes with the caller's own orders, oldest first.
func (s *shop) listOrders(x *exchange) *answer {
	if x.caller.tier == TierAnonymous {
		return forbidden(x.caller)
	}
	limit, offset, bad := pageOf(x.request)
	if bad != "" {
		return errorAnswer(http.StatusBadRequest, "parametre_invalid", "El paràmetre "+bad+" no és vàlid.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	total, owner := 0, x.owner()
	var shown [][]byte
	for _, o := range s.orders {
		if o.owner != owner {
			continue
		}
		if total >= offset && len(shown) < limit {
			shown = append(shown, o.render())
		}
		total++
	}
	return jsonAnswer(http.StatusOK, fmt.Appendf(nil, `{"dades":[%s],"total":%d}`, bytes.Join(shown, []byte(",")), total))
}

// pay answers POST /v1/comandes/{id}/pagament. Paying twice is refused, so that a repeat does no harm.
func (s *shop) pay(x *exchange) *answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	owner := x.owner()
	for _, o := range s.orders {
		if o.id != x.id || o.owner != owner {
			continue
		}
		if o.paid {
			return errorAnswer(http.StatusConflict, "ja_pagada", "Aquesta comanda ja està pagada.")
		}
		o.paid, x.effect = true, true
		return jsonAnswer(http.StatusCreated, o.render())
	}
	if x.caller.tier == TierAnonymous {
		return forbidden(x.caller)
	}
	return errorAnswer(http.StatusNotFound, "no_trobat", "Aquesta comanda no existeix.")
}
