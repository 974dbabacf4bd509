package scenarios

import (
	"slices"
	"strings"

	"seedlog/checker/history"
	"seedlog/checker/store"
	"seedlog/scenarios/client"
	"seedlog/sim/simdisk"
)

// guard compares what is on the broker's disk before a boot with what the broker makes of
// it (I16), judges recovery points and clean markers by what a crash left (I15), and tells
// the history where a power loss ended each log.
type guard struct {
	*Judge
	s *server
	r *Run
	// expected is what the recovery of the running incarnation must come to, by directory.
	expected map[string]store.Recovered
	pending  bool
	// forgotten is how many syncs had forgotten their data before the boot.
	forgotten int
	// before is the bytes of the logs of each log directory when the incarnation began.
	before map[string]int64
	led    led
}

func newGuard(s *server) *guard {
	r := s.r
	return &guard{s: s, r: r, Judge: &Judge{Files: s.Disk, Rec: r.Rec, Dead: r.dead, Interval: r.interval, Segment: r.segment}}
}

// beforeBoot works out what the coming recovery must find.
func (g *guard) beforeBoot() {
	g.Rec.Boot(g.s.Addr())
	g.expected, g.pending = make(map[string]store.Recovered), true
	g.forgotten = len(g.s.Disk.Forgotten())
	g.before = make(map[string]int64)
	for _, dir := range g.LogDirs {
		g.before[dir] = g.sizes(dir)
	}
	g.claims()
	g.leaders()
	for _, path := range g.Dirs() {
		g.Rec.Reload(g.s.Addr(), base(path))
		rec := g.Recovered(path)
		if rec.Corrupt != "" {
			if g.damaged(path) {
				g.bury(base(path))
			} else {
				g.r.Failf("I15", base(path), "%s, and nothing damaged the disk", rec.Corrupt)
			}
		}
		g.expected[path] = rec
	}
}

// damaged reports whether a fault changed stored bytes below the path.
func (g *guard) damaged(path string) bool {
	for _, d := range g.s.Disk.Damages() {
		if strings.HasPrefix(d.Path, path+"/") {
			return true
		}
	}
	return false
}

// bury notes that a partition's only copy is damaged: nothing more is expected of it.
func (g *guard) bury(name string) {
	if g.r.cluster != nil {
		return
	}
	h, _, _, _ := g.Rec.Take()
	for i, p := range h.Partitions {
		if client.PartitionName(p) == name {
			g.Dead[i] = true
		}
	}
}

// forgot reports whether a failed sync forgot something of a directory under the running incarnation.
func (g *guard) forgot(path string) bool {
	return slices.ContainsFunc(g.s.Disk.Forgotten()[g.forgotten:], func(file string) bool { return parent(file) == path })
}

// afterLoad compares, once a directory's logs are loaded and before anybody follows or
// truncates, what was recovered there.
func (g *guard) afterLoad(dir string) {
	for _, path := range g.Dirs() {
		rec, ok := g.expected[path]
		if !ok || parent(path) != dir || g.forgot(path) {
			continue
		}
		after := g.ParseLogs(path)
		if rec.Corrupt != "" {
			g.r.verdict.Merge(rec.CheckUntouched(after))
		} else if !g.s.offline {
			g.r.verdict.Merge(rec.CheckTail(after))
			g.r.verdict.Merge(rec.CheckRecovered(after, g.s.offline))
		}
		delete(g.expected, path)
	}
}

// afterBoot compares, once the broker serves, what it recovered. Where a sync of the recovery
// itself failed, what was found unsynced may be gone.
func (g *guard) afterBoot() {
	if !g.pending || g.r.cluster != nil {
		return
	}
	g.pending = false
	g.kept()
	g.leaders()
	for _, path := range g.Dirs() {
		if rec, ok := g.expected[path]; ok && !g.forgot(path) {
			g.r.verdict.Merge(rec.CheckRecovered(g.ParseLogs(path), g.s.offline))
		}
	}
}

// crashed is called right after a process ended, by a crash or after it had stopped. After a power
// loss, or where the disk was damaged or forgot, the history learns where each log now ends.
func (g *guard) crashed(power, stopped bool) {
	if c := g.r.cluster; c != nil {
		if !stopped || !c.ghost.cleanly(g.s) {
			c.ghost.crashed(g.s, power)
		}
		return
	}
	d := g.s.Disk
	if !power && d.Count(simdisk.SyncForgets).Fired == 0 && len(d.Damages()) == 0 {
		return
	}
	g.Rec.PowerLoss()
	at := g.Rec.Stamp()
	ends := make(map[string]int64)
	for _, path := range g.Dirs() {
		ends[base(path)] = max(ends[base(path)], g.Recovered(path).LogEndOffset) // one that moved may be there twice
	}
	h, _, _, _ := g.Rec.Take()
	for i, p := range h.Partitions {
		g.Rec.Cut(history.Cut{At: at, Partition: i, Offset: ends[client.PartitionName(p)]})
	}
}
