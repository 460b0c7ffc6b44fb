package polite

// callList is a list of calls; a call is in one list at most.
type callList struct {
	first, last *call
	n           int // calls
	units       int // their cost
}

func (q *callList) push(c *call) { q.insertAfter(q.last, c) }

// insert keeps the order in which the calls began.
func (q *callList) insert(c *call) {
	at := q.last
	for at != nil && at.order > c.order {
		at = at.prev
	}
	q.insertAfter(at, c)
}

// insertSent keeps the order of sending.
func (q *callList) insertSent(c *call) {
	at := q.last
	for at != nil && at.sentAt.After(c.sentAt) {
		at = at.prev
	}
	q.insertAfter(at, c)
}

func (q *callList) insertAfter(at, c *call) {
	q.n++
	q.units += c.set.Cost
	c.prev = at
	if at == nil {
		c.next, q.first = q.first, c
	} else {
		c.next, at.next = at.next, c
	}
	if c.next == nil {
		q.last = c
	} else {
		c.next.prev = c
	}
}

func (q *callList) remove(c *call) {
	q.n--
	q.units -= c.set.Cost
	if c.prev == nil {
		q.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		q.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.prev, c.next = nil, nil
}

// before is how many units stand before c, or would if it joined now: for one
// that stands in line already 1 stands for any number, so that a whole line can
// be woken without counting it over and over.
func (q *callList) before(c *call) int {
	switch {
	case q.first == nil || q.first == c:
		return 0
	case c.queued:
		return 1
	case q.last.order < c.order:
		return q.units
	}
	units := 0
	for o := q.first; o.order < c.order; o = o.next {
		units += o.set.Cost
	}
	return units
}

func (q *callList) wakeFirst() {
	if q.first != nil {
		q.first.rouse()
	}
}

func (q *callList) wakeAll() {
	for c := q.first; c != nil; c = c.next {
		c.rouse()
	}
}
