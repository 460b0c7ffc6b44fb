package httptest

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// Store keeps the counters that limits count in. One Store may be shared by several servers, which then
// enforce one common limit. Implementations must be safe for concurrent use.
type Store interface {
	// Take asks for all the charges of one request together: either every one is counted, or none is.
	// It returns one Ruling per charge, in order. An error means that the store could not be asked.
	Take(ctx context.Context, now time.Time, charges []Charge) ([]Ruling, error)
}

// Charge is what one request asks of one limit.
type Charge struct {
	Key   string // whose counter; includes the policy's name
	Limit Limit
	Cost  int  // at least 1; more than the limit could ever admit is charged as the most it could
	Peek  bool // only look: nothing is counted, even if it would be admitted
}

// Ruling is the answer to one [Charge].
type Ruling struct {
	Admitted  bool          // this limit would admit (the request passes if all of them do)
	Wait      time.Duration // when not admitted: how long until it would be, exactly
	Hold      time.Duration // when admitted: how long the request is held back (leaky bucket)
	Remaining int           // requests of cost 1 that would be admitted after this one; -1 = unlimited
	Reset     time.Time     // the instant announced beside Remaining
}

// DefaultMaxKeys is the number of keys that a [Memory] remembers.
const DefaultMaxKeys = 100_000

// Memory is a [Store] in this process's memory. Use [NewMemory]. It is safe for concurrent use.
type Memory struct {
	mu      sync.Mutex
	maxKeys int
	meters  map[string]*list.Element // of *memoryEntry
	recent  *list.List               // most recently asked first
	last    time.Time
}

type memoryEntry struct {
	key   string
	limit Limit
	meter meter
}

// NewMemory returns an empty store for at most maxKeys keys (0 or less = [DefaultMaxKeys]). A key whose state
// equals that of a key never seen is dropped when it is the least recently asked; above the ceiling the least
// recently asked key is forgotten whatever its state.
func NewMemory(maxKeys int) *Memory {
	if maxKeys <= 0 {
		maxKeys = DefaultMaxKeys
	}
	return &Memory{maxKeys: maxKeys, meters: map[string]*list.Element{}, recent: list.New()}
}

// Len is the number of keys remembered now.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.meters)
}

// Counter is the state of one key.
type Counter struct {
	Key       string // the policy's name, a bar, and whom it counts
	Limit     Limit
	Remaining int       // requests of cost 1 that would be admitted now; -1 = unlimited
	Reset     time.Time // see the package documentation
}

// Counters are the states of at most max keys at an instant, most recently asked first.
func (m *Memory) Counters(now time.Time, max int) []Counter {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Before(m.last) {
		now = m.last
	}
	m.last = now
	var all []Counter
	for at := m.recent.Front(); at != nil && len(all) < max; at = at.Next() {
		e := at.Value.(*memoryEntry)
		all = append(all, Counter{e.key, e.limit, e.meter.remaining(now), e.meter.reset(now)})
	}
	return all
}

// Clear forgets every counter, as a restart of the process does.
func (m *Memory) Clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.meters)
	m.recent.Init()
}

// Take implements [Store]. The error is always nil.
func (m *Memory) Take(_ context.Context, now time.Time, charges []Charge) ([]Ruling, error) {
	rulings := make([]Ruling, len(charges))
	m.mu.Lock()
	defer m.mu.Unlock()
	// Callers read the clock before they get the lock: counters must not see time go back.
	if now.Before(m.last) {
		now = m.last
	}
	m.last = now

	all := true
	var few [4]meter
	meters := few[:0]
	for i, c := range charges {
		meters = append(meters, m.meterLocked(c))
		rulings[i].Wait = meters[i].wait(now, chargeable(c))
		rulings[i].Admitted = rulings[i].Wait == 0
		all = all && rulings[i].Admitted
	}
	for i, c := range charges {
		meter := meters[i]
		if all && !c.Peek {
			rulings[i].Hold = meter.take(now, chargeable(c))
		}
		if strict, ok := meter.(refuser); ok && !rulings[i].Admitted {
			strict.refused(now)
			rulings[i].Wait = meter.wait(now, chargeable(c))
		}
		rulings[i].Remaining, rulings[i].Reset = meter.remaining(now), meter.reset(now)
	}
	m.forgetLocked(now)
	return rulings, nil
}

func chargeable(c Charge) int {
	if c.Limit.N < 0 {
		return c.Cost
	}
	return min(max(1, c.Cost), c.Limit.ceiling())
}

// meterLocked finds the key's meter, or a fresh one when there is none or its limit has changed.
func (m *Memory) meterLocked(c Charge) meter {
	if at, ok := m.meters[c.Key]; ok {
		m.recent.MoveToFront(at)
		entry := at.Value.(*memoryEntry)
		if entry.limit != c.Limit {
			entry.limit, entry.meter = c.Limit, newMeter(c.Limit)
		}
		return entry.meter
	}
	entry := &memoryEntry{c.Key, c.Limit, newMeter(c.Limit)}
	m.meters[c.Key] = m.recent.PushFront(entry)
	return entry.meter
}

// forgetLocked looks at the two least recently asked keys, so that the cost of a request stays constant
// and idle keys go faster than new ones come.
func (m *Memory) forgetLocked(now time.Time) {
	for range 2 {
		oldest := m.recent.Back()
		if oldest == nil || oldest == m.recent.Front() {
			return
		}
		entry := oldest.Value.(*memoryEntry)
		if len(m.meters) <= m.maxKeys && !entry.meter.idle(now) {
			return
		}
		m.recent.Remove(oldest)
		delete(m.meters, entry.key)
	}
}
