package storage

import (
	"errors"

	"seedlog/clock/task"
	"seedlog/disk"
)

// ballastFile keeps room that nobody can use up: a full disk's deletions need some.
const ballastFile = ".ballast"

// inflateBallast writes the ballast file if there is none, the disk has plenty of room, and
// the configuration wants one. Its bytes are written, for a hole would keep nothing.
func (d *Dir) inflateBallast(t *task.T) error {
	want := d.cfg.BallastBytes
	if want <= 0 {
		return nil
	}
	path := d.path + "/" + ballastFile
	usage, err := d.env.Disk.Usage(t, d.path)
	if err != nil {
		return err
	}
	if want = min(want, usage.Total/1024); want <= 0 { // a small disk spares less
		return nil
	}
	in, err := d.env.Disk.Stat(t, path)
	if err != nil && !errors.Is(err, disk.ErrNotExist) {
		return err
	}
	if err == nil && in.Size >= want {
		d.ballast = true
		return nil
	}
	if usage.Free < 4*want {
		return nil
	}
	err = fillFile(t, d.env.Disk, path, want)
	if errors.Is(err, disk.ErrNoSpace) {
		return d.env.Disk.Remove(t, path)
	}
	d.ballast = err == nil
	return err
}

func fillFile(t *task.T, dk disk.Disk, path string, n int64) error {
	f, err := dk.Open(t, path, disk.Create)
	if err != nil {
		return err
	}
	block := make([]byte, min(n, 1<<20))
	for i := range block {
		block[i] = 0xb5 // what is all zeros may be kept as a hole
	}
	for at := int64(0); at < n && err == nil; at += int64(len(block)) {
		_, err = f.WriteAt(t, block[:min(int64(len(block)), n-at)], at)
	}
	return errors.Join(err, f.Close(t))
}

// ReleaseBallast gives the ballast's room back. It is done when a write finds the disk full;
// a host may do it earlier. The next start makes the file anew, if there is room by then.
func (d *Dir) ReleaseBallast(t *task.T) error {
	d.mu.Lock()
	had := d.ballast
	d.ballast = false
	d.mu.Unlock()
	if !had {
		return nil
	}
	path := d.path + "/" + ballastFile
	in, err := d.env.Disk.Stat(t, path)
	if err != nil {
		return err
	}
	if err := d.env.Disk.Remove(t, path); err != nil {
		return err
	}
	d.env.observe(Event{Kind: BallastReleased, Dir: d.path, Bytes: in.Size})
	return nil
}
