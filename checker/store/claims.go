package store

import (
	"fmt"
	"slices"

	"seedlog/checker"
	"seedlog/checker/logfile"
)

// CheckSealed is I16 for derived files, and is asked of what a crash left behind, before
// anybody mends it: of the segments that end at or below the recovery point everything is
// durable, the indexes as a replay makes them, and the producer snapshot that a segment ends
// with whole, if it is there. Of a segment below the log start files may be gone: it was removed,
// and a power loss undid that for the others.
func (p *Partition) CheckSealed(recoveryPoint int64, o Options) checker.Verdict {
	var found, v checker.Verdict
	for i := 0; i+1 < len(p.Segments) && p.Segments[i+1].Base <= recoveryPoint; i++ {
		if p.Segments[i+1].Base > o.LogStartOffset {
			p.checkIndex(&found, i, o)
			p.checkTimeIndex(&found, i)
		}
		if s := p.Segments[i+1].Base; slices.Contains(p.BadSnapshots, s) {
			found.Failf("I16", fmt.Sprintf("%s/%020d.snapshot", p.Name, s), "is damaged")
		}
	}
	for _, x := range found.Violations {
		v.Failf("I16", x.Where, "a crash damaged what lies below the recovery point %d: %s", recoveryPoint, x.Text)
	}
	return v
}

// CheckTail is I16 for the other side: the torn tail that the crash left at the recovered end
// is not there any more. after may already hold newer batches.
func (r Recovered) CheckTail(after *Partition) checker.Verdict {
	var v checker.Verdict
	if r.Corrupt != "" || len(after.Segments) == 0 {
		return v
	}
	i := slices.IndexFunc(r.before.Segments, func(s Segment) bool { return s.Why != "" })
	j := len(after.Segments) - 1
	if i < 0 || after.Segments[j].Base != r.before.Segments[i].Base {
		return v
	}
	old, now := &r.before.Segments[i], &after.Segments[j]
	if now.End == old.End && int64(len(now.Log)) > now.End && string(now.Log[now.End:]) == string(old.Log[old.End:]) {
		v.Failf("I16", after.Name, "the torn tail of %d bytes at position %d was not cut: %s", int64(len(now.Log))-now.End, now.End, old.Why)
	}
	return v
}

// CheckUntouched is I16 for a log that is damaged below its recovery point: nothing of it is
// cut.
func (r Recovered) CheckUntouched(after *Partition) checker.Verdict {
	var v checker.Verdict
	for i := range r.before.Segments {
		s := &r.before.Segments[i]
		j := slices.IndexFunc(after.Segments, func(a Segment) bool { return a.Base == s.Base })
		if j < 0 {
			v.Failf("I16", after.Name, "%s; segment %d was removed", r.Corrupt, s.Base)
		} else if len(after.Segments[j].Log) < len(s.Log) {
			v.Failf("I16", after.Name, "%s; segment %d of %d bytes was cut to %d", r.Corrupt, s.Base, len(s.Log), len(after.Segments[j].Log))
		}
	}
	return v
}

// checkSizes is SPEC S2: no segment is larger than segment.bytes.
func (p *Partition) checkSizes(v *checker.Verdict, o Options) {
	for i := range p.Segments {
		if n := int64(len(p.Segments[i].Log)); o.SegmentBytes > 0 && n > o.SegmentBytes {
			v.Failf("S2", fmt.Sprintf("%s/%020d.log", p.Name, p.Segments[i].Base), "has %d bytes, segment.bytes is %d", n, o.SegmentBytes)
		}
	}
}

// ScanFile finds the batches of a file that is no segment, such as a metadata snapshot.
func ScanFile(b []byte) (why string) {
	_, _, why = logfile.Scan(b)
	return why
}
