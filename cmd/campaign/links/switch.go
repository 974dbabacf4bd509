package links

import (
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// maxPacket is the largest IP packet, and the MTU of all interfaces.
const maxPacket = 65_520

// maxHeld bounds how many packets of a direction are on their way; what comes on top is
// dropped, as a full queue does.
const maxHeld = 4096

// Switch carries IP packets between ports by the last byte of their destination.
type Switch struct {
	rules *Rules
	ports []io.ReadWriteCloser
	// place is the port of a destination, by the last byte of its address; -1 for nobody.
	place [256]int
	held  []chan heldPacket // by direction
	done  chan struct{}
	tasks sync.WaitGroup

	// Forwarded and Dropped count packets.
	Forwarded, Dropped atomic.Int64
}

type heldPacket struct {
	due   time.Time
	bytes []byte
}

// NewSwitch begins to forward between ports, of which hosts[i] is the last byte of the
// address behind port i. Each read of a port is one packet, and so is each write.
func NewSwitch(rules *Rules, ports []io.ReadWriteCloser, hosts []byte) *Switch {
	s := &Switch{rules: rules, ports: ports, held: make([]chan heldPacket, len(ports)*len(ports)), done: make(chan struct{})}
	for i := range s.place {
		s.place[i] = -1
	}
	for i, h := range hosts {
		s.place[h] = i
	}
	for from := range ports {
		for to := range ports {
			if from == to {
				continue
			}
			ch := make(chan heldPacket, maxHeld)
			s.held[from*len(ports)+to] = ch
			s.tasks.Go(func() { s.release(to, ch) })
		}
		s.tasks.Go(func() { s.forward(from) })
	}
	return s
}

// Close ends the switch and its ports.
func (s *Switch) Close() {
	close(s.done)
	for _, p := range s.ports {
		p.Close()
	}
	s.tasks.Wait()
}

// forward takes what a port sends. Packets of a direction stay in order: while some are
// held, the next ones queue behind them.
func (s *Switch) forward(from int) {
	buf := make([]byte, maxPacket)
	last := make([]time.Time, len(s.ports))
	for {
		n, err := s.ports[from].Read(buf)
		if err != nil {
			return
		}
		to := s.destination(buf[:n])
		if to < 0 || to == from {
			continue
		}
		pass, delay := s.rules.packet(from, to)
		if !pass {
			s.Dropped.Add(1)
			continue
		}
		now := time.Now()
		due := now.Add(delay)
		if due.Before(last[to]) {
			due = last[to]
		}
		if !due.After(now) {
			s.write(to, buf[:n])
			continue
		}
		last[to] = due
		select {
		case s.held[from*len(s.ports)+to] <- heldPacket{due, append([]byte(nil), buf[:n]...)}:
		default:
			s.Dropped.Add(1)
		}
	}
}

// release writes packets that were held when they are due.
func (s *Switch) release(to int, held <-chan heldPacket) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.done:
			return
		case p := <-held:
			if wait := time.Until(p.due); wait > 0 {
				timer.Reset(wait)
				select {
				case <-s.done:
					return
				case <-timer.C:
				}
			}
			s.write(to, p.bytes)
		}
	}
}

func (s *Switch) write(to int, b []byte) {
	if _, err := s.ports[to].Write(b); err == nil {
		s.Forwarded.Add(1)
	}
}

// destination is the port of an IPv4 packet's destination, or -1.
func (s *Switch) destination(b []byte) int {
	if len(b) < 20 || b[0]>>4 != 4 {
		return -1
	}
	return s.place[b[19]]
}
