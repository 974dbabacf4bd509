//go:build linux

package osfs

import (
	"fmt"

	"golang.org/x/sys/unix"

	"seedlog/disk"
)

// fail wraps an errno with what was done to which path, and with the contract's error for
// it where there is one. The errno stays reachable through errors.Is.
func fail(op, path string, err error) error {
	if kind := kindOf(err); kind != nil {
		return fmt.Errorf("%s %s: %w", op, path, &mapped{kind, err})
	}
	return fmt.Errorf("%s %s: %w", op, path, err)
}

// mapped is a contract error that remembers the errno without saying it twice.
type mapped struct{ kind, errno error }

func (m *mapped) Error() string   { return m.kind.Error() }
func (m *mapped) Unwrap() []error { return []error{m.kind, m.errno} }

func kindOf(err error) error {
	switch err {
	case unix.ENOENT:
		return disk.ErrNotExist
	case unix.EEXIST:
		return disk.ErrExist
	case unix.ENOSPC, unix.EDQUOT:
		return disk.ErrNoSpace
	case unix.EROFS:
		return disk.ErrReadOnly
	case unix.EIO, unix.EUCLEAN, unix.ENXIO, unix.ENODEV, unix.ESTALE, unix.ENODATA, unix.EBADMSG:
		return disk.ErrIO
	case unix.EBADF:
		return disk.ErrClosed
	case unix.ENOTEMPTY:
		return disk.ErrNotEmpty
	case unix.EISDIR:
		return disk.ErrIsDir
	}
	return nil
}

// retry repeats a call that a signal interrupted; the Go runtime's pre-emption is one.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

func openRetry(name string, flags int) (int, error) {
	for {
		fd, err := unix.Open(name, flags, 0o644)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// closeFD closes once: on Linux the descriptor is gone even when close is interrupted.
func closeFD(fd int) error {
	if err := unix.Close(fd); err != nil && err != unix.EINTR {
		return err
	}
	return nil
}
