//go:build linux

package limits

import (
	"os"

	"golang.org/x/sys/unix"
)

// sync writes groups of frames at the end of the file, each with one fdatasync.
func (c Config) sync(f *os.File, frames int) error {
	p := c.pattern()
	off := int64(0)
	for i := 1; i <= frames; i++ {
		if _, err := f.WriteAt(p, off); err != nil {
			return err
		}
		off += int64(len(p))
		if i%WritesPerSync == 0 || i == frames {
			if err := unix.Fdatasync(int(f.Fd())); err != nil {
				return err
			}
		}
	}
	return nil
}
