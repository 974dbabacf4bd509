package dump

import (
	"fmt"
	"io"
	"strings"

	"seedlog/storage/index"
	"seedlog/storage/producer"
	"seedlog/storage/record"
)

// Largest files of their kinds: an index cannot be larger, a snapshot is not by far.
const (
	indexMaxBytes    = 1 << 31
	snapshotMaxBytes = 1 << 30
)

// beside opens the segment that an index belongs to.
func (d *dumper) beside(suffix string) (*segment, error) {
	i := strings.LastIndex(d.path, suffix)
	return openSegment(d.path[:i]+".log"+d.path[i+len(suffix):], 0)
}

// offsetIndex prints the entries, and holds each against the batch that it points at.
func (d *dumper) offsetIndex() error {
	base, err := d.baseOffset()
	if err != nil {
		return err
	}
	b, err := d.read(indexMaxBytes)
	if err != nil {
		return err
	}
	if n := len(b) % index.OffsetEntrySize; n != 0 {
		return fmt.Errorf("%w: %d bytes are not a number of entries", ErrMismatch, len(b))
	}
	if len(b) == 0 {
		fmt.Fprintf(d.Out, "%s is empty.\n", d.path)
		return nil
	}
	log, err := d.beside(".index")
	if err != nil {
		return err
	}
	defer log.file.Close()
	prev := index.Offset{Rel: -1, Position: -1}
	for i := range len(b) / index.OffsetEntrySize {
		e := index.OffsetAt(b, i)
		if e.Rel == 0 && i > 0 {
			break // the rest of an active index is zeros
		}
		if e.Rel <= prev.Rel || e.Position <= prev.Position && i > 0 {
			d.wrong("Out of order in %s: entry %d (offset %d, position %d) after (%d, %d)", d.path, i,
				base+int64(e.Rel), e.Position, base+int64(prev.Rel), prev.Position)
		}
		prev = e
		if d.IndexSanityCheck {
			continue
		}
		d.checkEntry(log, base+int64(e.Rel), int64(e.Position))
		if !d.VerifyIndexOnly {
			fmt.Fprintf(d.Out, "offset: %d position: %d\n", base+int64(e.Rel), e.Position)
		}
	}
	d.sane()
	return nil
}

func (d *dumper) sane() {
	if d.IndexSanityCheck && d.mismatches == 0 {
		fmt.Fprintf(d.Out, "%s passed sanity check.\n", d.path)
	}
}

// checkEntry looks for the batch with the last offset at the position.
func (d *dumper) checkEntry(log *segment, offset, position int64) {
	log.pos = position
	b, magic, err := log.next()
	if err != nil {
		d.wrong("Mismatches in :%s\n  Index offset: %d, no batch at position %d: %v", d.path, offset, position, err)
		return
	}
	if last := lastOffset(b, magic); last != offset {
		d.wrong("Mismatches in :%s\n  Index offset: %d, log offset: %d", d.path, offset, last)
	}
}

func lastOffset(b []byte, magic int8) int64 {
	if magic >= record.MagicV2 {
		if h, err := record.ParseHeader(b); err == nil {
			return h.LastOffset()
		}
	}
	offset, _, _, _ := record.Peek(b)
	return offset
}

func maxTimestamp(b []byte, magic int8) int64 {
	if magic >= record.MagicV2 {
		h, _ := record.ParseHeader(b)
		return h.MaxTimestamp
	}
	m, _ := record.ParseMessage(b)
	return m.Timestamp
}

// timeIndex prints the entries, and holds each against the batch with its offset.
func (d *dumper) timeIndex() error {
	base, err := d.baseOffset()
	if err != nil {
		return err
	}
	b, err := d.read(indexMaxBytes)
	if err != nil {
		return err
	}
	if len(b)%index.TimeEntrySize != 0 {
		return fmt.Errorf("%w: %d bytes are not a number of entries", ErrMismatch, len(b))
	}
	log, err := d.beside(".timeindex")
	if err != nil {
		return err
	}
	defer log.file.Close()
	prev := record.NoTimestamp
	for i := range len(b) / index.TimeEntrySize {
		e := index.TimeAt(b, i)
		if e.Rel == 0 && i > 0 {
			break
		}
		if e.Timestamp <= prev {
			d.wrong("Found out of order timestamp in :%s\n  Index timestamp: %d, Previously indexed timestamp: %d", d.path, e.Timestamp, prev)
		}
		prev = e.Timestamp
		if d.IndexSanityCheck {
			continue
		}
		d.checkTime(log, e.Timestamp, base+int64(e.Rel))
		if !d.VerifyIndexOnly {
			fmt.Fprintf(d.Out, "timestamp: %d offset: %d\n", e.Timestamp, base+int64(e.Rel))
		}
	}
	d.sane()
	return nil
}

// checkTime goes forward to the batch with the last offset: entries ascend, so the segment is
// read once.
func (d *dumper) checkTime(log *segment, timestamp, offset int64) {
	at := log.pos
	for {
		b, magic, err := log.next()
		if err != nil {
			d.wrong("The following indexed offsets are not found in the log.\n  Indexed offset: %d, found log offset: -1", offset)
			log.pos = at
			return
		}
		last := lastOffset(b, magic)
		if last < offset {
			at = log.pos
			continue
		}
		if last != offset {
			d.wrong("The following indexed offsets are not found in the log.\n  Indexed offset: %d, found log offset: %d", offset, last)
		} else if ts := maxTimestamp(b, magic); ts != timestamp {
			d.wrong("Found timestamp mismatch in :%s\n  Index timestamp: %d, log timestamp: %d", d.path, timestamp, ts)
		}
		log.pos = at
		return
	}
}

func (d *dumper) txnIndex() error {
	base, err := d.baseOffset()
	if err != nil {
		return err
	}
	b, err := d.read(indexMaxBytes)
	if err != nil {
		return err
	}
	list, err := index.ParseTxn(b, base)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMismatch, err)
	}
	for _, e := range list {
		fmt.Fprintf(d.Out, "version: 0 producerId: %d firstOffset: %d lastOffset: %d lastStableOffset: %d\n",
			e.ProducerID, e.FirstOffset, e.LastOffset, e.LastStableOffset)
	}
	return nil
}

func (d *dumper) producerSnapshot() error {
	b, err := d.read(snapshotMaxBytes)
	if err != nil {
		return err
	}
	entries, err := producer.DecodeSnapshot(b)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMismatch, err)
	}
	for i := range entries {
		printProducer(d.Out, &entries[i])
	}
	return nil
}

func printProducer(w io.Writer, e *producer.Entry) {
	txn := "OptionalLong.empty"
	if e.TxnFirstOffset != producer.None {
		txn = fmt.Sprintf("OptionalLong[%d]", e.TxnFirstOffset)
	}
	fmt.Fprintf(w, "producerId: %d producerEpoch: %d coordinatorEpoch: %d currentTxnFirstOffset: %s lastTimestamp: %d ",
		e.ProducerID, e.Epoch, e.CoordinatorEpoch, txn, e.LastTimestamp)
	if b, ok := e.LastBatch(); ok {
		fmt.Fprintf(w, "firstSequence: %d lastSequence: %d lastOffset: %d offsetDelta: %d timestamp: %d",
			b.FirstSeq(), b.LastSeq, b.LastOffset, b.OffsetDelta, b.Timestamp)
	}
	fmt.Fprintln(w)
}
