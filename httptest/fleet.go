package httptest

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// Fleet is several instances of one server behind a round-robin. They share the catalog and the orders. Their
// counters are each instance's own, so that the limit multiplies, unless [Config.Store] is shared.
// Create one with [NewFleet]. It is an [http.Handler] and safe for concurrent use.
type Fleet struct {
	instances []*Server
	next      atomic.Uint64
}

// NewFleet returns n instances of one config; n below 1, or a bad config, is a [*ConfigError].
func NewFleet(n int, config Config) (*Fleet, error) {
	if n < 1 {
		return nil, &ConfigError{"Fleet", "needs at least 1 instance, not " + strconv.Itoa(n)}
	}
	config, err := config.resolved()
	if err != nil {
		return nil, err
	}
	f, shop := &Fleet{}, newShop(config)
	for range n {
		f.instances = append(f.instances, newServer(config, shop))
	}
	return f, nil
}

// Instances are the servers, for scripts, scorecards and restarts.
func (f *Fleet) Instances() []*Server { return append([]*Server(nil), f.instances...) }

func (f *Fleet) pick() *Server {
	return f.instances[(f.next.Add(1)-1)%uint64(len(f.instances))]
}

// ServeHTTP hands the request to the next instance.
func (f *Fleet) ServeHTTP(w http.ResponseWriter, r *http.Request) { f.pick().ServeHTTP(w, r) }

// Transport is the in-memory transport to the next instance, request by request; see [Server.Transport].
func (f *Fleet) Transport() http.RoundTripper { return fleetTransport{f} }

type fleetTransport struct{ fleet *Fleet }

func (t fleetTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.fleet.pick().Transport().RoundTrip(r)
}

// Requests is how many requests arrived at all instances.
func (f *Fleet) Requests() int { return f.sum((*Server).Requests) }

// Refusals is how many requests all instances have refused.
func (f *Fleet) Refusals() int { return f.sum((*Server).Refusals) }

func (f *Fleet) sum(of func(*Server) int) int {
	total := 0
	for _, s := range f.instances {
		total += of(s)
	}
	return total
}

// ErrStoreDown is what a broken [BreakableStore] says.
var ErrStoreDown = errors.New("httptest: the store is down")

// BreakableStore is a [Store] that can go down. It is safe for concurrent use.
type BreakableStore struct {
	Store
	down atomic.Bool
}

// Break makes every Take fail with [ErrStoreDown]; Mend ends that.
func (b *BreakableStore) Break() { b.down.Store(true) }

// Mend makes the store answer again.
func (b *BreakableStore) Mend() { b.down.Store(false) }

// Take implements [Store].
func (b *BreakableStore) Take(ctx context.Context, now time.Time, charges []Charge) ([]Ruling, error) {
	if b.down.Load() {
		return nil, ErrStoreDown
	}
	return b.Store.Take(ctx, now, charges)
}
