package simnet

import (
	"fmt"
	"io"
	"time"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/net"
	"seedlog/sim/trace"
)

// pieceBytes is the most that travels as one piece.
const pieceBytes = 64 << 10

// end is one side of a connection: a net.Conn.
type end struct {
	n             *Net
	ifc           *Iface
	peer          *end
	id            uint64 // the connection's number, twice, plus one on the accepting side
	local, remote string
	in, out       *pipe

	shutDown bool // closed by its own side: by Close, a failed write, or a kill
	vanished bool // its machine forgot it without a word
	eof      bool // the peer's FIN arrived
	// answering: a reset that was lost is to be sent again.
	answering bool
	broken    bool // a reset arrived, or keep-alive gave up: nothing more comes in or goes out

	reader, writer *task.T
}

// newConn makes both ends of a connection.
func (n *Net) newConn(from *Iface, to *listener, port int) (client, server *end) {
	n.lastConn++
	client = &end{n: n, ifc: from, id: n.lastConn * 2, local: from.m.addr(port), remote: to.addr}
	server = &end{n: n, ifc: to.ifc, id: n.lastConn*2 + 1, local: to.addr, remote: client.local}
	client.peer, server.peer = server, client
	client.out = &pipe{l: n.link(from.m.name, to.ifc.m.name), to: server}
	server.out = &pipe{l: n.link(to.ifc.m.name, from.m.name), to: client}
	client.in, server.in = server.out, client.out
	from.ends = append(from.ends, client)
	to.ifc.ends = append(to.ifc.ends, server)
	if n.open = append(n.open, client); len(n.open) > n.pruneAt {
		n.prune()
	}
	return client, server
}

// over tells that no fault can have an effect on the connection any more.
func (e *end) over() bool {
	return (e.shutDown || e.broken) && (e.peer.shutDown || e.peer.broken)
}

func (e *end) LocalAddr() string  { return e.local }
func (e *end) RemoteAddr() string { return e.remote }

func (e *end) wake() {
	if e.reader != nil {
		e.reader.Wake()
	}
	if e.writer != nil {
		e.writer.Wake()
	}
}

func (e *end) err(op string, kind error) error { return fmt.Errorf("%s %s: %w", op, e.remote, kind) }

// park waits in one of the two places of e. It does not end because a group stops.
func (e *end) park(t *task.T, place **task.T, until clock.Instant) task.Reason {
	if *place != nil && *place != t {
		panic("simnet: " + t.Name() + " and " + (*place).Name() + " use one side of a connection at once")
	}
	*place = t
	r := t.Runtime().Park(t, until)
	*place = nil
	return r
}

// Read implements net.Conn.
func (e *end) Read(t *task.T, p []byte, until clock.Instant) (int, error) {
	for late := false; ; {
		switch {
		case e.shutDown || e.ifc.dead():
			return 0, e.err("read", net.ErrClosed)
		case e.in.arrived > 0 && len(p) > 0:
			n := e.in.read(p)
			e.n.log.AddBytes(trace.NetRead, e.id, 0, p[:n])
			if w := e.peer.writer; w != nil {
				w.Wake()
			}
			return n, nil
		case e.broken:
			return 0, e.err("read", net.ErrReset)
		case e.eof:
			return 0, io.EOF
		case late:
			return 0, e.err("read", net.ErrTimeout)
		}
		late = e.park(t, &e.reader, until) == task.TimedOut
	}
}

// Write implements net.Conn.
func (e *end) Write(t *task.T, parts []net.Part, until clock.Instant) (err error) {
	defer func() {
		for i := range parts {
			if parts[i].File != nil {
				parts[i].File.Release()
			}
		}
		if err != nil {
			e.Close()
		}
	}()
	if err := e.usable(); err != nil {
		return err
	}
	small := 0
	if l := e.out.l; l.split.hit(e.n.cfg.SplitEvery, l.loss) {
		small = 1 + l.loss.IntN(200)
		e.n.count(Split, true)
	}
	for _, part := range parts {
		size := int64(len(part.Bytes))
		if part.File != nil {
			size = part.File.Len
		}
		for off := int64(0); off < size; {
			room, err := e.room(t, until)
			if err != nil {
				return err
			}
			n := int(min(int64(room), size-off, pieceBytes))
			if small > 0 {
				n = min(n, small)
			}
			if part.File == nil {
				b := part.Bytes[off : off+int64(n)]
				copy(e.out.grow(n), b)
				e.n.log.AddBytes(trace.NetWrite, e.id, 0, b)
				e.out.send(piece{n: n})
			} else if err := e.sendRange(t, part.File, off, n); err != nil {
				return err
			}
			off += int64(n)
		}
	}
	return nil
}

// usable tells whether bytes can be written.
func (e *end) usable() error {
	switch {
	case e.shutDown || e.ifc.dead():
		return e.err("write", net.ErrClosed)
	case e.broken:
		return e.err("write", net.ErrReset)
	}
	return nil
}

// room waits until the window takes something.
func (e *end) room(t *task.T, until clock.Instant) (int, error) {
	for late := false; ; {
		if err := e.usable(); err != nil {
			return 0, err
		}
		if room := e.n.cfg.Window - e.out.size(); room > 0 {
			return room, nil
		}
		if late {
			return 0, e.err("write", net.ErrTimeout)
		}
		late = e.park(t, &e.writer, until) == task.TimedOut
	}
}

// sendRange reads a piece of a range and sends it. Reading may wait, and the connection may
// end meanwhile.
func (e *end) sendRange(t *task.T, r *disk.Range, off int64, n int) error {
	b := make([]byte, n)
	m, err := r.ReadAt(t, b, off)
	if err != nil && err != io.EOF && !r.Cut() {
		return fmt.Errorf("write %s: %w", e.remote, err)
	}
	if m < n || r.Cut() {
		return e.err("write", fmt.Errorf("%s at %d: %w", r.File().Path(), r.Off+off, net.ErrCut))
	}
	if err := e.usable(); err != nil {
		return err
	}
	copy(e.out.grow(n), b)
	e.n.log.AddBytes(trace.NetWrite, e.id, 1, b)
	e.out.send(piece{n: n, file: r.File(), off: r.Off + off, evictions: evictions(r.File())})
	return nil
}

// Close implements net.Conn.
func (e *end) Close() {
	if e.ifc.dead() {
		return
	}
	e.shut()
}

// shut closes the side: with a reset if something was not read, as TCP does.
func (e *end) shut() {
	if e.shutDown {
		return
	}
	e.shutDown = true
	e.n.log.Add(trace.NetClose, e.id, 0, 0)
	if !e.broken {
		kind := fin
		if e.in.arrived > 0 {
			kind = rst
		}
		e.out.send(piece{kind: kind})
	}
	e.in.head, e.in.arrived = e.in.head+e.in.arrived, 0 // nobody will read it
	if w := e.peer.writer; w != nil {
		w.Wake()
	}
	e.forget()
}

// vanish ends the side without a word to the peer.
func (e *end) vanish() {
	if !e.broken {
		e.out.loseTail()
	}
	e.shutDown, e.vanished = true, true
	e.wake()
	e.peer.keepAlive()
}

// keepAlive ends the side in a while, for nobody answers it any more.
func (e *end) keepAlive() {
	wait := int64(15*time.Second) + int64(e.n.faults.Uint64()%uint64(135*time.Second))
	e.n.s.At(e.n.after(wait), e.reset)
}

// reset ends the connection for this side. What has arrived can still be read.
func (e *end) reset() {
	if e.broken || e.shutDown && e.peer.shutDown {
		return
	}
	e.broken = true
	e.n.log.Add(trace.NetReset, e.id, 0, 0)
	e.out.discard()
	e.wake()
}

// retransmit is how soon a sender repeats what nobody acknowledged.
const retransmit = int64(500 * time.Millisecond)

// answerReset is what the kernel of a machine that does not know the connection says. An
// answer that is lost is given again: the other side sends again what nobody acknowledged.
func (e *end) answerReset() {
	switch {
	case e.peer.broken || e.peer.shutDown:
		return
	case e.out.l.blocked():
		if !e.answering {
			e.answering = true
			e.n.s.At(e.n.after(retransmit), func() {
				e.answering = false
				e.answerReset()
			})
		}
		return
	}
	e.n.s.At(e.n.after(e.out.l.delay()), e.peer.reset)
}

// forget takes the end off its incarnation's list.
func (e *end) forget() {
	e.wake()
	for i, o := range e.ifc.ends {
		if o == e {
			last := len(e.ifc.ends) - 1
			e.ifc.ends[i], e.ifc.ends[last] = e.ifc.ends[last], nil
			e.ifc.ends = e.ifc.ends[:last]
			return
		}
	}
}
