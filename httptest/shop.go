package httptest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// defaultPage and maxPage bound `limit`; more than the maximum is cut to it silently. maxOffset bounds `desplacament`.
const (
	defaultPage = 20
	maxPage     = 100
	maxOffset   = 1 << 30
)

// shop is the API behind the limits: its data outlives a restart and is common to all instances.
type shop struct {
	catalog *catalog
	work    time.Duration // how long an order takes

	mu      sync.Mutex
	byKey   map[string]*order // by owner and Idempotency-Key
	orders  []*order          // oldest first
	created int
}

func newShop(c Config) *shop {
	return &shop{catalog: newCatalog(c.Seed, c.Coffees), work: c.OrderTime, byKey: map[string]*order{}}
}

func (s *shop) list(r *http.Request) *answer {
	limit, offset, bad := pageOf(r)
	if bad != "" {
		return errorAnswer(http.StatusBadRequest, "parametre_invalid", "El paràmetre "+bad+" no és vàlid.")
	}
	if q := r.URL.Query().Get("q"); q != "" {
		return jsonAnswer(http.StatusOK, s.catalog.search(q, offset, limit))
	}
	return jsonAnswer(http.StatusOK, s.catalog.page(offset, limit))
}

// pageOf reads limit and desplacament; bad names the one that is no number or out of range.
func pageOf(r *http.Request) (limit, offset int, bad string) {
	query := r.URL.Query()
	limit = atoiOr(query.Get("limit"), defaultPage)
	if limit < 1 {
		return 0, 0, "limit"
	}
	offset = atoiOr(query.Get("desplacament"), 0)
	if offset < 0 || offset > maxOffset {
		return 0, 0, "desplacament"
	}
	return min(limit, maxPage), offset, ""
}

// atoiOr reads a number that may be absent; what is no number becomes -1.
func atoiOr(text string, absent int) int {
	if text == "" {
		return absent
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return n
}

func (s *shop) item(id string) *answer {
	i, ok := s.catalog.index(id)
	if !ok {
		return errorAnswer(http.StatusNotFound, "no_trobat", "Aquest cafè no existeix.")
	}
	return jsonAnswer(http.StatusOK, s.catalog.json(i))
}

func (s *shop) upload(x *exchange) *answer {
	if x.caller.tier&(TierPartner|TierInternal) == 0 {
		return forbidden(x.caller)
	}
	if _, ok := s.catalog.index(x.id); !ok {
		return errorAnswer(http.StatusNotFound, "no_trobat", "Aquest cafè no existeix.")
	}
	return jsonAnswer(http.StatusCreated, []byte(`{"imatge":"/imatges/`+x.id+`"}`))
}

// Password is the one that every account of the simulated shop has.
const Password = "espresso"

// credentials is the body of a login.
type credentials struct {
	Account  string `json:"compte"`
	Password string `json:"contrasenya"`
}

func (s *shop) login(x *exchange) *answer {
	var c credentials
	if json.Unmarshal(x.body, &c) != nil || c.Account == "" {
		return errorAnswer(http.StatusBadRequest, "cos_invalid", "Calen compte i contrasenya.")
	}
	if c.Password != Password {
		return errorAnswer(http.StatusUnauthorized, "credencials_incorrectes", "El compte o la contrasenya no són correctes.")
	}
	body, err := json.Marshal(map[string]string{"token": "client:" + c.Account})
	if err != nil {
		return errorAnswer(http.StatusBadRequest, "cos_invalid", "El compte no és vàlid.")
	}
	return jsonAnswer(http.StatusCreated, body)
}

func (s *shop) signUp(x *exchange) *answer {
	var c credentials
	if json.Unmarshal(x.body, &c) != nil || c.Account == "" {
		return errorAnswer(http.StatusBadRequest, "cos_invalid", "Cal un compte.")
	}
	return jsonAnswer(http.StatusCreated, []byte(`{"creat":true}`))
}

// forbidden asks strangers who they are, and tells others that they may not.
func forbidden(c caller) *answer {
	if c.tier == TierAnonymous {
		return errorAnswer(http.StatusUnauthorized, "no_autenticat", "Cal iniciar sessió.")
	}
	return errorAnswer(http.StatusForbidden, "no_autoritzat", "No tens permís per fer això.")
}
