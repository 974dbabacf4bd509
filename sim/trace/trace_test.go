package trace_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"seedlog/sim/trace"
)

func TestTheHashDependsOnEveryWordAndOnTheOrder(t *testing.T) {
	one := func(events ...func(l *trace.Log)) uint64 {
		var l trace.Log
		for _, add := range events {
			add(&l)
		}
		return l.Hash()
	}
	add := func(k trace.Kind, a, b, c uint64) func(*trace.Log) {
		return func(l *trace.Log) { l.Add(k, a, b, c) }
	}
	text := func(a uint64, s string) func(*trace.Log) {
		return func(l *trace.Log) { l.AddString(trace.Note, a, s) }
	}
	payload := func(a uint64, s string) func(*trace.Log) {
		return func(l *trace.Log) { l.AddBytes(trace.Note, a, 0, []byte(s)) }
	}
	hashes := map[uint64]string{}
	for name, h := range map[string]uint64{
		"nothing":      one(),
		"zeros":        one(add(0, 0, 0, 0)),
		"two zeros":    one(add(0, 0, 0, 0), add(0, 0, 0, 0)),
		"kind":         one(add(1, 0, 0, 0)),
		"a":            one(add(0, 1, 0, 0)),
		"b":            one(add(0, 0, 1, 0)),
		"c":            one(add(0, 0, 0, 1)),
		"high bit":     one(add(0, 0, 0, 1<<63)),
		"mul1":         one(add(0, 0xa0761d6478bd642f, 0, 0)),
		"1 then 2":     one(add(1, 0, 0, 0), add(2, 0, 0, 0)),
		"2 then 1":     one(add(2, 0, 0, 0), add(1, 0, 0, 0)),
		"text":         one(text(0, "x")),
		"longer text":  one(text(0, "xx")),
		"text about 1": one(text(1, "x")),
		"bytes":        one(payload(0, "x")),
		"other bytes":  one(payload(0, "y")),
		"zero bytes":   one(payload(0, "\x00")),
	} {
		if other, seen := hashes[h]; seen {
			t.Errorf("%q and %q have one hash", name, other)
		}
		hashes[h] = name
	}
}

func TestTheHashIsTheSameInEveryMode(t *testing.T) {
	fill := func(l *trace.Log) *trace.Log {
		for i := range uint64(100) {
			l.SetNow(int64(i))
			l.Add(trace.Pick, i, i*i, 0)
			l.AddString(trace.Note, i, fmt.Sprint("note ", i))
		}
		return l
	}
	plain, kept, written := new(trace.Log), new(trace.Log), new(trace.Log)
	kept.Keep(3)
	written.Write(io.Discard)
	fill(plain)
	if fill(kept).Hash() != plain.Hash() || fill(written).Hash() != plain.Hash() || plain.Count() != 200 {
		t.Errorf("%x, %x, %x", plain.Hash(), kept.Hash(), written.Hash())
	}
}

func TestTheTailIsTheLastEventsOldestFirst(t *testing.T) {
	var l trace.Log
	l.Keep(3)
	for i := range uint64(5) {
		l.Add(trace.Pick, i, 0, 0)
	}
	l.SetNow(1_000_000_002)
	l.AddString(trace.Fault, 7, "kill")
	tail := l.Tail(10)
	if len(tail) != 3 || tail[0].A != 3 || tail[1].A != 4 || tail[2].A != 7 || len(l.Tail(1)) != 1 || l.Tail(1)[0].A != 7 {
		t.Fatalf("tail %v", tail)
	}
	if got := tail[2].String(); !strings.HasPrefix(got, "6 1.000000002 fault 7 ") || !strings.HasSuffix(got, `"kill"`) {
		t.Errorf("the event reads %q", got)
	}
	if len(new(trace.Log).Tail(3)) != 0 {
		t.Error("a log that keeps nothing has a tail")
	}
}

func TestDiffNamesTheFirstDifference(t *testing.T) {
	log := func(lines ...string) io.Reader { return strings.NewReader(strings.Join(lines, "\n") + "\n") }
	for _, c := range []struct {
		a, b io.Reader
		line uint64
	}{
		{log("1", "2", "3"), log("1", "2", "3"), 0},
		{log("1", "2", "3"), log("1", "x", "3"), 2},
		{log("1", "2"), log("1", "2", "3"), 3},
		{log("1", "2", "3"), log("1", "2"), 3},
		{strings.NewReader(""), log("1"), 1},
		{strings.NewReader(""), strings.NewReader(""), 0},
	} {
		d, err := trace.Diff(c.a, c.b)
		if err != nil || (d == nil) != (c.line == 0) || d != nil && d.Line != c.line {
			t.Errorf("difference %+v, %v; want line %d", d, err, c.line)
		}
	}
	if _, err := trace.Diff(log("1"), broken{}); !errors.Is(err, errBroken) {
		t.Errorf("a reader's error: %v", err)
	}
}

var errBroken = errors.New("broken")

type broken struct{}

func (broken) Read([]byte) (int, error)  { return 0, errBroken }
func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestAFailedWriteIsReported(t *testing.T) {
	var l trace.Log
	l.Write(broken{})
	l.Add(trace.Note, 1, 2, 3)
	if err := l.Flush(); !errors.Is(err, errBroken) {
		t.Errorf("Flush: %v", err)
	}
}

func TestHashingAllocatesNothing(t *testing.T) {
	var l trace.Log
	p := bytes.Repeat([]byte("payload"), 100)
	if n := testing.AllocsPerRun(100, func() {
		l.Add(trace.Pick, 1, 2, 3)
		l.AddString(trace.Note, 1, "text")
		l.AddBytes(trace.NetWrite, 1, 2, p)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAdd(b *testing.B) {
	var l trace.Log
	for b.Loop() {
		l.Add(trace.Pick, 1, 2, 3)
	}
}
