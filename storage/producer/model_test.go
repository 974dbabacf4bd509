package producer_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"seedlog/storage/producer"
	"seedlog/storage/record"
)

// event is one batch or marker in the model's log, with nothing left out.
type event struct {
	append *producer.Append
	marker *producer.Marker
}

// model is the naive producer state: the whole log, searched from the end each time.
type model struct {
	log []event
	hw  int64
}

func (m *model) of(pid int64) (list []event) {
	for _, e := range m.log {
		if e.append != nil && e.append.ProducerID == pid || e.marker != nil && e.marker.ProducerID == pid {
			list = append(list, e)
		}
	}
	return list
}

// epoch is the current epoch and the batches in it.
func (m *model) epoch(pid int64) (epoch int16, batches []*producer.Append) {
	epoch = -1
	for _, e := range m.of(pid) {
		ep := int16(0)
		if e.append != nil {
			ep = e.append.Epoch
		} else {
			ep = e.marker.Epoch
		}
		if ep != epoch {
			epoch, batches = ep, nil
		}
		if e.append != nil {
			batches = append(batches, e.append)
		}
	}
	return epoch, batches
}

// check says what a client append must be told.
func (m *model) check(a *producer.Append) (dup *producer.Append, err error) {
	epoch, batches := m.epoch(a.ProducerID)
	if len(m.of(a.ProducerID)) == 0 {
		return nil, nil
	}
	if a.Epoch < epoch {
		return nil, producer.ErrEpoch
	}
	if a.Epoch > epoch {
		if a.FirstSeq != 0 {
			return nil, producer.ErrOutOfOrder
		}
		return nil, m.checkTxn(a)
	}
	for i := max(0, len(batches)-5); i < len(batches); i++ {
		if batches[i].FirstSeq == a.FirstSeq && batches[i].LastSeq == a.LastSeq {
			return batches[i], nil
		}
	}
	next := int32(0)
	if n := len(batches); n > 0 {
		next = record.AddSequence(batches[n-1].LastSeq, 1)
	}
	if a.FirstSeq == next {
		return nil, m.checkTxn(a)
	}
	appended := map[int32]bool{}
	for _, b := range batches {
		for s := b.FirstSeq; ; s = record.AddSequence(s, 1) {
			appended[s] = true
			if s == b.LastSeq {
				break
			}
		}
	}
	for s := a.FirstSeq; ; s = record.AddSequence(s, 1) {
		if !appended[s] {
			return nil, producer.ErrOutOfOrder
		}
		if s == a.LastSeq {
			return nil, producer.ErrDuplicate
		}
	}
}

// open is the first offset of the producer's open transaction, -1 if none.
func (m *model) open(pid int64) int64 {
	first := int64(-1)
	for _, e := range m.of(pid) {
		switch {
		case e.marker != nil:
			first = -1
		case e.append.Transactional && first < 0:
			first = e.append.FirstOffset
		}
	}
	return first
}

func (m *model) checkTxn(a *producer.Append) error {
	if m.open(a.ProducerID) >= 0 && !a.Transactional {
		return producer.ErrTxnState
	}
	return nil
}

// unstable is the first offset of a transaction that is open or whose marker is not below hw.
func (m *model) unstable(pids []int64) int64 {
	least := int64(-1)
	note := func(o int64) {
		if o >= 0 && (least < 0 || o < least) {
			least = o
		}
	}
	for _, pid := range pids {
		first := int64(-1)
		for _, e := range m.of(pid) {
			switch {
			case e.marker != nil:
				if e.marker.Offset >= m.hw {
					note(first)
				}
				first = -1
			case e.append.Transactional && first < 0:
				first = e.append.FirstOffset
			}
		}
		note(first)
	}
	return least
}

func TestStateAgreesWithANaiveModel(t *testing.T) {
	pids := []int64{1, 2, 3}
	rapid.Check(t, func(t *rapid.T) {
		s, m := producer.NewState(0), &model{}
		now := int64(0)
		seqs := rapid.SampledFrom([]int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 1<<31 - 2, 1<<31 - 1})
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				a := producer.Append{
					ProducerID: rapid.SampledFrom(pids).Draw(t, "pid"), Epoch: rapid.Int16Range(0, 2).Draw(t, "epoch"),
					FirstSeq: seqs.Draw(t, "seq"), FirstOffset: s.End(), Transactional: rapid.Bool().Draw(t, "txn"),
				}
				n := rapid.Int32Range(1, 3).Draw(t, "n")
				if epoch, batches := m.epoch(a.ProducerID); rapid.IntRange(0, 2).Draw(t, "good") > 0 && epoch >= 0 {
					a.Epoch, a.FirstSeq = epoch, 0 // most of the time what comes next
					if len(batches) > 0 {
						a.FirstSeq = record.AddSequence(batches[len(batches)-1].LastSeq, 1)
					}
				}
				a.LastSeq, a.LastOffset = record.AddSequence(a.FirstSeq, n-1), a.FirstOffset+int64(n)-1
				now++
				a.MaxTimestamp = now
				wantDup, wantErr := m.check(&a)
				dup, isDup, err := s.Check(&a)
				if !errors.Is(err, wantErr) || (err == nil) != (wantErr == nil) {
					t.Fatalf("%+v: %v, the model says %v", a, err, wantErr)
				}
				if isDup != (wantDup != nil) || isDup && (dup.FirstOffset() != wantDup.FirstOffset || dup.Timestamp != wantDup.MaxTimestamp) {
					t.Fatalf("%+v: repeat of %+v (%v), the model says %+v", a, dup, isDup, wantDup)
				}
				if err == nil && !isDup {
					s.Apply(&a)
					m.log = append(m.log, event{append: &a})
				}
			},
			"marker": func(t *rapid.T) {
				mk := producer.Marker{
					ProducerID: rapid.SampledFrom(pids).Draw(t, "pid"), Epoch: rapid.Int16Range(0, 2).Draw(t, "epoch"),
					Offset: s.End(), Abort: rapid.Bool().Draw(t, "abort"), Origin: producer.Coordinator,
				}
				if epoch, _ := m.epoch(mk.ProducerID); (s.CheckMarker(&mk) != nil) != (mk.Epoch < epoch) {
					t.Fatalf("marker %+v in epoch %d", mk, epoch)
				} else if mk.Epoch < epoch {
					return
				}
				now++
				mk.Timestamp = now
				open := m.open(mk.ProducerID)
				done, ok := s.ApplyMarker(&mk)
				if ok != (open >= 0) || ok && (done.FirstOffset != open || done.LastOffset != mk.Offset) {
					t.Fatalf("marker ended %+v (%v), the model says %d", done, ok, open)
				}
				m.log = append(m.log, event{marker: &mk})
				lso := s.End()
				for _, pid := range pids {
					if o := m.open(pid); o >= 0 {
						lso = min(lso, o)
					}
				}
				if ok && done.LastStableOffset != lso {
					t.Fatalf("last stable offset %d, the model says %d", done.LastStableOffset, lso)
				}
			},
			"high watermark": func(t *rapid.T) {
				m.hw = rapid.Int64Range(m.hw, s.End()).Draw(t, "hw")
				s.OnHighWatermark(m.hw)
			},
			"snapshot": func(t *rapid.T) {
				entries, err := producer.DecodeSnapshot(s.Snapshot())
				if err != nil {
					t.Fatal(err)
				}
				loaded := producer.NewState(0)
				loaded.Load(s.End(), entries, now, 1<<40)
				if string(loaded.Snapshot()) != string(s.Snapshot()) || loaded.End() != s.End() {
					t.Fatal("a snapshot of the snapshot differs")
				}
				if !slices.Equal(s.Ongoing(), loaded.Ongoing()) {
					t.Fatalf("open transactions %+v, loaded %+v", s.Ongoing(), loaded.Ongoing())
				}
			},
			"": func(t *rapid.T) {
				got, ok := s.FirstUnstable()
				if want := m.unstable(pids); ok != (want >= 0) || ok && got != want {
					t.Fatalf("first unstable %d (%v), the model says %d", got, ok, want)
				}
				for _, e := range s.Entries() {
					epoch, batches := m.epoch(e.ProducerID)
					if e.Epoch != epoch || len(e.Batches()) != min(len(batches), 5) || e.TxnFirstOffset != m.open(e.ProducerID) {
						t.Fatalf("%+v; the model: epoch %d, %d batches, transaction from %d", e, epoch, len(batches), m.open(e.ProducerID))
					}
				}
			},
		})
	})
}

// The state after any replay from a snapshot in the middle is the state of a full replay, but for
// the batches before the snapshot's last (I17).
func TestSnapshotAndReplayIsTheState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		full, loaded := producer.NewState(0), producer.NewState(0)
		next := map[int64]int32{}
		n := rapid.IntRange(1, 40).Draw(t, "n")
		cut := rapid.IntRange(0, n).Draw(t, "cut")
		for i := range n {
			if i == cut {
				entries, err := producer.DecodeSnapshot(full.Snapshot())
				if err != nil {
					t.Fatal(err)
				}
				loaded.Load(full.End(), entries, 0, 1<<40)
			}
			pid := rapid.Int64Range(1, 3).Draw(t, "pid")
			if rapid.IntRange(0, 4).Draw(t, "kind") == 0 {
				mk := producer.Marker{ProducerID: pid, Offset: full.End(), Timestamp: int64(i), Origin: producer.Replication}
				full.ApplyMarker(&mk)
				if i >= cut {
					loaded.ApplyMarker(&mk)
				}
				continue
			}
			a := producer.Append{Origin: producer.Replication, ProducerID: pid, FirstSeq: next[pid], LastSeq: next[pid] + 1,
				FirstOffset: full.End(), LastOffset: full.End() + 1, MaxTimestamp: int64(i), Transactional: pid != 3}
			next[pid] += 2
			full.Apply(&a)
			if i >= cut {
				loaded.Apply(&a)
			}
		}
		if cut == n {
			return
		}
		if string(full.Snapshot()) != string(loaded.Snapshot()) {
			t.Fatalf("full %+v\nloaded %+v", full.Entries(), loaded.Entries())
		}
		if !slices.Equal(full.Ongoing(), loaded.Ongoing()) {
			t.Fatalf("open transactions %+v, loaded %+v", full.Ongoing(), loaded.Ongoing())
		}
	})
}
