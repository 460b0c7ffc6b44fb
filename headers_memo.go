package polite

import (
	"strings"
	"sync/atomic"
)

// memo remembers what was worked out of texts that servers repeat in every
// answer, such as the names of their fields. The zero memo is empty; it is safe
// for concurrent use, and what it holds does not change.
type memo[T any] struct {
	table atomic.Pointer[memoTable[T]]
}

// memoTable is an open hash table: a text stands in the place that its hash names,
// or in one of the next few. Where all of these are taken a new table is begun.
type memoTable[T any] [1 << memoBits]atomic.Pointer[remembered[T]]

type remembered[T any] struct {
	text  string
	value T
}

const (
	memoBits      = 9
	memoNext      = 8
	maxRemembered = 256 // of a longer text nothing is remembered
)

// of returns what read makes of the text.
func (m *memo[T]) of(text string, read func(string) T) *T {
	if known := m.find(text); known != nil {
		return known
	}
	return m.learn(text, read)
}

// find returns what is remembered of the text, nil if that is nothing.
func (m *memo[T]) find(text string) *T {
	t := m.table.Load()
	if t == nil {
		return nil
	}
	place := memoPlace(text)
	for i := range uint64(memoNext) {
		known := t[(place+i)%uint64(len(t))].Load()
		if known == nil {
			break
		}
		if known.text == text {
			return &known.value
		}
	}
	return nil
}

func (m *memo[T]) learn(text string, read func(string) T) *T {
	if len(text) > maxRemembered {
		value := read(text)
		return &value
	}
	text = strings.Clone(text) // or it would keep all of the response's header
	known := &remembered[T]{text, read(text)}
	m.add(known)
	return &known.value
}

func (m *memo[T]) add(known *remembered[T]) {
	place := memoPlace(known.text)
	t := m.table.Load()
	if t != nil {
		for i := range uint64(memoNext) {
			if t[(place+i)%uint64(len(t))].CompareAndSwap(nil, known) {
				return
			}
		}
	}
	t = new(memoTable[T])
	t[place].Store(known)
	m.table.Store(t)
}

// memoPlace is the hash of a text, by its beginning, its middle and its end, which
// is all of one of 24 bytes. The golden ratio carries them into the highest bits.
func memoPlace(s string) uint64 {
	const golden = 0x9E3779B97F4A7C15
	hash := uint64(len(s))
	switch {
	case len(s) >= 8:
		hash = (hash ^ eightBytes(s)) * golden
		hash = (hash ^ eightBytes(s[(len(s)-8)/2:])) * golden
		hash = (hash ^ eightBytes(s[len(s)-8:])) * golden
	case len(s) > 0:
		hash = (hash ^ uint64(s[0])<<8 ^ uint64(s[len(s)/2])<<16 ^ uint64(s[len(s)-1])<<24) * golden
	}
	return hash >> (64 - memoBits)
}

func eightBytes(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}
