package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
)

// Frame limits. Only Produce may be as large as socket.request.max.bytes allows.
const (
	smallFrame  = 64 << 10
	mediumFrame = 2 << 20
	largeFrame  = 16 << 20
)

// Role is whose connections a Service answers.
type Role uint8

// The roles. A listener has one of them; an entry is served on one or on both.
const (
	// Broker: clients and other brokers.
	Broker Role = 1 << iota
	// Controller: the members of the quorum, and brokers that talk to the active controller.
	Controller

	both = Broker | Controller
)

// entry is one served API key: versions min to max are implemented in full.
type entry struct {
	key      int16
	min, max int16
	// at is where the key is served; the zero Role is Broker alone. Anywhere else it is as
	// unknown as a key that does not exist.
	at Role
	// listedMin is the lowest version that ApiVersions lists.
	listedMin int16
	// flexible is the first version with compact types and tags.
	flexible int16
	maxFrame int32
	// growth is how many bytes of memory one of the body can take, with the answer, where the
	// general bounds are too small.
	growth int64
	// measure estimates what a body takes when it is decoded, where the general bound is too
	// rough.
	measure func(body []byte, version int16) (int64, error)
	// handle answers a request decoded by kmsg; raw does its own decoding and replying.
	handle handler
	raw    func(s *Service, t *task.T, r *conn.Request, reply *conn.Reply)
}

// table lists what is served on any listener. What the quorum and the controller are asked
// stands in quorumEntries and controllerEntries.
func table() []entry {
	es := []entry{
		// Produce is served from 3 and listed from 0: librdkafka compresses only towards a
		// broker that lists Produce 0 (KAFKA-18659).
		{key: 0, min: 3, max: 13, maxFrame: 1<<31 - 1, raw: (*Service).produce},
		{key: 1, at: both, min: 4, max: 18, maxFrame: mediumFrame, raw: (*Service).fetchByRole},
		{key: 2, min: 1, max: 11, maxFrame: mediumFrame, handle: on((*Service).listOffsets)},
		{key: 3, min: 0, max: 13, maxFrame: mediumFrame, handle: on((*Service).metadata)},
		{key: 18, at: both, min: 0, max: 4, maxFrame: smallFrame, handle: on((*Service).apiVersions)},
		{key: 19, at: both, min: 2, max: 7, maxFrame: mediumFrame, handle: on((*Service).createTopics)},
		{key: 20, at: both, growth: 192, min: 1, max: 6, maxFrame: mediumFrame, handle: on((*Service).deleteTopics)},
		{key: 21, min: 0, max: 2, maxFrame: mediumFrame, handle: on((*Service).deleteRecords)},
		{key: 22, min: 0, max: 5, maxFrame: smallFrame, handle: on((*Service).initProducerID)},
		{key: 23, min: 2, max: 4, maxFrame: mediumFrame, handle: on((*Service).offsetForLeaderEpoch)},
		{key: 32, at: both, growth: 1024, min: 1, max: 4, maxFrame: mediumFrame, handle: on((*Service).describeConfigs)},
		{key: 33, at: both, min: 0, max: 2, maxFrame: mediumFrame, handle: on((*Service).alterConfigs)},
		{key: 34, min: 1, max: 2, maxFrame: mediumFrame, handle: on((*Service).alterReplicaLogDirs)},
		{key: 35, min: 1, max: 5, maxFrame: mediumFrame, handle: on((*Service).describeLogDirs)},
		{key: 37, at: both, min: 0, max: 3, maxFrame: mediumFrame, handle: on((*Service).createPartitions)},
		{key: 44, at: both, min: 0, max: 1, maxFrame: mediumFrame, handle: on((*Service).incrementalAlterConfigs)},
		{key: 60, at: both, min: 0, max: 2, maxFrame: smallFrame, handle: on((*Service).describeCluster)},
		{key: 74, min: 0, max: 1, maxFrame: smallFrame, handle: on((*Service).listConfigResources)},
		{key: 75, min: 0, max: 0, maxFrame: mediumFrame, handle: on((*Service).describeTopicPartitions)},
	}
	es = append(es, groupEntries()...)
	es = append(es, quorumEntries()...)
	es = append(es, controllerEntries()...)
	for i := range es {
		e := &es[i]
		if e.at == 0 {
			e.at = Broker
		}
		e.listedMin = e.min
		if e.key == int16(kmsg.Produce) {
			e.listedMin = 0
		}
		e.flexible = firstFlexible(e.key, e.max)
	}
	return es
}

// firstFlexible asks kmsg for the first flexible version of a key, or one past max.
func firstFlexible(key, max int16) int16 {
	req := kmsg.RequestForKey(key)
	for v := int16(0); v <= max; v++ {
		req.SetVersion(v)
		if req.IsFlexible() {
			return v
		}
	}
	return max + 1
}
