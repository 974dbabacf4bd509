package control

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Attempt is one sending of a request by a Router, named in the client id of its header (every
// version of a header has one):
//
//	node-4/9f3c2a11d0b7e655/forwarding2 # 17 @ 6
//	node   process          line          |    epoch of the controller that it is meant for
//	                                      number of the request on the line
//
// A line has one request at a time, and the next one has a larger number. So the controller
// needs to remember only the newest of each line to know every older one again.
type Attempt struct {
	Line   string
	Number uint64
	Epoch  int32
}

// attemptBytesMax bounds the name of a line, which controllers keep.
const attemptBytesMax = 100

// String is the client id.
func (a Attempt) String() string { return fmt.Sprintf("%s#%d@%d", a.Line, a.Number, a.Epoch) }

// ParseAttempt reads a client id. Anybody else's (Kafka's own tools and brokers) is not one.
func ParseAttempt(clientID string) (a Attempt, ok bool) {
	line, rest, found := strings.Cut(clientID, "#")
	number, epoch, both := strings.Cut(rest, "@")
	if !found || !both || line == "" || len(line) > attemptBytesMax || strings.Count(line, "/") != 2 {
		return a, false
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return a, false
	}
	e, err := strconv.ParseInt(epoch, 10, 32)
	if err != nil || e < 0 {
		return a, false
	}
	return Attempt{Line: line, Number: n, Epoch: int32(e)}, true
}

// Standing is what a Ledger says of an attempt.
type Standing uint8

// The standings.
const (
	// First: nobody ran the request yet. Whoever asked runs it.
	First Standing = iota
	// Repeated: it runs, or has run. What came of it is the answer.
	Repeated
	// Overtaken: its line has gone on to other requests. Nobody waits for this one.
	Overtaken
)

// LedgerLines is how many lines a Ledger remembers; the one that was silent for longest is
// forgotten for a new one.
const LedgerLines = 1024

// Ledger lets each request of a line run once, in whatever order its attempts arrive: the bytes
// of one may lie about in a connection that its sender has long given up. R is what came of it.
type Ledger[R any] struct {
	lines []ledgerLine[R] // the longest silent first
}

type ledgerLine[R any] struct {
	newest Attempt
	run    R
}

// Enter tells how a stands. If it is First, run is what its repetitions are going to find.
func (l *Ledger[R]) Enter(a Attempt, run R) (R, Standing) {
	i := slices.IndexFunc(l.lines, func(e ledgerLine[R]) bool { return e.newest.Line == a.Line })
	if i < 0 {
		if len(l.lines) == LedgerLines {
			l.lines = slices.Delete(l.lines, 0, 1)
		}
		l.lines = append(l.lines, ledgerLine[R]{a, run})
		return run, First
	}
	e := l.lines[i]
	switch {
	case a.Number < e.newest.Number, a.Number == e.newest.Number && a.Epoch != e.newest.Epoch:
		return run, Overtaken
	case a.Number == e.newest.Number:
		return e.run, Repeated
	}
	l.lines = append(slices.Delete(l.lines, i, i+1), ledgerLine[R]{a, run})
	return run, First
}
