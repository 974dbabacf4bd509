package storage

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/storage/index"
	"seedlog/storage/record"
)

// crashLog is what is known of one log when the power goes.
type crashLog struct {
	tried []byte  // every byte that an append was asked for, in order
	ends  []int64 // offsets after each batch tried
	acked int64   // SyncTo returned for everything below
	start int64   // DeleteRecords returned with this
	cuts  int32   // truncations: what comes after one is of another epoch
}

// crashRun writes to several logs until the power fails, or the process ends, at a drawn
// moment; and again during recovery; then it recovers for good and compares.
func crashRun(t *testing.T, seed uint64) (effective bool) {
	m := newMachine(t, seed)
	r := rand.New(rand.NewPCG(seed, 7))
	cfg := Config{SegmentBytes: int32(2000 + r.IntN(8000)), IndexIntervalBytes: int32(1 + r.IntN(800)), SegmentIndexBytes: 400, FlushMessages: 1}
	logs := make([]crashLog, 3)
	power := r.IntN(3) > 0
	crash := func() {
		m.rt.Kill()
		if power {
			m.d.PowerLoss()
		} else {
			m.d.Kill()
		}
	}
	crashAt := func(within time.Duration) { m.s.At(m.s.Now().Add(time.Duration(r.Int64N(int64(within)))), crash) }
	cfgOf := func(string, [16]byte) Config { return cfg }
	m.boot(func(t *task.T, env Env) {
		d := openDir(t, env, "/data/logs")
		var open []*Log
		for i := range logs {
			open = append(open, must(d.Create(t, fmt.Sprint("t", i), [16]byte{byte(i)}, 0, cfg)))
		}
		t.Go("housekeeping", d.Run)
		g := task.NewGroup(env.RT, "writers")
		for i, l := range open {
			g.Go(fmt.Sprint("writer", i), func(t *task.T) { logs[i].write(t, l, rand.New(rand.NewPCG(seed, uint64(i)))) })
		}
		crashAt(100 * time.Millisecond)
		for t.Park(clock.Never) == task.Woken {
		}
	})
	for range r.IntN(3) {
		m.boot(func(t *task.T, env Env) {
			crashAt(5 * time.Millisecond)
			d := openDir(t, env, "/data/logs")
			for _, l := range must(d.Load(t, cfgOf, nil)) {
				check(l.Err())
			}
			for t.Park(clock.Never) == task.Woken {
			}
		})
	}
	m.boot(func(t *task.T, env Env) {
		d := openDir(t, env, "/data/logs")
		if d.WasClean() {
			panic("a crash looks like a clean stop")
		}
		for _, l := range must(d.Load(t, cfgOf, nil)) {
			var i int
			fmt.Sscanf(l.Topic(), "t%d", &i)
			logs[i].compare(t, l, &effective)
		}
		check(d.CloseClean(t, 3))
	})
	m.boot(func(t *task.T, env Env) {
		d := openDir(t, env, "/data/logs")
		if !d.WasClean() || d.PreviousBrokerEpoch() != 3 {
			panic("a clean stop is forgotten")
		}
		for _, l := range must(d.Load(t, cfgOf, nil)) {
			var i int
			fmt.Sscanf(l.Topic(), "t%d", &i)
			logs[i].compare(t, l, new(bool))
		}
		check(d.Close(t))
	})
	return effective
}

// write appends for ever: idempotent batches, transactions that abort, deletions, syncs,
// truncations.
func (c *crashLog) write(t *task.T, l *Log, r *rand.Rand) {
	for n := 0; ; n++ {
		id, epoch := int64(1), int32(n/20)+c.cuts
		if n%5 == 4 {
			id = 2
		}
		b := batchOf(1+r.IntN(4), r.IntN(200), 1_700_000_000_000+int64(n), func(o *record.Options) {
			o.ProducerID, o.ProducerEpoch, o.BaseSequence, o.Transactional = id, 0, c.nextSeq(id), id == 2
		})
		info := c.append(t, l, b, epoch, Client)
		if n%10 == 9 {
			b := record.AppendEndTxnBatch(nil, 2, 0, record.EndTxnMarker{Type: record.Abort}, 1)
			info = c.append(t, l, b, epoch, Coordinator)
		}
		if r.IntN(3) == 0 {
			check(l.SyncTo(t, info.LastOffset+1))
			c.acked = info.LastOffset + 1
		}
		if r.IntN(15) == 0 {
			l.SetHighWatermark(info.LastOffset + 1)
			c.start = must(l.DeleteRecords(t, r.Int64N(info.LastOffset+1)))
		}
		if at := c.ends[r.IntN(len(c.ends))]; r.IntN(15) == 0 && at > c.start {
			c.acked = min(c.acked, at)
			check(l.TruncateTo(t, at))
			c.cut(at)
			c.cuts++
		}
	}
}

// nextSeq is the sequence that the producer's next batch begins with.
func (c *crashLog) nextSeq(id int64) (next int32) {
	for it := record.NewBatches(c.tried); it.Next(); {
		if h := it.Header(); h.ProducerID == id && !h.IsControl() {
			next = h.LastSequence() + 1
		}
	}
	return next
}

// cut follows a truncation that returned.
func (c *crashLog) cut(end int64) {
	it := record.NewBatches(c.tried)
	n, size := 0, 0
	for it.Next() && it.Header().NextOffset() <= end {
		n, size = n+1, it.Position()+it.Header().Size()
	}
	c.ends, c.tried = c.ends[:n], c.tried[:size]
}

func (c *crashLog) append(t *task.T, l *Log, b []byte, epoch int32, origin Origin) AppendInfo {
	stamped := bytes.Clone(b)
	end := int64(0)
	if n := len(c.ends); n > 0 {
		end = c.ends[n-1]
	}
	record.Stamp(stamped, end, epoch)
	h := must(record.ParseHeader(stamped))
	c.tried = append(c.tried, stamped...)
	c.ends = append(c.ends, h.NextOffset())
	return must(l.Append(t, epoch, b, origin))
}

// compare judges what was recovered.
func (c *crashLog) compare(t *task.T, l *Log, effective *bool) {
	check(l.Err())
	end, start := l.LogEndOffset(), l.LogStartOffset()
	if end < c.acked {
		panic(fmt.Sprintf("%s: acknowledged as synced to %d, recovered to %d", l.Name(), c.acked, end))
	}
	if start < c.start && end > c.start {
		panic(fmt.Sprintf("%s: deleted below %d, begins at %d", l.Name(), c.start, start))
	}
	var want []byte
	state, rest := 0, record.NewBatches(c.tried)
	last := int64(0)
	for rest.Next() {
		h := rest.Header()
		if h.NextOffset() > end {
			state++
			continue
		}
		last = h.NextOffset()
		if h.NextOffset() > start {
			want = append(want, rest.Bytes()...)
		}
	}
	if state > 0 {
		*effective = true
	}
	if end != start && last != end {
		panic(fmt.Sprintf("%s: ends at %d, within a batch", l.Name(), end))
	}
	if got := readAll(t, l, ToLogEnd); !bytes.Equal(got, want) {
		panic(fmt.Sprintf("%s: [%d, %d) has %d bytes, tried were %d", l.Name(), start, end, len(got), len(want)))
	}
	segs := *l.segs.Load()
	for i, s := range segs {
		verifyIndexes(t, l, s, i)
		if i > 0 && s.base < segs[i-1].base {
			panic("segments out of order")
		}
	}
	c.compareDerived(t, l, want)
}

// compareDerived compares epochs, producers and aborted transactions with the batches.
func (c *crashLog) compareDerived(t *task.T, l *Log, bytes []byte) {
	m := &model{start: l.LogStartOffset(), end: l.LogEndOffset(), hw: l.HighWatermark()}
	m.add(bytes)
	m.end = l.LogEndOffset()
	m.verifyEpochs(l)
	m.verifySnapshots(t, l)
	_, aborted := m.stable(m.batches)
	var got []index.Txn
	for _, s := range *l.segs.Load() {
		got = append(got, must(s.loadTxns(t))...)
	}
	for _, a := range aborted {
		found := false
		for _, g := range got {
			found = found || g.ProducerID == a.ProducerID && g.FirstOffset <= a.FirstOffset && g.LastOffset == a.LastOffset
		}
		if !found {
			panic(fmt.Sprintf("%s: aborted transaction %+v is not indexed: %+v", l.Name(), a, got))
		}
	}
	for _, e := range l.Producers() {
		for i := len(m.batches) - 1; i >= 0; i-- {
			if b := m.batches[i]; b.ProducerID == e.ProducerID && !b.IsControl() {
				if e.LastSeq() != b.LastSequence() {
					panic(fmt.Sprintf("%s: producer %d at sequence %d, log at %d", l.Name(), e.ProducerID, e.LastSeq(), b.LastSequence()))
				}
				break
			}
		}
	}
}

func TestCrashLeavesAPrefixThatHasAllThatWasSynced(t *testing.T) {
	lost := 0
	for seed := range uint64(crashSeeds) {
		if crashRun(t, seed) {
			lost++
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if lost < crashSeeds/5 {
		t.Fatalf("only %d crashes lost anything", lost)
	}
}

// crashSeeds is how many crashes a test run tries.
const crashSeeds = 100
