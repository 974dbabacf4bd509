package quorum

import (
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"seedlog/node/meta"
	"seedlog/storage/record"
)

// ErrSnapshot: a snapshot file is damaged or incomplete.
var ErrSnapshot = errors.New("damaged metadata snapshot")

const (
	snapshotSuffix = ".checkpoint"
	// snapshotBatchBytes is about how large the batches of a snapshot are.
	snapshotBatchBytes = 256 << 10
	// inflatedMaxBytes bounds a compressed batch of metadata: Kafka compresses none.
	inflatedMaxBytes = 64 << 20
)

// SnapshotName is the file name of the snapshot of everything below end, whose last record
// has leader epoch epoch.
func SnapshotName(end int64, epoch int32) string {
	return fmt.Sprintf("%020d-%010d%s", end, epoch, snapshotSuffix)
}

// ParseSnapshotName is the inverse of SnapshotName.
func ParseSnapshotName(name string) (end int64, epoch int32, ok bool) {
	stem, ok := strings.CutSuffix(name, snapshotSuffix)
	if !ok || len(stem) != 31 || stem[20] != '-' {
		return 0, 0, false
	}
	end, err := strconv.ParseInt(stem[:20], 10, 64)
	e, err2 := strconv.ParseInt(stem[21:], 10, 32)
	if err != nil || err2 != nil || end < 0 || e < 0 {
		return 0, 0, false
	}
	return end, int32(e), true
}

// snapshotSpec is what a snapshot file is made of.
type snapshotSpec struct {
	epoch         int32
	unixMilli     int64
	lastTimestamp int64 // of the last record contained
	kraftVersion  int16
	voters        []record.Voter // only if kraftVersion > 0
	records       iter.Seq[meta.Record]
}

// encodeSnapshot is the whole file.
func encodeSnapshot(s snapshotSpec) ([]byte, error) {
	head := []record.ControlValue{record.SnapshotHeaderValue{LastContainedLogTimestamp: s.lastTimestamp}}
	if s.kraftVersion > 0 {
		head = append(head, record.KRaftVersionValue{KRaftVersion: s.kraftVersion})
		if s.voters != nil {
			head = append(head, record.VotersValue{Voters: s.voters})
		}
	}
	out, err := record.AppendControlBatch(nil, 0, s.epoch, s.unixMilli, head...)
	if err != nil {
		return nil, err
	}
	next := int64(len(head))
	if s.records != nil {
		if out, next, err = appendRecords(out, next, s); err != nil {
			return nil, err
		}
	}
	return record.AppendControlBatch(out, next, s.epoch, s.unixMilli, record.SnapshotFooterValue{})
}

func appendRecords(out []byte, next int64, s snapshotSpec) ([]byte, int64, error) {
	opts := record.NewOptions(next)
	opts.LeaderEpoch = s.epoch
	b := record.NewBuilder(opts, nil)
	flush := func() (err error) {
		if b.Count() == 0 {
			return nil
		}
		next = b.NextOffset()
		out, err = b.Build(out)
		opts.BaseOffset = next
		b.Reset(opts)
		return err
	}
	for r := range s.records {
		b.Append(record.Record{Timestamp: s.unixMilli, Value: meta.AppendRecord(nil, r)})
		if b.EstimatedSize() >= snapshotBatchBytes {
			if err := flush(); err != nil {
				return nil, 0, err
			}
		}
	}
	return out, next, flush()
}

// Snapshot is the content of a snapshot file.
type Snapshot struct {
	LastContainedLogTimestamp int64
	KRaftVersion              int16
	Voters                    []record.Voter
	Records                   []meta.Record
}

// ParseSnapshot reads a snapshot file. The error is ErrSnapshot, or wraps
// meta.ErrUnknownRecord where the file is whole and from a later version.
func ParseSnapshot(b []byte) (*Snapshot, error) {
	p := snapshotParser{out: &Snapshot{}}
	it := record.NewBatches(b)
	for it.Next() {
		if err := p.batch(it.Header(), it.Bytes()); err != nil {
			if errors.Is(err, meta.ErrUnknownRecord) {
				return nil, err
			}
			return nil, fmt.Errorf("%w: batch at byte %d: %w", ErrSnapshot, it.Position(), err)
		}
	}
	switch {
	case it.Err() != nil:
		return nil, fmt.Errorf("%w: %w", ErrSnapshot, it.Err())
	case len(it.Rest()) > 0:
		return nil, fmt.Errorf("%w: %d bytes of a batch at the end", ErrSnapshot, len(it.Rest()))
	case !p.footer:
		return nil, fmt.Errorf("%w: no footer", ErrSnapshot)
	}
	return p.out, nil
}

type snapshotParser struct {
	out            *Snapshot
	next           int64
	header, footer bool
}

func (p *snapshotParser) batch(h *record.Header, batch []byte) error {
	if err := record.CheckCRC(batch); err != nil {
		return err
	}
	if p.footer || h.BaseOffset != p.next {
		return fmt.Errorf("offset %d after %d, footer seen: %v", h.BaseOffset, p.next-1, p.footer)
	}
	p.next = h.NextOffset()
	if h.IsControl() {
		return eachControl(batch, p.control)
	}
	if !p.header {
		return errors.New("no header")
	}
	records, err := decodeRecords(p.out.Records, batch)
	p.out.Records = records
	return err
}

func (p *snapshotParser) control(_ int64, v record.ControlValue) error {
	if _, is := v.(record.SnapshotHeaderValue); is == p.header {
		return fmt.Errorf("%s where the header is expected once and first", v.ControlType())
	}
	switch v := v.(type) {
	case record.SnapshotHeaderValue:
		p.header = true
		p.out.LastContainedLogTimestamp = v.LastContainedLogTimestamp
	case record.SnapshotFooterValue:
		p.footer = true
	case record.KRaftVersionValue:
		p.out.KRaftVersion = v.KRaftVersion
	case record.VotersValue:
		p.out.Voters = v.Voters
	}
	return nil
}

// eachControl visits the control records of a batch that this build knows, with their offsets.
func eachControl(batch []byte, visit func(offset int64, v record.ControlValue) error) error {
	it := record.NewRecords(batch, nil, inflatedMaxBytes)
	defer it.Close()
	for it.Next() {
		r := it.Record()
		typ, err := record.ParseControlKey(r.Key)
		if err != nil {
			return err
		}
		if typ < record.LeaderChange || typ > record.KRaftVoters {
			continue
		}
		v, err := record.ParseControlValue(typ, r.Value)
		if err == nil {
			err = visit(r.Offset, v)
		}
		if err != nil {
			return err
		}
	}
	return it.Err()
}

// decodeRecords appends the metadata records of a batch to dst.
func decodeRecords(dst []meta.Record, batch []byte) ([]meta.Record, error) {
	it := record.NewRecords(batch, nil, inflatedMaxBytes)
	defer it.Close()
	for it.Next() {
		r, err := meta.ParseRecord(it.Record().Value)
		if err != nil {
			return dst, fmt.Errorf("record at offset %d: %w", it.Record().Offset, err)
		}
		dst = append(dst, r)
	}
	return dst, it.Err()
}
