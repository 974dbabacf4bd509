package scenarios

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"seedlog/checker/history"
	"seedlog/checker/logfile"
	"seedlog/node/raft"
	"seedlog/node/replica"
	"seedlog/scenarios/client"
	"seedlog/sim/simdisk"
)

// voters is I35 for a change of the voters that a leader has just appended.
func (g *ghost) voters(s *server, n raft.Note) {
	for _, o := range g.r.servers {
		if o.forgetsMetadata() {
			return
		}
	}
	g.look()
	g.quorum.Changed(s.id, n.Offset)
	if n.Kind == raft.VersionRaised {
		g.quorum.Raised(s.id, n.Offset)
	}
	g.hand()
}

// forgetful says that the disk does not keep what it was told to sync, or spoils it.
func (s *server) forgetful() bool {
	return s.Disk.Count(simdisk.SyncForgets).Fired > 0 || len(s.Disk.Damages()) > 0
}

// forgetsMetadata says so of the quorum's files. What a failed sync forgot of a partition took
// nothing of theirs.
func (s *server) forgetsMetadata() bool {
	of := func(path string) bool { return strings.Contains(path, metadataDir) }
	return slices.ContainsFunc(s.Disk.Forgotten(), of) || slices.ContainsFunc(s.Disk.Damages(), func(d simdisk.Damage) bool { return of(d.Path) })
}

// forgotStarts says so of where its logs start.
func (s *server) forgotStarts() bool {
	return slices.ContainsFunc(s.Disk.Forgotten(), func(path string) bool { return strings.Contains(path, "log-start-offset-checkpoint") })
}

// promised takes the end of a record that a story was told is committed.
func (g *ghost) promised(name string, below int64) {
	g.replicas.Told(name, below)
	g.look()
	g.synced(name, below)
	g.hand()
}

// synced is I4 for topics that acknowledge only what is synced: what was told to be committed
// is durable on every member of the ISR.
func (g *ghost) synced(name string, below int64) {
	p := g.quorum.State.Named(name)
	if p == nil {
		return
	}
	if v, ok := g.quorum.State.Config(p.Topic, "flush.messages"); ok && v != "1" || !ok && !g.r.Rec.OffsetsSynced {
		return
	}
	g.replicas.Synced(p, below, g.quorum.Unsettled(), func(node int32) bool {
		s := g.r.servers[node-1]
		return s.offline || s.gone || s.forgetful() || g.durable(s, name, below)
	})
}

// entersQuorum is I35 for a start: the first Fetch of a voter says that what it has is durable,
// and what a process before left in the page cache is not.
func (g *ghost) entersQuorum(s *server) {
	if s.forgetsMetadata() || s.dropped() {
		return
	}
	dir := s.config.LogDirs[0] + "/" + metadataDir
	for _, info := range s.Disk.List(dir) {
		path := dir + "/" + info.Name
		if !strings.HasSuffix(info.Name, ".log") {
			continue
		}
		b, _ := s.Disk.ReadFile(path)
		all, _, _ := logfile.Scan(b)
		kept, _, _ := logfile.Scan(b[:min(int64(len(b)), s.Disk.DurableEnd(path))])
		if len(kept) < len(all) {
			g.verdict.Failf("I35", s.where(path), "the node takes part in the quorum with %d batches, of which %d are durable", len(all), len(kept))
			g.hand()
		}
	}
}

// durable reports whether a power loss would leave a replica the batch right below an offset. One
// that takes its copy's place is in two directories for a moment: in one of them is enough.
func (g *ghost) durable(s *server, name string, below int64) bool {
	there := false
	for path, w := range g.logs[s.id-1] { //order: the answer is the same in any
		if base(path) != name {
			continue
		}
		if there = true; w.keeps(s, path, below) {
			return true
		}
	}
	return !there
}

func (w *watched) keeps(s *server, path string, below int64) bool {
	for i := len(w.files) - 1; i >= 0; i-- {
		if w.files[i].base >= below {
			continue
		}
		file := fmt.Sprintf("%s/%020d.log", path, w.files[i].base)
		b, _ := s.Disk.ReadFile(file)
		batches, _, _ := logfile.Scan(b[:min(int64(len(b)), s.Disk.DurableEnd(file))])
		return len(batches) > 0 && batches[len(batches)-1].Last >= below-1
	}
	return true // it begins above
}

// anew notes that a log begins with nothing: without a batch, and without a producer snapshot,
// which would say what was below.
func (g *ghost) anew(s *server, dir, name string) {
	start := int64(-1)
	for _, info := range s.Disk.List(dir + "/" + name) {
		digits, segment := strings.CutSuffix(info.Name, ".log")
		if segment && info.Size > 0 || strings.HasSuffix(info.Name, ".snapshot") {
			return
		}
		if n, err := strconv.ParseInt(digits, 10, 64); segment && err == nil && start < 0 {
			start = n
		}
	}
	if start >= 0 {
		g.replicas.Anew(s.id, name, start)
	}
}

// voice is one process about one log. The topic's id is left out where an event does not tell it.
type voice struct {
	node  int32
	boots int
	name  string
	id    [16]byte
}

// said is the largest high watermark that a process has told of a log, and when it had.
type said struct {
	at            history.Stamp
	highWatermark int64
}

// polled is I6 for each replica by itself: the high watermark that a process tells consumers of
// a log goes on, also over changes of its leader, until a loss of the log is lawful. A follower
// whose own went back would let a consumer see less than before.
func (g *ghost) polled(p history.Poll) {
	for _, s := range g.r.servers {
		if s.Addr() != p.Node {
			continue
		}
		if p.Invoke < s.born {
			return // an answer that comes after the end of who gave it
		}
		name := g.r.Rec.Name(p.Partition)
		told := client.Told{Log: p.Partition, Below: p.HighWatermark, By: p.Node}
		if c, ok := g.cuts[p.Partition]; ok && (p.Invoke < c.at || p.LeaderEpoch < c.epoch || g.stranded(name, c, told)) {
			return
		}
		g.heardOf(voice{s.id, s.Boots, name, g.r.Rec.TopicID(p.Partition)}, p.HighWatermark, p.Invoke, p.Return)
		return
	}
}

// heardOf takes a high watermark that a process told, in an answer to a question.
func (g *ghost) heardOf(v voice, highWatermark int64, asked, answered history.Stamp) {
	list := g.heard[v]
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].at >= asked {
			continue
		}
		if highWatermark < list[i].highWatermark {
			g.verdict.Failf("I6", v.name, "node %d says %d, and said %d before it was asked", v.node, highWatermark, list[i].highWatermark)
			g.hand()
		}
		break
	}
	if n := len(list); n == 0 || list[n-1].highWatermark < highWatermark {
		g.heard[v] = append(list, said{answered, highWatermark})
	}
}

// forgets drops what processes said of a log that has lost something.
func (g *ghost) forgets(name string) {
	for v := range g.heard { //order: each by itself
		if v.name == name {
			delete(g.heard, v)
		}
	}
}

// copied is where a follower's log ended when it began to follow in an epoch.
type copied struct {
	epoch int32
	end   int64
}

// follows notes where a follower begins. What ends below what its process said of it is a new
// log of that name.
func (g *ghost) follows(s *server, e replica.FollowerBegan) {
	name := fmt.Sprintf("%s-%d", e.Topic, e.Partition)
	g.copies[voice{node: s.id, boots: s.Boots, name: name}] = copied{e.LeaderEpoch, e.Offset}
	for v, list := range g.heard { //order: each by itself
		if v.node == s.id && v.name == name && e.Offset < list[len(list)-1].highWatermark {
			delete(g.heard, v)
		}
	}
}

// diverged is I1 for what a follower copies: what it appended in an epoch is from the log of
// that epoch's leader, which does not part from itself. What is cut is older than the epoch.
func (g *ghost) diverged(s *server, e replica.LogDiverged) {
	name := fmt.Sprintf("%s-%d", e.Topic, e.Partition)
	v := voice{node: s.id, boots: s.Boots, name: name}
	c, ok := g.copies[v]
	if ok && c.epoch == e.LeaderEpoch && e.From > c.end {
		g.verdict.Failf("I1", name, "node %d follows in epoch %d since its log ended at %d, and cuts %d to %d, which parts from its leader's: it copied from another",
			s.id, e.LeaderEpoch, c.end, e.To, e.From)
		g.hand()
	}
	g.copies[v] = copied{e.LeaderEpoch, e.To}
}
