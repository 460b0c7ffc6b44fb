package polite

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// window is a server of one quota of a hundred units and a lane of requests to
// it. It counts them in any order, and answers them in any other.
type window struct {
	lane lane
	left int64
	told map[*call]int64 // what is left, in the answers still to come that tell
}

func newWindow() *window { return &window{left: 100, told: map[*call]int64{}} }

// read sends a request of one unit, of whose quota the answer tells.
func (w *window) read() *call {
	c := &call{endpoint: 1, req: new(http.Request), set: &Overrides{Cost: 1}}
	w.lane.depart(c, epoch)
	return c
}

// surcharge sends one of five units, of which no answer tells.
func (w *window) surcharge() *call {
	c := &call{endpoint: 1, lane: &w.lane, set: &Overrides{Cost: 5}}
	c.depart(epoch)
	return c
}

func (w *window) count(c *call) {
	w.left -= int64(c.set.Cost)
	w.told[c] = w.left
}

func (w *window) answer(c *call) {
	r := report{now: epoch, answered: true, verdict: Verdict{Outcome: OK}}
	if c.isSurcharge() {
		c.arrive(&r)
		return
	}
	s := new(signals)
	s.n, s.quotas[0] = 1, *told(100, w.told[c], 3600)
	w.lane.arrive(c, r, s)
}

// assertLeft compares what the books hold for new requests.
func (w *window) assertLeft(t *testing.T, want float64) {
	t.Helper()
	require.Len(t, w.lane.ledgers, 1)
	g := &w.lane.ledgers[0]
	assert.Equal(t, want, g.left(epoch, w.lane.aside(g.sent, &g.scope)))
}

// A surcharge that was counted after a request, and ended before its answer, is
// not in that answer.
func TestSurchargeIsNotInTheAnswerOfARequestCountedBeforeIt(t *testing.T) {
	w := newWindow()
	first := w.read()
	w.count(first)
	w.answer(first)
	older, s := w.read(), w.surcharge()
	w.count(older)
	w.count(s)
	w.answer(s)
	w.answer(older)
	w.assertLeft(t, 93)
}

// Nor is it in the answers of two such requests, of which it ends between.
func TestSurchargeEndsBetweenTwoAnswers(t *testing.T) {
	w := newWindow()
	a, b, s := w.read(), w.read(), w.surcharge()
	w.count(a)
	w.count(b)
	w.count(s)
	w.answer(a)
	w.answer(s)
	w.answer(b)
	w.assertLeft(t, 93)
}

// Nor in the first answer that there is at all.
func TestSurchargeEndsBeforeTheFirstAnswer(t *testing.T) {
	w := newWindow()
	a, s := w.read(), w.surcharge()
	w.count(a)
	w.count(s)
	w.answer(s)
	w.answer(a)
	w.assertLeft(t, 94)
}

// The answer of a request that left after it ended includes it.
func TestSurchargeIsInTheAnswersOfLaterRequests(t *testing.T) {
	w := newWindow()
	a, s := w.read(), w.surcharge()
	w.count(s)
	w.count(a)
	w.answer(s)
	w.answer(a)
	w.assertLeft(t, 89) // it may have been counted after a
	later := w.read()
	w.count(later)
	w.answer(later)
	w.assertLeft(t, 93)
}

// In whatever order the server counts and answers what is under way, the books
// never hold more than will be left when all of it is counted.
func TestNoOrderOfAnswersOverdrawsAQuota(t *testing.T) {
	for seed := range uint64(1000) {
		random := rand.New(rand.NewPCG(seed, 0))
		w := newWindow()
		var uncounted, unanswered []*call
		open := w.left // when all is counted
		pick := func(from *[]*call) *call {
			i := random.IntN(len(*from))
			c := (*from)[i]
			*from = slices.Delete(*from, i, i+1)
			return c
		}
		for range 60 {
			switch op := random.IntN(3); {
			case op == 0 && len(uncounted)+len(unanswered) < 6:
				send := w.read
				if random.IntN(3) == 0 {
					send = w.surcharge
				}
				c := send()
				open -= int64(c.set.Cost)
				uncounted = append(uncounted, c)
			case op == 1 && len(uncounted) > 0:
				c := pick(&uncounted)
				w.count(c)
				unanswered = append(unanswered, c)
			case op == 2 && len(unanswered) > 0:
				w.answer(pick(&unanswered))
			}
			for i := range w.lane.ledgers {
				g := &w.lane.ledgers[i]
				require.LessOrEqual(t, g.left(epoch, w.lane.aside(g.sent, &g.scope)), float64(open), "seed %d", seed)
			}
		}
		for len(uncounted) > 0 {
			c := pick(&uncounted)
			w.count(c)
			unanswered = append(unanswered, c)
		}
		for len(unanswered) > 0 {
			w.answer(pick(&unanswered))
		}
		last := w.read()
		w.count(last)
		w.answer(last)
		w.assertLeft(t, float64(w.left))
	}
}

// What is remembered of silent ends is bounded, and the newest of it.
func TestSilenceKeepsTheNewestEnds(t *testing.T) {
	s := new(silence)
	for n := range int64(20) {
		s.add(silentEnd{sent: n, units: 1})
	}
	assert.EqualValues(t, 1, s.since(19))
	assert.EqualValues(t, 8, s.since(12))
	assert.EqualValues(t, 8, s.since(0))
	assert.Zero(t, s.since(20))
}
