package storage

import (
	"errors"
	"io"
	"slices"

	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/storage/index"
)

// txnFile is the aborted transactions of a segment. Most segments have none, and no file.
type txnFile struct {
	h      fileHandle
	list   []index.Txn // guarded by the segment's Mutex; append only
	loaded bool
}

// add appends e to the file and then to the list. Under the Gate.
func (x *txnFile) add(t *task.T, c *fileCache, mu *task.Mutex, e index.Txn) error {
	err := c.with(t, &x.h, func(f disk.File) error {
		var b [index.TxnEntrySize]byte
		_, err := f.WriteAt(t, index.AppendTxn(b[:0], e), int64(len(x.list)*index.TxnEntrySize))
		return err
	})
	if err != nil {
		return err
	}
	mu.Lock()
	x.list = append(x.list, e)
	mu.Unlock()
	return nil
}

// reset removes everything from the n-th entry on. Under the Gate.
func (x *txnFile) reset(t *task.T, c *fileCache, mu *task.Mutex, n int) error {
	mu.Lock()
	had := len(x.list)
	x.list = slices.Clip(x.list[:min(n, had)]) // readers may have the rest
	x.loaded = true
	mu.Unlock()
	return c.with(t, &x.h, func(f disk.File) error { return f.Truncate(t, int64(n*index.TxnEntrySize)) })
}

// loadTxns returns the aborted transactions of the segment, reading the file at first use.
func (s *segment) loadTxns(t *task.T) ([]index.Txn, error) {
	s.mu.Lock()
	list, loaded := s.txns.list, s.txns.loaded
	s.mu.Unlock()
	if loaded {
		return list, nil
	}
	list, err := s.readTxns(t)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.txns.loaded {
		s.txns.list, s.txns.loaded = list, true
	}
	return s.txns.list, nil
}

func (s *segment) readTxns(t *task.T) ([]index.Txn, error) {
	s.files.mu.Lock()
	path := s.txns.h.path
	s.files.mu.Unlock()
	b, err := readFile(t, s.files.disk, path)
	if errors.Is(err, disk.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return index.ParseTxn(b, s.base)
}

// readFile reads a small file whole.
func readFile(t *task.T, d disk.Disk, path string) ([]byte, error) {
	f, err := d.Open(t, path, disk.Read)
	if err != nil {
		return nil, err
	}
	defer f.Close(t)
	n, err := f.Size(t)
	if err != nil {
		return nil, err
	}
	b := make([]byte, n)
	got, err := f.ReadAt(t, b, 0)
	if got == len(b) || errors.Is(err, io.EOF) {
		return b[:got], nil
	}
	return nil, err
}
