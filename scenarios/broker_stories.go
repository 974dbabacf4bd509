package scenarios

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/meta"
	"seedlog/scenarios/client"
)

// impostor is a broker without a process: it is registered, and reports what the story says.
type impostor struct {
	s     *tale
	id    int32
	epoch int64
}

// register has a new broker known to the controller, which is fenced at first.
func (s *tale) register(id int32) *impostor {
	b := &impostor{s: s, id: id, epoch: -1}
	s.control("register", func(ask func(kmsg.Request) kmsg.Response) {
		if resp, ok := ask(registration(id)).(*kmsg.BrokerRegistrationResponse); ok && s.code(resp.ErrorCode, nil, "register") {
			b.epoch = resp.BrokerEpoch
		}
	})
	return b
}

// registration is that of a broker without a process.
func registration(id int32) *kmsg.BrokerRegistrationRequest {
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.Version, req.BrokerID, req.ClusterID, req.PreviousBrokerEpoch = 4, id, clusterID, -1
	req.IncarnationID[0], req.IncarnationID[15] = 1, byte(id)
	dir := [16]byte{0: 2, 15: byte(id)}
	req.LogDirs = append(req.LogDirs, dir)
	l := kmsg.NewBrokerRegistrationRequestListener()
	l.Name, l.Host, l.Port = "PLAINTEXT", "nowhere", 9092
	req.Listeners = append(req.Listeners, l)
	for _, f := range meta.SupportedFeatures() {
		rf := kmsg.NewBrokerRegistrationRequestFeature()
		rf.Name, rf.MinSupportedVersion, rf.MaxSupportedVersion = f.Name, f.Min, f.Max
		req.Features = append(req.Features, rf)
	}
	return req
}

// reports that the broker has read the metadata up to an offset, and returns whether it is fenced.
func (b *impostor) reports(offset int64) (fenced bool) {
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.Version, req.BrokerID, req.BrokerEpoch, req.CurrentMetadataOffset = 1, b.id, b.epoch, offset
	b.s.control("heartbeat", func(ask func(kmsg.Request) kmsg.Response) {
		if resp, ok := ask(req).(*kmsg.BrokerHeartbeatResponse); ok && b.s.code(resp.ErrorCode, nil, "heartbeat") {
			fenced = resp.IsFenced
		}
	})
	return fenced
}

// control talks to the active controller on its own listener. What it is asked is answered, or
// the story has failed and the answer is nil.
func (s *tale) control(what string, fn func(ask func(kmsg.Request) kmsg.Response)) {
	c := s.cluster.controller()
	if s.failed || !s.must(c != nil, "scenario", "there is no controller") {
		return
	}
	ok := s.Do(what, time.Minute, func(t *task.T, e *client.Env) {
		conn := client.OpenAt(t, e, c.Name+":9093")
		defer conn.Close()
		fn(func(req kmsg.Request) kmsg.Response {
			resp, err := conn.Call(t, req)
			if !s.ok(err, what) {
				return nil
			}
			return resp
		})
	})
	s.failed = s.failed || !ok
}

// laggingBrokers: whoever has not read the metadata is waited for. A broker is unfenced when it
// knows of its own registration, not before; and one that stops goes on until every other has
// read who leads instead.
func laggingBrokers(r *Run) {
	r.Set("broker.session.timeout.ms", "9000")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("lagging", []int32{4, 5, 6})
		s.produce(4, topic, -1, 10, nil)
		late := s.register(77)
		s.must(late.reports(-1), "I31", "a broker that has read nothing is unfenced")
		s.must(late.reports(late.epoch-1), "I31", "a broker that has read nothing of its registration is unfenced")
		s.must(!late.reports(late.epoch), "liveness", "a broker that has read its registration stays fenced")
		inc := s.node(4).Incarnation()
		s.node(4).Stop()
		s.until("leadership moves", 20*time.Second, func() bool { return s.partition(topic).Leader != 4 })
		s.wait(2 * time.Second)
		ended, _ := inc.Ended()
		s.must(!ended, "R10", "the node has stopped, and a broker has not read yet who leads instead")
		late.reports(1 << 40)
		s.stopped(4, inc)
		s.produce(s.partition(topic).Leader, topic, -1, 10, nil)
		s.start(4)
		s.equal(topic, 20)
	})
}

// uncleanlyStopped is KIP-966: who comes back without having stopped cleanly may have lost what
// it had. It is no eligible leader any more, though it was one when it left.
func uncleanlyStopped(r *Run) { stoppedUncleanly(r, "false") }

// uncleanlyLed is the same where an unclean election is allowed: the one that may have lost
// something leads at once, and as who is no member.
func uncleanlyLed(r *Run) { stoppedUncleanly(r, "true") }

func stoppedUncleanly(r *Run, allowed string) {
	r.Set("replica.lag.time.max.ms", "1000")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("unsure", []int32{4, 5, 6}, [2]string{"min.insync.replicas", "2"}, [2]string{"unclean.leader.election.enable", allowed})
		s.produce(4, topic, -1, 10, nil)
		s.stopNode(6)
		s.isr(topic, 2)
		s.produce(4, topic, -1, 10, nil)
		s.power(5) // with all 20 records: nothing was synced
		s.isr(topic, 1)
		p := s.partition(topic)
		s.must(slices.Equal(p.ELR, []int32{5}), "I8", "eligible are %v, the ISR is %v", p.ELR, p.ISR)
		s.apart(5, 4)
		s.start(5)
		p = s.partition(topic)
		s.must(!slices.Contains(p.ELR, 5), "I8", "node 5 came back without its records, and eligible are %v", p.ELR)
		s.stopNode(4)
		s.wait(3 * time.Second)
		p = s.partition(topic)
		if allowed == "true" {
			s.led(topic, 5)
			end := s.ends(topic)[5] // whatever the power left it
			s.together()
			s.start(4, 6)
			s.equal(topic, end)
			return
		}
		s.must(p.Leader == -1, "I3", "node %d leads: the ISR is %v, eligible are %v, and node 5 ends at %d", p.Leader, p.ISR, p.ELR, s.ends(topic)[5])
		s.together()
		s.start(4)
		s.led(topic, 4)
		s.start(6)
		s.equal(topic, 20)
	})
}

// cleanlyBehind is I14 for a follower: what its leader says is committed is so here as far as its
// own log goes, and that is what it keeps when it is stopped on the way.
func cleanlyBehind(r *Run) {
	r.Set("replica.lag.time.max.ms", "2000")
	r.Set("replica.fetch.max.bytes", "1")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("behind", []int32{4, 5, 6})
		s.produce(4, topic, -1, 10, nil)
		s.apart(6, 4, 5)
		s.produce(4, topic, 1, 1, nil) // who has everything stays in the ISR, however silent
		s.isr(topic, 2)
		s.produce(4, topic, -1, 39, nil)
		s.again(6, 4, 5)
		// It gets batch after batch, and hears with the first that 50 are committed.
		s.World.Run(func() bool { return s.over() || s.ends(topic)[6] > 10 }, 20*time.Second)
		for _, id := range []int32{4, 5} {
			s.World.Net.Partition(s.node(id).Name, s.node(6).Name)
			s.World.Net.Partition(s.node(6).Name, s.node(id).Name)
		}
		s.stopNode(6)
		end := s.ends(topic)[6]
		s.must(end > 10 && end < 50, "scenario", "node 6 was to be stopped on the way, and ends at %d", end)
		s.together()
		s.start(6)
		s.equal(topic, 50)
	})
}

// silentFollower: a new leader does not know how far its followers are before they have asked,
// and commits nothing that one of the ISR may not have.
func silentFollower(r *Run) {
	r.Set("replica.lag.time.max.ms", "60000")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("silent", []int32{4, 5, 6})
		s.produce(4, topic, -1, 10, nil)
		s.apart(6, 4, 5)
		s.produce(4, topic, 1, 5, nil)
		s.until("node 5 has them", 10*time.Second, func() bool { return s.ends(topic)[5] == 15 })
		s.kill(4)
		s.led(topic, 5)
		s.produce(5, topic, -1, 1, kerr.RequestTimedOut)
		hw, n := s.highWatermark(5, topic, 0)
		s.must(hw == 10 && n == 10, "I7", "the high watermark is %d, and %d records can be read: node 6 is in the ISR %v and ends at %d", hw, n, s.partition(topic).ISR, s.ends(topic)[6])
		s.together()
		s.reaches(5, topic, 16)
		s.start(4)
		s.equal(topic, 16)
	})
}
