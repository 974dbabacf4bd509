package producer

import (
	"math"

	"seedlog/storage/record"
)

// BatchesKept is how many batches of each producer are remembered: as many as a producer may
// have in flight (KAFKA-5494).
const BatchesKept = 5

// None stands for an offset that is not there.
const None int64 = -1

// Batch is a batch that was appended.
type Batch struct {
	LastSeq     int32
	LastOffset  int64
	OffsetDelta int32 // last offset - first offset = last sequence - first sequence
	Timestamp   int64 // the largest in the batch, ms
}

// FirstSeq is the sequence of the first record, or -1 if the batch has no sequences.
func (b Batch) FirstSeq() int32 {
	if b.LastSeq < 0 {
		return record.NoSequence
	}
	return record.SubSequence(b.LastSeq, b.OffsetDelta)
}

// FirstOffset is the offset of the first record.
func (b Batch) FirstOffset() int64 { return b.LastOffset - int64(b.OffsetDelta) }

// Entry is what is known of one producer.
type Entry struct {
	ProducerID       int64
	Epoch            int16
	CoordinatorEpoch int32 // of the last marker; -1 none yet
	LastTimestamp    int64 // of the last batch or marker, ms
	TxnFirstOffset   int64 // of the open transaction; None

	batches [BatchesKept]Batch // the oldest first
	n       int
	run     int64 // how many records up to LastSeq are known to have been appended without a gap
}

func newEntry(id int64) Entry {
	return Entry{
		ProducerID: id, Epoch: record.NoProducerEpoch, CoordinatorEpoch: -1,
		LastTimestamp: record.NoTimestamp, TxnFirstOffset: None,
	}
}

// Batches returns the remembered batches of the current epoch, the oldest first.
func (e *Entry) Batches() []Batch { return e.batches[:e.n:e.n] }

// LastBatch returns the last batch of the current epoch, if one is remembered.
func (e *Entry) LastBatch() (Batch, bool) {
	if e.n == 0 {
		return Batch{LastSeq: record.NoSequence, LastOffset: None}, false
	}
	return e.batches[e.n-1], true
}

// LastSeq is the sequence of the last record, -1 if none is known.
func (e *Entry) LastSeq() int32 {
	b, _ := e.LastBatch()
	return b.LastSeq
}

func (e *Entry) setEpoch(epoch int16) {
	if e.Epoch != epoch {
		e.Epoch, e.n, e.run = epoch, 0, 0
	}
}

func (e *Entry) add(b Batch) {
	if e.n > 0 && record.AddSequence(e.LastSeq(), 1) != b.FirstSeq() || e.n == 0 {
		e.run = 0
	}
	e.run = min(e.run+int64(b.OffsetDelta)+1, math.MaxInt32)
	if e.n == BatchesKept {
		copy(e.batches[:], e.batches[1:])
		e.n--
	}
	e.batches[e.n] = b
	e.n++
	e.LastTimestamp = b.Timestamp
}

// find returns the remembered batch with exactly these sequences.
func (e *Entry) find(firstSeq, lastSeq int32) (Batch, bool) {
	for _, b := range e.Batches() {
		if b.LastSeq == lastSeq && b.FirstSeq() == firstSeq {
			return b, true
		}
	}
	return Batch{}, false
}

// appended reports whether the sequences are known to lie in the log already. Only what this
// process saw without a gap counts: behind a first sequence that was accepted unseen, a lower one
// may never have arrived.
func (e *Entry) appended(firstSeq, lastSeq int32) bool {
	if e.LastSeq() < 0 {
		return false
	}
	behind := int64(record.SubSequence(e.LastSeq(), firstSeq)) + 1
	length := int64(record.SubSequence(lastSeq, firstSeq)) + 1
	return behind <= e.run && length <= behind
}

func (e *Entry) expired(nowMs, expirationMs int64) bool {
	return e.TxnFirstOffset == None && nowMs-e.LastTimestamp >= expirationMs
}
