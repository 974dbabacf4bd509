package storage

import (
	"fmt"

	"seedlog/clock/task"
	"seedlog/storage/producer"
	"seedlog/storage/record"
)

// Append writes validated batches as the leader of leaderEpoch: it stamps offsets and the
// epoch into them, in place, checks the producers' sequences, and writes them with one
// positional write. A repeat of one of a producer's last five batches is answered with its
// offsets. The error is ErrOffline after a failed write, ErrEpoch, ErrBatchTooLarge, or one
// of package producer's; in the last three cases nothing was written.
func (l *Log) Append(t *task.T, leaderEpoch int32, batches []byte, origin Origin) (AppendInfo, error) {
	l.gate.Enter(t)
	info, err := l.appendLeader(t, leaderEpoch, batches, origin)
	l.gate.Leave(t)
	if err == nil && !info.Duplicate {
		err = l.flushIfDue(t, &info)
	}
	return info, err
}

func (l *Log) appendLeader(t *task.T, leaderEpoch int32, batches []byte, origin Origin) (AppendInfo, error) {
	if err := l.Err(); err != nil {
		return AppendInfo{}, err
	}
	l.mu.Lock()
	next, latest, cfg := l.leo.offset, max(l.epochs.Latest(), l.fence), l.cfg
	l.mu.Unlock()
	if leaderEpoch < latest {
		return AppendInfo{}, fmt.Errorf("%w: %s: append in epoch %d, log is at %d", ErrEpoch, l.Name(), leaderEpoch, latest)
	}
	if int64(len(batches)) > int64(cfg.SegmentBytes) {
		return AppendInfo{}, fmt.Errorf("%w: %s: %d bytes, segments have %d", ErrBatchTooLarge, l.Name(), len(batches), cfg.SegmentBytes)
	}
	info := AppendInfo{BaseOffset: next, LogAppendTimeMs: record.NoTimestamp}
	nowMs := t.UnixMilli()
	stamp := origin == Client && cfg.TimestampType == LogAppendTime
	if stamp {
		info.LogAppendTimeMs = nowMs
	}
	var firstMaxTs int64
	for rest := batches; len(rest) > 0; info.Batches++ {
		b, one, err := cutBatch(rest)
		if err != nil {
			return info, err
		}
		rest = rest[len(one):]
		dup, isDup, err := l.checkProducer(&b.Header, one, next, origin)
		if err != nil {
			return info, err
		}
		if isDup {
			return l.duplicate(&dup, info), nil
		}
		record.Stamp(one, next, leaderEpoch)
		if stamp {
			record.SetLogAppendTime(one, nowMs)
			b.MaxTimestamp = nowMs
		}
		if info.Batches == 0 {
			firstMaxTs = b.MaxTimestamp
		}
		info.LastOffset = next + int64(b.LastOffsetDelta)
		next = info.LastOffset + 1
	}
	if info.Batches == 0 {
		return info, fmt.Errorf("storage: %s: append of nothing", l.Name())
	}
	if err := l.rollIfDue(t, info.BaseOffset, info.LastOffset, firstMaxTs, int64(len(batches)), &cfg); err != nil {
		return info, err
	}
	if err := l.assignEpoch(t, leaderEpoch, info.BaseOffset); err != nil {
		return info, err
	}
	if err := l.write(t, batches, &cfg); err != nil {
		return info, err
	}
	l.finish(&info, &cfg)
	return info, nil
}

// cutBatch splits the first batch off.
func cutBatch(rest []byte) (batch, []byte, error) {
	h, err := record.ParseHeader(rest)
	if err != nil {
		return batch{}, nil, err
	}
	if h.Size() > len(rest) {
		return batch{}, nil, fmt.Errorf("%w: %d bytes of a batch of %d", record.ErrShort, len(rest), h.Size())
	}
	return batch{Header: h, size: int64(h.Size())}, rest[:h.Size()], nil
}

// duplicate answers a repeated append with what the first one got.
func (l *Log) duplicate(first *producer.Batch, info AppendInfo) AppendInfo {
	l.mu.Lock()
	defer l.mu.Unlock()
	info.Duplicate = true
	info.BaseOffset, info.LastOffset = first.FirstOffset(), first.LastOffset
	if info.LogAppendTimeMs != record.NoTimestamp {
		info.LogAppendTimeMs = first.Timestamp
	}
	info.LogStartOffset = l.start
	info.MustSync = l.cfg.FlushMessages == 1 && first.LastOffset >= l.synced
	return info
}

// finish fills in what is known once the bytes are in the log.
func (l *Log) finish(info *AppendInfo, cfg *Config) {
	l.mu.Lock()
	defer l.mu.Unlock()
	info.LogStartOffset = l.start
	info.MustSync = cfg.FlushMessages == 1
}

// Fence refuses leaders' appends of epochs below e from now on, having waited for those that
// are under way: who gives a leadership up does so before it follows the next leader.
func (l *Log) Fence(t *task.T, e int32) {
	l.gate.Enter(t)
	defer l.gate.Leave(t)
	l.mu.Lock()
	l.fence = max(l.fence, e)
	l.mu.Unlock()
}

// AppendFollower writes batches as they were fetched from the leader. Their CRC and offsets
// are checked: they must begin at or above the log end and ascend. A partial batch at the
// end is ignored, and no batch is not an error.
func (l *Log) AppendFollower(t *task.T, batches []byte) (AppendInfo, error) {
	return l.AppendFetched(t, 1<<31-1, batches)
}

// AppendFetched is AppendFollower for what was fetched in a leader epoch. It stops before the
// first batch of a later epoch: the leader lost its leadership while it read, and where that
// batch lies in the next leader's log nobody has asked (KAFKA-18723).
func (l *Log) AppendFetched(t *task.T, leaderEpoch int32, batches []byte) (AppendInfo, error) {
	l.gate.Enter(t)
	info, err := l.appendFetched(t, leaderEpoch, batches)
	l.gate.Leave(t)
	if err == nil && info.Batches > 0 {
		err = l.flushIfDue(t, &info)
	}
	return info, err
}

func (l *Log) appendFetched(t *task.T, leaderEpoch int32, batches []byte) (AppendInfo, error) {
	info := AppendInfo{BaseOffset: -1, LastOffset: -1, LogAppendTimeMs: record.NoTimestamp}
	if err := l.Err(); err != nil {
		return info, err
	}
	l.mu.Lock()
	next, latest, cfg := l.leo.offset, l.epochs.Latest(), l.cfg
	l.mu.Unlock()
	n, err := l.checkFetched(batches, next, latest, leaderEpoch)
	if err != nil {
		return info, err
	}
	for rest := batches[:n]; len(rest) > 0; {
		run, first, last, count, maxTs := l.takeRun(rest, &cfg)
		if err := l.rollIfDue(t, first, last, maxTs, int64(len(run)), &cfg); err != nil {
			return info, err
		}
		if err := l.assignEpochs(t, run); err != nil {
			return info, err
		}
		if err := l.write(t, run, &cfg); err != nil {
			return info, err
		}
		if info.Batches == 0 {
			info.BaseOffset = first
		}
		info.LastOffset = last
		info.Batches += count
		rest = rest[len(run):]
	}
	l.finish(&info, &cfg)
	return info, nil
}

// checkFetched returns how many bytes of whole batches there are up to the epoch, all of them
// right.
func (l *Log) checkFetched(batches []byte, next int64, latest, upTo int32) (int, error) {
	n := 0
	for n < len(batches) {
		rest := batches[n:]
		if len(rest) < record.HeaderSize {
			break
		}
		h, err := record.ParseHeader(rest)
		if err != nil {
			return 0, fmt.Errorf("%s: fetched batch at offset %d: %w", l.Name(), next, err)
		}
		if h.Size() > len(rest) || h.LeaderEpoch > upTo {
			break
		}
		if err := record.CheckCRC(rest[:h.Size()]); err != nil {
			return 0, fmt.Errorf("%s: fetched batch at offset %d: %w", l.Name(), next, err)
		}
		if h.BaseOffset < next || h.LastOffsetDelta < 0 {
			return 0, fmt.Errorf("%w: %s: batch [%d, %d], log end %d", ErrUnexpectedOffset, l.Name(), h.BaseOffset, h.LastOffset(), next)
		}
		if h.LeaderEpoch < latest {
			return 0, fmt.Errorf("%w: %s: batch at %d of epoch %d, log is at %d", ErrEpoch, l.Name(), h.BaseOffset, h.LeaderEpoch, latest)
		}
		next, latest = h.NextOffset(), h.LeaderEpoch
		n += h.Size()
	}
	return n, nil
}

// takeRun splits off as many checked batches as one segment takes, and its indexes, at least
// one: where they would be appended one by one another segment would begin there, too.
func (l *Log) takeRun(rest []byte, cfg *Config) (run []byte, first, last int64, count int, maxTs int64) {
	s := l.active()
	room, fill := int64(cfg.SegmentBytes)-s.size.Load(), s.fill()
	if h, _ := record.ParseHeader(rest); int64(h.Size()) > room || s.full() {
		room, fill = int64(cfg.SegmentBytes), newFill() // a new segment
	}
	n := 0
	for n < len(rest) {
		h, _ := record.ParseHeader(rest[n:])
		if count > 0 && (int64(n+h.Size()) > room || s.fullAt(&fill)) {
			break
		}
		fill.note(int64(h.Size()), h.MaxTimestamp, cfg.IndexIntervalBytes)
		if count == 0 {
			first, maxTs = h.BaseOffset, h.MaxTimestamp
		}
		last = h.LastOffset()
		n += h.Size()
		count++
	}
	return rest[:n], first, last, count, maxTs
}

// assignEpochs records the epochs that begin in fetched batches.
func (l *Log) assignEpochs(t *task.T, run []byte) error {
	l.mu.Lock()
	latest := l.epochs.Latest()
	l.mu.Unlock()
	for len(run) > 0 {
		h, _ := record.ParseHeader(run)
		if h.LeaderEpoch > latest {
			if err := l.assignEpoch(t, h.LeaderEpoch, h.BaseOffset); err != nil {
				return err
			}
			latest = h.LeaderEpoch
		}
		run = run[h.Size():]
	}
	return nil
}

// write puts stamped batches at the end of the active segment with one write, and makes
// them visible. Under the Gate.
func (l *Log) write(t *task.T, batches []byte, cfg *Config) error {
	s := l.active()
	at := s.size.Load()
	if _, err := s.file.WriteAt(t, batches, at); err != nil {
		return l.failed(t, err)
	}
	// Whatever failed in this directory while the write was under way: nothing is added.
	if err := l.Err(); err != nil {
		return err
	}
	pos := at
	for rest := batches; len(rest) > 0; {
		b, one, err := cutBatch(rest)
		if err != nil {
			panic(fmt.Sprintf("storage: %s: batch checked before: %v", l.Name(), err))
		}
		b.pos = pos
		s.note(&b, cfg.IndexIntervalBytes)
		if err := l.applyProducer(t, s, &b.Header, one); err != nil {
			return err
		}
		l.publish(s, &b)
		pos += b.size
		rest = rest[len(one):]
	}
	if err := s.writeIndexes(t, false); err != nil {
		return l.failed(t, err)
	}
	l.oweIndexWrite(t, s)
	return nil
}

// publish lets readers see a batch.
func (l *Log) publish(s *segment, b *batch) {
	l.mu.Lock()
	l.recent.add(position{b.BaseOffset, s.base, b.pos}, b.LastOffset(), b.size)
	l.leo = position{b.NextOffset(), s.base, b.end()}
	s.size.Store(b.end())
	l.mu.Unlock()
}
