// Package disk is the contract for files and directories: what each call does, who may
// call it at once, and what survives which failure.
//
// Two failures matter. A process kill loses nothing that was written: the kernel has it. A
// power loss keeps what [File.Sync] (contents and size) and [Disk.SyncDir] (names) returned
// for, plus, of the rest, whatever the device likes: all, none, a prefix with a torn last
// sector, or holes; per file and independently; a size may be durable before its data
// (zeros or garbage); an unsynced truncate or rename may come undone.
//
// A failed Sync leaves the unsynced data in doubt for good. Retrying it proves nothing:
// the caller stops using the file, reopens it and verifies what is there.
//
// Every call may wait, and every one may be where the process ends. Files are used by
// several tasks at once; writes to overlapping ranges are ordered by the caller.
//
// Paths are slash-separated. In production they are those of the operating system; in the
// simulator each machine has its own tree.
package disk

import (
	"errors"

	"seedlog/clock/task"
)

// Errors every implementation returns, wrapped with the path and operation.
var (
	ErrNotExist = errors.New("no such file or directory")
	ErrExist    = errors.New("file exists")
	ErrNoSpace  = errors.New("no space left on device")
	ErrReadOnly = errors.New("read-only file system")
	ErrIO       = errors.New("input/output error")
	ErrClosed   = errors.New("file already closed")
	ErrLocked   = errors.New("locked by another process")
	ErrNotEmpty = errors.New("directory not empty")
	ErrIsDir    = errors.New("is a directory")
)

// Mode says how a file is opened.
type Mode uint8

const (
	// Read opens an existing file for reading.
	Read Mode = iota
	// Write opens an existing file for reading and writing.
	Write
	// Create opens for reading and writing and makes the file if there is none.
	Create
	// CreateNew is Create, and ErrExist if there is a file.
	CreateNew
)

// Info describes a file or a directory.
type Info struct {
	Name      string // the last element of the path
	Size      int64
	Dir       bool
	ModMillis int64 // wall clock of the last change, milliseconds
}

// Usage is what is known about the file system that a path is on, in bytes.
type Usage struct {
	Total, Free int64
}

// Disk is the storage of one machine.
type Disk interface {
	// Open opens a file; ErrIsDir for a directory. A new name is durable after SyncDir of its
	// directory.
	Open(t *task.T, path string, mode Mode) (File, error)
	// Stat describes a path, or returns ErrNotExist.
	Stat(t *task.T, path string) (Info, error)
	// ReadDir lists a directory in the order of names.
	ReadDir(t *task.T, path string) ([]Info, error)
	// MkdirAll makes the directory and its parents; names are durable after SyncDir of
	// each parent.
	MkdirAll(t *task.T, path string) error
	// Rename replaces to by from, atomically while power lasts; durable after SyncDir of
	// both directories. It works on directories where to does not exist.
	Rename(t *task.T, from, to string) error
	// Remove removes a file or an empty directory. Open files stay readable.
	Remove(t *task.T, path string) error
	// SyncDir makes the names in a directory durable.
	SyncDir(t *task.T, path string) error
	// Lock makes and locks the lock file of the directory tree around it (path is the file,
	// dir/.lock; the lock is an fcntl one, as Kafka's), or returns ErrLocked. It is released
	// by Close of the result and by the end of the process.
	Lock(t *task.T, path string) (Closer, error)
	// Usage tells the size and the free space behind a path.
	Usage(t *task.T, path string) (Usage, error)
}

// Closer is something to be closed.
type Closer interface {
	Close(t *task.T) error
}

// Advice is what is known about a range's future use.
type Advice uint8

const (
	// DontNeed drops the clean cached pages of the range.
	DontNeed Advice = iota
	// WillNeed reads ahead.
	WillNeed
)

// File is an open file. All offsets are explicit; there is no position.
type File interface {
	// ReadAt reads len(p) bytes at off, or fewer with io.EOF at the end of the file.
	ReadAt(t *task.T, p []byte, off int64) (int, error)
	// WriteAt writes all of p at off, extending the file (holes read as zeros). On an error n
	// bytes may have been written, and what lies in the rest of the range is unknown.
	WriteAt(t *task.T, p []byte, off int64) (int, error)
	// WriteVec writes the buffers one after the other at off, in one system call if it can.
	WriteVec(t *task.T, bufs [][]byte, off int64) (int64, error)
	// Truncate sets the size. Before the file is cut, every live Range that reaches above
	// size is cut too: its reads end, and the connection that sends it ends (see Range).
	Truncate(t *task.T, size int64) error
	// Sync makes contents and size durable. It covers every write that returned before Sync
	// was called. After an error nothing unsynced may be trusted again, and every live Range
	// is cut: the kernel may have dropped what it would send.
	Sync(t *task.T) error
	// Size is the current size.
	Size(t *task.T) (int64, error)
	// Advise passes a hint for the range on; it never fails visibly.
	Advise(t *task.T, a Advice, off, n int64)
	// PunchHole gives the space of the range back; it reads as zeros.
	PunchHole(t *task.T, off, n int64) error
	// Range pins [off, off+n) for sending. The pin keeps the descriptor open after Close.
	Range(off, n int64) *Range
	// HasRanges reports whether a Range of this open file is not released. Truncate and Sync
	// know of the ranges of the file that they are called on, and of no others: who closes one
	// that has ranges, and opens it again, can cut them no more.
	HasRanges() bool
	// Close closes the file once its last Range is released. Unsynced data is not lost by it.
	Close(t *task.T) error
	// Path is the path that the file was opened with.
	Path() string
}
