package peer_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"seedlog/clock"
	"seedlog/clock/live"
	"seedlog/clock/task"
	"seedlog/net"
	"seedlog/net/tcp"
	"seedlog/node/event"
	"seedlog/node/peer"
	"seedlog/sim/sched"
	"seedlog/sim/simnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is two machines and their tasks.
type world struct {
	rt             task.Runtime // of the client
	server, client net.Network
	addr           string
	halfOpen       func() bool // makes a connection half-open; nil where that cannot be done
}

// everywhere runs a case on TCP and on simulated networks, calm and drawn.
func everywhere(t *testing.T, fn func(tk *task.T, w *world) error) {
	t.Helper()
	t.Run("tcp", func(t *testing.T) {
		rt := live.New(live.Options{})
		n := tcp.New(tcp.Config{})
		w := &world{rt: rt, server: n, client: n, addr: "127.0.0.1:0"}
		var err error
		live.Main(rt, func(tk *task.T) { err = fn(tk, w) })
		if err != nil {
			t.Error(err)
		}
	})
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			cfg, netCfg := sched.Calm(), simnet.Calm()
			if seed > 0 {
				r := sched.Stream(seed, "test")
				cfg, netCfg = sched.DrawConfig(r), simnet.DrawConfig(r)
				netCfg.LossEvery, netCfg.ResetEvery = 0, 0
				netCfg.TailMaxNs = min(netCfg.TailMaxNs, int64(20*time.Millisecond))
			}
			s := sched.New(seed, cfg, nil)
			defer s.Close()
			n := simnet.New(s, netCfg)
			rt := s.NewRuntime("c1", sched.ClockParams{})
			w := &world{rt: rt, addr: "m1:0", halfOpen: n.HalfOpenOne,
				server: n.Attach(s.NewRuntime("m1", sched.ClockParams{})), client: n.Attach(rt)}
			g := task.NewGroup(rt, "case")
			var err error
			g.Go("case", func(tk *task.T) { err = fn(tk, w) })
			s.Run(func() bool { return g.Len() == 0 }, clock.Never)
			if f := s.Failure(); f != nil {
				t.Fatal(f)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// node is a server whose handler answers a request frame (without its size) with the bytes
// to write; nil closes the connection.
type node struct {
	ln    net.Listener
	conns []net.Conn
	g     *task.Group
	mu    *task.Mutex
}

func (w *world) node(t *task.T, answer func(t *task.T, c net.Conn, req []byte) []byte) (*node, error) {
	ln, err := w.server.Listen(t, w.addr)
	if err != nil {
		return nil, err
	}
	n := &node{ln: ln, g: task.NewGroup(w.rt, "node"), mu: task.NewMutex(w.rt, "test.node")}
	n.g.Go("accept", func(t *task.T) {
		for {
			c, err := ln.Accept(t)
			if err != nil {
				return
			}
			n.mu.Lock()
			n.conns = append(n.conns, c)
			n.mu.Unlock()
			t.Go("serve", func(t *task.T) {
				defer c.Close()
				for {
					req, err := readFrame(t, c)
					if err != nil {
						return
					}
					b := answer(t, c, req)
					if b == nil || c.Write(t, []net.Part{{Bytes: b}}, clock.Never) != nil {
						return
					}
				}
			})
		}
	})
	return n, nil
}

func (n *node) close(t *task.T) {
	n.ln.Close()
	n.mu.Lock()
	conns := n.conns
	n.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
	n.g.Stop()
	n.g.Wait(t)
}

func readFrame(t *task.T, c net.Conn) ([]byte, error) {
	var b []byte
	for want := 4; len(b) < want; {
		p := make([]byte, want-len(b))
		k, err := c.Read(t, p, clock.Never)
		if err != nil {
			return nil, err
		}
		b = append(b, p[:k]...)
		if len(b) >= 4 {
			want = 4 + int(binary.BigEndian.Uint32(b))
		}
	}
	return b[4:], nil
}

// vote is a request whose leader id comes back in the answer.
func vote(id int32) *kmsg.VoteRequest {
	r := kmsg.NewPtrVoteRequest()
	r.Version, r.VoterID = 1, id
	return r
}

// answerVote answers a vote request properly.
func answerVote(req []byte) []byte {
	v := kmsg.NewPtrVoteRequest()
	v.Version = int16(binary.BigEndian.Uint16(req[2:]))
	header := 8 + 2 + len("node-7") + 1
	if string(req[10:16]) != "node-7" || req[16] != 0 {
		panic(fmt.Sprintf("client id in %q", req))
	}
	if err := v.ReadFrom(req[header:]); err != nil {
		panic(err)
	}
	resp := kmsg.NewPtrVoteResponse()
	resp.Version = v.Version
	topic := kmsg.NewVoteResponseTopic()
	topic.Topic = fmt.Sprint("voter ", v.VoterID)
	resp.Topics = append(resp.Topics, topic)
	return frame(binary.BigEndian.Uint32(req[4:]), []byte{0}, resp.AppendTo(nil))
}

func frame(correlation uint32, tags, body []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(4+len(tags)+len(body)))
	b = binary.BigEndian.AppendUint32(b, correlation)
	return append(append(b, tags...), body...)
}

func (w *world) peer(events event.Sink) *peer.Client {
	return peer.NewClient(peer.Env{RT: w.rt, Net: w.client, ClientID: "node-7", Events: events, MaxBytes: 1 << 20}, "quorum to 2")
}

// check asks once and expects the right answer.
func check(t *task.T, c *peer.Client, addr string, id int32) error {
	resp, err := c.Do(t, addr, vote(id), t.Now().Add(time.Minute))
	if err != nil {
		return err
	}
	if got := resp.(*kmsg.VoteResponse).Topics[0].Topic; got != fmt.Sprint("voter ", id) {
		return fmt.Errorf("answer %q to the request of %d", got, id)
	}
	return nil
}

func want(err, target error) error {
	if !errors.Is(err, target) {
		return fmt.Errorf("%v, want %v", err, target)
	}
	return nil
}

func TestRequestsOfManyTasksRunOneAfterTheOther(t *testing.T) {
	everywhere(t, func(tk *task.T, w *world) error {
		n, err := w.node(tk, func(_ *task.T, _ net.Conn, req []byte) []byte { return answerVote(req) })
		if err != nil {
			return err
		}
		c := w.peer(nil)
		g := task.NewGroup(w.rt, "askers")
		errs := make([]error, 8)
		for i := range errs {
			g.Go("ask", func(t *task.T) {
				for k := range 5 {
					errs[i] = errors.Join(errs[i], check(t, c, n.ln.Addr(), int32(100*i+k)))
				}
			})
		}
		g.Wait(tk)
		n.mu.Lock()
		conns := len(n.conns)
		n.mu.Unlock()
		if conns != 1 {
			errs = append(errs, fmt.Errorf("%d connections", conns))
		}
		c.Close()
		n.close(tk)
		return errors.Join(errs...)
	})
}

func TestBadAnswersCloseTheConnection(t *testing.T) {
	id := func(req []byte) uint32 { return binary.BigEndian.Uint32(req[4:]) }
	for name, bad := range map[string]func(req []byte) []byte{
		"wrong correlation id": func(req []byte) []byte { return frame(id(req)+1, []byte{0}, []byte{0, 0, 1, 0}) },
		"oversized":            func(req []byte) []byte { return []byte{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0} },
		"one above the bound":  func(req []byte) []byte { return binary.BigEndian.AppendUint32(nil, 1<<20+1) },
		"negative":             func(req []byte) []byte { return []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0} },
		"too short":            func(req []byte) []byte { return []byte{0, 0, 0, 3, 0, 0, 0} },
		"no tags":              func(req []byte) []byte { return frame(id(req), nil, nil) },
		"lying tags":           func(req []byte) []byte { return frame(id(req), []byte{0xff, 0xff, 0xff, 0xff, 0x0f}, nil) },
		"tag too long":         func(req []byte) []byte { return frame(id(req), []byte{1, 1, 9, 0}, nil) },
		"truncated body":       func(req []byte) []byte { return frame(id(req), []byte{0}, []byte{0, 0, 9}) },
		"bytes behind": func(req []byte) []byte {
			return append(answerVote(req), 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(tk *task.T, w *world) error {
				var times task.Int64
				n, err := w.node(tk, func(_ *task.T, _ net.Conn, req []byte) []byte {
					if times.Add(1) == 2 {
						return bad(req)
					}
					return answerVote(req)
				})
				if err != nil {
					return err
				}
				defer n.close(tk)
				c := w.peer(nil)
				defer c.Close()
				if err := check(tk, c, n.ln.Addr(), 1); err != nil {
					return err
				}
				_, err = c.Do(tk, n.ln.Addr(), vote(2), tk.Now().Add(time.Minute))
				if name == "bytes behind" && err == nil {
					// They came later than the answer: the next answer does not match.
					_, err = c.Do(tk, n.ln.Addr(), vote(2), tk.Now().Add(time.Minute))
				}
				if err := want(err, peer.ErrProtocol); err != nil {
					return err
				}
				if !strings.Contains(err.Error(), "quorum to 2") || strings.Contains(err.Error(), "\n") {
					return fmt.Errorf("says %q", err)
				}
				return check(tk, c, n.ln.Addr(), 3)
			})
		})
	}
}

func TestATrickledAnswerIsWhole(t *testing.T) {
	everywhere(t, func(tk *task.T, w *world) error {
		n, err := w.node(tk, func(t *task.T, c net.Conn, req []byte) []byte {
			whole := answerVote(req)
			for i := range whole[:len(whole)-1] {
				if c.Write(t, []net.Part{{Bytes: whole[i : i+1]}}, clock.Never) != nil {
					return nil
				}
			}
			return whole[len(whole)-1:]
		})
		if err != nil {
			return err
		}
		defer n.close(tk)
		c := w.peer(nil)
		defer c.Close()
		return errors.Join(check(tk, c, n.ln.Addr(), 1), check(tk, c, n.ln.Addr(), 2))
	})
}

func TestALateAnswerIsNotTheNextOnes(t *testing.T) {
	everywhere(t, func(tk *task.T, w *world) error {
		var times task.Int64
		n, err := w.node(tk, func(t *task.T, _ net.Conn, req []byte) []byte {
			if times.Add(1) == 1 {
				if !t.Sleep(t.Now().Add(150 * time.Millisecond)) {
					return nil
				}
			}
			return answerVote(req)
		})
		if err != nil {
			return err
		}
		defer n.close(tk)
		c := w.peer(nil)
		defer c.Close()
		_, err = c.Do(tk, n.ln.Addr(), vote(1), tk.Now().Add(50*time.Millisecond))
		return errors.Join(want(err, peer.ErrTimeout), check(tk, c, n.ln.Addr(), 2))
	})
}

func TestNobodyListens(t *testing.T) {
	everywhere(t, func(tk *task.T, w *world) error {
		n, err := w.node(tk, func(_ *task.T, _ net.Conn, req []byte) []byte { return answerVote(req) })
		if err != nil {
			return err
		}
		c := w.peer(nil)
		defer c.Close()
		if err := check(tk, c, n.ln.Addr(), 1); err != nil {
			return err
		}
		n.close(tk)
		_, gone := c.Do(tk, n.ln.Addr(), vote(2), tk.Now().Add(time.Second))
		_, refused := c.Do(tk, n.ln.Addr(), vote(3), tk.Now().Add(time.Second))
		if errors.Is(gone, peer.ErrUnsent) {
			return fmt.Errorf("it was sent: %w", gone)
		}
		return errors.Join(want(gone, net.ErrReset), want(refused, net.ErrRefused), want(refused, peer.ErrUnsent))
	})
}

func TestAnotherAddressIsAnotherConnection(t *testing.T) {
	everywhere(t, func(tk *task.T, w *world) error {
		c := w.peer(nil)
		defer c.Close()
		for i := range 3 {
			n, err := w.node(tk, func(_ *task.T, _ net.Conn, req []byte) []byte { return answerVote(req) })
			if err != nil {
				return err
			}
			defer n.close(tk)
			if err := check(tk, c, n.ln.Addr(), int32(i)); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestCloseWakesWhoWaits(t *testing.T) {
	everywhere(t, func(tk *task.T, w *world) error {
		asked := task.NewEvent(w.rt, "test.asked")
		n, err := w.node(tk, func(t *task.T, _ net.Conn, _ []byte) []byte {
			asked.Set()
			t.Park(clock.Never)
			for !t.Stopping() {
				t.Park(clock.Never)
			}
			return nil
		})
		if err != nil {
			return err
		}
		c := w.peer(nil)
		g := task.NewGroup(w.rt, "askers")
		errs := make([]error, 3)
		for i := range errs {
			g.Go("ask", func(t *task.T) { _, errs[i] = c.Do(t, n.ln.Addr(), vote(1), clock.Never) })
		}
		asked.Wait(tk, clock.Never)
		c.Close()
		g.Wait(tk)
		n.close(tk)
		for i := range errs {
			errs[i] = want(errs[i], peer.ErrClosed)
		}
		_, after := c.Do(tk, n.ln.Addr(), vote(1), clock.Never)
		return errors.Join(append(errs, want(after, peer.ErrClosed))...)
	})
}

func TestWaitingForTheTurnTimesOutAndStops(t *testing.T) {
	everywhere(t, func(tk *task.T, w *world) error {
		asked := task.NewEvent(w.rt, "test.asked")
		release := task.NewEvent(w.rt, "test.release")
		n, err := w.node(tk, func(t *task.T, _ net.Conn, req []byte) []byte {
			asked.Set()
			release.Wait(t, clock.Never)
			return answerVote(req)
		})
		if err != nil {
			return err
		}
		defer n.close(tk)
		c := w.peer(nil)
		defer c.Close()
		first, others := task.NewGroup(w.rt, "first"), task.NewGroup(w.rt, "others")
		var holder, stopped error
		first.Go("holder", func(t *task.T) { holder = check(t, c, n.ln.Addr(), 1) })
		asked.Wait(tk, clock.Never)
		others.Go("stopped", func(t *task.T) { _, stopped = c.Do(t, n.ln.Addr(), vote(2), clock.Never) })
		_, late := c.Do(tk, n.ln.Addr(), vote(3), tk.Now().Add(20*time.Millisecond))
		others.Stop()
		others.Wait(tk)
		release.Set()
		first.Wait(tk)
		return errors.Join(holder, want(late, peer.ErrTimeout), want(stopped, peer.ErrClosed), check(tk, c, n.ln.Addr(), 4))
	})
}

// TestAHalfOpenPeer asks a machine that says nothing any more: the deadline ends it, and the
// next connection works.
func TestAHalfOpenPeer(t *testing.T) {
	everywhere(t, func(tk *task.T, w *world) error {
		if w.halfOpen == nil {
			return nil // a kernel cannot be told to forget a connection silently
		}
		n, err := w.node(tk, func(_ *task.T, _ net.Conn, req []byte) []byte { return answerVote(req) })
		if err != nil {
			return err
		}
		defer n.close(tk)
		c := w.peer(nil)
		defer c.Close()
		if err := check(tk, c, n.ln.Addr(), 1); err != nil {
			return err
		}
		if !w.halfOpen() {
			return errors.New("no connection to make half-open")
		}
		_, err = c.Do(tk, n.ln.Addr(), vote(2), tk.Now().Add(time.Second))
		if !errors.Is(err, peer.ErrTimeout) && !errors.Is(err, net.ErrReset) {
			return fmt.Errorf("half-open: %v", err)
		}
		return check(tk, c, n.ln.Addr(), 3)
	})
}

// names collects events' names.
type names struct{ list []string }

func (n *names) Emit(e event.Event) { n.list = append(n.list, e.Name()) }

func TestEvents(t *testing.T) {
	everywhere(t, func(tk *task.T, w *world) error {
		n, err := w.node(tk, func(_ *task.T, _ net.Conn, req []byte) []byte { return answerVote(req) })
		if err != nil {
			return err
		}
		seen := &names{}
		c := w.peer(seen)
		err = check(tk, c, n.ln.Addr(), 1)
		n.close(tk)
		_, _ = c.Do(tk, n.ln.Addr(), vote(2), tk.Now().Add(time.Second))
		c.Close()
		_, _ = c.Do(tk, n.ln.Addr(), vote(2), tk.Now().Add(time.Second))
		if got := strings.Join(seen.list, " "); got != "peer-connected peer-lost" {
			err = errors.Join(err, fmt.Errorf("events %s", got))
		}
		return err
	})
}
