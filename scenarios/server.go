package scenarios

import (
	"errors"
	"fmt"
	"strings"

	"seedlog/checker/history"
	"seedlog/disk"
	"seedlog/node/config"
	"seedlog/node/event"
	"seedlog/node/quorum"
	"seedlog/node/raft"
	"seedlog/node/replica"
	"seedlog/sim"
	"seedlog/sim/sched"
	"seedlog/sim/simdisk"
)

// server is a machine that a node runs on, with what the run knows of it alone.
type server struct {
	*sim.Machine
	r     *Run
	id    int32
	rack  string
	guard *guard
	// props are its settings beyond those of the run.
	props  map[string]string
	config *config.Config
	// voter says that it has a vote in the metadata quorum from the start.
	voter bool
	// forgets is how many syncs had failed and forgotten when the running incarnation was started.
	forgets int64
	// inQuorum says that the running incarnation has taken part in the quorum.
	inQuorum bool
	// born is when the running incarnation was started: what was asked before, another answered.
	born history.Stamp
	// offline says that the running incarnation lost a directory and must be restarted.
	offline bool
	// build is what runs on the machine, where that is not the same everywhere.
	build build
	// booting is set while a boot is due.
	booting bool
	// formatting is set while its new disk is formatted.
	formatting bool
	// replaced says that its disk was replaced by an empty one.
	replaced bool
	// gone says that the machine is never to be started again.
	gone bool
	// serves says that the running incarnation has recovered its logs and serves.
	serves bool
	// bootedAt is the end of the committed metadata when the running incarnation began.
	bootedAt int64
}

// addServer adds a machine to the run.
func (r *Run) addServer(name string, dc simdisk.Config, cp sched.ClockParams) *server {
	dc.Capacity = diskBytes
	s := &server{Machine: r.World.AddMachine(name, dc, cp), r: r, id: int32(len(r.servers) + 1), props: make(map[string]string)}
	r.servers = append(r.servers, s)
	r.Brokers = append(r.Brokers, s.Machine)
	s.guard = newGuard(s)
	s.Disk.OnReuse(func(path, what string) {
		if strings.HasSuffix(path, ".log") {
			r.Rec.Failf("I34", s.where(path), "is %s again by the process that was told it failed", what)
		}
	})
	s.Disk.OnForget(func() {
		if c := r.cluster; c != nil && c.ghost != nil {
			c.ghost.lookAt(int(s.id-1), s) // who is told of what goes now may not have heard yet
		}
	})
	return s
}

// where names a place on the machine; a lone broker needs no name.
func (s *server) where(path string) string {
	if len(s.r.servers) == 1 {
		return path
	}
	return s.Name + ":" + path
}

// server finds what the run knows of a machine, or nil.
func (r *Run) server(m *sim.Machine) *server {
	for _, s := range r.servers {
		if s.Machine == m {
			return s
		}
	}
	return nil
}

// end ends the process, by kill or by power loss; the checks look right before and after.
func (s *server) end(power bool) {
	if c := s.r.cluster; c != nil {
		c.ghost.look()
	}
	s.guard.crashing(power)
	s.serves = false
	stopped := false
	if inc := s.Incarnation(); inc != nil {
		ended, err := inc.Ended()
		stopped = ended && err == nil
	}
	switch {
	case power:
		s.PowerLoss()
	case s.Up() || s.Incarnation() == nil:
		s.Kill()
	default:
		s.Reap()
	}
	s.guard.crashed(power, stopped)
}

// settings are the properties that the node is started with.
func (s *server) settings() map[string]string {
	props := map[string]string{
		"node.id": fmt.Sprint(s.id), "log.dirs": "/data", "listeners": "PLAINTEXT://" + s.Addr(),
		"offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": "2", "group.initial.rebalance.delay.ms": "0",
	}
	for name, value := range s.r.props { //order: into a map
		props[name] = value
	}
	for name, value := range s.props { //order: into a map
		props[name] = value
	}
	return props
}

// boot starts the node on the machine.
func (s *server) boot() bool {
	cfg, unknown, err := config.Parse(s.settings())
	if err != nil || len(unknown) > 0 {
		s.r.Failf("scenario", "config", "%v, unknown %v", err, unknown)
		return false
	}
	s.config, s.guard.LogDirs = cfg, cfg.LogDirs
	if s.r.Config == nil || s == s.r.servers[0] {
		s.r.Config = cfg
	}
	s.inQuorum, s.serves = false, false
	s.offline, s.born, s.forgets = false, s.r.Rec.Stamp(), s.Disk.Count(simdisk.SyncForgets).Fired
	if c := s.r.cluster; c != nil {
		c.ghost.look()
		s.bootedAt = c.ghost.quorum.Committed()
	}
	s.guard.beforeBoot()
	s.Boot(cfg)
	return true
}

// watchReady runs the guard's comparison as soon as the incarnation serves.
func (s *server) watchReady() {
	if s.r.cluster != nil {
		return // its directories are compared as they are loaded
	}
	inc, w := s.Incarnation(), s.r.World
	var look func()
	look = func() {
		switch {
		case s.Incarnation() != inc:
		case s.Ready():
			s.guard.afterBoot()
		default:
			w.Sched.At(w.Now().Add(readyPoll), look)
		}
	}
	look()
}

// dropped reports whether a sync failed and forgot under the running incarnation: what the page cache had is
// gone, and the process is about to take the directory offline.
func (s *server) dropped() bool { return s.Disk.Count(simdisk.SyncForgets).Fired > s.forgets }

// diskFailed reports whether an error is the disk's.
func diskFailed(err error) bool {
	return errors.Is(err, disk.ErrNoSpace) || errors.Is(err, disk.ErrReadOnly) || errors.Is(err, disk.ErrIO)
}

// saw watches the node's events.
func (s *server) saw(e event.Event) {
	if c := s.r.cluster; c != nil {
		c.mark(s, e)
		if _, ok := e.(quorum.Noted); ok && !s.inQuorum {
			s.inQuorum = true
			c.ghost.entersQuorum(s)
		}
	}
	switch e.Name() {
	case "node-state":
		if e, ok := e.(event.NodeState); ok {
			s.serves = s.serves || e.Stage == "serving"
			if e.Stage == "loaded" && s.r.cluster != nil {
				s.guard.afterLoad(e.Text)
			}
		}
	case "leader-began":
		if e, ok := e.(event.LeaderBegan); ok && s.r.cluster != nil {
			s.r.cluster.ghost.began(s, fmt.Sprintf("%s-%d", e.Topic, e.Partition), e.LeaderEpoch, e.Offset)
		}
	case "isr-shrunk", "isr-shrunk-to-one":
		if e, ok := e.(replica.ISRChanged); ok && s.r.cluster != nil {
			s.r.cluster.ghost.shrank(s, e)
		}
	case "quorum-vote-granted":
		if e, ok := e.(quorum.Noted); ok && s.r.cluster != nil {
			s.r.cluster.ghost.granted(s, e.Note)
		}
	case "quorum-voter-added", "quorum-voter-removed", "quorum-voter-updated", "quorum-version-raised":
		if e, ok := e.(quorum.Noted); ok && s.r.cluster != nil {
			s.r.cluster.ghost.voters(s, e.Note)
			if e.Note.Kind == raft.VersionRaised && s.r.cluster.onRaised != nil {
				s.r.cluster.onRaised(s)
			}
		}
	case "quorum-leader":
		if e, ok := e.(quorum.Noted); ok && s.r.cluster != nil && s.r.cluster.onLeader != nil {
			s.r.cluster.onLeader(s, e.Note)
		}
	case "follower-began":
		if e, ok := e.(replica.FollowerBegan); ok && s.r.cluster != nil {
			s.r.cluster.ghost.follows(s, e)
		}
	case "log-diverged":
		if e, ok := e.(replica.LogDiverged); ok && s.r.cluster != nil {
			s.r.cluster.ghost.diverged(s, e)
		}
	case "log-stray":
		if e, ok := e.(event.LogStray); ok && s.r.cluster != nil {
			s.r.cluster.ghost.stray(s, e)
		}
	case "dir-offline", "partition-failed":
		if c := s.r.cluster; c != nil && !s.serves {
			c.ghost.begins(s)
		}
		s.offline = true
	case "quorum-failed":
		if e, ok := e.(quorum.Failed); ok && diskFailed(e.Err) {
			s.offline = true
		}
	case "log-corrupt":
		if e, ok := e.(event.Storage); ok {
			s.guard.corrupt(e)
		}
	case "log-truncated":
		// What is left of the producers is loaded again: of each snapshot the last batch, and what
		// is replayed on it. That is all that a start remembers, too (I17).
		if e, ok := e.(event.Storage); ok && e.Topic != quorum.ClusterMetadata {
			s.r.Rec.Reload(s.Addr(), fmt.Sprintf("%s-%d", e.Topic, e.Partition))
			s.emptied(e)
		}
	case "log-recovered", "log-created":
		if e, ok := e.(event.Storage); ok {
			s.emptied(e)
		}
	case "log-start-moved":
		if e, ok := e.(event.Storage); ok {
			s.guard.startMoved(e)
			if s.r.cluster != nil {
				s.r.cluster.ghost.replicas.Starts(s.id, fmt.Sprintf("%s-%d", e.Topic, e.Partition), e.Offset)
			}
		}
	}
}

// emptied tells the ghost of a log that was loaded or cut, if nothing is left of it.
func (s *server) emptied(e event.Storage) {
	if s.r.cluster != nil {
		s.r.cluster.ghost.anew(s, e.Dir, fmt.Sprintf("%s-%d", e.Topic, e.Partition))
	}
}

// serving is polled while the server is brought up: it boots what is down and restarts what
// lost a directory.
func (s *server) serving() bool {
	inc := s.Incarnation()
	switch {
	case s.formatting:
	case inc == nil:
		s.boot()
		s.watchReady()
	case s.Stopping(): // a clean restart was under way
	case s.Up() && !s.offline:
		return s.Ready()
	default:
		_, err := inc.Ended()
		if s.end(false); err != nil {
			s.outdated()
		}
	}
	return false
}
