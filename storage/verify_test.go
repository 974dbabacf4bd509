package storage

import (
	"bytes"
	"fmt"
	"slices"

	"seedlog/clock/task"
	"seedlog/storage/epoch"
	"seedlog/storage/index"
	"seedlog/storage/producer"
	"seedlog/storage/record"
)

// verify compares everything that can be read, and every derived structure with a rebuild.
func (m *model) verify(t *task.T, l *Log) {
	m.numbers(l, "verify")
	var want []byte
	for _, b := range m.live() {
		want = append(want, b.bytes...)
	}
	if got := readAll(t, l, ToLogEnd); !bytes.Equal(got, want) {
		panic(fmt.Sprintf("log has %d bytes, %v has %d", len(got), m, len(want)))
	}
	m.verifyRead(t, l)
	m.verifyTime(t, l)
	m.verifyEpochs(l)
	m.verifyProducers(l)
	for i, s := range *l.segs.Load() {
		verifyIndexes(t, l, s, i)
	}
}

// verifyRead reads somewhere and compares, with the bound and the aborted transactions.
func (m *model) verifyRead(t *task.T, l *Log) {
	at := m.start + m.r.Int64N(m.end-m.start+1)
	limit := int32(m.r.IntN(2000))
	bound := []Bound{ToHighWatermark, ToLastStable, ToLogEnd}[m.r.IntN(3)]
	lso, aborted := m.stable(m.batches)
	if got := l.LastStableOffset(); got != lso {
		// A transaction that began below the log start is forgotten at a restart.
		if rest, _ := m.stable(m.live()); got != rest {
			panic(fmt.Sprintf("last stable offset %d, want %d or %d, %v", got, lso, rest, m))
		}
		lso = got
	}
	upTo := map[Bound]int64{ToHighWatermark: m.hw, ToLastStable: lso, ToLogEnd: m.end}[bound]
	var f Fetched
	check(l.Read(t, at, limit, bound, true, &f))
	defer f.Release()
	var got []byte
	if f.Size > 0 {
		got = make([]byte, 0, f.Size)
		check(f.copyTo(t, &got))
	}
	i := slices.IndexFunc(m.batches, func(b modelBatch) bool { return b.LastOffset() >= at })
	if i < 0 || m.batches[i].NextOffset() > upTo || at >= upTo {
		if len(got) > 0 {
			panic(fmt.Sprintf("read at %d bound %d gave %d bytes, %v", at, upTo, len(got), m))
		}
		return
	}
	var want []byte
	last := at
	for _, b := range m.batches[i:] {
		if b.NextOffset() > upTo || len(want) >= len(got) {
			break
		}
		want = append(want, b.bytes...)
		last = b.LastOffset()
	}
	if len(got) < len(m.batches[i].bytes) || len(got) > max(int(limit), len(m.batches[i].bytes)) || !bytes.HasPrefix(want, got) {
		panic(fmt.Sprintf("read at %d of %d, bound %d: %d bytes, first batch has %d, %v", at, limit, upTo, len(got), len(m.batches[i].bytes), m))
	}
	if bound != ToLastStable {
		return
	}
	for _, a := range aborted {
		has := slices.Contains(f.Aborted, AbortedTxn{a.ProducerID, a.FirstOffset})
		if needs := a.LastOffset >= at && a.FirstOffset <= last; needs && !has {
			panic(fmt.Sprintf("read [%d, %d] misses aborted %+v of %+v: %+v", at, last, a, aborted, f.Aborted))
		}
	}
	for _, a := range f.Aborted {
		if !slices.ContainsFunc(aborted, func(x index.Txn) bool { return x.ProducerID == a.ProducerID && x.FirstOffset == a.FirstOffset }) {
			panic(fmt.Sprintf("read at %d reports aborted %+v of %+v", at, a, aborted))
		}
	}
}

// stable is the last stable offset and the aborted transactions, from the batches. Where
// the start of the log is gone, so are transactions that began there.
func (m *model) stable(batches []modelBatch) (lso int64, aborted []index.Txn) {
	lso = m.hw
	first := map[int64]int64{}
	for _, b := range batches {
		switch {
		case !b.IsTransactional():
		case b.IsControl():
			start, open := first[b.ProducerID]
			if !open {
				continue
			}
			delete(first, b.ProducerID)
			if b.BaseOffset >= m.hw {
				lso = min(lso, start)
			}
			if k := controlType(b.bytes); k == record.Abort {
				aborted = append(aborted, index.Txn{ProducerID: b.ProducerID, FirstOffset: start, LastOffset: b.BaseOffset})
			}
		default:
			if _, open := first[b.ProducerID]; !open {
				first[b.ProducerID] = b.BaseOffset
			}
		}
	}
	for _, start := range first {
		lso = min(lso, start)
	}
	return max(lso, m.start), aborted
}

func controlType(b []byte) record.ControlType {
	it := record.NewRecords(b, nil, 0)
	defer it.Close()
	it.Next()
	return must(record.ParseControlKey(it.Record().Key))
}

// verifyTime compares look-ups by time with a walk.
func (m *model) verifyTime(t *task.T, l *Log) {
	ts := m.ts - int64(m.r.IntN(20000)) + 2000
	want, wantMax := noTime(), noTime()
	for _, b := range m.live() {
		it := record.NewRecords(b.bytes, nil, 0)
		for it.Next() {
			r := it.Record()
			if r.Offset < m.start {
				continue
			}
			found := TimeOffset{r.Timestamp, r.Offset, b.LeaderEpoch}
			if want.Offset < 0 && r.Timestamp >= ts {
				want = found
			}
			if r.Timestamp > wantMax.Timestamp {
				wantMax = found
			}
		}
		it.Close()
	}
	if got := must(l.OffsetForTime(t, ts)); got != want {
		panic(fmt.Sprintf("offset for time %d: %+v, want %+v, %v", ts, got, want, m))
	}
	if got := must(l.MaxTimestamp(t)); got != wantMax {
		panic(fmt.Sprintf("max timestamp: %+v, want %+v, %v", got, wantMax, m))
	}
}

// verifyEpochs compares the cache with one rebuilt from the batches above the log start.
func (m *model) verifyEpochs(l *Log) {
	var c epoch.Cache
	for _, b := range m.live() {
		c.Confirm(b.LeaderEpoch, b.BaseOffset)
	}
	c.TruncateFromStart(m.start)
	got := l.Epochs()
	// An epoch whose batches were all deleted stays, beginning at the log start.
	if len(got) > 0 && (c.Len() == 0 || got[0].Epoch < must1(c.Earliest()).Epoch) && got[0].Start == m.start {
		got = got[1:]
	}
	want := c.Entries()
	if len(got) > 0 && len(want) > 0 && got[0].Epoch == want[0].Epoch {
		want[0].Start = got[0].Start // the batch that straddles the start, or the start
	}
	if !slices.Equal(got, want) {
		panic(fmt.Sprintf("epochs %v, rebuilt %v, %v", l.Epochs(), c.Entries(), m))
	}
}

func must1[V any](v V, ok bool) V { return v }

// verifyProducers compares the last sequences, as far as the batches are still there.
func (m *model) verifyProducers(l *Log) {
	state := producer.NewState(0)
	for _, b := range m.batches {
		must2(state.Replay(&b.Header, b.bytes))
	}
	for _, want := range state.Entries() {
		for _, got := range l.Producers() {
			if got.ProducerID == want.ProducerID && got.LastSeq() != want.LastSeq() {
				panic(fmt.Sprintf("producer %d: last sequence %d, want %d", got.ProducerID, got.LastSeq(), want.LastSeq()))
			}
		}
	}
	above := func(list []producer.Txn) []producer.Txn {
		return slices.DeleteFunc(list, func(x producer.Txn) bool { return x.FirstOffset < m.start })
	}
	if !slices.Equal(above(l.OngoingTxns()), above(state.Ongoing())) {
		panic(fmt.Sprintf("open transactions %v, want %v", l.OngoingTxns(), state.Ongoing()))
	}
}

func must2[A, B any](a A, b B, err error) (A, B) {
	check(err)
	return a, b
}

// verifyIndexes checks that every entry points at the batch that it names, and that the
// offset index is what a rebuild makes.
func verifyIndexes(t *task.T, l *Log, s *segment, i int) {
	check(l.loadSegment(t, s))
	shadow := must(s.rebuild(t, l.Config().IndexIntervalBytes))
	got, want := allEntries(t, s, &s.offsets), allEntries(t, s, &shadow.offsets)
	if !bytes.Equal(got, want) {
		panic(fmt.Sprintf("segment %d: index %x, rebuilt %x", s.base, got, want))
	}
	times := allEntries(t, s, &s.times)
	if _, err := index.CheckTime(times, index.Time{Timestamp: -1}); err != nil {
		panic(err)
	}
	ends := map[int32]int64{}
	maxTs := int64(-1)
	check(s.walk(t, 0, s.size.Load(), 4096, func(_ *scanner, b *batch) (bool, error) {
		maxTs = max(maxTs, b.MaxTimestamp)
		ends[int32(b.LastOffset()-s.base)] = maxTs
		return true, nil
	}))
	for k := range len(times) / index.TimeEntrySize {
		if e := index.TimeAt(times, k); ends[e.Rel] != e.Timestamp {
			panic(fmt.Sprintf("segment %d: time entry %+v, largest by then is %d", s.base, e, ends[e.Rel]))
		}
	}
	if s.maxTs != maxTs {
		panic(fmt.Sprintf("segment %d: largest timestamp %d, is %d", s.base, s.maxTs, maxTs))
	}
}

// allEntries is the whole content of an index, from memory and from the file.
func allEntries(t *task.T, s *segment, x *indexFile) []byte {
	var out []byte
	for p := 0; p*x.PerPage() < x.Len(); p++ {
		if b, ok := x.Page(p); ok {
			out = append(out, b...)
			continue
		}
		off, n := x.Where(p)
		out = append(out, must(x.read(t, s.files, off, n, nil))...)
	}
	return out
}
