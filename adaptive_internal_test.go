package polite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

var paceStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// after is an instant so many seconds later.
func after(seconds float64) time.Time {
	return paceStart.Add(time.Duration(seconds * float64(time.Second)))
}

// pacedAt is a pace that has measured so many successes per second for two
// seconds, up to the start.
func pacedAt(perSecond int) *pace {
	p := new(pace)
	for i := range 2*perSecond + 1 {
		at := after(float64(i)/float64(perSecond) - 2)
		p.succeed(at, at, 1)
	}
	return p
}

// refusedAt has it refused at the start, and the backoff be ten seconds.
func refusedAt(perSecond int) *pace {
	p := pacedAt(perSecond)
	p.refuse(0, paceStart, paceStart, after(10))
	return p
}

func TestPaceIsUnknownBeforeARefusal(t *testing.T) {
	assert.Zero(t, pacedAt(50).top)
}

func TestPaceFallsToSeventyPerCent(t *testing.T) {
	assert.InDelta(t, 0.7*50, refusedAt(50).rate(paceStart), 0.5)
}

func TestPaceGrowsAlongTheCubic(t *testing.T) {
	p := refusedAt(50)
	p.top, p.from, p.measured = 50, 35, 100
	for _, tc := range []struct{ after, rate float64 }{
		{0, 35},
		{1, 50 - 0.4*2.347*2.347*2.347},
		{3.347, 50}, // ∛(15/0.4)
		{6.694, 65},
	} {
		assert.InDelta(t, tc.rate, p.rate(after(tc.after)), 0.02, "after %v s", tc.after)
	}
}

func TestPaceNeverExceedsTwiceTheMeasuredRate(t *testing.T) {
	p := refusedAt(50)
	assert.InDelta(t, 2*p.measured, p.rate(after(60)), 1e-9)
	assert.InDelta(t, 100, p.rate(after(60)), 2)
}

func TestPaceTakesTwentyFiveRequestsBackToASlowLimit(t *testing.T) {
	p := refusedAt(50)
	p.top, p.from = 2, 1.4
	assert.InDelta(t, 2, p.rate(after(25/2.0)), 1e-9)
	assert.Less(t, p.rate(after(24/2.0)), 2.0)
}

func TestPaceIsCutOnceForAllThatWereUnderWay(t *testing.T) {
	p := refusedAt(50)
	rate := p.rate(paceStart)
	for _, sent := range []float64{-0.1, 0} {
		for range 20 {
			p.refuse(0, paceStart, after(sent), after(10))
		}
	}
	assert.Equal(t, rate, p.rate(paceStart))
	assert.Equal(t, 1, p.row)
}

func TestPaceIsCutLessByARefusalThatConfirmsIt(t *testing.T) {
	p := refusedAt(50)
	p.row, p.top, p.from = 0, 50, 35
	at := after(3.347)
	p.refuse(0, at, at, after(20))
	assert.InDelta(t, 0.95*50, p.rate(at), 0.1)
}

func TestPaceClosesForTwoRequestsThenTwelveThenASecondThenTheBackoff(t *testing.T) {
	p := refusedAt(50)
	assert.InDelta(t, 2/p.from, p.next.Sub(paceStart).Seconds(), 1e-6)
	for i, seconds := range []float64{12 / p.from, 1, 10} {
		at := p.next
		p.refuse(0, at, at, at.Add(10*time.Second))
		assert.InDelta(t, seconds, p.next.Sub(at).Seconds(), 1e-6, "refusal %d", i+2)
	}
}

func TestPaceClosesASlowLimitForThirtyTwoRequestsAtTheThirdRefusal(t *testing.T) {
	p := refusedAt(8)
	p.row = 2
	at := p.next
	p.refuse(0, at, at, after(30))
	assert.InDelta(t, 32/p.from, p.next.Sub(at).Seconds(), 1e-6)
}

func TestPaceNeverClosesLongerThanTheBackoff(t *testing.T) {
	p := pacedAt(1)
	assert.Equal(t, after(0.5), p.refuse(0, paceStart, paceStart, after(0.5)))
}

// One success and then a refusal tell nothing about the limit: the rate doubles
// with each half second's successes until the next refusal.
func TestPaceSearchesAfterARefusalThatComesTooSoon(t *testing.T) {
	p := new(pace)
	p.succeed(after(-0.1), after(-0.1), 1)
	p.refuse(0, paceStart, paceStart, after(1))
	assert.InDelta(t, 1, p.rate(paceStart), 1e-9)
	for at, n := paceStart, 0; n < 200; n++ {
		at = at.Add(time.Duration(float64(time.Second) / p.rate(at)))
		p.succeed(at, at, 1)
		if p.rate(at) > 50 {
			assert.Less(t, at.Sub(paceStart), 6*time.Second)
			return
		}
	}
	t.Fatal("never reached 50 per second")
}

// A refusal soon after the cut, at a rate far below what was admitted before it,
// slows down further but says nothing against that rate.
func TestPaceKeepsItsPlateauForEchoesOfWhatWasSentBeforeTheCut(t *testing.T) {
	p := refusedAt(50)
	top, rate := p.top, p.rate(after(0.25))
	p.succeed(after(0.2), after(0.19), 1)
	p.refuse(0, after(0.25), after(0.24), after(10))
	assert.Equal(t, top, p.top)
	assert.Equal(t, cutDeep*rate, p.from)
}

// The first refusal came before the answers of those that were admitted with it.
func TestPaceBeginsWithAllThatWasUnderWayAtTheFirstRefusal(t *testing.T) {
	p := new(pace)
	p.refuse(0, paceStart, after(-0.1), after(1))
	for range 40 {
		p.succeed(after(0.01), after(-0.1), 1)
	}
	assert.InDelta(t, 40, p.top, 1e-9)
	assert.InDelta(t, 28, p.from, 1e-9)
}

func TestPaceIsNotLoweredByIdleTime(t *testing.T) {
	p := refusedAt(50)
	p.row = 0
	before := p.measured
	for i := range 50 {
		at := after(60 + float64(i)/50)
		p.succeed(at, at, 1)
	}
	assert.InDelta(t, before, p.measured, 2)
}

func TestPaceKnowsTheTimeInWhichNothingWasAdmitted(t *testing.T) {
	p := refusedAt(50)
	for _, s := range []float64{0.1, 0.5} { // until half a second later
		p.refuse(0, after(s), after(s), after(10))
	}
	p.succeed(after(1.5), after(1.5), 1)
	assert.InDelta(t, (50+1)/2.0, p.top, 0.01, "a second at 50, and half of what followed")
	assert.Zero(t, p.row)
}

func TestPaceIsForgottenAfterTenMinutesWithoutRefusal(t *testing.T) {
	l := &lane{pace: refusedAt(50)}
	var r ruling
	l.admitPaced(&r, after(601), 0)
	assert.Zero(t, l.pace.top)
	assert.Zero(t, r.reason)
}

func TestPaceSpacesTheLineEvenly(t *testing.T) {
	l := &lane{pace: refusedAt(50)}
	l.pace.top, l.pace.from = 50, 40
	for ahead := range 4 {
		var r ruling
		l.admitPaced(&r, paceStart, ahead)
		assert.Equal(t, ReasonRate, r.reason)
		assert.InDelta(t, float64(ahead)/40, r.until.Sub(l.pace.next).Seconds(), 1e-6)
	}
}
