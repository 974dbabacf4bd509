package conn

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"seedlog/clock"
	"seedlog/clock/live"
	"seedlog/clock/task"
	"seedlog/net"
	"seedlog/net/tcp"
	"seedlog/node/event"
	"seedlog/sim/sched"
	"seedlog/sim/simnet"
)

// env is a world with a server side and a client side.
type env struct {
	t              *testing.T
	live           bool
	run            func(fn func(t *task.T) error)
	server, client net.Network
	listen         string
	cfg            Config
	svc            *fakeService
	events         *recorder

	addr   string
	budget *Budget
	group  *task.Group
}

// onBoth runs a case on goroutines with TCP, and in the simulator under several seeds.
func onBoth(t *testing.T, set func(e *env), fn func(e *env, t *task.T) error) {
	t.Run("tcp", func(t *testing.T) {
		rt := live.New(live.Options{Chaos: 1})
		n := tcp.New(tcp.Config{})
		e := &env{t: t, live: true, server: n, client: n, listen: "127.0.0.1:0"}
		e.run = func(fn func(t *task.T) error) {
			live.Main(rt, func(tk *task.T) {
				if err := fn(tk); err != nil {
					t.Error(err)
				}
			})
		}
		e.begin(set, fn)
	})
	onSim(t, 8, simnet.Calm(), set, fn)
}

func onSim(t *testing.T, seeds uint64, net simnet.Config, set func(e *env), fn func(e *env, t *task.T) error) {
	for seed := range seeds {
		t.Run(fmt.Sprint("sim", seed), func(t *testing.T) {
			cfg := sched.DrawConfig(sched.Stream(seed, "config"))
			cfg.HoldMaxNs = min(cfg.HoldMaxNs, int64(20*time.Millisecond))
			s := sched.New(seed, cfg, nil)
			defer s.Close()
			n := simnet.New(s, net)
			e := &env{t: t, listen: ":9092",
				server: n.Attach(s.NewRuntime("m1", sched.ClockParams{})),
				client: n.Attach(s.NewRuntime("c1", sched.ClockParams{}))}
			e.run = func(fn func(t *task.T) error) {
				g := task.NewGroup(s.World(), "case")
				g.Go("case", func(tk *task.T) {
					if err := fn(tk); err != nil {
						t.Error(err)
					}
				})
				s.Run(func() bool { return g.Len() == 0 }, clock.Never)
				if f := s.Failure(); f != nil {
					t.Error(f)
				}
			}
			e.begin(set, fn)
		})
	}
}

func (e *env) begin(set func(e *env), fn func(e *env, t *task.T) error) {
	e.events = &recorder{}
	e.svc = &fakeService{}
	e.cfg = Config{Name: "TEST", IdleMaxMs: 60_000}
	if set != nil {
		set(e)
	}
	e.run(func(t *task.T) error {
		ln, err := e.server.Listen(t, e.listen)
		if err != nil {
			return err
		}
		e.addr = ln.Addr()
		if e.cfg.Budget == nil {
			e.cfg.Budget = NewBudget(t.Runtime(), 64<<20)
		}
		e.budget = e.cfg.Budget
		e.cfg.Events = e.events
		e.group = t.Group().Sub("server")
		e.group.Go("serve", func(t *task.T) { Serve(t, e.cfg, ln, e.svc) })
		e.svc.group = t.Group().Sub("service")
		err = fn(e, t)
		e.group.Stop()
		e.group.Wait(t)
		e.svc.finish()
		e.svc.group.Wait(t)
		if used, _ := e.budget.Used(); used != 0 {
			err = errors.Join(err, fmt.Errorf("%d bytes of the budget were not given back", used))
		}
		return err
	})
}

// fakeService serves Produce 0-12, Metadata 0-13, ApiVersions 0-4 and ControlledShutdown 0.
type fakeService struct {
	max   int32
	serve func(t *task.T, r *Request, reply *Reply)
	group *task.Group

	mu   sync.Mutex
	late []*Reply // not yet given
}

func (s *fakeService) Supports(key, version int16) (ok, flexible bool) {
	switch key {
	case 0:
		return version >= 0 && version <= 12, version >= 9
	case 3:
		return version >= 0 && version <= 13, version >= 9
	case 18:
		return version >= 0 && version <= 4, version >= 3
	case 7:
		return version == 0, false
	}
	return false, false
}

func (s *fakeService) MaxFrame(key, version int16) int32 {
	if key == 0 {
		return 10 << 20
	}
	if s.max > 0 {
		return s.max
	}
	return 1 << 20
}

func (s *fakeService) Serve(t *task.T, r *Request, reply *Reply) {
	if s.serve != nil {
		s.serve(t, r, reply)
		return
	}
	reply.SendBody(append(reply.Buffer(), r.Body...))
}

func (s *fakeService) park(r *Reply) {
	s.mu.Lock()
	s.late = append(s.late, r)
	s.mu.Unlock()
}

// parked is the number of requests that wait; take takes the i-th.
func (s *fakeService) parked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.late)
}

func (s *fakeService) take(i int) *Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.late[i]
	s.late = append(s.late[:i], s.late[i+1:]...)
	return r
}

// finish answers what is left, as a purgatory does when it is too late.
func (s *fakeService) finish() {
	for s.parked() > 0 {
		s.take(0).SendBody([]byte("too late"))
	}
}

// waitParked waits until n requests are parked.
func (s *fakeService) waitParked(t *task.T, n int) error {
	for range 20_000 {
		if s.parked() >= n {
			return nil
		}
		t.Sleep(t.Now().Add(500 * time.Microsecond))
	}
	return fmt.Errorf("%d requests are parked, want %d", s.parked(), n)
}

type recorder struct {
	mu   sync.Mutex
	list []event.Event
}

func (r *recorder) Emit(e event.Event) {
	r.mu.Lock()
	r.list = append(r.list, e)
	r.mu.Unlock()
}

// closed waits for the n-th closed connection.
func (r *recorder) closed(t *task.T, n int) (event.ConnectionClosed, error) {
	for range 20_000 {
		r.mu.Lock()
		var found []event.ConnectionClosed
		for _, e := range r.list {
			if c, ok := e.(event.ConnectionClosed); ok {
				found = append(found, c)
			}
		}
		r.mu.Unlock()
		if len(found) > n {
			return found[n], nil
		}
		t.Sleep(t.Now().Add(500 * time.Microsecond))
	}
	return event.ConnectionClosed{}, fmt.Errorf("connection %d was not closed", n)
}

// client is a raw client.
type client struct {
	nc   net.Conn
	corr int32
}

func (e *env) dial(t *task.T) (*client, error) {
	nc, err := e.client.Dial(t, e.addr, t.Now().Add(time.Minute))
	return &client{nc: nc}, err
}

func (c *client) write(t *task.T, b []byte) error {
	return c.nc.Write(t, []net.Part{{Bytes: b}}, t.Now().Add(time.Minute))
}

// frameOf encodes a request.
func frameOf(key, version int16, corr int32, id *string, flexible bool, body []byte) []byte {
	b := make([]byte, 4, 64+len(body))
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(corr))
	if key != 7 {
		if id == nil {
			b = append(b, 0xff, 0xff)
		} else {
			b = binary.BigEndian.AppendUint16(b, uint16(len(*id)))
			b = append(b, *id...)
		}
	}
	if flexible {
		b = append(b, 1, 5, 3, 'x', 'y', 'z') // one unknown tag
	}
	b = append(b, body...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// ask writes a request with the next correlation id.
func (c *client) ask(t *task.T, key, version int16, body []byte) error {
	c.corr++
	_, flexible := (*fakeService)(nil).Supports(key, version)
	id := "tester"
	return c.write(t, frameOf(key, version, c.corr, &id, flexible, body))
}

func (c *client) readN(t *task.T, n int) ([]byte, error) {
	b := make([]byte, n)
	for at := 0; at < n; {
		m, err := c.nc.Read(t, b[at:], t.Now().Add(10*time.Minute))
		if err != nil {
			return nil, err
		}
		at += m
	}
	return b, nil
}

// answer reads a reply and returns its correlation id and what follows.
func (c *client) answer(t *task.T) (int32, []byte, error) {
	head, err := c.readN(t, 4)
	if err != nil {
		return 0, nil, err
	}
	b, err := c.readN(t, int(binary.BigEndian.Uint32(head)))
	if err != nil {
		return 0, nil, err
	}
	return int32(binary.BigEndian.Uint32(b)), b[4:], nil
}

// expect reads a reply and compares it.
func (c *client) expect(t *task.T, corr int32, want []byte) error {
	got, body, err := c.answer(t)
	if err != nil {
		return fmt.Errorf("reply %d: %w", corr, err)
	}
	if got != corr || !bytes.Equal(body, want) {
		return fmt.Errorf("reply %d with %d bytes %.40q, want %d with %d bytes %.40q", got, len(body), body, corr, len(want), want)
	}
	return nil
}

// gone reads until the connection ends.
func (c *client) gone(t *task.T) error {
	b := make([]byte, 100)
	n, err := c.nc.Read(t, b, t.Now().Add(10*time.Minute))
	if n > 0 {
		return fmt.Errorf("%d bytes instead of the end: %q", n, b[:n])
	}
	if err != io.EOF && !errors.Is(err, net.ErrReset) {
		return fmt.Errorf("end of the connection: %v", err)
	}
	return nil
}
