package scenarios

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"seedlog/checker/store"
	"seedlog/node/event"
	"seedlog/scenarios/client"
	"seedlog/sim/simdisk"
)

// claims judges what a crash left behind, before the next start mends it: every checkpoint
// is the old one or the new one, whole, and what lies below a recovery point is durable with
// all that is derived from it (I16). A disk that was damaged, or forgot what it was told to
// sync, keeps no promise.
func (g *guard) claims() {
	d := g.s.Disk
	if d.Count(simdisk.SyncForgets).Fired > 0 || len(d.Damages()) > 0 {
		return
	}
	for _, dir := range g.LogDirs {
		for _, name := range []string{"recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"} {
			g.whole(dir+"/"+name, wholeList)
		}
		for _, info := range g.Files.List(dir) {
			if info.Dir && info.Name == metadataDir {
				g.claimsOfMetadata(dir + "/" + info.Name)
			}
		}
	}
	g.stoppedWithin()
	for _, path := range g.Dirs() {
		g.whole(path+"/leader-epoch-checkpoint", wholeList)
		g.whole(path+"/partition.metadata", func(b string) bool { return strings.HasPrefix(b, "version: 0\ntopic_id: ") })
		p := g.ParseSealed(path)
		point := g.offsets(parent(path) + "/recovery-point-offset-checkpoint")[base(path)]
		start := g.offsets(parent(path) + "/log-start-offset-checkpoint")[base(path)]
		g.r.verdict.Merge(p.CheckSealed(point, store.Options{IndexIntervalBytes: g.Interval[topicOf(base(path))], LogStartOffset: start}))
	}
}

// stoppedWithin is I14 for every replica of a directory that was stopped cleanly, whoever led:
// its high watermark lies within its own log. After a crash it may lie above what is left.
func (g *guard) stoppedWithin() {
	for _, dir := range g.LogDirs {
		if _, clean := g.Files.ReadFile(dir + "/.kafka_cleanshutdown"); !clean {
			continue
		}
		starts, marks := g.offsets(dir+"/log-start-offset-checkpoint"), g.offsets(dir+"/replication-offset-checkpoint")
		for _, path := range g.Dirs() {
			mark, ok := marks[base(path)]
			if !ok || parent(path) != dir {
				continue
			}
			if start, end := starts[base(path)], g.Recovered(path).LogEndOffset; mark < start || mark > end {
				g.r.Failf("I14", g.s.where(path), "the log is [%d, %d), and its high watermark was %d when it was stopped", start, end, mark)
			}
		}
	}
}

func (g *guard) claimsOfMetadata(path string) {
	g.whole(path+"/quorum-state", func(b string) bool { return json.Valid([]byte(b)) })
	g.whole(path+"/leader-epoch-checkpoint", wholeList)
	g.snapshotThere(path, g.metadataStart(path), g.Files.ReadFile)
	for _, info := range g.Files.List(path) {
		if strings.HasSuffix(info.Name, ".checkpoint") {
			g.whole(path+"/"+info.Name, func(b string) bool { return b != "" && store.ScanFile([]byte(b)) == "" })
		}
	}
}

// whole is I16 for a file that is only ever replaced.
func (g *guard) whole(path string, sound func(content string) bool) {
	if b, ok := g.Files.ReadFile(path); ok && !sound(string(b)) {
		g.r.Failf("I16", path, "a crash left neither the old file nor the new one, but %d bytes: %.60q", len(b), b)
	}
}

// wholeList reports whether a checkpoint is version 0, a count, and as many lines.
func wholeList(b string) bool {
	lines := strings.Split(b, "\n")
	if len(lines) < 3 || lines[0] != "0" || lines[len(lines)-1] != "" {
		return false
	}
	n, err := strconv.Atoi(lines[1])
	return err == nil && len(lines) == n+3 && !slices.Contains(lines[:n+2], "")
}

// kept is I16 and I32 for what a start made of the directories: the torn tail is gone, what
// is corrupt is whole, and live replicas are where they were.
func (g *guard) kept() {
	for _, path := range slices.Sorted(maps.Keys(g.expected)) {
		rec, after := g.expected[path], g.ParseLogs(path)
		if rec.Corrupt != "" {
			g.r.verdict.Merge(rec.CheckUntouched(after))
		} else if !g.s.offline { // a directory that failed meanwhile was perhaps not recovered
			g.r.verdict.Merge(rec.CheckTail(after))
		}
		if g.live(base(path)) && !slices.ContainsFunc(g.Dirs(), func(now string) bool { return base(now) == base(path) }) {
			g.r.Failf("I32", base(path), "the directory of a live replica is gone")
		}
	}
}

// corrupt is I16 for what a recovery calls damaged: it must be, below the recovery point or
// under a clean marker, and not merely torn.
func (g *guard) corrupt(e event.Storage) {
	path := fmt.Sprintf("%s/%s-%d", e.Dir, e.Topic, e.Partition)
	if g.expected[path].Corrupt == "" && !g.damaged(path) && len(g.s.Disk.Forgotten()) == 0 {
		g.Rec.Failf("I16", base(path), "the recovery calls it corrupt from %d on, and nothing damaged it: %v", e.From, e.Err)
	}
}

// live reports whether a directory is that of a topic which nobody deletes.
func (g *guard) live(name string) bool {
	return slices.ContainsFunc(g.r.Topics, func(t *client.Topic) bool { return t.Name == topicOf(name) })
}

// sizes is the bytes of all logs of a directory, the metadata's too.
func (g *guard) sizes(dir string) (sum int64) {
	for _, info := range g.Files.List(dir) {
		if !info.Dir {
			continue
		}
		for _, f := range g.Files.List(dir + "/" + info.Name) {
			if strings.HasSuffix(f.Name, ".log") {
				sum += f.Size
			}
		}
	}
	return sum
}

// crashing is called right before a crash. It is I15 for the clean-shutdown marker: a process
// that was not asked to stop and has written to a directory's logs has removed the marker
// before, and durably: what a power loss would bring back counts. The sizes are those that
// the process saw: a power loss may also undo how an earlier one cut a log.
func (g *guard) crashing(power bool) {
	if g.s.StopAsked() {
		return
	}
	for _, dir := range g.LogDirs {
		path := dir + "/.kafka_cleanshutdown"
		_, marker := g.Files.ReadFile(path)
		if power && !marker {
			_, marker = g.s.Disk.ReadDurable(path)
		}
		if now := g.sizes(dir); marker && now != g.before[dir] {
			g.r.Failf("I15", g.s.where(dir), "the logs went from %d to %d bytes under a clean-shutdown marker", g.before[dir], now)
		}
	}
}
