package partition

import "fmt"

// MoveStep is what is done next about a replica that moves to another directory.
type MoveStep uint8

const (
	// MoveCopy: more of the log is copied from the copy's end on.
	MoveCopy MoveStep = iota
	// MoveTruncate the copy to Offset: above, it parts from the log.
	MoveTruncate
	// MoveRestart the copy, empty, at Offset: it lies outside the log, or lacks its beginning.
	MoveRestart
	// MoveRaise the copy's start to Offset, as the log's was.
	MoveRaise
	// MoveAnnounce to the controller that the replica is about to be in the other directory.
	MoveAnnounce
	// MoveAwait the controller's answer.
	MoveAwait
	// MoveSwap: the copy becomes the log.
	MoveSwap
)

func (s MoveStep) String() string {
	return [...]string{"copy", "truncate", "restart", "raise", "announce", "await", "swap"}[s]
}

// MoveDecision is a step with the offset it is about.
type MoveDecision struct {
	Step   MoveStep
	Offset int64
}

func (d MoveDecision) String() string {
	if d.Step == MoveTruncate || d.Step == MoveRestart || d.Step == MoveRaise {
		return fmt.Sprintf("%s %d", d.Step, d.Offset)
	}
	return d.Step.String()
}

// Copied is a copy at one instant.
type Copied struct {
	LogStart, LogEnd int64
	LatestEpoch      int32 // of its last batch, -1 if there is none
}

// Original is the log that a copy is made of, at one instant that is not before the copy's.
type Original struct {
	LogStart, LogEnd int64
	// Epoch is the log's largest epoch at or below the copy's last one, and EpochEnd where it
	// ended; -1 for none.
	Epoch    int32
	EpochEnd int64
}

// Move is a replica on its way to another directory of its broker (KIP-113): a copy is filled
// from the log, and takes its place when it has all of it. The controller hears of the new
// directory before the replica is there (KIP-858): if it heard later, and the broker started
// without that directory in between, it would believe an empty log to be in the ISR.
//
//	copying --caught up--> announced --assigned, and caught up--> swapped
//	   ^                      |
//	   \------- Abandon ------/
//
// The zero Move has copied nothing that is known of.
type Move struct {
	announced bool
	looked    bool
	seen      int64 // the log's end at the last look
}

// Resumed is a move of which the controller was told before this start.
func Resumed() Move { return Move{announced: true} }

// Announced reports that the controller is to take the replica to be in the other directory.
func (m *Move) Announced() bool { return m.announced }

// Abandon ends the move: the replica stays where it is. It reports whether the controller may
// have heard otherwise.
func (m *Move) Abandon() (wasAnnounced bool) {
	was := m.announced
	*m = Move{}
	return was
}

// Next decides on the next step. assigned tells that the controller has the replica in the
// other directory already, or knows of no directories.
func (m *Move) Next(log Original, copied Copied, epochs EpochCache, assigned bool) MoveDecision {
	d := Reconcile(log, copied, epochs)
	caughtUp := d.Step == MoveSwap || m.looked && d.Step == MoveCopy && copied.LogEnd >= m.seen
	m.looked, m.seen = true, log.LogEnd
	switch {
	case !caughtUp:
		return d
	case !m.announced:
		m.announced = true
		return MoveDecision{Step: MoveAnnounce}
	case !assigned:
		return MoveDecision{Step: MoveAwait}
	}
	return MoveDecision{Step: MoveSwap}
}

// Reconcile decides what makes the copy the log's, of which it is to be a prefix from the log's
// start on: MoveSwap if it has all of it. Whether the two part is asked of the leader epochs, as
// a follower asks its leader: while the copy was not looked at, the log may have been cut and have
// grown again (KIP-101).
func Reconcile(log Original, copied Copied, epochs EpochCache) MoveDecision {
	switch {
	case copied.LogStart > log.LogStart, copied.LogEnd < log.LogStart:
		return MoveDecision{MoveRestart, log.LogStart}
	case copied.LatestEpoch >= 0 && log.Epoch < 0:
		return MoveDecision{MoveRestart, log.LogStart} // nothing of the copy's epochs is in the log
	case copied.LatestEpoch >= 0 && (log.Epoch != copied.LatestEpoch || log.EpochEnd < copied.LogEnd):
		mine := Replica{LogStart: copied.LogStart, LogEnd: copied.LogEnd}
		return MoveDecision{MoveTruncate, truncationOffset(mine, Answer{DivergeEpoch: log.Epoch, DivergeEnd: log.EpochEnd}, epochs)}
	case copied.LogEnd > log.LogEnd:
		return MoveDecision{MoveTruncate, log.LogEnd}
	case copied.LogStart < log.LogStart:
		return MoveDecision{MoveRaise, log.LogStart}
	case copied.LogEnd < log.LogEnd:
		return MoveDecision{Step: MoveCopy}
	}
	return MoveDecision{Step: MoveSwap}
}

// Held is a log of a replica of which a crash left two: one where the replica was, one where it
// moved to.
type Held struct {
	LatestEpoch      int32
	LogEnd, LogStart int64
	Assigned         bool // the metadata has the replica in its directory
	Damaged          bool // what it has is not known
}

// Newer reports whether a is rather the replica than b: when the one took the other's place
// they were equal, and only what was the replica since has changed. Records come first, then
// what was deleted, for neither goes back; where nothing differs either will do.
func Newer(a, b Held) bool {
	switch {
	case a.Damaged || b.Damaged: // the damage may hide that the log is the longer one
		return a.Assigned && !b.Assigned
	case a.LatestEpoch != b.LatestEpoch:
		return a.LatestEpoch > b.LatestEpoch
	case a.LogEnd != b.LogEnd:
		return a.LogEnd > b.LogEnd
	case a.LogStart != b.LogStart:
		return a.LogStart > b.LogStart
	}
	return a.Assigned && !b.Assigned
}
