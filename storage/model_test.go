package storage

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"seedlog/clock/task"
	"seedlog/storage/epoch"
	"seedlog/storage/index"
	"seedlog/storage/producer"
	"seedlog/storage/record"
)

// modelBatch is a batch as the model keeps it.
type modelBatch struct {
	record.Header
	bytes []byte
	txn   bool
}

// model is the log as a slice.
type model struct {
	batches []modelBatch
	start   int64
	end     int64
	hw      int64
	epoch   int32
	ts      int64
	seq     map[int64]int32
	open    map[int64]bool // producers with an open transaction
	r       *rand.Rand
	cfg     Config
}

func (m *model) String() string {
	return fmt.Sprintf("model [%d, %d) hw %d epoch %d, %d batches", m.start, m.end, m.hw, m.epoch, len(m.batches))
}

// bound is a batch's first offset, or the end.
func (m *model) bound() int64 {
	i := m.r.IntN(len(m.batches) + 1)
	if i == len(m.batches) {
		return m.end
	}
	return max(m.batches[i].BaseOffset, m.start)
}

func (m *model) add(b []byte) {
	for it := record.NewBatches(b); it.Next(); {
		m.batches = append(m.batches, modelBatch{Header: *it.Header(), bytes: bytes.Clone(it.Bytes())})
		m.end = it.Header().NextOffset()
	}
}

func (m *model) cut(end int64) {
	for n := len(m.batches); n > 0 && m.batches[n-1].NextOffset() > end; n = len(m.batches) {
		m.batches = m.batches[:n-1]
	}
	m.end = end
	m.hw = min(m.hw, end)
	m.forgetProducers()
}

// forgetProducers makes the model's sequences those of the batches that are left.
func (m *model) forgetProducers() {
	m.seq, m.open = map[int64]int32{}, map[int64]bool{}
	for _, b := range m.batches {
		if !b.HasProducerID() {
			continue
		}
		if b.IsControl() {
			delete(m.open, b.ProducerID)
			continue
		}
		m.seq[b.ProducerID] = b.LastSequence() + 1
		if b.IsTransactional() {
			m.open[b.ProducerID] = true
		}
	}
}

func (m *model) drop(start int64) {
	m.start = max(m.start, start)
	m.hw = max(m.hw, m.start)
}

// live are the batches that reach above the log start.
func (m *model) live() []modelBatch {
	i := 0
	for i < len(m.batches) && m.batches[i].NextOffset() <= m.start {
		i++
	}
	return m.batches[i:]
}

// ops of the model test, by weight.
var modelOps = []struct {
	name   string
	weight int
}{
	{"append", 30}, {"follow", 8}, {"txn", 10}, {"marker", 8}, {"retry", 4}, {"roll", 3},
	{"hw", 12}, {"sync", 5}, {"truncate", 4}, {"restart-at", 1}, {"delete", 4}, {"housekeep", 4},
	{"checkpoint", 3}, {"clean", 2}, {"kill", 2}, {"power", 2},
}

func drawOps() *rapid.Generator[[]int] {
	var pick []int
	for i, op := range modelOps {
		for range op.weight {
			pick = append(pick, i)
		}
	}
	return rapid.SliceOfN(rapid.SampledFrom(pick), 1, 80)
}

func TestLogIsASliceOfBatches(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		ops := drawOps().Draw(rt, "ops")
		runModel(rt, seed, ops)
	})
}

func runModel(tb testTB, seed uint64, ops []int) {
	mc := newMachine(tb, seed)
	r := rand.New(rand.NewPCG(seed, 1))
	m := &model{r: r, ts: 1_700_000_000_000, seq: map[int64]int32{}, open: map[int64]bool{}, cfg: Config{
		SegmentBytes: int32(1200 + r.IntN(4000)), IndexIntervalBytes: int32(1 + r.IntN(600)),
		SegmentIndexBytes: int32(64 + r.IntN(400)), FlushMessages: int64(r.IntN(3)),
		ProducerExpirationMs: 1 << 50,
	}}
	for first := true; ; first = false {
		how, synced := "", int64(0)
		mc.boot(func(t *task.T, env Env) {
			d := openDir(t, env, "/data/logs")
			var l *Log
			if first {
				l = must(d.Create(t, "t", [16]byte{9}, 3, m.cfg))
			} else {
				l = must(d.Load(t, func(string, [16]byte) Config { return m.cfg }, nil))[0]
				m.verify(t, l)
			}
			for len(ops) > 0 && how == "" {
				name := modelOps[ops[0]].name
				ops = ops[1:]
				how = m.step(t, d, l, name)
				m.numbers(l, name)
				if how == "" && r.IntN(4) == 0 {
					m.verify(t, l)
				}
			}
			m.verify(t, l)
			synced = l.SyncedEnd()
			if how == "clean" {
				check(d.CloseClean(t, 5))
			}
			if how == "" {
				how = "end"
			}
		})
		switch how {
		case "end":
			return
		case "power":
			mc.d.PowerLoss()
			mc.boot(func(t *task.T, env Env) { m.afterPowerLoss(t, env, synced) })
		}
	}
}

// afterPowerLoss checks what is left and makes it the model.
func (m *model) afterPowerLoss(t *task.T, env Env, synced int64) {
	d := openDir(t, env, "/data/logs")
	l := must(d.Load(t, func(string, [16]byte) Config { return m.cfg }, nil))[0]
	check(l.Err())
	end := l.LogEndOffset()
	if end < synced || end > m.end {
		panic(fmt.Sprintf("recovered to %d, synced was %d, end %d", end, synced, m.end))
	}
	m.start = max(m.start, l.LogStartOffset())
	m.cut(end)
	if s := l.Segments()[0]; s.BaseOffset == end && s.Size == 0 {
		m.batches = nil // what was left lay below the log start
		m.forgetProducers()
	}
	m.hw = l.HighWatermark()
	m.verify(t, l)
	if end > 0 && l.SyncedEnd() != end {
		panic("what recovery leaves is durable")
	}
	check(d.Close(t))
}

func (m *model) newBatch(edit func(o *record.Options)) []byte {
	m.ts += int64(m.r.IntN(2000) - 300)
	return batchOf(1+m.r.IntN(5), m.r.IntN(150), m.ts, edit)
}

// step does one thing to the log and to the model; it returns how the incarnation ends.
func (m *model) step(t *task.T, d *Dir, l *Log, name string) string {
	switch name {
	case "append", "txn":
		if m.r.IntN(8) == 0 {
			m.epoch++
		}
		id := int64(m.r.IntN(3)) - 1
		if name == "txn" {
			id = 10 + int64(m.r.IntN(2))
		}
		b := m.newBatch(func(o *record.Options) {
			if id >= 0 {
				o.ProducerID, o.ProducerEpoch, o.BaseSequence, o.Transactional = id, 0, m.seq[id], id >= 10
			}
		})
		info := must(l.Append(t, m.epoch, b, Client))
		if info.BaseOffset != m.end || info.Duplicate {
			panic(fmt.Sprintf("append: %+v, %v", info, m))
		}
		m.add(b)
		if id >= 0 {
			m.seq[id] += int32(info.LastOffset - info.BaseOffset + 1)
			m.open[id] = id >= 10
		}
	case "marker":
		id := 10 + int64(m.r.IntN(2))
		kind := record.Commit
		if m.r.IntN(2) == 0 {
			kind = record.Abort
		}
		b := record.AppendEndTxnBatch(nil, id, 0, record.EndTxnMarker{Type: kind, CoordinatorEpoch: 1}, m.ts)
		must(l.Append(t, m.epoch, b, Coordinator))
		m.add(b)
		delete(m.open, id)
	case "retry":
		m.retry(t, l)
	case "follow":
		m.follow(t, l)
	case "roll":
		check(l.Roll(t))
	case "hw":
		m.hw = max(m.hw, m.bound())
		l.SetHighWatermark(m.hw)
	case "sync":
		check(l.SyncTo(t, m.bound()))
	case "truncate":
		at := m.bound()
		check(l.TruncateTo(t, at))
		if at < m.end {
			m.cut(at)
			if len(m.live()) == 0 {
				// Where it begins anew depends on the segments.
				o := l.Offsets()
				if o.LogStart != m.start && o.LogStart != at || o.LogEnd > at || o.LogEnd < o.LogStart {
					panic(fmt.Sprintf("emptied by a truncation to %d: %+v, %v", at, o, m))
				}
				if s := l.Segments()[0]; s.BaseOffset == at && s.Size == 0 {
					m.batches = nil
				}
				m.start, m.hw, m.end = o.LogStart, o.HighWatermark, o.LogEnd
				m.forgetProducers()
			} else if n := len(m.batches); n > 0 {
				m.end = m.batches[n-1].NextOffset()
				m.hw = min(m.hw, m.end)
			}
		}
	case "restart-at":
		at := m.end + int64(m.r.IntN(5))
		check(l.TruncateFullyAt(t, at))
		m.batches = nil
		m.cut(at)
		m.start, m.hw, m.end = at, at, at
	case "delete":
		if m.hw >= m.start {
			at := m.start + m.r.Int64N(m.hw-m.start+1)
			if got := must(l.DeleteRecords(t, at)); got != at {
				panic(fmt.Sprintf("deleted to %d instead of %d", got, at))
			}
			m.drop(at)
		}
	case "housekeep":
		d.Housekeep(t)
	case "checkpoint":
		check(errors.Join(d.CheckpointRecoveryPoints(t), d.CheckpointLogStarts(t), d.CheckpointHighWatermarks(t)))
	default:
		return m.stop(t, d, name)
	}
	return ""
}

func (m *model) stop(t *task.T, d *Dir, name string) string {
	if name != "power" {
		check(d.CheckpointHighWatermarks(t))
	}
	return name
}

// retry sends a batch again that is among a producer's last five.
func (m *model) retry(t *task.T, l *Log) {
	for i := len(m.batches) - 1; i >= 0; i-- {
		b := m.batches[i]
		if !b.HasProducerID() || b.IsControl() {
			continue
		}
		again := bytes.Clone(b.bytes)
		info, err := l.Append(t, m.epoch, again, Client)
		if err != nil || !info.Duplicate || info.BaseOffset != b.BaseOffset || info.LastOffset != b.LastOffset() {
			panic(fmt.Sprintf("retry of [%d, %d]: %+v %v", b.BaseOffset, b.LastOffset(), info, err))
		}
		return
	}
}

// follow appends what a leader sent: several batches, with gaps and a torn one at the end.
func (m *model) follow(t *task.T, l *Log) {
	var all []byte
	at := m.end
	for range 1 + m.r.IntN(4) {
		if m.r.IntN(3) == 0 {
			at += int64(m.r.IntN(3))
		}
		if m.r.IntN(5) == 0 {
			m.epoch++
		}
		b := m.newBatch(nil)
		record.Stamp(b, at, m.epoch)
		h, _ := record.ParseHeader(b)
		at = h.NextOffset()
		all = append(all, b...)
	}
	m.add(all)
	torn := m.newBatch(nil)
	record.Stamp(torn, at, m.epoch)
	info := must(l.AppendFollower(t, append(bytes.Clone(all), torn[:m.r.IntN(len(torn))]...)))
	if info.LastOffset != m.end-1 {
		panic(fmt.Sprintf("followed to %d, %v", info.LastOffset, m))
	}
}

// numbers compares the offsets.
func (m *model) numbers(l *Log, after string) {
	o := l.Offsets()
	if o.LogStart != m.start || o.LogEnd != m.end || o.HighWatermark != m.hw {
		panic(fmt.Sprintf("after %s: %+v, %v", after, o, m))
	}
	if !(o.LogStart <= o.LastStable && o.LastStable <= o.HighWatermark && o.HighWatermark <= o.LogEnd && o.SyncedEnd <= o.LogEnd) {
		panic(fmt.Sprintf("after %s: offsets out of order: %+v", after, o))
	}
}

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
