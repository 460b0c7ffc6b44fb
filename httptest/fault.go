package httptest

import (
	"fmt"
	"net"
	"syscall"
)

// Fault is a failure of the connection. The zero value is [NoFault].
type Fault int

// The faults, in the order in which they strike during one exchange.
const (
	NoFault      Fault = iota
	Refuse             // the connection is refused: the request is never seen (over a real port: reset before it is read)
	ResetBefore        // reset before anything was done
	ResetAfter         // reset after the request was counted and carried out: only the answer is lost
	StallHeaders       // carried out, but the headers never come
	StallBody          // headers and half the body come, then nothing more
	TruncateBody       // headers and half the body come, then the connection ends early
	ResetBody          // headers and half the body come, then a reset
)

var faultNames = [...]string{"none", "refuse", "reset-before", "reset-after", "stall-headers", "stall-body", "truncate-body", "reset-body"}

// String returns the fault's name, such as "reset-after".
func (f Fault) String() string {
	if !f.known() {
		return fmt.Sprintf("Fault(%d)", int(f))
	}
	return faultNames[f]
}

func (f Fault) known() bool { return f >= NoFault && int(f) < len(faultNames) }

// breaksBody reports that the fault strikes in the middle of the body.
func (f Fault) breaksBody() bool { return f == StallBody || f == TruncateBody || f == ResetBody }

// dropsAnswer reports that not even headers come.
func (f Fault) dropsAnswer() bool { return f == Refuse || f == ResetBefore || f == ResetAfter }

// err is the error that a client of the in-memory transport sees.
func (f Fault) err() error {
	if f == Refuse {
		return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	return &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
}
