package storage

import (
	"seedlog/clock/task"
	"seedlog/disk"
)

// rewriter writes batches into the place that they were read from. A sync that failed may
// have left pages that the kernel takes for clean and that are on no disk; the process that
// had to know is gone. They can be read, and a further sync passes over them, until they are
// written again. So a recovery that keeps what may never have been synced writes it, before
// it syncs.
type rewriter struct {
	buf []byte
	at  int64 // where buf belongs
}

// add takes a checked batch. Its bytes are checked once more, for they may be read once more.
func (w *rewriter) add(t *task.T, sc *scanner, b *batch) error {
	whole, err := sc.bytes(t, b)
	if err != nil {
		return err
	}
	if err := sc.check(t, b); err != nil {
		return err
	}
	if len(w.buf) > 0 && w.at+int64(len(w.buf)) != b.pos || len(w.buf) >= replayChunk*4 {
		if err := w.flush(t, sc.file); err != nil {
			return err
		}
	}
	if len(w.buf) == 0 {
		w.at = b.pos
	}
	w.buf = append(w.buf, whole...)
	return nil
}

// flush writes what was added.
func (w *rewriter) flush(t *task.T, f disk.File) error {
	if len(w.buf) == 0 {
		return nil
	}
	_, err := f.WriteAt(t, w.buf, w.at)
	w.buf = w.buf[:0]
	return err
}
