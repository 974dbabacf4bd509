package replica

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"seedlog/node/meta"
	"seedlog/storage"
)

// placedTopic is topicOf with the replica in a directory.
func placedTopic(name string, id byte, dir meta.UUID) []meta.Body {
	bodies := topicOf(name, id, 0)
	bodies[1].(*meta.PartitionRecord).Directories = []meta.UUID{dir}
	return bodies
}

// assign lets the metadata have the replica of a topic in a directory, as the controller does
// once it was told.
func (h *host) assign(id byte, dir meta.UUID) {
	h.t.Helper()
	change := meta.NewPartitionChange(meta.UUID{id}, 0)
	change.Directories = []meta.UUID{dir}
	h.apply(change)
	h.m.PlaceTold(Key{Topic: meta.UUID{id}}, dir)
}

func (h *host) fill(p *Partition, n int) {
	h.t.Helper()
	for range n {
		if _, _, err := h.append(p); err != nil {
			h.t.Error(err)
		}
	}
}

func (h *host) in(p *Partition, path string) bool { return p.Log().Dir().Path() == path }

// The controller hears of the new directory when the copy has caught up, and the replica is
// there once it has answered, not before.
func TestAReplicaMovesWhenTheControllerKnows(t *testing.T) {
	paths := [2]string{t.TempDir(), t.TempDir()}
	withDirs(t, paths, "", meta.Empty(), func(h *host) {
		h.apply(placedTopic("a", 7, meta.UUID{1})...)
		p := h.partition(7)
		h.fill(p, 20)
		if err := h.m.MoveTo(h.tk, "a", 0, paths[1]+"/"); err != nil {
			t.Error(err)
		}
		h.until("told", func() bool { return h.lastTold() == meta.UUID{2} })
		f := h.m.FutureOf(p)
		if f == nil || f.LogEndOffset() != 20 || !h.in(p, paths[0]) {
			t.Errorf("the copy is %v, the replica in %s", f, p.Log().Dir().Path())
		}
		h.fill(p, 5)
		if !h.in(p, paths[0]) {
			t.Error("moved before the controller answered")
		}
		h.assign(7, meta.UUID{2})
		h.until("moved", func() bool { return h.in(p, paths[1]) })
		h.fill(p, 5)
		if o := p.Log().Offsets(); o.LogEnd != 30 || o.HighWatermark != 30 {
			t.Errorf("the log is %+v", o)
		}
		h.until("no copy", func() bool { return h.m.FutureOf(p) == nil })
		if dirNames(t, paths[1]) != "a-0" || !strings.HasSuffix(dirNames(t, paths[0]), "-delete") {
			t.Errorf("directories: %q and %q", dirNames(t, paths[0]), dirNames(t, paths[1]))
		}
		// There, a move there is nothing.
		told := h.tells()
		if err := h.m.MoveTo(h.tk, "a", 0, paths[1]); err != nil || h.m.FutureOf(p) != nil || h.tells() != told {
			t.Errorf("a move to where it is: %v", err)
		}
	})
	image, _ := withRecords(t, meta.Empty(), placedTopic("a", 7, meta.UUID{2})...)
	withDirs(t, paths, "", image, func(h *host) {
		if p := h.partition(7); !h.in(p, paths[1]) || p.Log().LogEndOffset() != 30 || p.Log().WasUnclean() {
			t.Errorf("after a start in %s: %+v", p.Log().Dir().Path(), p.Log().Offsets())
		}
	})
}

// Moved back, a replica is where it was; the copy that the controller was told of stays until it
// has been told otherwise.
func TestAMoveIsTakenBack(t *testing.T) {
	paths := [2]string{t.TempDir(), t.TempDir()}
	withDirs(t, paths, "", meta.Empty(), func(h *host) {
		h.apply(placedTopic("a", 7, meta.UUID{1})...)
		p := h.partition(7)
		h.fill(p, 3)
		move := func(to string) {
			t.Helper()
			if err := h.m.MoveTo(h.tk, "a", 0, to); err != nil {
				t.Error(err)
			}
		}
		move(paths[1])
		h.until("told", func() bool { return h.lastTold() == meta.UUID{2} })
		move(paths[0])
		h.until("told of the old one", func() bool { return h.lastTold() == meta.UUID{1} })
		if h.m.FutureOf(p) == nil {
			t.Error("the copy went before the controller knew")
		}
		// Nor does it know when it answers what it was told before.
		h.m.PlaceTold(p.Key(), meta.UUID{2})
		h.tk.Sleep(h.tk.Now().Add(50 * time.Millisecond))
		if h.m.FutureOf(p) == nil {
			t.Error("the copy went when the controller knew that the replica was to be there")
		}
		// What it was told first comes true now, and must be taken back all the same.
		change := meta.NewPartitionChange(meta.UUID{7}, 0)
		change.Directories = []meta.UUID{{2}}
		h.apply(change)
		if h.m.FutureOf(p) == nil {
			t.Error("the copy went while the metadata had the replica there")
		}
		h.assign(7, meta.UUID{1})
		h.until("no copy", func() bool { return h.m.FutureOf(p) == nil })
		if !h.in(p, paths[0]) || strings.Contains(dirNames(t, paths[1]), "future") {
			t.Errorf("in %s, beside %q", p.Log().Dir().Path(), dirNames(t, paths[1]))
		}
		// Taken back and begun anew before that was heard: it begins when it was.
		move(paths[1])
		h.until("told", func() bool { return h.lastTold() == meta.UUID{2} })
		first := h.m.FutureOf(p)
		move(paths[0])
		move(paths[1])
		h.until("told of the old one", func() bool { return h.lastTold() == meta.UUID{1} })
		h.assign(7, meta.UUID{1})
		h.until("another copy", func() bool { f := h.m.FutureOf(p); return f != nil && f != first })
		h.until("told", func() bool { return h.lastTold() == meta.UUID{2} })
		h.assign(7, meta.UUID{2})
		h.until("moved", func() bool { return h.in(p, paths[1]) })
		h.fill(p, 1)
	})
}

// A deleted topic takes its copy along.
func TestADeletedReplicaHasNoCopy(t *testing.T) {
	paths := [2]string{t.TempDir(), t.TempDir()}
	withDirs(t, paths, "", meta.Empty(), func(h *host) {
		h.apply(placedTopic("a", 7, meta.UUID{1})...)
		h.fill(h.partition(7), 3)
		if err := h.m.MoveTo(h.tk, "a", 0, paths[1]); err != nil {
			t.Error(err)
		}
		h.until("told", func() bool { return h.lastTold() == meta.UUID{2} })
		h.apply(&meta.RemoveTopicRecord{TopicID: meta.UUID{7}})
		for _, path := range paths {
			if names := dirNames(t, path); !strings.HasSuffix(names, "-delete") || strings.Contains(names, " ") {
				t.Errorf("left behind: %q", names)
			}
		}
	})
}

// A start goes on with a copy; a controller that was told already is told nothing else. A copy of
// nothing goes.
func TestAStartGoesOnWithACopy(t *testing.T) {
	paths := [2]string{t.TempDir(), t.TempDir()}
	image, _ := withRecords(t, meta.Empty(), append(placedTopic("a", 7, meta.UUID{1}), placedTopic("b", 8, meta.UUID{1})...)...)
	withDirs(t, paths, "", image, func(h *host) {
		for _, x := range []byte{7, 8} {
			h.fill(h.partition(x), 3)
			if err := h.m.MoveTo(h.tk, h.partition(x).Topic(), 0, paths[1]); err != nil {
				t.Error(err)
			}
		}
		h.until("copied", func() bool {
			return h.m.FutureOf(h.partition(7)).LogEndOffset() == 3 && h.m.FutureOf(h.partition(8)).LogEndOffset() == 3
		})
	})
	image, _ = withRecords(t, meta.Empty(), placedTopic("a", 7, meta.UUID{2})...)
	withDirs(t, paths, "", image, func(h *host) {
		p := h.partition(7)
		if !h.in(p, paths[0]) || h.m.FutureOf(p) == nil || h.m.FutureOf(p).LogEndOffset() != 3 {
			t.Errorf("in %s with a copy %v", p.Log().Dir().Path(), h.m.FutureOf(p))
		}
		if names := dirNames(t, paths[1]); strings.Contains(names, "b-0") && !strings.Contains(names, "-delete") {
			t.Errorf("the copy of a topic that is no more stays: %q", names)
		}
		if id, ok := h.m.PlaceOf(p.Key()); !ok || id != (meta.UUID{2}) {
			t.Errorf("the controller is to have it in %v", id)
		}
		h.m.PlaceTold(p.Key(), meta.UUID{2})
		h.until("moved", func() bool { return h.in(p, paths[1]) })
	})
}

// Where the log's directory is offline, a copy in the assigned one is not taken for the replica,
// nor is an empty log made: the controller hears that the replica is lost.
func TestACopyAloneIsNoReplica(t *testing.T) {
	paths := [2]string{t.TempDir(), t.TempDir()}
	image, _ := withRecords(t, meta.Empty(), placedTopic("a", 7, meta.UUID{1})...)
	withDirs(t, paths, "", image, func(h *host) {
		h.fill(h.partition(7), 3)
		if err := h.m.MoveTo(h.tk, "a", 0, paths[1]); err != nil {
			t.Error(err)
		}
		h.until("told", func() bool { return h.lastTold() == meta.UUID{2} })
	})
	image, _ = withRecords(t, meta.Empty(), placedTopic("a", 7, meta.UUID{2})...)
	k := Key{Topic: meta.UUID{7}}
	withDirs(t, paths, paths[0], image, func(h *host) {
		if _, err := h.m.Partition(k); !errors.Is(err, storage.ErrOffline) {
			t.Errorf("the partition: %v", err)
		}
		if id, ok := h.m.PlaceOf(k); !ok || id != meta.DirLost {
			t.Errorf("the controller is to have it in %v", id)
		}
	})
	withDirs(t, paths, "", image, func(h *host) {
		p := h.partition(7)
		h.m.PlaceTold(k, meta.UUID{2})
		h.until("moved", func() bool { return h.in(p, paths[1]) })
		if p.Log().LogEndOffset() != 3 {
			t.Errorf("ends at %d", p.Log().LogEndOffset())
		}
	})
}

// Two logs of a replica, as a crash between two renames leaves them: the one that went on is
// it, whatever the metadata of before the start says.
func TestOfTwoLogsOfAReplicaTheLongerIsTaken(t *testing.T) {
	paths := [2]string{t.TempDir(), t.TempDir()}
	image, _ := withRecords(t, meta.Empty(), placedTopic("a", 7, meta.UUID{1})...)
	withDirs(t, paths, "", image, func(h *host) { h.fill(h.partition(7), 3) })
	if err := os.CopyFS(filepath.Join(paths[1], "a-0"), os.DirFS(filepath.Join(paths[0], "a-0"))); err != nil {
		t.Fatal(err)
	}
	later, _ := withRecords(t, meta.Empty(), placedTopic("a", 7, meta.UUID{2})...)
	if err := os.Rename(filepath.Join(paths[0], "a-0"), filepath.Join(paths[0], "away")); err != nil {
		t.Fatal(err)
	}
	withDirs(t, paths, "", later, func(h *host) { h.fill(h.partition(7), 2) })
	if err := os.Rename(filepath.Join(paths[0], "away"), filepath.Join(paths[0], "a-0")); err != nil {
		t.Fatal(err)
	}
	withDirs(t, paths, "", image, func(h *host) {
		if p := h.partition(7); !h.in(p, paths[1]) || p.Log().LogEndOffset() != 5 {
			t.Errorf("in %s: %+v", p.Log().Dir().Path(), p.Log().Offsets())
		}
		if names := dirNames(t, paths[0]); strings.Contains(names, "stray") || !strings.HasSuffix(names, "-delete") {
			t.Errorf("left behind: %q", names)
		}
	})
}

// What cannot be moved is refused with the reason; a replica that is not here comes where it was
// wished for.
func TestWhatCannotMoveIsRefused(t *testing.T) {
	paths := [2]string{t.TempDir(), t.TempDir()}
	withDirs(t, paths, "", meta.Empty(), func(h *host) {
		elsewhere := topicOf("b", 8, 0)
		elsewhere[1].(*meta.PartitionRecord).Replicas, elsewhere[1].(*meta.PartitionRecord).ISR = []int32{self + 1}, []int32{self + 1}
		elsewhere[1].(*meta.PartitionRecord).Leader = self + 1
		h.apply(append(topicOf("a", 7, 0), elsewhere...)...)
		for _, c := range []struct {
			topic string
			index int32
			path  string
			want  error
		}{
			{"a", 0, "/no/such/dir", ErrUnknownDir},
			{"a", 1, paths[1], ErrUnknownPartition},
			{"a", -1, paths[1], ErrUnknownPartition},
			{"none", 0, paths[1], ErrUnknownPartition},
			{"b", 0, paths[1], ErrNoReplica},
			{strings.Repeat("x", storage.FutureNameMax-1), 0, paths[1], ErrNameTooLong},
		} {
			if err := h.m.MoveTo(h.tk, c.topic, c.index, c.path); !errors.Is(err, c.want) {
				t.Errorf("%s-%d to %s: %v, want %v", c.topic, c.index, c.path, err, c.want)
			}
		}
		h.apply(topicOf("none", 9, 0)...)
		if p := h.partition(9); !h.in(p, paths[1]) {
			t.Errorf("the replica came to %s", p.Log().Dir().Path())
		}
		// With a directory offline no copy is begun anywhere; to it, none at all.
		p := h.partition(7)
		other := 1
		if h.in(p, paths[1]) {
			other = 0
		}
		h.m.Dirs()[other].Dir.Fail(errors.New("the disk burns"))
		if err := h.m.MoveTo(h.tk, "a", 0, paths[other]); !errors.Is(err, storage.ErrOffline) {
			t.Errorf("to an offline directory: %v", err)
		}
		h.fill(p, 1)
	})
}

// When the copy's directory fails, the replica stays, and the controller hears so; when the
// replica's fails, it is offline, and not in the copy's either.
func TestADirectoryThatFailsEndsTheMove(t *testing.T) {
	for failing := range 2 {
		paths := [2]string{t.TempDir(), t.TempDir()}
		image, _ := withRecords(t, meta.Empty(), placedTopic("a", 7, meta.UUID{1})...)
		withDirs(t, paths, "", image, func(h *host) {
			p := h.partition(7)
			h.fill(p, 3)
			if err := h.m.MoveTo(h.tk, "a", 0, paths[1]); err != nil {
				t.Error(err)
			}
			h.until("told", func() bool { return h.lastTold() == meta.UUID{2} })
			h.m.Dirs()[failing].Dir.Fail(errors.New("the disk burns"))
			h.until("told of the old one", func() bool { return h.lastTold() == meta.UUID{1} })
			h.assign(7, meta.UUID{2}) // too late
			if !h.in(p, paths[0]) || (p.Log().Err() == nil) != (failing == 1) {
				t.Errorf("in %s: %v", p.Log().Dir().Path(), p.Log().Err())
			}
			if failing == 1 {
				h.fill(p, 1)
			}
		})
		withDirs(t, paths, "", image, func(h *host) {
			p := h.partition(7)
			if want := int64(3 + failing); !h.in(p, paths[0]) || p.Log().LogEndOffset() != want {
				t.Errorf("after a start in %s to %d", p.Log().Dir().Path(), p.Log().LogEndOffset())
			}
			h.until("copied on", func() bool { return h.m.FutureOf(p).LogEndOffset() == p.Log().LogEndOffset() })
		})
	}
}

// A follower's log is cut while its copy has the part that goes; the copy loses it, too.
func TestACopyFollowsATruncation(t *testing.T) {
	paths := [2]string{t.TempDir(), t.TempDir()}
	withDirs(t, paths, "", meta.Empty(), func(h *host) {
		h.apply(placedTopic("a", 7, meta.UUID{1})...)
		p := h.partition(7)
		h.fill(p, 10)
		if err := h.m.MoveTo(h.tk, "a", 0, paths[1]); err != nil {
			t.Error(err)
		}
		h.until("copied", func() bool { return h.m.FutureOf(p).LogEndOffset() == 10 })
		if err := p.Log().TruncateTo(h.tk, 4); err != nil {
			t.Error(err)
		}
		h.apply(&meta.PartitionChangeRecord{TopicID: meta.UUID{7}, Leader: self, LeaderRecoveryState: meta.RecoveryUnchanged})
		h.fill(p, 9) // in the next epoch, and further than the copy was
		h.assign(7, meta.UUID{2})
		h.until("moved", func() bool { return h.in(p, paths[1]) })
		if epoch, end := p.Log().EndOffsetForEpoch(0); epoch != 0 || end != 4 {
			t.Errorf("epoch %d ends at %d", epoch, end)
		}
		for _, at := range []int64{0, 3, 4, 9, 12} {
			b, err := p.Log().ReadInto(h.tk, at, 1, storage.ToLogEnd, true, nil)
			want := int32(1)
			if at < 4 {
				want = 0
			}
			if err != nil || len(b) < 16 || int32(b[15]) != want {
				t.Errorf("offset %d: epoch %v of %d bytes: %v", at, b[12:16], len(b), err)
			}
		}
	})
}

// The rate bounds how fast a replica is copied, but for the end, which appends wait for.
func TestACopyIsThrottled(t *testing.T) {
	paths := [2]string{t.TempDir(), t.TempDir()}
	withDirs(t, paths, "", meta.Empty(), func(h *host) {
		h.cfg.AlterLogDirsThrottledRate = 1
		h.cfg.ReplicaFetchMaxBytes = 1
		h.apply(topicOf("a", 7, 0)...)
		p := h.partition(7)
		h.fill(p, 50)
		to := paths[1]
		if h.in(p, to) {
			to = paths[0]
		}
		if err := h.m.MoveTo(h.tk, "a", 0, to); err != nil {
			t.Error(err)
		}
		h.until("a first piece", func() bool { return h.m.FutureOf(p).LogEndOffset() > 0 })
		began := h.tk.Now()
		h.until("a second", func() bool { return h.tk.Now().Sub(began) > 3*throttlePause })
		if end := h.m.FutureOf(p).LogEndOffset(); end >= 50 {
			t.Errorf("copied to %d in no time", end)
		}
	})
}

// tells is how often the controller was told.
func (h *host) tells() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.told)
}
