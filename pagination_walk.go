package polite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"sync"
)

// walk is one range over a Pager: a loop that asks for a page, finds out where
// the next one is, and delivers it. Only the loop's goroutine touches it, but
// for fetch and its parts, which read what does not change.
type walk[T any] struct {
	Pager[T] // a copy: later changes of the caller's fields do not matter
	route    *route
	client   *Client // see bound

	here     mark // the page to ask for next
	total    int  // of items, by the latest page; -1 = not told
	pages    int  // of pages, by the latest page; 0 = not told
	largest  int  // items on the largest page so far
	latest   int  // items on the latest page
	regular  bool // the latest page was as large as the one before, or pages have numbers
	taken    int  // pages so far
	restarts int
	been     *recent[uint64] // hashes of the URLs asked for
	keys     *recent[string] // of the items delivered; nil without Key
}

// newWalk checks the settings and stands at the first page or at Resume.
func newWalk[T any](ctx context.Context, p *Pager[T]) (*walk[T], error) {
	w, err := &walk[T]{total: -1, been: newRecent[uint64]()}, error(nil)
	switch {
	case ctx == nil:
		err = fmt.Errorf("%w: the context is nil", ErrBadPager)
	case p == nil || p.Client == nil:
		err = fmt.Errorf("%w: Client is nil", ErrBadPager)
	case p.Client.http == nil:
		err = fmt.Errorf("%w: Client was not made with New", ErrBadPager)
	case isNil(p.Scheme):
		err = fmt.Errorf("%w: Scheme is nil", ErrBadPager)
	case p.Decode == nil:
		err = fmt.Errorf("%w: Decode is nil", ErrBadPager)
	default:
		w.Pager = *p
		err = w.begin()
	}
	if err == nil {
		return w, nil
	}
	failed := &PageError{Total: -1, Err: err}
	if p != nil && !errors.Is(err, ErrBadCheckpoint) {
		failed.Checkpoint = p.Resume // still good once the settings are
	}
	return nil, failed
}

// isNil reports whether there is no scheme, or a pointer to none.
func isNil(s Scheme) bool {
	v := reflect.ValueOf(s)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

func (w *walk[T]) begin() (err error) {
	if w.route, err = w.Scheme.route(); err != nil {
		return err
	}
	if err = w.route.allow(w.AllowOrigins); err != nil {
		return err
	}
	w.client = w.bound()
	w.MaxPages = cmp.Or(w.MaxPages, 10_000)
	w.MaxAttempts = cmp.Or(w.MaxAttempts, 3)
	if w.Key != nil {
		w.keys = newRecent[string]()
	}
	w.here = w.route.start()
	if w.Resume != "" {
		w.here, w.total, err = w.route.resume(w.Resume)
	}
	w.been.add(w.route.hash(w.here.place))
	return err
}

// run delivers pages until the collection ends, an error comes up, or yield
// has had enough.
func (w *walk[T]) run(ctx context.Context, yield func(*Page[T], error) bool) {
	var running sync.WaitGroup
	defer running.Wait() // whatever was asked for ahead has ended when the loop is left
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ahead := newAhead(w.fetch, w.Concurrency, &running)

	for !w.here.end {
		if w.MaxPages > 0 && w.taken >= w.MaxPages {
			yield(nil, w.stopped(fmt.Errorf("%w: MaxPages is %d", ErrTooManyPages, w.MaxPages)))
			return
		}
		got, err := ahead.take(ctx, w.here.place, w.needs(w.here))
		if err != nil && w.restarted(err) {
			continue
		}
		if got, err = w.excused(got, err); err == nil {
			err = w.repeated(got)
		}
		if err != nil {
			yield(nil, w.stopped(err))
			return
		}
		page, err := w.pass(got)
		if err == nil {
			w.fill(ctx, ahead)
		}
		if !yield(page, nil) {
			return
		}
		if err != nil {
			yield(nil, w.stopped(err))
			return
		}
	}
}

// restarted begins again after an expired cursor, if that is wanted.
func (w *walk[T]) restarted(err error) bool {
	if !w.expired(err) || w.restarts >= w.Restarts {
		return false
	}
	w.restarts++
	w.here = w.route.start()
	w.been = newRecent[uint64]()
	w.been.add(w.route.hash(w.here.place))
	w.taken++ // the answer 410 counts, so that MaxPages bounds the restarts too
	return true
}

// expired reports whether the server has forgotten the cursor or link at here.
func (w *walk[T]) expired(err error) bool {
	return w.here.token != "" && hasStatus(err, http.StatusGone)
}

// excused turns an error into an empty page where the caller wants that, and
// says more about one that it knows.
func (w *walk[T]) excused(got *fetchedPage[T], err error) (*fetchedPage[T], error) {
	switch {
	case w.EmptyOn404 && w.taken == 0 && w.Resume == "" && hasStatus(err, http.StatusNotFound):
		none := 0
		return &fetchedPage[T]{Batch: Batch[T]{Total: &none}, sighting: sighting{url: w.route.base}}, nil
	case w.expired(err):
		return nil, fmt.Errorf("%w: %w", ErrCursorExpired, err)
	}
	return got, err
}

func hasStatus(err error, status int) bool {
	var failed *ResponseError
	return errors.As(err, &failed) && failed.StatusCode == status
}

// pass moves the walk behind the page that arrived and returns it for
// delivery. The error is for after the delivery.
func (w *walk[T]) pass(got *fetchedPage[T]) (*Page[T], error) {
	w.taken++
	w.regular = w.taken == 1 || got.items == w.latest || w.route.kind == byNumber
	w.latest, w.largest = got.items, max(w.largest, got.items)
	if total := got.told(); total >= 0 {
		w.total = total
	}
	if got.Pages > 0 {
		w.pages = min(got.Pages, maxCount)
	}
	page := &Page[T]{Number: w.taken, Restarts: w.restarts, route: w.route, start: w.here, imprint: got.imprint}
	for i := min(w.here.skip, got.items); i < got.items; i++ {
		if w.keys == nil || w.keys.add(w.Key(got.Items[i])) {
			page.Items = append(page.Items, got.Items[i])
			page.delivered = append(page.delivered, i)
		}
	}
	passed := w.here.passed + got.items
	next, err := w.next(got, passed)
	w.here, page.next = next, next
	page.Progress = Progress{Items: passed, Total: w.total}
	return page, err
}

// next is where the walk goes on after the page that arrived, with passed items
// behind it. With an error, which ends the walk, it is where it could be
// resumed once the cause is gone.
func (w *walk[T]) next(got *fetchedPage[T], passed int) (mark, error) {
	stay := w.route.within(w.here, got.items, got.imprint)
	next, err := w.route.after(w.here.place, got.sighting)
	if err != nil {
		return stay, err
	}
	if w.route.counted() {
		next.end = next.end || w.enough(passed)
	}
	switch {
	case w.beyond(got.items, passed):
		return stay, fmt.Errorf("%w: does the server know the parameter %q, and is the total not an estimate?", ErrTooManyItems, w.route.atParam)
	case next.end && !w.AllowIncomplete && w.short(got.items, passed):
		return stay, fmt.Errorf("%w: the last page has come", ErrIncomplete)
	case !next.end && !w.route.counted() && !w.AllowRepeats && !w.been.add(w.route.hash(next)):
		return mark{next, passed, 0}, ErrPageLoop
	}
	return mark{next, passed, got.imprint}, nil
}

// ordinal is which page of the collection here is, from 1, with page numbers.
func (w *walk[T]) ordinal() int { return w.here.at - w.route.first + 1 }

// enough reports whether the page at here is the last by what the server told.
func (w *walk[T]) enough(passed int) bool {
	if w.route.kind == byNumber && w.pages > 0 {
		return w.ordinal() >= w.pages
	}
	return w.total >= 0 && passed >= w.total
}

// short reports whether the server's own numbers promise more than came.
func (w *walk[T]) short(items, passed int) bool {
	if w.route.kind == byNumber && items == 0 && w.ordinal() < w.pages {
		return true
	}
	return passed < w.total
}

// needs is how many pages this walk will still ask for from m on, its own
// included; 0 if that is not known.
func (w *walk[T]) needs(m mark) int {
	pages := 0
	size := cmp.Or(w.largest, w.route.size)
	switch {
	case w.route.kind == byNumber && w.pages > 0:
		pages = w.pages - (m.at - w.route.first)
	case w.total >= 0 && size > 0:
		pages = (w.total - m.passed + size - 1) / size
	default:
		return 0
	}
	if w.MaxPages > 0 {
		pages = min(pages, w.MaxPages-w.taken)
	}
	return max(1, pages)
}

// fill asks for pages ahead, as far as they can be foreseen: with offsets, each
// page is taken to be as large as the latest.
func (w *walk[T]) fill(ctx context.Context, a *ahead[T]) {
	a.keep(w.here.place)
	count := w.needs(w.here)
	if !w.route.counted() || w.here.end || count == 0 {
		return
	}
	if w.MaxPages > 0 && w.taken >= w.MaxPages {
		return
	}
	step := 1
	if w.route.kind == byOffset {
		step = w.latest
	}
	a.adjust(w.regular)
	for k := a.asked(); k < min(count, a.width); k++ {
		a.start(ctx, place{at: w.here.at + k*step}, count-k)
	}
}

// stopped is the error that ends the walk at here.
func (w *walk[T]) stopped(err error) *PageError {
	return &PageError{Page: w.taken + 1, Items: w.here.passed + w.here.skip, Total: w.total, Checkpoint: w.route.checkpoint(w.here, w.total), Err: err}
}
