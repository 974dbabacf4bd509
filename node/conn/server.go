package conn

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/net"
	"seedlog/node/event"
)

// acceptRetry is how long accepting pauses after an error (out of descriptors, mostly).
const acceptRetry = 100 * time.Millisecond

var errPerIP = errors.New("too many connections from this address")

// server is one listener's connections.
type server struct {
	cfg   Config
	ln    net.Listener
	svc   Service
	group *task.Group

	mu       task.Mutex
	conns    []*Conn
	perIP    map[string]int
	accepted int64
	stopping bool
	acceptor *task.T // if it waits for room
	main     *task.T
	over     bool // accepting has ended
}

// Serve accepts connections and serves them until t's group stops or ln is closed. Then it
// closes ln and all connections, and returns when all their tasks have ended.
func Serve(t *task.T, cfg Config, ln net.Listener, svc Service) {
	s := &server{
		cfg: cfg.withDefaults(), ln: ln, svc: svc, main: t,
		group: t.Group().Sub("conns-" + cfg.Name), perIP: map[string]int{},
	}
	s.mu.Init(t.Runtime(), "conn.server")
	s.group.Go("accept-"+cfg.Name, s.accept)
	for s.accepting() && t.Park(clock.Never) != task.Stopping {
	}
	s.stop()
	s.group.Wait(t)
}

func (s *server) accepting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.over
}

func (s *server) stop() {
	s.ln.Close()
	s.mu.Lock()
	s.stopping = true
	conns := append([]*Conn(nil), s.conns...)
	acceptor := s.acceptor
	s.mu.Unlock()
	for _, c := range conns {
		c.shut(errStopped)
	}
	if acceptor != nil {
		acceptor.Wake()
	}
	s.group.Stop()
}

// accept is the accepting task.
func (s *server) accept(t *task.T) {
	for s.room(t) {
		nc, err := s.ln.Accept(t)
		if err == nil {
			s.open(t, nc)
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			break
		}
		s.emit(event.AcceptFailed{Listener: s.cfg.Name, Err: err})
		if !t.Sleep(t.Now().Add(acceptRetry)) {
			break
		}
	}
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.main.Wake()
}

// fullLook is how often a full listener asks whether its limit was raised.
const fullLook = time.Second

// room waits until another connection is allowed; false if it never will be.
func (s *server) room(t *task.T) bool {
	for {
		s.mu.Lock()
		s.acceptor = nil
		if s.stopping {
			s.mu.Unlock()
			return false
		}
		if most := s.cfg.MaxConnections(); most <= 0 || len(s.conns) < most {
			s.mu.Unlock()
			return true
		}
		s.acceptor = t
		s.mu.Unlock()
		if t.Park(t.Now().Add(fullLook)) == task.Stopping {
			return false
		}
	}
}

// open starts a connection's reading task.
func (s *server) open(t *task.T, nc net.Conn) {
	c := &Conn{s: s, nc: nc, idle: time.Duration(s.cfg.IdleMaxMs) * time.Millisecond}
	c.mu.Init(t.Runtime(), "conn.Conn")
	c.active = t.Now()
	c.in = input{small: make([]byte, smallMin), gen: 1, until: c.active.Add(c.idle)}
	ip := addrIP(nc.RemoteAddr())
	s.mu.Lock()
	refused := s.stopping
	var err error
	if most := s.cfg.MaxConnectionsPerIP(); most > 0 && s.perIP[ip] >= most {
		refused, err = true, fmt.Errorf("%w: %d", errPerIP, s.perIP[ip])
	}
	if !refused {
		s.accepted++
		c.id, c.place = s.accepted, len(s.conns)
		s.conns = append(s.conns, c)
		s.perIP[ip]++
	}
	s.mu.Unlock()
	if refused {
		nc.Close()
		if err != nil {
			s.emit(event.AcceptFailed{Listener: s.cfg.Name, Remote: nc.RemoteAddr(), Err: err})
		}
		return
	}
	s.group.Go(s.taskName("conn", c.id), c.run)
}

// closed takes a connection off the list.
func (s *server) closed(c *Conn) {
	ip := addrIP(c.nc.RemoteAddr())
	s.mu.Lock()
	last := len(s.conns) - 1
	s.conns[c.place] = s.conns[last]
	s.conns[c.place].place = c.place
	s.conns[last] = nil
	s.conns = s.conns[:last]
	if s.perIP[ip]--; s.perIP[ip] == 0 {
		delete(s.perIP, ip)
	}
	acceptor := s.acceptor
	s.mu.Unlock()
	if acceptor != nil {
		acceptor.Wake()
	}
}

func (s *server) emit(e event.Event) {
	if s.cfg.Events != nil {
		s.cfg.Events.Emit(e)
	}
}

func (s *server) taskName(kind string, id int64) string {
	return kind + "-" + s.cfg.Name + "-" + strconv.FormatInt(id, 10)
}

func addrIP(addr string) string {
	if i := strings.LastIndexByte(addr, ':'); i >= 0 {
		return addr[:i]
	}
	return addr
}
