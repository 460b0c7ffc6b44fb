package httptest

import (
	"container/heap"
	"time"
)

// Oracle is a client that knows the server's mind: each request reaches the server at the earliest instant at
// which the limit admits it. Its makespan is what any client that must not be refused is measured against.
type Oracle struct {
	Limit Limit         // zero = DefaultLimit
	Calls int           // how many requests; 0 or less takes no time
	Cost  int           // what each is charged; 0 = 1
	RTT   time.Duration // round trip: half before the server, half after

	// Workers bounds the requests under way at once; 0 = no bound.
	Workers int
	// Start is the instant of the first request, which matters to windows aligned to the clock.
	// Zero = the start of a synctest bubble, 2000-01-01 UTC, where every usual window begins.
	Start time.Time
}

// Makespan runs the limit's own model and returns the time from Start to the last answer.
// A limit that cannot be counted, or a negative setting, is a [*ConfigError].
func (o Oracle) Makespan() (time.Duration, error) {
	limit, err := o.Limit.resolved()
	if err != nil {
		return 0, err
	}
	if o.RTT < 0 || o.Workers < 0 || o.Cost < 0 {
		return 0, &ConfigError{"Oracle", "RTT, Workers and Cost must not be negative"}
	}
	start := o.Start
	if start.IsZero() {
		start = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	cost := max(1, o.Cost)
	if limit.N > 0 {
		cost = min(cost, limit.ceiling())
	}

	m := newMeter(limit)
	var busy instants // when each worker's answer arrives
	arrival, finish := start, start
	for range o.Calls {
		earliest := start
		if o.Workers > 0 && len(busy) == o.Workers {
			earliest = heap.Pop(&busy).(time.Time)
		}
		if at := earliest.Add(o.RTT / 2); at.After(arrival) {
			arrival = at
		}
		arrival = arrival.Add(m.wait(arrival, cost))
		answered := arrival.Add(m.take(arrival, cost) + o.RTT - o.RTT/2)
		if o.Workers > 0 {
			heap.Push(&busy, answered)
		}
		if answered.After(finish) {
			finish = answered
		}
	}
	return finish.Sub(start), nil
}

// instants is a heap, earliest first.
type instants []time.Time

func (h instants) Len() int           { return len(h) }
func (h instants) Less(i, j int) bool { return h[i].Before(h[j]) }
func (h instants) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *instants) Push(x any)        { *h = append(*h, x.(time.Time)) }
func (h *instants) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
