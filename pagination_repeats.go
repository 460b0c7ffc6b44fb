package polite

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// repeated is an error if the server has sent the page before this one once
// more. A server that does not know the parameter does so for ever, and each
// time the page looks like the next one.
func (w *walk[T]) repeated(got *fetchedPage[T]) error {
	if !w.suspicious() || got.items == 0 {
		return nil
	}
	if w.Key != nil {
		got.imprint = keysImprint(got.Items, w.Key)
	}
	if got.imprint != w.here.before || w.pushedOn(got) {
		return nil
	}
	return fmt.Errorf("%w: this page is the same as the one before; does the server know the parameter %q?", ErrPageLoop, w.route.atParam)
}

// suspicious reports whether pages are compared with the one before: only where
// the server does not itself name the next one.
func (w *walk[T]) suspicious() bool { return w.route.counted() && !w.AllowRepeats }

// pushedOn reports whether the total has grown by a page since the one before:
// items inserted in front may have pushed that one to where this one is.
func (w *walk[T]) pushedOn(got *fetchedPage[T]) bool {
	return w.total >= 0 && got.told()-got.items >= w.total
}

// beyond reports whether a page with items reaches beyond the latest total,
// which is the server's contradiction. A total that shrinks below what came is
// none: it is met by a page without items.
func (w *walk[T]) beyond(items, passed int) bool {
	return w.suspicious() && items > 0 && w.total >= 0 && passed > w.total
}

// imprintOf makes the imprint of a page by its items' JSON where that is known:
// the rest of a body may differ each time, by its date or the request's number.
// It lets go of that JSON. With Key, the keys will make the imprint.
func (w *walk[T]) imprintOf(batch *Batch[T], body []byte) uint64 {
	if batch.raw != nil {
		body, batch.raw = batch.raw, nil
	}
	if !w.suspicious() || w.Key != nil {
		return 0
	}
	return imprint(sha256.Sum256(body))
}

// keysImprint is the imprint of a page whose items have keys.
func keysImprint[T any](items []T, key func(T) string) uint64 {
	h := sha256.New()
	for _, item := range items {
		k := key(item)
		h.Write(binary.AppendUvarint(nil, uint64(len(k)))) // "ab", "c" is not "a", "bc"
		h.Write([]byte(k))
	}
	return imprint([sha256.Size]byte(h.Sum(nil)))
}

// imprint shortens a hash to 48 bits, so that checkpoints stay short. It is not
// 0, which stands for none.
func imprint(sum [sha256.Size]byte) uint64 {
	return cmp.Or(binary.BigEndian.Uint64(sum[:])>>16, 1)
}
