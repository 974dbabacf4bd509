package producer_test

import (
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedlog/storage/producer"
	"seedlog/storage/record"
)

// log drives a state as a leader does: check, then apply at the end of the log.
type log struct {
	t *testing.T
	s *producer.State
}

func newLog(t *testing.T) *log { return &log{t: t, s: producer.NewState(0)} }

// send offers n records from seq and returns what a client is told.
func (l *log) send(pid int64, epoch int16, seq, n int32, transactional bool) (base int64, dup bool, err error) {
	a := producer.Append{
		ProducerID: pid, Epoch: epoch, FirstSeq: seq, LastSeq: record.AddSequence(seq, n-1),
		FirstOffset: l.s.End(), LastOffset: l.s.End() + int64(n) - 1, MaxTimestamp: 1000 + l.s.End(), Transactional: transactional,
	}
	was, dup, err := l.s.Check(&a)
	if err != nil || dup {
		return was.FirstOffset(), dup, err
	}
	l.s.Apply(&a)
	return a.FirstOffset, false, nil
}

func (l *log) must(pid int64, epoch int16, seq, n int32) int64 {
	l.t.Helper()
	base, dup, err := l.send(pid, epoch, seq, n, false)
	if err != nil || dup {
		l.t.Fatalf("producer %d epoch %d sequence %d: dup %v, %v", pid, epoch, seq, dup, err)
	}
	return base
}

func (l *log) mark(pid int64, epoch int16, coordinator int32, abort bool) (producer.Completed, bool, error) {
	m := producer.Marker{ProducerID: pid, Epoch: epoch, CoordinatorEpoch: coordinator, Offset: l.s.End(), Timestamp: 1000 + l.s.End(), Abort: abort, Origin: producer.Coordinator}
	if err := l.s.CheckMarker(&m); err != nil {
		return producer.Completed{}, false, err
	}
	done, ok := l.s.ApplyMarker(&m)
	return done, ok, nil
}

func TestTheLastFiveBatchesAnswerRepeatsWithTheirOffsets(t *testing.T) {
	l := newLog(t)
	var bases []int64
	for i := range int32(7) {
		l.s.SetEnd(l.s.End() + 3) // others write, too
		bases = append(bases, l.must(1, 0, 10*i, 10))
	}
	for i := int32(2); i < 7; i++ {
		base, dup, err := l.send(1, 0, 10*i, 10, false)
		if err != nil || !dup || base != bases[i] {
			t.Errorf("repeat of batch %d: offset %d, dup %v, %v; want offset %d", i, base, dup, err, bases[i])
		}
	}
	for i := range int32(2) {
		if _, _, err := l.send(1, 0, 10*i, 10, false); !errors.Is(err, producer.ErrDuplicate) {
			t.Errorf("repeat of the forgotten batch %d: %v", i, err)
		}
	}
	for _, c := range []struct{ seq, n int32 }{{80, 10}, {71, 1}, {65, 10}} {
		if _, _, err := l.send(1, 0, c.seq, c.n, false); !errors.Is(err, producer.ErrOutOfOrder) {
			t.Errorf("sequence %d, %d records: %v", c.seq, c.n, err)
		}
	}
	l.must(1, 0, 70, 1)
}

func TestANewOrForgottenProducerMayBeginAnywhere(t *testing.T) {
	l := newLog(t)
	l.must(1, 5, 100, 10)
	l.must(1, 5, 110, 10)
	// What came before 100 was never seen: it must not pass for a repeat.
	if _, _, err := l.send(1, 5, 90, 10, false); !errors.Is(err, producer.ErrOutOfOrder) {
		t.Errorf("a batch from before the first one seen: %v", err)
	}
	if n := l.s.Expire(1_000_000, 500); n != 1 || l.s.Len() != 0 {
		t.Fatalf("%d expired, %d left", n, l.s.Len())
	}
	l.must(1, 0, 55, 1)
}

func TestAnEpochBeginsAtSequenceZeroAndNeverGoesBack(t *testing.T) {
	l := newLog(t)
	l.must(1, 3, 0, 5)
	if _, _, err := l.send(1, 4, 5, 5, false); !errors.Is(err, producer.ErrOutOfOrder) {
		t.Errorf("a new epoch in mid-sequence: %v", err)
	}
	l.must(1, 4, 0, 5)
	if _, _, err := l.send(1, 3, 5, 5, false); !errors.Is(err, producer.ErrEpoch) {
		t.Errorf("an old epoch: %v", err)
	}
	if _, _, err := l.send(1, 3, 0, 5, false); !errors.Is(err, producer.ErrEpoch) {
		t.Errorf("a repeat in an old epoch: %v", err)
	}
	e, _ := l.s.Entry(1)
	if len(e.Batches()) != 1 {
		t.Errorf("batches of the old epoch are kept: %+v", e.Batches())
	}
}

func TestSequencesWrapAroundInTheMiddleOfABatch(t *testing.T) {
	l := newLog(t)
	l.must(1, 0, math.MaxInt32-4, 3)
	base := l.must(1, 0, math.MaxInt32-1, 5)
	if got, dup, err := l.send(1, 0, math.MaxInt32-1, 5, false); !dup || got != base {
		t.Errorf("%d %v %v", got, dup, err)
	}
	l.must(1, 0, 3, 1)
	l2 := newLog(t)
	l2.must(1, 0, math.MaxInt32, 1)
	if _, _, err := l2.send(1, 0, 1, 1, false); !errors.Is(err, producer.ErrOutOfOrder) {
		t.Errorf("%v", err)
	}
	l2.must(1, 0, 0, 1)
}

func TestLastStableOffsetWaitsForTheMarkerToBeReplicated(t *testing.T) {
	l := newLog(t)
	must := func(pid int64, seq int32) int64 {
		base, _, err := l.send(pid, 0, seq, 5, true)
		if err != nil {
			t.Fatal(err)
		}
		return base
	}
	unstable := func(want int64) {
		t.Helper()
		if got, ok := l.s.FirstUnstable(); ok != (want >= 0) || ok && got != want {
			t.Errorf("first unstable offset %d, %v; want %d", got, ok, want)
		}
	}
	unstable(-1)
	must(1, 0)         // 0-4
	must(2, 0)         // 5-9
	must(1, 5)         // 10-14
	l.must(3, 0, 0, 1) // 15
	l.s.OnHighWatermark(16)
	unstable(0)
	done, ok, err := l.mark(1, 0, 7, true) // 16
	want := producer.Completed{ProducerID: 1, FirstOffset: 0, LastOffset: 16, Aborted: true, LastStableOffset: 5}
	if err != nil || !ok || done != want {
		t.Errorf("%+v %v %v", done, ok, err)
	}
	unstable(0)
	l.s.OnHighWatermark(16)
	unstable(0) // the marker at 16 is not below 16
	l.s.OnHighWatermark(17)
	unstable(5)
	if ms, ok := l.s.OldestTxnTimestamp(); !ok || ms != 1005 {
		t.Errorf("oldest transaction wrote at %d", ms)
	}
	done, ok, _ = l.mark(2, 0, 7, false) // 17
	if !ok || done.LastStableOffset != 18 || done.Aborted {
		t.Errorf("%+v", done)
	}
	if o, undecided := l.s.FirstUndecided(); undecided {
		t.Errorf("undecided at %d", o)
	}
	unstable(5)
	l.s.OnLogStart(18)
	unstable(-1)
	if _, ok, err := l.mark(2, 0, 7, true); ok || err != nil {
		t.Errorf("a marker without transaction ends one: %v", err)
	}
}

func TestMarkersFenceAndAreFenced(t *testing.T) {
	l := newLog(t)
	if _, _, err := l.send(1, 2, 0, 5, true); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.send(1, 2, 5, 5, false); !errors.Is(err, producer.ErrTxnState) {
		t.Errorf("a batch outside the open transaction: %v", err)
	}
	if _, _, err := l.mark(1, 1, 5, true); !errors.Is(err, producer.ErrEpoch) {
		t.Errorf("a marker of an old epoch: %v", err)
	}
	if _, ok, err := l.mark(1, 3, 5, true); !ok || err != nil {
		t.Errorf("a marker that fences: %v", err)
	}
	if _, _, err := l.mark(1, 3, 4, true); !errors.Is(err, producer.ErrCoordinatorFenced) {
		t.Errorf("a marker of an old coordinator: %v", err)
	}
	if _, _, err := l.send(1, 2, 5, 5, true); !errors.Is(err, producer.ErrEpoch) {
		t.Errorf("the fenced producer writes: %v", err)
	}
	if _, _, err := l.send(1, 3, 9, 5, true); !errors.Is(err, producer.ErrOutOfOrder) {
		t.Errorf("the new epoch in mid-sequence: %v", err)
	}
	if _, _, err := l.send(1, 3, 0, 5, true); err != nil {
		t.Error(err)
	}
}

func TestMarkersKeepAProducerAliveAndOpenTransactionsDo(t *testing.T) {
	l := newLog(t)
	if _, _, err := l.send(1, 0, 0, 1, true); err != nil { // timestamp 1000
		t.Fatal(err)
	}
	if n := l.s.Expire(1<<40, 10); n != 0 {
		t.Error("a producer with an open transaction expired")
	}
	l.s.SetEnd(500)
	if _, _, err := l.mark(1, 0, 1, false); err != nil { // timestamp 1500
		t.Fatal(err)
	}
	if n := l.s.Expire(1509, 10); n != 0 {
		t.Error("the marker's time did not count (KAFKA-9144)")
	}
	if n := l.s.Expire(1510, 10); n != 1 {
		t.Error("not expired in time")
	}
}

func TestProducersOutliveTheirRecords(t *testing.T) {
	l := newLog(t)
	l.must(1, 0, 0, 10)
	l.s.OnLogStart(10)
	if _, dup, err := l.send(1, 0, 0, 10, false); !dup || err != nil {
		t.Errorf("a retry after retention: dup %v, %v", dup, err)
	}
	if l.s.OnLogStart(50); l.s.End() != 50 {
		t.Errorf("end %d", l.s.End())
	}
}

func TestCoordinatorsWriteWithoutSequences(t *testing.T) {
	l := newLog(t)
	for i := range 3 {
		a := producer.Append{Origin: producer.Coordinator, ProducerID: 1, Epoch: 4, FirstSeq: -1, LastSeq: -1,
			FirstOffset: int64(2 * i), LastOffset: int64(2*i + 1), Transactional: true}
		if _, dup, err := l.s.Check(&a); dup || err != nil {
			t.Fatalf("%v %v", dup, err)
		}
		l.s.Apply(&a)
	}
	a := producer.Append{Origin: producer.Coordinator, ProducerID: 1, Epoch: 3, FirstSeq: -1, LastSeq: -1, Transactional: true}
	if _, _, err := l.s.Check(&a); !errors.Is(err, producer.ErrEpoch) {
		t.Errorf("%v", err)
	}
	e, _ := l.s.Entry(1)
	if b, _ := e.LastBatch(); b.FirstSeq() != -1 || b.FirstOffset() != 4 {
		t.Errorf("%+v", b)
	}
}

func TestReplayReachesTheLeadersState(t *testing.T) {
	leader := newLog(t)
	var data [][]byte
	add := func(o record.Options, n int, ts int64) {
		o.BaseOffset = leader.s.End()
		b := record.NewBuilder(o, nil)
		for range n {
			b.Append(record.Record{Timestamp: ts, Value: []byte("v")})
		}
		batch, err := b.Build(nil)
		if err != nil {
			t.Fatal(err)
		}
		h, _ := record.ParseHeader(batch)
		a := producer.FromHeader(&h, h.BaseOffset, producer.Client)
		if _, _, err := leader.s.Check(&a); err != nil {
			t.Fatal(err)
		}
		leader.s.Apply(&a)
		data = append(data, batch)
	}
	txn := record.NewOptions(0)
	txn.ProducerID, txn.ProducerEpoch, txn.BaseSequence, txn.Transactional = 7, 1, 0, true
	add(txn, 4, 50)
	add(record.NewOptions(0), 2, 60) // no producer
	idem := record.NewOptions(0)
	idem.ProducerID, idem.ProducerEpoch, idem.BaseSequence = 8, 0, 1000
	add(idem, 3, 70)
	marker := record.AppendEndTxnBatch(nil, 7, 1, record.EndTxnMarker{Type: record.Abort, CoordinatorEpoch: 2}, 80)
	record.Stamp(marker, leader.s.End(), 0)
	h, _ := record.ParseHeader(marker)
	m, ok, err := producer.ReadMarker(&h, marker, producer.Coordinator)
	if err != nil || !ok || !m.Abort || m.CoordinatorEpoch != 2 || m.Timestamp != 80 {
		t.Fatalf("%+v %v %v", m, ok, err)
	}
	leaderDone, _ := leader.s.ApplyMarker(&m)
	data = append(data, marker)

	replica := producer.NewState(0)
	var replicaDone producer.Completed
	for _, batch := range data {
		h, _ := record.ParseHeader(batch)
		done, ok, err := replica.Replay(&h, batch)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			replicaDone = done
		}
	}
	if replicaDone != leaderDone || replica.End() != leader.s.End() {
		t.Errorf("replica %+v up to %d, leader %+v up to %d", replicaDone, replica.End(), leaderDone, leader.s.End())
	}
	if d := cmp.Diff(leader.s, replica, cmp.AllowUnexported(producer.State{}, producer.Entry{})); d != "" {
		t.Errorf("leader and replica (-leader +replica):\n%s", d)
	}
	empty := record.AppendEmptyBatch(nil, h)
	eh, _ := record.ParseHeader(empty)
	if _, ok, err := replica.Replay(&eh, empty); ok || err != nil {
		t.Errorf("an emptied control batch: %v %v", ok, err)
	}
	marker[len(marker)-8] = 9 // the type in the marker's key... and its CRC is not looked at here
	if _, _, err := replica.Replay(&h, marker[:70]); err == nil {
		t.Error("a cut control batch passes")
	}
}
