package storage

import (
	"errors"
	"fmt"
	"slices"

	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/storage/checkpoint"
	"seedlog/storage/epoch"
	"seedlog/storage/index"
)

// loading is one log on its way from files to service.
type loading struct {
	l          *Log
	clean      bool  // the directory was cleanly stopped
	checkpoint int64 // the recovery point: everything below was durable
	start      int64 // the checkpointed log start
	hw         int64 // the checkpointed high watermark
	onSegment  func()

	segs     []*segment
	epochs   epoch.Cache
	sizes    map[string]int64 // of the files in the directory, by name
	noEpochs bool             // the epochs are to be rebuilt from all segments
	end      int64
	cut      bool // a tail was removed
	fresh    bool // there was no segment: the one there is now is new, and empty
	checked  int64
	txnsLost []*segment // their transaction indexes are damaged
}

// load reads the log's directory, checks what may be damaged, and rebuilds what is derived.
// Damage below the recovery point is ErrCorrupt, and nothing was cut.
func (p *loading) load(t *task.T) error {
	l := p.l
	names, err := p.clear(t)
	if err != nil {
		return err
	}
	if err := p.openSegments(t, names); err != nil {
		return err
	}
	if err := p.dropBelowStart(t); err != nil {
		return err
	}
	if err := p.readEpochs(t); err != nil {
		return err
	}
	if err := p.verify(t); err != nil {
		return err
	}
	if p.end < p.start || len(p.segs) == 0 {
		if err := p.restart(t, max(p.start, p.end)); err != nil {
			return err
		}
	}
	p.start = max(p.start, p.segs[0].base)
	if err := p.finishEpochs(t); err != nil {
		return err
	}
	if err := p.activate(t); err != nil {
		return err
	}
	return p.serve(t, l)
}

// close gives the descriptors of a log back that could not be loaded.
func (p *loading) close(t *task.T) error {
	var err error
	for _, s := range p.segs {
		err = errors.Join(err, s.close(t))
	}
	return err
}

// clear finishes or undoes what was under way: deletions, compactions. It lists what is
// left.
func (p *loading) clear(t *task.T) ([]disk.Info, error) {
	l := p.l
	infos, err := l.env.Disk.ReadDir(t, l.path)
	if err != nil {
		return nil, err
	}
	changed, err := finishSwaps(t, l.env.Disk, l.path, infos)
	if err != nil || !changed {
		return infos, err
	}
	if err := l.env.Disk.SyncDir(t, l.path); err != nil {
		return nil, err
	}
	return l.env.Disk.ReadDir(t, l.path)
}

// openSegments describes the segments there are, and removes index files without a log.
func (p *loading) openSegments(t *task.T, infos []disk.Info) error {
	l := p.l
	p.sizes = map[string]int64{}
	for _, in := range infos {
		p.sizes[in.Name] = in.Size
	}
	for _, in := range infos {
		if base, ok := offsetName(in.Name, logSuffix); ok {
			s := newSegment(l.env.RT, &l.Dir().files, l.path, base, &l.cfg)
			s.size.Store(in.Size)
			s.createdMs = in.ModMillis
			p.segs = append(p.segs, s)
		}
	}
	slices.SortFunc(p.segs, func(a, b *segment) int { return int(min(max(a.base-b.base, -1), 1)) })
	for _, in := range infos {
		for _, suffix := range [...]string{offsetsSuffix, timesSuffix, txnsSuffix} {
			base, ok := offsetName(in.Name, suffix)
			if !ok {
				continue
			}
			if _, has := p.sizes[fmt.Sprintf("%020d%s", base, logSuffix)]; !has {
				if err := l.env.Disk.Remove(t, l.path+"/"+in.Name); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// dropBelowStart removes segments below the log start. Their removal may have been undone by
// a power loss, for some and not for others: what is left of them proves nothing.
func (p *loading) dropBelowStart(t *task.T) error {
	for len(p.segs) > 1 && p.segs[1].base <= p.start {
		if err := p.l.discard(t, p.segs[0], false); err != nil {
			return err
		}
		p.segs = p.segs[1:]
	}
	return nil
}

// readEpochs reads the leader-epoch checkpoint. A lost or damaged one is rebuilt from the
// batches, which knows less than the file did.
func (p *loading) readEpochs(t *task.T) error {
	c, err := readEpochs(t, p.l.env.Disk, p.l.path)
	switch {
	case errors.Is(err, disk.ErrNotExist), errors.Is(err, epoch.ErrDamaged), errors.Is(err, checkpoint.ErrDamaged):
		p.noEpochs = true
		err = nil
	case err != nil:
		return err
	}
	p.epochs = c
	return nil
}

// verify finds the end of the log. What was cleanly closed is believed; of the rest,
// everything from the segment with the recovery point on is read, and cut at the first bad
// batch at or above the recovery point.
func (p *loading) verify(t *task.T) error {
	for i := 0; i < len(p.segs); i++ {
		last := i == len(p.segs)-1
		sealed := !last && p.durable(i)
		var err error
		switch {
		case p.clean || sealed:
			err = p.trust(t, i)
		default:
			err = p.check(t, i)
		}
		if err != nil {
			return err
		}
		if p.onSegment != nil {
			p.onSegment()
		}
	}
	if !p.clean && p.end < p.checkpoint && len(p.segs) > 0 && p.checkpoint > p.start {
		return p.corrupt(p.end, fmt.Errorf("the log ends at %d", p.end))
	}
	return nil
}

// durable reports that segment i, which is not the last, was synced with its derived files. It
// must not be written to: a crash in the recovery could damage it.
func (p *loading) durable(i int) bool { return p.segs[i+1].base <= p.checkpoint }

// corrupt is the error for durable bytes that are damaged.
func (p *loading) corrupt(from int64, why error) error {
	return fmt.Errorf("%w: %s: offsets [%d, %d) were durable and are damaged: %w", ErrCorrupt, p.l.Name(), from, p.checkpoint, why)
}

// trust takes a segment as it is. Its indexes must be there; if they are not they are
// rebuilt and written.
func (p *loading) trust(t *task.T, i int) error {
	l, s := p.l, p.segs[i]
	last := i == len(p.segs)-1
	if err := p.restoreIndexes(t, s, last); err != nil {
		return err
	}
	if p.noEpochs {
		err := s.walk(t, 0, s.size.Load(), replayChunk, func(_ *scanner, b *batch) (bool, error) {
			p.epochs.Confirm(b.LeaderEpoch, b.BaseOffset)
			return true, nil
		})
		if err != nil {
			return p.badTrusted(s, err)
		}
	}
	if _, there := p.sizes[s.txns.h.path[len(l.path)+1:]]; !there {
		s.txns.loaded = true // as most segments, it has none
	} else if _, err := s.loadTxns(t); errors.Is(err, index.ErrDamaged) {
		p.txnsLost = append(p.txnsLost, s)
	} else if err != nil {
		return err
	}
	if !last {
		p.end = p.segs[i+1].base
		return nil
	}
	entry := s.base
	s.mu.Lock()
	if e, ok := s.lastOffsetEntry(); ok {
		entry = s.base + int64(e.Rel)
	}
	s.mu.Unlock()
	var buf []byte
	pos, err := s.floor(t, entry, &buf)
	if err != nil {
		return err
	}
	p.end = s.base
	err = s.walk(t, pos, s.size.Load(), replayChunk, func(_ *scanner, b *batch) (bool, error) {
		p.end = b.NextOffset()
		return true, nil
	})
	if err != nil {
		return p.badTrusted(s, err)
	}
	return l.resume(t, s)
}

// badTrusted is the error for damage in a segment that was durable.
func (p *loading) badTrusted(s *segment, err error) error {
	if errors.Is(err, errBadBatch) {
		p.checkpoint = max(p.checkpoint, p.end)
		return p.corrupt(max(s.base, p.end), err)
	}
	return err
}

// restoreIndexes makes sure that both index files are there and of a possible size; the last
// segment's are read, the others' at their first look-up.
func (p *loading) restoreIndexes(t *task.T, s *segment, last bool) error {
	l := p.l
	if !last {
		good := true
		for _, x := range [...]*indexFile{&s.offsets, &s.times} {
			size, there := p.sizes[x.h.path[len(l.path)+1:]]
			good = good && there && size%int64(x.entry) == 0
		}
		if good {
			return nil
		}
	}
	rebuilt, err := s.load(t, l.cfg.IndexIntervalBytes)
	if err != nil {
		return p.badTrusted(s, err)
	}
	if !rebuilt {
		return nil
	}
	l.observe(Event{Kind: IndexRebuilt, Offset: s.base})
	for _, x := range []*indexFile{&s.offsets, &s.times} {
		if err := x.save(t, s.files, &s.mu); err != nil {
			return err
		}
		if err := syncPath(t, l.env.Disk, x.h.path); err != nil {
			return err
		}
	}
	return nil
}

// resume sets up what appending to a trusted last segment continues from.
func (l *Log) resume(t *task.T, s *segment) error {
	s.mu.Lock()
	e, ok := s.lastOffsetEntry()
	te, _ := s.lastTime()
	s.mu.Unlock()
	s.lastIndexTs = te.Timestamp
	s.sinceIndex = s.size.Load()
	if ok {
		s.sinceIndex -= int64(e.Position)
	}
	return s.walk(t, 0, s.size.Load(), lookupChunk, func(_ *scanner, b *batch) (bool, error) {
		s.rollTs = b.MaxTimestamp
		return false, nil
	})
}

// finishEpochs trims the epochs to the log and writes them if they changed. The end comes last: a
// log that a crash left empty has no epoch, though the one before its start was in force there.
func (p *loading) finishEpochs(t *task.T) error {
	before := p.epochs.Entries()
	p.epochs.TruncateFromStart(p.start)
	p.epochs.TruncateFromEnd(p.end)
	if p.noEpochs && p.epochs.Len() == 0 {
		return nil // a log without epochs needs no file
	}
	if !p.noEpochs && !p.cut && slices.Equal(before, p.epochs.Entries()) && p.clean {
		return nil
	}
	if err := writeEpochs(t, p.l.env.Disk, p.l.path, &p.epochs); err != nil {
		return err
	}
	return nil
}

// restart begins an empty log at the offset: what is there lies below the log start, or
// nothing is there.
func (p *loading) restart(t *task.T, at int64) error {
	l := p.l
	p.fresh = len(p.segs) == 0
	for _, s := range slices.Backward(p.segs) {
		if err := l.discard(t, s, false); err != nil {
			return err
		}
	}
	s, err := l.newActive(t, at)
	if err != nil {
		return err
	}
	p.segs = []*segment{s}
	p.end = at
	p.epochs.Clear()
	p.cut = true
	return nil
}

// activate opens the last segment for appending, and syncs what the check could not know to
// be durable.
func (p *loading) activate(t *task.T) error {
	l := p.l
	s := p.segs[len(p.segs)-1]
	if s.file == nil {
		if err := s.activate(t, false); err != nil {
			return err
		}
	}
	if err := s.writeIndexes(t, true); err != nil {
		return err
	}
	if p.clean && !p.cut {
		return nil
	}
	if err := p.settleSnapshots(t); err != nil {
		return err
	}
	for i, s := range p.segs {
		if p.fresh || i+1 < len(p.segs) && p.durable(i) {
			continue // nothing is in it, or it is durable
		}
		for _, h := range []*fileHandle{&s.log, &s.offsetsFile, &s.timesFile} {
			if err := l.syncHandle(t, h); err != nil {
				return err
			}
		}
	}
	return l.env.Disk.SyncDir(t, l.path)
}

// serve fills the Log in.
func (p *loading) serve(t *task.T, l *Log) error {
	for _, s := range p.txnsLost {
		if err := l.rebuildTxns(t, p.segs, s); err != nil {
			return err
		}
	}
	state, err := l.loadProducers(t, p.segs, p.end, max(p.hw, p.start))
	if err != nil {
		return err
	}
	last := p.segs[len(p.segs)-1]
	l.mu.Lock()
	l.segs.Store(&p.segs)
	l.loadedPoint = p.checkpoint
	l.start = p.start
	l.leo = position{p.end, last.base, last.size.Load()}
	l.synced = p.end
	l.epochs = p.epochs
	l.producers = state
	l.unclean = !p.clean
	l.hw = unresolved(-1)
	l.setHW(p.hw)
	l.mu.Unlock()
	l.drawJitter()
	l.observe(Event{Kind: LogRecovered, From: p.checkpoint, Offset: p.end, Bytes: p.checked, Clean: p.clean})
	return nil
}
