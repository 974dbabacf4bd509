package api

// ListOffsets: where a partition begins and ends, and which record has a timestamp.
//
//	1  one offset with its timestamp     2  isolation level, throttle time
//	3  (quotas)       4  leader epochs   5  OFFSET_NOT_AVAILABLE
//	6  flexible       7  -3 is the record with the largest timestamp
//	8  -4 is the start of the local log  9  -5 is the end of the tiered log
//	10 timeout        11 -6 is the start of what is not tiered yet
//
// Nothing is tiered here: -5 and -6 find nothing, as in Kafka without remote storage.

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
	"seedlog/node/meta"
	"seedlog/node/replica"
	"seedlog/storage"
)

// The special timestamps, with the version from which each is known.
const (
	timeLatest        = -1
	timeEarliest      = -2
	timeMax           = -3
	timeEarliestLocal = -4
	timeLatestTiered  = -5
	timeFirstUntiered = -6
)

// Replica ids of those who are not replicas.
const (
	consumerReplica  = -1
	debuggingReplica = -2
)

func specialTimeSupported(timestamp int64, version int16) bool {
	since := map[int64]int16{timeLatest: 1, timeEarliest: 1, timeMax: 7, timeEarliestLocal: 8, timeLatestTiered: 9, timeFirstUntiered: 11}
	min, known := since[timestamp]
	return timestamp >= 0 || known && version >= min
}

func (s *Service) listOffsets(t *task.T, r *conn.Request, req *kmsg.ListOffsetsRequest) kmsg.Response {
	image := s.Image()
	resp := kmsg.NewPtrListOffsetsResponse()
	type asked struct {
		topic     string
		partition int32
	}
	count := map[asked]int{}
	for _, topic := range req.Topics {
		for _, p := range topic.Partitions {
			count[asked{topic.Topic, p.Partition}]++
		}
	}
	for _, topic := range req.Topics {
		out := kmsg.NewListOffsetsResponseTopic()
		out.Topic = topic.Topic
		for i := range topic.Partitions {
			p := &topic.Partitions[i]
			q := offsetQuery{s: s, image: image, topic: topic.Topic, req: req, p: p}
			if count[asked{topic.Topic, p.Partition}] > 1 {
				out.Partitions = append(out.Partitions, q.failed(kerr.InvalidRequest.Code))
				continue
			}
			out.Partitions = append(out.Partitions, q.answer(t))
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// offsetQuery is one partition of a ListOffsets request.
type offsetQuery struct {
	s     *Service
	image *meta.Image
	topic string
	req   *kmsg.ListOffsetsRequest
	p     *kmsg.ListOffsetsRequestTopicPartition
}

func (q *offsetQuery) failed(code int16) kmsg.ListOffsetsResponseTopicPartition {
	out := kmsg.NewListOffsetsResponseTopicPartition()
	out.Partition, out.ErrorCode = q.p.Partition, code
	out.Timestamp, out.Offset, out.LeaderEpoch = -1, -1, -1
	return out
}

func (q *offsetQuery) found(o storage.TimeOffset) kmsg.ListOffsetsResponseTopicPartition {
	out := q.failed(0)
	out.Timestamp, out.Offset, out.LeaderEpoch = o.Timestamp, o.Offset, o.LeaderEpoch
	return out
}

func (q *offsetQuery) answer(t *task.T) kmsg.ListOffsetsResponseTopicPartition {
	if !specialTimeSupported(q.p.Timestamp, q.req.Version) {
		return q.failed(kerr.UnsupportedVersion.Code)
	}
	part, code := q.s.byName(q.image, q.topic, q.p.Partition)
	if code != 0 {
		return q.failed(code)
	}
	current := int32(-1)
	if q.req.Version >= 4 {
		current = q.p.CurrentLeaderEpoch
	}
	epoch, err := part.LeaderEpoch(current)
	if err != nil {
		return q.failed(errorCode(err))
	}
	switch q.p.Timestamp {
	case timeLatest:
		if q.lagging(part) {
			return q.failed(q.notAvailable())
		}
		return q.found(storage.TimeOffset{Timestamp: -1, Offset: q.lastFetchable(part), LeaderEpoch: epoch})
	case timeEarliest, timeEarliestLocal:
		start := part.Log().LogStartOffset()
		return q.found(storage.TimeOffset{Timestamp: -1, Offset: start, LeaderEpoch: part.Log().EpochAt(start)})
	case timeLatestTiered, timeFirstUntiered:
		return q.failed(0)
	}
	return q.byTime(t, part)
}

func (q *offsetQuery) byTime(t *task.T, part *replica.Partition) kmsg.ListOffsetsResponseTopicPartition {
	var o storage.TimeOffset
	var err error
	if q.p.Timestamp == timeMax {
		o, err = part.Log().MaxTimestamp(t)
	} else {
		o, err = part.Log().OffsetForTime(t, q.p.Timestamp)
	}
	if err != nil {
		return q.failed(errorCode(err))
	}
	if o.Offset < 0 {
		return q.failed(0)
	}
	if o.Offset >= q.lastFetchable(part) {
		if q.lagging(part) {
			return q.failed(q.notAvailable())
		}
		return q.failed(0)
	}
	return q.found(o)
}

// lastFetchable is the end of what the asker may read.
func (q *offsetQuery) lastFetchable(part *replica.Partition) int64 {
	switch {
	case q.req.ReplicaID != consumerReplica:
		return part.Log().LogEndOffset()
	case q.req.IsolationLevel == 1:
		return part.Log().LastStableOffset()
	}
	return part.Log().HighWatermark()
}

// lagging reports that a new leader does not know yet how much is committed (KIP-207).
func (q *offsetQuery) lagging(part *replica.Partition) bool {
	return q.req.ReplicaID == consumerReplica && part.BehindEpochStart()
}

func (q *offsetQuery) notAvailable() int16 {
	if q.req.Version >= 5 {
		return kerr.OffsetNotAvailable.Code
	}
	return kerr.LeaderNotAvailable.Code
}
