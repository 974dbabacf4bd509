package scenarios

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"seedlog/clock/task"
	"seedlog/scenarios/client"
	"seedlog/sim"
	"seedlog/sim/sched"
	"seedlog/sim/simnet"
)

// The deadlines of the liveness phase, in simulated time.
const (
	readyWithin  = 2 * time.Minute
	finishWithin = 5 * time.Minute
	drainWithin  = 5 * time.Minute
	readWithin   = 3 * time.Minute
	stopWithin   = 2 * time.Minute
	framesWithin = time.Minute
)

// clocksApart bounds how far the clocks of broker and clients are apart, jumps aside.
const clocksApart = 10 * time.Second

// readyPoll is how often a server that starts is looked at.
const readyPoll = 5 * time.Millisecond

// watchReady runs the guards' comparison as soon as the incarnations serve.
func (r *Run) watchReady() {
	for _, s := range r.servers {
		s.watchReady()
	}
}

// settle is what follows the safety phase: heal, require progress, stop, judge.
func (r *Run) settle(w *Workload) {
	if r.over() {
		r.complain()
		return
	}
	r.World.Phase("liveness")
	r.stopped = true
	r.heal()
	if !r.require("the broker serves", readyWithin, r.serving) {
		return
	}
	if w != nil && !r.require("every client gets its answers", finishWithin, r.mended(w.Done)) {
		return
	}
	if !r.drain() {
		return
	}
	final, ok := r.readAll()
	if !ok {
		return
	}
	topics, ok := r.readCatalog()
	if !ok {
		r.complain()
		return
	}
	r.World.Phase("judgement")
	if !r.stopCleanly() {
		r.complain()
		return
	}
	r.guard.Reader, r.guard.Final = final, true
	r.guard.ProducersExpire = r.Config.ProducerIDExpirationMs <= r.World.Now().Sub(0).Milliseconds()+r.Broker.JumpedMs()+clocksApart.Milliseconds()
	r.guard.StartsKept = !r.servers[0].forgotStarts()
	r.verdict.Merge(r.guard.Verdict())
	r.guard.judgeCatalog(topics)
}

// complain takes over what clients saw.
func (r *Run) complain() {
	_, _, _, v := r.Rec.Take()
	r.verdict.Merge(v)
}

// heal ends every fault and brings the broker back.
func (r *Run) heal() {
	r.World.Net.HealAll()
	r.World.Net.SetConfig(simnet.Calm())
	r.World.Sched.SetConfig(sched.Calm())
	for _, s := range r.servers {
		s.Disk.CalmDown()
		s.Disk.SetCapacity(diskBytes)
		s.Resume()
	}
}

// serving is polled while the servers are brought up.
func (r *Run) serving() bool {
	all := true
	for _, s := range r.servers {
		all = (s.gone || s.serving()) && all
	}
	return all
}

// broken reports whether a server lost a directory.
func (r *Run) broken() bool {
	return slices.ContainsFunc(r.servers, func(s *server) bool { return s.offline && !s.gone })
}

// mended is a condition that is asked while the broker serves. A call that was under way when
// the world was healed may still fail and take a directory offline: the operator restarts the
// broker then, but does not bring back one that ends without such a reason.
func (r *Run) mended(cond func() bool) func() bool {
	mending := false
	return func() bool {
		if mending = mending || r.broken(); mending {
			mending = !r.serving()
			return false
		}
		return cond()
	}
}

// require runs the world until the condition holds. What is pending after the limit is a
// failure with a name.
func (r *Run) require(what string, limit time.Duration, cond func() bool) bool {
	if r.World.Run(func() bool { return cond() || r.over() }, limit) && !r.over() {
		return true
	}
	if !r.over() {
		r.Failf("liveness", what, "not within %v after healing", limit)
		if f := r.World.Failure(); f == nil {
			for i := 1; i <= r.clients; i++ {
				if note, ok := r.Rec.Notes()[i]; ok {
					r.Failf("liveness", fmt.Sprintf("client%d", i), "was told last: %s", note)
				}
			}
			r.fates()
			r.verdict.Failf("liveness", "tasks", "\n%s", r.World.Sched.Dump())
		}
	}
	r.complain()
	return false
}

// fates says of each node that does not serve what became of it.
func (r *Run) fates() {
	for _, s := range r.servers {
		inc := s.Incarnation()
		switch {
		case inc == nil:
			r.Failf("liveness", s.Name, "is down")
		case !s.Up():
			_, err := inc.Ended()
			r.Failf("liveness", s.Name, "ended with: %v", err)
		case !s.Ready():
			r.Failf("liveness", s.Name, "runs and does not serve")
		case s.offline:
			r.Failf("liveness", s.Name, "has a directory offline")
		}
	}
}

// drain waits until the broker has read all that clients sent before they went: a request
// whose client needs no answer, or stopped waiting for it, may still be on its way, and what
// it appends is for the final reader to see. A connection whose client vanished is ended by
// keep-alive. A connection may also end before its last request does, which then takes a
// moment of a calm disk.
func (r *Run) drain() bool {
	// A fetch that a damaged request lets wait for days waits as long as a connection may be idle.
	idle := time.Duration(r.Config.ConnectionsMaxIdleMs) * time.Millisecond
	if !r.require("every connection ends", drainWithin+idle, r.mended(r.drained)) {
		return false
	}
	r.World.Run(r.over, time.Second)
	// Nodes go on asking each other, and hold what they are asked with.
	return r.cluster != nil || r.framesFreed()
}

// framesFreed waits until the memory of all requests is given back: nobody is connected, and
// what such a request still waited for is over by its deadline.
func (r *Run) framesFreed() bool {
	held := int64(0)
	if !r.World.Run(func() bool { held = r.Broker.FrameBytes(); return held == 0 || r.over() }, framesWithin) {
		r.Failf("clean-stop", "requests", "%d bytes of requests are held though nobody is connected", held)
		r.complain()
	}
	return !r.over() && held == 0
}

// drained reports whether no client is connected. Nodes stay connected to each other.
func (r *Run) drained() bool {
	for _, s := range r.servers {
		if r.cluster == nil && s.Connections() > 0 || s.ConnectionsFrom(func(name string) bool { return strings.HasPrefix(name, "client") }) > 0 {
			return false
		}
	}
	return true
}

// logEnds is where each log ends on the disk, by its number: its leader's, for a replica that has
// not heard of it yet may have a tail that will be cut. Nobody writes any more.
func (r *Run) logEnds() map[int]int64 {
	byName := make(map[string]int64)
	for _, s := range r.servers {
		for _, path := range s.guard.Dirs() {
			name := base(path)
			if r.cluster != nil {
				if p := r.cluster.ghost.quorum.State.Named(name); p == nil || p.Leader != s.id {
					continue
				}
			}
			byName[name] = max(byName[name], s.guard.ParseLogs(path).LogEndOffset())
		}
	}
	ends := make(map[int]int64)
	h, _, _, _ := r.Rec.Take()
	for i, p := range h.Partitions {
		ends[i] = byName[client.PartitionName(p)]
	}
	return ends
}

// readAll reads every partition from its start to its end with one client: the high watermark
// must come to the end of the log by itself.
func (r *Run) readAll() (id int, ok bool) {
	env, group := r.Env(20 * time.Second)
	c := &client.Consumer{Env: env, Topics: r.Topics, Version: 18, MaxWait: 100 * time.Millisecond, MinBytes: 1, MaxBytes: 1 << 20, ToEnd: true, Ends: r.logEnds()}
	done := false
	group.Go("final reader", func(t *task.T) {
		c.Run(t)
		done = true
	})
	again := r.World.Now().Add(5 * time.Second)
	return env.ID, r.require("every record can be read", readWithin, r.mended(func() bool {
		if now := r.World.Now(); now >= again && r.cluster != nil {
			// Another replica may lead by now, which has not all that nobody was told is committed.
			maps.Copy(c.Ends, r.logEnds())
			again = now.Add(5 * time.Second)
		}
		return done
	}))
}

// stopCleanly stops every node and looks for what it left behind.
func (r *Run) stopCleanly() bool {
	var incs []*sim.Incarnation
	for _, s := range r.servers {
		if inc := s.Incarnation(); inc != nil {
			incs = append(incs, inc)
			s.Stop()
		}
	}
	stopped := func() bool {
		for _, inc := range incs {
			if ended, _ := inc.Ended(); !ended || inc.Tasks() > 0 {
				return false
			}
		}
		return true
	}
	if !r.require("the brokers stop", stopWithin, stopped) {
		return false
	}
	for _, inc := range incs {
		name := inc.Machine.Name
		if _, err := inc.Ended(); err != nil {
			r.Failf("clean-stop", name, "stopped with %v", err)
		}
		if open := inc.OpenFiles(); len(open) > 0 {
			r.Failf("clean-stop", name, "%d files stay open: %v", len(open), open)
		}
	}
	for _, s := range r.servers {
		if !s.forgetful() {
			s.guard.stoppedWithin()
		}
	}
	return true
}
