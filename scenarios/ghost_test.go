package scenarios

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"seedlog/checker"
	"seedlog/checker/cluster"
	"seedlog/checker/logfile"
	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/node/raft"
	"seedlog/scenarios/client"
	"seedlog/sim"
	"seedlog/sim/sched"
	"seedlog/sim/simdisk"
	"seedlog/sim/simnet"
)

// onDisk is a server that never runs, and what is written to its disk.
func onDisk(t *testing.T) *server {
	w := sim.New(1, sched.Calm(), simnet.Calm(), nil)
	t.Cleanup(w.Close)
	return &server{Machine: w.AddMachine("b1", simdisk.Config{}, sched.ClockParams{})}
}

const watchedDir = "/data/t-0"

func segmentPath(base int64) string { return fmt.Sprintf("%s/%020d.log", watchedDir, base) }

// log is n batches of one record from an offset on.
func logBytes(from, n int64, epoch byte) (b []byte) {
	for i := range n {
		one := client.Encode(nobody, []client.Record{{Value: []byte{byte(from + i), epoch}}})
		one[7], one[15] = byte(from+i), epoch
		b = append(b, one...)
	}
	return b
}

// ledBytes is the same of a leader's epoch, the first: a recovery keeps it.
func ledBytes(from, n int64) []byte {
	b := logBytes(from, n, 1)
	for size := len(b) / int(n); n > 0; n-- {
		copy(b[int(n-1)*size+12:], []byte{0, 0, 0})
	}
	return b
}

// A watcher that reads what is new must come to what one comes to that reads everything.
func TestWatchingALogIsReadingIt(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		s := onDisk(t)
		w := &watched{metadata: true}
		var last []cluster.Entry
		first, end, epoch := int64(0), int64(0), byte(0)
		segs := []int64{0}
		content := map[int64][]byte{0: nil}
		for range 60 {
			top := segs[len(segs)-1]
			switch rng.IntN(8) {
			case 0: // roll
				if end > top {
					segs = append(segs, end)
					content[end] = nil
				}
			case 1: // truncate into the last segment, and go on in another epoch
				if end > top {
					end -= 1 + rng.Int64N(end-top)
					content[top] = content[top][:len(logBytes(top, end-top, 0))]
					epoch++
				}
			case 2: // remove from the front
				if len(segs) > 1 {
					delete(content, segs[0])
					s.Disk.RemoveFile(segmentPath(segs[0]))
					segs = segs[1:]
					first = segs[0]
				}
			default:
				n := 1 + rng.Int64N(3)
				content[top] = append(content[top], logBytes(end, n, epoch)...)
				end += n
			}
			half := 0
			for _, base := range segs {
				b := slices.Clone(content[base])
				if base == segs[len(segs)-1] && rng.IntN(3) == 0 { // a batch is being written
					b = append(b, logBytes(end, 1, epoch)[:30]...)
					half = 30
				}
				if was, ok := s.Disk.ReadFile(segmentPath(base)); ok && bytes.HasPrefix(b, was) {
					s.Disk.AppendFile(segmentPath(base), b[len(was):])
				} else {
					s.Disk.WriteFile(segmentPath(base), b)
				}
			}
			if rng.IntN(2) == 0 {
				continue
			}
			kept, _ := w.read(s, watchedDir)
			fresh := &watched{metadata: true}
			fresh.read(s, watchedDir)
			if fmt.Sprint(w.entries) != fmt.Sprint(fresh.entries) || len(w.batches) != len(w.entries) || int64(len(w.entries)) != end-first {
				t.Fatalf("watched %v\nread    %v\nlog is [%d, %d), half a batch of %d bytes", w.entries, fresh.entries, first, end, half)
			}
			for i := range w.entries[:kept] {
				if j := int(w.entries[i].Base - lastBase(last)); j >= 0 && j < len(last) && last[j] != w.entries[i] {
					t.Fatalf("entry %d is said to be kept and changed from %v to %v", i, last[j], w.entries[i])
				}
			}
			if got := w.durable(s, watchedDir); got != end && end > first {
				t.Fatalf("all is durable up to %d, not %d", got, end)
			}
			last = append(last[:0], w.entries...)
		}
	}
}

// A topic that is deleted and made again between two looks has its new directory where the old
// one was: what is there is the new topic's.
func TestADirectoryOfTheSameNameIsAnotherTopics(t *testing.T) {
	s := onDisk(t)
	g := lookingAt(s, "/data")
	look := func(id byte, want string) {
		t.Helper()
		g.lookAt(0, s)
		p := &cluster.Partition{Topic: "t", ID: cluster.ID{id}, Replicas: []int32{1}}
		if got := g.replicas.Differ(p); got != want {
			t.Errorf("topic id %d: %q, want %q", id, got, want)
		}
	}
	name := func(id byte) {
		text := base64.RawURLEncoding.EncodeToString(append([]byte{id}, make([]byte, 15)...))
		s.Disk.WriteFile(watchedDir+"/partition.metadata", []byte("version: 0\ntopic_id: "+text))
		s.Disk.WriteFile(segmentPath(0), nil)
	}
	name(7)
	look(7, "")
	s.Disk.RemoveFile(watchedDir + "/partition.metadata")
	s.Disk.RemoveFile(segmentPath(0))
	name(8)
	look(8, "")
	look(7, "t-0 has no directory")
	s.Disk.RemoveFile(watchedDir + "/partition.metadata")
	look(8, "t-0 has no directory on node 1")
}

// lookingAt is the checks of one server that never ran, with these directories.
func lookingAt(s *server, dirs ...string) *ghost {
	s.id, s.guard = 1, &guard{Judge: &Judge{Files: s.Disk, LogDirs: dirs}}
	g := &ghost{logs: []map[string]*watched{{}}}
	g.quorum = cluster.NewQuorum(1, nil, &g.verdict)
	g.replicas = cluster.NewReplicas(g.quorum.State, &g.verdict)
	return g
}

// A directory that failed as a replica was made in it keeps a name without a log. The replica is
// where it was made anew, whichever of the two is looked at last.
func TestAReplicaIsWhereItWasMadeToTheEnd(t *testing.T) {
	const metadata = "version: 0\ntopic_id: BwAAAAAAAAAAAAAAAAAAAA"
	for _, dirs := range [][]string{{"/data", "/more"}, {"/more", "/data"}} {
		s := onDisk(t)
		g := lookingAt(s, dirs...)
		s.Disk.WriteFile("/more/t-0/partition.metadata.tmp", nil)
		s.Disk.WriteFile(watchedDir+"/partition.metadata", []byte(metadata))
		s.Disk.WriteFile(segmentPath(0), logBytes(0, 3, 1))
		for range 2 {
			g.lookAt(0, s)
			if got := g.replicas.Ends("t-0"); got[1] != 3 {
				t.Errorf("directories %v: ends %v", dirs, got)
			}
		}
		s.Disk.RemoveFile(segmentPath(0))
		s.Disk.RemoveFile(watchedDir + "/partition.metadata")
		g.lookAt(0, s)
		if got := g.replicas.Ends("t-0"); len(got) != 0 {
			t.Errorf("directories %v: ends %v after it was deleted", dirs, got)
		}
	}
}

// What a directory of an earlier topic of the name has is nothing of the replica's, whether it goes or
// stays: neither is the replica gone with it, nor there by it, nor has it what that has.
func TestAnEarlierTopicsDirectoryIsAnothers(t *testing.T) {
	name := func(id byte) []byte {
		return []byte("version: 0\ntopic_id: " + base64.RawURLEncoding.EncodeToString(append([]byte{id}, make([]byte, 15)...)))
	}
	for _, c := range []struct {
		goes string
		want int
	}{{"/more/t-0", 1}, {watchedDir, 0}} {
		s := onDisk(t)
		g := lookingAt(s, "/more", "/data")
		s.Disk.WriteFile("/more/t-0/partition.metadata", name(7))
		s.Disk.WriteFile("/more/t-0/00000000000000000000.log", ledBytes(0, 9))
		s.Disk.WriteFile(watchedDir+"/partition.metadata", name(8))
		s.Disk.WriteFile(segmentPath(0), ledBytes(0, 5))
		g.lookAt(0, s)
		if got := g.replicas.Ends("t-0"); got[1] != 5 {
			t.Fatalf("ends %v", got)
		}
		if c.want > 0 {
			s.Disk.WriteFile(segmentPath(0), ledBytes(0, 3))
			if !g.lost(s, true)("t-0") {
				t.Error("two of five records are gone, and none is lost")
			}
			s.Disk.WriteFile(segmentPath(0), ledBytes(0, 5))
			if g.lost(s, true)("t-0") {
				t.Error("five of five records are there, and some are lost")
			}
		}
		for _, info := range s.Disk.List(c.goes) {
			s.Disk.RemoveFile(c.goes + "/" + info.Name)
		}
		g.lookAt(0, s)
		if got := g.replicas.Ends("t-0"); len(got) != c.want {
			t.Errorf("%s goes: ends %v", c.goes, got)
		}
	}
}

// A disk that was replaced has none of the logs that were seen on it: nobody takes the node for
// one that holds what is committed once it registers again.
func TestAWipedDiskHasNoLogs(t *testing.T) {
	s := onDisk(t)
	g := lookingAt(s, "/data")
	s.Disk.WriteFile(watchedDir+"/partition.metadata", []byte("version: 0\ntopic_id: BwAAAAAAAAAAAAAAAAAAAA"))
	s.Disk.WriteFile(segmentPath(0), logBytes(0, 3, 1))
	g.lookAt(0, s)
	if got := g.replicas.Ends("t-0"); got[1] != 3 {
		t.Fatalf("ends %v", got)
	}
	g.wiped(s)
	if got := g.replicas.Ends("t-0"); len(got) != 0 {
		t.Errorf("ends %v after the disk was wiped", got)
	}
}

// What a failed sync makes the disk drop is lost with the process, though the log was seen
// without it before that ended; what a process cuts itself is not.
func TestWhatTheDiskDroppedIsLostWithTheProcess(t *testing.T) {
	whole := ledBytes(0, 20)
	for _, drops := range []bool{true, false} {
		w := sim.New(1, sched.Calm(), simnet.Calm(), nil)
		t.Cleanup(w.Close)
		s := &server{Machine: w.AddMachine("b1", simdisk.Config{}, sched.ClockParams{}), id: 1}
		s.guard = &guard{Judge: &Judge{Files: s.Disk, LogDirs: []string{"/data"}}, s: s}
		g := &ghost{r: &Run{servers: []*server{s}}, logs: []map[string]*watched{{}}}
		g.quorum = cluster.NewQuorum(1, nil, &g.verdict)
		g.replicas = cluster.NewReplicas(g.quorum.State, &g.verdict)
		s.Disk.WriteFile(watchedDir+"/partition.metadata", []byte("version: 0\ntopic_id: BwAAAAAAAAAAAAAAAAAAAA"))
		s.Disk.WriteFile(segmentPath(0), nil)
		failSync(t, w, s.Disk, segmentPath(0), whole, func() bool {
			b, _ := s.Disk.ReadFile(segmentPath(0))
			g.look()
			return bytes.Equal(b, whole) != drops
		})
		if !drops { // the process that saw the sync fail has ended, and another one cuts
			g.crashed(s, false)
			s.guard.forgotten = len(s.Disk.Forgotten())
			s.Disk.WriteFile(segmentPath(0), ledBytes(0, 9))
			g.look()
		}
		if end := g.logs[0][watchedDir].end(); end == 20 {
			t.Fatalf("drops %v: nothing is gone", drops)
		}
		if got := g.lost(s, false)("t-0"); got != drops {
			t.Errorf("drops %v: lost %v", drops, got)
		}
		g.crashed(s, false)
		if g.lost(s, false)("t-0") {
			t.Errorf("drops %v: the next process lost it, too", drops)
		}
	}
}

// What a failed sync drops was there before, and may have been acknowledged, though nobody had
// looked since it was written.
func TestWhatTheDiskDropsIsSeenFirst(t *testing.T) {
	w := sim.New(1, sched.Calm(), simnet.Calm(), nil)
	t.Cleanup(w.Close)
	r := &Run{World: w, Rec: client.NewRecorder(), cluster: &clusterRun{}}
	s := r.addServer("b1", simdisk.Config{}, sched.ClockParams{})
	s.guard.LogDirs = []string{"/data"}
	g := newGhost(r, nil)
	r.cluster.ghost = g
	s.Disk.WriteFile(watchedDir+"/partition.metadata", []byte("version: 0\ntopic_id: BwAAAAAAAAAAAAAAAAAAAA"))
	s.Disk.WriteFile(segmentPath(0), nil)
	whole := ledBytes(0, 20)
	failSync(t, w, s.Disk, segmentPath(0), whole, func() bool {
		b, _ := s.Disk.ReadFile(segmentPath(0))
		return !bytes.Equal(b, whole)
	})
	g.look()
	if end := g.logs[0][watchedDir].end(); end == 20 {
		t.Fatal("nothing is gone")
	}
	if !g.lost(s, false)("t-0") {
		t.Error("what was dropped was not lost")
	}
}

// Who stopped cleanly has lost nothing, and no loss of others is lawful by it: each directory says so,
// in the epoch in which the broker is registered. Any other end may have taken something.
func TestACleanStopIsNoCrash(t *testing.T) {
	const marker = `{"version":0,"brokerEpoch":7}`
	for _, c := range []struct {
		name    string
		stopped bool
		markers map[string]string
		offline bool
		clean   bool
	}{
		{"stopped", true, map[string]string{"/data": marker, "/more": marker}, false, true},
		{"killed", false, map[string]string{"/data": marker, "/more": marker}, false, false},
		{"a directory does not say so", true, map[string]string{"/data": marker}, false, false},
		{"in an epoch before", true, map[string]string{"/data": `{"version":0,"brokerEpoch":6}`, "/more": marker}, false, false},
		{"without an epoch", true, map[string]string{"/data": marker, "/more": `{"version":0}`}, false, false},
		{"it had lost a directory", true, map[string]string{"/data": marker, "/more": marker}, true, false},
	} {
		s := onDisk(t)
		g := lookingAt(s, "/data", "/more")
		s.offline, s.guard.s = c.offline, s
		g.r = &Run{servers: []*server{s}, cluster: &clusterRun{ghost: g}}
		s.guard.r = g.r
		for dir, text := range c.markers {
			s.Disk.WriteFile(dir+"/.kafka_cleanshutdown", []byte(text))
		}
		p := &cluster.Partition{Topic: "t", ID: cluster.ID{7}, Replicas: []int32{1}, ISR: []int32{1}}
		g.quorum.State.Brokers = append(g.quorum.State.Brokers, &cluster.Broker{ID: 1, Epoch: 7})
		g.quorum.State.Partitions = append(g.quorum.State.Partitions, p)
		g.replicas.See(1, "t-0", p.ID, 0, nil, 0)
		s.guard.crashed(false, c.stopped)
		// Only of who crashed and is not back nobody asks what is durable.
		g.replicas.Synced(p, 0, func(cluster.ID, int32) bool { return false }, func(int32) bool { return false })
		if asked := !g.verdict.OK(); asked != c.clean {
			t.Errorf("%s: clean %v", c.name, asked)
		}
	}
}

// What a disk forgot of a partition excuses no vote that is not durable; what it forgot of the quorum
// does.
func TestAForgottenPartitionExcusesNoVote(t *testing.T) {
	for path, excused := range map[string]bool{segmentPath(0): false, "/data/" + metadataDir + "/quorum-state": true} {
		w := sim.New(1, sched.Calm(), simnet.Calm(), nil)
		t.Cleanup(w.Close)
		s := &server{Machine: w.AddMachine("b1", simdisk.Config{}, sched.ClockParams{}), id: 1}
		s.guard = &guard{Judge: &Judge{Files: s.Disk, LogDirs: []string{"/data"}}, s: s}
		g := &ghost{r: &Run{servers: []*server{s}}}
		s.Disk.WriteFile(path, nil)
		failSync(t, w, s.Disk, path, ledBytes(0, 20), func() bool { return len(s.Disk.Forgotten()) > 0 })
		g.granted(s, raft.Note{Epoch: 3, Replica: raft.ReplicaKey{ID: 2}})
		if g.r.verdict.OK() != excused {
			t.Errorf("%s was forgotten: %v", path, g.r.verdict)
		}
	}
}

// failSync writes a file and fails its sync, so that the disk forgets, until there is enough.
func failSync(t *testing.T, w *sim.World, d *simdisk.Disk, path string, content []byte, enough func() bool) {
	t.Helper()
	ended := false
	group, _ := w.Client("writer")
	group.Go("write", func(t *task.T) {
		m := d.Mount(t.Runtime())
		for !ended {
			f, err := m.Open(t, path, disk.Create)
			if err != nil {
				return
			}
			if _, err = f.WriteAt(t, content, 0); err != nil {
				return
			}
			enough() // as it is before
			d.Arm(&simdisk.Injection{Fault: simdisk.SyncForgets})
			ended = f.Sync(t) != nil && enough()
			f.Close(t)
		}
	})
	if !w.Run(func() bool { return ended }, time.Minute) {
		t.Fatalf("the disk forgot nothing: %v", w.Failure())
	}
}

// A snapshot that is being installed has what is below it while the segments go that it takes
// the place of; a log that loses them to nothing has lost what was committed.
func TestASnapshotTakesTheLogsPlace(t *testing.T) {
	const dir = "/data/" + metadataDir
	segment := func(base int64) string { return fmt.Sprintf("%s/%020d.log", dir, base) }
	for _, c := range []struct {
		snapshot string // its name, if there is one
		segments []int64
		ok       bool
	}{
		{"00000000000000000009-0000000001.checkpoint", []int64{0}, true},
		{"00000000000000000009-0000000001.checkpoint", nil, true},
		{"00000000000000000009-0000000001.checkpoint", []int64{9}, true},
		{"00000000000000000002-0000000001.checkpoint", nil, false},
		{"", []int64{0}, false},
		{"", nil, false},
	} {
		s := onDisk(t)
		s.id, s.guard = 1, &guard{Judge: &Judge{Files: s.Disk, LogDirs: []string{"/data"}}, s: s}
		g := &ghost{logs: []map[string]*watched{{}}}
		g.quorum = cluster.NewQuorum(1, []cluster.Voter{{ID: 1}}, &g.verdict)
		look := func() {
			g.metadata(s, g.logs[0], dir)
			g.quorum.Advance()
		}
		s.Disk.WriteFile(segment(0), ledBytes(0, 3))
		s.Disk.WriteFile(segment(3), ledBytes(3, 2))
		look()
		look() // what is committed is compared when the next one is
		if got := g.quorum.Committed(); got != 5 {
			t.Fatalf("committed %d", got)
		}
		if c.snapshot != "" {
			s.Disk.WriteFile(dir+"/"+c.snapshot, ledBytes(0, 1))
			g.logs[0][dir].snapshots = map[string]bool{c.snapshot: true} // what it says is not judged here
		}
		for _, base := range []int64{0, 3} {
			if !slices.Contains(c.segments, base) {
				s.Disk.RemoveFile(segment(base))
			}
		}
		if slices.Contains(c.segments, 9) {
			s.Disk.WriteFile(segment(9), nil)
		}
		g.verdict = checker.Verdict{} // the records are nobody's
		look()
		if lost := strings.Contains(fmt.Sprint(g.verdict), "I35"); lost == c.ok {
			t.Errorf("snapshot %q, segments %v: %v", c.snapshot, c.segments, g.verdict)
		}
	}
}

func lastBase(e []cluster.Entry) int64 {
	if len(e) == 0 {
		return 0
	}
	return e[0].Base
}

// After a lawful loss, who has not led since tells of what was before; below the loss, and by
// who leads, an answer counts.
func TestWhoHasNotLedSinceALossTellsOfBefore(t *testing.T) {
	const log, name, cutAt, epoch = 0, "t-0", 9, 3
	for _, c := range []struct {
		told   client.Told
		lost   bool
		teller client.Teller
		counts bool
	}{
		{client.Told{Below: 8, Asked: 20, Epoch: -1, By: "b1:9092"}, false, client.Leading, true},
		{client.Told{Below: 8, Asked: 20, Epoch: 3, By: "b1:9092"}, false, client.Following, true},
		{client.Told{Below: 8, Asked: 20, Epoch: 3, By: "b2:9092"}, false, client.Leading, true},
		{client.Told{Below: 8, Asked: 20, Epoch: 5, By: "b2:9092"}, false, client.Following, true}, // nobody leads in it yet
		{client.Told{Below: 8, Asked: 20, Epoch: -1, By: "b1:9092"}, true, client.Stranded, false},
		{client.Told{Below: 8, Asked: 20, Epoch: 3, By: "b1:9092"}, true, client.Stranded, false},
		{client.Told{Below: 8, Asked: 20, Epoch: -1, By: "b2:9092"}, true, client.Leading, true},
		{client.Told{Below: 8, Asked: 8, Epoch: -1, By: "b2:9092"}, true, client.Leading, false},
		{client.Told{Below: 8, Asked: 20, Epoch: -1, By: "b3:9092"}, true, client.Stranded, false}, // it leads again since 21
		{client.Told{Below: 8, Asked: 20, Epoch: 1, By: "b2:9092"}, true, client.Following, false},
		{client.Told{Below: 4, Asked: 20, Epoch: -1, By: "b1:9092"}, true, client.Leading, true},
		{client.Told{Below: 4, Asked: 20, Epoch: 1, By: "b1:9092"}, true, client.Leading, false},
	} {
		w := sim.New(1, sched.Calm(), simnet.Calm(), nil)
		t.Cleanup(w.Close)
		one := &server{Machine: w.AddMachine("b1", simdisk.Config{}, sched.ClockParams{}), id: 1}
		two := &server{Machine: w.AddMachine("b2", simdisk.Config{}, sched.ClockParams{}), id: 2}
		three := &server{Machine: w.AddMachine("b3", simdisk.Config{}, sched.ClockParams{}), id: 3}
		r := &Run{Rec: client.NewRecorder(), servers: []*server{one, two, three}}
		g := &ghost{r: r, cuts: make(map[int]cut), floors: make(map[string]floor)}
		g.quorum = cluster.NewQuorum(2, nil, &g.verdict)
		g.replicas = cluster.NewReplicas(g.quorum.State, &g.verdict)
		r.Rec.Log("t", [16]byte{1}, 0)
		g.replicas.See(1, name, cluster.ID{1}, 0, []cluster.Entry{{Base: 0, Last: 7, Epoch: 1}}, 0)
		g.replicas.Began(1, name, 1, 0, 1)
		g.replicas.Began(2, name, epoch, 5, cutAt)
		g.replicas.Began(3, name, epoch+1, 5, 21)
		if c.lost {
			g.cuts[log] = cut{at: cutAt, epoch: epoch, offset: 5}
		}
		if got := g.told(c.told); got != c.teller {
			t.Errorf("lost %v, %+v: teller %v", c.lost, c.told, got)
		}
		if counts := g.replicas.HighWatermark(name) == c.told.Below; counts != c.counts {
			t.Errorf("lost %v, %+v: counts %v", c.lost, c.told, counts)
		}
	}
}

// A power loss tears a header where the CRC does not reach: the batch names nothing, and what lies
// behind it neither.
func TestATornHeaderIsNoBatch(t *testing.T) {
	b := func(base, last int64, epoch int32) logfile.Batch {
		return logfile.Batch{Base: base, Last: last, Epoch: epoch}
	}
	before := []cluster.Entry{{Base: 5, Last: 8, Epoch: 2}}
	for _, c := range []struct {
		name    string
		before  []cluster.Entry
		batches []logfile.Batch
		want    int
	}{
		{"whole", before, []logfile.Batch{b(9, 10, 2), b(11, 11, 3)}, 2},
		{"an offset of zero", before, []logfile.Batch{b(0, 1, 2), b(11, 11, 3)}, 0},
		{"an offset of what was there before", before, []logfile.Batch{b(9, 10, 2), b(12, 13, 3)}, 1},
		{"an epoch of zero", before, []logfile.Batch{b(9, 10, 0)}, 0},
		{"the first one of a segment", nil, []logfile.Batch{b(5, 6, 0), b(7, 7, 0)}, 2},
		{"the first one, in whose midst the log starts", nil, []logfile.Batch{b(3, 6, 0)}, 1},
		{"the first one with an offset of zero", nil, []logfile.Batch{b(0, 1, 0)}, 0},
	} {
		if got := sound(c.before, 5, c.batches); got != c.want {
			t.Errorf("%s: %d batches, expected %d", c.name, got, c.want)
		}
	}
}
