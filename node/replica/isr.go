package replica

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/node/partition"
)

// Controller is where changes of in-sync sets are proposed.
type Controller interface {
	// Propose asks the active controller, wherever it is, and waits for its answer until the
	// deadline. After an error it is unknown whether the change was made.
	Propose(t *task.T, req kmsg.Request, until clock.Instant) (resp kmsg.Response, offset int64, err error)
}

// isrKeeper asks the controller for the in-sync sets that this broker's leaders want: for
// many partitions at once, one request at a time.
//
//	follower caught up, leader recovered ---> ask ---\
//	every replica.lag.time.max.ms / 2 -----> look ----> Propose ---> answered
//	                                          ^--- unsettled, after a pause ---/
type isrKeeper struct {
	m       *Manager
	arrived task.Signal

	mu    task.Mutex
	asked []*Partition // each once: see Partition.isrAsked
}

// unsettledPause is how long the keeper waits before it repeats what was not settled.
const unsettledPause = 50 * time.Millisecond

func (k *isrKeeper) init(m *Manager) {
	k.m = m
	k.mu.Init(m.rt, "replica.isrKeeper")
	k.arrived.Init(m.rt, "replica.isrKeeper.arrived")
}

// ask has the partition looked at soon.
func (k *isrKeeper) ask(p *Partition) {
	k.mu.Lock()
	fresh := !p.isrAsked
	if fresh {
		p.isrAsked = true
		k.asked = append(k.asked, p)
	}
	k.mu.Unlock()
	if fresh {
		k.arrived.Raise()
	}
}

func (k *isrKeeper) take() []*Partition {
	k.mu.Lock()
	defer k.mu.Unlock()
	asked := k.asked
	k.asked = nil
	for _, p := range asked {
		p.isrAsked = false
	}
	return asked
}

// run proposes until t's group stops.
func (k *isrKeeper) run(t *task.T) {
	lookAt := t.Now().Add(k.lookEvery())
	var again []*Partition
	for !t.Stopping() {
		seen := k.arrived.Generation()
		batch := union(again, k.take())
		again = nil
		if now := t.Now(); now >= lookAt {
			batch, lookAt = k.m.Partitions(), now.Add(k.lookEvery())
			for _, p := range batch {
				p.advance() // who stopped to keep up is awaited no longer
			}
		}
		if len(batch) == 0 {
			k.arrived.Wait(t, seen, lookAt)
			continue
		}
		if again = k.propose(t, batch); len(again) > 0 {
			t.Sleep(t.Now().Add(unsettledPause))
		}
	}
}

func (k *isrKeeper) lagMax() time.Duration { return millis(k.m.config().ReplicaLagTimeMaxMs) }

func (k *isrKeeper) lookEvery() time.Duration {
	return max(k.lagMax()/2, time.Millisecond)
}

// proposed is a partition with what was asked for it.
type proposed struct {
	p    *Partition
	what partition.Proposal
}

// union adds the partitions that are not there yet. Each is asked once what it wants: what it said
// the first time is on its way from then on, and what it said after newer metadata, too.
func union(batch, more []*Partition) []*Partition {
	for _, p := range more {
		if !slices.Contains(batch, p) {
			batch = append(batch, p)
		}
	}
	return batch
}

// propose asks for what the partitions want, each listed once, and returns those that are to ask
// again.
func (k *isrKeeper) propose(t *task.T, batch []*Partition) (again []*Partition) {
	epoch := k.m.brokerEpoch()
	var wanted []proposed
	for _, p := range batch {
		if what, ok := p.proposal(t, k.lagMax(), epoch); ok {
			wanted = append(wanted, proposed{p, what})
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	slices.SortFunc(wanted, func(a, b proposed) int { return a.p.key.Compare(b.p.key) })
	until := t.Now().Add(min(k.lagMax(), millis(int64(k.m.config().RequestTimeoutMs))))
	resp, _, err := k.m.controller.Propose(t, k.request(wanted, epoch), until)
	if err != nil {
		return k.unsettled(t, wanted)
	}
	r, ok := resp.(*kmsg.AlterPartitionResponse)
	if !ok || r.ErrorCode != 0 {
		return k.unsettled(t, wanted)
	}
	for _, x := range wanted {
		code, now := answerFor(r, x.p.key)
		if x.p.answered(t, x.what, code, now) {
			again = append(again, x.p)
		}
	}
	return again
}

func (k *isrKeeper) request(wanted []proposed, epoch int64) *kmsg.AlterPartitionRequest {
	req := kmsg.NewPtrAlterPartitionRequest()
	req.Version, req.BrokerID, req.BrokerEpoch = 3, k.m.self, epoch
	for _, x := range wanted {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].TopicID != x.p.key.Topic {
			topic := kmsg.NewAlterPartitionRequestTopic()
			topic.TopicID = x.p.key.Topic
			req.Topics = append(req.Topics, topic)
		}
		topic := &req.Topics[len(req.Topics)-1]
		topic.Partitions = append(topic.Partitions, wire(x.p.key.Partition, k.m.self, x.what, epoch))
	}
	return req
}

// codeUnsettled stands for the lack of an answer: UNKNOWN_SERVER_ERROR.
const codeUnsettled = -1

// unsettled notes for all that nobody knows what became of it.
func (k *isrKeeper) unsettled(t *task.T, wanted []proposed) (again []*Partition) {
	for _, x := range wanted {
		if x.p.answered(t, x.what, codeUnsettled, partition.Registration{}) {
			again = append(again, x.p)
		}
	}
	return again
}

// answerFor finds a partition's answer.
func answerFor(r *kmsg.AlterPartitionResponse, k Key) (int16, partition.Registration) {
	for i := range r.Topics {
		if r.Topics[i].TopidID != k.Topic {
			continue
		}
		for j := range r.Topics[i].Partitions {
			x := &r.Topics[i].Partitions[j]
			if x.Partition == k.Partition {
				return x.ErrorCode, partition.Registration{
					Leader: x.LeaderID, LeaderEpoch: x.LeaderEpoch, PartitionEpoch: x.PartitionEpoch,
					ISR: slices.Clone(x.ISR), Recovering: x.LeaderRecoveryState == 1,
				}
			}
		}
	}
	return codeUnsettled, partition.Registration{}
}
