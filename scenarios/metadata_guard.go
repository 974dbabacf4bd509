package scenarios

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"seedlog/checker/logfile"
	"seedlog/checker/store"
	"seedlog/node/event"
)

// led is the newest leadership of the quorum that the metadata log shows.
type led struct {
	offset int64
	epoch  int32
}

const metadataTopic = "__cluster_metadata"

// leaders is I9 over all lives of the broker: who leads the quorum writes that into the log
// first, and no two of these entries have the same epoch, nor does one go back. It is asked
// before each start and after it, for a snapshot makes the log forget. Of a lone broker only:
// in a cluster the entry of a leader that nobody followed is cut, and older leaderships of
// another log may come in its place; there checker/cluster compares all logs.
func (g *guard) leaders() {
	if g.r.cluster != nil {
		return
	}
	for _, dir := range g.LogDirs {
		path := dir + "/" + metadataDir
		g.ParseLogs(path).Batches(func(b *logfile.Batch) {
			if !b.IsControl() || !leaderChange(b) {
				return
			}
			switch {
			case b.Epoch > g.led.epoch:
				g.led = led{b.Base, b.Epoch}
			case b.Base > g.led.offset || b.Base == g.led.offset && b.Epoch != g.led.epoch:
				g.r.Failf("I9", metadataDir, "who leads from %d on does so in epoch %d; epoch %d was led from %d on", b.Base, b.Epoch, g.led.epoch, g.led.offset)
			}
		})
	}
}

// leaderChange reports whether a control batch says who leads: its key is a version and a type.
func leaderChange(b *logfile.Batch) bool {
	records, err := b.Records()
	return err == nil && len(records) > 0 && len(records[0].Key) == 4 && binary.BigEndian.Uint16(records[0].Key[2:]) == 2
}

// snapshotThere is I35: a metadata log that begins at start has a whole snapshot that ends
// there or above, and not above the log's end, unless that snapshot is taking the log's place
// and nothing is left of the log: its segments go one after the other, each emptied first. read is how the disk is looked at: as it is after a crash, or as
// a power loss now would leave it at worst.
func (g *guard) snapshotThere(path string, start int64, read func(name string) ([]byte, bool)) {
	if start == 0 {
		return
	}
	p := g.ParseLogs(path)
	end := p.LogEndOffset()
	for _, info := range g.Files.List(path) {
		at, ok := snapshotEnd(info.Name)
		if !ok || at < start || at > end && end > start {
			continue
		}
		if b, ok := read(path + "/" + info.Name); ok && len(b) > 0 && store.ScanFile(b) == "" {
			return
		}
	}
	g.Rec.Failf("I35", path, "the log [%d, %d] has no whole snapshot that ends within it", start, end)
}

// snapshotEnd reads the name of a snapshot: the offset it ends at, and the epoch there.
func snapshotEnd(name string) (int64, bool) {
	id, ok := strings.CutSuffix(name, ".checkpoint")
	offset, _, two := strings.Cut(id, "-")
	if !ok || !two || len(offset) != 20 {
		return 0, false
	}
	at, err := strconv.ParseInt(offset, 10, 64)
	return at, err == nil
}

// startMoved is I35 while the broker runs: the log start is raised, and the power may fail.
func (g *guard) startMoved(e event.Storage) {
	if e.Topic == metadataTopic && len(g.s.Disk.Damages()) == 0 {
		g.snapshotThere(fmt.Sprintf("%s/%s-%d", e.Dir, e.Topic, e.Partition), e.Offset, g.s.Disk.ReadDurable)
	}
}

// metadataStart is where the metadata log begins by what is on the disk.
func (g *guard) metadataStart(path string) int64 {
	start := g.offsets(parent(path) + "/log-start-offset-checkpoint")[base(path)]
	if p := g.ParseLogs(path); len(p.Segments) > 0 {
		start = max(start, p.Segments[0].Base)
	}
	return start
}
