package replica

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"seedlog/clock"
	"seedlog/clock/live"
	"seedlog/clock/task"
	"seedlog/disk/osfs"
	"seedlog/node/config"
	"seedlog/node/meta"
	"seedlog/node/partition"
	"seedlog/storage"
	"seedlog/storage/record"
)

const self = 1

// host is a Manager over a real directory, with metadata that the test makes.
type host struct {
	t     *testing.T
	tk    *task.T
	dir   *storage.Dir
	m     *Manager
	cfg   *config.Config
	image *meta.Image

	mu   sync.Mutex
	told []meta.UUID // the directories that the controller was told of
}

// tell notes what the controller is told.
func (h *host) tell(k Key) {
	id, ok := h.m.PlaceOf(k)
	h.mu.Lock()
	defer h.mu.Unlock()
	if ok {
		h.told = append(h.told, id)
	}
}

// lastTold is the directory that the controller was told of last.
func (h *host) lastTold() meta.UUID {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.told) == 0 {
		return meta.UUID{}
	}
	return h.told[len(h.told)-1]
}

// until waits for what other tasks do.
func (h *host) until(what string, cond func() bool) {
	h.t.Helper()
	for deadline := h.tk.Now().Add(time.Minute); !cond(); h.tk.Sleep(h.tk.Now().Add(time.Millisecond)) {
		if h.tk.Now() > deadline {
			panic("never: " + what)
		}
	}
}

// onDisk runs fn with a manager whose directory is path.
func onDisk(t *testing.T, path string, image *meta.Image, fn func(h *host)) {
	t.Helper()
	rt := live.New(live.Options{})
	cfg, _, err := config.Parse(map[string]string{"log.dirs": path})
	if err != nil {
		t.Fatal(err)
	}
	live.Main(rt, func(tk *task.T) {
		env := storage.Env{RT: rt, Disk: osfs.New(osfs.Options{}), Rand: rand.New(rand.NewPCG(1, 2))}
		dir, err := storage.OpenDir(tk, env, path, storage.DirConfig{})
		if err != nil {
			t.Error(err)
			return
		}
		topic := cfg.Topic(nil)
		if _, err := dir.Load(tk, func(string, [16]byte) storage.Config { return LogConfig(cfg, &topic) }, nil); err != nil {
			t.Error(err)
			return
		}
		h := &host{t: t, tk: tk, dir: dir, cfg: cfg, image: image}
		h.m = NewManager(Env{RT: rt, Self: self, Config: func() *config.Config { return cfg }, Dirs: []Dir{{ID: meta.UUID{1}, Dir: dir}}})
		h.m.Adopt()
		h.m.Start()
		if image.Offset >= 0 {
			h.m.MetadataChanged(tk, image.Full())
		}
		fn(h)
		h.m.Close(tk)
		if h.dir.Err() != nil {
			_ = h.dir.Close(tk) // it failed on purpose: what matters is that nothing is left
			return
		}
		if err := h.dir.CloseClean(tk, 1); err != nil {
			t.Error(err)
		}
	})
}

// apply lets the manager see records.
func (h *host) apply(bodies ...meta.Body) {
	h.t.Helper()
	next, delta := withRecords(h.t, h.image, bodies...)
	h.image = next
	h.m.MetadataChanged(h.tk, delta)
}

func withRecords(t *testing.T, image *meta.Image, bodies ...meta.Body) (*meta.Image, *meta.Delta) {
	t.Helper()
	var records []meta.Record
	for _, b := range bodies {
		records = append(records, meta.Record{Body: b})
	}
	next, delta, err := image.Apply(records, image.Offset+int64(len(records)), 1)
	if err != nil {
		t.Error(err)
	}
	return next, delta
}

// topicOf are the records of a topic with one partition that broker 1 leads.
func topicOf(name string, id byte, epoch int32) []meta.Body {
	return []meta.Body{
		&meta.TopicRecord{Name: name, TopicID: meta.UUID{id}},
		&meta.PartitionRecord{TopicID: meta.UUID{id}, Replicas: []int32{self}, ISR: []int32{self}, Leader: self, LeaderEpoch: epoch, PartitionEpoch: epoch},
	}
}

func (h *host) partition(id byte) *Partition {
	h.t.Helper()
	p, err := h.m.Partition(Key{Topic: meta.UUID{id}})
	if err != nil {
		h.t.Errorf("partition of topic %d: %v", id, err)
	}
	return p
}

func (h *host) append(p *Partition) (storage.AppendInfo, int32, error) {
	h.t.Helper()
	batch, err := record.AppendBatch(nil, record.NewOptions(0), nil, record.Record{Key: []byte("k"), Value: []byte("v")})
	if err != nil {
		h.t.Error(err)
	}
	return p.Append(h.tk, batch, storage.Client, true)
}

func dirNames(t *testing.T, path string) string {
	t.Helper()
	entries, err := os.ReadDir(path)
	if err != nil {
		t.Error(err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return strings.Join(names, " ")
}

func TestALonePartitionCommitsWhatItAppends(t *testing.T) {
	onDisk(t, t.TempDir(), meta.Empty(), func(h *host) {
		h.apply(topicOf("orders", 7, 0)...)
		p := h.partition(7)
		info, epoch, err := h.append(p)
		if err != nil || info.BaseOffset != 0 || epoch != 0 {
			t.Errorf("append: %+v in epoch %d, %v", info, epoch, err)
		}
		if hw := p.Log().HighWatermark(); hw != 1 {
			t.Errorf("high watermark %d, want 1", hw)
		}
		if done, err := p.CommittedTo(1, epoch); !done || err != nil {
			t.Errorf("committed: %t, %v", done, err)
		}
		if done, _ := p.CommittedTo(2, epoch); done {
			t.Error("what was not appended is committed")
		}
	})
}

func TestLogsAreFoundAgainAfterARestart(t *testing.T) {
	path := t.TempDir()
	image, _ := withRecords(t, meta.Empty(), topicOf("orders", 7, 0)...)
	onDisk(t, path, image, func(h *host) {
		for range 3 {
			if _, _, err := h.append(h.partition(7)); err != nil {
				t.Error(err)
			}
		}
	})
	onDisk(t, path, image, func(h *host) {
		p := h.partition(7)
		if end, hw := p.Log().LogEndOffset(), p.Log().HighWatermark(); end != 3 || hw != 3 {
			t.Errorf("log end %d, high watermark %d, want 3", end, hw)
		}
	})
}

// What the metadata of before the start says of leaders is not followed: the broker may have
// lost its tail since, or its leadership. It leads when the metadata shows this run of it.
func TestNothingIsLedBeforeTheRegistration(t *testing.T) {
	path := t.TempDir()
	before, _ := withRecords(t, meta.Empty(), append(topicOf("orders", 7, 3), &meta.RegisterBrokerRecord{BrokerID: self, IncarnationID: meta.UUID{1}})...)
	onDisk(t, path, meta.Empty(), func(h *host) {
		h.m.incarnation = meta.UUID{2}
		h.image = before
		h.m.MetadataChanged(h.tk, before.Full())
		if _, _, err := h.append(h.partition(7)); !errors.Is(err, ErrNotLeader) {
			t.Errorf("before it is registered: %v", err)
		}
		if epochs := h.partition(7).Log().Epochs(); len(epochs) != 0 {
			t.Errorf("epochs %v began", epochs)
		}
		h.apply(&meta.RegisterBrokerRecord{BrokerID: self, IncarnationID: meta.UUID{2}, BrokerEpoch: 9})
		if _, epoch, err := h.append(h.partition(7)); err != nil || epoch != 3 {
			t.Errorf("registered: epoch %d, %v", epoch, err)
		}
	})
}

// The names of directories say nothing about which topic they are of: a topic that was
// deleted and made again while the broker was down does not get the old one's records.
func TestARecreatedTopicDoesNotGetTheOldOnesLog(t *testing.T) {
	path := t.TempDir()
	old, _ := withRecords(t, meta.Empty(), topicOf("orders", 7, 0)...)
	onDisk(t, path, old, func(h *host) {
		if _, _, err := h.append(h.partition(7)); err != nil {
			t.Error(err)
		}
	})
	recreated, _ := withRecords(t, old, append([]meta.Body{&meta.RemoveTopicRecord{TopicID: meta.UUID{7}}}, topicOf("orders", 8, 0)...)...)
	onDisk(t, path, recreated, func(h *host) {
		if end := h.partition(8).Log().LogEndOffset(); end != 0 {
			t.Errorf("the new topic begins with %d old records", end)
		}
		if _, err := h.m.Partition(Key{Topic: meta.UUID{7}}); !errors.Is(err, ErrUnknownPartition) {
			t.Errorf("the old topic is still hosted: %v", err)
		}
		if names := dirNames(t, path); !strings.Contains(names, "-stray") {
			t.Errorf("the old directory was not moved aside: %s", names)
		}
	})
}

// What a broker reads of a deletion when it comes back is a deletion: nothing is left of the
// topic, whatever has its name now. Of a creation that was interrupted nothing is left either.
func TestATopicDeletedMeanwhileLeavesNothing(t *testing.T) {
	path := t.TempDir()
	old, _ := withRecords(t, meta.Empty(), append(append(topicOf("orders", 7, 0), topicOf("gone", 9, 0)...), topicOf("unread", 10, 0)...)...)
	onDisk(t, path, old, func(h *host) {
		for _, id := range []byte{7, 9, 10} {
			if _, _, err := h.append(h.partition(id)); err != nil {
				t.Error(err)
			}
		}
	})
	if err := os.Mkdir(path+"/begun-0", 0o755); err != nil {
		t.Fatal(err)
	}
	now, _ := withRecords(t, meta.Empty(), topicOf("orders", 8, 0)...)
	onDisk(t, path, meta.Empty(), func(h *host) {
		first := now.Full()
		first.Deleted = []meta.UUID{{7}, {9}}
		h.m.MetadataChanged(h.tk, first)
		if end := h.partition(8).Log().LogEndOffset(); end != 0 {
			t.Errorf("the new topic begins with %d old records", end)
		}
	})
	for _, name := range strings.Fields(dirNames(t, path)) {
		deleted := strings.HasSuffix(name, "-delete")
		switch topic, _, _ := strings.Cut(name, "-0"); {
		case name == "orders-0", topic == "unread" && strings.HasSuffix(name, "-stray"):
		case deleted && (topic == "orders" || topic == "gone" || topic == "begun"):
		default:
			t.Errorf("%s is left", name)
		}
	}
}

// Only what the metadata does not assign is stray; what it does assign stays (KAFKA-13127).
func TestOnlyUnassignedLogsAreStray(t *testing.T) {
	path := t.TempDir()
	both, _ := withRecords(t, meta.Empty(), append(topicOf("kept", 7, 0), topicOf("gone", 8, 0)...)...)
	onDisk(t, path, both, func(h *host) {})
	one, _ := withRecords(t, both, &meta.RemoveTopicRecord{TopicID: meta.UUID{8}})
	onDisk(t, path, one, func(h *host) {
		names := dirNames(t, path)
		if !strings.Contains(names, "kept-0") || strings.Contains(names, "kept-0.") {
			t.Errorf("the assigned log was moved: %s", names)
		}
		if strings.Contains(names+" ", "gone-0 ") {
			t.Errorf("the unassigned log was not: %s", names)
		}
	})
}

// A creation that was interrupted leaves a directory without a topic id. Several such
// directories of one index are stray all the same (seed 700267 of the swarm).
func TestDirectoriesWithoutATopicIDAreStray(t *testing.T) {
	path := t.TempDir()
	onDisk(t, path, meta.Empty(), func(h *host) {})
	for _, topic := range []string{"one", "two", "three"} {
		if err := os.Mkdir(path+"/"+topic+"-2", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	some, _ := withRecords(t, meta.Empty(), topicOf("orders", 7, 0)...)
	onDisk(t, path, some, func(h *host) {
		for _, name := range strings.Fields(dirNames(t, path)) {
			if strings.HasSuffix(name, "-2") {
				t.Errorf("%s is nobody's, and stays", name)
			}
		}
	})
}

func TestADeletedTopicsDirectoryIsRenamedAtOnce(t *testing.T) {
	path := t.TempDir()
	onDisk(t, path, meta.Empty(), func(h *host) {
		h.apply(topicOf("orders", 7, 0)...)
		p := h.partition(7)
		h.apply(&meta.RemoveTopicRecord{TopicID: meta.UUID{7}})
		if _, err := h.m.Partition(Key{Topic: meta.UUID{7}}); !errors.Is(err, ErrUnknownPartition) {
			t.Errorf("still hosted: %v", err)
		}
		if _, _, err := h.append(p); err == nil {
			t.Error("a deleted partition takes appends")
		}
		if names := dirNames(t, path); !strings.Contains(names, "-delete") {
			t.Errorf("not marked for deletion: %s", names)
		}
		h.apply(topicOf("orders", 9, 0)...)
		if end := h.partition(9).Log().LogEndOffset(); end != 0 {
			t.Errorf("the new topic of that name begins at %d", end)
		}
	})
}

// commitWaiter waits for a commit as a Produce does.
type commitWaiter struct {
	*waiter
	p        *Partition
	required int64
	epoch    int32
}

func (w *commitWaiter) Ready() bool {
	done, _ := w.p.CommittedTo(w.required, w.epoch)
	return done
}

// Who waits for a commit when leadership is lost is told so then, and not when its time is
// up; and it stays lost if the leadership comes back in a later epoch (KAFKA-2960).
func TestLosingLeadershipFailsTheWaiters(t *testing.T) {
	onDisk(t, t.TempDir(), meta.Empty(), func(h *host) {
		bodies := topicOf("orders", 7, 0)
		replicas := bodies[1].(*meta.PartitionRecord)
		replicas.Replicas, replicas.ISR = []int32{self, 2}, []int32{self, 2}
		h.apply(bodies...)
		p := h.partition(7)
		_, epoch, err := h.append(p)
		if err != nil {
			t.Error(err)
		}
		w := &commitWaiter{waiter: newWaiter(h.tk.Runtime()), p: p, required: 1, epoch: epoch}
		h.m.Purgatory().Watch(&w.delayed, w, clock.Never, &p.Committed)
		if n, _ := w.ended(); n != 0 {
			t.Error("committed without the follower")
		}
		change := meta.NewPartitionChange(meta.UUID{7}, 0)
		change.Leader = 2
		h.apply(change)
		if n, expired := w.ended(); n != 1 || expired {
			t.Errorf("after the demotion it ended %d times (expired %t)", n, expired)
		}
		if _, err := p.CommittedTo(1, epoch); !errors.Is(err, ErrNotLeader) {
			t.Errorf("the answer is %v", err)
		}
		change = meta.NewPartitionChange(meta.UUID{7}, 0)
		change.Leader = self
		h.apply(change)
		if _, err := p.CommittedTo(1, epoch); !errors.Is(err, ErrNotLeader) {
			t.Errorf("back in a later epoch, the answer is %v", err)
		}
		if _, err := p.LeaderEpoch(epoch); !errors.Is(err, partition.ErrFencedLeaderEpoch) {
			t.Errorf("the old epoch is %v", err)
		}
	})
}

func TestFailingADirectoryFailsTheWaiters(t *testing.T) {
	onDisk(t, t.TempDir(), meta.Empty(), func(h *host) {
		bodies := topicOf("orders", 7, 0)
		replicas := bodies[1].(*meta.PartitionRecord)
		replicas.Replicas, replicas.ISR = []int32{self, 2}, []int32{self, 2}
		h.apply(bodies...)
		p := h.partition(7)
		_, epoch, err := h.append(p)
		if err != nil {
			t.Error(err)
		}
		w := &commitWaiter{waiter: newWaiter(h.tk.Runtime()), p: p, required: 1, epoch: epoch}
		h.m.Purgatory().Watch(&w.delayed, w, clock.Never, &p.Committed)
		h.dir.Fail(errors.New("the disk burns"))
		if r := w.done.Wait(h.tk, h.tk.Now().Add(5*time.Second)); r != task.Woken {
			t.Error("nobody told the waiter")
		}
		if _, err := p.CommittedTo(1, epoch); !errors.Is(err, storage.ErrOffline) {
			t.Errorf("the answer is %v", err)
		}
		if _, _, err := h.append(p); !errors.Is(err, storage.ErrOffline) {
			t.Errorf("append: %v", err)
		}
		h.apply(topicOf("events", 8, 0)...)
		if _, err := h.m.Partition(Key{Topic: meta.UUID{8}}); !errors.Is(err, storage.ErrOffline) {
			t.Errorf("a new partition without a directory: %v", err)
		}
	})
}

// With flush.messages=1 nothing counts before it is synced, and what is appended meanwhile
// shares the sync.
func TestOnlySyncedRecordsAreCommittedWhereEveryMessageIsFlushed(t *testing.T) {
	onDisk(t, t.TempDir(), meta.Empty(), func(h *host) {
		one := "1"
		h.apply(append(topicOf("orders", 7, 0), &meta.ConfigRecord{ResourceType: meta.TopicResource, ResourceName: "orders", Name: "flush.messages", Value: &one})...)
		p := h.partition(7)
		var waiters []*commitWaiter
		for i := range int64(20) {
			info, epoch, err := h.append(p)
			if err != nil || !info.MustSync {
				t.Errorf("append: %+v, %v", info, err)
			}
			if hw, synced := p.Log().HighWatermark(), p.Log().SyncedEnd(); hw > synced {
				t.Errorf("high watermark %d above the synced end %d", hw, synced)
			}
			w := &commitWaiter{waiter: newWaiter(h.tk.Runtime()), p: p, required: i + 1, epoch: epoch}
			h.m.Purgatory().Watch(&w.delayed, w, clock.Never, &p.Committed)
			waiters = append(waiters, w)
		}
		for i, w := range waiters {
			if r := w.done.Wait(h.tk, h.tk.Now().Add(10*time.Second)); r != task.Woken {
				t.Errorf("append %d was never committed", i)
			}
		}
		if hw := p.Log().HighWatermark(); hw != 20 || p.Log().SyncedEnd() != 20 {
			t.Errorf("high watermark %d, synced end %d, want 20", hw, p.Log().SyncedEnd())
		}
	})
}

// Where only what is synced counts a leader syncs what it has when it begins, and when that
// begins to be so: perhaps nobody writes any more.
func TestALeaderSyncsWhatItHas(t *testing.T) {
	for _, leading := range []bool{true, false} {
		onDisk(t, t.TempDir(), meta.Empty(), func(h *host) {
			h.apply(topicOf("orders", 7, 0)...)
			p := h.partition(7)
			for range 3 {
				if _, _, err := h.append(p); err != nil {
					t.Error(err)
				}
			}
			one := "1"
			everySync := &meta.ConfigRecord{ResourceType: meta.TopicResource, ResourceName: "orders", Name: "flush.messages", Value: &one}
			if leading {
				h.apply(everySync)
			} else {
				h.apply(&meta.PartitionChangeRecord{TopicID: p.key.Topic, Leader: meta.NoLeader})
				h.apply(everySync)
				h.apply(&meta.PartitionChangeRecord{TopicID: p.key.Topic, Leader: self})
			}
			h.until("all is synced", func() bool { return p.Log().SyncedEnd() == 3 })
		})
	}
}

// What was wanted to be synced may be cut before it is, when another broker leads: the task that
// syncs must not go on for ever for the sake of an end that the log does not have.
func TestWhatIsCutNeedsNoSync(t *testing.T) {
	onDisk(t, t.TempDir(), meta.Empty(), func(h *host) {
		h.apply(topicOf("orders", 7, 0)...)
		p := h.partition(7)
		for range 5 {
			if _, _, err := h.append(p); err != nil {
				t.Error(err)
			}
		}
		var ended task.Event
		ended.Init(h.tk.Runtime(), "test.ended")
		p.mu.Lock()
		p.wantSync, p.syncing = 5, true
		p.mu.Unlock()
		if err := p.log.TruncateTo(h.tk, 2); err != nil {
			t.Error(err)
		}
		h.m.group.Go("sync", func(tk *task.T) {
			p.sync(tk)
			ended.Set()
		})
		if r := ended.Wait(h.tk, h.tk.Now().Add(10*time.Second)); r != task.Woken || p.Log().SyncedEnd() != 2 {
			t.Errorf("%v: synced to %d, the log ends at 2", r, p.Log().SyncedEnd())
		}
	})
}

func TestSettingsChangeWhileThePartitionRuns(t *testing.T) {
	onDisk(t, t.TempDir(), meta.Empty(), func(h *host) {
		h.apply(append(topicOf("orders", 7, 0), topicOf("other", 8, 0)...)...)
		size := "4096"
		h.apply(&meta.ConfigRecord{ResourceType: meta.TopicResource, ResourceName: "orders", Name: "max.message.bytes", Value: &size})
		if got := h.partition(7).Settings().MaxMessageBytes; got != 4096 {
			t.Errorf("max.message.bytes is %d", got)
		}
		if got := h.partition(8).Settings().MaxMessageBytes; got != 1048588 {
			t.Errorf("the other topic's is %d", got)
		}
	})
}

func TestPartitionsAreListedByName(t *testing.T) {
	onDisk(t, t.TempDir(), meta.Empty(), func(h *host) {
		h.apply(append(topicOf("b", 7, 0), topicOf("a", 8, 0)...)...)
		list := slices.SortedFunc(slices.Values(h.m.Partitions()), ByName)
		if len(list) != 2 || list[0].String() != "a-0" || list[1].String() != "b-0" {
			t.Errorf("listed %v", list)
		}
	})
}

// A broker that was behind sees several changes at once. What it was told last of an ISR rests on
// the min.insync.replicas that came before it, whichever of the two it looks at first: here 3 may
// lead, for nothing is committed by two of three any more; there, for nothing was yet.
func TestAnISRIsSeenWithTheSettingItRestsOn(t *testing.T) {
	minISR := func(to string) meta.Body {
		return &meta.ConfigRecord{ResourceType: meta.TopicResource, ResourceName: "orders", Name: "min.insync.replicas", Value: &to}
	}
	isr := func(isr, elr []int32) meta.Body {
		r := meta.NewPartitionChange(meta.UUID{7}, 0)
		r.ISR, r.EligibleLeaderReplicas = isr, elr
		return r
	}
	for _, c := range []struct {
		name  string
		first []meta.Body
		next  []meta.Body
	}{
		{"raised, and one left", []meta.Body{minISR("2")}, []meta.Body{minISR("3"), isr([]int32{self, 2}, []int32{3})}},
		{"one left, and lowered", []meta.Body{minISR("3"), isr([]int32{self, 2}, []int32{3})}, []meta.Body{isr([]int32{self}, []int32{2, 3}), minISR("2")}},
	} {
		onDisk(t, t.TempDir(), meta.Empty(), func(h *host) {
			h.apply(&meta.TopicRecord{Name: "orders", TopicID: meta.UUID{7}},
				&meta.PartitionRecord{TopicID: meta.UUID{7}, Replicas: []int32{self, 2, 3}, ISR: []int32{self, 2, 3}, Leader: self})
			h.apply(c.first...)
			p := h.partition(7)
			if _, _, err := p.Append(h.tk, oneRecord(), storage.Client, false); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			for _, f := range []partition.FollowerFetch{{Replica: 2, Offset: 1}, {Replica: 3, Offset: 0}} {
				f.LeaderEnd, f.Now = 1, h.tk.Now()
				if err := p.FollowerFetched(0, f); err != nil {
					t.Errorf("%s: %v", c.name, err)
				}
			}
			h.apply(c.next...)
			if hw := p.Log().HighWatermark(); hw != 0 {
				t.Errorf("%s: what 3 does not have is committed, and 3 may lead", c.name)
			}
		})
	}
}
