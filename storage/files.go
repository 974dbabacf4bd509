package storage

import (
	"errors"

	"seedlog/clock/task"
	"seedlog/disk"
)

// fileCache bounds the idle descriptors of one Dir: files that nobody uses stay open until
// there are limit of them, and then the one used longest ago is closed. Files in use, and the
// .log of each active segment, which is in use all the time, come on top. So do those that are
// being sent: their descriptors stay open anyway, and a truncation has to cut what it sends.
type fileCache struct {
	disk  disk.Disk
	limit int

	mu     task.Mutex
	open   int        // descriptors in all
	idle   fileHandle // ring of idle open handles, the one used last first
	idles  int        // in the ring
	closed bool
}

// fileHandle is one file, open or not. Its path changes when the file is renamed.
type fileHandle struct {
	path string // guarded by fileCache.mu, as the rest
	to   string // where it may lie already, while it is being renamed
	mode disk.Mode
	file disk.File
	refs int
	dead bool // close when the last user is done, and never open again

	prev, next *fileHandle // in the idle ring, or nil
}

func (c *fileCache) init(rt task.Runtime, d disk.Disk, limit int) {
	c.disk, c.limit = d, limit
	c.mu.Init(rt, "storage.fileCache")
	c.idle.prev, c.idle.next = &c.idle, &c.idle
}

// acquire opens the file, or finds it open, and keeps it so until release.
func (c *fileCache) acquire(t *task.T, h *fileHandle) (disk.File, error) {
	for missed := ""; ; {
		c.mu.Lock()
		if h.file != nil {
			h.refs++
			c.unlink(h)
			f := h.file
			c.mu.Unlock()
			return f, nil
		}
		path, mode, dead := h.path, h.mode, h.dead || c.closed
		if path == missed && h.to != "" {
			path = h.to
		}
		c.mu.Unlock()
		if dead {
			return nil, ErrClosed
		}
		f, err := c.disk.Open(t, path, mode)
		c.mu.Lock()
		if err != nil {
			renamed := h.path != path || h.to != ""
			c.mu.Unlock()
			if renamed && missed == "" && errors.Is(err, disk.ErrNotExist) {
				missed = path
				continue
			}
			return nil, err
		}
		if h.file != nil || h.dead || c.closed || h.mode != mode {
			// Somebody else was faster, or the file ended meanwhile: look again.
			c.mu.Unlock()
			if err := f.Close(t); err != nil {
				return nil, err
			}
			continue
		}
		h.file = f
		h.refs = 1
		c.open++
		evicted := c.evict()
		c.mu.Unlock()
		// The caller has its file, whatever becomes of others': see release.
		_ = c.closeAll(t, evicted)
		return f, nil
	}
}

// release ends the use that acquire began.
func (c *fileCache) release(t *task.T, h *fileHandle) {
	c.mu.Lock()
	h.refs--
	if h.refs < 0 {
		panic("storage: released more often than acquired: " + h.path)
	}
	var closing []disk.File
	if h.refs == 0 && h.file != nil {
		if h.dead || c.closed {
			closing = append(closing, h.file)
			h.file = nil
			c.open--
		} else {
			c.link(h)
			closing = c.evict()
		}
	}
	c.mu.Unlock()
	// Nothing is lost by a failed close of a file without unsynced data of its own.
	_ = c.closeAll(t, closing)
}

// with calls fn with the file open.
func (c *fileCache) with(t *task.T, h *fileHandle, fn func(f disk.File) error) error {
	f, err := c.acquire(t, h)
	if err != nil {
		return err
	}
	err = fn(f)
	c.release(t, h)
	return err
}

// drop closes the file, now or when its last user is done, and refuses to open it again.
func (c *fileCache) drop(t *task.T, h *fileHandle) error {
	c.mu.Lock()
	h.dead = true
	var closing []disk.File
	if h.refs == 0 && h.file != nil {
		c.unlink(h)
		closing = append(closing, h.file)
		h.file = nil
		c.open--
	}
	c.mu.Unlock()
	return c.closeAll(t, closing)
}

// close closes all files that are idle, those of deleted segments among them, which no log
// lists any more. One in use is closed by its last user, and nothing is opened again.
func (c *fileCache) close(t *task.T) error {
	c.mu.Lock()
	c.closed = true
	var closing []disk.File
	for c.idles > 0 {
		h := c.idle.next
		c.unlink(h)
		closing = append(closing, h.file)
		h.file = nil
		c.open--
	}
	c.mu.Unlock()
	return c.closeAll(t, closing)
}

// setMode makes the next open use the mode; an idle descriptor of another mode is closed.
func (c *fileCache) setMode(t *task.T, h *fileHandle, mode disk.Mode) error {
	c.mu.Lock()
	var closing []disk.File
	if h.mode != mode {
		h.mode = mode
		if h.file != nil && h.refs == 0 {
			c.unlink(h)
			closing = append(closing, h.file)
			h.file = nil
			c.open--
		}
	}
	c.mu.Unlock()
	return c.closeAll(t, closing)
}

// rename renames the file and remembers where it went.
func (c *fileCache) rename(t *task.T, h *fileHandle, to string) error {
	c.mu.Lock()
	from := h.path
	h.to = to
	c.mu.Unlock()
	err := c.disk.Rename(t, from, to)
	c.mu.Lock()
	if err == nil {
		h.path = to
	}
	h.to = ""
	c.mu.Unlock()
	return err
}

// evictTries bounds how many files are looked at for one that is not being sent.
const evictTries = 8

// evict takes idle files out until the bound holds. Its caller holds the lock and closes.
func (c *fileCache) evict() []disk.File {
	var out []disk.File
	for tries := 0; c.idles > c.limit && tries < evictTries; tries++ {
		h := c.idle.prev
		c.unlink(h)
		if h.file.HasRanges() {
			c.link(h)
			continue
		}
		out = append(out, h.file)
		h.file = nil
		c.open--
	}
	return out
}

func (c *fileCache) closeAll(t *task.T, files []disk.File) error {
	var first error
	for _, f := range files {
		if err := f.Close(t); err != nil && first == nil {
			first = err
		}
	}
	return first
}

func (c *fileCache) link(h *fileHandle) {
	h.prev, h.next = &c.idle, c.idle.next
	c.idle.next.prev, c.idle.next = h, h
	c.idles++
}

func (c *fileCache) unlink(h *fileHandle) {
	if h.next == nil {
		return
	}
	h.prev.next, h.next.prev = h.next, h.prev
	h.prev, h.next = nil, nil
	c.idles--
}
