package storage

import (
	"fmt"
	"strings"

	"seedlog/clock/task"
	"seedlog/storage/producer"
)

// A log moves to another directory by a copy there that a move task fills: the future log. It
// is a log like any other, listed and checkpointed under the same name, for a directory has
// either the log or a copy of it. Only its path tells, and who made it:
//
//	<from>/<topic>-<partition>                    the log
//	<to>/<topic>-<partition>.<32 digits>-future   its copy
//
// [Log.Exchange] makes the copy the log.

// FutureNameMax is the length of the longest log name that leaves room for a copy's suffix in
// a file name of 255 bytes.
const FutureNameMax = 255 - 1 - 32 - len(futureDirSuffix)

// Future reports whether the log is a copy that is being made.
func (l *Log) Future() bool { return l.future }

// CreateFuture makes an empty copy of a log that is in another directory, durably. The error
// is ErrExists if the log, or another copy of it, is here.
func (d *Dir) CreateFuture(t *task.T, topic string, id [16]byte, partition int32, cfg Config) (*Log, error) {
	if err := d.Err(); err != nil {
		return nil, err
	}
	l := d.newLog(topic, id, partition, cfg)
	l.path = fmt.Sprintf("%s/%s.%016x%016x%s", d.path, l.Name(), d.random(1<<62), d.random(1<<62), futureDirSuffix)
	l.future = true
	return d.create(t, l)
}

// parseAnyDir splits the name of a log's directory, or of a copy's. What is -stray waits for an
// operator: it is neither.
func parseAnyDir(name string) (topic string, partition int32, future, ok bool) {
	if rest, is := strings.CutSuffix(name, futureDirSuffix); is {
		i := strings.LastIndexByte(rest, '.')
		if i < 0 || i == len(rest)-1 {
			return "", 0, false, false
		}
		topic, partition, ok = parseLogDir(rest[:i])
		return topic, partition, true, ok
	}
	if strings.HasSuffix(name, strayDirSuffix) {
		return "", 0, false, false
	}
	topic, partition, ok = parseLogDir(name)
	return topic, partition, false, ok
}

// Standing is a log at one instant, as a copy of it has to know it.
type Standing struct {
	Offsets
	// Epoch is the largest known epoch at or below the one asked for, and EpochEnd where it
	// ended; (-1, -1) for none.
	Epoch    int32
	EpochEnd int64

	generation int64
}

// Standing reads the log's numbers, and where an epoch ends, at one instant.
func (l *Log) Standing(e int32) Standing {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Standing{Offsets: l.offsets(), generation: l.truncations}
	s.Epoch, s.EpochEnd = l.epochs.EndOffsetFor(e, l.leo.offset)
	return s
}

// Stands reports that nothing was cut off the log since: what was read of it meanwhile
// continues what it had then.
func (l *Log) Stands(s Standing) bool { return !l.moved(s.generation) }

// RestartCopy empties a copy of the log and lets it begin at the offset, with what the log knew
// of producers there: they outlive their batches. look is from before; if the log was cut since,
// nothing is done.
func (l *Log) RestartCopy(t *task.T, f *Log, at int64, look Standing) error {
	state, err := l.producersAt(t, at)
	if !l.Stands(look) {
		return nil
	}
	if err != nil {
		return err
	}
	f.gate.Enter(t)
	defer f.gate.Leave(t)
	if err := f.Err(); err != nil {
		return err
	}
	if err := f.truncateFully(t, at); err != nil {
		return err
	}
	f.mu.Lock()
	f.producers = state
	f.mu.Unlock()
	if err := f.replaceSnapshot(t, at, f.encodeProducers()); err != nil {
		return f.failed(t, err)
	}
	if err := f.env.Disk.SyncDir(t, f.path); err != nil {
		return f.failed(t, err)
	}
	return nil
}

// producersAt is the producers' state at an offset, from the files that are there. They may go
// meanwhile.
func (l *Log) producersAt(t *task.T, at int64) (*producer.State, error) {
	segs := *l.segs.Load()
	for _, s := range segs {
		if s.base < at {
			if err := l.loadSegment(t, s); err != nil {
				return nil, err
			}
		}
	}
	state, err := l.producersBefore(t, at, segs[0].base)
	if err != nil {
		return nil, err
	}
	return state, replayProducers(t, segs, state, state.End(), at, nil)
}
