package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"

	"seedlog/cmd/seedlog/limits"
)

func (r *limitsRun) sync() error {
	return r.with(r.dir, func(b *benchBroker, c *benchConn) error {
		group, err := newSyncGroup(b.addr, limits.WritesPerSync)
		if err != nil {
			return err
		}
		defer group.close()
		for _, size := range limitsSizes {
			if err := r.compareSync(b, c, group, size.frame); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *limitsRun) compareSync(b *benchBroker, c *benchConn, group *syncGroup, frame int) error {
	batch, _, err := benchBatch(frame, r.recordSize)
	if err != nil {
		return err
	}
	row := limitsRow{name: "flush.messages=1", request: len(batch), target: 0.6}
	n := int(max(min(r.bytes/int64(len(batch)), 4096), 2*limits.WritesPerSync))
	for round := range r.rounds {
		r.progress("sync", len(batch), round)
		raw, err := limits.Sync(r.ctx, r.loop(r.dir, len(batch), n))
		if err != nil {
			return err
		}
		topic := fmt.Sprintf("sync-%d-%d", frame, round)
		if err := c.createTopic(topic, append(benchTopicSettings, [2]string{"flush.messages", "1"})...); err != nil {
			return err
		}
		request := c.produceFrame(topic, -1, batch)
		if err := group.produce(topic, request, n/4); err != nil {
			return err
		}
		rate, cpu, err := b.timed(n*len(batch), func() error { return group.produce(topic, request, n) })
		if err != nil {
			return err
		}
		row.raw, row.broker, row.cpu = append(row.raw, raw.Median()), append(row.broker, rate), append(row.cpu, cpu)
		if err := c.deleteTopic(topic); err != nil {
			return err
		}
	}
	r.rows = append(r.rows, row)
	return nil
}

// syncGroup is producers on a connection each, with one request in flight each. One loop
// serves all of them, so that a request costs the client one write, one read and its share
// of a poll: what the clients take of the processors counts against the broker.
type syncGroup struct {
	poll      int // an epoll instance, level-triggered
	producers []*syncProducer
	events    []unix.EpollEvent
}

// syncProducer is one of them. Its socket is not known to the runtime's own poller.
type syncProducer struct {
	fd      int
	sent    int // bytes of the frame that are out
	blocked bool
	reply   [256]byte
	got     int // bytes of the reply
	check   produceReply
	last    int64 // the offset of the last reply
	left    int   // replies to come
}

func newSyncGroup(addr string, n int) (g *syncGroup, err error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, err
	}
	g = &syncGroup{events: make([]unix.EpollEvent, n)}
	if g.poll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	for i := range n {
		fd, err := dialRaw(to)
		if err == nil {
			g.producers = append(g.producers, &syncProducer{fd: fd})
			err = g.watch(unix.EPOLL_CTL_ADD, i, unix.EPOLLIN)
		}
		if err != nil {
			g.close()
			return nil, err
		}
	}
	return g, nil
}

// dialRaw connects a socket that does not block from then on.
func dialRaw(to netip.AddrPort) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	err = unix.Connect(fd, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())})
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("connect %s: %w", to, err)
	}
	return fd, nil
}

func (g *syncGroup) watch(op, i int, events uint32) error {
	p := g.producers[i]
	if err := unix.EpollCtl(g.poll, op, p.fd, &unix.EpollEvent{Events: events, Fd: int32(i)}); err != nil {
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}

func (g *syncGroup) close() {
	for _, p := range g.producers {
		unix.Close(p.fd)
	}
	unix.Close(g.poll)
}

// produce sends n requests in all, each producer its share one after the other, and checks
// the replies: no error, and offsets that ascend.
func (g *syncGroup) produce(topic string, frame []byte, n int) error {
	busy := 0
	for i, p := range g.producers {
		p.left, p.last, p.check = n/len(g.producers), -1, newProduceReply(topic)
		if p.left == 0 {
			continue
		}
		busy++
		p.sent = 0
		if err := g.send(i, frame); err != nil {
			return err
		}
	}
	for busy > 0 {
		ready, err := epollWait(g.poll, g.events)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("epoll_wait: %w", err)
		}
		for _, e := range g.events[:ready] {
			done, err := g.step(int(e.Fd), e.Events, frame)
			if err != nil {
				return err
			}
			if done {
				busy--
			}
		}
	}
	return nil
}

// step goes on with a producer whose socket is ready, and tells whether it had its last reply.
func (g *syncGroup) step(i int, events uint32, frame []byte) (done bool, err error) {
	p := g.producers[i]
	if p.blocked {
		if err := g.send(i, frame); err != nil {
			return false, err
		}
	}
	if events&^unix.EPOLLOUT == 0 {
		return false, nil
	}
	if whole, err := p.receive(); err != nil || !whole {
		return false, err
	}
	if p.left--; p.left == 0 {
		return true, nil
	}
	p.sent = 0
	return false, g.send(i, frame)
}

// send writes what is left of the frame, as far as the socket takes it.
func (g *syncGroup) send(i int, frame []byte) error {
	p := g.producers[i]
	for p.sent < len(frame) {
		n, err := unix.Write(p.fd, frame[p.sent:])
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			if p.blocked {
				return nil
			}
			p.blocked = true
			return g.watch(unix.EPOLL_CTL_MOD, i, unix.EPOLLIN|unix.EPOLLOUT)
		case err != nil:
			return fmt.Errorf("write: %w", err)
		default:
			p.sent += n
		}
	}
	if p.blocked {
		p.blocked = false
		return g.watch(unix.EPOLL_CTL_MOD, i, unix.EPOLLIN)
	}
	return nil
}

// receive reads what is there of the reply, and checks it when it is whole.
func (p *syncProducer) receive() (done bool, err error) {
	n, err := unix.Read(p.fd, p.reply[p.got:])
	switch {
	case err == unix.EINTR || err == unix.EAGAIN:
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read: %w", err)
	case n == 0:
		return false, io.ErrUnexpectedEOF
	}
	p.got += n
	if p.got < 4 {
		return false, nil
	}
	size := int(binary.BigEndian.Uint32(p.reply[:]))
	if size > len(p.reply)-4 || p.got > 4+size {
		return false, fmt.Errorf("reply of %d bytes, %d arrived", size, p.got-4)
	}
	if p.got < 4+size {
		return false, nil
	}
	p.got = 0
	base, err := p.check.check(p.reply[4 : 4+size])
	if err != nil {
		return false, err
	}
	if base <= p.last {
		return false, fmt.Errorf("offset %d after %d", base, p.last)
	}
	p.last = base
	return true, nil
}

// epollWait waits without telling the runtime: nothing else is to run in this process, and
// handing the processor over and taking it back costs as much as the wait.
func epollWait(poll int, events []unix.EpollEvent) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(poll), uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), ^uintptr(0), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
