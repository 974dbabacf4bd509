package storage

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"seedlog/clock/task"
	"seedlog/storage/record"
)

// modelBatch is a batch as the model keeps it.
type modelBatch struct {
	record.Header
	bytes []byte
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
		ProducerExpirationMs: 1 << 50, Compact: r.IntN(2) == 0,
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
	codec := record.Codec(0)
	if m.r.IntN(8) == 0 {
		codec = record.Codec(m.r.IntN(5))
	}
	return batchOf(1+m.r.IntN(5), m.r.IntN(150), m.ts, func(o *record.Options) {
		o.Codec = codec
		if edit != nil {
			edit(o)
		}
	})
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
		if m.cfg.Compact && m.r.IntN(3) == 0 {
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
