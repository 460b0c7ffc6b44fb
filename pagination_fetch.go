package polite

import (
	"context"
	"net/http"
)

// fetchedPage is one page as it arrived.
type fetchedPage[T any] struct {
	Batch[T]
	sighting
	imprint uint64 // 0 = not made
}

// told is the total that the page tells; -1 if it does not.
func (got *fetchedPage[T]) told() int {
	if got.Total == nil {
		return -1
	}
	return max(-1, min(*got.Total, maxCount))
}

// fetch asks for the page at p. It may be called by several goroutines.
func (w *walk[T]) fetch(ctx context.Context, p place, needs int) (*fetchedPage[T], error) {
	ctx = WithOverrides(ctx, Overrides{MaxAttempts: w.MaxAttempts, Needs: needs})
	target := w.route.target(p)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, withoutURL(err)
	}
	if w.route.home(target) {
		w.sign(req)
	}
	got := &fetchedPage[T]{}
	_, err = w.client.Fetch(req, func(resp *http.Response, body []byte) error {
		batch, err := w.Decode(resp, body)
		if err != nil {
			return err
		}
		got.imprint = w.imprintOf(&batch, body)
		got.Batch = batch
		got.sighting = sighting{items: len(batch.Items), next: batch.Next, header: resp.Header, url: target}
		if resp.Request != nil && resp.Request.URL != nil {
			got.url = resp.Request.URL
		}
		return nil
	})
	if err != nil {
		return nil, withoutURL(err)
	}
	return got, nil
}

// sign puts the caller's header and credentials on a request to the first
// page's origin.
func (w *walk[T]) sign(req *http.Request) {
	if w.Header != nil {
		req.Header = w.Header.Clone()
	}
	if user := w.route.user; user != nil && req.Header.Get("Authorization") == "" {
		password, _ := user.Password()
		req.SetBasicAuth(user.Username(), password)
	}
}

// bound is the Pager's client with one more rule for redirects, which net/http
// follows with most headers: nothing of the caller's leaves the first page's
// origin.
func (w *walk[T]) bound() *Client {
	inner := *w.Client.http
	check := inner.CheckRedirect
	inner.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if !w.route.home(req.URL) {
			for name := range w.Header {
				delete(req.Header, name)
			}
			req.Header.Del("Authorization")
		}
		if check == nil {
			return checkRedirect(req, via)
		}
		leaveSecrets(req, via)
		return check(req, via)
	}
	client := *w.Client
	client.http = &inner
	return &client
}
