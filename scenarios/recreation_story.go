package scenarios

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/event"
	"seedlog/scenarios/client"
	"seedlog/sim/simdisk"
)

// recreationCycles is how often a run of the story makes a topic and deletes it.
const recreationCycles = 200

// recreation is BUGS B77 at large: topics of a few names are made, written to, deleted and made
// again while nodes are killed, lose power, stop and come back. In the end the directories are
// those of the replicas that there are, and nothing else is open.
func recreation(r *Run) {
	rng := r.Rand("recreation")
	r.Set("log.segment.delete.delay.ms", strconv.FormatInt(drawn[int64](rng, 1, 3000), 10))
	r.Set("metadata.log.max.record.bytes.between.snapshots", strconv.FormatInt(drawn[int64](rng, 300, 20<<10), 10))
	tellCluster(r, shape{nodes: 3, voters: 3, elr: 1}, func(s *tale) {
		x := &recreating{tale: s, rng: rng, names: []string{"again", "anew", "once-more"}}
		x.strike()
		s.failed = !s.Do("make topics and delete them", 30*time.Minute, x.cycles)
		r.stopped = true
		r.heal()
		if s.failed || !r.require("every node serves", readyWithin, r.serving) || !r.requireThat("every partition is whole", wholeWithin, r.cluster.whole) {
			s.failed = true
			return
		}
		x.clean()
	})
}

// recreating is the story while it is told.
type recreating struct {
	*tale
	rng   *rand.Rand
	names []string
}

// strike ends a node, one way or another, and does so again until the run is stopped.
func (x *recreating) strike() {
	p := &plan{r: x.Run}
	ways := slices.DeleteFunc(append(p.machineClasses(), x.moreClasses(p)...), func(c *class) bool {
		return !slices.Contains([]string{"kill", "power-loss", "kill-in-recovery", "clean-restart", "kill-several"}, c.name)
	})
	for _, c := range ways {
		x.enable(c.name)
	}
	rng := x.Rand("recreation/strikes")
	var next func()
	next = func() {
		c := ways[rng.IntN(len(ways))]
		if fired, effective := c.once(rng); fired {
			x.count(c.name, effective)
		}
		p.after(drawn(rng, 100*time.Millisecond, 5*time.Second), next)
	}
	p.after(time.Second, next)
	p.supervise()
	// What a snapshot says nothing of must be done when it is there.
	x.onEvent = func(s *server, e event.Event) {
		if e.Name() == "metadata-snapshot" && rng.IntN(8) == 0 {
			p.after(0, func() {
				if s.Up() {
					p.down(s, false)
				}
			})
		}
	}
}

// cycles makes and deletes topics. What it leaves of them is drawn.
func (x *recreating) cycles(t *task.T, e *client.Env) {
	for i := range recreationCycles {
		topic := &client.Topic{Name: x.names[x.rng.IntN(len(x.names))], Partitions: 1 + x.rng.Int32N(3), Replication: 3}
		x.insist(t, e, topic, x.create)
		for index := range topic.Partitions {
			x.write(t, e, topic, index)
		}
		t.Sleep(t.Now().Add(drawn(x.rng, time.Millisecond, time.Second)))
		if i < recreationCycles-len(x.names) || i < recreationCycles-1 && x.rng.IntN(2) == 0 {
			x.insist(t, e, topic, x.remove)
		}
	}
}

// insist asks until the answer says that it is so.
func (x *recreating) insist(t *task.T, e *client.Env, topic *client.Topic, ask func(*task.T, *client.Plain, *client.Topic) bool) {
	for done := false; !done && !t.Stopping(); {
		p := client.Open(t, e)
		if done = ask(t, p, topic); !done {
			t.Sleep(t.Now().Add(100 * time.Millisecond))
		}
		p.Close()
	}
}

func (x *recreating) create(t *task.T, p *client.Plain, topic *client.Topic) bool {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 5000
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic.Name, topic.Partitions, topic.Replication
	req.Topics = append(req.Topics, rt)
	resp, err := p.Call(t, req)
	if err != nil {
		return false
	}
	switch a := resp.(*kmsg.CreateTopicsResponse).Topics[0]; a.ErrorCode {
	case 0:
		topic.ID = a.TopicID
		return true
	case kerr.TopicAlreadyExists.Code:
		return true
	}
	return false // too few nodes are up
}

// write asks one node after the other to take records, until one leads: what matters is that
// there are some.
func (x *recreating) write(t *task.T, e *client.Env, topic *client.Topic, index int32) {
	for _, s := range x.servers {
		conn, err := client.Dial(t, e.Net, s.Addr(), e.Name, t.Now().Add(time.Second))
		if err != nil {
			continue
		}
		p := &client.Plain{Env: e, Conn: conn, Within: time.Second}
		a, err := p.Produce(t, topic, index, 9, 1, batch(t.UnixMilli(), nobody, 2, 100, 0))
		p.Close()
		if err == nil && a.Code == 0 {
			x.World.Probe("recreated-topic-written")
			return
		}
	}
}

func (x *recreating) remove(t *task.T, p *client.Plain, topic *client.Topic) bool {
	code, err := p.Delete(t, topic.Name)
	return err == nil && (code == 0 || code == kerr.UnknownTopicOrPartition.Code)
}

// clean looks at what is left, when everything that is deleted has had the time to go.
func (x *recreating) clean() {
	var litter []string
	for range 18 {
		if litter = x.litter(); len(litter) == 0 {
			break
		}
		x.wait(10 * time.Second)
	}
	if !x.must(len(litter) == 0, "I32", "left behind are %d: %q", len(litter), litter) {
		return
	}
	topics, ok := x.readCatalog()
	if !x.must(ok && x.stopCleanly(), "scenario", "the end") {
		return
	}
	x.cluster.ghost.check()
	x.cluster.judgeCatalog(topics)
}

// litter is what is on the disks, or open, and belongs to no replica.
func (x *recreating) litter() (out []string) {
	x.cluster.ghost.look()
	for _, s := range x.servers {
		owned := map[string]bool{}
		for _, dir := range s.guard.LogDirs {
			owned[dir] = true
			for _, info := range s.Disk.List(dir) {
				path := dir + "/" + info.Name
				p := x.cluster.ghost.quorum.State.Named(info.Name)
				owned[path] = info.Name == metadataDir || p != nil && slices.Contains(p.Replicas, s.id)
				if info.Dir && !owned[path] {
					out = append(out, s.where(path))
				}
			}
		}
		s.Disk.Walk(func(path string, _ int64) {
			if strings.HasSuffix(path, ".deleted") {
				out = append(out, s.where(path))
			}
		})
		open := s.Incarnation().OpenNow()
		for i, path := range open {
			if !owned[parent(path)] || i > 0 && open[i-1] == path {
				out = append(out, fmt.Sprintf("%s is open", s.where(path)))
			}
		}
	}
	return out
}

// unseenDeletion is a topic's deletion that a broker has replayed and not seen to when a
// snapshot of the leader takes the place of its metadata log and it is killed: a slow disk takes
// its time to delete many directories. They are no strays to its next life.
func unseenDeletion(r *Run) {
	r.Set("log.segment.delete.delay.ms", "1")
	r.Set("metadata.log.max.record.bytes.between.snapshots", "1000")
	installed := false
	r.onEvent = func(s *server, e event.Event) {
		installed = installed || s.id == 6 && e.Name() == "metadata-snapshot-installed"
	}
	tellCluster(r, six(1), func(s *tale) {
		many := &client.Topic{Name: "many", Partitions: 60, Replication: 1, Assignment: slices.Repeat([][]int32{{6}}, 60)}
		disk := s.node(6).Disk
		left := func() (n int) {
			for _, info := range disk.List("/data") {
				if strings.HasPrefix(info.Name, "many-") && !strings.HasSuffix(info.Name, "-delete") {
					n++
				}
			}
			return n
		}
		s.failed = s.failed || !s.CreateTopic(many, nil)
		s.until("the replicas are there", time.Minute, func() bool { return left() == 60 })
		disk.SetRate(simdisk.Slow, 1, func(path string) bool { return path == "/data" })
		s.deletes(4, "many")
		s.until("their deletion has begun", time.Minute, func() bool { return left() < 60 })
		s.apart(6, 1, 2, 3)
		for i := range 20 {
			s.makes(fmt.Sprint("more-", i))
		}
		installed = false
		s.together()
		s.until("the leader's snapshot is there", time.Minute, func() bool { return installed })
		if !s.must(left() > 0, "scenario", "all is deleted before it matters") {
			return
		}
		s.kill(6)
		disk.SetRate(simdisk.Slow, 0, nil)
		s.start(6)
		s.wait(5 * time.Second)
		s.must(left() == 0, "I32", "%d directories of a topic that was deleted are left", left())
	})
}

// missedSettings are changed while a broker is cut off, and come to it within a snapshot of the
// leader: in the record that it missed they were, and in the snapshot is only what they are. A
// replica that it had all the time works by the new ones from then on.
func missedSettings(r *Run) {
	r.Set("metadata.log.max.record.bytes.between.snapshots", "1000")
	installed := false
	r.onEvent = func(s *server, e event.Event) {
		installed = installed || s.id == 6 && e.Name() == "metadata-snapshot-installed"
	}
	tellCluster(r, six(1), func(s *tale) {
		set := s.replicated("set", []int32{6}, [2]string{"max.message.bytes", "60"})
		removed := s.replicated("removed", []int32{6}, [2]string{"max.message.bytes", "60"})
		s.alter(kmsg.ConfigResourceTypeTopic, set.Name, [2]string{"max.message.bytes", "1000"})
		s.wait(time.Second)
		s.produce(6, set, -1, 1, nil)
		s.produce(6, removed, -1, 1, kerr.MessageTooLarge)
		s.apart(6, 1, 2, 3)
		s.at(4, "alter", func(t *task.T, p *client.Plain) {
			s.alterBy(t, p, kmsg.ConfigResourceTypeTopic, set.Name, [2]string{"max.message.bytes", "60"})
			s.alterBy(t, p, kmsg.ConfigResourceTypeTopic, removed.Name, [2]string{"max.message.bytes", "1000"})
		})
		for i := range 20 {
			s.makes(fmt.Sprint("more-", i))
		}
		installed = false
		s.together()
		s.until("the leader's snapshot is there", time.Minute, func() bool { return installed })
		s.led(set, 6)
		s.led(removed, 6)
		s.wait(5 * time.Second)
		s.produce(6, set, -1, 1, kerr.MessageTooLarge)
		s.produce(6, removed, -1, 1, nil)
	})
}
