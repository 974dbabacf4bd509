package replica

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/partition"
	"seedlog/storage"
)

// ErrUnknownReplica: the follower has no replica by this leader's metadata. The metadata of
// one of them is older; the follower asks again.
var ErrUnknownReplica = errors.New("unknown replica")

// ReplicaBound is how far followers read: to the end of the log or, where only what is synced
// counts, of what is synced: nothing that a power loss could take is seen anywhere else.
func (p *Partition) ReplicaBound() storage.Bound {
	if p.everySync() {
		return storage.ToSynced
	}
	return storage.ToLogEnd
}

// CheckFollower refuses a follower that has no replica of the partition that this broker
// leads. currentEpoch -1 is a follower that does not say what it believes.
func (p *Partition) CheckFollower(id, currentEpoch int32) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.leader == nil:
		return fmt.Errorf("%s: %w", p, ErrNotLeader)
	case p.leader.Has(id):
		return nil
	case currentEpoch < 0:
		return fmt.Errorf("%s: %w: broker %d has no replica", p, ErrNotLeader, id)
	}
	return fmt.Errorf("%s: %w: broker %d in leader epoch %d", p, ErrUnknownReplica, id, currentEpoch)
}

// FollowerFetched notes that a follower asked in the leader epoch for f.Offset and was
// answered: the high watermark may move, and the follower join the ISR. The error is
// ErrNotLeader if the leadership was lost meanwhile: then what was read may be another
// leader's.
func (p *Partition) FollowerFetched(epoch int32, f partition.FollowerFetch) error {
	p.mu.Lock()
	if p.gone || p.leader == nil || p.leader.LeaderEpoch() != epoch {
		p.mu.Unlock()
		return fmt.Errorf("%s: %w (any more)", p, ErrNotLeader)
	}
	_, startMoved := p.leader.FollowerFetched(f)
	joins := p.leader.Joins(f.Replica, p.standings()) && f.Now >= p.proposeAfter
	p.mu.Unlock()
	if !p.advance() && startMoved {
		p.m.purgatory.Check(&p.Committed) // who waits for the low watermark
	}
	if joins {
		p.m.isr.ask(p)
	}
	return nil
}

// LowWatermark is the offset below which no living replica has anything (DeleteRecords waits
// for it). The error is LeaderEpoch's.
func (p *Partition) LowWatermark() (int64, error) {
	if err := p.log.Err(); err != nil {
		return -1, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := p.leaderEpoch(-1); err != nil {
		return -1, err
	}
	return p.leader.LowWatermark(p.log.LogStartOffset(), p.standings()), nil
}

// NearestInRack is the replica that a consumer in the rack is to read from (KIP-392), this
// broker's own if there is no better one. listener is the consumer's.
func (p *Partition) NearestInRack(rack string, offset int64, listener string) int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leader == nil {
		return p.m.self
	}
	return p.leader.NearestInRack(rack, offset, racks{p.m.image.Load(), listener})
}

// Throttled reports whether the partition's data must not be sent to the follower now: it is
// throttled, not in sync, and the leader has sent as much as it may.
func (p *Partition) Throttled(t *task.T, follower int32) bool {
	if !p.Settings().LeaderThrottled.Has(p.key.Partition, p.m.self) {
		return false
	}
	p.mu.Lock()
	inSync := p.leader != nil && p.leader.InSync(follower)
	p.mu.Unlock()
	return !inSync && p.m.sent.exceeded(p.m.config().LeaderThrottledRate, t.Now())
}

// SentToFollower counts what a follower is sent.
func (p *Partition) SentToFollower(t *task.T, bytes int64) {
	if bytes > 0 && p.Settings().LeaderThrottled.Has(p.key.Partition, p.m.self) {
		p.m.sent.add(bytes, t.Now())
	}
}

// proposal is what the controller is to be asked for: what is unsettled, or something new.
func (p *Partition) proposal(t *task.T, lagMax time.Duration, ownEpoch int64) (partition.Proposal, bool) {
	if p.log.Err() != nil {
		return partition.Proposal{}, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone || p.leader == nil {
		return partition.Proposal{}, false
	}
	if again, ok := p.leader.Pending(); ok {
		return again, p.unsettled
	}
	p.unsettled = false
	if t.Now() < p.proposeAfter {
		return partition.Proposal{}, false
	}
	return p.leader.Propose(p.ownEnd(), lagMax, p.standings(), ownEpoch, t.Now())
}

// refusedPause is how long a leader waits after the controller refused a change: the
// metadata that tells why is on its way.
const refusedPause = 100 * time.Millisecond

// answered takes the controller's answer to a proposal. It reports whether the same has to be
// proposed again.
func (p *Partition) answered(t *task.T, to partition.Proposal, code int16, now partition.Registration) (again bool) {
	p.mu.Lock()
	if p.leader == nil {
		p.mu.Unlock()
		return false
	}
	before := p.leader.Registration()
	verdict := p.leader.Answered(to, code, now, t.Now())
	after := p.leader.Registration()
	p.unsettled = verdict == partition.Unsettled
	switch verdict {
	case partition.Accepted:
		p.reg = after
	case partition.Refused:
		p.proposeAfter = t.Now().Add(refusedPause)
	}
	p.mu.Unlock()
	if verdict == partition.Accepted {
		p.tellISR(before, after)
		// The smaller set may have committed more, or be too small; no fetch or append may come
		// to notice.
		if !p.advance() {
			p.m.purgatory.Check(&p.Committed)
		}
	} else {
		p.m.emit(ISRProposalFailed{Topic: p.topic, Partition: p.key.Partition, Code: code, Verdict: verdict})
	}
	return verdict == partition.Unsettled
}

func (p *Partition) tellISR(before, after partition.Registration) {
	left, joined := missing(before.ISR, after.ISR), missing(after.ISR, before.ISR)
	if left+joined > 0 {
		p.m.emit(ISRChanged{Topic: p.topic, Partition: p.key.Partition, LeaderEpoch: after.LeaderEpoch,
			PartitionEpoch: after.PartitionEpoch, Left: left, Joined: joined, ISR: after.ISR})
	}
	if before.Recovering && !after.Recovering {
		p.m.emit(LeaderRecovered{Topic: p.topic, Partition: p.key.Partition, LeaderEpoch: after.LeaderEpoch})
	}
}

// missing counts the elements of a that b has not.
func missing(a, b []int32) (n int) {
	for _, x := range a {
		if !slices.Contains(b, x) {
			n++
		}
	}
	return n
}

// wire is the proposal as AlterPartition carries it. A leader that asks for anything has
// recovered.
func wire(index, self int32, p partition.Proposal, ownEpoch int64) kmsg.AlterPartitionRequestTopicPartition {
	out := kmsg.NewAlterPartitionRequestTopicPartition()
	out.Partition, out.LeaderEpoch, out.PartitionEpoch = index, p.LeaderEpoch, p.PartitionEpoch
	for _, m := range p.ISR {
		b := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
		b.BrokerID, b.BrokerEpoch = m.ID, m.BrokerEpoch
		if m.ID == self {
			b.BrokerEpoch = ownEpoch // the newest, where the proposal is made again
		}
		out.NewEpochISR = append(out.NewEpochISR, b)
	}
	return out
}
