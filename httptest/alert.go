package httptest

import (
	"fmt"
	"time"
)

// AlertCoolDown is how long an [Alert] about the same key is not repeated, so that a flood is one message.
const AlertCoolDown = 5 * time.Minute

// AlertKind says what an [Alert] is about.
type AlertKind int

// The kinds of alert.
const (
	AlertRefused   AlertKind = iota // a caller is being refused
	AlertStoreDown                  // the counters cannot be reached
)

// Alert is a message to whoever runs the server.
type Alert struct {
	At     time.Time
	Kind   AlertKind
	Key    string // the caller, or "store"
	Policy string // the policy that refused
	Err    error  // what the store said
	Silent int    // how many alerts about this key the cool-down has swallowed since the last one
}

// String is one line for a log.
func (a Alert) String() string {
	text := fmt.Sprintf("%s is refused by %s", a.Key, a.Policy)
	if a.Kind == AlertStoreDown {
		text = fmt.Sprintf("rate-limit store is down: %v", a.Err)
	}
	if a.Silent > 0 {
		text += fmt.Sprintf(" (and %d times more since the last message)", a.Silent)
	}
	return text
}

// maxAlertKeys bounds the memory of cool-downs. When it is full, those that have passed are dropped;
// if none has, the alert is given without being remembered.
const maxAlertKeys = 10_000

// alerts remembers when each key was last spoken of. The server's mutex guards it.
type alerts struct {
	last map[string]spoken
}

type spoken struct {
	at     time.Time
	silent int
}

// alert tells Config.Alert, outside all locks.
func (s *Server) alert(a Alert) {
	if s.config.Alert == nil {
		return
	}
	s.mu.Lock()
	silent, due := s.alerts.due(a)
	s.mu.Unlock()
	if due {
		a.Silent = silent
		s.config.Alert(a)
	}
}

// due reports whether the cool-down has passed, and counts the alert if not.
func (l *alerts) due(a Alert) (silent int, ok bool) {
	known, spokenOf := l.last[a.Key]
	if spokenOf && a.At.Sub(known.at) < AlertCoolDown {
		known.silent++
		l.last[a.Key] = known
		return 0, false
	}
	if l.last == nil {
		l.last = map[string]spoken{}
	}
	if len(l.last) >= maxAlertKeys {
		for key, old := range l.last {
			if a.At.Sub(old.at) >= AlertCoolDown {
				delete(l.last, key)
			}
		}
	}
	if len(l.last) < maxAlertKeys {
		l.last[a.Key] = spoken{at: a.At}
	}
	return known.silent, true
}
