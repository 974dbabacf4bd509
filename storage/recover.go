package storage

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/storage/index"
	"seedlog/storage/producer"
	"seedlog/storage/record"
)

// check reads segment i batch by batch: size within the file, CRC right, offsets ascending
// without leaving the segment's range. It rebuilds the indexes and confirms the epochs. The
// first bad batch at or above the recovery point is where the log ends, whatever follows:
// what was never synced may have holes anywhere. What it keeps from there on it writes anew.
func (p *loading) check(t *task.T, i int) error {
	s := p.segs[i]
	if i > 0 && s.base != p.end && s.base-1-p.segs[i-1].base <= math.MaxInt32 {
		// The end of the segment before is missing, cut at a batch's border. A gap that no segment
		// could have filled was rolled over.
		if p.end < p.checkpoint {
			return p.corrupt(p.end, fmt.Errorf("the next segment begins at %d", s.base))
		}
		return p.cutFrom(t, i)
	}
	p.end = max(p.end, s.base)
	s.offsets.loaded, s.times.loaded, s.maxKnown, s.txns.loaded = true, true, true, true
	s.sinceIndex = 0
	good := int64(0)
	epoch := int32(record.NoLeaderEpoch)
	if i > 0 {
		epoch = p.epochs.EpochFor(s.base - 1)
	}
	var w rewriter
	bad := s.walk(t, 0, s.size.Load(), replayChunk*4, func(sc *scanner, b *batch) (bool, error) {
		if err := sc.check(t, b); err != nil {
			return false, err
		}
		if b.BaseOffset < p.end || !s.fits(b.LastOffset()) {
			return false, fmt.Errorf("%w at position %d: offsets [%d, %d], expected %d or above in segment %d",
				errBadBatch, b.pos, b.BaseOffset, b.LastOffset(), p.end, s.base)
		}
		// The CRC covers neither the offset nor the epoch: a header that was torn there is sound. An
		// offset that grew would lift all behind it over the recovery point, to be cut as if nobody
		// had synced it. Only compaction leaves gaps.
		if b.BaseOffset > p.end && p.end < p.checkpoint && !p.l.cfg.Compact {
			return false, fmt.Errorf("%w at position %d: offset %d, expected %d", errBadBatch, b.pos, b.BaseOffset, p.end)
		}
		if b.Magic >= record.MagicV2 && b.LeaderEpoch < epoch {
			return false, fmt.Errorf("%w at position %d: offset %d has epoch %d, the one before it %d", errBadBatch, b.pos, b.BaseOffset, b.LeaderEpoch, epoch)
		}
		epoch = max(epoch, b.LeaderEpoch)
		if b.NextOffset() > p.checkpoint {
			if err := w.add(t, sc, b); err != nil {
				return false, err
			}
		}
		s.note(b, p.l.cfg.IndexIntervalBytes)
		p.epochs.Confirm(b.LeaderEpoch, b.BaseOffset)
		p.end, good = b.NextOffset(), b.end()
		return true, nil
	})
	if err := s.files.with(t, &s.log, func(f disk.File) error { return w.flush(t, f) }); err != nil {
		return err
	}
	p.checked += good
	if bad != nil && !errors.Is(bad, errBadBatch) {
		return bad
	}
	if bad != nil && p.end < p.checkpoint {
		return p.corrupt(p.end, bad)
	}
	if bad != nil {
		if err := p.cutTail(t, i, good, bad); err != nil {
			return err
		}
	}
	return p.reindexed(t, i)
}

// cutTail removes the damaged end of segment i and the segments behind it.
func (p *loading) cutTail(t *task.T, i int, good int64, why error) error {
	s := p.segs[i]
	size := s.size.Load()
	f, err := s.files.acquire(t, &s.log)
	if err != nil {
		return err
	}
	err = f.Truncate(t, good)
	s.files.release(t, &s.log)
	if err != nil {
		return err
	}
	s.size.Store(good)
	p.cut = true
	p.l.observe(Event{Kind: LogCut, Offset: p.end, Bytes: size - good, Err: why})
	if i+1 < len(p.segs) {
		return p.cutFrom(t, i+1)
	}
	return nil
}

// cutFrom removes the segments from the i-th on, the last one first.
func (p *loading) cutFrom(t *task.T, i int) error {
	var bytes int64
	for _, s := range slices.Backward(p.segs[i:]) {
		bytes += s.size.Load()
		if err := p.l.discard(t, s, false); err != nil {
			return err
		}
	}
	p.segs = p.segs[:i]
	p.cut = true
	p.l.observe(Event{Kind: LogCut, Offset: p.end, Bytes: bytes})
	return nil
}

// reindexed writes the rebuilt indexes of a checked segment. The transaction index follows
// when the producers are replayed.
func (p *loading) reindexed(t *task.T, i int) error {
	s := p.segs[i]
	p.txnsLost = append(p.txnsLost, s)
	s.mu.Lock()
	s.noteTime(true) // as a stop would have, and Kafka does
	s.mu.Unlock()
	if err := s.offsets.save(t, s.files, &s.mu); err != nil {
		return err
	}
	return s.times.save(t, s.files, &s.mu)
}

// rebuildTxns makes the transaction index of one segment anew, replaying the producers from
// the newest snapshot at or before it.
func (l *Log) rebuildTxns(t *task.T, segs []*segment, s *segment) error {
	i := slices.Index(segs, s)
	if i < 0 {
		return nil // cut away meanwhile
	}
	path := s.txns.h.path
	_, err := l.env.Disk.Stat(t, path)
	exists := err == nil
	if err != nil && !errors.Is(err, disk.ErrNotExist) {
		return err
	}
	if exists {
		if err := s.txns.reset(t, s.files, &s.mu, 0); err != nil {
			return err
		}
	}
	s.txns.loaded = true
	state, err := l.producersBefore(t, s.base, segs[0].base)
	if err != nil {
		return err
	}
	if err := replayProducers(t, segs[:i], state, state.End(), s.base, nil); err != nil {
		return err
	}
	err = replayProducers(t, segs[i:i+1], state, s.base, 1<<63-1, func(_ *segment, done producer.Completed) error {
		if !done.Aborted {
			return nil
		}
		return s.txns.add(t, s.files, &s.mu, index.Txn{
			ProducerID: done.ProducerID, FirstOffset: done.FirstOffset,
			LastOffset: done.LastOffset, LastStableOffset: done.LastStableOffset,
		})
	})
	if err != nil || len(s.txns.list) == 0 && !exists {
		return err
	}
	return l.syncHandle(t, &s.txns.h)
}

// producersBefore is the state of the newest good snapshot at or below offset.
func (l *Log) producersBefore(t *task.T, offset, start int64) (*producer.State, error) {
	list, err := l.snapshots(t)
	if err != nil {
		return nil, err
	}
	state := producer.NewState(start)
	for _, o := range slices.Backward(list) {
		if o > offset {
			continue
		}
		entries, err := l.readSnapshot(t, o)
		if errors.Is(err, producer.ErrSnapshot) {
			continue
		}
		if err == nil {
			state.Load(o, entries, t.UnixMilli(), l.cfg.ProducerExpirationMs)
		}
		return state, err
	}
	return state, nil
}

// finishSwaps removes what deletions and unfinished compactions left, and completes the
// compactions that were: a .swap file is whole, and replaces the segments it was made from.
// The originals go before the .swap is renamed, and no .cleaned is left when one is made; a
// .swap at or above a .cleaned belongs to a split that did not finish.
func finishSwaps(t *task.T, d disk.Disk, dir string, infos []disk.Info) (changed bool, err error) {
	minCleaned := int64(1<<63 - 1)
	for _, in := range infos {
		if o, ok := offsetName(in.Name, logSuffix+cleanedSuffix); ok {
			minCleaned = min(minCleaned, o)
		}
	}
	remove := func(name string) {
		if err == nil {
			changed, err = true, d.Remove(t, dir+"/"+name)
		}
	}
	var swaps []string
	low, high := int64(1<<63-1), int64(-1)
	for _, in := range infos {
		base := swapBase(in.Name)
		switch {
		case strings.HasSuffix(in.Name, deletedSuffix) && !strings.HasSuffix(in.Name, ".checkpoint"+deletedSuffix),
			strings.HasSuffix(in.Name, cleanedSuffix):
			remove(in.Name)
		case base >= minCleaned:
			remove(in.Name)
		case base >= 0:
			swaps = append(swaps, in.Name)
			if strings.HasSuffix(in.Name, logSuffix+swapSuffix) && err == nil {
				var end int64
				end, err = endOf(t, d, dir+"/"+in.Name, base)
				low, high = min(low, base), max(high, end)
			}
		}
	}
	for _, in := range infos {
		for _, suffix := range [...]string{logSuffix, offsetsSuffix, timesSuffix, txnsSuffix} {
			if o, ok := offsetName(in.Name, suffix); ok && o >= low && o < high {
				remove(in.Name)
			}
		}
	}
	for _, name := range swaps {
		if err == nil {
			changed, err = true, d.Rename(t, dir+"/"+name, dir+"/"+strings.TrimSuffix(name, swapSuffix))
		}
	}
	return changed, err
}

// swapBase is the base offset of a .swap file, or -1.
func swapBase(name string) int64 {
	if !strings.HasSuffix(name, swapSuffix) {
		return -1
	}
	for _, suffix := range [...]string{logSuffix, offsetsSuffix, timesSuffix, txnsSuffix} {
		if o, ok := offsetName(name, suffix+swapSuffix); ok {
			return o
		}
	}
	return -1
}

// endOf is the offset after the last batch of a .log file.
func endOf(t *task.T, d disk.Disk, path string, base int64) (int64, error) {
	f, err := d.Open(t, path, disk.Read)
	if err != nil {
		return base, err
	}
	defer f.Close(t)
	size, err := f.Size(t)
	if err != nil {
		return base, err
	}
	end := base
	sc := scanner{file: f, limit: size, chunk: replayChunk}
	for {
		b, ok, err := sc.next(t)
		if errors.Is(err, errBadBatch) {
			return end, nil
		}
		if err != nil || !ok {
			return end, err
		}
		end = b.NextOffset()
	}
}
