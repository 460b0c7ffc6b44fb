package polite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// The ledger is pure: these tests hand it answers and instants. epoch is noon
// of some day; seconds count from it.
var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func second(s float64) time.Time { return epoch.Add(time.Duration(s * float64(time.Second))) }

func told(limit, remaining int64, reset float64) *Quota {
	return &Quota{Limit: limit, Remaining: remaining, Reset: second(reset)}
}

// book is a ledger with a line of requests in front of it.
type book struct {
	ledger
	total int64
	aside float64
}

func newBook() *book { return &book{ledger: ledger{limit: -1, price: 1}} }

// answered enters the answer to the n-th request, sent at one second and read
// at another.
func (b *book) answered(n int64, sent, read float64, q *Quota) {
	b.total = max(b.total, n)
	b.observe(q, answer{sent: second(sent), read: second(read), units: n, total: b.total, aside: b.aside})
}

// next is when the ledger lets another request go, given the last one's second.
func (b *book) next(now, last float64) (time.Time, Reason) {
	b.turn(second(now), b.total)
	return b.admit(second(now), spending{units: 1, aside: b.aside, threshold: 10, last: second(last)})
}

func (b *book) assertNext(t *testing.T, now, last, want float64, reason Reason) {
	t.Helper()
	at, why := b.next(now, last)
	assert.Equal(t, second(want), at)
	assert.Equal(t, reason, why)
}

// Case C155.
func TestUnknownQuotaStopsNobody(t *testing.T) {
	b := newBook()
	b.assertNext(t, 0, 0, 0, 0)
	b.answered(1, 0, 0.1, &Quota{Limit: 100, Remaining: -1, Reset: second(60)})
	b.assertNext(t, 1, 0, 1, 0)
}

// A reset that was told without what is left says nothing once it has passed;
// a refusal after it is waited for as any other.
func TestPassedResetOfAnUnknownQuotaIsForgotten(t *testing.T) {
	b := newBook()
	b.answered(1, 0, 0.1, &Quota{Limit: -1, Remaining: -1, Reset: second(5)})
	b.next(5, 0)
	b.observe(told(10, 0, 5), answer{sent: second(5), read: second(5.1), units: 2, total: 2, refused: true})
	at, _ := b.next(5.2, 5)
	assert.LessOrEqual(t, at.Sub(epoch), 10*time.Second)
}

func TestExhaustedQuotaWithoutAResetStopsNobody(t *testing.T) {
	b := newBook()
	b.answered(1, 0, 0.1, &Quota{Limit: 100, Remaining: 0})
	b.assertNext(t, 1, 0, 1, 0)
}

func TestExhaustedWindowWaitsForItsReset(t *testing.T) {
	b := newBook()
	b.shape = windowShape
	b.answered(1, 0, 0.1, told(100, 0, 60))
	b.assertNext(t, 1, 0, 60, ReasonQuota)
}

// While it is not known whether the window slides, one request's share of it is
// waited for on top.
func TestFirstExhaustedWindowWaitsOneShareMore(t *testing.T) {
	b := newBook()
	b.answered(1, 0, 0.1, told(60, 0, 60))
	b.assertNext(t, 1, 0, 61, ReasonQuota)
}

func TestBrakeSpreadsWhatIsLeftOverTheTimeToTheReset(t *testing.T) {
	for remaining, interval := range map[int64]float64{9: 60.0 / 9, 5: 12, 2: 30, 1: 30} {
		b := newBook()
		b.shape = windowShape
		b.answered(1, 0, 0, told(100, remaining, 60))
		at, why := b.next(0, 0)
		assert.Equal(t, ReasonBrake, why)
		assert.InDelta(t, interval, at.Sub(epoch).Seconds(), 1e-6, "remaining %d", remaining)
	}
	b := newBook()
	b.answered(1, 0, 0, told(100, 10, 60))
	b.assertNext(t, 0, 0, 0, 0) // the threshold itself does not brake
}

func TestDeclaredNeedThatFitsIsNotSpread(t *testing.T) {
	b := newBook()
	b.answered(1, 0, 0, told(100, 5, 60))
	at, why := b.admit(epoch, spending{units: 1, needs: 5, threshold: 10, last: epoch})
	assert.Equal(t, epoch, at)
	assert.Zero(t, why)
	_, why = b.admit(epoch, spending{units: 1, needs: 6, threshold: 10, last: epoch})
	assert.Equal(t, ReasonBrake, why)
}

// Answers overtake each other, and the lowest holds until the reset.
//
// Case C089.
func TestLowestOfConcurrentAnswersHolds(t *testing.T) {
	b := newBook()
	b.aside = 1
	b.answered(2, 0, 1, told(100, 6, 60))
	b.aside = 0
	b.answered(1, 0, 1.1, told(100, 9, 60))
	assert.InDelta(t, 6, b.left(second(2), 0), 1e-9)
}

func TestYoungerAnswerReplacesAnOlderOne(t *testing.T) {
	b := newBook()
	b.answered(1, 0, 1, told(100, 50, 60))
	b.answered(2, 2, 3, told(100, 40, 60)) // others spend the same quota
	assert.InDelta(t, 40, b.left(second(3), 0), 1e-9)
}

func TestRequestsUnderWayAreTakenOff(t *testing.T) {
	b := newBook()
	b.shape = windowShape
	b.answered(1, 0, 0.5, told(100, 4, 60))
	b.answered(2, 0.5, 1, told(100, 3, 60))
	at, why := b.admit(second(1), spending{units: 1, aside: 3, threshold: -1, last: second(1)})
	assert.True(t, at.IsZero(), "their answers decide")
	assert.Equal(t, ReasonQuota, why)
}

func TestAnswerOfThePastWindowIsIgnored(t *testing.T) {
	b := newBook()
	b.shape = windowShape
	b.answered(1, 0, 1, told(100, 0, 60))
	b.next(60, 0)
	b.answered(3, 60, 60.1, told(100, 99, 120))
	b.answered(2, 59.9, 60.2, told(100, 0, 60))
	assert.InDelta(t, 99, b.left(second(61), 0), 1e-9)
}

func TestResetForgetsARememberedZero(t *testing.T) {
	b := newBook()
	b.shape = windowShape
	b.answered(1, 0, 1, told(100, 0, 60))
	b.assertNext(t, 60, 0, 60, 0)
	assert.True(t, b.fresh)
}

// A server that rounds its reset down refuses the first request after it in the
// name of the old window; from then on a second is added.
func TestResetThatProvesTooEarlyIsWaitedForLonger(t *testing.T) {
	b := newBook()
	b.shape = windowShape
	b.answered(1, 0, 1, told(100, 0, 60))
	b.next(60, 0)
	b.observe(told(100, 0, 60), answer{sent: second(60), read: second(60.1), units: 2, total: 2, refused: true})
	b.assertNext(t, 60.2, 60, 61, ReasonQuota)
	b.next(61, 60)
	b.answered(3, 61, 61.1, told(100, 0, 120))
	b.assertNext(t, 62, 61, 121, ReasonQuota)
}

// A reset by the server's clock is waited for a hundredth of the window longer, 10
// ms at most; one from now is not.
func TestAbsoluteResetHasAMargin(t *testing.T) {
	for window, want := range map[float64]time.Duration{0.5: 5 * time.Millisecond, 60: 10 * time.Millisecond} {
		b := newBook()
		b.shape = windowShape
		b.observe(told(100, 0, window), answer{sent: epoch, read: epoch, units: 1, total: 1, absolute: true})
		b.assertNext(t, 0.1, 0, window+want.Seconds(), ReasonQuota)
	}
}

// The mark of a sliding window has no margin, though the first reset proved to have
// one: who waits for it is not told to wait until the past.
func TestMarkOfASlidingWindowHasNoMargin(t *testing.T) {
	b := newBook()
	b.shape, b.limit, b.window, b.refill, b.margin = slidingShape, 10, time.Minute, 0.001, time.Second
	b.read, b.reset, b.low = second(0), second(60), 0
	at, why := b.next(60.5, 0)
	assert.True(t, why == 0 || at.After(second(60.5)), "until %s", at)
}

// In whole seconds from now, one reset is told up to a second later each time.
func TestResetToldAgainALittleLaterIsTheSame(t *testing.T) {
	b := newBook()
	b.shape = windowShape
	b.answered(1, 0, 0.1, told(100, 4, 10.1))
	b.answered(2, 1, 1.4, told(100, 3, 10.4))
	assert.Equal(t, second(10.1), b.reset)
}

// A log of requests, of which one has come back, tells when the next one will.
func TestResetToldWithMoreLeftIsTheNextOne(t *testing.T) {
	b := newBook()
	b.shape = windowShape
	b.answered(1, 9.1, 9.2, told(100, 1, 10))
	b.answered(2, 9.5, 9.6, told(100, 1, 11)) // of what it used up, one is back
	b.answered(3, 9.7, 9.8, told(100, 0, 11))
	b.assertNext(t, 10, 9.7, 11, ReasonQuota)
}

// A token bucket of 20 with 5 a second: its reset is when it is full, so the
// more is missing the later it is, and the quota comes back all the time.
func TestBucketIsRecognisedByItsResets(t *testing.T) {
	b := newBook()
	for n := int64(1); n <= 20; n++ {
		at := float64(n) / 100
		full := float64(int(at+float64(n)/5)) + 1 // rounded up to whole seconds
		b.answered(n, at, at+0.005, told(20, 20-n, full))
	}
	assert.Equal(t, bucketShape, b.shape)
	assert.Positive(t, b.refill)
	assert.LessOrEqual(t, b.refill, 5.0, "never faster than the server")
	at, why := b.next(0.21, 0.2)
	assert.Equal(t, ReasonQuota, why)
	assert.Less(t, at.Sub(epoch), time.Second, "long before the reset")
}

// A sliding counter gives nothing back at the reset; what the last window used
// comes back over the next one.
func TestSlidingWindowIsRecognisedByItsFirstAnswer(t *testing.T) {
	b := newBook()
	for n := int64(1); n <= 60; n++ {
		b.answered(n, 0.01*float64(n), 0.01*float64(n)+0.005, told(60, 60-n, 60))
	}
	b.next(61, 0.6) // one share after the reset
	b.answered(61, 61, 61.01, told(60, 0, 120))
	assert.Equal(t, slidingShape, b.shape)
	assert.InDelta(t, 0.95, b.refill, 1e-9)
}

// A reset that was rounded up to a whole second is up to a second ago when it is
// thought to come, and so much of the window before has gone already.
func TestSlidingWindowIsRecognisedAfterARoundedReset(t *testing.T) {
	for remaining, want := range map[int64]shape{0: slidingShape, 10: slidingShape, 16: unknownShape} {
		b := newBook()
		for n := int64(1); n <= 100; n++ {
			b.answered(n, 0.0001*float64(n), 0.0001*float64(n)+0.005, told(100, 100-n, 10))
		}
		b.next(10.1, 0.01) // one share after the reset
		b.answered(101, 10.1, 10.12, told(100, remaining, 20))
		assert.Equal(t, want, b.shape, "remaining %d", remaining)
	}
}

// A window whose reset was rounded up ends before it. Where it slides, nothing comes
// back then: the next reset is a window later, which no bucket that was filled by
// the last one explains.
func TestWindowThatEndsBeforeItsRoundedResetIsNoBucket(t *testing.T) {
	b := newBook()
	for n := int64(1); n <= 96; n++ { // whole seconds from now, of 1.2 that are left
		at := 0.01 * float64(n)
		reset := at + 1
		if n <= 20 {
			reset++
		}
		b.answered(n, at, at, told(100, 100-n, reset))
	}
	b.answered(97, 1.25, 1.25, told(100, 3, 11.25))
	assert.Equal(t, slidingShape, b.shape)
	assert.InDelta(t, 0.95*96/10, b.refill, 0.01)
}

// When the last old request has left a log, it tells a reset a window later, and all
// that is missing is ours. No window of a sliding counter has ended there.
func TestLogIsNotTakenForASlidingCounter(t *testing.T) {
	b := newBook()
	for n := int64(1); n <= 60; n++ {
		b.answered(n, 0.01*float64(n), 0.01*float64(n)+0.005, told(60, 60-n, 60))
	}
	b.next(61, 0.6)
	b.answered(61, 61, 61.02, told(60, 8, 62)) // the old ones leave it within the second
	for n := int64(62); n <= 111; n++ {
		b.answered(n, 61.1, 61.12, told(60, 8, 62)) // one goes, one comes
	}
	b.answered(112, 61.2, 61.22, told(60, 9, 121.22))
	assert.NotEqual(t, slidingShape, b.shape)
	assert.Zero(t, b.refill)
}

// Whole seconds from now, rounded up, tell a window's end up to a second later each
// time; that ends no window.
func TestResetToldLaterByTheRoundingBeginsNoWindow(t *testing.T) {
	b := newBook()
	b.shape, b.opened = windowShape, second(0.7)
	b.answered(1, 0.7, 0.7, told(100, 99, 10.7))
	b.answered(2, 9.8, 9.82, told(100, 8, 10.7))
	b.answered(3, 10.2, 10.22, told(100, 7, 11.22))
	assert.Equal(t, second(0.7), b.opened)
}

// What comes back long before the reset is no bucket's if the reset, told as when a
// bucket would be full, has not moved although much more is missing.
func TestSlidingCounterIsNotTakenForABucket(t *testing.T) {
	b := newBook()
	b.answered(1, 0, 0.02, told(100, 64, 10.02))
	for n := int64(2); n <= 54; n++ {
		b.answered(n, 2, 2.02, told(100, 65-n, 10.02))
	}
	b.answered(55, 2.8, 2.82, told(100, 13, 10.82))
	assert.Equal(t, unknownShape, b.shape)
	assert.Zero(t, b.refill)
}

// In windows of one and two seconds, a reset rounded up to a whole second is told by
// a log as by a sliding counter. The log serves the first request after it, though.
func TestShortSlidingWindowIsKnownByItsRefusal(t *testing.T) {
	for refused, want := range map[bool]shape{false: unknownShape, true: slidingShape} {
		b := newBook()
		for n := int64(1); n <= 20; n++ {
			b.answered(n, 0.02*float64(n), 0.02*float64(n)+0.01, told(20, 20-n, 1))
		}
		b.next(1.1, 0.4)
		b.total = 21
		b.observe(told(20, 0, 2), answer{sent: second(1.1), read: second(1.12), units: 21, total: 21, cost: 1, refused: refused})
		assert.Equal(t, want, b.shape, "refused: %v", refused)
	}
}

// A refused request has used up nothing that could come back.
func TestRefusedRequestDoesNotComeBack(t *testing.T) {
	b := newBook()
	b.shape, b.window, b.opened = slidingShape, 10*time.Second, second(0)
	b.reset = second(10)
	b.answered(1, 0, 0.1, told(100, 99, 10))
	b.observe(told(100, 98, 10), answer{sent: second(1), read: second(1.1), units: 2, total: 2, cost: 1, refused: true})
	b.turn(second(10), 2)
	assert.InDelta(t, 0.95*1/10, b.refill, 1e-9)
}

// A request that costs the whole of a sliding window is not waited for without
// end: after two windows without one of ours all of it is there.
func TestSlidingWindowComesBackToTheLastUnit(t *testing.T) {
	b := newBook()
	for n := int64(1); n <= 60; n++ {
		b.answered(n, 0.01*float64(n), 0.01*float64(n)+0.005, told(60, 60-n, 60))
	}
	b.next(61, 0.6)
	b.answered(61, 61, 61.01, told(60, 0, 120))
	now := second(61.01)
	for range 4 { // waits
		b.turn(now, b.total)
		at, why := b.admit(now, spending{units: 60, threshold: 10, last: second(61)})
		if why == 0 {
			break
		}
		now = at
	}
	assert.Equal(t, second(240), now, "the second reset without a request in between")
	assert.Equal(t, b.limit, b.left(now, 0))
}

// Little left after a reset that our own requests do not explain is somebody
// else's doing, and no reason to think that the window slides.
func TestStrangersAreNotTakenForASlidingWindow(t *testing.T) {
	b := newBook()
	b.answered(1, 0, 0.1, told(60, 10, 60))
	b.next(61, 0)
	b.answered(2, 61, 61.1, told(60, 5, 120))
	assert.NotEqual(t, slidingShape, b.shape)
	assert.Zero(t, b.refill)
}

// A token bucket is full at its reset, which may have been rounded down by a
// second, but for what was used since it was told; the refill that was seen, which
// is the least possible, need not bring all of it.
func TestBucketIsFullAtItsReset(t *testing.T) {
	b := newBook()
	b.shape, b.refill = bucketShape, 0.01
	b.answered(1, 0, 0, told(20, 4, 50))
	b.silent = 12
	assert.InDelta(t, -8+0.01*51, b.left(second(51), 0), 1e-9)
	assert.InDelta(t, 20-12+0.01*9, b.left(second(60), 0), 1e-9)
}

// The reset of an older answer says nothing of what was used up since: it belongs to
// what that answer said is left.
func TestBucketIsNotFullAtAnOlderReset(t *testing.T) {
	for _, read := range []float64{20, 60} {
		b := newBook()
		b.shape, b.refill = bucketShape, 0.01
		b.answered(1, 0, 0, told(20, 4, 50))
		b.answered(2, read, read, &Quota{Limit: 20, Remaining: 0})
		assert.InDelta(t, 0.01*(70-read), b.left(second(70), 0), 1e-9)
	}
}

// A server that charges three units a request leaves room for a third of them.
func TestPriceOfARequestIsMeasured(t *testing.T) {
	b := newBook()
	for n := int64(1); n <= 10; n++ {
		b.answered(n, float64(n), float64(n)+0.1, told(60, 60-3*n, 600))
	}
	assert.InDelta(t, 3, b.price, 1e-9)
	assert.InDelta(t, 24, b.left(second(11), 2), 1e-9)
}

// The last request of the first window waits for the reset where that costs the
// caller nothing: if the window slides, it is the one that fits there.
func TestLastRequestIsHeldBackWhereItCostsNoWindow(t *testing.T) {
	b := newBook()
	b.answered(1, 0, 0, told(60, 1, 60))
	at, why := b.admit(epoch, spending{units: 1, needs: 141, unsent: 141, threshold: -1, last: epoch})
	assert.Equal(t, second(60), at)
	assert.Equal(t, ReasonBrake, why)
	_, why = b.admit(epoch, spending{units: 1, needs: 121, unsent: 121, threshold: -1, last: epoch}) // would need a third window
	assert.Zero(t, why)
	_, why = b.admit(epoch, spending{units: 1, threshold: -1, last: epoch}) // who knows
	assert.Zero(t, why)
}

// The first answer may be that of a request which used up all that is missing;
// until a second one tells, few are under way at once.
func TestFirstAnswerMakesWary(t *testing.T) {
	b := newBook()
	b.answered(1, 0, 0.1, told(60, 50, 60))
	b.aside = 4
	at, _ := b.next(0.1, 0.1)
	assert.Equal(t, second(0.1), at)
	b.aside = 5
	b.assertNext(t, 0.1, 0.1, 1.1, ReasonProbe)
	b.assertNext(t, 1.1, 0.1, 1.1, 0) // no answer for a second holds nobody any longer
}

func TestRequestWithoutAnAnswerCountsAsSpent(t *testing.T) {
	b := newBook()
	b.answered(1, 0, 1, told(100, 50, 60))
	b.lost(1, true)
	assert.InDelta(t, 49, b.left(second(2), 0), 1e-9)
}

// Requests that got lost before the server had them are no quota that comes back.
func TestLostRequestsAreNotTakenForABucket(t *testing.T) {
	b := newBook()
	b.answered(1, 0, 0.1, told(100, 50, 60))
	b.lost(1, true)
	b.lost(1, true)
	b.answered(4, 1, 1.1, told(100, 49, 60))
	assert.Equal(t, unknownShape, b.shape)
	assert.InDelta(t, 49, b.left(second(2), 0), 1e-9)
}

// Nor do they make a bucket's refill look faster than it is.
func TestLostRequestsAreNotTakenForRefill(t *testing.T) {
	b := newBook()
	b.shape = bucketShape
	b.answered(1, 0, 0.1, told(100, 50, 60))
	for range 10 {
		b.lost(1, true)
	}
	b.answered(12, 10, 10, told(100, 50, 60)) // the bucket gave one back
	assert.LessOrEqual(t, b.refill, 0.1)
}

// Nor do those that were refused.
func TestRefusedRequestsAreNotTakenForRefill(t *testing.T) {
	b := newBook()
	b.shape = bucketShape
	b.answered(1, 0, 0.1, told(100, 50, 60))
	for n := int64(2); n < 12; n++ {
		b.observe(told(100, 50, 60), answer{sent: second(1), read: second(1), units: n, total: n, cost: 1, refused: true})
	}
	b.answered(12, 10, 10, told(100, 50, 60)) // the bucket gave one back
	assert.LessOrEqual(t, b.refill, 0.1)
}

// A window is presumed only where one has begun, and from a request in it.
func TestWindowIsPresumedFromARequestInIt(t *testing.T) {
	b := newBook()
	b.answered(1, 0, 0, &Quota{Limit: 10, Remaining: 5, Window: 30 * time.Second})
	b.presume(second(1), second(1))
	assert.Zero(t, b.reset, "no window has begun since")
	b.answered(2, 1, 1, &Quota{Limit: 10, Remaining: 4, Reset: second(30), Window: 30 * time.Second})
	b.turn(second(40), 2)
	b.presume(second(29), second(41))
	assert.Zero(t, b.reset, "it was sent in the window before")
	b.presume(second(41), second(42))
	b.presume(second(43), second(44))
	assert.Equal(t, second(72), b.reset)
}

// What a bucket's answer told includes its own request: nothing that the books
// expected to be there on top of it is.
func TestBucketHoldsNoMoreThanItsLastAnswer(t *testing.T) {
	b := newBook()
	b.answered(1, 0, 0, told(20, 10, 2))
	b.shape, b.refill = bucketShape, 5
	b.answered(2, 0.1, 0.1, told(20, 10, 2.1))
	assert.Equal(t, 10.0, b.left(second(0.1), 0))
}

// A server that has stopped speaking of its quota is not held to what it said
// once, also where the quota comes back by itself and no window begins.
func TestSilenceForgetsQuotasThatComeBackByThemselves(t *testing.T) {
	for _, shape := range []shape{bucketShape, slidingShape} {
		told := time.Now()
		l := lane{ledgers: []ledger{{shape: shape, limit: 10, price: 1, sent: told, window: time.Minute, reset: told.Add(time.Minute)}}}
		l.told.add(1)
		l.untold(1, told.Add(time.Minute-1))
		assert.Len(t, l.ledgers, 1, "it may still hold")
		l.untold(1, told.Add(time.Minute))
		assert.Empty(t, l.ledgers)
	}
}
