//go:build linux

package limits

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// requestBytes is a request of the fetch loop: the offset to read at.
const requestBytes = 8

// fill writes the file that fetch reads, so that it is in the page cache.
func (c Config) fill(f *os.File, frames int) error {
	p := c.pattern()
	for i := range frames {
		if _, err := f.WriteAt(p, int64(i)*int64(len(p))); err != nil {
			return err
		}
	}
	return nil
}

// fetch moves the file through a socket to a client, a frame for each request.
func (c Config) fetch(f *os.File, frames int) error {
	client, server, err := connect()
	if err != nil {
		return err
	}
	return together(client, server,
		func() error { return c.consume(client, frames) },
		func() error { return c.serve(server, f, frames) })
}

// consume keeps requests in flight and reads the responses.
func (c Config) consume(conn *net.TCPConn, frames int) error {
	var request [requestBytes]byte
	next := 0
	ask := func() error {
		if next == frames {
			return nil
		}
		binary.BigEndian.PutUint64(request[:], uint64(next)*uint64(c.Frame))
		next++
		_, err := conn.Write(request[:])
		return err
	}
	for range c.InFlight {
		if err := ask(); err != nil {
			return err
		}
	}
	r := bufio.NewReaderSize(conn, readBuffer)
	buf := make([]byte, headerBytes+c.Frame)
	for i := range frames {
		if _, err := io.ReadFull(r, buf); err != nil {
			return err
		}
		if off := binary.BigEndian.Uint64(buf); off != uint64(i)*uint64(c.Frame) {
			return fmt.Errorf("response %d is of offset %d", i, off)
		}
		if err := ask(); err != nil {
			return err
		}
	}
	return nil
}

// serve answers each request with a small header and a part of the file by sendfile.
func (c Config) serve(conn *net.TCPConn, f *os.File, frames int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	r := bufio.NewReader(conn)
	var header [headerBytes]byte
	for range frames {
		if _, err := io.ReadFull(r, header[:]); err != nil {
			return err
		}
		off := int64(binary.BigEndian.Uint64(header[:]))
		if err := sendHeader(raw.Write, header[:]); err != nil {
			return err
		}
		if err := sendFile(raw.Write, int(f.Fd()), off, c.Frame); err != nil {
			return err
		}
	}
	return nil
}

// sendHeader sends b and tells the kernel that more follows.
func sendHeader(write func(func(uintptr) bool) error, b []byte) error {
	return whenWritable(write, func(fd int) (bool, error) {
		n, err := unix.SendmsgN(fd, b, nil, nil, unix.MSG_MORE)
		b = b[max(n, 0):]
		return len(b) == 0, err
	})
}

func sendFile(write func(func(uintptr) bool) error, file int, off int64, n int) error {
	return whenWritable(write, func(fd int) (bool, error) {
		k, err := unix.Sendfile(fd, file, &off, n)
		if k == 0 && err == nil {
			return true, io.ErrUnexpectedEOF
		}
		n -= max(k, 0)
		return n == 0, err
	})
}

// whenWritable repeats a system call until it is done or fails for good.
func whenWritable(write func(func(uintptr) bool) error, call func(fd int) (done bool, err error)) error {
	var failed error
	err := write(func(fd uintptr) bool {
		for {
			done, err := call(int(fd))
			switch err {
			case nil:
				if done {
					return true
				}
			case unix.EINTR:
			case unix.EAGAIN:
				return false // wait until the socket is writable
			default:
				failed = err
				return true
			}
		}
	})
	if failed != nil {
		return failed
	}
	return err
}
