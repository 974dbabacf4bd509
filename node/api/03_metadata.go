package api

// Metadata: brokers, topics and who leads their partitions.
//
//	0   topics by name, an empty list is all; a broker that cannot be reached is an error
//	1   controller, racks, is_internal; null is all, empty is none
//	2   cluster id           3   throttle time         4   allow_auto_topic_creation
//	5   offline replicas     6   LISTENER_NOT_FOUND    7   leader epoch
//	8   authorized operations (cluster: 8-10)          9   flexible
//	10  topic ids in the reply                         12  topics by id
//	13  top-level error

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
	"seedlog/node/controller"
	"seedlog/node/coord"
	"seedlog/node/meta"
)

// autoCreateMaxMs is how long a metadata request waits for the topics it creates. After it
// the client is told that they are unknown, and asks again.
const autoCreateMaxMs = 2000

func (s *Service) metadata(t *task.T, r *conn.Request, req *kmsg.MetadataRequest) kmsg.Response {
	if s.shouldCreate(req) {
		s.autoCreate(t, req)
	}
	image := s.Image()
	listener := r.Conn.Listener()
	resp := kmsg.NewPtrMetadataResponse()
	brokers := aliveBrokers(image, listener)
	for _, b := range brokers {
		mb := kmsg.NewMetadataResponseBroker()
		mb.NodeID, mb.Host, mb.Port = b.nodeID, b.host, b.port
		if !b.noRack {
			mb.Rack = ptr(b.rack)
		}
		resp.Brokers = append(resp.Brokers, mb)
	}
	resp.ClusterID = ptr(s.ClusterID)
	resp.ControllerID = s.controllerID(brokers)
	resp.AuthorizedOperations = operationsOmitted
	if req.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = allClusterOperations
	}
	if req.Topics == nil || r.Version == 0 && len(req.Topics) == 0 {
		for topic := range image.Topics() {
			resp.Topics = append(resp.Topics, s.describeTopic(image, topic, listener, req))
		}
		return resp
	}
	type topic struct {
		name string
		null bool
		id   meta.UUID
	}
	seen := make(map[topic]bool) // as in Kafka a topic that is named again is answered once
	for i := range req.Topics {
		asked := &req.Topics[i]
		k := topic{null: asked.Topic == nil, id: asked.TopicID}
		if !k.null {
			k.name = *asked.Topic
		}
		if !seen[k] {
			seen[k] = true
			resp.Topics = append(resp.Topics, s.oneTopic(image, asked, listener, req))
		}
	}
	return resp
}

func (s *Service) shouldCreate(req *kmsg.MetadataRequest) bool {
	return s.Config().AutoCreateTopics && (req.Version < 4 || req.AllowAutoTopicCreation) && len(req.Topics) > 0
}

// autoCreate creates the topics that are asked for and missing, and waits for them: a
// client that is answered at once would only come back.
func (s *Service) autoCreate(t *task.T, req *kmsg.MetadataRequest) {
	image := s.Image()
	var missing []string
	for _, topic := range req.Topics {
		if topic.Topic == nil || topic.TopicID != (meta.UUID{}) || image.Topic(*topic.Topic) != nil {
			continue
		}
		// The other internal topics are made by the coordinators that use them.
		if name := *topic.Topic; controller.CheckTopicName(name) == "" && (!isInternal(name) || name == coord.Topic) {
			missing = append(missing, name)
		}
	}
	s.CreateMissing(t, missing)
}

// CreateMissing creates topics with the settings that automatic creation gives them, and
// waits a little until they can be used. Whether it worked is seen in the image.
func (s *Service) CreateMissing(t *task.T, names []string) {
	if len(names) == 0 {
		return
	}
	cfg := s.Config()
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version = 7
	create.TimeoutMillis = autoCreateMaxMs
	for _, name := range names {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, -1, -1
		if name == coord.Topic {
			topic.NumPartitions, topic.ReplicationFactor = cfg.OffsetsTopicPartitions, cfg.OffsetsTopicReplication
			topic.Configs = offsetsTopicConfig(cfg)
		}
		create.Topics = append(create.Topics, topic)
	}
	_, _ = s.propose(t, nil, create, autoCreateMaxMs)
}

func (s *Service) oneTopic(image *meta.Image, asked *kmsg.MetadataRequestTopic, listener string, req *kmsg.MetadataRequest) kmsg.MetadataResponseTopic {
	missing := kmsg.NewMetadataResponseTopic()
	missing.Topic, missing.TopicID = asked.Topic, asked.TopicID
	missing.AuthorizedOperations = operationsOmitted
	byID := asked.TopicID != meta.UUID{}
	switch {
	case req.Version < 12 && (byID || asked.Topic == nil), asked.Topic == nil && !byID:
		missing.ErrorCode = kerr.InvalidRequest.Code
		if req.Version < 12 && asked.Topic == nil {
			missing.Topic = ptr("")
		}
		return missing
	case byID:
		if topic := image.TopicByID(asked.TopicID); topic != nil {
			return s.describeTopic(image, topic, listener, req)
		}
		missing.Topic, missing.ErrorCode = nil, kerr.UnknownTopicID.Code
		return missing
	}
	if topic := image.Topic(*asked.Topic); topic != nil {
		return s.describeTopic(image, topic, listener, req)
	}
	missing.IsInternal = isInternal(*asked.Topic)
	missing.ErrorCode = kerr.UnknownTopicOrPartition.Code
	if controller.CheckTopicName(*asked.Topic) != "" {
		missing.ErrorCode = kerr.InvalidTopicException.Code
	}
	return missing
}

func (s *Service) describeTopic(image *meta.Image, topic *meta.Topic, listener string, req *kmsg.MetadataRequest) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.TopicID = ptr(topic.Name), topic.ID
	out.IsInternal = isInternal(topic.Name)
	out.AuthorizedOperations = operationsOmitted
	if req.IncludeTopicAuthorizedOperations {
		out.AuthorizedOperations = allTopicOperations
	}
	out.Partitions = make([]kmsg.MetadataResponseTopicPartition, 0, len(topic.Partitions))
	for i, p := range topic.Partitions {
		out.Partitions = append(out.Partitions, describePartition(image, p, int32(i), listener, req.Version))
	}
	return out
}

func describePartition(image *meta.Image, p *meta.Partition, index int32, listener string, version int16) kmsg.MetadataResponseTopicPartition {
	out := kmsg.NewMetadataResponseTopicPartition()
	out.Partition = index
	out.LeaderEpoch = p.LeaderEpoch
	out.Replicas, out.ISR = p.Replicas, p.ISR
	out.OfflineReplicas = offlineReplicas(image, p, listener)
	out.Leader = p.Leader
	if _, _, ok := aliveBroker(image, p.Leader, listener); !ok {
		out.Leader = -1
		out.ErrorCode = kerr.LeaderNotAvailable.Code
		if b := image.Broker(p.Leader); b != nil && !b.Fenced && version >= 6 {
			out.ErrorCode = kerr.ListenerNotFound.Code
		}
		return out
	}
	if version == 0 && len(out.OfflineReplicas) > 0 {
		out.ErrorCode = kerr.ReplicaNotAvailable.Code
	}
	return out
}
