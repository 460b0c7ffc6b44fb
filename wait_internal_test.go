package polite

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// wellThere answers every request at once.
type wellThere struct{ header http.Header }

func (w wellThere) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: w.header, Body: http.NoBody, Request: req}, nil
}

// A machine may sleep while a call waits, and only a new look at the clock tells.
func TestCallThatWaitedGoesOnFromItsDeparture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := NewTransport(&Options{Base: wellThere{}, Limit: LimitOptions{Rates: []Rate{{N: 1, Per: time.Minute}}}})
		for range 2 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.example.com", nil)
			require.NoError(t, err)
			resp, err := transport.RoundTrip(req)
			require.NoError(t, err)
			c := attemptOf(resp).call
			assert.Equal(t, c.sentAt, c.now)
			assert.Equal(t, time.Now(), c.now)
		}
	})
}

// curious is a context of somebody's own that looks at the hosts when asked for
// its deadline.
type curious struct {
	context.Context
	transport *Transport
}

func (c curious) Deadline() (time.Time, bool) {
	for range c.transport.Hosts() {
	}
	return c.Context.Deadline()
}

// A context is never asked while a host's books are locked.
func TestContextMayLookAtTheHosts(t *testing.T) {
	transport := NewTransport(&Options{Base: wellThere{http.Header{"X-Ratelimit-Limit": {"100"}, "X-Ratelimit-Remaining": {"5"}, "X-Ratelimit-Reset": {"1"}}}})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 2 { // the brake spreads what is left
			req, err := http.NewRequestWithContext(curious{ctx, transport}, http.MethodGet, "https://api.example.com", nil)
			if assert.NoError(t, err) {
				_, err = transport.RoundTrip(req)
				assert.NoError(t, err)
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("the call hangs in its own lock")
	}
}
