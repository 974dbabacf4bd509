package producer

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"seedlog/storage/record"
)

// Origin says who appends, and so how much is checked.
type Origin int8

const (
	// Client batches are checked in full.
	Client Origin = iota
	// Coordinator batches (offset commits, markers) have no sequences; their epoch is checked.
	Coordinator
	// Replication batches were checked by the leader.
	Replication
)

// Append is one data batch of a producer on its way into the log.
type Append struct {
	Origin        Origin
	ProducerID    int64
	Epoch         int16
	FirstSeq      int32
	LastSeq       int32
	FirstOffset   int64
	LastOffset    int64
	MaxTimestamp  int64 // ms
	Transactional bool
}

// FromHeader describes the batch with header h, whose offsets have been stamped or will be: with
// baseOffset as its first one.
func FromHeader(h *record.Header, baseOffset int64, origin Origin) Append {
	return Append{
		Origin: origin, ProducerID: h.ProducerID, Epoch: h.ProducerEpoch,
		FirstSeq: h.BaseSequence, LastSeq: h.LastSequence(),
		FirstOffset: baseOffset, LastOffset: baseOffset + int64(h.LastOffsetDelta),
		MaxTimestamp: h.MaxTimestamp, Transactional: h.IsTransactional(),
	}
}

// Marker is a transaction marker on its way into the log.
type Marker struct {
	Origin           Origin
	ProducerID       int64
	Epoch            int16
	CoordinatorEpoch int32
	Offset           int64
	Timestamp        int64 // ms
	Abort            bool
}

// Txn is a transaction on this partition, open while LastOffset is None.
type Txn struct {
	ProducerID  int64
	FirstOffset int64
	LastOffset  int64 // of the marker
}

// Completed is a transaction that a marker ended: an entry of the transaction index if Aborted.
type Completed struct {
	ProducerID  int64
	FirstOffset int64
	LastOffset  int64 // of the marker
	Aborted     bool
	// LastStableOffset is where the partition's stable part ends once the marker is replicated,
	// as the transaction index records it.
	LastStableOffset int64
}

// State is the producer state of one partition. Its owner guards it.
type State struct {
	entries map[int64]*Entry
	// ongoing are the open transactions, unreplicated the completed ones whose marker is not
	// below the high watermark; both ascend by first offset.
	ongoing      []Txn
	unreplicated []Txn
	end          int64 // the state covers the log below
}

// NewState returns the state of an empty log that starts at offset.
func NewState(offset int64) *State {
	return &State{entries: map[int64]*Entry{}, end: offset}
}

// End is the offset below which the state covers the log: where a snapshot of it belongs.
func (s *State) End() int64 { return s.end }

// SetEnd says that the log up to end has been applied, producers or not.
func (s *State) SetEnd(end int64) { s.end = end }

// Len is the number of producers.
func (s *State) Len() int { return len(s.entries) }

// Entry returns what is known of a producer. The pointer is good until the next change.
func (s *State) Entry(id int64) (*Entry, bool) {
	e, ok := s.entries[id]
	return e, ok
}

// Entries returns a copy of all producers, ascending by id.
func (s *State) Entries() []Entry {
	list := make([]Entry, 0, len(s.entries))
	for _, e := range s.entries { //order: sorted below
		list = append(list, *e)
	}
	slices.SortFunc(list, func(a, b Entry) int { return cmp.Compare(a.ProducerID, b.ProducerID) })
	return list
}

// Check says whether a data batch may be appended, before it is. A repeat of one of the last
// five batches is no error: dup is that batch, with the offsets to answer with, and nothing is
// to be written. A batch without producer id passes.
func (s *State) Check(a *Append) (dup Batch, isDup bool, err error) {
	if a.ProducerID <= record.NoProducerID || a.Origin == Replication {
		return Batch{}, false, nil
	}
	e, known := s.entries[a.ProducerID]
	if !known {
		return Batch{}, false, nil // I18: a new or forgotten producer may begin anywhere
	}
	if a.Origin == Client && a.Epoch == e.Epoch {
		if dup, isDup = e.find(a.FirstSeq, a.LastSeq); isDup {
			return dup, true, nil
		}
	}
	if a.Epoch < e.Epoch {
		return Batch{}, false, fmt.Errorf("%w: producer %d at offset %d: epoch %d, last seen %d",
			ErrEpoch, a.ProducerID, a.FirstOffset, a.Epoch, e.Epoch)
	}
	if a.Origin == Client {
		if err := e.checkSequence(a); err != nil {
			return Batch{}, false, err
		}
	}
	if e.TxnFirstOffset != None && !a.Transactional {
		return Batch{}, false, fmt.Errorf("%w: producer %d at offset %d: its transaction from offset %d is open",
			ErrTxnState, a.ProducerID, a.FirstOffset, e.TxnFirstOffset)
	}
	return Batch{}, false, nil
}

func (e *Entry) checkSequence(a *Append) error {
	if a.Epoch != e.Epoch {
		if a.FirstSeq != 0 && e.Epoch != record.NoProducerEpoch {
			return fmt.Errorf("%w: producer %d at offset %d: sequence %d begins epoch %d after epoch %d",
				ErrOutOfOrder, a.ProducerID, a.FirstOffset, a.FirstSeq, a.Epoch, e.Epoch)
		}
		return nil
	}
	last := e.LastSeq()
	if a.FirstSeq == last+1 || last == math.MaxInt32 && a.FirstSeq == 0 {
		return nil
	}
	kind := ErrOutOfOrder
	if e.appended(a.FirstSeq, a.LastSeq) {
		kind = ErrDuplicate
	}
	return fmt.Errorf("%w: producer %d at offset %d: sequence %d after %d", kind, a.ProducerID, a.FirstOffset, a.FirstSeq, last)
}

// Apply notes a data batch that has been appended, after Check passed it or on a replica, and
// moves End behind it.
func (s *State) Apply(a *Append) {
	s.end = a.LastOffset + 1
	if a.ProducerID <= record.NoProducerID {
		return
	}
	e := s.entry(a.ProducerID)
	e.setEpoch(a.Epoch)
	e.add(Batch{
		LastSeq: a.LastSeq, LastOffset: a.LastOffset,
		OffsetDelta: int32(a.LastOffset - a.FirstOffset), Timestamp: a.MaxTimestamp,
	})
	if a.Transactional && e.TxnFirstOffset == None {
		e.TxnFirstOffset = a.FirstOffset
		s.ongoing = insertTxn(s.ongoing, Txn{ProducerID: a.ProducerID, FirstOffset: a.FirstOffset, LastOffset: None})
	}
}

// CheckMarker says whether a transaction marker may be appended, before it is.
func (s *State) CheckMarker(m *Marker) error {
	e, known := s.entries[m.ProducerID]
	if !known || m.Origin == Replication {
		return nil
	}
	if m.Epoch < e.Epoch {
		return fmt.Errorf("%w: marker of producer %d at offset %d: epoch %d, last seen %d",
			ErrEpoch, m.ProducerID, m.Offset, m.Epoch, e.Epoch)
	}
	if m.CoordinatorEpoch < e.CoordinatorEpoch {
		return fmt.Errorf("%w: marker of producer %d at offset %d: coordinator epoch %d, last seen %d",
			ErrCoordinatorFenced, m.ProducerID, m.Offset, m.CoordinatorEpoch, e.CoordinatorEpoch)
	}
	return nil
}

// ApplyMarker notes a marker that has been appended, and moves End behind it. ok says that it
// ended a transaction with data on this partition; that one stays unstable until OnHighWatermark
// has passed it. A marker without such data ends nothing.
func (s *State) ApplyMarker(m *Marker) (done Completed, ok bool) {
	s.end = m.Offset + 1
	e := s.entry(m.ProducerID)
	first := e.TxnFirstOffset
	e.setEpoch(m.Epoch)
	e.CoordinatorEpoch, e.LastTimestamp, e.TxnFirstOffset = m.CoordinatorEpoch, m.Timestamp, None
	if first == None {
		return Completed{}, false
	}
	s.ongoing = removeTxn(s.ongoing, first)
	s.unreplicated = insertTxn(s.unreplicated, Txn{ProducerID: m.ProducerID, FirstOffset: first, LastOffset: m.Offset})
	done = Completed{
		ProducerID: m.ProducerID, FirstOffset: first, LastOffset: m.Offset, Aborted: m.Abort,
		LastStableOffset: m.Offset + 1,
	}
	if len(s.ongoing) > 0 {
		done.LastStableOffset = s.ongoing[0].FirstOffset
	}
	return done, true
}

// ReadMarker reads the marker out of a control batch at its place in the log. ok is false for a
// control batch that holds none: compaction has emptied it, or it is not a transaction's.
func ReadMarker(h *record.Header, batch []byte, origin Origin) (m Marker, ok bool, err error) {
	it := record.NewRecords(batch, nil, markerMaxBytes)
	defer it.Close()
	if !h.IsControl() || !it.Next() {
		return Marker{}, false, it.Err()
	}
	r := it.Record()
	t, err := record.ParseControlKey(r.Key)
	if err != nil || t != record.Commit && t != record.Abort {
		return Marker{}, false, err
	}
	end, err := record.ParseEndTxnMarker(r.Key, r.Value)
	if err != nil {
		return Marker{}, false, err
	}
	return Marker{
		Origin: origin, ProducerID: h.ProducerID, Epoch: h.ProducerEpoch, CoordinatorEpoch: end.CoordinatorEpoch,
		Offset: h.BaseOffset, Timestamp: r.Timestamp, Abort: end.Type == record.Abort,
	}, true, nil
}

// markerMaxBytes bounds a compressed control batch, which nobody writes.
const markerMaxBytes = 1 << 16

// Replay applies a batch that is in the log already: on a follower, in recovery, after a
// truncation. batch is needed for control batches alone. The state covers the log up to the end
// of the batch afterwards. done is the transaction that it ended, if ok.
func (s *State) Replay(h *record.Header, batch []byte) (done Completed, ok bool, err error) {
	defer s.SetEnd(h.NextOffset())
	if !h.HasProducerID() {
		return Completed{}, false, nil
	}
	if !h.IsControl() {
		a := FromHeader(h, h.BaseOffset, Replication)
		s.Apply(&a)
		return Completed{}, false, nil
	}
	m, isMarker, err := ReadMarker(h, batch, Replication)
	if err != nil || !isMarker {
		return Completed{}, false, err
	}
	done, ok = s.ApplyMarker(&m)
	return done, ok, nil
}

func (s *State) entry(id int64) *Entry {
	e, ok := s.entries[id]
	if !ok {
		fresh := newEntry(id)
		e = &fresh
		s.entries[id] = e
	}
	return e
}

// Expire forgets the producers that have been idle for producer.id.expiration.ms and have no
// transaction open, and returns how many.
func (s *State) Expire(nowMs, expirationMs int64) int {
	before := len(s.entries)
	for id, e := range s.entries { //order: each is judged by itself
		if e.expired(nowMs, expirationMs) {
			delete(s.entries, id)
		}
	}
	return before - len(s.entries)
}
