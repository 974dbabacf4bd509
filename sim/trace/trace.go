// Package trace is the event log of one simulated run, and its hash.
//
// Everything that decides or shows what a run does goes in: every pick of the scheduler,
// message and payload (by CRC), disk operation, timer and random draw. Two runs of one seed
// agree on the hash; if they do not, both write their events to files and [Diff] names the
// first one that differs.
//
// An event is a [Kind] and three words, or a kind, a word and some bytes. Hashing is one
// 64×64→128-bit multiplication for each two words, so that a run can afford it for every
// scheduling step. Three modes, each including the one before:
//
//	hash only   the zero Log; adding an event allocates nothing
//	Keep(n)     the last n events are kept for the report of a failure
//	Write(w)    every event is written as a line of text: number, time, kind, words, text
//
// A Log is used by one simulated world, which runs one thing at a time; it has no lock. It
// never prints, compares or hashes a pointer.
package trace

import (
	"bufio"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"strings"
)

// Kind says what happened. Its number is part of the hash.
type Kind uint16

// Log is one run's events. The zero Log is ready and only hashes.
type Log struct {
	hash  uint64
	count uint64
	now   int64

	ring []Event // capacity is what Keep said
	next int     // where the ring is written next
	out  *bufio.Writer
	err  error
}

// Event is one kept event.
type Event struct {
	Seq     uint64 // counts from one
	Now     int64  // simulated nanoseconds
	Kind    Kind
	A, B, C uint64
	Text    string
}

const (
	mul1 = 0xa0761d6478bd642f
	mul2 = 0xe7037ed1a0b428db
)

// fold mixes two words into a hash. The sum keeps a product of zero from erasing it.
func fold(h, a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^h^mul1, b^bits.RotateLeft64(h, 32)^mul2)
	return hi ^ lo + h
}

// SetNow sets the simulated time, in nanoseconds, that the next events carry in reports. It
// is not hashed: what depends on time adds it.
func (l *Log) SetNow(ns int64) { l.now = ns }

// Add adds an event of three words.
func (l *Log) Add(k Kind, a, b, c uint64) {
	l.count++
	l.hash = fold(fold(l.hash, uint64(k), a), b, c)
	if l.ring != nil || l.out != nil {
		l.keep(k, a, b, c, "")
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AddString adds an event about a, with a text, of which a short hash and the length are hashed.
func (l *Log) AddString(k Kind, a uint64, s string) {
	l.count++
	b := uint64(textHash(s))<<32 | uint64(uint32(len(s)))
	l.hash = fold(fold(l.hash, uint64(k), a), b, 0)
	if l.ring != nil || l.out != nil {
		l.keep(k, a, b, 0, s)
	}
}

// AddBytes adds an event about a and b, with a payload, of which only the CRC and the
// length are hashed and kept.
func (l *Log) AddBytes(k Kind, a, b uint64, p []byte) {
	l.Add(k, a, b, uint64(crc32.Checksum(p, castagnoli))<<32|uint64(uint32(len(p))))
}

// CRC is the checksum that AddBytes uses, for payloads that come in pieces.
func CRC(crc uint32, p []byte) uint32 { return crc32.Update(crc, castagnoli, p) }

// textHash is FNV-1a: it needs no copy of the text.
func textHash(s string) uint32 {
	h := uint32(2166136261)
	for i := 0; i < len(s); i++ {
		h = (h ^ uint32(s[i])) * 16777619
	}
	return h
}

// Hash is the hash of all events so far.
func (l *Log) Hash() uint64 { return fold(l.hash, l.count, mul1) }

// Count is the number of events so far.
func (l *Log) Count() uint64 { return l.count }

// Keep keeps the last n events from now on.
func (l *Log) Keep(n int) {
	l.ring, l.next = make([]Event, 0, max(n, 1)), 0
}

// Write writes every event from now on to w, a line each. [Log.Flush] ends it.
func (l *Log) Write(w io.Writer) { l.out = bufio.NewWriterSize(w, 1<<16) }

// Flush writes out what is buffered and returns the first error of any write.
func (l *Log) Flush() error {
	if l.out != nil {
		if err := l.out.Flush(); l.err == nil {
			l.err = err
		}
	}
	return l.err
}

func (l *Log) keep(k Kind, a, b, c uint64, text string) {
	e := Event{Seq: l.count, Now: l.now, Kind: k, A: a, B: b, C: c, Text: text}
	if l.out != nil {
		if _, err := fmt.Fprintln(l.out, e); err != nil && l.err == nil {
			l.err = err
		}
	}
	if l.ring == nil {
		return
	}
	if len(l.ring) < cap(l.ring) {
		l.ring = append(l.ring, e)
		return
	}
	l.ring[l.next] = e
	l.next = (l.next + 1) % len(l.ring)
}

// Tail is the last n kept events, oldest first, or fewer.
func (l *Log) Tail(n int) []Event {
	n = min(n, len(l.ring))
	out := make([]Event, 0, n)
	for i := len(l.ring) - n; i < len(l.ring); i++ {
		out = append(out, l.ring[(l.next+i)%len(l.ring)])
	}
	return out
}

// String is the event as its line in a file.
func (e Event) String() string {
	return fmt.Sprintf("%d %d.%09d %s %x %x %x %q", e.Seq, e.Now/1e9, e.Now%1e9, e.Kind, e.A, e.B, e.C, e.Text)
}

// Difference is the first event in which two written logs differ.
type Difference struct {
	Line  uint64 // the event's number
	A, B  string // the two lines; empty where a log has ended
	Since []string
}

func (d *Difference) String() string {
	var s strings.Builder
	for _, line := range d.Since {
		fmt.Fprintf(&s, "  %s\n", line)
	}
	fmt.Fprintf(&s, "- %s\n+ %s\n", d.A, d.B)
	return s.String()
}

// Diff compares two logs as written by [Log.Write] and returns their first difference, with
// the few events before it, or nil if they are equal.
func Diff(a, b io.Reader) (*Difference, error) {
	ra, rb := bufio.NewReaderSize(a, 1<<16), bufio.NewReaderSize(b, 1<<16)
	const context = 8
	var since []string
	for n := uint64(1); ; n++ {
		la, errA := ra.ReadString('\n')
		lb, errB := rb.ReadString('\n')
		for _, err := range []error{errA, errB} {
			if err != nil && err != io.EOF {
				return nil, fmt.Errorf("trace: comparing event %d: %w", n, err)
			}
		}
		la, lb = strings.TrimSuffix(la, "\n"), strings.TrimSuffix(lb, "\n")
		if la != lb {
			return &Difference{Line: n, A: la, B: lb, Since: since}, nil
		}
		if errA == io.EOF {
			return nil, nil
		}
		if since = append(since, la); len(since) > context {
			since = since[1:]
		}
	}
}
