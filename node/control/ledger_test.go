package control

import (
	"fmt"
	"testing"
)

func TestAttemptsAreNamedInClientIDs(t *testing.T) {
	for _, a := range []Attempt{{"node-4/9f3c/forwarding2", 17, 6}, {"node-0/0/f1", 1<<64 - 1, 1<<31 - 1}} {
		if got, ok := ParseAttempt(a.String()); !ok || got != a {
			t.Errorf("%v became %v, %v", a, got, ok)
		}
	}
	long := fmt.Sprintf("a/%0100d/c", 1)
	for _, id := range []string{"", "adminclient-1", "node-4", "raft-client-1", "a/b/c", "a/b/c#1", "a/b/c@1", "a/b/c#@", "a/b/c#1@",
		"a/b/c#-1@1", "a/b/c#1@-1", "a/b/c#1@2147483648", "a/b/c#18446744073709551616@1", "b/c#1@1", "a/b/c/d#1@1", "a/b/c#1@1 ", "#1@1", long + "#1@1"} {
		if a, ok := ParseAttempt(id); ok {
			t.Errorf("%q is taken for %v", id, a)
		}
	}
}

// A transcript: each attempt as it arrives, and what the ledger says of it.
func TestARequestRunsOnceInWhateverOrderItsAttemptsArrive(t *testing.T) {
	var l Ledger[int]
	for i, x := range []struct {
		line   string
		number uint64
		epoch  int32
		want   Standing
		run    int // which of the steps ran what is answered
	}{
		{"a", 1, 5, First, 0},
		{"a", 1, 5, Repeated, 0},  // the answer was lost
		{"b", 1, 5, First, 2},     // another line has numbers of its own
		{"a", 2, 5, First, 3},     //
		{"a", 1, 5, Overtaken, 0}, // out of an old connection
		{"a", 2, 5, Repeated, 3},  //
		{"a", 4, 6, First, 6},     // 3 was on its way to another controller
		{"a", 3, 5, Overtaken, 0}, // here it comes
		{"a", 3, 6, Overtaken, 0},
		{"a", 4, 5, Overtaken, 0}, // meant for an earlier term of this controller
		{"a", 4, 6, Repeated, 6},
		{"b", 1, 5, Repeated, 2},
	} {
		run, got := l.Enter(Attempt{x.line, x.number, x.epoch}, i)
		if got != x.want || got != Overtaken && run != x.run {
			t.Errorf("step %d, %+v: %d, ran in step %d", i, x, got, run)
		}
	}
}

// A ledger is bounded: it forgets who was silent for longest, and nobody else.
func TestTheLongestSilentLineIsForgotten(t *testing.T) {
	var l Ledger[int]
	line := func(i int) Attempt { return Attempt{fmt.Sprint("line ", i), 1, 1} }
	for i := range LedgerLines {
		l.Enter(line(i), i)
	}
	l.Enter(Attempt{line(0).Line, 2, 1}, -1) // speaks
	l.Enter(line(LedgerLines), LedgerLines)  // takes the place of 1
	if len(l.lines) != LedgerLines {
		t.Errorf("%d lines", len(l.lines))
	}
	if _, s := l.Enter(line(0), 0); s != Overtaken {
		t.Errorf("who spoke last but one: %d", s)
	}
	for i := 2; i <= LedgerLines; i++ {
		if run, s := l.Enter(line(i), 0); s != Repeated || run != i {
			t.Fatalf("line %d: %d, %d", i, run, s)
		}
	}
	if _, s := l.Enter(line(1), 0); s != First {
		t.Errorf("the silent one: %d", s)
	}
}
