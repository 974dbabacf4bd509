package links

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
)

// Network is where the nodes of a cluster listen, and what is between them.
type Network interface {
	// String says what it is, for the report.
	String() string
	// Listen is where a node binds its listeners for brokers and for controllers.
	Listen(node int) (broker, controller string)
	// Advertised is where everybody connects to.
	Advertised(node int) (broker, controller string)
	// Start starts a node's process.
	Start(node int, cmd *exec.Cmd) error
	// Close ends it; processes of nodes end with it.
	Close()
}

// The ports of a node that has an address for itself.
const (
	brokerPort     = 9092
	controllerPort = 9093
)

type namespaces struct {
	spaces []*Space
	sw     *Switch
}

// NewNamespaces makes a namespace for each node, around the namespace of this process, which
// must be its own ([Again]).
func NewNamespaces(rules *Rules, nodes int) (Network, error) {
	n := new(namespaces)
	clients, err := OpenClients()
	if err != nil {
		return nil, err
	}
	ports, hosts := []io.ReadWriteCloser{clients}, []byte{clientsHost}
	for i := 1; i <= nodes; i++ {
		s, err := NewSpace(byte(i))
		if err != nil {
			for k, p := range ports {
				p.Close()
				if k > 0 {
					n.spaces[k-1].Close()
				}
			}
			return nil, err
		}
		n.spaces = append(n.spaces, s)
		ports, hosts = append(ports, s.Port), append(hosts, byte(i))
	}
	n.sw = NewSwitch(rules, ports, hosts)
	return n, nil
}

func (n *namespaces) String() string {
	return "network namespaces, whose packets a switch in this process cuts, delays and loses"
}

func (n *namespaces) Listen(node int) (broker, controller string) {
	return fmt.Sprintf("%s%d:%d", subnet, node, brokerPort), fmt.Sprintf("%s%d:%d", subnet, node, controllerPort)
}

func (n *namespaces) Advertised(node int) (broker, controller string) { return n.Listen(node) }

func (n *namespaces) Start(node int, cmd *exec.Cmd) error { return n.spaces[node-1].start(cmd) }

func (n *namespaces) Close() {
	for _, s := range n.spaces {
		s.Close()
	}
	n.sw.Close()
}

type relays struct {
	*thread
	nodes []relayed

	mu   sync.Mutex
	pids []int // of the nodes now, 0 for one that was never started
}

type relayed struct {
	listen []string
	relays []*Relay
}

// NewRelays puts a relay in front of each listener of each node.
func NewRelays(rules *Rules, nodes int) (Network, error) {
	n := &relays{thread: newThread(), pids: make([]int, nodes)}
	for i := 1; i <= nodes; i++ {
		var x relayed
		for range 2 {
			listen, err := freeAddr()
			if err != nil {
				n.Close()
				return nil, err
			}
			r, err := NewRelay(rules, i, listen, n.place)
			if err != nil {
				n.Close()
				return nil, err
			}
			x.listen, x.relays = append(x.listen, listen), append(x.relays, r)
		}
		n.nodes = append(n.nodes, x)
	}
	return n, nil
}

// freeAddr is an address of the loopback interface that nobody listens on now.
func freeAddr() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}

func (n *relays) String() string {
	return "TCP relays on the loopback interface, which cut and delay bytes"
}

func (n *relays) Listen(node int) (broker, controller string) {
	x := n.nodes[node-1]
	return x.listen[0], x.listen[1]
}

func (n *relays) Advertised(node int) (broker, controller string) {
	x := n.nodes[node-1]
	return x.relays[0].Addr(), x.relays[1].Addr()
}

// Start notes the process, so that its connections are known to be the node's.
func (n *relays) Start(node int, cmd *exec.Cmd) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.start(cmd); err != nil {
		return err
	}
	n.pids[node-1] = cmd.Process.Pid
	return nil
}

// place is whose socket dialled an accepted connection.
func (n *relays) place(c net.Conn) int {
	n.mu.Lock()
	pids := append([]int(nil), n.pids...)
	n.mu.Unlock()
	pid := Owner(c.RemoteAddr(), c.LocalAddr(), append(pids, os.Getpid()))
	if i := slices.Index(pids, pid); pid != 0 && i >= 0 {
		return i + 1
	}
	return Clients
}

func (n *relays) Close() {
	n.thread.Close()
	for _, x := range n.nodes {
		for _, r := range x.relays {
			r.Close()
		}
	}
}

type loopback struct {
	*thread
	listen [][2]string
}

// NewLoopback lets nodes listen on the loopback interface, with nothing in between.
func NewLoopback(nodes int) (Network, error) {
	n := &loopback{thread: newThread()}
	for range nodes {
		broker, err := freeAddr()
		if err != nil {
			return nil, err
		}
		controller, err := freeAddr()
		if err != nil {
			return nil, err
		}
		n.listen = append(n.listen, [2]string{broker, controller})
	}
	return n, nil
}

func (n *loopback) String() string { return "the loopback interface" }

func (n *loopback) Listen(node int) (broker, controller string) {
	return n.listen[node-1][0], n.listen[node-1][1]
}

func (n *loopback) Advertised(node int) (broker, controller string) { return n.Listen(node) }

func (n *loopback) Start(_ int, cmd *exec.Cmd) error { return n.start(cmd) }

func (n *loopback) Close() { n.thread.Close() }

// alone is set in the environment of a process that [Again] started.
const alone = "SEEDLOG_CAMPAIGN_ALONE"

// Alone reports whether this process has a network namespace of its own.
func Alone() bool { return os.Getenv(alone) != "" }

// Again runs this program once more with other arguments in a network namespace of its own,
// and waits for it. started is false where the machine does not let it.
func Again(args []string) (started bool, err error) {
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), alone+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	t := newThread() // the kernel kills the process when this thread ends: it waits
	defer t.Close()
	t.Do(func() {
		if err = cmd.Start(); err == nil {
			started = true
			err = cmd.Wait()
		}
	})
	return started, err
}
