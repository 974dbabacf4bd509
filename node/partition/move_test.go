package partition

import (
	"testing"

	"pgregory.net/rapid"
)

// batchLog is a log of batches with one offset each: the epoch of each offset from start on.
type batchLog struct {
	start  int64
	epochs []int32
}

func (l *batchLog) end() int64 { return l.start + int64(len(l.epochs)) }

func (l *batchLog) latest() int32 {
	if len(l.epochs) == 0 {
		return -1
	}
	return l.epochs[len(l.epochs)-1]
}

// EndOffsetForEpoch implements EpochCache.
func (l *batchLog) EndOffsetForEpoch(e int32) (int32, int64) {
	found, end := int32(-1), int64(-1)
	for i, x := range l.epochs {
		if x <= e {
			found, end = x, l.start+int64(i)+1
		}
	}
	return found, end
}

func (l *batchLog) truncate(to int64) {
	if to < l.start {
		*l = batchLog{start: to}
	} else if to < l.end() {
		l.epochs = l.epochs[:to-l.start]
	}
}

func (l *batchLog) raise(to int64) {
	if to = min(to, l.end()); to > l.start {
		l.epochs = l.epochs[to-l.start:]
		l.start = to
	}
}

func (l *batchLog) original(latest int32) Original {
	o := Original{LogStart: l.start, LogEnd: l.end()}
	o.Epoch, o.EpochEnd = l.EndOffsetForEpoch(latest)
	return o
}

func (l *batchLog) copied() Copied { return Copied{l.start, l.end(), l.latest()} }

// A log that is written, cut, restarted and deleted from, and a copy of it that looks now and
// then: whatever happened meanwhile, the copy takes the log's place only with the same records,
// and gets there in a bounded number of steps once the log is left alone. What one epoch has at
// an offset is always the same (I2), so the epochs are all there is to compare.
func TestACopyBecomesTheLogAndNeverAnythingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log, copied := &batchLog{}, &batchLog{}
		var m Move
		epoch, assigned := int32(0), false
		step := func() MoveDecision {
			d := m.Next(log.original(copied.latest()), copied.copied(), copied, assigned)
			switch d.Step {
			case MoveCopy:
				n := min(log.end()-copied.end(), 3)
				at := copied.end() - log.start
				copied.epochs = append(copied.epochs[:len(copied.epochs):len(copied.epochs)], log.epochs[at:at+n]...)
			case MoveTruncate:
				if d.Offset >= copied.end() {
					t.Fatalf("truncating to %d at %d", d.Offset, copied.end())
				}
				copied.truncate(d.Offset)
			case MoveRestart:
				*copied = batchLog{start: d.Offset}
			case MoveRaise:
				copied.raise(d.Offset)
			}
			return d
		}
		equal := func() bool {
			if log.start != copied.start || log.end() != copied.end() {
				return false
			}
			for i := range log.epochs {
				if log.epochs[i] != copied.epochs[i] {
					return false
				}
			}
			return true
		}
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				for range rapid.IntRange(1, 5).Draw(t, "n") {
					log.epochs = append(log.epochs, epoch)
				}
			},
			"next leader": func(t *rapid.T) {
				log.truncate(rapid.Int64Range(log.start, log.end()).Draw(t, "to"))
				epoch += int32(rapid.IntRange(1, 2).Draw(t, "epochs"))
			},
			"delete": func(t *rapid.T) { log.raise(rapid.Int64Range(log.start, log.end()).Draw(t, "to")) },
			"restart": func(t *rapid.T) {
				*log = batchLog{start: rapid.Int64Range(max(log.start-3, 0), log.end()+3).Draw(t, "at")}
				epoch++
			},
			"assign":  func(t *rapid.T) { assigned = m.Announced() },
			"abandon": func(t *rapid.T) { m.Abandon(); assigned = false },
			"step": func(t *rapid.T) {
				before := m.Announced()
				d := step()
				if d.Step == MoveSwap && !(before && assigned) {
					t.Fatalf("swapped, announced %v, assigned %v", before, assigned)
				}
			},
			"settle": func(t *rapid.T) {
				for n := 0; ; n++ {
					if n > 200 {
						t.Fatalf("log [%d, %d) %v, copy [%d, %d) %v: no end", log.start, log.end(), log.epochs, copied.start, copied.end(), copied.epochs)
					}
					d := Reconcile(log.original(copied.latest()), copied.copied(), copied)
					if d.Step == MoveSwap {
						break
					}
					step()
				}
				if !equal() {
					t.Fatalf("log [%d, %d) %v, copy [%d, %d) %v", log.start, log.end(), log.epochs, copied.start, copied.end(), copied.epochs)
				}
			},
			"": func(*rapid.T) {},
		})
	})
}

// Caught up is what had all of the log a look ago: a log that is written to all the time is
// never quite where its copy is.
func TestACopyIsAnnouncedOnceItHasWhatWasThereBefore(t *testing.T) {
	var m Move
	epochs := &batchLog{epochs: []int32{0, 0, 0, 0, 0, 0}}
	look := func(end, copied int64, assigned bool, want MoveStep) {
		t.Helper()
		d := m.Next(Original{LogEnd: end, Epoch: 0, EpochEnd: end}, Copied{LogEnd: copied, LatestEpoch: 0}, epochs, assigned)
		if d.Step != want {
			t.Fatalf("log to %d, copy to %d: %s, want %s", end, copied, d, want)
		}
	}
	look(10, 5, false, MoveCopy)
	look(15, 9, false, MoveCopy)
	look(18, 15, false, MoveAnnounce)
	look(18, 18, false, MoveAwait)
	look(30, 18, true, MoveSwap)
	look(40, 20, true, MoveCopy)
	look(41, 40, true, MoveSwap)
	if !m.Abandon() || m.Announced() || m.Abandon() {
		t.Fatal("an announced move was abandoned")
	}
	look(50, 45, true, MoveCopy)
	look(50, 50, true, MoveAnnounce)
}

// Of two logs that a crash left, the one that went on is the replica.
func TestOfTwoLogsTheOneThatWentOnIsTheReplica(t *testing.T) {
	base := Held{LatestEpoch: 3, LogEnd: 100, LogStart: 10}
	with := func(edit func(h *Held)) Held { h := base; edit(&h); return h }
	for _, c := range []struct {
		what string
		a, b Held
	}{
		{"a later epoch, though shorter", with(func(h *Held) { h.LatestEpoch, h.LogEnd = 4, 90 }), base},
		{"longer", with(func(h *Held) { h.LogEnd = 101 }), with(func(h *Held) { h.Assigned = true })},
		{"deleted from", with(func(h *Held) { h.LogStart = 20 }), with(func(h *Held) { h.Assigned = true })},
		{"assigned", with(func(h *Held) { h.Assigned = true }), base},
		{"assigned and damaged", with(func(h *Held) { h.Assigned, h.Damaged, h.LogEnd = true, true, 0 }), base},
	} {
		if !Newer(c.a, c.b) || Newer(c.b, c.a) {
			t.Errorf("%s: %v against %v", c.what, Newer(c.a, c.b), Newer(c.b, c.a))
		}
	}
	if Newer(base, base) {
		t.Error("a log is newer than itself")
	}
}
