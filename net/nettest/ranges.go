package nettest

import (
	"errors"
	"fmt"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/net"
)

// file makes a file of n bytes.
func (e *env) file(t *task.T, name string, n int, salt byte) (disk.File, []byte, error) {
	f, err := e.Disk.Open(t, e.Dir+"/"+name, disk.CreateNew)
	if err != nil {
		return nil, nil, err
	}
	content := pattern(n, salt)
	_, err = f.WriteAt(t, content, 0)
	return f, content, err
}

// released tells whether the write gave every range back.
func released(parts []net.Part) error {
	for i, p := range parts {
		if p.File == nil {
			continue
		}
		if p.File.Begin() {
			p.File.End()
			return fmt.Errorf("part %d: its range is still pinned after the write", i)
		}
	}
	return nil
}

func bigRange(e *env, t *task.T) error {
	p, err := e.connect(t)
	if err != nil {
		return err
	}
	defer p.close()
	f, content, err := e.file(t, "big", e.Window+54321, 5)
	if err != nil {
		return err
	}
	defer f.Close(t)
	parts := []net.Part{{Bytes: []byte("head")}, {File: f.Range(321, int64(e.Window))}}
	w := e.start(t, "writer", func(t *task.T) { e.fail(p.server.Write(t, parts, clock.Never)) })
	got, err := readFull(t, p.client, 4+e.Window)
	w.Wait(t)
	return errors.Join(err, released(parts),
		same("head and range", got, append([]byte("head"), content[321:321+e.Window]...)))
}

// parked is a write whose range cannot have been bound yet, for the bytes before it do not
// fit the window and nobody reads.
type parked struct {
	*pair
	f       disk.File
	content []byte
	parts   []net.Part
	err     error
	done    *task.Group
}

const (
	parkedSize = 200_000
	parkedOff  = 1000
	parkedLen  = 150_000
)

func (e *env) park(t *task.T) (*parked, error) {
	p, err := e.connect(t)
	if err != nil {
		return nil, err
	}
	k := &parked{pair: p}
	if k.f, k.content, err = e.file(t, "parked", parkedSize, 7); err != nil {
		return nil, err
	}
	k.parts = []net.Part{
		{Bytes: pattern(e.Window, 8)},
		{File: k.f.Range(parkedOff, parkedLen)},
		{Bytes: []byte("tail")},
	}
	k.done = e.start(t, "writer", func(t *task.T) { k.err = p.server.Write(t, k.parts, clock.Never) })
	return k, nil
}

// whole reads everything, and wants the range to have these bytes.
func (k *parked) whole(e *env, t *task.T, content []byte) error {
	want := append(pattern(e.Window, 8), content[parkedOff:parkedOff+parkedLen]...)
	want = append(want, "tail"...)
	got, err := readFull(t, k.client, len(want))
	k.done.Wait(t)
	return errors.Join(err, k.err, released(k.parts), same("parked write", got, want))
}

func lateOverwritten(e *env, t *task.T) error {
	k, err := e.park(t)
	if err != nil {
		return err
	}
	defer k.close()
	defer k.f.Close(t)
	now := pattern(parkedSize, 200)
	if _, err := k.f.WriteAt(t, now, 0); err != nil {
		return err
	}
	return k.whole(e, t, now)
}

func lateTruncated(e *env, t *task.T) error {
	k, err := e.park(t)
	if err != nil {
		return err
	}
	defer k.close()
	defer k.f.Close(t)
	if err := k.f.Truncate(t, parkedOff+parkedLen/2); err != nil {
		return err
	}
	// What was cut stays cut, even if the file grows again.
	if _, err := k.f.WriteAt(t, pattern(parkedSize, 201), 0); err != nil {
		return err
	}
	got, err := readAll(t, k.client)
	k.done.Wait(t)
	if len(got) > e.Window {
		return fmt.Errorf("%d bytes of a truncated range arrived", len(got)-e.Window)
	}
	return errors.Join(ended("peer", err), is("write", k.err, net.ErrCut), released(k.parts))
}

func lateClosed(e *env, t *task.T) error {
	k, err := e.park(t)
	if err != nil {
		return err
	}
	defer k.close()
	if err := k.f.Close(t); err != nil {
		return err
	}
	for i := range 20 { // one of these would get the descriptor
		f, _, err := e.file(t, fmt.Sprint("other", i), parkedSize, byte(20+i))
		if err != nil {
			return err
		}
		defer f.Close(t)
	}
	return k.whole(e, t, k.content)
}

func shortFile(e *env, t *task.T) error {
	p, err := e.connect(t)
	if err != nil {
		return err
	}
	defer p.close()
	f, content, err := e.file(t, "short", 10_000, 11)
	if err != nil {
		return err
	}
	defer f.Close(t)
	parts := []net.Part{{Bytes: []byte("head")}, {File: f.Range(4000, 7000)}, {Bytes: []byte("tail")}}
	w := e.start(t, "writer", func(t *task.T) {
		e.fail(is("write", p.server.Write(t, parts, clock.Never), net.ErrCut))
		e.fail(released(parts))
	})
	got, err := readAll(t, p.client)
	w.Wait(t)
	want := append([]byte("head"), content[4000:]...)
	if len(got) > len(want) {
		return fmt.Errorf("%d bytes arrived, the file had %d", len(got), len(want))
	}
	return errors.Join(ended("peer", err), same("before the end", got, want[:len(got)]))
}

func failedReleases(e *env, t *task.T) error {
	p, err := e.connect(t)
	if err != nil {
		return err
	}
	defer p.close()
	f, _, err := e.file(t, "failed", 10_000, 11)
	if err != nil {
		return err
	}
	defer f.Close(t)
	p.server.Close()
	parts := []net.Part{{File: f.Range(0, 10)}, {Bytes: []byte("x")}, {File: f.Range(10, 10)}}
	err = p.server.Write(t, parts, clock.Never)
	return errors.Join(is("write", err, net.ErrClosed), released(parts))
}
