package links

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Relay stands in front of one listener of a node: everybody connects to it instead.
type Relay struct {
	rules *Rules
	node  int
	to    string
	who   func(accepted net.Conn) int
	ln    net.Listener
	done  chan struct{}
	tasks sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool

	// Held is how many bytes wait now, in all connections.
	Held atomic.Int64
}

// Pieces of a connection that are on their way, and how large one is.
const (
	maxPieces = 64
	pieceMax  = 64 << 10
)

// NewRelay listens on a port of the loopback interface and connects what comes there with to,
// an address of the node. who tells the place of a dialler.
func NewRelay(rules *Rules, node int, to string, who func(accepted net.Conn) int) (*Relay, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Relay{rules: rules, node: node, to: to, who: who, ln: ln, done: make(chan struct{}), conns: make(map[net.Conn]bool)}
	r.tasks.Go(r.accept)
	return r, nil
}

// Addr is where to connect to.
func (r *Relay) Addr() string { return r.ln.Addr().String() }

// Close ends the relay and every connection through it.
func (r *Relay) Close() {
	close(r.done)
	r.ln.Close()
	r.mu.Lock()
	for c := range r.conns {
		c.Close()
	}
	r.mu.Unlock()
	r.tasks.Wait()
}

// keep remembers a connection, to close it with the relay; false if that is closed.
func (r *Relay) keep(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.done:
		c.Close()
		return false
	default:
	}
	r.conns[c] = true
	return true
}

func (r *Relay) end(c net.Conn) {
	r.mu.Lock()
	delete(r.conns, c)
	r.mu.Unlock()
	c.Close()
}

func (r *Relay) accept() {
	for {
		c, err := r.ln.Accept()
		if err != nil {
			return
		}
		if r.keep(c) {
			r.tasks.Go(func() { r.serve(c) })
		}
	}
}

// serve carries one connection. It reaches the node when both directions are open, as the
// packets that begin a connection would have to.
func (r *Relay) serve(dialled net.Conn) {
	defer r.end(dialled)
	from := r.who(dialled)
	if !r.open(from, r.node) || !r.open(r.node, from) {
		return
	}
	c, err := net.Dial("tcp", r.to)
	if err != nil {
		_ = dialled.(*net.TCPConn).SetLinger(0) // a reset: the nearest to a refusal that is left
		return
	}
	if !r.keep(c) {
		return
	}
	defer r.end(c)
	var both sync.WaitGroup
	both.Go(func() { r.pump(dialled, c, from, r.node) })
	both.Go(func() { r.pump(c, dialled, r.node, from) })
	both.Wait()
}

// open waits until a direction is not cut; false if the relay ended.
func (r *Relay) open(from, to int) bool {
	for {
		rule, changed := r.rules.Get(from, to)
		if !rule.Cut {
			return true
		}
		select {
		case <-changed:
		case <-r.done:
			return false
		}
	}
}

type piece struct {
	bytes []byte
	due   time.Time
}

// pump carries one direction, in order; the end of one side reaches the other as its bytes
// do. What was read and may not pass waits, and then nothing more is read.
func (r *Relay) pump(src, dst net.Conn, from, to int) {
	pieces := make(chan piece, maxPieces)
	gone := make(chan struct{})
	go func() {
		defer close(pieces)
		for {
			b := make([]byte, pieceMax)
			n, err := src.Read(b)
			if n > 0 {
				rule, _ := r.rules.Get(from, to)
				r.Held.Add(int64(n))
				select {
				case pieces <- piece{b[:n], time.Now().Add(rule.Delay)}:
				case <-gone:
					r.Held.Add(int64(-n))
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	defer func() {
		close(gone)
		for p := range pieces {
			r.Held.Add(int64(-len(p.bytes)))
		}
	}()
	for p := range pieces {
		ok := r.wait(time.Until(p.due)) && r.open(from, to)
		r.Held.Add(int64(-len(p.bytes)))
		if !ok {
			return
		}
		if _, err := dst.Write(p.bytes); err != nil {
			src.Close()
			return
		}
	}
	// The end of a connection is a packet too.
	if !r.open(from, to) {
		return
	}
	_ = dst.(*net.TCPConn).CloseWrite() // it may have ended before
}

func (r *Relay) wait(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.done:
		return false
	}
}
