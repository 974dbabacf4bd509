package scenarios

import (
	"testing"

	"seedlog/checker/history"
	"seedlog/scenarios/client"
)

// A broker has what lies in its own log of the partition, and in no other.
func TestWhoHasARecord(t *testing.T) {
	s := onDisk(t)
	j := &Judge{Files: s.Disk, LogDirs: []string{"/data"}}
	batch := func(value string) ([]byte, uint64) {
		r := client.Record{Value: []byte(value)}
		return client.Encode(client.BatchSpec{ProducerID: 1}, []client.Record{r}), client.Digest(r.Key, r.Value, r.Headers)
	}
	mine, has := batch("mine")
	other, hasnt := batch("another's")
	s.Disk.WriteFile(segmentPath(0), mine)
	s.Disk.WriteFile("/data/t-1/00000000000000000000.log", other)
	for _, c := range []struct {
		name   string
		digest uint64
		want   history.Held
	}{
		{"t-0", has, history.Has},
		{"t-0", hasnt, history.Hasnt},
		{"t-1", hasnt, history.Has},
		{"t-2", has, history.Hasnt},
	} {
		if got := j.holds(c.name, c.digest); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	// Of a broker that does not run, or is not known, nothing can be said.
	r := &Run{Rec: client.NewRecorder(), servers: []*server{s}}
	s.guard = &guard{Judge: j}
	log := r.Rec.Log("t", [16]byte{1}, 0)
	for _, addr := range []string{s.Addr(), "nobody:9092"} {
		if got := r.holds(log, has, addr); got != history.Unseen {
			t.Errorf("%s: %v", addr, got)
		}
	}
}
