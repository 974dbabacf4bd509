package scenarios

import (
	"maps"
	"strconv"
	"strings"

	"seedlog/checker"
	"seedlog/checker/history"
	"seedlog/checker/linear"
	"seedlog/checker/logfile"
	"seedlog/checker/store"
	"seedlog/disk"
	"seedlog/scenarios/client"
)

// Files is a broker's disk as the judge reads it: the simulated one, or real directories.
type Files interface {
	// List lists a directory by name, or nothing.
	List(path string) []disk.Info
	// ReadFile returns a file's bytes; false if there is none.
	ReadFile(path string) ([]byte, bool)
}

// Judge compares what clients were told with what a stopped broker's disk holds.
type Judge struct {
	Files   Files
	LogDirs []string
	Rec     *client.Recorder
	// Dead logs have lost their only copy lawfully.
	Dead map[int]bool
	// Interval is index.interval.bytes of each topic that was created with it for life.
	Interval map[string]int64
	// Segment is segment.bytes of each topic that was created with it for life.
	Segment map[string]int64
	// ProducersExpire says that producer state may be gone.
	ProducersExpire bool
	// StartsKept says that no disk forgot what it was told to sync of the log starts.
	StartsKept bool
	// Reader is the client that read everything at the end, if Final.
	Reader int
	Final  bool
}

// maxSearched bounds the second opinion, whose search is quadratic; runs of the simulator
// stay far below.
const maxSearched = 20_000

const metadataDir = "__cluster_metadata-0"

// Dirs lists the partition directories of every log directory, in order.
func (j *Judge) Dirs() (paths []string) {
	for _, dir := range j.LogDirs {
		for _, info := range j.Files.List(dir) {
			if info.Dir && isPartition(info.Name) {
				paths = append(paths, dir+"/"+info.Name)
			}
		}
	}
	return paths
}

// isPartition tells a partition's directory from those of copies, of strays and of what is being
// deleted, whose names end in a word. A topic may have dots in its name, if only because the rude
// client made a request for another one illegible.
func isPartition(name string) bool {
	i := strings.LastIndexByte(name, '-')
	if i < 1 {
		return false
	}
	_, err := strconv.Atoi(name[i+1:])
	return err == nil && name != metadataDir
}

func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

func parent(path string) string { return path[:strings.LastIndexByte(path, '/')] }

// Parse parses a partition directory as it is on the disk now.
func (j *Judge) Parse(path string) (*store.Partition, checker.Verdict) {
	return j.parse(path, func(string) bool { return true })
}

// ParseLogs is Parse without the derived files, of which an index in use may be large.
func (j *Judge) ParseLogs(path string) *store.Partition {
	p, _ := j.parse(path, func(name string) bool { return strings.HasSuffix(name, ".log") })
	return p
}

// ParseSealed is Parse without the indexes of the last segment: they are in use, may be large,
// and say nothing after a crash.
func (j *Judge) ParseSealed(path string) *store.Partition {
	last := ""
	for _, info := range j.Files.List(path) {
		if base, ok := strings.CutSuffix(info.Name, ".log"); ok {
			last = max(last, base)
		}
	}
	p, _ := j.parse(path, func(name string) bool { return name != last+".index" && name != last+".timeindex" })
	return p
}

func (j *Judge) parse(path string, wanted func(name string) bool) (*store.Partition, checker.Verdict) {
	var files []store.File
	for _, info := range j.Files.List(path) {
		if info.Dir || !wanted(info.Name) {
			continue
		}
		if b, ok := j.Files.ReadFile(path + "/" + info.Name); ok {
			files = append(files, store.File{Name: info.Name, Data: b})
		}
	}
	return store.Parse(base(path), files)
}

// offsets reads an offset checkpoint: version, count, then "topic partition offset" lines.
func (j *Judge) offsets(path string) map[string]int64 {
	out := make(map[string]int64)
	b, _ := j.Files.ReadFile(path)
	for _, line := range strings.Split(string(b), "\n") {
		f := strings.Fields(line)
		if len(f) != 3 {
			continue
		}
		if off, err := strconv.ParseInt(f[2], 10, 64); err == nil {
			out[f[0]+"-"+f[1]] = off
		}
	}
	return out
}

// Recovered works out what a recovery of the directory must come to.
func (j *Judge) Recovered(path string) store.Recovered {
	_, clean := j.Files.ReadFile(parent(path) + "/.kafka_cleanshutdown")
	// What a crash may do to derived files is the broker's to mend: no verdict here.
	point := j.offsets(parent(path) + "/recovery-point-offset-checkpoint")[base(path)]
	start := j.offsets(parent(path) + "/log-start-offset-checkpoint")[base(path)]
	return j.ParseLogs(path).Recover(point, start, clean)
}

// Verdict judges directories and history of a broker that stopped cleanly.
func (j *Judge) Verdict() checker.Verdict {
	h, topics, offsets, v := j.Rec.Take()
	dead := make(map[string]bool)
	for i, p := range h.Partitions {
		dead[client.PartitionName(p)] = j.Dead[i]
	}
	parsed := make(map[string]*store.Partition)
	starts := make(map[string]int64)
	for _, dir := range j.LogDirs {
		maps.Copy(starts, j.offsets(dir+"/log-start-offset-checkpoint"))
	}
	for _, path := range j.Dirs() {
		p, pv := j.Parse(path)
		if parsed[p.Name] = p; dead[p.Name] {
			continue
		}
		v.Merge(pv)
		v.Merge(p.Check(store.Options{
			IndexIntervalBytes: j.Interval[topicOf(p.Name)], SegmentBytes: j.Segment[topicOf(p.Name)], LogStartOffset: starts[p.Name], Closed: true, ProducersExpire: j.ProducersExpire,
		}))
	}
	for i, hp := range h.Partitions {
		name := client.PartitionName(hp)
		h.Deleted[i], h.StartsKept[i] = j.Dead[i], j.StartsKept
		h.Logs[i] = resolve(parsed[name], starts[name])
	}
	for i, hp := range h.Partitions {
		if p := parsed[client.PartitionName(hp)]; p != nil && !h.Deleted[i] {
			v.Merge(p.CheckEpochEnds(j.Rec.EpochEnds(i), h.Logs[i].Start))
		}
	}
	h.Final, h.FinalClient, h.ProducersExpire = j.Final, j.Reader, j.ProducersExpire
	v.Merge(h.Check())
	v.Merge(linear.CheckTopics(topics))
	if j.Rec.PowerLosses() == 0 || j.Rec.OffsetsSynced {
		v.Merge(linear.CheckOffsets(offsets))
	}
	if j.Rec.PowerLosses() == 0 {
		if ops := secondOpinion(h); len(ops) < maxSearched {
			v.Merge(linear.CheckLogs(ops))
		}
	}
	return v
}

func topicOf(partition string) string { return partition[:strings.LastIndexByte(partition, '-')] }

// resolve is a log's final content by offset.
func resolve(p *store.Partition, start int64) history.Log {
	if p == nil {
		return history.Log{}
	}
	log := history.Log{End: p.LogEndOffset(), Start: start}
	if len(p.Segments) > 0 {
		log.Start = max(log.Start, p.Segments[0].Base)
	}
	p.Batches(func(b *logfile.Batch) {
		records, err := b.Records()
		if err != nil || b.IsControl() {
			return
		}
		for _, rec := range records {
			if rec.Offset >= log.Start {
				log.Records = append(log.Records, history.Seen{Offset: rec.Offset, Digest: client.Digest(rec.Key, rec.Value, rec.Headers)})
			}
		}
	})
	return log
}

// secondOpinion turns a resolved history into appends and reads for the search. What is
// stored and was never acknowledged was appended by an operation without an end.
func secondOpinion(h *history.History) []linear.LogOp {
	var ops []linear.LogOp
	acked := make([]map[int64]bool, len(h.Logs))
	for p := range acked {
		acked[p] = make(map[int64]bool)
	}
	for i := range h.Sends {
		s := &h.Sends[i]
		if s.Outcome == history.OK && s.Offset >= 0 && !h.Deleted[s.Partition] {
			acked[s.Partition][s.Offset] = true
			ops = append(ops, linear.LogOp{Client: s.Client, Log: logName(h, s.Partition), Invoke: int64(s.Invoke), Return: int64(s.Return), Append: true, Offset: s.Offset, Count: 1})
		}
	}
	for p := range h.Logs {
		for off := int64(0); off < h.Logs[p].End && !h.Deleted[p]; off++ {
			if !acked[p][off] {
				ops = append(ops, linear.LogOp{Client: -1, Log: logName(h, p), Append: true, Unknown: true, Offset: off, Count: 1})
			}
		}
	}
	for _, q := range h.Polls {
		if !h.Deleted[q.Partition] && q.HighWatermark >= 0 {
			ops = append(ops, linear.LogOp{Client: q.Client, Log: logName(h, q.Partition), Invoke: int64(q.Invoke), Return: int64(q.Return), Offset: q.HighWatermark})
		}
	}
	return ops
}

func logName(h *history.History, p int) string { return client.PartitionName(h.Partitions[p]) }
