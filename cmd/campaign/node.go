package main

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"seedlog/checker/logfile"
	"seedlog/cmd/campaign/links"
)

// nodeState is what became of a node's process.
type nodeState int

const (
	nodeDown nodeState = iota
	nodeUp
	nodeKilled   // until its process has ended
	nodeStopping // cleanly
)

// node is one process of a cluster with its directory.
type node struct {
	id     int
	binary string
	root   string // of everything of the node
	broker string // where clients connect to
	net    links.Network
	exits  chan<- nodeExit
	cmd    *exec.Cmd
	state  nodeState
	paused bool
	begun  time.Time
}

// nodeExit says that a process has ended.
type nodeExit struct {
	n   *node
	err error
}

func (n *node) data() string { return filepath.Join(n.root, "data") }
func (n *node) file() string { return filepath.Join(n.root, "server.properties") }
func (n *node) log() string  { return filepath.Join(n.root, "log") }

// newNodes lays out a cluster: directories, settings, formatted disks. With static voters they
// are in the settings, else in the format.
func newNodes(binary, root string, network links.Network, count int, static bool, settings []string, exits chan<- nodeExit) ([]*node, error) {
	var nodes []*node
	var controllers, static3, initial []string
	for i := 1; i <= count; i++ {
		broker, controller := network.Advertised(i)
		nodes = append(nodes, &node{id: i, binary: binary, root: filepath.Join(root, fmt.Sprintf("node-%d", i)), broker: broker, net: network, exits: exits})
		controllers = append(controllers, controller)
		static3 = append(static3, fmt.Sprintf("%d@%s", i, controller))
		initial = append(initial, fmt.Sprintf("%d@%s:%s", i, controller, newID()))
	}
	quorum := "controller.quorum.bootstrap.servers=" + strings.Join(controllers, ",")
	if static {
		quorum = "controller.quorum.voters=" + strings.Join(static3, ",")
	}
	clusterID := newID()
	for _, n := range nodes {
		broker, controller := network.Listen(n.id)
		_, advertised := network.Advertised(n.id)
		lines := append([]string{
			"process.roles=broker,controller",
			fmt.Sprintf("node.id=%d", n.id),
			fmt.Sprintf("listeners=PLAINTEXT://%s,CONTROLLER://%s", broker, controller),
			fmt.Sprintf("advertised.listeners=PLAINTEXT://%s,CONTROLLER://%s", n.broker, advertised),
			"controller.listener.names=CONTROLLER",
			quorum,
			"log.dirs=" + n.data(),
			fmt.Sprintf("default.replication.factor=%d", min(3, count)),
			fmt.Sprintf("offsets.topic.replication.factor=%d", min(3, count)),
			fmt.Sprintf("min.insync.replicas=%d", max(1, min(3, count)-1)),
			"group.initial.rebalance.delay.ms=0",
		}, settings...)
		if err := os.MkdirAll(n.root, 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(n.file(), []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			return nil, err
		}
		args := []string{"storage", "format", "--config", n.file(), "--cluster-id", clusterID}
		if !static {
			args = append(args, "--initial-controllers", strings.Join(initial, ","))
		}
		if out, err := exec.Command(binary, args...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("formatting node %d: %w\n%s", n.id, err, out)
		}
	}
	return nodes, nil
}

// newID is an id as Kafka writes them. None begins with a dash: that is a flag.
func newID() string {
	for {
		var id [16]byte
		_, _ = rand.Read(id[:]) // it never fails
		id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
		if s := base64.RawURLEncoding.EncodeToString(id[:]); s[0] != '-' {
			return s
		}
	}
}

// start starts the process; its end is told to exits.
func (n *node) start() error {
	log, err := os.OpenFile(n.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(n.binary, "start", "--config", n.file())
	cmd.Stdout, cmd.Stderr = log, log
	if err := n.net.Start(n.id, cmd); err != nil {
		return fmt.Errorf("starting node %d: %w", n.id, err)
	}
	n.cmd, n.state, n.paused, n.begun = cmd, nodeUp, false, time.Now()
	go func() { n.exits <- nodeExit{n, cmd.Wait()} }()
	return nil
}

func (n *node) signal(s syscall.Signal) { _ = n.cmd.Process.Signal(s) } // it may have ended this moment

// kill ends the process at once.
func (n *node) kill() {
	n.state = nodeKilled
	n.signal(syscall.SIGKILL)
}

// stop asks for a clean end.
func (n *node) stop() {
	n.resume()
	n.state = nodeStopping
	n.signal(syscall.SIGTERM)
}

func (n *node) pause() {
	n.paused = true
	n.signal(syscall.SIGSTOP)
}

func (n *node) resume() {
	if n.paused {
		n.signal(syscall.SIGCONT)
		n.paused = false
	}
}

// ended takes the end of the process, and says what is wrong with it.
func (n *node) ended(err error) error {
	was := n.state
	n.state, n.paused = nodeDown, false
	switch {
	case was == nodeUp:
		return fmt.Errorf("node %d ended by itself: %v\n%s", n.id, err, n.lastWords())
	case was == nodeStopping && err != nil:
		return fmt.Errorf("node %d was asked to stop and ended with: %v\n%s", n.id, err, n.lastWords())
	}
	return nil
}

// lastWords are the last lines of its log, and those about races or panics before.
func (n *node) lastWords() string {
	b, _ := os.ReadFile(n.log())
	text := string(b)
	for _, what := range []string{"WARNING: DATA RACE", "panic:", "fatal error:"} {
		if i := strings.Index(text, what); i >= 0 {
			text = text[i:min(len(text), i+8000)]
			break
		}
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-60):], "\n")
}

// leads is what a node last wrote down of the quorum: the leader and its epoch.
func (n *node) leads() (id, epoch int) {
	var state struct{ LeaderID, LeaderEpoch int }
	state.LeaderID = -1
	b, err := os.ReadFile(filepath.Join(n.data(), "__cluster_metadata-0", "quorum-state"))
	if err != nil || json.Unmarshal(b, &state) != nil {
		return -1, -1
	}
	return state.LeaderID, state.LeaderEpoch
}

// controller is the node that leads the quorum by what is on the disks, or nil.
func controller(nodes []*node) *node {
	leader, newest := -1, -1
	for _, n := range nodes {
		if id, epoch := n.leads(); epoch > newest || epoch == newest && leader < 0 {
			leader, newest = id, epoch
		}
	}
	if i := slices.IndexFunc(nodes, func(n *node) bool { return n.id == leader }); i >= 0 {
		return nodes[i]
	}
	return nil
}

// logEnd is where a node's copy of a partition ends, by its last segment; -1 if it has none.
func (n *node) logEnd(partition string) int64 {
	entries, err := os.ReadDir(filepath.Join(n.data(), partition))
	if err != nil {
		return -1
	}
	end := int64(-1)
	for _, e := range entries { // in the order of names, which is that of offsets
		digits, ok := strings.CutSuffix(e.Name(), ".log")
		start, err := strconv.ParseInt(digits, 10, 64)
		if !ok || err != nil {
			continue
		}
		b, err := os.ReadFile(filepath.Join(n.data(), partition, e.Name()))
		if err != nil {
			continue
		}
		end = max(end, start)
		if batches, _, _ := logfile.Scan(b); len(batches) > 0 {
			end = batches[len(batches)-1].Last + 1
		}
	}
	return end
}

// readText is a file's text, or nothing.
func readText(path string) string {
	b, _ := os.ReadFile(path)
	return string(b)
}
