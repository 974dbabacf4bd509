package scenarios

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// registrations is KIP-631: who may be which broker, and for how long. Nobody takes the place of a
// broker that lives; what an earlier incarnation asks for is refused; who falls silent is fenced
// when its session is over; and a broker that is unregistered is in no ISR.
func registrations(r *Run) {
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("registered", []int32{4, 5, 6}, [2]string{"min.insync.replicas", "2"})
		s.produce(4, topic, -1, 10, nil)
		b := s.cluster.ghost.quorum.State.Broker(4)
		s.control("register", func(ask func(kmsg.Request) kmsg.Response) {
			registers := func(id int32, cluster string, want *kerr.Error, what string) {
				req := registration(id)
				req.ClusterID = cluster
				if resp, ok := ask(req).(*kmsg.BrokerRegistrationResponse); ok {
					s.code(resp.ErrorCode, want, what)
				}
			}
			registers(4, clusterID, kerr.DuplicateBrokerRegistration, "a second broker 4")
			registers(77, "another", kerr.InconsistentClusterID, "a broker of another cluster")
			beats := func(id int32, epoch int64, want *kerr.Error, what string) {
				req := kmsg.NewPtrBrokerHeartbeatRequest()
				req.Version, req.BrokerID, req.BrokerEpoch, req.CurrentMetadataOffset, req.WantFence = 1, id, epoch, 1<<40, true
				if resp, ok := ask(req).(*kmsg.BrokerHeartbeatResponse); ok {
					s.code(resp.ErrorCode, want, what)
				}
			}
			beats(4, b.Epoch-1, kerr.StaleBrokerEpoch, "the heartbeat of an earlier broker 4")
			beats(77, 0, kerr.BrokerIDNotRegistered, "the heartbeat of a stranger")
			ids := kmsg.NewPtrAllocateProducerIDsRequest()
			ids.BrokerID, ids.BrokerEpoch = 4, b.Epoch-1
			if resp, ok := ask(ids).(*kmsg.AllocateProducerIDsResponse); ok {
				s.code(resp.ErrorCode, kerr.StaleBrokerEpoch, "producer ids for an earlier broker 4")
			}
		})
		if s.failed {
			return
		}
		p := s.partition(topic)
		s.must(p.Leader == 4 && p.LeaderEpoch == 0 && len(p.ISR) == 3, "I8", "what was refused changed the partition: %+v", p)
		s.falls(s.register(78))
		s.kill(6)
		s.control("unregister", func(ask func(kmsg.Request) kmsg.Response) {
			req := kmsg.NewPtrUnregisterBrokerRequest()
			req.BrokerID = 6
			if resp, ok := ask(req).(*kmsg.UnregisterBrokerResponse); ok {
				s.code(resp.ErrorCode, nil, "unregister")
			}
		})
		p = s.partition(topic)
		s.must(s.cluster.ghost.quorum.State.Broker(6) == nil, "I8", "broker 6 was unregistered, and is registered")
		s.must(len(p.ISR) == 2, "I8", "broker 6 was unregistered, and the ISR is %v", p.ISR)
		s.start(6)
		s.isr(topic, 3)
		s.equal(topic, 10)
	})
}

// killedStopping: who is killed over its controlled shutdown comes back at once, though the session
// of the process that was to stop is not over.
func killedStopping(r *Run) {
	r.Set("broker.session.timeout.ms", "60000")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("stopping", []int32{5, 4, 6})
		s.produce(5, topic, -1, 10, nil)
		req := kmsg.NewPtrBrokerHeartbeatRequest()
		req.Version, req.BrokerID, req.BrokerEpoch, req.CurrentMetadataOffset, req.WantShutdown = 1, 5, s.epochs(5)[0], -1, true
		s.control("heartbeat", func(ask func(kmsg.Request) kmsg.Response) {
			if resp, ok := ask(req).(*kmsg.BrokerHeartbeatResponse); ok {
				s.code(resp.ErrorCode, nil, "heartbeat")
			}
		})
		s.kill(5)
		s.until("another leads", 10*time.Second, func() bool { return s.partition(topic).Leader == 4 })
		if s.failed || !s.node(5).boot() {
			return
		}
		if !s.until("it is there again", 15*time.Second, s.node(5).Ready) {
			s.Failf("liveness", "broker 5", "was killed over its controlled shutdown and waits for its own session")
		}
		s.isr(topic, 3)
		s.equal(topic, 10)
	})
}

// falls silent: a broker that reports once is unfenced for its session, 1.5 s, and no longer.
func (s *tale) falls(b *impostor) {
	s.must(!b.reports(1<<40), "liveness", "a broker that has read everything stays fenced")
	fenced := func() bool {
		s.cluster.ghost.look()
		known := s.cluster.ghost.quorum.State.Broker(b.id)
		return known != nil && known.Fenced
	}
	s.wait(1200 * time.Millisecond)
	s.must(!fenced(), "R10", "a broker is fenced 1.2 s after its last heartbeat, with a session of 1.5 s")
	s.until("it is fenced", time.Second, fenced)
}
