package simnet_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/net"
	"seedlog/net/nettest"
	"seedlog/sim/sched"
	"seedlog/sim/simdisk"
	"seedlog/sim/simnet"
	"seedlog/sim/trace"
)

func TestConformance(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			nettest.Run(t, func(t *testing.T) *nettest.World {
				r := sched.Stream(seed, "test")
				s := sched.New(seed, sched.DrawConfig(r), nil)
				cfg := simnet.DrawConfig(r)
				cfg.Window = max(cfg.Window, 16<<10)
				cfg.TailMaxNs = min(cfg.TailMaxNs, int64(20*time.Millisecond))
				cfg.LossEvery, cfg.ResetEvery = 0, 0
				n := simnet.New(s, cfg)
				d := simdisk.New(simdisk.Config{Rand: s.Stream, Trace: s.Log()})
				d.MakeDir("/data")
				return &nettest.World{
					Run: func(fn func(t *task.T)) {
						g := task.NewGroup(s.World(), "case")
						g.Go("case", fn)
						s.Run(func() bool { return g.Len() == 0 }, clock.Never)
						if f := s.Failure(); f != nil {
							t.Errorf("%v\n%s", f, cfg)
						}
						s.Close()
					},
					Server: n.Attach(s.NewRuntime("m1", sched.ClockParams{})),
					Client: n.Attach(s.NewRuntime("c1", sched.ClockParams{DriftPPM: 50})),
					Addr:   "m1:0", Disk: d.Mount(s.World()), Dir: "/data", Window: cfg.Window + 1,
				}
			})
		})
	}
}

// world is two machines, m1 that listens and c1 that dials.
type world struct {
	*testing.T
	s              *sched.Scheduler
	n              *simnet.Net
	serverRT       *sched.Runtime
	server, client *simnet.Iface
	g              *task.Group
}

func newWorld(t *testing.T, cfg simnet.Config) *world {
	s := sched.New(1, sched.Calm(), nil)
	t.Cleanup(s.Close)
	w := &world{T: t, s: s, n: simnet.New(s, cfg), serverRT: s.NewRuntime("m1", sched.ClockParams{})}
	w.server = w.n.Attach(w.serverRT)
	w.client = w.n.Attach(s.NewRuntime("c1", sched.ClockParams{}))
	w.g = task.NewGroup(s.World(), "case")
	return w
}

// run runs fn as a task to its end.
func (w *world) run(fn func(t *task.T) error) {
	w.Helper()
	var err error
	w.g.Go("case", func(t *task.T) { err = fn(t) })
	w.s.Run(func() bool { return w.g.Len() == 0 }, clock.Never)
	if f := w.s.Failure(); f != nil {
		w.Fatal(f)
	}
	if err != nil {
		w.Fatal(err)
	}
}

// connect returns both ends of a connection to m1:9092.
func (w *world) connect(t *task.T) (server, client net.Conn, err error) {
	ln, err := w.server.Listen(t, "m1:9092")
	if err != nil {
		return nil, nil, err
	}
	defer ln.Close()
	if client, err = w.client.Dial(t, "m1:9092", clock.Never); err != nil {
		return nil, nil, err
	}
	server, err = ln.Accept(t)
	return server, client, err
}

func send(t *task.T, c net.Conn, text string) error {
	return c.Write(t, []net.Part{{Bytes: []byte(text)}}, t.Now().Add(time.Minute))
}

// expect reads n bytes within d.
func expect(t *task.T, c net.Conn, n int, d time.Duration) (string, error) {
	buf := make([]byte, n)
	until := t.Now().Add(d)
	for at := 0; at < n; {
		m, err := c.Read(t, buf[at:], until)
		if err != nil {
			return string(buf[:at]), err
		}
		at += m
	}
	return string(buf), nil
}

func (w *world) effective(f simnet.Fault) {
	w.Helper()
	if c := w.n.Count(f); c.Fired == 0 || c.Effective == 0 {
		w.Errorf("%s: %+v, want it to have fired with effect", f, c)
	}
}

func TestPartitionHoldsOneWayUntilHealed(t *testing.T) {
	for _, clog := range []bool{false, true} {
		w := newWorld(t, simnet.Calm())
		w.run(func(t *task.T) error {
			server, client, err := w.connect(t)
			if err != nil {
				return err
			}
			kind := simnet.Partition
			if clog {
				kind = simnet.Clog
				w.n.Clog("c1", "m1")
			} else {
				w.n.Partition("c1", "m1")
			}
			if err := errors.Join(send(t, client, "to"), send(t, server, "fro")); err != nil {
				return err
			}
			if got, err := expect(t, client, 3, time.Second); got != "fro" {
				return fmt.Errorf("against the partition: %q, %v", got, err)
			}
			if got, err := expect(t, server, 2, time.Second); !errors.Is(err, net.ErrTimeout) {
				return fmt.Errorf("through the partition: %q, %v", got, err)
			}
			w.n.Heal("c1", "m1")
			if got, err := expect(t, server, 2, time.Minute); got != "to" {
				return fmt.Errorf("after healing: %q, %v", got, err)
			}
			w.effective(kind)
			return nil
		})
	}
}

func TestDialThroughPartitionTimesOut(t *testing.T) {
	w := newWorld(t, simnet.Calm())
	w.n.Partition("m1", "c1") // the answers are lost
	w.run(func(t *task.T) error {
		if _, err := w.server.Listen(t, ":9092"); err != nil {
			return err
		}
		_, err := w.client.Dial(t, "m1:9092", t.Now().Add(5*time.Second))
		if !errors.Is(err, net.ErrTimeout) {
			return fmt.Errorf("dial: %v", err)
		}
		w.n.HealAll()
		_, err = w.client.Dial(t, "m1:9092", t.Now().Add(5*time.Second))
		return err
	})
	w.effective(simnet.Partition)
}

func TestKilledProcessDeliversWhatItWroteThenEnds(t *testing.T) {
	w := newWorld(t, simnet.Calm())
	w.run(func(t *task.T) error {
		server, client, err := w.connect(t)
		if err != nil {
			return err
		}
		if err := send(t, server, "last words"); err != nil {
			return err
		}
		w.serverRT.Kill()
		w.server.Kill(false)
		if err := send(t, server, "x"); !errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("write through a dead handle: %v", err)
		}
		if got, err := expect(t, client, 10, time.Second); got != "last words" {
			return fmt.Errorf("got %q, %v", got, err)
		}
		if _, err := expect(t, client, 1, time.Second); err != io.EOF {
			return fmt.Errorf("end: %v", err)
		}
		if _, err := w.client.Dial(t, "m1:9092", clock.Never); !errors.Is(err, net.ErrRefused) {
			return fmt.Errorf("dial to a dead process: %v", err)
		}
		return nil
	})
}

func TestPowerLossLeavesHalfOpenUntilTheMachineIsUp(t *testing.T) {
	w := newWorld(t, simnet.Calm())
	w.run(func(t *task.T) error {
		_, client, err := w.connect(t)
		if err != nil {
			return err
		}
		w.serverRT.Kill()
		w.server.Kill(true)
		if err := send(t, client, "anybody?"); err != nil {
			return fmt.Errorf("write to a machine without power: %w", err)
		}
		if _, err := expect(t, client, 1, 10*time.Second); !errors.Is(err, net.ErrTimeout) {
			return fmt.Errorf("read from a machine without power: %v", err)
		}
		if _, err := w.client.Dial(t, "m1:9092", t.Now().Add(3*time.Second)); !errors.Is(err, net.ErrTimeout) {
			return fmt.Errorf("dial to a machine without power: %v", err)
		}
		w.n.Attach(w.s.NewRuntime("m1", sched.ClockParams{}))
		if err := send(t, client, "now?"); err != nil {
			return err
		}
		if _, err := expect(t, client, 1, time.Second); !errors.Is(err, net.ErrReset) {
			return fmt.Errorf("after the reboot: %v", err)
		}
		return nil
	})
}

func TestKeepAliveEndsAConnectionToNobody(t *testing.T) {
	w := newWorld(t, simnet.Calm())
	w.run(func(t *task.T) error {
		_, client, err := w.connect(t)
		if err != nil {
			return err
		}
		w.server.Kill(true)
		if _, err := expect(t, client, 1, 5*time.Minute); !errors.Is(err, net.ErrReset) {
			return fmt.Errorf("read: %v", err)
		}
		return nil
	})
}

// The answer to who writes to a closed connection may be lost in a partition, with the window
// full: it comes again after the healing, for a sender repeats what is not acknowledged.
func TestALostResetIsSentAgain(t *testing.T) {
	cfg := simnet.Calm()
	cfg.Window = 100
	w := newWorld(t, cfg)
	w.run(func(t *task.T) error {
		server, client, err := w.connect(t)
		if err != nil {
			return err
		}
		client.Close()
		if _, err := server.Read(t, make([]byte, 1), t.Now().Add(time.Minute)); err != io.EOF {
			return fmt.Errorf("reading from a closed connection: %v", err)
		}
		w.n.Partition("c1", "m1")
		w.s.At(w.s.Now().Add(3*time.Second), func() { w.n.Heal("c1", "m1") })
		err = server.Write(t, []net.Part{{Bytes: make([]byte, 300)}}, t.Now().Add(time.Minute))
		if !errors.Is(err, net.ErrReset) {
			return fmt.Errorf("writing to a closed connection: %v", err)
		}
		return nil
	})
}

func TestStallAndHalfOpenAndReset(t *testing.T) {
	w := newWorld(t, simnet.Calm())
	w.run(func(t *task.T) error {
		server, client, err := w.connect(t)
		if err != nil {
			return err
		}
		w.n.StallOne(3 * time.Second)
		if err := errors.Join(send(t, server, "a"), send(t, client, "b")); err != nil {
			return err
		}
		t.Sleep(t.Now().Add(time.Second))
		w.effective(simnet.Stall)
		for _, c := range []net.Conn{server, client} {
			if _, err := expect(t, c, 1, 5*time.Second); err != nil {
				return fmt.Errorf("after the stall: %w", err)
			}
		}
		w.n.HalfOpenOne()
		w.effective(simnet.HalfOpen)
		// One side learns at once, the other when it writes.
		a, b := send(t, server, "c"), send(t, client, "d")
		if (a == nil) == (b == nil) {
			return fmt.Errorf("half-open: %v and %v", a, b)
		}
		other := server
		if a != nil {
			other = client
		}
		if _, err := expect(t, other, 1, time.Second); !errors.Is(err, net.ErrReset) {
			return fmt.Errorf("the other side: %v", err)
		}
		server, client, err = w.connect(t)
		if err != nil {
			return err
		}
		w.n.ResetOne()
		w.effective(simnet.Reset)
		_, a = expect(t, server, 1, time.Second)
		_, b = expect(t, client, 1, time.Second)
		if !errors.Is(a, net.ErrReset) || !errors.Is(b, net.ErrReset) {
			return fmt.Errorf("after a reset: %v and %v", a, b)
		}
		return nil
	})
}

func TestDrawnFaultsHaveEffects(t *testing.T) {
	cfg := simnet.Calm()
	cfg.TailEvery, cfg.TailMaxNs = 10, int64(90*time.Second)
	cfg.LossEvery, cfg.ResetEvery, cfg.SplitEvery = 10, 60, 3
	cfg.Window, cfg.BytesPerSec = 1000, 100_000
	w := newWorld(t, cfg)
	w.run(func(t *task.T) error {
		for range 40 {
			server, client, err := w.connect(t)
			if err != nil {
				return err
			}
			got := 0
			for i := range 20 {
				if send(t, client, fmt.Sprintf("message %d", i)) != nil {
					break
				}
			}
			client.Close()
			for buf := make([]byte, 100); ; got++ {
				if _, err := server.Read(t, buf, clock.Never); err != nil {
					break
				}
			}
			server.Close()
		}
		return nil
	})
	for _, f := range []simnet.Fault{simnet.Tail, simnet.Loss, simnet.Split, simnet.Reset, simnet.Stale} {
		w.effective(f)
	}
}

func TestRangeBytesAreBoundAgainAtDelivery(t *testing.T) {
	cfg := simnet.Calm()
	cfg.RebindEvery = 1
	w := newWorld(t, cfg)
	d := simdisk.New(simdisk.Config{Rand: w.s.Stream})
	mount := d.Mount(w.s.World())
	w.run(func(t *task.T) error {
		server, client, err := w.connect(t)
		if err != nil {
			return err
		}
		f, err := mount.Open(t, "/f", disk.Create)
		if err != nil {
			return err
		}
		if _, err := f.WriteAt(t, []byte("old bytes"), 0); err != nil {
			return err
		}
		w.n.Clog("m1", "c1")
		if err := server.Write(t, []net.Part{{File: f.Range(0, 9)}}, clock.Never); err != nil {
			return err
		}
		if _, err := f.WriteAt(t, []byte("new"), 0); err != nil {
			return err
		}
		w.n.HealAll()
		if got, err := expect(t, client, 9, time.Second); got != "new bytes" {
			return fmt.Errorf("got %q, %v", got, err)
		}
		w.effective(simnet.Rebind)
		return nil
	})
}

// A page that the cache drops after a failed sync stays with the socket that refers to it.
func TestDroppedPagesStayInTheSocket(t *testing.T) {
	cfg := simnet.Calm()
	cfg.RebindEvery = 1
	w := newWorld(t, cfg)
	d := simdisk.New(simdisk.Config{Rand: w.s.Stream})
	mount := d.Mount(w.s.World())
	evicted := 0
	once := func(t *task.T, server, client net.Conn, name string) error {
		f, err := mount.Open(t, name, disk.Create)
		if err != nil {
			return err
		}
		page := bytes.Repeat([]byte("page"), 1024)
		if _, err := f.WriteAt(t, page, 0); err != nil {
			return err
		}
		w.n.Clog("m1", "c1")
		if err := server.Write(t, []net.Part{{File: f.Range(0, 4096)}}, clock.Never); err != nil {
			return err
		}
		d.Arm(&simdisk.Injection{Fault: simdisk.SyncForgets})
		if err := f.Sync(t); err == nil {
			return errors.New("the sync did not fail")
		}
		now := make([]byte, 4096)
		if _, err := f.ReadAt(t, now, 0); err != nil {
			return err
		}
		if !bytes.Equal(now, page) {
			evicted++
		}
		w.n.HealAll()
		if got, err := expect(t, client, 4096, time.Second); got != string(page) {
			return fmt.Errorf("%d other bytes came, %v", len(got), err)
		}
		return nil
	}
	w.run(func(t *task.T) error {
		server, client, err := w.connect(t)
		for i := 0; err == nil && i < 20; i++ {
			err = once(t, server, client, fmt.Sprintf("/f%d", i))
		}
		return err
	})
	if evicted == 0 {
		t.Error("no page was dropped: nothing was tried")
	}
}

// TestSameSeedSameTrace runs a busy network twice.
func TestSameSeedSameTrace(t *testing.T) {
	run := func(seed uint64) uint64 {
		r := sched.Stream(seed, "test")
		log := new(trace.Log)
		s := sched.New(seed, sched.DrawConfig(r), log)
		defer s.Close()
		n := simnet.New(s, simnet.DrawConfig(r))
		server := n.Attach(s.NewRuntime("m1", sched.ClockParams{}))
		g := task.NewGroup(s.World(), "all")
		g.Go("server", func(t *task.T) {
			ln, err := server.Listen(t, ":9092")
			if err != nil {
				panic(err)
			}
			for i := range 8 {
				client := n.Attach(s.NewRuntime(fmt.Sprint("c", i), sched.ClockParams{}))
				g.Go("client", func(t *task.T) {
					c, err := client.Dial(t, ln.Addr(), t.Now().Add(time.Minute))
					if err != nil {
						return
					}
					for range 50 {
						if send(t, c, "some message") != nil {
							break
						}
					}
					c.Close()
				})
			}
			g.Go("faults", func(t *task.T) {
				for range 20 {
					n.ResetOne()
					n.StallOne(time.Second)
					n.Partition("c1", "m1")
					t.Sleep(t.Now().Add(10 * time.Millisecond))
					n.HealAll()
				}
				t.Sleep(t.Now().Add(5 * time.Minute))
				ln.Close()
			})
			for {
				c, err := ln.Accept(t)
				if err != nil {
					return
				}
				g.Go("conn", func(t *task.T) {
					buf := make([]byte, 100)
					for err == nil {
						_, err = c.Read(t, buf, t.Now().Add(time.Minute))
					}
					c.Close()
				})
			}
		})
		s.Run(func() bool { return g.Len() == 0 }, clock.Never)
		if f := s.Failure(); f != nil {
			t.Fatal(f)
		}
		return log.Hash()
	}
	for seed := range uint64(20) {
		if a, b := run(seed), run(seed); a != b {
			t.Errorf("seed %d: trace %016x, then %016x", seed, a, b)
		}
	}
	if run(1) == run(2) {
		t.Error("two seeds, one trace")
	}
}
