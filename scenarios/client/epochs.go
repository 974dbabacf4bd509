package client

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/checker/store"
	"seedlog/clock/task"
)

// EpochEnd asks where a leader epoch ends.
func EpochEnd(t *task.T, e *Env, conn *Conn, topic *Topic, index, epoch int32) (answered int32, end int64, code int16, err error) {
	r, err := epochEnds(t, e, conn, topic, index, epoch)
	if err != nil || len(r) != 1 {
		return -1, -1, kerr.UnknownServerError.Code, err
	}
	return r[0].LeaderEpoch, r[0].EndOffset, r[0].ErrorCode, nil
}

func epochEnds(t *task.T, e *Env, conn *Conn, topic *Topic, index int32, epochs ...int32) ([]kmsg.OffsetForLeaderEpochResponseTopicPartition, error) {
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.Version = int16(2 + e.Rand.IntN(3))
	req.ReplicaID = -1
	rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
	rt.Topic = topic.Name
	for _, epoch := range epochs {
		part := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		part.Partition, part.CurrentLeaderEpoch, part.LeaderEpoch = index, -1, epoch
		rt.Partitions = append(rt.Partitions, part)
	}
	req.Topics = append(req.Topics, rt)
	resp, err := conn.Call(t, req, e.deadline(t))
	if err != nil {
		return nil, err
	}
	r := resp.(*kmsg.OffsetForLeaderEpochResponse).Topics
	if len(r) != 1 || len(r[0].Partitions) != len(epochs) {
		e.Rec.Failf("I30", topic.Name, "OffsetForLeaderEpoch answered %d topics", len(r))
		return nil, nil
	}
	return r[0].Partitions, nil
}

// askEpochs asks where two neighbouring epochs end; what is known of the second tells whether
// the first is over. committed is a high watermark that was told before, after so many power
// losses. Only a lone broker is asked: of several, one that was replaced may answer.
func (c *Consumer) askEpochs(t *task.T, src *source, p *position, losses int, committed int64) error {
	if c.Routes != nil {
		return nil
	}
	epoch := c.Rand.Int32N(int32(c.Rec.Boots()) + 1)
	r, err := epochEnds(t, &c.Env, src.conn, p.topic, p.index, epoch, epoch+1)
	if err != nil || len(r) != 2 || r[0].ErrorCode != 0 || r[1].ErrorCode != 0 || r[0].LeaderEpoch < 0 {
		return err
	}
	c.Rec.EpochEnd(p.log, losses, store.EpochEnd{
		Asked: epoch, Epoch: r[0].LeaderEpoch, End: r[0].EndOffset, Closed: r[1].LeaderEpoch >= 0, Committed: committed,
	})
	return nil
}

// EpochEnd adds an answer to OffsetForLeaderEpoch that was asked for after so many power
// losses. What was told before one may have been about another log.
func (r *Recorder) EpochEnd(partition, losses int, e store.EpochEnd) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if losses != r.powerLosses {
		return
	}
	if r.epochs == nil || r.epochsLosses != r.powerLosses {
		r.epochs, r.epochsLosses = make(map[int][]store.EpochEnd), r.powerLosses
	}
	r.epochs[partition] = append(r.epochs[partition], e)
}

// EpochEnds are the answers since the last power loss about a partition.
func (r *Recorder) EpochEnds(partition int) []store.EpochEnd {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.epochsLosses != r.powerLosses {
		return nil
	}
	return r.epochs[partition]
}
