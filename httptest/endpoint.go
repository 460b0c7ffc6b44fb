package httptest

import (
	"net/http"
	"strings"
)

// Class is a kind of request; values combine with | where a [Policy] is for several.
type Class uint16

// The endpoints of Botiga Aroma.
const (
	Catalog   Class = 1 << iota // GET /v1/cafes
	Item                        // GET /v1/cafes/{id}
	Search                      // GET /v1/cafes?q=…
	OwnOrders                   // GET /v1/comandes
	Login                       // POST /v1/sessions
	SignUp                      // POST /v1/clients
	Order                       // POST /v1/comandes
	Payment                     // POST /v1/comandes/{id}/pagament
	Upload                      // POST /v1/cafes/{id}/imatge
	Other                       // whatever does not exist
	Health                      // GET /salut: never limited

	// Reads is what the tiers' limits for reading count.
	Reads = Catalog | Item | Search | OwnOrders | Other
	// Writes is what the tiers' limits for writing count; login and sign-up have their own.
	Writes = Order | Payment | Upload
)

// ClassOf says which endpoint a request is for.
func ClassOf(r *http.Request) Class {
	path := r.URL.Path
	if path == "/salut" {
		return Health
	}
	rest, ok := strings.CutPrefix(path, "/v1/")
	if !ok {
		return Other
	}
	collection, rest, deeper := strings.Cut(rest, "/")
	id, action, acts := strings.Cut(rest, "/")
	write := !isRead(r)
	switch {
	case deeper && id == "":
		return Other
	case collection == "cafes" && !deeper && strings.Contains(r.URL.RawQuery, "q=") && r.URL.Query().Get("q") != "":
		return Search
	case collection == "cafes" && !deeper:
		return Catalog
	case collection == "cafes" && !acts:
		return Item
	case collection == "cafes" && action == "imatge":
		return Upload
	case collection == "comandes" && !deeper && write:
		return Order
	case collection == "comandes" && !deeper:
		return OwnOrders
	case collection == "comandes" && action == "pagament":
		return Payment
	case collection == "sessions" && !deeper:
		return Login
	case collection == "clients" && !deeper:
		return SignUp
	}
	return Other
}

// AromaCost is what Botiga Aroma charges: an item 1, a page of more than 20 items 3, a search 5,
// own orders with expanded lines 5, an order 10, anything else 1.
func AromaCost(r *http.Request) int {
	switch ClassOf(r) {
	case Catalog:
		if atoiOr(r.URL.Query().Get("limit"), defaultPage) > defaultPage {
			return 3
		}
	case Search:
		return 5
	case OwnOrders:
		if r.URL.Query().Get("expandir") != "" {
			return 5
		}
	case Order:
		return 10
	}
	return 1
}

func isRead(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// route carries out a request that the limits have admitted.
func (s *Server) route(x *exchange) answer {
	r := x.request
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch x.class {
	case Catalog, Search:
		return only(r, http.MethodGet, func() answer { return s.shop.list(r) })
	case Item:
		return only(r, http.MethodGet, func() answer { return s.shop.item(path[2]) })
	case Upload:
		return only(r, http.MethodPost, func() answer { return s.shop.upload(x, path[2]) })
	case OwnOrders:
		return s.shop.listOrders(x)
	case Order:
		return only(r, http.MethodPost, func() answer { return s.shop.order(x) })
	case Payment:
		return only(r, http.MethodPost, func() answer { return s.shop.pay(x, path[2]) })
	case Login:
		return only(r, http.MethodPost, func() answer { return s.shop.login(x) })
	case SignUp:
		return only(r, http.MethodPost, func() answer { return s.shop.signUp(x) })
	}
	return errorAnswer(http.StatusNotFound, "no_trobat", "Aquest recurs no existeix.")
}

// only refuses other methods than the endpoint's. HEAD goes where GET goes.
func only(r *http.Request, method string, carryOut func() answer) answer {
	if r.Method == method || (method == http.MethodGet && r.Method == http.MethodHead) {
		return carryOut()
	}
	a := errorAnswer(http.StatusMethodNotAllowed, "metode_no_permes", "Aquest mètode no és vàlid aquí.")
	a.set("Allow", method)
	return a
}
