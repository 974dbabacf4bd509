package scenarios

import (
	"fmt"
	"testing"

	"seedlog/scenarios/client"
)

// A snapshot counts for a log that begins somewhere if it ends within it. One that ends above takes
// the log's place once nothing is left of that: seed 803194 lost power as the last segment was
// emptied and not yet removed.
func TestASnapshotIsThereForTheLog(t *testing.T) {
	const dir = "/data/" + metadataDir
	for _, c := range []struct {
		name     string
		snapshot int64
		segments map[int64][]byte
		ok       bool
	}{
		{"within the log", 5, map[int64][]byte{3: ledBytes(3, 4)}, true},
		{"below its start", 3, map[int64][]byte{3: ledBytes(3, 4)}, false},
		{"above its end", 9, map[int64][]byte{3: ledBytes(3, 4)}, false},
		{"no segment is left", 9, nil, true},
		{"the last one is empty", 9, map[int64][]byte{3: nil}, true},
		{"the log is cut to its start", 9, map[int64][]byte{3: ledBytes(3, 1)}, true},
	} {
		s := onDisk(t)
		rec := client.NewRecorder()
		s.guard = &guard{Judge: &Judge{Files: s.Disk, LogDirs: []string{"/data"}, Rec: rec}, s: s}
		for base, content := range c.segments {
			s.Disk.WriteFile(fmt.Sprintf("%s/%020d.log", dir, base), content)
		}
		s.Disk.WriteFile(fmt.Sprintf("%s/%020d-0000000001.checkpoint", dir, c.snapshot), ledBytes(0, 1))
		s.guard.snapshotThere(dir, 4, s.Disk.ReadFile)
		if _, _, _, v := rec.Take(); v.OK() != c.ok {
			t.Errorf("%s: %v", c.name, v.Violations)
		}
	}
}
