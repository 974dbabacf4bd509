package storage

import (
	"errors"
	"fmt"
	"io"

	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/storage/index"
)

// indexFile is one index of a segment: the table in memory and the file. The table is
// guarded by the segment's Mutex; who changes it, or writes the file, holds the log's Gate,
// so that under the Gate the table may be read without the Mutex.
type indexFile struct {
	index.Table
	h       *fileHandle
	entry   int   // bytes of an entry
	active  bool  // the file is at its full size, and lacks the table's end
	loaded  bool  // the table has what the file has
	maxSize int64 // of the file while active: a whole number of entries
}

func (x *indexFile) init(h *fileHandle, entry int, maxBytes int32) {
	x.h, x.entry = h, entry
	x.maxSize = int64(index.MaxEntries(maxBytes, entry) * entry)
	x.Table.Init(entry)
}

// maxEntries is how many entries the index may have.
func (x *indexFile) maxEntries() int { return int(x.maxSize) / x.entry }

// bytes is the size of what the table has.
func (x *indexFile) bytes() int64 { return int64(x.Len()) * int64(x.entry) }

// activate makes the file ready for appending, sparse at its full size. Its content is the
// table's.
func (x *indexFile) activate(t *task.T, c *fileCache) error {
	x.active, x.loaded = true, true
	return x.remake(t, c, func(f disk.File) error {
		// Cutting to the content first lets what lies behind it read as zeros.
		written := x.bytes()
		if b, off := x.Unwritten(true); len(b) > 0 {
			written = off
		}
		if err := f.Truncate(t, written); err != nil || x.maxSize <= written {
			return err
		}
		return f.Truncate(t, x.maxSize)
	})
}

// remake opens the file, which is made if there is none, and changes it. After that it exists:
// a late reader must not bring it back to life.
func (x *indexFile) remake(t *task.T, c *fileCache, change func(f disk.File) error) error {
	if err := c.setMode(t, x.h, disk.Create); err != nil {
		return err
	}
	err := c.with(t, x.h, change)
	if merr := c.setMode(t, x.h, disk.Write); err == nil {
		err = merr
	}
	return err
}

// write writes what the file lacks: full pages, or all. Descriptors are borrowed for it, for
// thousands of logs write an index page now and then.
func (x *indexFile) write(t *task.T, c *fileCache, mu *task.Mutex, all bool) error {
	b, off := x.Unwritten(all)
	if len(b) == 0 {
		return nil
	}
	err := c.with(t, x.h, func(f disk.File) error {
		_, err := f.WriteAt(t, b, off)
		return err
	})
	if err != nil {
		return err
	}
	mu.Lock()
	x.Wrote(len(b))
	mu.Unlock()
	return nil
}

// seal writes everything and trims the file to it.
func (x *indexFile) seal(t *task.T, c *fileCache, mu *task.Mutex) error {
	if !x.active {
		return nil
	}
	if err := x.write(t, c, mu, true); err != nil {
		return err
	}
	x.active = false
	return c.with(t, x.h, func(f disk.File) error { return f.Truncate(t, x.bytes()) })
}

// save writes the whole table into the file of a sealed segment.
func (x *indexFile) save(t *task.T, c *fileCache, mu *task.Mutex) error {
	x.active, x.loaded = true, true
	if err := x.remake(t, c, func(f disk.File) error { return f.Truncate(t, 0) }); err != nil {
		return err
	}
	return x.seal(t, c, mu)
}

// read reads page p from the file into buf.
func (x *indexFile) read(t *task.T, c *fileCache, off int64, n int, buf []byte) ([]byte, error) {
	f, err := c.acquire(t, x.h)
	if err != nil {
		return nil, err
	}
	defer c.release(t, x.h)
	if cap(buf) < n {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	if got, err := f.ReadAt(t, buf, off); got < n {
		if err == nil || errors.Is(err, io.EOF) {
			err = fmt.Errorf("%w: %d bytes at %d of %s, %d there", index.ErrDamaged, n, off, f.Path(), got)
		}
		return nil, err
	}
	return buf, nil
}

// loadTable reads a whole index file of a sealed segment into a table, checking it.
func loadTable(t *task.T, c *fileCache, h *fileHandle, entry int, check func(b []byte) error, keyOf func([]byte) int64) (index.Table, error) {
	var x index.Table
	x.Init(entry)
	f, err := c.acquire(t, h)
	if err != nil {
		return x, err
	}
	defer c.release(t, h)
	size, err := f.Size(t)
	if err != nil {
		return x, err
	}
	if size%int64(entry) != 0 {
		return x, fmt.Errorf("%w: %s has %d bytes", index.ErrDamaged, f.Path(), size)
	}
	piece := int64(16 * x.PageBytes())
	buf := make([]byte, min(piece, size))
	for off := int64(0); off < size; off += piece {
		b := buf[:min(piece, size-off)]
		if got, err := f.ReadAt(t, b, off); got < len(b) {
			if err == nil || errors.Is(err, io.EOF) {
				err = fmt.Errorf("%w: %s ends at %d", index.ErrDamaged, f.Path(), off+int64(got))
			}
			return x, err
		}
		if err := check(b); err != nil {
			return x, err
		}
		x.Load(b, keyOf)
	}
	return x, nil
}
