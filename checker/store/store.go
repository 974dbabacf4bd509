// Package store judges one partition directory by its bytes.
//
// It compares: each segment with the rules for offsets (I11), the leader-epoch checkpoint
// with the epochs of the batches (I12), each index entry with the batch that it names and
// each sealed index with a rebuilt one (I13), producer sequences (I18) and producer
// snapshots with a replay (I17), and a recovered log with what its recovery found (I16).
//
// When: at named moments of a run (a clean stop, after a recovery, the end), never while a
// write may be in progress.
//
// It deliberately does not read compacted logs (offsets would have gaps) or transactions.
package store

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"seedlog/checker"
	"seedlog/checker/logfile"
)

// File is one file of the directory.
type File struct {
	Name string
	Data []byte
}

// Segment is the files of one segment.
type Segment struct {
	Base      int64
	Log       []byte
	Index     []byte
	TimeIndex []byte
	Batches   []logfile.Batch
	// End is where the batches end; Why is empty if that is the end of the file.
	End int64
	Why string
	// Has tells which of the derived files exist.
	HasIndex, HasTimeIndex bool
}

// Partition is a parsed directory.
type Partition struct {
	Name      string
	Segments  []Segment
	Snapshots []Snapshot
	// BadSnapshots are the offsets of those that cannot be read.
	BadSnapshots []int64
	Epochs       []Epoch
	HasEpochs    bool
}

// Epoch is a line of leader-epoch-checkpoint.
type Epoch struct {
	Epoch int32
	Start int64
}

// LogEndOffset is the offset after the last sound batch, or of the last segment's base.
func (p *Partition) LogEndOffset() int64 {
	if len(p.Segments) == 0 {
		return 0
	}
	for i := len(p.Segments) - 1; i >= 0; i-- {
		if n := len(p.Segments[i].Batches); n > 0 {
			return max(p.Segments[i].Batches[n-1].Last+1, p.Segments[len(p.Segments)-1].Base)
		}
	}
	return p.Segments[len(p.Segments)-1].Base
}

// Batches calls fn for every sound batch in order.
func (p *Partition) Batches(fn func(b *logfile.Batch)) {
	for i := range p.Segments {
		for j := range p.Segments[i].Batches {
			fn(&p.Segments[i].Batches[j])
		}
	}
}

// Parse reads the files of a partition directory; names that are not a live segment's are
// passed over.
func Parse(name string, files []File) (*Partition, checker.Verdict) {
	var v checker.Verdict
	p := &Partition{Name: name}
	at := func(base int64) *Segment {
		for i := range p.Segments {
			if p.Segments[i].Base == base {
				return &p.Segments[i]
			}
		}
		return nil
	}
	for _, f := range files {
		if base, ext, ok := segmentName(f.Name); ok && ext == "log" {
			s := Segment{Base: base, Log: f.Data}
			s.Batches, s.End, s.Why = logfile.Scan(f.Data)
			p.Segments = append(p.Segments, s)
		}
	}
	slices.SortFunc(p.Segments, func(a, b Segment) int { return cmp.Compare(a.Base, b.Base) })
	for _, f := range files {
		if f.Name == "leader-epoch-checkpoint" {
			p.HasEpochs = true
			if err := p.parseEpochs(string(f.Data)); err != nil {
				v.Failf("I12", name, "leader-epoch-checkpoint: %v", err)
			}
		}
		base, ext, ok := segmentName(f.Name)
		if !ok {
			continue
		}
		switch s := at(base); {
		case ext == "snapshot":
			snap, err := parseSnapshot(base, f.Data)
			if err != nil {
				v.Failf("I17", name, "%s: %v", f.Name, err)
				p.BadSnapshots = append(p.BadSnapshots, base)
				continue
			}
			p.Snapshots = append(p.Snapshots, snap)
		case s == nil:
		case ext == "index":
			s.Index, s.HasIndex = f.Data, true
		case ext == "timeindex":
			s.TimeIndex, s.HasTimeIndex = f.Data, true
		}
	}
	slices.SortFunc(p.Snapshots, func(a, b Snapshot) int { return cmp.Compare(a.Offset, b.Offset) })
	return p, v
}

func segmentName(name string) (base int64, ext string, ok bool) {
	digits, ext, ok := strings.Cut(name, ".")
	if !ok || len(digits) != 20 || strings.Contains(ext, ".") {
		return 0, "", false
	}
	base, err := strconv.ParseInt(digits, 10, 64)
	return base, ext, err == nil
}

func (p *Partition) parseEpochs(text string) error {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) < 2 || lines[0] != "0" {
		return fmt.Errorf("no version 0 and count in %q", text)
	}
	n, err := strconv.Atoi(lines[1])
	if err != nil || n != len(lines)-2 {
		return fmt.Errorf("count %q and %d lines", lines[1], len(lines)-2)
	}
	for _, l := range lines[2:] {
		var e Epoch
		if _, err := fmt.Sscanf(l, "%d %d", &e.Epoch, &e.Start); err != nil {
			return fmt.Errorf("line %q", l)
		}
		p.Epochs = append(p.Epochs, e)
	}
	return nil
}

// Options says what may be expected of the directory.
type Options struct {
	// IndexIntervalBytes is the index.interval.bytes that held for the partition's whole
	// life; 0 if it changed, and rebuilt indexes are then not compared.
	IndexIntervalBytes int64
	// SegmentBytes is the segment.bytes that held for the partition's whole life, or 0.
	SegmentBytes int64
	// LogStartOffset is where the log begins for clients: earlier entries may be gone.
	LogStartOffset int64
	// Closed says that the node stopped cleanly: indexes are trimmed, the epoch checkpoint
	// and a snapshot at the end are written.
	Closed bool
	// ProducersExpire says that producer state may be missing.
	ProducersExpire bool
	// Forgot are offsets where a leader began with an empty log: of producers of before it knew
	// nothing, though another replica has what lies below its log start.
	Forgot []int64
	// Anew is where the log of the leader of an epoch had begun anew with nothing, a follower then
	// as a rule: of producers that wrote only below, it knew nothing.
	Anew map[int32]int64
	// Shared is from where on all copies of the log have the same batches. What this one's files have
	// below, all of it deleted, need not be what producers wrote before.
	Shared int64
}

// Check judges a parsed directory.
func (p *Partition) Check(o Options) checker.Verdict {
	var v checker.Verdict
	p.checkOffsets(&v)
	p.checkSizes(&v, o)
	p.checkEpochs(&v, o)
	for i := range p.Segments {
		p.checkIndex(&v, i, o)
		p.checkTimeIndex(&v, i)
	}
	p.checkSequences(&v, o)
	p.checkSnapshots(&v, o)
	return v
}

// checkOffsets is I11: offsets strictly increase and, in a log that was never compacted, are
// without gaps; a file's base is its first possible offset; counts are right.
func (p *Partition) checkOffsets(v *checker.Verdict) {
	next := int64(-1)
	for i := range p.Segments {
		s := &p.Segments[i]
		where := fmt.Sprintf("%s/%020d.log", p.Name, s.Base)
		if s.Why != "" {
			v.Failf("I11", where, "bytes at %d are no batch: %s", s.End, s.Why)
		}
		if next >= 0 && s.Base != next {
			v.Failf("I11", where, "the segment before it ends at %d", next)
		}
		next = s.Base
		for j := range s.Batches {
			b := &s.Batches[j]
			if b.Base != next {
				v.Failf("I11", where, "batch %d-%d at %d where %d was next", b.Base, b.Last, b.Pos, next)
			}
			next = b.Last + 1
			if int64(b.Count) != b.Last-b.Base+1 {
				v.Failf("I11", where, "batch %d-%d counts %d records", b.Base, b.Last, b.Count)
			}
			p.checkRecords(v, where, b)
		}
	}
}

func (p *Partition) checkRecords(v *checker.Verdict, where string, b *logfile.Batch) {
	records, err := b.Records()
	if err != nil {
		v.Failf("I11", where, "batch %d-%d: %v", b.Base, b.Last, err)
		return
	}
	maxTs := int64(-1)
	for i, r := range records {
		if r.Offset != b.Base+int64(i) {
			v.Failf("I11", where, "record %d of batch %d-%d has offset %d", i, b.Base, b.Last, r.Offset)
			return
		}
		maxTs = max(maxTs, r.Timestamp)
	}
	if len(records) > 0 && maxTs != b.MaxTs {
		v.Failf("I13", where, "batch %d-%d names the largest timestamp %d, its records have %d", b.Base, b.Last, b.MaxTs, maxTs)
	}
}

// checkEpochs is I12: the cache strictly increases in both columns and equals a rebuild
// from the batches plus the leader's own start entries, which may name epochs without
// batches.
func (p *Partition) checkEpochs(v *checker.Verdict, o Options) {
	if !p.HasEpochs {
		if p.LogEndOffset() > 0 && o.Closed {
			v.Failf("I12", p.Name, "a log that ends at %d has no leader-epoch-checkpoint", p.LogEndOffset())
		}
		return
	}
	for i := 1; i < len(p.Epochs); i++ {
		a, b := p.Epochs[i-1], p.Epochs[i]
		if b.Epoch <= a.Epoch || b.Start <= a.Start {
			v.Failf("I12", p.Name, "epoch %d from %d is followed by epoch %d from %d", a.Epoch, a.Start, b.Epoch, b.Start)
		}
	}
	if len(p.Epochs) > 0 && o.Closed && p.Epochs[0].Start < o.LogStartOffset {
		v.Failf("I12", p.Name, "the cache begins with epoch %d from %d, the log at %d", p.Epochs[0].Epoch, p.Epochs[0].Start, o.LogStartOffset)
	}
	last, first := int32(-1), true
	p.Batches(func(b *logfile.Batch) {
		if b.Epoch < last {
			v.Failf("I12", p.Name, "batch %d-%d of epoch %d follows epoch %d", b.Base, b.Last, b.Epoch, last)
		}
		if b.Epoch == last || b.Last < o.LogStartOffset {
			return
		}
		last = b.Epoch
		i := slices.IndexFunc(p.Epochs, func(e Epoch) bool { return e.Epoch == b.Epoch })
		switch {
		case i < 0:
			v.Failf("I12", p.Name, "batch %d-%d has epoch %d, which the cache lacks: %v", b.Base, b.Last, b.Epoch, p.Epochs)
		case p.Epochs[i].Start != b.Base && !(first && (p.Epochs[i].Start <= b.Base || p.Epochs[i].Start == o.LogStartOffset)):
			v.Failf("I12", p.Name, "epoch %d begins with batch %d, the cache says %d", b.Epoch, b.Base, p.Epochs[i].Start)
		}
		first = false
	})
}

// checkIndex is I13 for offsets.
func (p *Partition) checkIndex(v *checker.Verdict, i int, o Options) {
	s := &p.Segments[i]
	where := fmt.Sprintf("%s/%020d.index", p.Name, s.Base)
	sealed := i+1 < len(p.Segments) || o.Closed
	if !s.HasIndex {
		if sealed {
			v.Failf("I13", where, "is missing")
		}
		return
	}
	type entry struct{ rel, pos uint32 }
	var got []entry
	for b := s.Index; len(b) >= 8; b = b[8:] {
		e := entry{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])}
		if e.rel == 0 && e.pos == 0 && !sealed {
			break // the unused rest of an active index
		}
		got = append(got, e)
	}
	for k, e := range got {
		off := s.Base + int64(e.rel)
		j, found := slices.BinarySearchFunc(s.Batches, int64(e.pos), func(b logfile.Batch, pos int64) int { return cmp.Compare(b.Pos, pos) })
		if !found || s.Batches[j].Last != off {
			v.Failf("I13", where, "entry %d says offset %d at %d, where no batch ends in it", k, off, e.pos)
			return
		}
		if k > 0 && (e.rel <= got[k-1].rel || e.pos <= got[k-1].pos) {
			v.Failf("I13", where, "entry %d (%d, %d) does not follow (%d, %d)", k, e.rel, e.pos, got[k-1].rel, got[k-1].pos)
		}
	}
	if !sealed || o.IndexIntervalBytes == 0 {
		return
	}
	var want []entry
	since := int64(0)
	for _, b := range s.Batches {
		if since > o.IndexIntervalBytes {
			want = append(want, entry{uint32(b.Last - s.Base), uint32(b.Pos)})
			since = 0
		}
		since += b.Size()
	}
	if !slices.Equal(got, want) {
		i := differ(got, want)
		v.Failf("I13", where, "has %d entries, one rebuilt with an interval of %d has %d; they differ from entry %d on: %v, %v",
			len(got), o.IndexIntervalBytes, len(want), i, got[i:min(i+2, len(got))], want[i:min(i+2, len(want))])
	}
}

func differ[E comparable](a, b []E) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// checkTimeIndex is I13 for times: both columns increase, and an entry's timestamp is the
// largest of all batches up to the one that holds its offset.
func (p *Partition) checkTimeIndex(v *checker.Verdict, i int) {
	s := &p.Segments[i]
	where := fmt.Sprintf("%s/%020d.timeindex", p.Name, s.Base)
	lastTs, lastOff := int64(-1), int64(-1)
	for b := s.TimeIndex; len(b) >= 12; b = b[12:] {
		ts, rel := int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint32(b[8:]))
		if ts == 0 && rel == 0 {
			break
		}
		if ts < lastTs || rel < lastOff {
			v.Failf("I13", where, "entry (%d, %d) follows (%d, %d)", ts, rel, lastTs, lastOff)
			return
		}
		lastTs, lastOff = ts, rel
		largest, within := int64(-1), false
		for j := range s.Batches {
			if s.Batches[j].Base > s.Base+rel {
				break
			}
			largest = max(largest, s.Batches[j].MaxTs)
			within = within || s.Batches[j].Last >= s.Base+rel
		}
		if !within || largest > ts || largest < ts {
			v.Failf("I13", where, "entry says timestamp %d at offset %d; up to there the largest is %d (offset stored: %v)", ts, s.Base+rel, largest, within)
			return
		}
	}
}
