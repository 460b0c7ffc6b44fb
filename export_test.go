package polite

import "fmt"

// StillTaken names what the books of the hosts hold although no call is under
// way; empty if there is nothing.
func StillTaken(t *Transport) (taken []string) {
	for _, h := range t.hosts.snapshot() {
		h.mu.Lock()
		note := func(what string, held bool) {
			if held {
				taken = append(taken, fmt.Sprintf("%s: %s", h.key, what))
			}
		}
		note("requests without an answer", h.flying != 0)
		note("places in flight", h.slots != 0)
		note("calls in line", h.waiting != 0)
		note("the breaker's probe", h.breaker != nil && h.breaker.probing())
		h.eachLaneLocked(func(l *lane) {
			note("a lane's line", l.queue.n != 0 || l.queue.first != nil)
			note("a lane's flight", l.flight.n != 0 || l.flight.first != nil)
			note("a lane's probe", l.probe != nil)
		})
		h.mu.Unlock()
	}
	return taken
}
