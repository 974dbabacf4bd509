// Package gen makes and checks the records that every interop client writes; README.md has the formula.
package gen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// Header is a record header.
type Header struct {
	Key   string
	Value []byte
}

// Record is a record as its topic must hold it; nil key or value is null.
type Record struct {
	Key, Value []byte
	Headers    []Header
	Timestamp  int64
}

const baseTimestamp = 1700000000000

var table = makeTable()

func makeTable() []byte {
	b := make([]byte, 65536)
	s := uint32(1)
	for i := range b {
		s = s*1664525 + 1013904223
		b[i] = byte('a' + (s>>24)%26)
	}
	return b
}

func mix(i, seed uint32) uint32 {
	x := i*2654435761 + seed
	x ^= x >> 15
	x *= 0x2c1b3c6d
	x ^= x >> 12
	x *= 0x297a2d39
	x ^= x >> 15
	return x
}

// Make returns record i of a topic.
func Make(i int, seed uint32, profile string) Record {
	x := mix(uint32(i), seed)
	kind := x % 100
	r := Record{Timestamp: baseTimestamp + int64(i), Value: value(i, x)}
	if profile == "kcat" && kind == 5 {
		r.Value = nil
	}
	if i%10 != 0 || kind <= 5 {
		r.Key = []byte("key-" + strconv.Itoa(i))
	}
	if profile == "kcat" {
		r.Headers = []Header{{"src", []byte("kcat")}}
		return r
	}
	if i%3 > 0 {
		r.Headers = append(r.Headers, Header{"i", []byte(strconv.Itoa(i))})
	}
	if i%3 == 2 {
		r.Headers = append(r.Headers, Header{"empty", []byte{}})
	}
	return r
}

func value(i int, x uint32) []byte {
	kind, length := x%100, (x>>8)%200
	switch {
	case kind < 5:
		return nil
	case kind == 5:
		return []byte{}
	case kind == 99:
		length = (x >> 8) % 20000
	case kind >= 90:
		length = (x >> 8) % 2000
	}
	start := x % 40000
	return append([]byte(strconv.Itoa(i)+":"), table[start:start+length]...)
}

// Got is a record as a reader received it.
type Got struct {
	Record
	Partition int
	Offset    int64
}

type place struct {
	index  int
	offset int64
}

// Checker compares what a reader receives with what the topic must hold.
type Checker struct {
	n       int
	seed    uint32
	profile string
	seen    []bool
	last    map[int]place
	Count   int
	// NullIsEmpty is for a library that hands its caller the same for a null and an empty value.
	NullIsEmpty bool
}

// NewChecker returns a checker of a topic of n records.
func NewChecker(n int, seed uint32, profile string) *Checker {
	return &Checker{n: n, seed: seed, profile: profile, seen: make([]bool, n), last: map[int]place{}}
}

// Done says whether every record was seen.
func (c *Checker) Done() bool { return c.Count == c.n }

// Add checks one record.
func (c *Checker) Add(g Got) error {
	i, err := index(g.Record)
	if err != nil {
		return err
	}
	if i < 0 || i >= c.n {
		return fmt.Errorf("index %d of a topic of %d", i, c.n)
	}
	if c.seen[i] {
		return fmt.Errorf("index %d came twice, now at %d/%d", i, g.Partition, g.Offset)
	}
	c.seen[i] = true
	if p, ok := c.last[g.Partition]; ok && (i < p.index || g.Offset != p.offset+1) {
		return fmt.Errorf("partition %d: index %d at offset %d after index %d at offset %d", g.Partition, i, g.Offset, p.index, p.offset)
	}
	c.last[g.Partition] = place{i, g.Offset}
	c.Count++
	return c.compare(i, g.Record)
}

func index(r Record) (int, error) {
	s, ok := strings.CutPrefix(string(r.Key), "key-")
	if !ok {
		s, _, ok = strings.Cut(string(r.Value), ":")
	}
	i, err := strconv.Atoi(s)
	if !ok || err != nil {
		return 0, fmt.Errorf("a record without an index: key %q, value of %d bytes", r.Key, len(r.Value))
	}
	return i, nil
}

func (c *Checker) compare(i int, got Record) error {
	want := Make(i, c.seed, c.profile)
	if c.NullIsEmpty && len(want.Value) == 0 && len(got.Value) == 0 {
		got.Value = want.Value
	}
	if !same(want.Key, got.Key) || !same(want.Value, got.Value) {
		return fmt.Errorf("index %d: key %q (nil %v), value of %d bytes (nil %v); want %q (nil %v), %d (nil %v)", i,
			got.Key, got.Key == nil, len(got.Value), got.Value == nil, want.Key, want.Key == nil, len(want.Value), want.Value == nil)
	}
	if c.profile != "kcat" && want.Timestamp != got.Timestamp {
		return fmt.Errorf("index %d: timestamp %d, want %d", i, got.Timestamp, want.Timestamp)
	}
	if len(want.Headers) != len(got.Headers) {
		return fmt.Errorf("index %d: headers %v, want %v", i, got.Headers, want.Headers)
	}
	for k, h := range want.Headers {
		if g := got.Headers[k]; g.Key != h.Key || !bytes.Equal(g.Value, h.Value) {
			return fmt.Errorf("index %d: headers %v, want %v", i, got.Headers, want.Headers)
		}
	}
	return nil
}

func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// Args are what the harness asks of a client: VERB BROKER TOPIC N SEED, then CODECS to write or PROFILE and GROUP to read.
type Args struct {
	Verb, Broker, Topic string
	N                   int
	Seed                uint32
	Codecs              []string
	Profile, Group      string
}

// Parse reads the command line.
func Parse() Args {
	if len(os.Args) < 7 {
		Fatal(fmt.Errorf("usage: write BROKER TOPIC N SEED CODECS | read BROKER TOPIC N SEED PROFILE GROUP"))
	}
	n, err := strconv.Atoi(os.Args[4])
	if err != nil {
		Fatal(err)
	}
	seed, err := strconv.ParseUint(os.Args[5], 10, 32)
	if err != nil {
		Fatal(err)
	}
	a := Args{Verb: os.Args[1], Broker: os.Args[2], Topic: os.Args[3], N: n, Seed: uint32(seed)}
	if len(os.Args) == 7 {
		a.Codecs = strings.Split(os.Args[6], ",")
	} else {
		a.Profile, a.Group = os.Args[6], os.Args[7]
	}
	return a
}

// Run returns the indices [from, to) that codec k of the list writes.
func (a Args) Run(k int) (from, to int) {
	return k * a.N / len(a.Codecs), (k + 1) * a.N / len(a.Codecs)
}

// Fatal ends the client as failed.
func Fatal(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Report prints the client's last line: the version of its library and what it did.
func Report(module string, records int) {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == module {
				version = d.Version
			}
		}
	}
	json.NewEncoder(os.Stdout).Encode(map[string]any{"version": version, "records": records})
}
