package httptest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
)

// DefaultCoffees is the number of coffees in the catalog.
const DefaultCoffees = 2350

// Coffee is one item of the catalog, as the API writes it.
type Coffee struct {
	ID       string   `json:"id"`
	Name     string   `json:"nom"`
	Origin   string   `json:"origen"`
	Region   string   `json:"regio"`
	Variety  string   `json:"varietat"`
	Process  string   `json:"proces"`
	Altitude int      `json:"altitud"` // metres above the sea
	Roast    string   `json:"torrat"`
	Notes    []string `json:"notes"`
	Score    float64  `json:"puntuacio"` // out of 100
	Grams    int      `json:"grams"`     // in one bag
	Price    float64  `json:"preu"`      // euros for one bag
	Stock    int      `json:"estoc"`     // bags
}

// origins holds regions that really grow coffee, with the altitudes and varieties usual there.
var origins = []struct {
	country   string
	regions   []string
	varieties []string
	low, high int
}{
	{"Etiòpia", []string{"Yirgacheffe", "Sidama", "Guji", "Harrar", "Limu", "Kaffa"}, []string{"Heirloom", "Kurume", "Wolisho", "74110"}, 1700, 2250},
	{"Kenya", []string{"Nyeri", "Kirinyaga", "Embu", "Murang'a", "Kiambu"}, []string{"SL28", "SL34", "Ruiru 11", "Batian"}, 1500, 2100},
	{"Colòmbia", []string{"Huila", "Nariño", "Cauca", "Tolima", "Antioquia", "Quindío"}, []string{"Caturra", "Castillo", "Bourbon rosa", "Geisha", "Typica"}, 1300, 2100},
	{"Brasil", []string{"Cerrado Mineiro", "Sul de Minas", "Mogiana", "Chapada Diamantina", "Matas de Minas"}, []string{"Catuaí", "Mundo Novo", "Bourbon groc", "Arara"}, 800, 1350},
	{"Guatemala", []string{"Antigua", "Huehuetenango", "Atitlán", "Cobán", "Acatenango"}, []string{"Bourbon", "Caturra", "Pache", "Catuaí"}, 1300, 2000},
	{"Costa Rica", []string{"Tarrazú", "Valle Central", "Tres Ríos", "Brunca"}, []string{"Catuaí", "Caturra", "Villa Sarchí", "Geisha"}, 1200, 1900},
	{"Hondures", []string{"Santa Bárbara", "Copán", "Marcala", "Comayagua"}, []string{"Pacas", "Parainema", "Catuaí", "IH-90"}, 1100, 1800},
	{"El Salvador", []string{"Apaneca-Ilamatepec", "Chalatenango", "Tecapa-Chinameca"}, []string{"Pacamara", "Bourbon", "Pacas"}, 1000, 1750},
	{"Perú", []string{"Cajamarca", "Chanchamayo", "Cusco", "San Martín"}, []string{"Typica", "Caturra", "Bourbon", "Catimor"}, 1200, 2000},
	{"Panamà", []string{"Boquete", "Volcán", "Renacimiento"}, []string{"Geisha", "Caturra", "Catuaí"}, 1300, 2000},
	{"Rwanda", []string{"Nyamasheke", "Huye", "Rulindo", "Gakenke"}, []string{"Bourbon roig", "Jackson"}, 1500, 2100},
	{"Burundi", []string{"Kayanza", "Ngozi", "Muyinga"}, []string{"Bourbon roig", "Mibirizi"}, 1500, 2000},
	{"Tanzània", []string{"Kilimanjaro", "Mbeya", "Arusha"}, []string{"Kent", "Bourbon", "N39"}, 1200, 1900},
	{"Indonèsia", []string{"Gayo", "Lintong", "Toraja", "Kintamani", "Java occidental"}, []string{"Ateng", "Tim Tim", "S795", "Typica"}, 1000, 1700},
	{"Índia", []string{"Chikmagalur", "Coorg", "Bababudangiri", "Nilgiris"}, []string{"S795", "Selecció 9", "Kent", "Cauvery"}, 900, 1500},
	{"Iemen", []string{"Haraz", "Bani Matar", "Ibb"}, []string{"Udaini", "Tuffahi", "Dawairi"}, 1700, 2400},
	{"Papua Nova Guinea", []string{"Eastern Highlands", "Wahgi", "Jiwaka"}, []string{"Arusha", "Blue Mountain", "Typica"}, 1300, 1900},
	{"Mèxic", []string{"Chiapas", "Veracruz", "Oaxaca"}, []string{"Bourbon", "Garnica", "Pluma Hidalgo", "Typica"}, 900, 1700},
}

var (
	processes = []string{"rentat", "natural", "honey", "anaeròbic", "semirentat", "maceració carbònica"}
	roasts    = []string{"clar", "mitjà-clar", "mitjà", "mitjà-fosc", "fosc"}
	notes     = []string{"gessamí", "bergamota", "préssec", "albercoc", "nabiu", "maduixa", "cirera", "pruna", "poma verda", "llimona",
		"taronja", "mandarina", "mango", "papaia", "pinya", "mel", "caramel", "panela", "vainilla", "xocolata negra", "xocolata amb llet",
		"cacau", "ametlla", "avellana", "nou", "te negre", "canyella", "clau", "tabac", "cedre", "pebre", "malta"}
	bags = []int{250, 250, 250, 500, 1000}
)

// catalog is a pure function of its seed: item i is made when it is first asked for.
type catalog struct {
	seed     uint64
	rendered []atomic.Pointer[[]byte]
	folded   []atomic.Pointer[string] // in lower case, for searches
}

func newCatalog(seed uint64, size int) *catalog {
	return &catalog{seed: seed, rendered: make([]atomic.Pointer[[]byte], size), folded: make([]atomic.Pointer[string], size)}
}

func (c *catalog) size() int { return len(c.rendered) }

// coffee makes item i, counted from 0.
func (c *catalog) coffee(i int) Coffee {
	r := rand.New(rand.NewPCG(c.seed, uint64(i)))
	o := origins[r.IntN(len(origins))]
	f := Coffee{
		ID:       coffeeID(i),
		Origin:   o.country,
		Region:   pick(r, o.regions),
		Variety:  pick(r, o.varieties),
		Process:  pick(r, processes),
		Altitude: o.low + 10*r.IntN((o.high-o.low)/10+1),
		Roast:    pick(r, roasts),
		Score:    80 + float64(r.IntN(48))/4,
		Grams:    pick(r, bags),
		Stock:    r.IntN(180),
	}
	f.Name = f.Region + " " + f.Variety + " " + f.Process
	first := r.IntN(len(notes))
	for n := range 2 + r.IntN(2) {
		f.Notes = append(f.Notes, notes[(first+n*7)%len(notes)])
	}
	// Dearer with every point above 80; a kilo costs less than four quarters.
	cents := 640 + int(48*(f.Score-80)) + 10*r.IntN(30)
	f.Price = float64(cents*f.Grams/250*(1100-f.Grams/5)/1050) / 100
	return f
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func coffeeID(i int) string { return fmt.Sprintf("caf_%05d", i+1) }

// index is the inverse of coffeeID.
func (c *catalog) index(id string) (int, bool) {
	digits, ok := strings.CutPrefix(id, "caf_")
	if !ok || len(digits) < 5 || (len(digits) > 5 && digits[0] == '0') {
		return 0, false
	}
	n := 0
	for _, d := range []byte(digits) {
		if d < '0' || d > '9' || n > c.size() {
			return 0, false
		}
		n = 10*n + int(d-'0')
	}
	return n - 1, n >= 1 && n <= c.size()
}

// json returns item i as JSON; the slice is shared and must not be changed.
func (c *catalog) json(i int) []byte {
	if b := c.rendered[i].Load(); b != nil {
		return *b
	}
	return c.render(i)
}

func (c *catalog) render(i int) []byte {
	b, err := json.Marshal(c.coffee(i))
	if err != nil {
		b = []byte("{}") // not reached: a Coffee always marshals
	}
	c.rendered[i].Store(&b)
	return b
}

// page renders items [offset, offset+limit) in the shape of every list of the API.
func (c *catalog) page(offset, limit int) []byte {
	var body []byte
	body = append(body, `{"dades":[`...)
	for i := offset; i < min(offset+limit, c.size()); i++ {
		if i > offset {
			body = append(body, ',')
		}
		body = append(body, c.json(i)...)
	}
	return fmt.Appendf(body, `],"total":%d}`, c.size())
}

// search renders the page of the items whose text holds the words of q, in any order and case.
func (c *catalog) search(q string, offset, limit int) []byte {
	words := strings.Fields(strings.ToLower(q))
	total := 0
	var hits []string
	for i := range c.size() {
		if !holdsAll(c.text(i), words) {
			continue
		}
		if total >= offset && len(hits) < limit {
			hits = append(hits, string(c.json(i)))
		}
		total++
	}
	return fmt.Appendf(nil, `{"dades":[%s],"total":%d}`, strings.Join(hits, ","), total)
}

// text is what a search looks at.
func (c *catalog) text(i int) string {
	if known := c.folded[i].Load(); known != nil {
		return *known
	}
	folded := strings.ToLower(string(c.json(i)))
	c.folded[i].Store(&folded)
	return folded
}

func holdsAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}
