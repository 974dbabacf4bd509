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
	// StartsKept says that no disk lost what it was told to sync of the log starts.
	StartsKept bool
	// Unclean are the partitions of which somebody was elected who was no member.
	Unclean map[string]bool
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
		h.StartsKept[i], h.Anew[i] = j.StartsKept && !j.Unclean[name], j.Anew[name]
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
	var copies []*partitionCopy
	shared := int64(0)
	for _, d := range dirs {
		c, pv := readCopy(d, name)
		v.Merge(pv)
		copies = append(copies, c)
		first := copies[0]
		from, end := first.shares(c), first.log.LogEndOffset()
		if used && (c.log.LogEndOffset() != end || from > max(first.start, c.start)) {
			v.Failf("I1", name, "two replicas differ in the end: they end at %d and %d, and are equal from %d on", end, c.log.LogEndOffset(), from)
		}
		shared = max(shared, from)
		if longest == nil || len(c.log.Segments) > 0 && (len(longest.Segments) == 0 || c.log.Segments[0].Base < longest.Segments[0].Base) {
			longest = c.log
		}
	}
	for _, c := range copies {
		v.Merge(c.log.Check(store.Options{
			IndexIntervalBytes: j.Interval[topicOf(name)], SegmentBytes: j.Segment[topicOf(name)], LogStartOffset: c.start, Closed: true, ProducersExpire: j.ProducersExpire, Forgot: forgot,
			Anew: j.Anew[name], Shared: shared,
		}))
	}
	longest.Batches(func(b *logfile.Batch) {
		if n := len(epochs); b.Last >= shared && (n == 0 || epochs[n-1].Epoch != b.Epoch) {
			epochs = append(epochs, history.EpochStart{Epoch: b.Epoch, Start: b.Base})
		}
	})
	return longest, epochs
}

// partitionCopy is one node's copy of a partition.
type partitionCopy struct {
	log     *store.Partition
	start   int64 // what its files have below is deleted
	batches []logfile.Batch
}

func readCopy(d nodeDir, name string) (*partitionCopy, checker.Verdict) {
	p, v := d.n.Parse(d.path)
	c := &partitionCopy{log: p, start: d.n.offsets(parent(d.path) + "/log-start-offset-checkpoint")[name]}
	p.Batches(func(b *logfile.Batch) { c.batches = append(c.batches, *b) })
	return c, v
}

// shares is the offset from which on two copies have the same batches; one may begin later than
// the other. It lies above their log starts only if one of them lost something, or has something
// else: a replica that was away while what it had was lost, and then deleted by DeleteRecords,
// keeps that below its log start.
func (c *partitionCopy) shares(o *partitionCopy) int64 {
	n := min(len(c.batches), len(o.batches))
	mine, others := c.batches[len(c.batches)-n:], o.batches[len(o.batches)-n:]
	for i := n - 1; i >= 0; i-- {
		if !bytes.Equal(mine[i].Raw, others[i].Raw) {
			return max(mine[i].Last, others[i].Last) + 1
		}
	}
	return 0
}
