package scenarios

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"seedlog/checker"
	"seedlog/checker/cluster"
	"seedlog/checker/logfile"
	"seedlog/checker/store"
	"seedlog/sim/simdisk"
)

// ghost reads the logs of all servers from their disks as the run goes on, a bit of it at a
// time, and hands them to the checks of package cluster.
type ghost struct {
	r        *Run
	quorum   *cluster.Quorum
	replicas *cluster.Replicas
	verdict  checker.Verdict
	logs     []map[string]*watched // by server and path
	cuts     map[int]cut           // by log
	floors   map[string]floor      // by partition
	heard    map[voice][]said
	copies   map[voice]copied
	rises    int
}

// watched is one log directory as it was read last.
type watched struct {
	reading  bool
	id       cluster.ID
	named    simdisk.Seen // the file that says the id
	files    []file
	entries  []cluster.Entry
	batches  []logfile.Batch // of the metadata log only
	metadata bool
	looked   int // the round in which it was there
	// had is where it ended before a failed sync forgot some of it under the running process, or 0.
	had int64
	// snapshots are those of the metadata log that were seen.
	snapshots map[string]bool
}

// file is a segment, with how many batches lie below it and in it.
type file struct {
	base  int64
	seen  simdisk.Seen
	count int   // entries of this file
	end   int64 // bytes that are whole batches
}

func newGhost(r *Run, voters []cluster.Voter) *ghost {
	g := &ghost{r: r, cuts: make(map[int]cut), floors: make(map[string]floor), heard: make(map[voice][]said), copies: make(map[voice]copied)}
	g.quorum = cluster.NewQuorum(len(r.servers), voters, &g.verdict)
	g.replicas = cluster.NewReplicas(g.quorum.State, &g.verdict)
	for range r.servers {
		g.logs = append(g.logs, make(map[string]*watched))
	}
	r.Rec.OnTold, r.Rec.OnPoll, r.Rec.Leads, r.Rec.LedIn = g.told, g.polled, g.leads, g.ledIn
	return g
}

// look reads what is new on all disks.
func (g *ghost) look() {
	for i, s := range g.r.servers {
		g.dirs(i, s, true)
	}
	g.quorum.Advance()
	if id, behind := g.quorum.Behind(); behind {
		g.jump(g.r.servers[id-1])
		g.quorum.Advance()
	}
	for i, s := range g.r.servers {
		g.lookAt(i, s) // whose topics they are is known by now
	}
}

// jump begins anew with a server's newest snapshot, where the logs go on nowhere else.
func (g *ghost) jump(s *server) {
	for _, dir := range s.guard.LogDirs {
		path, newest := dir+"/"+metadataDir, ""
		for _, info := range s.Disk.List(path) {
			if strings.HasSuffix(info.Name, ".checkpoint") {
				newest = info.Name // names sort by offset
			}
		}
		if b, ok := s.Disk.ReadFile(path + "/" + newest); ok && len(newest) > 20 {
			end, err := strconv.ParseInt(newest[:20], 10, 64)
			batches, _, why := logfile.Scan(b)
			if err == nil && why == "" {
				g.quorum.Jump(end, batches)
			}
		}
	}
}

// check looks and compares.
func (g *ghost) check() {
	g.look()
	g.losses()
	pending := g.quorum.Unsettled()
	g.replicas.Check(pending, func(node int32) bool {
		s := g.r.servers[node-1]
		return !s.offline && !s.gone && !s.dropped()
	})
	g.hand()
}

// hand gives what was found to the run.
func (g *ghost) hand() {
	if !g.verdict.OK() {
		g.r.verdict.Merge(g.verdict)
		g.verdict = checker.Verdict{}
		g.r.found = true
	}
}

// lookAt reads what is new in a server's partitions.
func (g *ghost) lookAt(i int, s *server) { g.dirs(i, s, false) }

// dirs reads what is new in a server's metadata log, or in its partitions.
func (g *ghost) dirs(i int, s *server, metadata bool) {
	seen := g.logs[i]
	for _, w := range seen { //order: each is marked
		if w.metadata == metadata {
			w.looked = 0
		}
	}
	for _, dir := range s.guard.LogDirs {
		for _, info := range s.Disk.List(dir) {
			switch path := dir + "/" + info.Name; {
			case !info.Dir:
			case metadata && info.Name == metadataDir:
				g.metadata(s, seen, path)
			case !metadata && isPartition(info.Name):
				g.partition(s, seen, path)
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(seen)) {
		if w := seen[path]; w.looked == 0 && w.metadata == metadata {
			delete(seen, path)
			if !metadata {
				g.left(s, seen, path, w.id)
			}
		}
	}
}

// left notes that a directory of a partition is no more: the replica is gone, or in another
// directory of the machine (KIP-113).
func (g *ghost) left(s *server, seen map[string]*watched, path string, id cluster.ID) {
	for _, dir := range s.guard.LogDirs {
		if w := seen[dir+"/"+base(path)]; w != nil && w.looked > 0 && w.id == id {
			g.replicas.See(s.id, base(path), id, w.start(), w.entries, 0)
			return
		}
	}
	g.replicas.Gone(s.id, base(path), id)
}

func (g *ghost) partition(s *server, seen map[string]*watched, path string) {
	w := seen[path]
	if w == nil {
		w = &watched{}
		seen[path] = w
	}
	w.looked = 1
	// A topic that was deleted and made again since the last look has its directory where the
	// old one's was.
	_, named, _, ok := s.Disk.Appended(path+"/partition.metadata", w.named)
	if !ok || named != w.named {
		id, ok := s.guard.topicID(path)
		if !ok {
			*w = watched{id: w.id} // it is being made, or never was to its end: no log, but another directory may have it
			return
		}
		*w = watched{id: id, named: named, looked: 1}
	}
	before := w.end()
	if kept, changed := w.read(s, path); (changed || kept == 0) && !w.outdated(s, seen, path) {
		g.replicas.See(s.id, base(path), w.id, w.start(), w.entries, kept)
	}
	if w.end() < before && s.guard.forgot(path) {
		w.had = max(w.had, before)
	}
}

// outdated reports whether another directory of the machine has more of the log: a move that was
// broken off as the copy took the log's name leaves two, and the next start takes the newer one
// (KIP-113).
func (w *watched) outdated(s *server, seen map[string]*watched, path string) bool {
	for _, dir := range s.guard.LogDirs {
		o := seen[dir+"/"+base(path)]
		if o == nil || o == w || o.id != w.id {
			continue
		}
		if mine, its := w.epoch(), o.epoch(); its > mine || its == mine && o.end() > w.end() {
			return true
		}
	}
	return false
}

// epoch is that of the last batch, or -1.
func (w *watched) epoch() int32 {
	if n := len(w.entries); n > 0 {
		return w.entries[n-1].Epoch
	}
	return -1
}

func (g *ghost) metadata(s *server, seen map[string]*watched, path string) {
	w := seen[path]
	if w == nil {
		w = &watched{metadata: true}
		seen[path] = w
	}
	w.looked = 1
	kept, _ := w.read(s, path)
	if id, ok := s.directory(parent(path)); ok {
		g.quorum.Directory(s.id, id)
	}
	g.quorum.See(s.id, w.begins(s, path), w.batches, kept, w.durable(s, path))
	g.vote(s, path)
	g.snapshots(s, w, path)
}

// snapshots has those compared that are new.
func (g *ghost) snapshots(s *server, w *watched, path string) {
	for _, info := range s.Disk.List(path) {
		end, epoch, ok := cluster.SnapshotID(info.Name)
		if !ok || w.snapshots[info.Name] {
			continue
		}
		if w.snapshots == nil {
			w.snapshots = make(map[string]bool)
		}
		w.snapshots[info.Name] = true
		b, _ := s.Disk.ReadFile(path + "/" + info.Name)
		batches, _, why := logfile.Scan(b)
		if why != "" {
			g.verdict.Failf("I31", s.where(path+"/"+info.Name), "%s", why)
			continue
		}
		g.r.World.Probe("snapshot-read")
		g.quorum.Snapshot(s.where(path+"/"+info.Name), end, epoch, batches)
	}
}

// vote reads the durable quorum state.
func (g *ghost) vote(s *server, path string) {
	b, ok := s.Disk.ReadDurable(path + "/quorum-state")
	if !ok {
		return
	}
	var state struct{ LeaderEpoch, VotedID int32 }
	state.VotedID = -1
	if json.Unmarshal(b, &state) == nil {
		g.quorum.Vote(s.id, state.LeaderEpoch, state.VotedID)
	}
}

// segments lists the segments of a directory.
func segments(s *server, path string) (out []int64) {
	for _, info := range s.Disk.List(path) {
		if digits, ok := strings.CutSuffix(info.Name, ".log"); ok && len(digits) == 20 {
			if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
				out = append(out, n)
			}
		}
	}
	return out
}

// read brings what is known of the log up to date; entries[:kept] are as they were. It runs in the
// midst of the nodes' tasks, and nothing that it calls may wait or take a task's lock: another task
// would read meanwhile.
func (w *watched) read(s *server, path string) (kept int, changed bool) {
	if w.reading {
		panic("scenarios: a check waited while it read " + path)
	}
	w.reading = true
	defer func() { w.reading = false }()
	bases := segments(s, path)
	// Segments that were removed from the front take their entries along.
	for len(w.files) > 0 && (len(bases) == 0 || w.files[0].base < bases[0]) {
		w.drop(0, w.files[0].count)
		w.files = w.files[1:]
		changed = true
	}
	kept = len(w.entries)
	at := 0 // entries before the segment
	for i, start := range bases {
		if i < len(w.files) && w.files[i].base != start || i == len(w.files) {
			w.forget(i, at)
			kept = min(kept, at)
			w.files = append(w.files, file{base: start})
		}
		f := &w.files[i]
		b, now, all, ok := s.Disk.Appended(fmt.Sprintf("%s/%020d.log", path, start), f.seen)
		if !ok || f.seen == now && f.end == now.Size {
			at += f.count
			continue
		}
		if all {
			w.forget(i+1, at+f.count)
			w.drop(at, f.count)
			f = &w.files[i]
			kept, f.count, f.end = min(kept, at), 0, 0
		} else if f.end < f.seen.Size { // a batch was half written the last time
			b, now, _, _ = s.Disk.Appended(fmt.Sprintf("%s/%020d.log", path, start), f.seen.At(f.end))
		}
		changed = true
		f.seen = now
		batches, whole, _ := logfile.Scan(b)
		if !s.serves || s.dropped() {
			before := w.entries[at : at+f.count]
			if n := sound(before, start, batches); n < len(batches) {
				batches, whole = batches[:n], batches[n].Pos
			}
		}
		for k := range batches {
			batches[k].Pos += f.end
		}
		f.end += whole
		w.insert(at+f.count, batches)
		f.count += len(batches)
		at += f.count
	}
	w.forget(len(bases), at)
	return min(kept, len(w.entries)), changed || kept > len(w.entries)
}

// sound is how many batches of a segment that begins at start a recovery may keep, behind those
// before. Offset and epoch lie outside of a batch's CRC, and a power loss may have torn it there:
// it names nothing then; so may a failed sync that drops what it did not write. What a node has
// written since it serves is not excused otherwise.
func sound(before []cluster.Entry, start int64, batches []logfile.Batch) int {
	next, epoch := int64(-1), int32(math.MinInt32)
	if n := len(before); n > 0 {
		next, epoch = before[n-1].Last+1, before[n-1].Epoch
	}
	for i := range batches {
		b := &batches[i]
		first := next < 0 && b.Base <= start && b.Last >= start
		if !first && b.Base != next || b.Epoch < epoch {
			return i
		}
		next, epoch = b.Last+1, b.Epoch
	}
	return len(batches)
}

// start is where the first segment begins.
func (w *watched) start() int64 {
	if len(w.files) == 0 {
		return 0
	}
	return w.files[0].base
}

// end is where the last batch ends, if there is one.
func (w *watched) end() int64 {
	if n := len(w.entries); n > 0 {
		return w.entries[n-1].Last + 1
	}
	return 0
}

// begins is where a metadata log begins: where its first segment does, or where the snapshot
// ends that is taking its place. That one is durable before the segments go, one after the
// other, and the one that begins there comes after them.
func (w *watched) begins(s *server, path string) int64 {
	start, end := w.start(), w.end()
	for _, info := range s.Disk.List(path) {
		at, _, ok := cluster.SnapshotID(info.Name)
		if !ok || at <= max(start, end) {
			continue
		}
		if b, ok := s.Disk.ReadDurable(path + "/" + info.Name); ok && len(b) > 0 && store.ScanFile(b) == "" {
			start = at
		}
	}
	return start
}

// forget drops the segments from the i-th on, before which there are so many entries.
func (w *watched) forget(i, entries int) {
	if i < len(w.files) {
		w.files = w.files[:i]
	}
	if entries < len(w.entries) {
		w.drop(entries, len(w.entries)-entries)
	}
}

func (w *watched) drop(at, n int) {
	w.entries = slices.Delete(w.entries, at, at+n)
	if w.metadata {
		w.batches = slices.Delete(w.batches, at, at+n)
	}
}

func (w *watched) insert(at int, batches []logfile.Batch) {
	for i := range batches {
		b := &batches[i]
		w.entries = slices.Insert(w.entries, at+i, cluster.Entry{Base: b.Base, Last: b.Last, Epoch: b.Epoch, CRC: binary.BigEndian.Uint32(b.Raw[17:])})
		if w.metadata {
			w.batches = slices.Insert(w.batches, at+i, *b)
		}
	}
}

// durable is the offset below which a power loss takes nothing of the log.
func (w *watched) durable(s *server, path string) int64 {
	at := 0
	end := int64(0)
	for _, f := range w.files {
		bytes := s.Disk.DurableEnd(fmt.Sprintf("%s/%020d.log", path, f.base))
		for _, b := range w.batches[at : at+f.count] {
			if b.Pos+b.Size() > bytes {
				return end
			}
			end = b.Last + 1
		}
		at += f.count
	}
	return end
}

// crashed tells the checks of an unclean end, after the history's guard has seen it.
func (g *ghost) crashed(s *server, power bool) {
	g.replicas.Crashed(s.id, g.lost(s, power))
	g.check()
	for _, w := range g.logs[s.id-1] { //order: each by itself
		w.had = 0
	}
}

// cleanly reports whether a process that has stopped did so cleanly, as a start and the controller will
// take it: each directory says so, in the broker's epoch. It has lost nothing then, and stays eligible.
func (g *ghost) cleanly(s *server) bool {
	b := g.quorum.State.Broker(s.id)
	if b == nil || s.offline || s.forgetful() {
		return false
	}
	for _, dir := range s.guard.LogDirs {
		text, _ := s.Disk.ReadFile(dir + "/.kafka_cleanshutdown")
		marker := struct{ BrokerEpoch int64 }{-1}
		if json.Unmarshal(text, &marker) != nil || marker.BrokerEpoch != b.Epoch {
			return false
		}
	}
	return true
}

// begins notes that a server has lost a directory before it serves: it registers as one that did not
// stop cleanly, whatever the others say.
func (g *ghost) begins(s *server) {
	g.replicas.Crashed(s.id, func(string) bool { return false })
}

// lost says of the server's logs whether the end of its process took some. What a failed sync
// forgot under the process counts: the disk may have dropped it long before.
func (g *ghost) lost(s *server, power bool) func(name string) bool {
	before := make(map[string]*watched)
	another := func(path string) bool { // it is of a topic that had the name before
		w := g.logs[s.id-1][path]
		id, ok := g.replicas.ID(base(path))
		return w != nil && !w.metadata && ok && w.id != id
	}
	for _, path := range slices.Sorted(maps.Keys(g.logs[s.id-1])) { // of two directories with the log, who reaches farthest
		w := g.logs[s.id-1][path]
		if another(path) {
			continue
		}
		if o := before[base(path)]; max(w.end(), w.had) > 0 && (o == nil || max(o.end(), o.had) < max(w.end(), w.had)) {
			before[base(path)] = w
		}
	}
	forgot := s.Disk.Count(simdisk.SyncForgets).Fired > 0 || len(s.Disk.Damages()) > 0
	return func(name string) bool {
		if !power && !forgot {
			return false
		}
		had, has := g.replicas.HighWatermark(name), int64(0)
		for _, path := range s.guard.Dirs() {
			if base(path) == name && !another(path) {
				has = max(has, s.guard.Recovered(path).LogEndOffset)
			}
		}
		if w, ok := before[name]; ok {
			had = max(had, w.had, w.end())
			has = min(has, w.end()) // a recovery does not look for holes below its point
		}
		return has < had
	}
}

// withdrawn tells the checks that a server, which is down, comes back without one of its
// directories.
func (g *ghost) withdrawn(s *server, dir string) {
	there := make(map[string]bool)
	for path := range g.logs[s.id-1] { //order: into a map
		if strings.HasPrefix(path, dir+"/") {
			there[base(path)] = true
		}
	}
	g.replicas.Crashed(s.id, func(name string) bool { return there[name] })
}

// wiped tells the checks that a server has an empty disk now.
func (g *ghost) wiped(s *server) {
	for path, w := range g.logs[s.id-1] { //order: each is forgotten
		if !w.metadata {
			g.replicas.Gone(s.id, base(path), w.id)
		}
	}
	s.replaced = true
	g.logs[s.id-1] = make(map[string]*watched)
	g.quorum.Forget(s.id)
	g.replicas.Wiped(s.id)
}

// began notes where a leader begins, and compares it with what was told to be committed as soon
// as the metadata on the disks has come to that. Who has not read yet that a topic was deleted may
// begin to lead it when there is another of the name.
func (g *ghost) began(s *server, name string, epoch int32, offset int64) {
	g.look()
	if id, ok := g.replicas.ID(name); ok && !g.has(s, name, id) {
		return
	}
	g.replicas.Began(s.id, name, epoch, offset, uint64(g.r.Rec.Stamp()))
	g.check()
}

// has reports whether a server has a directory of the topic's partition.
func (g *ghost) has(s *server, name string, id cluster.ID) bool {
	for _, dir := range s.guard.LogDirs {
		if w := g.logs[s.id-1][dir+"/"+name]; w != nil && w.id == id {
			return true
		}
	}
	return false
}

// every is the simulated time between two looks.
const every = time.Second

// watch looks now and then until the run ends.
func (g *ghost) watch() {
	w := g.r.World
	var again func()
	again = func() {
		g.check()
		w.Sched.At(w.Now().Add(every), again)
	}
	w.Sched.At(w.Now().Add(every), again)
}
