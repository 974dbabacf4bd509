package conn

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"seedlog/clock"
	"seedlog/clock/live"
	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/net"
	"seedlog/net/tcp"
	"seedlog/sim/sched"
	"seedlog/sim/simdisk"
	"seedlog/sim/simnet"
)

var calm = simnet.Calm()

func TestIdleConnectionIsClosed(t *testing.T) {
	onSim(t, 6, calm, func(e *env) { parkProduce(e); e.cfg.IdleMaxMs = 10_000 }, func(e *env, t *task.T) error {
		c, err := e.dial(t)
		if err != nil {
			return err
		}
		// Requests keep it open, and so does one that waits for its reply.
		for range 4 {
			if err := errors.Join(c.ask(t, 3, 1, nil), c.expect(t, c.corr, []byte("other"))); err != nil {
				return err
			}
			t.Sleep(t.Now().Add(8 * time.Second))
		}
		if err := c.ask(t, 0, 3, nil); err != nil {
			return err
		}
		t.Sleep(t.Now().Add(35 * time.Second))
		e.svc.take(0).SendBody([]byte("late"))
		if err := c.expect(t, c.corr, []byte("late")); err != nil {
			return err
		}
		began := t.Now()
		if err := c.gone(t); err != nil {
			return err
		}
		if d := t.Now().Sub(began); d < 9*time.Second || d > 21*time.Second {
			return fmt.Errorf("closed after %v", d)
		}
		ev, err := e.events.closed(t, 0)
		if err == nil && (ev.Reason != "idle" || ev.Bad) {
			err = fmt.Errorf("event %+v", ev)
		}
		return err
	})
}

func TestFramesThatTrickleInAreCutOff(t *testing.T) {
	for _, size := range []int{500, 1 << 20} {
		onSim(t, 3, calm, func(e *env) { e.cfg.IdleMaxMs, e.cfg.FrameGraceMs = 60_000, 5_000 }, func(e *env, t *task.T) error {
			c, err := e.dial(t)
			if err != nil {
				return err
			}
			began := t.Now()
			for _, b := range frameOf(0, 3, 1, nil, false, make([]byte, size)) {
				if c.write(t, []byte{b}) != nil {
					break
				}
				t.Sleep(t.Now().Add(time.Second))
			}
			ev, err := e.events.closed(t, 0)
			if err != nil {
				return err
			}
			if d := t.Now().Sub(began); d > 100*time.Second {
				return fmt.Errorf("trickled for %v", d)
			}
			if size > graceBytes && !strings.Contains(ev.Reason, "took too long") {
				return fmt.Errorf("event %+v", ev)
			}
			return nil
		})
	}
}

func TestClientThatNeverReadsIsClosedAndHoldsBoundedMemory(t *testing.T) {
	onSim(t, 4, calm, func(e *env) {
		e.cfg.IdleMaxMs = 10_000
		served := 0
		e.svc.serve = func(t *task.T, r *Request, reply *Reply) {
			if served++; served > 10 {
				e.t.Error("requests run although no reply is read")
			}
			reply.SendBody(make([]byte, 100_000))
		}
	}, func(e *env, t *task.T) error {
		c, err := e.dial(t)
		if err != nil {
			return err
		}
		for range 1000 {
			if c.ask(t, 0, 3, make([]byte, 1000)) != nil {
				break
			}
		}
		ev, err := e.events.closed(t, 0)
		if err == nil && !strings.Contains(ev.Reason, net.ErrTimeout.Error()) {
			err = fmt.Errorf("event %+v", ev)
		}
		return err
	})
}

func TestBudgetMakesFramesWaitTheirTurn(t *testing.T) {
	onSim(t, 6, calm, func(e *env) { parkProduce(e) }, func(e *env, t *task.T) error {
		e.budget.limit = 3 << 20
		var clients []*client
		for range 6 { // each frame takes 2 MiB
			c, err := e.dial(t)
			if err != nil {
				return err
			}
			clients = append(clients, c)
			w := t.Group().Sub("w")
			w.Go("w", func(t *task.T) {
				if err := c.ask(t, 0, 3, make([]byte, 3<<19)); err != nil {
					e.t.Error(err)
				}
			})
		}
		for done := range 6 {
			if err := e.svc.waitParked(t, 1); err != nil {
				return err
			}
			t.Sleep(t.Now().Add(time.Second))
			if n := e.svc.parked(); n != 1 {
				return fmt.Errorf("%d frames in memory after %d", n, done)
			}
			e.svc.take(0).SendBody([]byte("x"))
		}
		for _, c := range clients {
			if err := c.expect(t, 1, []byte("x")); err != nil {
				return err
			}
		}
		if used, waits := e.budget.Used(); used != 0 || waits == 0 {
			return fmt.Errorf("%d bytes used, %d waits", used, waits)
		}
		return nil
	})
}

func TestReleasedBodyGivesItsMemoryBack(t *testing.T) {
	onBoth(t, func(e *env) {
		e.svc.serve = func(t *task.T, r *Request, reply *Reply) {
			reply.ReleaseBody()
			if r.Body != nil {
				e.t.Error("body is still there")
			}
			e.svc.park(reply)
		}
	}, func(e *env, t *task.T) error {
		c, err := e.dial(t)
		if err != nil {
			return err
		}
		for i := range 3 {
			if err := c.ask(t, 0, 3, make([]byte, 100_000)); err != nil {
				return err
			}
			if err := e.svc.waitParked(t, i+1); err != nil {
				return err
			}
		}
		if used, _ := e.budget.Used(); used != 0 {
			return fmt.Errorf("%d bytes held by parked requests", used)
		}
		return nil
	})
}

// Who does not read an answer keeps others waiting for nothing: the frame that it answers is given
// back when the answer is there.
func TestAnAnswerThatIsNotReadHoldsNoFrame(t *testing.T) {
	onSim(t, 4, calm, func(e *env) {
		e.svc.serve = func(t *task.T, r *Request, reply *Reply) { reply.SendBody(make([]byte, 4<<20)) }
	}, func(e *env, t *task.T) error {
		e.budget.limit = 1 << 20
		deaf, err := e.dial(t)
		if err != nil {
			return err
		}
		if err := deaf.ask(t, 3, 1, make([]byte, 600_000)); err != nil {
			return err
		}
		t.Sleep(t.Now().Add(time.Second))
		if used, _ := e.budget.Used(); used != 0 {
			return fmt.Errorf("%d bytes held by an answer that nobody reads", used)
		}
		c, err := e.dial(t)
		if err != nil {
			return err
		}
		if err := c.ask(t, 3, 1, make([]byte, 600_000)); err != nil {
			return err
		}
		return c.expect(t, 1, make([]byte, 4<<20))
	})
}

func TestMaxConnections(t *testing.T) {
	var most task.Int64 // the live case runs on goroutines
	onBoth(t, func(e *env) {
		most.Store(2)
		e.cfg.MaxConnections = func() int { return int(most.Load()) }
	}, func(e *env, t *task.T) error {
		var cs []*client
		for range 3 {
			c, err := e.dial(t)
			if err != nil {
				return err
			}
			if err := c.ask(t, 3, 1, []byte("hello")); err != nil {
				return err
			}
			cs = append(cs, c)
		}
		if err := errors.Join(cs[0].expect(t, 1, []byte("hello")), cs[1].expect(t, 1, []byte("hello"))); err != nil {
			return err
		}
		if _, err := cs[2].nc.Read(t, make([]byte, 1), t.Now().Add(20*time.Millisecond)); !errors.Is(err, net.ErrTimeout) {
			return fmt.Errorf("third connection: %v", err)
		}
		cs[0].nc.Close()
		if err := cs[2].expect(t, 1, []byte("hello")); err != nil {
			return err
		}
		// The limit can be raised while the listener is full.
		c, err := e.dial(t)
		if err == nil {
			err = c.ask(t, 3, 1, []byte("hello"))
		}
		if err != nil {
			return err
		}
		if _, err := c.nc.Read(t, make([]byte, 1), t.Now().Add(20*time.Millisecond)); !errors.Is(err, net.ErrTimeout) {
			return fmt.Errorf("third connection: %v", err)
		}
		most.Store(3)
		return c.expect(t, 1, []byte("hello"))
	})
}

func TestMaxConnectionsPerIP(t *testing.T) {
	onSim(t, 2, calm, func(e *env) { e.cfg.MaxConnectionsPerIP = func() int { return 1 } }, func(e *env, t *task.T) error {
		a, err := e.dial(t)
		if err != nil {
			return err
		}
		b, err := e.dial(t)
		if err != nil {
			return err
		}
		return errors.Join(b.gone(t), a.ask(t, 3, 1, nil), a.expect(t, 1, nil))
	})
}

func TestStopEndsEverythingAndLateRangesAreReleased(t *testing.T) {
	var f disk.File
	onSim(t, 8, calm, parkProduce, func(e *env, t *task.T) error {
		d := simdisk.New(simdisk.Config{Rand: func(name string) *rand.Rand { return sched.Stream(1, name) }})
		var err error
		if f, err = d.Mount(t.Runtime()).Open(t, "/f", disk.Create); err != nil {
			return err
		}
		for range 5 {
			c, err := e.dial(t)
			if err != nil {
				return err
			}
			for range 3 {
				if err := c.ask(t, 0, 3, make([]byte, 20_000)); err != nil {
					return err
				}
			}
		}
		if err := e.svc.waitParked(t, 15); err != nil {
			return err
		}
		e.group.Stop()
		e.group.Wait(t)
		for e.svc.parked() > 0 {
			r := f.Range(0, 10)
			e.svc.take(0).Send([]net.Part{{Bytes: []byte("head")}, {File: r}})
			if r.Begin() {
				return errors.New("range of a reply to a dead connection is still pinned")
			}
		}
		return nil
	})
}

func TestRangesOfRepliesAreSentAndReleased(t *testing.T) {
	onSim(t, 4, calm, func(e *env) {
		e.svc.serve = func(t *task.T, r *Request, reply *Reply) { e.svc.park(reply) }
	}, func(e *env, t *task.T) error {
		d := simdisk.New(simdisk.Config{Rand: func(name string) *rand.Rand { return sched.Stream(1, name) }})
		f, err := d.Mount(t.Runtime()).Open(t, "/f", disk.Create)
		if err != nil {
			return err
		}
		if _, err := f.WriteAt(t, []byte("0123456789"), 0); err != nil {
			return err
		}
		c, err := e.dial(t)
		if err != nil {
			return err
		}
		if err := c.ask(t, 3, 9, nil); err != nil {
			return err
		}
		if err := e.svc.waitParked(t, 1); err != nil {
			return err
		}
		r := f.Range(2, 5)
		reply := e.svc.take(0)
		b := append(reply.Buffer(), "<>"...)
		reply.SendParts(b, append(reply.Parts(), net.Part{Bytes: b[:1]}, net.Part{File: r}, net.Part{Bytes: b[1:]}))
		if err := c.expect(t, 1, []byte("\x00<23456>")); err != nil {
			return err
		}
		if r.Begin() {
			return errors.New("range is still pinned after the reply")
		}
		return nil
	})
}

// TestSteadyStateAllocatesNothing measures a whole exchange over TCP, both sides.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	for _, size := range []int{10, 20_000} {
		rt := live.New(live.Options{})
		n := tcp.New(tcp.Config{})
		live.Main(rt, func(tk *task.T) {
			ln, err := n.Listen(tk, "127.0.0.1:0")
			if err != nil {
				t.Error(err)
				return
			}
			svc := &fakeService{serve: func(t *task.T, r *Request, reply *Reply) {
				reply.SendBody(append(reply.Buffer(), "fine"...))
			}}
			g := tk.Group().Sub("server")
			g.Go("serve", func(t *task.T) {
				Serve(t, Config{Budget: NewBudget(rt, 1<<20)}, ln, svc)
			})
			c, err := n.Dial(tk, ln.Addr(), clock.Never)
			if err != nil {
				t.Error(err)
				return
			}
			id := "client"
			parts := []net.Part{{Bytes: frameOf(0, 9, 1, &id, true, make([]byte, size))}}
			buf := make([]byte, 4+4+1+4)
			exchange := func() {
				if err := c.Write(tk, parts, clock.Never); err != nil {
					t.Error(err)
				}
				for at := 0; at < len(buf); {
					m, err := c.Read(tk, buf[at:], clock.Never)
					if err != nil {
						t.Error(err)
						return
					}
					at += m
				}
			}
			for range 50 {
				exchange()
			}
			if a := testing.AllocsPerRun(500, exchange); a > 0 {
				t.Errorf("%v allocations per request of %d bytes", a, size)
			}
			if !bytes.HasSuffix(buf, []byte("fine")) {
				t.Errorf("reply %q", buf)
			}
			g.Stop()
			g.Wait(tk)
		})
	}
}

// TestIdleConnectionsAreCheap opens many and looks at the heap and the stacks.
func TestIdleConnectionsAreCheap(t *testing.T) {
	const conns = 400
	rt := live.New(live.Options{})
	n := tcp.New(tcp.Config{})
	live.Main(rt, func(tk *task.T) {
		ln, err := n.Listen(tk, "127.0.0.1:0")
		if err != nil {
			t.Error(err)
			return
		}
		g := tk.Group().Sub("server")
		g.Go("serve", func(t *task.T) {
			Serve(t, Config{Budget: NewBudget(rt, 1<<20)}, ln, &fakeService{})
		})
		before := memory()
		frame := frameOf(3, 1, 1, nil, false, nil)
		for range conns {
			c, err := n.Dial(tk, ln.Addr(), clock.Never)
			if err != nil {
				t.Error(err)
				return
			}
			cl := &client{nc: c}
			if err := errors.Join(cl.write(tk, frame), cl.expect(tk, 1, nil)); err != nil {
				t.Error(err)
				return
			}
		}
		// Both sides of each connection are in this process.
		if each := (memory() - before) / conns; each > 24<<10 {
			t.Errorf("%d bytes for each idle connection", each)
		} else {
			t.Logf("%d bytes for each idle connection", each)
		}
		g.Stop()
		g.Wait(tk)
	})
}

func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// timedOutConn is a connection whose reads end at once, as after a TLS handshake that
// timed out.
type timedOutConn struct{ net.Conn }

func (timedOutConn) Read(*task.T, []byte, clock.Instant) (int, error) { return 0, net.ErrTimeout }

func TestReadThatTimesOutBeforeItsDeadlineIsFinal(t *testing.T) {
	live.Main(live.New(live.Options{}), func(tk *task.T) {
		c := &Conn{nc: timedOutConn{}, idle: time.Hour, active: tk.Now()}
		c.mu.Init(tk.Runtime(), "conn.Conn")
		c.in.until = tk.Now().Add(time.Hour)
		if _, err := c.read(tk, make([]byte, 1)); !errors.Is(err, net.ErrTimeout) {
			t.Errorf("read: %v", err)
		}
	})
}
