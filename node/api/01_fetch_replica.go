package api

// Fetch from followers, and fetch from the closest replica.
//
// A follower (replica id, and from version 15 its broker epoch, in a tag) reads to the end
// of the leader's log. What it asks for tells the leader what it has: the high watermark
// moves by that, and so does the ISR. Its last record's epoch tells whether the logs part.
//
// A consumer that says its rack (version 11) is sent to a replica in it (KIP-392), if
// replica.selector.class says so; a follower answers consumers of these versions up to what
// it knows to be committed.

import (
	"errors"

	"seedlog/clock/task"
	"seedlog/node/partition"
	"seedlog/node/replica"
)

var (
	// errUnknownEpoch: the log does not know where the epoch of the asker's last record ended.
	errUnknownEpoch = errors.New("the end of the last fetched epoch is not known")
	// errOffsetNotAvailable: the leader has committed the offset, this follower has not got it.
	errOffsetNotAvailable = errors.New("offset is not available yet")
	// errStaleReplica: the follower restarted since; this is what the old one still asks for.
	errStaleReplica = errors.New("fetch of an earlier incarnation")
)

// fromReplica reports whether a follower asks.
func (op *fetchOp) fromReplica() bool { return op.replicaID >= 0 }

// anyReplica reports whether the asker may read from a follower.
func (op *fetchOp) anyReplica() bool { return !op.fromReplica() && op.version >= 11 }

// checkReplica refuses a broker that is no follower of the partition, or not any more the one
// that it was.
func (op *fetchOp) checkReplica(part *replica.Partition, target *fetchTarget) error {
	if b := op.image.Broker(op.replicaID); b != nil && op.replicaEpoch != -1 && op.replicaEpoch < b.Epoch {
		return errStaleReplica
	}
	return part.CheckFollower(op.replicaID, target.asked.currentEpoch)
}

// settle looks at the role again after the read: what was read under another leadership is
// not the asker's. It tells the partition what a follower has.
func (op *fetchOp) settle(t *task.T, target *fetchTarget, result *fetchResult) error {
	if !op.fromReplica() || result.diverges {
		if !target.part.ServesStill(target.epoch, target.leads) {
			return replica.ErrNotLeader
		}
		return nil
	}
	err := target.part.FollowerFetched(target.epoch, partition.FollowerFetch{
		Replica: op.replicaID, BrokerEpoch: op.replicaEpoch,
		Offset: target.asked.offset, LogStart: target.asked.logStart,
		LeaderEnd: end(op.bound(target), &result.data), Now: t.Now(),
	})
	result.data.HighWatermark = target.part.Log().HighWatermark() // it may have moved by that
	return err
}

// throttled reports whether a follower must not be sent the partition's data now.
func (op *fetchOp) throttled(t *task.T, target *fetchTarget) bool {
	return op.fromReplica() && target.part.Throttled(t, op.replicaID)
}

// count tells the throttles what a follower is sent.
func (op *fetchOp) count(t *task.T) {
	if !op.fromReplica() {
		return
	}
	for i := range op.targets {
		if p := op.targets[i].part; p != nil {
			p.SentToFollower(t, op.results[i].data.Size)
		}
	}
}

// sendElsewhere tells a consumer which replica is closer to it, if one is, instead of reading.
func (op *fetchOp) sendElsewhere(target *fetchTarget, result *fetchResult) bool {
	if len(op.rack) == 0 || op.fromReplica() || !target.leads || !op.s.Config().RackAware {
		return false
	}
	nearest := target.part.NearestInRack(unsafeText(op.rack), target.asked.offset, op.listener)
	if nearest == op.s.NodeID {
		return false
	}
	o := target.part.Log().Offsets()
	result.elsewhere, result.preferred = true, nearest
	result.hw, result.lso, result.logStart = o.HighWatermark, o.LastStable, o.LogStart
	result.aborted = op.readCommitted
	target.end, target.hidden = o.HighWatermark, false
	return true
}
