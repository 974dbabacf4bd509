// Package node assembles one node of a cluster from its parts, starts it and stops it: a
// broker, a controller, or both (process.roles). It is the same package in production and in
// the simulator: time, disk, network, randomness and the scheduling of tasks come in
// through [Host], and nothing else.
//
//	open directories -> metadata log -> quorum, controller -> connections of controllers
//	broker: -> registered -> partitions loaded -> unfenced -> connections of clients -> ready
//
// and backwards on the way out, after the controller has moved leadership away. A clean stop
// leaves a marker in every directory, and no task, timer or handle behind.
package node

import (
	"errors"
	"math/rand/v2"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/net"
	"seedlog/node/config"
	"seedlog/node/conn"
	"seedlog/node/event"
)

// ErrNotFormatted: a log directory has no meta.properties, and the host did not allow to
// format it, or the node has others in its settings: an empty directory must not become a
// voter that forgot what it voted for.
var ErrNotFormatted = errors.New("log directory is not formatted")

// Host is the world that a node lives in.
type Host struct {
	RT   task.Runtime
	Disk disk.Disk
	Net  net.Network
	// Rand gives the random stream of a subsystem.
	Rand func(name string) *rand.Rand
	// Entropy fills in bytes for ids that must be unique in the world.
	Entropy func([]byte)
	// Events hears what happens; it may be nil.
	Events event.Sink
	// Format allows to format log directories when none is: the start of a new node that is
	// alone.
	Format bool
}

// Node is one node, for one life: it runs once.
type Node struct {
	h      Host
	cfg    *config.Config
	ready  task.Event
	stop   task.Event
	moved  task.Signal // something came true that the start may wait for, or stop was set
	mu     task.Mutex
	failed error
	addrs  []string
	frames []*conn.Budget // of the listeners for clients and of those for controllers
}

// New describes a node. Nothing happens before Run.
func New(h Host, cfg config.Config) *Node {
	n := &Node{h: h, cfg: &cfg}
	if h.Events == nil {
		n.h.Events = nobody{}
	}
	n.ready.Init(h.RT, "node.ready")
	n.stop.Init(h.RT, "node.stop")
	n.moved.Init(h.RT, "node.moved")
	n.mu.Init(h.RT, "node.Node")
	return n
}

// nobody listens.
type nobody struct{}

func (nobody) Emit(event.Event) {}

// Ready is set when the node serves.
func (n *Node) Ready() *task.Event { return &n.ready }

// Addr is the "host:port" of the first listener, "" before it is bound.
func (n *Node) Addr() string {
	if a := n.Addrs(); len(a) > 0 {
		return a[0]
	}
	return ""
}

// Addrs are the bound addresses of the listeners, in the order of the configuration.
func (n *Node) Addrs() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.addrs
}

// FrameBytes is the memory that requests hold now. Without connections it is nothing.
func (n *Node) FrameBytes() int64 {
	n.mu.Lock()
	frames := n.frames
	n.mu.Unlock()
	sum := int64(0)
	for _, b := range frames {
		bytes, _ := b.Used()
		sum += bytes
	}
	return sum
}

// Stop asks for a clean stop. Run returns after it.
func (n *Node) Stop() {
	n.stop.Set()
	n.moved.Raise()
}

// fail ends the node because of err; the first one counts.
func (n *Node) fail(err error) {
	n.mu.Lock()
	if n.failed == nil {
		n.failed = err
	}
	n.mu.Unlock()
	n.Stop()
}

// await waits until the condition holds, which [Node.moved] tells of. It returns what ended
// the node, or errStopped, if that comes first.
func (n *Node) await(t *task.T, holds func() bool) error {
	for {
		seen := n.moved.Generation()
		switch {
		case n.failure() != nil:
			return n.failure()
		case n.stop.IsSet():
			return errStopped
		case holds():
			return nil
		}
		n.moved.Wait(t, seen, clock.Never)
	}
}

func (n *Node) failure() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.failed
}

// Run brings the node up, serves until Stop or until something fatal happens, and takes it
// down. It returns nil after a clean stop.
func (n *Node) Run(t *task.T) error {
	l := &life{n: n, h: n.h, cfg: n.cfg}
	err := l.start(t)
	if err == nil {
		n.event("serving", int64(t.Now().Sub(l.began).Milliseconds()), n.Addr())
		n.ready.Set()
		n.stop.Wait(t, clock.Never)
		err = n.failure()
	}
	clean := err == nil
	if errors.Is(err, errStopped) {
		err = nil // as asked, but not everything was loaded that a clean stop would mark
	}
	n.event("stopping", 0, "")
	err = errors.Join(err, l.end(t, clean))
	n.event("stopped", 0, "")
	return err
}

func (n *Node) event(stage string, number int64, text string) {
	n.h.Events.Emit(event.NodeState{Stage: stage, Number: number, Text: text})
}
