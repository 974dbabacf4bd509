package replica

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"seedlog/clock/live"
	"seedlog/clock/task"
	"seedlog/disk/osfs"
	"seedlog/node/config"
	"seedlog/node/meta"
	"seedlog/storage"
)

// withDirs runs fn with a manager over two loaded directories, of which those in broken are
// offline from the start.
func withDirs(t *testing.T, paths [2]string, broken string, image *meta.Image, fn func(h *host)) {
	t.Helper()
	rt := live.New(live.Options{})
	cfg, _, err := config.Parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	live.Main(rt, func(tk *task.T) {
		var dirs []Dir
		topic := cfg.Topic(nil)
		for i, path := range paths {
			dir, err := storage.OpenDir(tk, storage.Env{RT: rt, Disk: osfs.New(osfs.Options{}), Rand: rand.New(rand.NewPCG(1, uint64(i)))}, path, storage.DirConfig{})
			if err != nil {
				t.Error(err)
				return
			}
			if path == broken {
				dir.Fail(errors.New("the disk burns"))
			} else if _, err := dir.Load(tk, func(string, [16]byte) storage.Config { return LogConfig(cfg, &topic) }, nil); err != nil {
				t.Error(err)
				return
			}
			dirs = append(dirs, Dir{ID: meta.UUID{byte(i + 1)}, Dir: dir})
		}
		h := &host{t: t, tk: tk, cfg: cfg, image: image}
		h.m = NewManager(Env{RT: rt, Self: self, Config: func() *config.Config { return cfg }, Dirs: dirs, Placed: h.tell})
		h.m.Adopt()
		h.m.Start()
		if image.Offset >= 0 {
			h.m.MetadataChanged(tk, image.Full())
		}
		fn(h)
		h.m.Close(tk)
		for _, d := range dirs {
			_ = d.Dir.CloseClean(tk, 1) // a broken one says so
		}
	})
}

// A partition whose directory is offline is offline, and not a new, empty one in another
// directory: what it acknowledged would be gone, and the next start would find it twice.
func TestAPartitionOfAnOfflineDirectoryIsNotMadeElsewhere(t *testing.T) {
	paths := [2]string{t.TempDir(), t.TempDir()}
	image, _ := withRecords(t, meta.Empty(), append(topicOf("a", 7, 0), topicOf("b", 8, 0)...)...)
	withDirs(t, paths, "", image, func(h *host) {
		for _, id := range []byte{7, 8} {
			if _, _, err := h.append(h.partition(id)); err != nil {
				t.Error(err)
			}
		}
	})
	withDirs(t, paths, paths[0], image, func(h *host) {
		if _, err := h.m.Partition(Key{Topic: meta.UUID{7}}); !errors.Is(err, storage.ErrOffline) {
			t.Errorf("the partition of the offline directory: %v", err)
		}
		if end := h.partition(8).Log().LogEndOffset(); end != 1 {
			t.Errorf("the other partition ends at %d", end)
		}
		// A change of its leadership does not make it anew either.
		h.apply(&meta.PartitionChangeRecord{TopicID: meta.UUID{7}, Leader: self})
		if _, err := h.m.Partition(Key{Topic: meta.UUID{7}}); !errors.Is(err, storage.ErrOffline) {
			t.Errorf("the partition of the offline directory, after a change: %v", err)
		}
		// What is created now can be nowhere else.
		h.apply(topicOf("c", 9, 0)...)
		h.partition(9)
	})
	withDirs(t, paths, "", image, func(h *host) {
		for _, id := range []byte{7, 8} {
			if end := h.partition(id).Log().LogEndOffset(); end != 1 {
				t.Errorf("topic %d ends at %d", id, end)
			}
		}
	})
}

// A partition that is assigned to a directory that is online is not in the offline one: its
// creation may be made up for.
func TestAPartitionAssignedToAnOnlineDirectoryIsMadeThere(t *testing.T) {
	paths := [2]string{t.TempDir(), t.TempDir()}
	bodies := topicOf("a", 7, 0)
	bodies[1].(*meta.PartitionRecord).Directories = []meta.UUID{{2}}
	image, _ := withRecords(t, meta.Empty(), bodies...)
	withDirs(t, paths, paths[0], image, func(h *host) {
		if path := h.partition(7).Log().Dir().Path(); path != paths[1] {
			t.Errorf("made in %s", path)
		}
	})
}

// A replica that is assigned to this broker anew is in no directory yet, the offline one included:
// it is made in one that is online, or the reassignment would never end. What the broker hosted
// before, and lost the directory of, is such a one, too, once it was taken away.
func TestAReplicaAddedWhileADirectoryIsOfflineIsMade(t *testing.T) {
	paths := [2]string{t.TempDir(), t.TempDir()}
	elsewhere := topicOf("b", 8, 0)
	b := elsewhere[1].(*meta.PartitionRecord)
	b.Replicas, b.ISR, b.Leader = []int32{2}, []int32{2}, 2
	image, _ := withRecords(t, meta.Empty(), append(topicOf("a", 7, 0), elsewhere...)...)
	withDirs(t, paths, "", image, func(h *host) { h.partition(7) })
	withDirs(t, paths, paths[0], image, func(h *host) {
		unassigned := []meta.UUID{meta.DirUnassigned, meta.DirUnassigned}
		change := func(id byte, replicas ...int32) {
			r := meta.NewPartitionChange(meta.UUID{id}, 0)
			r.Replicas, r.ISR, r.Leader, r.Directories = replicas, []int32{2}, 2, unassigned[:len(replicas)]
			h.apply(r)
		}
		change(8, 2, self)
		change(7, 2, self)
		if _, err := h.m.Partition(Key{Topic: meta.UUID{7}}); !errors.Is(err, storage.ErrOffline) {
			t.Errorf("the partition of the offline directory: %v", err)
		}
		change(7, 2)
		change(7, 2, self)
		for _, id := range []byte{7, 8} {
			if p := h.partition(id); p != nil && !h.in(p, paths[1]) {
				t.Errorf("topic %d made in %s", id, p.Log().Dir().Path())
			}
		}
	})
}

// A directory that fails while a partition is made in it fails alone: the partition is made in
// another. It has no directory that the controller could know to have failed, so nobody else would
// lead it.
func TestAPartitionIsMadeElsewhereWhenItsDirectoryFailsMeanwhile(t *testing.T) {
	paths := [2]string{t.TempDir(), t.TempDir()}
	image, _ := withRecords(t, meta.Empty(), topicOf("a", 7, 0)...)
	withDirs(t, paths, "", image, func(h *host) {
		full := h.partition(7).Log().Dir().Path()
		next, other := paths[0], paths[1]
		if next == full {
			next, other = other, next
		}
		if err := errors.Join(os.RemoveAll(next), os.WriteFile(next, nil, 0o644)); err != nil {
			t.Error(err)
		}
		h.apply(topicOf("b", 8, 0)...)
		if p := h.partition(8); p != nil && !h.in(p, other) {
			t.Errorf("made in %s", p.Log().Dir().Path())
		}
	})
}

// So does one that fails over what is left in it of an older topic of the name.
func TestAPartitionIsMadeElsewhereWhenTheOldOneCannotBePutAside(t *testing.T) {
	paths := [2]string{t.TempDir(), t.TempDir()}
	old, _ := withRecords(t, meta.Empty(), topicOf("a", 7, 0)...)
	withDirs(t, paths, "", old, func(h *host) { h.fill(h.partition(7), 1) })
	withDirs(t, paths, "", meta.Empty(), func(h *host) {
		was, other := paths[0], paths[1]
		if _, err := os.Stat(filepath.Join(was, "a-0")); err != nil {
			was, other = other, was
		}
		if err := errors.Join(os.Rename(was, was+".away"), os.WriteFile(was, nil, 0o644)); err != nil {
			t.Error(err)
		}
		h.image, _ = withRecords(t, meta.Empty(), topicOf("a", 8, 0)...)
		h.m.MetadataChanged(h.tk, h.image.Full())
		if p := h.partition(8); p != nil && !h.in(p, other) {
			t.Errorf("made in %s", p.Log().Dir().Path())
		}
	})
}
