package httptest

import (
	"context"
	"slices"
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
	meters  map[string]*memoryEntry
	recent  memoryEntry // the ring of all entries: next is the most recently asked one, prev the least
	last    time.Time
}

type memoryEntry struct {
	key        string
	meter      meter
	next, prev *memoryEntry // in Memory.recent
	limit      Limit
}

// unlink takes the entry out of the ring.
func (e *memoryEntry) unlink() { e.prev.next, e.next.prev = e.next, e.prev }

// linkAfter puts the entry into the ring.
func (e *memoryEntry) linkAfter(at *memoryEntry) {
	e.prev, e.next = at, at.next
	e.prev.next, e.next.prev = e, e
}

// NewMemory returns an empty store for at most maxKeys keys (0 or less = [DefaultMaxKeys]). A key whose state
// equals that of a key never seen is dropped when it is the least recently asked; above the ceiling the least
// recently asked key is forgotten whatever its state.
func NewMemory(maxKeys int) *Memory {
	if maxKeys <= 0 {
		maxKeys = DefaultMaxKeys
	}
	m := &Memory{maxKeys: maxKeys, meters: map[string]*memoryEntry{}}
	m.recent.next, m.recent.prev = &m.recent, &m.recent
	return m
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

// Counters are the states of at most max keys now, most recently asked first. Time does not go back for a store: what
// is counted later counts as if it came no earlier than now.
func (m *Memory) Counters(now time.Time, max int) []Counter {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Before(m.last) {
		now = m.last
	}
	m.last = now
	var all []Counter
	for e := m.recent.next; e != &m.recent && len(all) < max; e = e.next {
		all = append(all, Counter{e.key, e.limit, e.meter.remaining(now), e.meter.reset(now)})
	}
	return all
}

// Clear forgets every counter, as a restart of the process does.
func (m *Memory) Clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.meters)
	m.recent.next, m.recent.prev = &m.recent, &m.recent
}

// Take implements [Store]. A limit that cannot be counted is a [*ConfigError], and then nothing is.
func (m *Memory) Take(_ context.Context, now time.Time, charges []Charge) ([]Ruling, error) {
	charges = slices.Clone(charges)
	for i := range charges {
		var err error
		if charges[i].Limit, err = charges[i].Limit.resolved(); err != nil {
			return nil, err
		}
	}
	return m.take(now, charges, make([]Ruling, 0, len(charges))), nil
}

// take answers in the memory of rulings, which is empty. The limits are resolved ones.
func (m *Memory) take(now time.Time, charges []Charge, rulings []Ruling) []Ruling {
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
	for i := range charges {
		c := &charges[i]
		meter := m.meterLocked(c)
		wait := meter.wait(now, c.chargeable())
		meters, rulings = append(meters, meter), append(rulings, Ruling{Wait: wait, Admitted: wait == 0})
		all = all && wait == 0
	}
	for i, meter := range meters {
		c, ruling := &charges[i], &rulings[i]
		if all && !c.Peek {
			ruling.Hold = meter.take(now, c.chargeable())
		}
		if !ruling.Admitted {
			if strict, ok := meter.(refuser); ok {
				strict.refused(now)
				ruling.Wait = meter.wait(now, c.chargeable())
			}
		}
		ruling.Remaining, ruling.Reset = meter.remaining(now), meter.reset(now)
	}
	m.forgetLocked(now)
	return rulings
}

// chargeable is the cost that a limit can count.
func (c *Charge) chargeable() int {
	if c.Limit.N < 0 {
		return c.Cost
	}
	return min(max(1, c.Cost), c.Limit.ceiling())
}

// meterLocked finds the key's meter, or a fresh one when there is none or its limit has changed.
func (m *Memory) meterLocked(c *Charge) meter {
	if entry, ok := m.meters[c.Key]; ok {
		entry.unlink()
		entry.linkAfter(&m.recent)
		if entry.limit != c.Limit {
			entry.limit, entry.meter = c.Limit, newMeter(c.Limit)
		}
		return entry.meter
	}
	entry := &memoryEntry{key: c.Key, limit: c.Limit, meter: newMeter(c.Limit)}
	entry.linkAfter(&m.recent)
	m.meters[c.Key] = entry
	return entry.meter
}

// forgetLocked looks at the two least recently asked keys, so that the cost of a request stays constant
// and idle keys go faster than new ones come.
func (m *Memory) forgetLocked(now time.Time) {
	for range 2 {
		oldest := m.recent.prev
		if oldest == m.recent.next { // the one that was asked just now, or none
			return
		}
		if len(m.meters) <= m.maxKeys && !oldest.meter.idle(now) {
			return
		}
		oldest.unlink()
		delete(m.meters, oldest.key)
	}
}
