package httptest

import (
	"net/http"
	"strings"
)

// Class is a kind of request; values combine with | where a [Policy] is for several.
type Class uint16

// The endpoints of Botiga Aroma.
const (
	ClassCatalog   Class = 1 << iota // GET /v1/cafes
	ClassItem                        // GET /v1/cafes/{id}
	ClassSearch                      // GET /v1/cafes?q=…
	ClassOwnOrders                   // GET /v1/comandes
	ClassLogin                       // POST /v1/sessions
	ClassSignUp                      // POST /v1/clients
	ClassOrder                       // POST /v1/comandes
	ClassPayment                     // POST /v1/comandes/{id}/pagament
	ClassUpload                      // POST /v1/cafes/{id}/imatge
	ClassOther                       // whatever does not exist
	ClassHealth                      // GET /salut: never limited

	// Reads is what the tiers' limits for reading count.
	Reads = ClassCatalog | ClassItem | ClassSearch | ClassOwnOrders | ClassOther
	// Writes is what the tiers' limits for writing count; login and sign-up have their own.
	Writes = ClassOrder | ClassPayment | ClassUpload
)

// ClassOf says which endpoint a request is for.
func ClassOf(r *http.Request) Class {
	class, _ := classify(r)
	return class
}

// classify also finds the id of the coffee or the order that the path names, if any.
func classify(r *http.Request) (class Class, id string) {
	path := r.URL.Path
	if path == "/salut" {
		return ClassHealth, ""
	}
	rest, ok := strings.CutPrefix(path, "/v1/")
	if !ok {
		return ClassOther, ""
	}
	collection, rest, deeper := strings.Cut(rest, "/")
	id, action, acts := strings.Cut(rest, "/")
	write := !isRead(r)
	switch {
	case deeper && id == "":
		return ClassOther, id
	case collection == "cafes" && !deeper && searches(r):
		return ClassSearch, id
	case collection == "cafes" && !deeper:
		return ClassCatalog, id
	case collection == "cafes" && !acts:
		return ClassItem, id
	case collection == "cafes" && action == "imatge":
		return ClassUpload, id
	case collection == "comandes" && !deeper && write:
		return ClassOrder, id
	case collection == "comandes" && !deeper:
		return ClassOwnOrders, id
	case collection == "comandes" && action == "pagament":
		return ClassPayment, id
	case collection == "sessions" && !deeper:
		return ClassLogin, id
	case collection == "clients" && !deeper:
		return ClassSignUp, id
	}
	return ClassOther, id
}

// searches reports that the query has a q that is not empty. Most have none, and are not taken apart.
func searches(r *http.Request) bool {
	query := r.URL.RawQuery
	return (strings.Contains(query, "q=") || strings.Contains(query, "%71=")) && r.URL.Query().Get("q") != ""
}

// AromaCost is what Botiga Aroma charges: an item 1, a page of more than 20 items 3, a search 5,
// own orders with expanded lines 5, an order 10, anything else 1.
func AromaCost(r *http.Request) int {
	switch ClassOf(r) {
	case ClassCatalog:
		if atoiOr(r.URL.Query().Get("limit"), defaultPage) > defaultPage {
			return 3
		}
	case ClassSearch:
		return 5
	case ClassOwnOrders:
		if r.URL.Query().Get("expandir") != "" {
			return 5
		}
	case ClassOrder:
		return 10
	}
	return 1
}

func isRead(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// route carries out a request that the limits have admitted.
func (s *Server) route(x *exchange) *answer {
	r := x.request
	switch x.class {
	case ClassCatalog, ClassSearch:
		return only(r, http.MethodGet, func() *answer { return s.shop.list(r) })
	case ClassItem:
		return only(r, http.MethodGet, func() *answer { return s.shop.item(x.id) })
	case ClassUpload:
		return only(r, http.MethodPost, func() *answer { return s.shop.upload(x) })
	case ClassOwnOrders:
		return s.shop.listOrders(x)
	case ClassOrder:
		return only(r, http.MethodPost, func() *answer { return s.shop.order(x) })
	case ClassPayment:
		return only(r, http.MethodPost, func() *answer { return s.shop.pay(x) })
	case ClassLogin:
		return only(r, http.MethodPost, func() *answer { return s.shop.login(x) })
	case ClassSignUp:
		return only(r, http.MethodPost, func() *answer { return s.shop.signUp(x) })
	}
	return errorAnswer(http.StatusNotFound, "no_trobat", "Aquest recurs no existeix.")
}

// only refuses other methods than the endpoint's. HEAD goes where GET goes.
func only(r *http.Request, method string, carryOut func() *answer) *answer {
	if r.Method == method || (method == http.MethodGet && r.Method == http.MethodHead) {
		return carryOut()
	}
	a := errorAnswer(http.StatusMethodNotAllowed, "metode_no_permes", "Aquest mètode no és vàlid aquí.")
	a.set("Allow", method)
	return a
}
