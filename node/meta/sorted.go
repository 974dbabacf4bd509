package meta

import (
	"cmp"
	"iter"
	"slices"
)

// chunkMax is where a chunk of a sorted map is split; a change copies one chunk and the
// list of chunks, so it costs about n/chunkMax + chunkMax words, whatever n is.
const chunkMax = 128

// sorted is an immutable map in the order of its keys. Setting and deleting return the
// next map, which shares all chunks but one. The zero value is empty.
type sorted[K, V any] struct {
	compare func(a, b K) int
	chunks  [][]entry[K, V] // none is empty
	size    int
}

type entry[K, V any] struct {
	key   K
	value V
}

func newSorted[K, V any](compare func(a, b K) int) sorted[K, V] {
	return sorted[K, V]{compare: compare}
}

func orderedMap[K cmp.Ordered, V any]() sorted[K, V] { return newSorted[K, V](cmp.Compare[K]) }

// find returns the chunk that k belongs to, its place there, and whether it is there.
func (m *sorted[K, V]) find(k K) (chunk, at int, found bool) {
	chunk, found = slices.BinarySearchFunc(m.chunks, k, func(c []entry[K, V], k K) int { return m.compare(c[0].key, k) })
	if found {
		return chunk, 0, true
	}
	if chunk > 0 {
		chunk--
	}
	if len(m.chunks) == 0 {
		return 0, 0, false
	}
	at, found = slices.BinarySearchFunc(m.chunks[chunk], k, func(e entry[K, V], k K) int { return m.compare(e.key, k) })
	return chunk, at, found
}

func (m *sorted[K, V]) get(k K) (v V, ok bool) {
	c, i, ok := m.find(k)
	if ok {
		v = m.chunks[c][i].value
	}
	return v, ok
}

func (m sorted[K, V]) set(k K, v V) sorted[K, V] {
	c, i, found := m.find(k)
	m.chunks = slices.Clone(m.chunks)
	switch {
	case len(m.chunks) == 0:
		m.chunks = [][]entry[K, V]{{{k, v}}}
		m.size = 1
		return m
	case found:
		m.chunks[c] = slices.Clone(m.chunks[c])
		m.chunks[c][i].value = v
		return m
	}
	old := m.chunks[c]
	next := make([]entry[K, V], 0, len(old)+1)
	next = append(append(append(next, old[:i]...), entry[K, V]{k, v}), old[i:]...)
	m.size++
	if len(next) <= chunkMax {
		m.chunks[c] = next
		return m
	}
	m.chunks[c] = next[: chunkMax/2 : chunkMax/2]
	m.chunks = slices.Insert(m.chunks, c+1, next[chunkMax/2:])
	return m
}

func (m sorted[K, V]) delete(k K) sorted[K, V] {
	c, i, found := m.find(k)
	if !found {
		return m
	}
	m.chunks = slices.Clone(m.chunks)
	m.size--
	if len(m.chunks[c]) == 1 {
		m.chunks = slices.Delete(m.chunks, c, c+1)
		return m
	}
	m.chunks[c] = slices.Concat(m.chunks[c][:i], m.chunks[c][i+1:])
	return m
}

// all visits the entries in the order of keys.
func (m *sorted[K, V]) all() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, c := range m.chunks {
			for _, e := range c {
				if !yield(e.key, e.value) {
					return
				}
			}
		}
	}
}
