//go:build linux

package limits

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os"
)

const (
	headerBytes = 8  // length and CRC-32C before a frame
	replyBytes  = 16 // about a produce response
	readBuffer  = 64 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// connect makes a TCP connection over loopback.
func connect() (client, server *net.TCPConn, err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String()) // the kernel completes it before Accept
	if err != nil {
		return nil, nil, err
	}
	s, err := ln.Accept()
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	return c.(*net.TCPConn), s.(*net.TCPConn), nil
}

// together runs the parts of a loop until all have ended. The first to fail closes the
// connection, which ends the others.
func together(client, server *net.TCPConn, parts ...func() error) error {
	errs := make(chan error, len(parts))
	for _, p := range parts {
		go func() { errs <- p() }()
	}
	var all error
	for range parts {
		if err := <-errs; err != nil {
			all = errors.Join(all, err)
			client.Close()
			server.Close()
		}
	}
	client.Close()
	server.Close()
	return all
}

// produce moves frames from a client through a socket into the file.
func (c Config) produce(f *os.File, frames int) error {
	client, server, err := connect()
	if err != nil {
		return err
	}
	slots := make(chan struct{}, c.InFlight)
	gone := make(chan struct{})
	send := func() error {
		frame := make([]byte, headerBytes+c.Frame)
		copy(frame[headerBytes:], c.pattern())
		binary.BigEndian.PutUint32(frame, uint32(c.Frame))
		binary.BigEndian.PutUint32(frame[4:], crc32.Checksum(frame[headerBytes:], castagnoli))
		for range frames {
			select {
			case slots <- struct{}{}:
			case <-gone:
				return nil
			}
			if _, err := client.Write(frame); err != nil {
				return err
			}
		}
		return nil
	}
	receive := func() error {
		defer close(gone)
		r := bufio.NewReader(client)
		reply := make([]byte, replyBytes)
		for range frames {
			if _, err := io.ReadFull(r, reply); err != nil {
				return err
			}
			<-slots
		}
		return nil
	}
	return together(client, server, send, receive, func() error { return c.store(server, f, frames) })
}

// store is the server of produce. Replies leave when nothing more has arrived.
func (c Config) store(conn *net.TCPConn, f *os.File, frames int) error {
	r, w := bufio.NewReaderSize(conn, readBuffer), bufio.NewWriter(conn)
	var header [headerBytes]byte
	reply := make([]byte, replyBytes)
	buf := make([]byte, c.Frame)
	off := int64(0)
	for range frames {
		if _, err := io.ReadFull(r, header[:]); err != nil {
			return err
		}
		if n := binary.BigEndian.Uint32(header[:]); int(n) != len(buf) {
			return fmt.Errorf("frame of %d bytes", n)
		}
		if _, err := io.ReadFull(r, buf); err != nil {
			return err
		}
		if crc := crc32.Checksum(buf, castagnoli); crc != binary.BigEndian.Uint32(header[4:]) {
			return fmt.Errorf("CRC %08x of the frame at %d", crc, off)
		}
		if _, err := f.WriteAt(buf, off); err != nil {
			return err
		}
		off += int64(len(buf))
		w.Write(reply)
		if r.Buffered() == 0 {
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
	return w.Flush()
}
