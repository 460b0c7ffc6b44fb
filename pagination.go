package polite

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
)

// Pager walks a collection that a server hands out in pages. Client, Scheme and
// Decode are required; the zero value of every other field is a documented
// default. Range over Items for the items alone, or over Pages to see progress
// and to store checkpoints on the way.
//
// Every page is fetched with [Client.Fetch], so a page is complete or an error,
// and each request declares in Overrides.Needs how many pages are still to
// come, so that a download that fits what is left of the quota is not slowed.
// A bound on one page's waiting (RetryOptions.MaxElapsed, LimitOptions.MaxWait,
// or Overrides on the context) should be longer than the server's window if the
// download may use up more than one.
//
// Each range is a walk of its own: it starts at Resume, or at the first page.
// A walk delivers the items in the collection's order, each once, and ends with
// the collection or with exactly one error, a [*PageError], whose Checkpoint
// stands before the first item that was not delivered.
//
// A Pager may be used by several goroutines at once as long as its fields are
// not changed. Goroutines exist only inside a range with Concurrency above 1,
// and all have ended when the range is left.
type Pager[T any] struct {
	Client *Client
	Scheme Scheme // OffsetPages, NumberedPages, CursorPages or LinkPages

	// Decode reads one page from a 2xx response; JSONPage makes one for the
	// usual shapes. It runs once per attempt, must not keep body, and must be
	// safe for concurrent use if Concurrency is above 1. Should it panic, the
	// range does so with the same value.
	Decode func(resp *http.Response, body []byte) (Batch[T], error)

	// Header is sent with every request to the origin (RFC 9110 section 4.3.1)
	// of the first page, and never to another one, not even after a redirect.
	Header http.Header

	// Resume is a checkpoint of an earlier walk over the same collection, from
	// Page.CheckpointAfter or PageError.Checkpoint. Empty means the first page.
	Resume string

	// Concurrency is how many pages may be fetched at once, the one that the
	// loop waits for included: 0 and negative mean 1. More than 1 has an effect
	// with OffsetPages and NumberedPages, from the second page on, once the
	// server has said how many there are. It bounds the pages held in memory.
	Concurrency int

	// MaxPages bounds the pages of one walk: 0 means 10,000, negative means
	// unlimited. A collection with more ends in ErrTooManyPages.
	MaxPages int

	// MaxAttempts is how often one page is tried in all: 0 means 3, negative
	// means once. It replaces RetryOptions.MaxAttempts, and what an override on
	// the context says.
	MaxAttempts int

	// Key identifies an item, to drop the ones that were delivered before:
	// offsets and page numbers repeat items when others are inserted in front
	// of them during the walk. Nil drops nothing. At least the last 65,536 keys
	// of the walk are remembered; older ones, and those of the walk that Resume
	// continues, are not.
	Key func(T) string

	// AllowOrigins lists other origins, such as "https://b.example", to which
	// LinkPages may follow a link; Header does not go there. Credentials that
	// the client's base transport adds on its own are beyond a Pager's control.
	AllowOrigins []string

	// AllowRepeats accepts a cursor or link that was followed before, for
	// servers that hand out one constant handle, and with OffsetPages and
	// NumberedPages a page that is the same as the one before it, and more
	// items than the total. MaxPages still ends the walk.
	AllowRepeats bool

	// AllowIncomplete ends a walk without an error where the server sends no
	// more pages although its own total was not reached.
	AllowIncomplete bool

	// EmptyOn404 takes a 404 for the very first page as an empty collection. A
	// 404 for any later page, or for the first page after Resume, is an error.
	EmptyOn404 bool

	// Restarts is how often a walk begins again at the first page when the
	// server answers 410 to a cursor or link: 0 and negative mean never, which
	// makes it ErrCursorExpired. Items may then come again; see Page.Restarts.
	Restarts int
}

// Batch is what a Decode function found in the body of one page.
type Batch[T any] struct {
	Items []T

	// Total is the number of items in the whole collection, as this page tells
	// it; nil or negative if it does not.
	Total *int

	// Pages is the number of pages in the whole collection, for NumberedPages;
	// zero or negative if the page does not tell.
	Pages int

	// Next is the next page's cursor for CursorPages, or a link to it for
	// LinkPages, which looks at the Link header where this is empty. The other
	// schemes ignore it.
	Next string

	raw []byte // the items as JSONPage met them; nil = the whole body stands for them
}

// Page is one page as it was delivered.
type Page[T any] struct {
	// Items are the page's items that are to be processed: without those
	// before the checkpoint and those that Key found to be repeated. It may be
	// empty, since servers with cursors send empty pages in the middle, and
	// others send one at the end.
	Items []T

	// Number counts the pages of this walk, from 1; a restart counts as one too.
	Number int

	// Progress is the state of the walk after this page.
	Progress Progress

	// Restarts is how often the walk had begun again, see Pager.Restarts. While
	// it is not zero, items may have been delivered before.
	Restarts int

	route     *route
	start     mark   // before the page's first item
	next      mark   // after its last one
	imprint   uint64 // see walk.repeated
	delivered []int  // positions on the page, from 0, of Items
}

// CheckpointAfter returns a checkpoint for Pager.Resume that stands after the
// first n of Items: 0 delivers this page again, len(Items) goes on with the
// next one. Numbers outside that range count as the nearer end. A walk resumed
// at the end of the collection asks for nothing and delivers nothing.
//
// A checkpoint is a short printable string without spaces. It holds a position,
// a fingerprint of the scheme, of the host's name, and of the path and query of
// the URL, and with [OffsetPages] and [NumberedPages] a hash of the page before it;
// no headers, no userinfo, and of a query only what the server's own link added
// to the first page's. Servers may change a collection between two
// walks: what the position means then is theirs to say.
func (p *Page[T]) CheckpointAfter(n int) string {
	if n >= len(p.Items) {
		return p.route.checkpoint(p.next, p.Progress.Total)
	}
	first := p.delivered[max(n, 0)]
	return p.route.checkpoint(p.route.within(p.start, first, p.imprint), p.Progress.Total)
}

// Progress tells how far a walk is.
type Progress struct {
	// Items counts the collection's items passed so far: those before the
	// checkpoint that the walk began with, and repeated ones, included.
	Items int

	// Total is the collection's size as the latest page told it; -1 if none
	// did. It may grow and shrink during a walk, which ends by the latest one.
	Total int
}

// Items walks the collection item by item. After an error, which comes with
// the zero T, the range ends. A context that ends is noticed before each item.
func (p *Pager[T]) Items(ctx context.Context) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		for page, err := range p.Pages(ctx) {
			if err != nil {
				yield(zero, err)
				return
			}
			for i, item := range page.Items {
				if err := ctx.Err(); err != nil {
					yield(zero, page.stopped(i, err))
					return
				}
				if !yield(item, nil) {
					return
				}
			}
		}
	}
}

// stopped is the error of a walk that ends before item n of the page.
func (p *Page[T]) stopped(n int, err error) *PageError {
	passed := p.start.passed + p.delivered[n]
	return &PageError{Page: p.Number, Items: passed, Total: p.Progress.Total, Checkpoint: p.CheckpointAfter(n), Err: err}
}

// Pages walks the collection page by page. After an error, which comes with a
// nil page, the range ends. Every page that the server sent is delivered, also
// one without items.
func (p *Pager[T]) Pages(ctx context.Context) iter.Seq2[*Page[T], error] {
	return func(yield func(*Page[T], error) bool) {
		w, err := newWalk(ctx, p)
		if err != nil {
			yield(nil, err)
			return
		}
		w.run(ctx, yield)
	}
}

// The reasons, beside failed requests, that end a walk; test for them with
// errors.Is on the *PageError.
var (
	// ErrBadPager: a field of the Pager or of its Scheme makes no sense.
	// Nothing was sent.
	ErrBadPager = errors.New("bad pager")

	// ErrBadCheckpoint: Resume is damaged, or belongs to another collection,
	// scheme, page size or version. Nothing was sent.
	ErrBadCheckpoint = errors.New("bad checkpoint")

	// ErrTooManyPages: MaxPages were delivered and the collection goes on.
	ErrTooManyPages = errors.New("too many pages")

	// ErrPageLoop: the server named a page as the next one that this walk has
	// already been to, or sent the items of one page again as the next page, as
	// a server does that does not know the parameter of OffsetPages or
	// NumberedPages. What is the same is told by Key, by the JSON of the items
	// (JSONPage), or else by the body. The repeated page was not delivered. See
	// Pager.AllowRepeats.
	ErrPageLoop = errors.New("pages go in a circle")

	// ErrTooManyItems: more items came, by offset or number, than the server's
	// latest total: some come twice, or the total is wrong. All that came was
	// delivered. Leave Batch.Total out if it is not to be relied on; the walk
	// then ends with an empty page. See Pager.AllowRepeats.
	ErrTooManyItems = errors.New("more items than the total")

	// ErrNextRefused: the link to the next page leads to an origin that is not
	// allowed, holds userinfo, or is no link; or it, or the cursor, is longer
	// than 64 KiB. Nothing was sent there.
	ErrNextRefused = errors.New("next link refused")

	// ErrCursorExpired: the server answered 410 to a cursor or link. The
	// *ResponseError is in the chain too; see Pager.Restarts.
	ErrCursorExpired = errors.New("cursor has expired")

	// ErrIncomplete: the server sent its last page before its own total was
	// reached. All that came was delivered; see Pager.AllowIncomplete.
	ErrIncomplete = errors.New("incomplete")
)

// PageError ends a walk. Pages and items before it were delivered, and nothing
// after it.
type PageError struct {
	Page  int // which page of this walk, from 1; 0 if the walk could not begin
	Items int // items passed before it, counted as in Progress
	Total int // the latest total; -1 if it is not known

	// Checkpoint stands before the first item that was not delivered, for
	// Pager.Resume. It is empty after ErrBadCheckpoint, and where the walk
	// could not begin and had no checkpoint.
	Checkpoint string

	// Err is the cause: one of the Err variables above, what Client.Fetch
	// returned, such as a *ResponseError, or the context's error.
	Err error
}

func (e *PageError) Error() string {
	if e.Page == 0 {
		return "polite: pages not fetched: " + message(e.Err)
	}
	of := ""
	if e.Total >= 0 {
		of = fmt.Sprintf(" of %d", e.Total)
	}
	return fmt.Sprintf("polite: page %d, after %d%s items: %s", e.Page, e.Items, of, message(e.Err))
}

// Unwrap returns the cause.
func (e *PageError) Unwrap() error { return e.Err }

// message is the text of a cause inside a longer message of the same package.
func message(err error) string { return strings.TrimPrefix(causeOf(err), "polite: ") }
