package links

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

func newRules(nodes int) *Rules { return NewRules(nodes, rand.New(rand.NewPCG(1, 2))) }

// until waits for what other goroutines do; it fails the test when they never do it.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !cond(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within half a minute", what)
		}
	}
}

// echo serves a listener that answers what it hears, in the namespace of its caller.
func echo(t *testing.T, ln net.Listener) {
	t.Helper()
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
}

func ask(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != text {
		t.Fatalf("heard %q, %v where %q was said", got, err, text)
	}
}

// listen is a node's own listener.
func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

func dialRelay(t *testing.T, r *Relay) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", r.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestARelayCarriesBothDirections(t *testing.T) {
	ln := listen(t)
	echo(t, ln)
	r, err := NewRelay(newRules(2), 2, ln.Addr().String(), func(net.Conn) int { return 1 })
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := dialRelay(t, r)
	ask(t, c, "hello")
	ask(t, c, string(bytes.Repeat([]byte("x"), 1<<20)))
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("after the end: %d bytes, %v; want the end from the other side", n, err)
	}
}

// One direction of one pair is cut: what goes that way waits in the relay, what comes back
// arrives, and so does all of another pair.
func TestARelayCutsOneDirectionOfOnePair(t *testing.T) {
	ln, rules := listen(t), newRules(2)
	var from atomic.Int32
	r, err := NewRelay(rules, 2, ln.Addr().String(), func(net.Conn) int { return int(from.Load()) })
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	pair := func(place int) (dialled, accepted net.Conn) {
		from.Store(int32(place))
		dialled = dialRelay(t, r)
		accepted, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { accepted.Close() })
		return dialled, accepted
	}
	hear := func(c net.Conn, want string) {
		t.Helper()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
			t.Fatalf("heard %q, %v; want %q", got, err, want)
		}
	}
	peer, node := pair(1)
	client, fromClient := pair(Clients)
	rules.Set(1, 2, Rule{Cut: true})

	_, _ = io.WriteString(peer, "lost?")
	until(t, "the bytes wait in the relay", func() bool { return r.Held.Load() == 5 })
	_, _ = io.WriteString(node, "back")
	hear(peer, "back")
	_, _ = io.WriteString(client, "others")
	hear(fromClient, "others")
	if held := r.Held.Load(); held != 5 {
		t.Fatalf("%d bytes wait, 5 were sent into the cut", held)
	}

	rules.Set(1, 2, Rule{})
	hear(node, "lost?")
}

// A connection through a cut comes about when it is healed.
func TestARelayDialsWhenBothDirectionsAreOpen(t *testing.T) {
	ln, rules := listen(t), newRules(2)
	echo(t, ln)
	r, err := NewRelay(rules, 2, ln.Addr().String(), func(net.Conn) int { return 1 })
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	rules.Set(2, 1, Rule{Cut: true})
	c := dialRelay(t, r)
	rules.Clear()
	ask(t, c, "hello")
}

func TestARelayOfANodeThatIsDownResets(t *testing.T) {
	ln := listen(t)
	to := ln.Addr().String()
	ln.Close()
	r, err := NewRelay(newRules(1), 1, to, func(net.Conn) int { return Clients })
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c, err := net.Dial("tcp", r.Addr())
	if err != nil {
		return // the reset was faster
	}
	defer c.Close()
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("read %d bytes, %v, of a node that is down", n, err)
	}
}

func TestClosingARelayEndsWhoWaits(t *testing.T) {
	ln, rules := listen(t), newRules(1)
	echo(t, ln)
	r, err := NewRelay(rules, 1, ln.Addr().String(), func(net.Conn) int { return Clients })
	if err != nil {
		t.Fatal(err)
	}
	c := dialRelay(t, r)
	ask(t, c, "hello")
	rules.Set(Clients, 1, Rule{Cut: true})
	_, _ = io.WriteString(c, "held")
	until(t, "the bytes wait in the relay", func() bool { return r.Held.Load() == 4 })
	r.Close() // comes back, though the cut is never healed
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("read %d bytes, %v, after the relay ended", n, err)
	}
}

func TestTheOwnerOfAConnectionIsFound(t *testing.T) {
	ln := listen(t)
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := Owner(c.LocalAddr(), c.RemoteAddr(), []int{1 << 30, os.Getpid()}); got != os.Getpid() {
		t.Errorf("the owner of %v is %d, not this process %d", c.LocalAddr(), got, os.Getpid())
	}
	if got := Owner(c.LocalAddr(), c.RemoteAddr(), []int{1 << 30}); got != 0 {
		t.Errorf("process %d is not there and owns it", got)
	}
}

func TestASocketThatIsNotThereHasNoOwner(t *testing.T) {
	ln := listen(t)
	gone := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 77), Port: 7}
	if _, err := inodeOf(gone, ln.Addr()); err == nil {
		t.Error("a socket that is not there has an inode")
	}
	if _, err := diagRequest(&net.TCPAddr{IP: net.ParseIP("::1"), Port: 7}, ln.Addr()); err == nil {
		t.Error("an address of IPv6 is asked for")
	}
}

// fakePort is an interface whose packets a test makes.
type fakePort struct {
	in, out chan []byte
	closed  chan struct{}
}

func newFakePort() *fakePort {
	return &fakePort{in: make(chan []byte), out: make(chan []byte, 16), closed: make(chan struct{})}
}

func (p *fakePort) Read(b []byte) (int, error) {
	select {
	case packet := <-p.in:
		return copy(b, packet), nil
	case <-p.closed:
		return 0, os.ErrClosed
	}
}

func (p *fakePort) Write(b []byte) (int, error) {
	p.out <- bytes.Clone(b)
	return len(b), nil
}

func (p *fakePort) Close() error {
	close(p.closed)
	return nil
}

// packetTo is an IPv4 header with a mark.
func packetTo(host, mark byte) []byte {
	b := make([]byte, 21)
	b[0], b[19], b[20] = 0x45, host, mark
	return b
}

func TestTheSwitchForwardsCutsAndKeepsOrder(t *testing.T) {
	rules := newRules(2)
	ports := []*fakePort{newFakePort(), newFakePort(), newFakePort()}
	s := NewSwitch(rules, []io.ReadWriteCloser{ports[0], ports[1], ports[2]}, []byte{254, 1, 2})
	defer s.Close()
	hear := func(p int, marks ...byte) {
		t.Helper()
		for _, mark := range marks {
			if got := <-ports[p].out; got[20] != mark {
				t.Fatalf("port %d got packet %d, want %d", p, got[20], mark)
			}
		}
	}
	ports[1].in <- packetTo(2, 1)
	hear(2, 1)
	// Cut one way: a packet behind the lost one, on another way, says that it was passed over.
	rules.Set(1, 2, Rule{Cut: true})
	ports[1].in <- packetTo(2, 2)
	ports[1].in <- packetTo(254, 3)
	ports[2].in <- packetTo(1, 4)
	hear(0, 3)
	hear(1, 4)
	if n := s.Dropped.Load(); n != 1 || len(ports[2].out) != 0 {
		t.Fatalf("%d packets were dropped, %d came through the cut", n, len(ports[2].out))
	}
	// What is held for longer does not overtake, nor is it overtaken.
	rules.Set(1, 2, Rule{Delay: 30 * time.Millisecond})
	ports[1].in <- packetTo(2, 5)
	rules.Set(1, 2, Rule{Delay: 5 * time.Millisecond})
	ports[1].in <- packetTo(2, 6)
	rules.Set(1, 2, Rule{})
	ports[1].in <- packetTo(2, 7)
	hear(2, 5, 6, 7)
	// What is no packet of ours goes nowhere.
	ports[1].in <- packetTo(9, 8)
	ports[1].in <- []byte{0x60, 0, 0}
	ports[1].in <- packetTo(1, 9)
	ports[1].in <- packetTo(2, 10)
	hear(2, 10)
}

func TestLossIsAShare(t *testing.T) {
	rules := newRules(1)
	rules.Set(0, 1, Rule{Loss: 300})
	lost := 0
	for range 10_000 {
		if pass, _ := rules.packet(0, 1); !pass {
			lost++
		}
	}
	if lost < 2700 || lost > 3300 {
		t.Errorf("of 10,000 packets %d were lost, want about 3,000", lost)
	}
	if pass, _ := rules.packet(1, 0); !pass {
		t.Error("the other way loses too")
	}
}

// Two namespaces with a switch between them carry TCP, and a one-way cut stops it until it
// is healed: the kernel's retransmission brings what was lost.
func TestNamespacesCarryTCP(t *testing.T) {
	var spaces []*Space
	for i := range 2 {
		s, err := NewSpace(byte(i + 1))
		if errors.Is(err, os.ErrPermission) || errors.Is(err, os.ErrNotExist) {
			t.Skipf("this machine does not let us make network namespaces: %v", err)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		spaces = append(spaces, s)
	}
	rules := newRules(2)
	idle := newFakePort()
	sw := NewSwitch(rules, []io.ReadWriteCloser{idle, spaces[0].Port, spaces[1].Port}, []byte{254, 1, 2})
	t.Cleanup(sw.Close)
	addr := fmt.Sprintf("%s2:%d", subnet, brokerPort)
	var ln net.Listener
	var c net.Conn
	var err error
	spaces[1].Do(func() { ln, err = net.Listen("tcp", addr) })
	if err != nil {
		t.Fatal(err)
	}
	echo(t, ln)
	spaces[0].Do(func() { c, err = net.Dial("tcp", addr) })
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ask(t, c, "hello")
	ask(t, c, string(bytes.Repeat([]byte("y"), 1<<20)))

	rules.Set(1, 2, Rule{Cut: true})
	dropped := sw.Dropped.Load()
	if _, err := io.WriteString(c, "late"); err != nil {
		t.Fatal(err)
	}
	until(t, "a packet is dropped", func() bool { return sw.Dropped.Load() > dropped })
	rules.Clear()
	got := make([]byte, 4)
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "late" {
		t.Fatalf("heard %q, %v after the cut", got, err)
	}
}
