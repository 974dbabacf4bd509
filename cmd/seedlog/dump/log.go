package dump

import (
	"fmt"
	"io"
	"os"
	"strings"

	"seedlog/storage/record"
)

// segment reads a .log batch by batch; only one batch is in memory.
type segment struct {
	file *os.File
	size int64 // or where to stop
	pos  int64
	buf  []byte
}

func openSegment(path string, maxBytes int64) (*segment, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	s := &segment{file: f, size: info.Size()}
	if maxBytes > 0 {
		s.size = min(s.size, maxBytes)
	}
	return s, nil
}

// next returns the batch or message at s.pos and its magic, and moves behind it. io.EOF where no
// whole one follows; a header that cannot be is the error.
func (s *segment) next() (b []byte, magic int8, err error) {
	var head [record.PeekSize]byte
	if s.size-s.pos < int64(len(head)) {
		return nil, 0, io.EOF
	}
	if _, err := s.file.ReadAt(head[:], s.pos); err != nil {
		return nil, 0, err
	}
	_, size, magic, err := record.Peek(head[:])
	if err != nil {
		return nil, magic, err
	}
	if int64(size) > s.size-s.pos {
		return nil, magic, io.EOF
	}
	if cap(s.buf) < size {
		s.buf = make([]byte, size)
	}
	s.buf = s.buf[:size]
	if _, err := s.file.ReadAt(s.buf, s.pos); err != nil {
		return nil, magic, err
	}
	s.pos += int64(size)
	return s.buf, magic, nil
}

// log dumps the batches of a segment or a metadata snapshot.
func (d *dumper) log() error {
	s, err := openSegment(d.path, d.MaxBytes)
	if err != nil {
		return err
	}
	defer s.file.Close()
	w := logWriter{dumper: d, last: -1, dec: new(record.Decompressor)}
	for {
		at := s.pos
		b, magic, err := s.next()
		if err == io.EOF {
			break
		}
		if err == nil && magic < record.MagicV2 {
			err = w.message(b, at)
		} else if err == nil {
			err = w.batch(b, at)
		}
		if err != nil {
			d.wrong("At position %d: %v", at, err)
			if s.pos == at { // no size to go on by
				break
			}
		}
	}
	for _, gap := range w.gaps { // no damage: compaction leaves them
		fmt.Fprintf(d.Err, "Non-consecutive offsets in %s\n  %d is followed by %d\n", d.path, gap[0], gap[1])
	}
	if s.size > s.pos && d.MaxBytes == 0 {
		d.mismatches++
		fmt.Fprintf(d.Out, "Found %d invalid bytes at the end of %s\n", s.size-s.pos, d.name)
	}
	return nil
}

// logWriter prints batches and records, and watches the offsets.
type logWriter struct {
	*dumper
	last int64
	gaps [][2]int64
	dec  *record.Decompressor
}

func (w *logWriter) batch(b []byte, at int64) error {
	h, err := record.ParseHeader(b)
	if err != nil {
		return err
	}
	valid := record.CheckCRC(b) == nil
	horizon := "OptionalLong.empty"
	if ms, ok := h.DeleteHorizonMs(); ok {
		horizon = fmt.Sprintf("OptionalLong[%d]", ms)
	}
	fmt.Fprintf(w.Out, "baseOffset: %d lastOffset: %d count: %d baseSequence: %d lastSequence: %d producerId: %d producerEpoch: %d "+
		"partitionLeaderEpoch: %d isTransactional: %t isControl: %t deleteHorizonMs: %s position: %d %v: %d size: %d magic: %d "+
		"compresscodec: %v crc: %d isvalid: %t\n",
		h.BaseOffset, h.LastOffset(), h.Count, h.BaseSequence, h.LastSequence(), h.ProducerID, h.ProducerEpoch,
		h.LeaderEpoch, h.IsTransactional(), h.IsControl(), horizon, at, h.TimestampType(), h.MaxTimestamp, h.Size(), h.Magic,
		h.Codec(), h.CRC, valid)
	if !valid {
		w.mismatches++
	}
	if !w.DeepIteration {
		return nil
	}
	it := record.NewRecords(b, w.dec, inflatedMaxBytes)
	defer it.Close()
	for it.Next() {
		w.record(&h, it.Record())
	}
	return it.Err()
}

// record prints one record of a batch of magic 2.
func (w *logWriter) record(h *record.Header, r *record.Record) {
	w.follow(r.Offset)
	line := "|"
	if !w.SkipRecordMetadata {
		seq := record.NoSequence
		if h.BaseSequence >= 0 {
			seq = record.AddSequence(h.BaseSequence, int32(r.Offset-h.BaseOffset))
		}
		keys := make([]string, len(r.Headers))
		for i := range r.Headers {
			keys[i] = printable(r.Headers[i].Key)
		}
		line += fmt.Sprintf(" offset: %d %v: %d keySize: %d valueSize: %d sequence: %d headerKeys: [%s]",
			r.Offset, h.TimestampType(), r.Timestamp, size(r.Key), size(r.Value), seq, strings.Join(keys, ","))
		if h.IsControl() {
			line += " " + control(r)
		}
	}
	if w.PrintDataLog && !h.IsControl() {
		line += w.contents(r)
	}
	fmt.Fprintln(w.Out, line)
}

// message prints a message of magic 0 or 1, and with DeepIteration what it wraps.
func (w *logWriter) message(b []byte, at int64) error {
	m, err := record.ParseMessage(b)
	if err != nil {
		return err
	}
	fmt.Fprintf(w.Out, "offset: %d position: %d %v: %d size: %d magic: %d compresscodec: %v crc: %d isvalid: %t\n",
		m.Offset, at, m.Type, m.Timestamp, m.Size, m.Magic, m.Codec, m.CRC, m.Valid())
	if !m.Valid() {
		w.mismatches++
	}
	if !w.DeepIteration {
		return nil
	}
	records, err := m.Records(w.dec, inflatedMaxBytes)
	if err != nil {
		return err
	}
	for i := range records {
		r := &records[i]
		w.follow(r.Offset)
		line := "|"
		if !w.SkipRecordMetadata {
			line += fmt.Sprintf(" offset: %d %v: %d keySize: %d valueSize: %d", r.Offset, m.Type, r.Timestamp, size(r.Key), size(r.Value))
		}
		if w.PrintDataLog {
			line += w.contents(r)
		}
		fmt.Fprintln(w.Out, line)
	}
	return nil
}

// follow notes an offset that does not follow the last one: compaction leaves gaps.
func (w *logWriter) follow(offset int64) {
	if w.last >= 0 && offset != w.last+1 {
		w.gaps = append(w.gaps, [2]int64{w.last, offset})
	}
	w.last = offset
}

func size(b []byte) int {
	if b == nil {
		return -1
	}
	return len(b)
}
