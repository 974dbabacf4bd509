package scenarios

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/scenarios/client"
)

// steadily lets time pass, in which nobody else may begin to lead the quorum.
func (s *tale) steadily(d time.Duration, why string) {
	epoch := s.quorumEpoch()
	for until := s.World.Now().Add(d); s.World.Now() < until && !s.failed; {
		s.wait(20 * time.Millisecond)
		now := s.quorumEpoch()
		s.must(now == epoch, "R12", "the quorum went from epoch %d to %d: %s", epoch, now, why)
	}
}

func (s *tale) quorumEpoch() int32 {
	s.cluster.ghost.look()
	return s.cluster.ghost.quorum.Epoch()
}

// deafVoter is KIP-996: a voter that does not hear the leader wants to lead, and the voter that
// it reaches hears the leader and is not for it. The leader goes on.
func deafVoter(r *Run) {
	tellCluster(r, six(1), func(s *tale) {
		c := s.leads(func(c *server) bool { return true })
		if s.failed {
			return
		}
		s.makes("one")
		s.apart(s.others(c)[0], c.id)
		s.steadily(8*time.Second, "a voter was for another leader than that which it hears")
		s.makes("two")
		s.together()
		s.steadily(3*time.Second, "a voter came back that was cut off from the leader")
	})
}

// installingVoter is KIP-630: a voter that fetches a snapshot does not fetch the log, and its
// leader hears it all the same. The story fetches in its place, as long as it takes a slow one.
func installingVoter(r *Run) {
	r.Set("metadata.log.max.record.bytes.between.snapshots", "4000")
	tellCluster(r, six(1), func(s *tale) {
		c := s.leads(func(c *server) bool { return true })
		if s.failed {
			return
		}
		for i := 0; i < 200 && s.newestSnapshot(c) == nil && !s.failed; i++ {
			s.makes(fmt.Sprintf("t%d", i))
		}
		away, installs := s.others(c)[0], s.others(c)[1]
		s.kill(away)
		done := false
		group := s.installs(c, installs, &done)
		s.apart(installs, c.id)
		s.steadily(6*time.Second, "the leader gave up, though a majority is there with it")
		s.together()
		s.steadily(2*time.Second, "the voter that installed a snapshot came back")
		done = true
		s.until("the fetching ends", 5*time.Second, func() bool { return group() == 0 })
		s.start(away)
		s.makes("last")
	})
}

// installs fetches the first piece of a leader's newest snapshot for a voter, again and again.
func (s *tale) installs(leader *server, voter int32, done *bool) (left func() int) {
	e, group := s.Env(time.Second)
	group.Go("install", func(t *task.T) {
		p := client.OpenAt(t, &e, leader.Name+":9093")
		defer p.Close()
		for !*done && !s.over() {
			req := s.newestSnapshot(leader)
			req.ReplicaID = voter
			resp, err := p.Call(t, req)
			if s.ok(err, "fetch a snapshot") {
				code := resp.(*kmsg.FetchSnapshotResponse).Topics[0].Partitions[0].ErrorCode
				s.must(code == 0, "R12", "who fetches a snapshot all the time is told %s", client.CodeName(code))
			}
			t.Sleep(t.Now().Add(200 * time.Millisecond))
		}
	})
	return group.Len
}

// newestSnapshot asks for the newest snapshot of the metadata that a server has, nil if it has
// none.
func (s *tale) newestSnapshot(n *server) *kmsg.FetchSnapshotRequest {
	name := ""
	for _, info := range n.Disk.List(n.guard.LogDirs[0] + "/" + metadataDir) { // in the order of names
		if base, ok := strings.CutSuffix(info.Name, ".checkpoint"); ok && len(base) == 31 {
			name = base
		}
	}
	if name == "" {
		return nil
	}
	end, _ := strconv.ParseInt(name[:20], 10, 64)
	epoch, _ := strconv.ParseInt(name[21:], 10, 32)
	req := kmsg.NewPtrFetchSnapshotRequest()
	req.MaxBytes = 1 << 10
	part := kmsg.NewFetchSnapshotRequestTopicPartition()
	part.CurrentLeaderEpoch = s.quorumEpoch()
	part.SnapshotID.EndOffset, part.SnapshotID.Epoch = end, int32(epoch)
	rt := kmsg.NewFetchSnapshotRequestTopic()
	rt.Topic = "__cluster_metadata"
	rt.Partitions = append(rt.Partitions, part)
	req.Topics = append(req.Topics, rt)
	return req
}

// shutdownOfTwoControllers is SPEC R10 over a change of the controller: the next one waits, too,
// until every broker has read who leads instead of the one that stops.
func shutdownOfTwoControllers(r *Run) {
	r.Set("broker.session.timeout.ms", "9000")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("handed", []int32{4, 5, 6})
		s.produce(4, topic, -1, 10, nil)
		late := s.register(77)
		late.reports(late.epoch)
		inc := s.node(4).Incarnation()
		s.node(4).Stop()
		s.until("leadership moves", 20*time.Second, func() bool { return s.partition(topic).Leader != 4 })
		old := s.cluster.controller()
		s.moveController(old, nil)
		s.wait(4 * time.Second)
		ended, _ := inc.Ended()
		s.must(!ended, "R10", "the node has stopped, and a broker has not read yet who leads instead")
		late.reports(1 << 40)
		s.stopped(4, inc)
		s.start(4)
		s.equal(topic, 10)
	})
}

// patientLeader is SPEC R3 for who has just begun to lead: a member of the ISR that it has not
// heard of has as long as any other.
func patientLeader(r *Run) {
	const lag = 10 * time.Second
	r.Set("replica.lag.time.max.ms", strconv.FormatInt(lag.Milliseconds(), 10))
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("patient", []int32{4, 5, 6})
		s.produce(4, topic, -1, 10, nil)
		s.apart(6, 5)
		s.kill(4)
		s.led(topic, 5)
		for until := s.World.Now().Add(lag - time.Second); s.World.Now() < until && !s.failed; {
			s.wait(20 * time.Millisecond)
			p := s.partition(topic)
			s.must(len(p.ISR) == 2, "R3", "node 5 leads since less than %v, and the ISR is %v", lag, p.ISR)
		}
		s.isr(topic, 1)
		s.together()
		s.start(4)
		s.equal(topic, 10)
	})
}
