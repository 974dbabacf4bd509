package nettest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/net"
)

func bothWays(e *env, t *task.T) error {
	p, err := e.connect(t)
	if err != nil {
		return err
	}
	defer p.close()
	if p.client.RemoteAddr() != p.ln.Addr() || p.server.LocalAddr() != p.ln.Addr() {
		return fmt.Errorf("listener %s, client's remote %s, server's local %s",
			p.ln.Addr(), p.client.RemoteAddr(), p.server.LocalAddr())
	}
	if p.client.LocalAddr() != p.server.RemoteAddr() {
		return fmt.Errorf("client is %s, server sees %s", p.client.LocalAddr(), p.server.RemoteAddr())
	}
	for i := range 5 {
		ask, answer := pattern(100<<i, byte(i)), pattern(77<<i, byte(i+100))
		if err := write(t, p.client, ask); err != nil {
			return err
		}
		got, err := readFull(t, p.server, len(ask))
		if err := errors.Join(err, same("request", got, ask)); err != nil {
			return err
		}
		if err := write(t, p.server, answer); err != nil {
			return err
		}
		got, err = readFull(t, p.client, len(answer))
		if err := errors.Join(err, same("answer", got, answer)); err != nil {
			return err
		}
	}
	return nil
}

func eofAfterLast(e *env, t *task.T) error {
	p, err := e.connect(t)
	if err != nil {
		return err
	}
	defer p.close()
	want := pattern(e.Window/2+12345, 1)
	w := e.start(t, "writer", func(t *task.T) {
		e.fail(write(t, p.client, want))
		p.client.Close()
	})
	got, err := readAll(t, p.server)
	w.Wait(t)
	if err != io.EOF {
		return fmt.Errorf("end of %d bytes: %v", len(got), err)
	}
	if err := same("bytes before EOF", got, want); err != nil {
		return err
	}
	if _, err := p.server.Read(t, make([]byte, 1), clock.Never); err != io.EOF {
		return fmt.Errorf("second read at the end: %v", err)
	}
	return nil
}

func refused(e *env, t *task.T) error {
	ln, err := e.Server.Listen(t, e.Addr)
	if err != nil {
		return err
	}
	addr := ln.Addr()
	ln.Close()
	c, err := e.Client.Dial(t, addr, t.Now().Add(patience))
	if err == nil {
		c.Close()
	}
	if err := is("dial", err, net.ErrRefused); err != nil {
		return err
	}
	if !strings.Contains(err.Error(), addr) {
		return fmt.Errorf("error does not name %s: %v", addr, err)
	}
	return nil
}

func inUse(e *env, t *task.T) error {
	ln, err := e.Server.Listen(t, e.Addr)
	if err != nil {
		return err
	}
	defer ln.Close()
	_, err = e.Server.Listen(t, ln.Addr())
	if err := is("second listen", err, net.ErrInUse); err != nil {
		return err
	}
	if !strings.Contains(err.Error(), ln.Addr()) {
		return fmt.Errorf("error does not name %s: %v", ln.Addr(), err)
	}
	ln.Close()
	again, err := e.Server.Listen(t, ln.Addr())
	if err != nil {
		return fmt.Errorf("listen after close: %w", err)
	}
	again.Close()
	return nil
}

func portZero(e *env, t *task.T) error {
	a, err := e.Server.Listen(t, e.Addr)
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := e.Server.Listen(t, e.Addr)
	if err != nil {
		return err
	}
	defer b.Close()
	if a.Addr() == b.Addr() || strings.HasSuffix(a.Addr(), ":0") {
		return fmt.Errorf("ports drawn: %s and %s", a.Addr(), b.Addr())
	}
	return nil
}

func closeWakesAccept(e *env, t *task.T) error {
	ln, err := e.Server.Listen(t, e.Addr)
	if err != nil {
		return err
	}
	w := e.start(t, "accept", func(t *task.T) {
		_, err := ln.Accept(t)
		e.fail(is("accept", err, net.ErrClosed))
	})
	t.Sleep(t.Now().Add(time.Millisecond)) // mostly it waits by now; either order must work
	ln.Close()
	w.Wait(t)
	return nil
}

func closeLeavesConns(e *env, t *task.T) error {
	p, err := e.connect(t)
	if err != nil {
		return err
	}
	defer p.close()
	p.ln.Close()
	if err := write(t, p.client, []byte("still here")); err != nil {
		return err
	}
	got, err := readFull(t, p.server, 10)
	return errors.Join(err, same("after the listener closed", got, []byte("still here")))
}

func closeWakesReader(e *env, t *task.T) error {
	p, err := e.connect(t)
	if err != nil {
		return err
	}
	defer p.close()
	w := e.start(t, "reader", func(t *task.T) {
		_, err := p.server.Read(t, make([]byte, 10), clock.Never)
		e.fail(is("read", err, net.ErrClosed))
	})
	t.Sleep(t.Now().Add(time.Millisecond))
	p.server.Close()
	w.Wait(t)
	_, err = p.server.Read(t, make([]byte, 10), clock.Never)
	if err := is("read after close", err, net.ErrClosed); err != nil {
		return err
	}
	return is("write after close", write(t, p.server, []byte("x")), net.ErrClosed)
}

func closeWakesWriter(e *env, t *task.T) error {
	p, err := e.connect(t)
	if err != nil {
		return err
	}
	defer p.close()
	w := e.start(t, "writer", func(t *task.T) {
		err := p.server.Write(t, []net.Part{{Bytes: make([]byte, e.Window)}}, clock.Never)
		e.fail(is("write", err, net.ErrClosed))
	})
	t.Sleep(t.Now().Add(5 * time.Millisecond))
	p.server.Close()
	w.Wait(t)
	return nil
}

func closeTwice(e *env, t *task.T) error {
	p, err := e.connect(t)
	if err != nil {
		return err
	}
	p.close()
	p.close()
	return nil
}

func writeToClosed(e *env, t *task.T) error {
	p, err := e.connect(t)
	if err != nil {
		return err
	}
	defer p.close()
	p.client.Close()
	for range 10_000 {
		err := write(t, p.server, make([]byte, 1000))
		if err != nil {
			return is("write to a closed peer", err, net.ErrReset)
		}
		if !t.Sleep(t.Now().Add(100 * time.Microsecond)) {
			break
		}
	}
	return errors.New("10,000 writes to a closed peer went well")
}

func readDeadline(e *env, t *task.T) error {
	p, err := e.connect(t)
	if err != nil {
		return err
	}
	defer p.close()
	buf := make([]byte, 10)
	until := t.Now().Add(20 * time.Millisecond)
	for range 2 { // the second is in the past
		_, err = p.server.Read(t, buf, until)
		if err := is("read", err, net.ErrTimeout); err != nil {
			return err
		}
		if now := t.Now(); now < until {
			return fmt.Errorf("timed out %v early", until.Sub(now))
		}
	}
	if err := write(t, p.client, []byte("late")); err != nil {
		return err
	}
	got, err := readFull(t, p.server, 4)
	return errors.Join(err, same("after the timeout", got, []byte("late")))
}

func writeDeadline(e *env, t *task.T) error {
	p, err := e.connect(t)
	if err != nil {
		return err
	}
	defer p.close()
	until := t.Now().Add(50 * time.Millisecond)
	err = p.server.Write(t, []net.Part{{Bytes: make([]byte, e.Window)}}, until)
	if err := is("write to a peer that never reads", err, net.ErrTimeout); err != nil {
		return err
	}
	if now := t.Now(); now < until {
		return fmt.Errorf("timed out %v early", until.Sub(now))
	}
	if err := is("next write", write(t, p.server, []byte("x")), net.ErrClosed); err != nil {
		return err
	}
	got, err := readAll(t, p.client)
	if len(got) >= e.Window {
		return fmt.Errorf("all %d bytes arrived of a write that timed out", len(got))
	}
	return ended("peer of a write that timed out", err)
}

func backPressure(e *env, t *task.T) error {
	p, err := e.connect(t)
	if err != nil {
		return err
	}
	defer p.close()
	want := pattern(e.Window+e.Window/2, 9)
	written := false
	w := e.start(t, "writer", func(t *task.T) {
		e.fail(write(t, p.server, want))
		e.mu.Lock()
		written = true
		e.mu.Unlock()
	})
	got, err := readFull(t, p.client, 100)
	if err != nil {
		return err
	}
	e.mu.Lock()
	early := written
	e.mu.Unlock()
	if early {
		return fmt.Errorf("%d bytes were written before the peer read", len(want))
	}
	rest, err := readFull(t, p.client, len(want)-100)
	w.Wait(t)
	if err != nil {
		return err
	}
	return same("through the window", append(got, rest...), want)
}

func partsOrder(e *env, t *task.T) error {
	p, err := e.connect(t)
	if err != nil {
		return err
	}
	defer p.close()
	f, content, err := e.file(t, "order", 300_000, 3)
	if err != nil {
		return err
	}
	defer f.Close(t)
	var parts []net.Part
	var want []byte
	for i := range 200 {
		if i%9 == 4 {
			off, n := int64(i)*1000, int64(i)*37
			parts = append(parts, net.Part{File: f.Range(off, n)})
			want = append(want, content[off:off+n]...)
			continue
		}
		b := pattern(i*3, byte(i))
		parts = append(parts, net.Part{Bytes: b})
		want = append(want, b...)
	}
	w := e.start(t, "writer", func(t *task.T) { e.fail(p.server.Write(t, parts, clock.Never)) })
	got, err := readFull(t, p.client, len(want))
	w.Wait(t)
	return errors.Join(err, same("parts", got, want), released(parts))
}

func emptyParts(e *env, t *task.T) error {
	p, err := e.connect(t)
	if err != nil {
		return err
	}
	defer p.close()
	f, _, err := e.file(t, "empty", 10, 3)
	if err != nil {
		return err
	}
	defer f.Close(t)
	for _, parts := range [][]net.Part{
		{},
		{{}},
		{{Bytes: []byte("a")}, {File: f.Range(5, 0)}, {Bytes: []byte{}}},
		{{File: f.Range(0, 0)}, {Bytes: []byte("b")}, {}},
	} {
		if err := p.server.Write(t, parts, clock.Never); err != nil {
			return err
		}
		if err := released(parts); err != nil {
			return err
		}
	}
	got, err := readFull(t, p.client, 2)
	return errors.Join(err, same("between empty parts", got, []byte("ab")))
}

func manyConns(e *env, t *task.T) error {
	ln, err := e.Server.Listen(t, e.Addr)
	if err != nil {
		return err
	}
	defer ln.Close()
	const conns = 20
	g := t.Group().Sub("conns")
	for i := range conns {
		g.Go("client", func(t *task.T) {
			c, err := e.Client.Dial(t, ln.Addr(), clock.Never)
			if err != nil {
				e.fail(err)
				return
			}
			defer c.Close()
			want := pattern(5000+i, byte(i))
			e.fail(write(t, c, want))
			got, err := readFull(t, c, len(want))
			e.fail(err)
			e.fail(same("echo", got, want))
		})
		c, err := ln.Accept(t)
		if err != nil {
			return err
		}
		g.Go("echo", func(t *task.T) {
			defer c.Close()
			buf := make([]byte, 700)
			for {
				n, err := c.Read(t, buf, clock.Never)
				if err != nil {
					e.fail(ended("echo", err))
					return
				}
				if err := write(t, c, bytes.Clone(buf[:n])); err != nil {
					e.fail(err)
					return
				}
			}
		})
	}
	g.Wait(t)
	return nil
}
