package scenarios

import (
	"bytes"
	"maps"
	"slices"

	"seedlog/checker"
	"seedlog/checker/history"
	"seedlog/checker/linear"
	"seedlog/checker/logfile"
	"seedlog/checker/store"
	"seedlog/scenarios/client"
)

// ClusterJudge compares what clients were told with what the disks of all stopped nodes hold,
// which must be the same on each by then. It holds one partition at a time.
type ClusterJudge struct {
	// Nodes are the judges of each node's directories.
	Nodes []*Judge
	Rec   *client.Recorder
	// Dead logs have lost their only copy lawfully.
	Dead map[int]bool
	// Interval and Segment are those of each topic that was created with them for life.
	Interval, Segment map[string]int64
	// ProducersExpire says that producer state may be gone.
	ProducersExpire bool
	// Anew is, by partition, that of [store.Options].
	Anew map[string]map[int32]int64
	// Reader is the client that read everything at the end.
	Reader int
}

// Verdict judges directories and history of nodes that stopped cleanly.
func (j *ClusterJudge) Verdict() checker.Verdict {
	h, topics, offsets, v := j.Rec.Take()
	starts := make(map[string]int64)
	dirs := make(map[string][]nodeDir)
	for _, n := range j.Nodes {
		for _, dir := range n.LogDirs {
			for name, off := range n.offsets(dir + "/log-start-offset-checkpoint") { //order: the largest of each
				starts[name] = max(starts[name], off)
			}
		}
		for _, path := range n.Dirs() {
			dirs[base(path)] = append(dirs[base(path)], nodeDir{n, path})
		}
	}
	logs := make(map[string][]int)
	for i, p := range h.Partitions {
		name := client.PartitionName(p)
		logs[name] = append(logs[name], i)
		h.Deleted[i], h.Logs[i], h.Epochs[i] = j.Dead[i], history.Log{}, nil
	}
	for _, name := range slices.Sorted(maps.Keys(dirs)) {
		var forgot []int64
		for _, c := range h.Cuts {
			if c.Empty && slices.Contains(logs[name], c.Partition) {
				forgot = append(forgot, c.Offset)
			}
		}
		p, epochs := j.copies(name, dirs[name], len(logs[name]) > 0, forgot, &v)
		for _, i := range logs[name] {
			h.Logs[i], h.Epochs[i] = resolve(p, starts[name]), epochs
		}
	}
	h.Final, h.FinalClient, h.ProducersExpire = true, j.Reader, j.ProducersExpire
	v.Merge(h.Check())
	v.Merge(linear.CheckTopics(topics))
	if j.Rec.PowerLosses() == 0 {
		v.Merge(linear.CheckOffsets(offsets))
	}
	return v
}

// nodeDir is one node's directory of a partition.
type nodeDir struct {
	n    *Judge
	path string
}

// copies judges each copy of a partition and compares them, byte for byte (I1), if clients used
// it: what coordinators write as their nodes stop may have got to some only. It returns the copy
// that begins first, and where the leader epochs begin. forgot is that of [store.Options].
func (j *ClusterJudge) copies(name string, dirs []nodeDir, used bool, forgot []int64, v *checker.Verdict) (longest *store.Partition, epochs []history.EpochStart) {
	var first [][]byte
	end := int64(-1)
	for i, d := range dirs {
		p, pv := d.n.Parse(d.path)
		v.Merge(pv)
		start := d.n.offsets(parent(d.path) + "/log-start-offset-checkpoint")[name]
		v.Merge(p.Check(store.Options{
			IndexIntervalBytes: j.Interval[topicOf(name)], SegmentBytes: j.Segment[topicOf(name)], LogStartOffset: start, Closed: true, ProducersExpire: j.ProducersExpire, Forgot: forgot,
			Anew: j.Anew[name],
		}))
		var raw [][]byte
		p.Batches(func(b *logfile.Batch) { raw = append(raw, b.Raw) })
		if i == 0 {
			first, end, longest = raw, p.LogEndOffset(), p
			continue
		}
		// Their log starts may differ, not their ends.
		n := min(len(first), len(raw))
		if same := slices.EqualFunc(first[len(first)-n:], raw[len(raw)-n:], bytes.Equal); used && (!same || p.LogEndOffset() != end) {
			v.Failf("I1", name, "two replicas differ in the end: they end at %d and %d", end, p.LogEndOffset())
		}
		if len(p.Segments) > 0 && (len(longest.Segments) == 0 || p.Segments[0].Base < longest.Segments[0].Base) {
			longest = p
		}
	}
	longest.Batches(func(b *logfile.Batch) {
		if n := len(epochs); n == 0 || epochs[n-1].Epoch != b.Epoch {
			epochs = append(epochs, history.EpochStart{Epoch: b.Epoch, Start: b.Base})
		}
	})
	return longest, epochs
}
