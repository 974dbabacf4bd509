package scenarios

import (
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/scenarios/client"
	"seedlog/sim/simdisk"
)

// twoDirs are the directories that replicas move between.
var twoDirs = []string{"/data", "/more"}

// place is where a server has the partition: the directory of its log, whether there is a
// copy elsewhere, and how many logs there are.
func (s *server) place(name string) (dir string, copied bool, logs int) {
	for _, d := range twoDirs {
		for _, info := range s.Disk.List(d) {
			switch {
			case info.Name == name:
				dir, logs = d, logs+1
			case strings.HasPrefix(info.Name, name+".") && strings.HasSuffix(info.Name, "-future"):
				copied = true
			}
		}
	}
	return dir, copied, logs
}

func otherDir(dir string) string {
	if dir == twoDirs[0] {
		return twoDirs[1]
	}
	return twoDirs[0]
}

// move asks a broker to have its replica of partition 0 moved.
func (s *story) move(t *task.T, p *client.Plain, topic *client.Topic, to string) {
	req := kmsg.NewPtrAlterReplicaLogDirsRequest()
	req.Version = 2
	rt := kmsg.NewAlterReplicaLogDirsRequestDirTopic()
	rt.Topic, rt.Partitions = topic.Name, []int32{0}
	d := kmsg.NewAlterReplicaLogDirsRequestDir()
	d.Dir, d.Topics = to, append(d.Topics, rt)
	req.Dirs = append(req.Dirs, d)
	resp, err := p.Call(t, req)
	if !s.ok(err, "AlterReplicaLogDirs") {
		return
	}
	r := resp.(*kmsg.AlterReplicaLogDirsResponse)
	if s.must(len(r.Topics) == 1 && len(r.Topics[0].Partitions) == 1, "codes", "AlterReplicaLogDirs answers %+v", r) {
		s.code(r.Topics[0].Partitions[0].ErrorCode, nil, "AlterReplicaLogDirs")
	}
}

// movedReplica moves the only copy of a topic to and fro while it is written to, and ends the
// process at a drawn moment in the midst of it, by kill or with the power. What was acknowledged as
// synced is there, once, and the move goes on.
func movedReplica(r *Run) {
	r.Set("log.dirs", strings.Join(twoDirs, ","))
	r.Set("log.segment.delete.delay.ms", "1000")
	rng := r.Rand("moved")
	tell(r, func(s *story) {
		topic := s.topic("t", 1, [2]string{"flush.messages", "1"}, [2]string{"internal.segment.bytes", "3000"}, [2]string{"index.interval.bytes", "200"})
		b, written := s.server(s.Broker), int64(0)
		fill := func(n int) {
			s.fill(topic, n)
			written += int64(2 * n)
		}
		fill(10)
		for range 12 {
			dir, _, _ := b.place("t-0")
			s.client("move", func(t *task.T, p *client.Plain) { s.move(t, p, topic, otherDir(dir)) })
			if rng.IntN(2) == 0 {
				fill(1 + rng.IntN(5))
			}
			s.wait(drawn(rng, 100*time.Microsecond, 100*time.Millisecond))
			s.Broker.Disk.SetPower(simdisk.Power{None: 1, Prefix: 1, Holes: 1, SizeAhead: 300, Garbage: 300})
			if s.failed || !s.crash(rng.IntN(3) > 0) {
				return
			}
			s.must(s.end(topic) == written, "I16", "a synced log of %d ends at %d after a crash while it moved", written, s.end(topic))
			if _, _, logs := b.place("t-0"); !s.must(logs == 1, "I32", "the replica is in %d directories", logs) {
				return
			}
			fill(1 + rng.IntN(5))
		}
		s.moved(b, topic, func() bool { _, copied, _ := b.place("t-0"); return !copied })
		dir, _, _ := b.place("t-0")
		s.client("move", func(t *task.T, p *client.Plain) { s.move(t, p, topic, otherDir(dir)) })
		s.moved(b, topic, func() bool { now, copied, _ := b.place("t-0"); return now == otherDir(dir) && !copied })
		fill(3)
		if s.failed || !s.restart() {
			return
		}
		s.must(s.end(topic) == written, "I16", "a log of %d ends at %d after a clean stop", written, s.end(topic))
		s.must(s.World.Probes()["move-done"] > 0, "scenario", "nothing moved")
		if !s.failed && s.stop() {
			s.judgeDirs()
		}
	})
}

// moved waits until a move is over.
func (s *story) moved(b *server, topic *client.Topic, over func() bool) {
	if !s.failed {
		dir, copied, logs := b.place(topic.Name + "-0")
		s.must(s.World.Run(func() bool { return s.over() || over() }, 30*time.Second) && !s.over(), "liveness",
			"%s-0 moves and does not arrive: was in %s, copied %v, %d logs", topic.Name, dir, copied, logs)
	}
}

// movedFollower is KIP-101 for a copy: a leader that is cut off has records of its own, and a copy
// of them in another directory, when it hears of the next leader. What is cut off the log goes from
// the copy, which then takes its place, and has what the others have. The copy is made so slowly
// that it looks at the log before, and again when the log has grown past it.
func movedFollower(r *Run) {
	r.Set("log.dirs", strings.Join(twoDirs, ","))
	r.Set("replica.lag.time.max.ms", "60000")
	r.Set("replica.fetch.max.bytes", "1")
	r.Set("replica.alter.log.dirs.io.max.bytes.per.second", "125") // over ten seconds: fourteen batches
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("cut", []int32{4, 5, 6})
		s.produce(4, topic, -1, 10, nil)
		s.apart(4, 1, 2, 3, 5, 6)
		s.produce(4, topic, 1, 8, nil)
		dir, _, _ := s.node(4).place("cut-0")
		s.at(4, "move", func(t *task.T, p *client.Plain) { s.move(t, p, topic, otherDir(dir)) })
		s.wait(2 * time.Second)
		_, copied, _ := s.node(4).place("cut-0")
		s.must(copied, "scenario", "no copy is made")
		s.led(topic, 5, 6)
		s.produce(s.partition(topic).Leader, topic, -1, 12, nil)
		s.together()
		s.equal(topic, 22)
		s.until("the replica has moved", 2*time.Minute, func() bool {
			now, copied, logs := s.node(4).place("cut-0")
			return now == otherDir(dir) && !copied && logs == 1
		})
		s.produce(s.partition(topic).Leader, topic, -1, 3, nil)
		s.equal(topic, 25)
		s.must(s.World.Probes()["copy-diverged"] > 0, "scenario", "the copy was not cut")
	})
}

// unreadableDirectory is a directory whose identity cannot be read when its broker starts. The
// broker serves what is in the other, and has no part in the rest, which is led and held in sync
// elsewhere; when it comes back with the directory, it has what the others have.
func unreadableDirectory(r *Run) {
	r.Set("log.dirs", strings.Join(twoDirs, ","))
	tellCluster(r, six(1), func(s *tale) {
		b := s.node(6)
		in := map[string]*client.Topic{} // by where 6 has the log
		for _, name := range []string{"a", "b", "c"} {
			topic := s.replicated(name, []int32{6, 4, 5})
			dir, _, _ := b.place(name + "-0")
			in[dir] = topic
			s.produce(6, topic, -1, 3, nil)
		}
		here, away := in[twoDirs[0]], in[twoDirs[1]]
		if !s.must(here != nil && away != nil, "scenario", "all logs are in one directory") || !s.stopNode(6) {
			return
		}
		fault := b.Disk.Arm(&simdisk.Injection{Fault: simdisk.ReadError, Match: func(path string) bool {
			return path == twoDirs[1]+"/meta.properties"
		}})
		if !s.must(s.start(6), "S11", "6 does not serve without a directory: %v", s.ended()) {
			return
		}
		s.must(fault.Fired, "scenario", "nothing of %s was read", twoDirs[1])
		s.isr(here, 3)
		s.led(away, 4, 5)
		leader := s.partition(away).Leader
		s.produce(leader, away, -1, 3, nil)
		s.produce(s.partition(here).Leader, here, -1, 3, nil)
		s.wait(5 * time.Second)
		s.must(len(s.partition(away).ISR) == 2, "I8", "the ISR is %v, and 6 has lost the directory", s.partition(away).ISR)
		s.equal(here, 6)
		s.kill(6)
		s.start(6)
		s.equal(away, 6)
		s.equal(here, 6)
	})
}

// lostDirectory is a directory that fails by a write to one of its logs, while a fetch for another
// waits at its leader. That replica leaves the ISR and stays outside, though the fetch is answered
// later and had everything; when the broker comes back with the directory, it has what the others
// have.
func lostDirectory(r *Run) {
	r.Set("log.dirs", strings.Join(twoDirs, ","))
	tellCluster(r, six(1), func(s *tale) {
		b := s.node(6)
		var idle, busy *client.Topic
		for _, name := range []string{"a1", "b1", "b2", "a2", "a3", "b3"} { // a's are led by 4, b's by 5
			topic := s.replicated(name, map[byte][]int32{'a': {4, 5, 6}, 'b': {5, 4, 6}}[name[0]])
			if dir, _, _ := b.place(name + "-0"); dir != twoDirs[1] {
				continue // the metadata log's is not to fail
			}
			if name[0] == 'a' {
				idle = topic
			} else {
				busy = topic
			}
		}
		if !s.must(idle != nil && busy != nil, "scenario", "no two logs in one directory") {
			return
		}
		s.produce(4, idle, -1, 3, nil)
		s.produce(5, busy, -1, 3, nil)
		in := b.Disk.Arm(&simdisk.Injection{Fault: simdisk.WriteError, Match: func(path string) bool {
			return strings.HasPrefix(path, twoDirs[1]+"/"+busy.Name+"-0/") && strings.HasSuffix(path, ".log")
		}})
		s.produce(5, busy, 1, 1, nil)
		s.until("the directory fails", 10*time.Second, func() bool { return in.Fired })
		s.isr(idle, 2)
		s.isr(busy, 2)
		s.wait(5 * time.Second)
		s.must(len(s.partition(idle).ISR) == 2, "I8", "the ISR is %v, and 6 has lost the directory", s.partition(idle).ISR)
		s.must(b.Up(), "I34", "the process ended: %v", s.ended())
		s.kill(6)
		s.start(6)
		s.produce(4, idle, -1, 3, nil)
		s.equal(idle, 6)
		s.equal(busy, 4)
	})
}

// addedBesideLost is SPEC R9 for a broker that has lost one of three directories: a replica that is
// added to it is made in one of the others, and the reassignment ends.
func addedBesideLost(r *Run) {
	r.Set("log.dirs", strings.Join(append(slices.Clone(twoDirs), "/third"), ","))
	tellCluster(r, six(1), func(s *tale) {
		b := s.node(6)
		added := s.replicated("added", []int32{4, 5})
		s.produce(4, added, -1, 5, nil)
		var lost *client.Topic
		for _, name := range []string{"a", "b", "c"} {
			topic := s.replicated(name, []int32{5, 6})
			if dir, _, _ := b.place(name + "-0"); dir == twoDirs[1] { // the metadata log's is not to fail
				lost = topic
			}
		}
		if !s.must(lost != nil, "scenario", "no log is in %s", twoDirs[1]) {
			return
		}
		in := b.Disk.Arm(&simdisk.Injection{Fault: simdisk.WriteError, Match: func(path string) bool {
			return strings.HasPrefix(path, twoDirs[1]+"/"+lost.Name+"-0/") && strings.HasSuffix(path, ".log")
		}})
		s.produce(5, lost, 1, 1, nil)
		s.until("the directory fails", 10*time.Second, func() bool { return in.Fired })
		s.isr(lost, 1)
		s.assign(added, []int32{4, 6})
		s.until("it ends", time.Minute, func() bool {
			p := s.partition(added)
			return len(p.Adding)+len(p.Removing) == 0 && slices.Equal(p.Replicas, []int32{4, 6})
		})
		s.kill(6)
		s.start(6)
		s.produce(4, added, -1, 3, nil)
		s.equal(added, 8)
		s.equal(lost, 1)
	})
}

// withoutDirectory is KIP-858 and KIP-966 for a broker that stops cleanly and comes back without one
// of its directories, which it was told is not its any more. What it had there nobody may count on:
// it is no eligible leader of that, and does not lead though nobody else is there.
func withoutDirectory(r *Run) {
	r.Set("log.dirs", strings.Join(twoDirs, ","))
	tellCluster(r, six(1), func(s *tale) {
		b := s.node(6)
		var topic *client.Topic
		dir := twoDirs[0] // which has the metadata log, and is not to go
		for _, name := range []string{"a", "b", "c"} {
			if topic = s.replicated(name, []int32{4, 6}, [2]string{"min.insync.replicas", "2"}); s.failed {
				return
			}
			if dir, _, _ = b.place(name + "-0"); dir == twoDirs[1] {
				break
			}
		}
		s.must(dir == twoDirs[1], "scenario", "no log is in %s", twoDirs[1])
		s.produce(4, topic, -1, 10, nil)
		s.stopNode(6)
		s.isr(topic, 1)
		if s.failed {
			return
		}
		p := s.partition(topic)
		s.must(slices.Equal(p.ELR, []int32{6}), "I8", "eligible are %v, the ISR is %v", p.ELR, p.ISR)
		s.apart(6, 4)
		b.props["log.dirs"] = twoDirs[0]
		s.cluster.ghost.withdrawn(b, twoDirs[1])
		s.start(6)
		p = s.partition(topic)
		s.must(!slices.Contains(p.ELR, 6), "I8", "node 6 came back without its records, and eligible are %v", p.ELR)
		s.stopNode(4)
		s.wait(3 * time.Second)
		p = s.partition(topic)
		s.must(p.Leader == -1, "I3", "node %d leads: the ISR is %v, eligible are %v, and node 6 has nothing", p.Leader, p.ISR, p.ELR)
		s.together()
		s.start(4)
		s.led(topic, 4)
		s.isr(topic, 2)
		s.equal(topic, 10)
	})
}

// unfinishedMove is KIP-858: the controller has heard where the replica is about to be, and the
// broker ends before it is there, and starts without the directory where it is. The copy is not the
// replica, and nor is an empty log in its place.
func unfinishedMove(r *Run) {
	r.Set("log.dirs", strings.Join(twoDirs, ","))
	tell(r, func(s *story) {
		topic, b := s.topic("t", 1), s.server(s.Broker)
		s.fill(topic, 5)
		if dir, _, _ := b.place("t-0"); dir == twoDirs[0] { // where the metadata log is
			s.client("move away", func(t *task.T, p *client.Plain) { s.move(t, p, topic, twoDirs[1]) })
			s.moved(b, topic, func() bool { now, copied, _ := b.place("t-0"); return now == twoDirs[1] && !copied })
		}
		s.Broker.Disk.HoldFor(simdisk.OpSync, time.Minute, func(path string) bool { return strings.Contains(path, "-future/") && strings.HasSuffix(path, ".log") })
		s.client("move", func(t *task.T, p *client.Plain) { s.move(t, p, topic, twoDirs[0]) })
		s.wait(5 * time.Second)
		dir, copied, logs := b.place("t-0")
		if !s.must(dir == twoDirs[1] && copied && logs == 1, "scenario", "the log is in %s, copied %v", dir, copied) {
			return
		}
		s.down(false)
		s.Broker.Disk.HoldFor(simdisk.OpSync, 0, nil)
		in := s.Broker.Disk.Arm(&simdisk.Injection{Fault: simdisk.ReadError, Match: func(path string) bool {
			return path == twoDirs[1]+"/meta.properties"
		}})
		if !s.boot() {
			return
		}
		produce := func(what string, want *kerr.Error) {
			s.client(what, func(t *task.T, p *client.Plain) {
				a, err := p.Produce(t, topic, 0, 9, -1, batch(t.UnixMilli(), nobody, 1, 100, 0))
				for i := 0; err == nil && a.Code == kerr.NotLeaderForPartition.Code && i < 100; i++ { // it has just come back
					t.Sleep(t.Now().Add(50 * time.Millisecond))
					a, err = p.Produce(t, topic, 0, 9, -1, batch(t.UnixMilli(), nobody, 1, 100, 0))
				}
				if s.ok(err, what) && s.code(a.Code, want, what) {
					s.must(a.Code != 0 || a.Base == 10, "I4", "the partition takes offset %d, and 10 records were acknowledged", a.Base)
				}
			})
		}
		produce("without the directory", kerr.KafkaStorageError)
		s.must(in.Fired, "scenario", "nothing of %s was read", twoDirs[1])
		if !s.failed && s.crash(false) {
			produce("with the directory", nil)
			s.moved(b, topic, func() bool { now, copied, _ := b.place("t-0"); return now == twoDirs[0] && !copied })
			s.must(s.end(topic) == 11, "I4", "a log of 11 ends at %d where it moved", s.end(topic))
		}
	})
}
