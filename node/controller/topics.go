package controller

import (
	"cmp"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/node/config"
	"seedlog/node/meta"
)

// maxTopicName is the longest topic name: a directory name has to hold it with its
// partition and a suffix.
const maxTopicName = 249

// maxRecordsPerRequest bounds what one request of a client may append, as Kafka's
// controller does.
const maxRecordsPerRequest = 10000

// CheckTopicName returns what is wrong with a topic name, or "".
func CheckTopicName(name string) string {
	switch {
	case name == "":
		return "Topic name is invalid: the empty string is not allowed"
	case name == "." || name == "..":
		return "Topic name is invalid: '" + name + "' is not allowed"
	case len(name) > maxTopicName:
		return "Topic name is invalid: the length of '" + name + "' is longer than the max allowed length " + decimal(maxTopicName)
	}
	for _, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && !(c >= '0' && c <= '9') && c != '.' && c != '_' && c != '-' {
			return "Topic name is invalid: '" + name + "' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
		}
	}
	return ""
}

// collision returns a topic whose metrics would have the same name, for there '.' and '_'
// are one.
func (s *State) collision(img *meta.Image, name string) string {
	if !strings.ContainsAny(name, "._") {
		return ""
	}
	for t := range img.Topics() {
		if t.Name != name && foldedEqual(t.Name, name) {
			return t.Name
		}
	}
	return ""
}

func foldedEqual(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		x, y := a[i], b[i]
		if x != y && !(x == '.' && y == '_' || x == '_' && y == '.') {
			return false
		}
	}
	return true
}

// newTopic is a topic that a request asks for, worked out.
type newTopic struct {
	records    []meta.Record
	id         meta.UUID
	partitions int
	replicas   int
	overrides  map[string]string
}

func (s *State) createTopics(r *kmsg.CreateTopicsRequest, in Input) Decision {
	resp := r.ResponseKind().(*kmsg.CreateTopicsResponse)
	var records []meta.Record
	// Topics of one request must not collide either: each is decided on the image that has
	// the earlier ones.
	img := s.image
	named := make(map[string]int, len(r.Topics))
	for i := range r.Topics {
		named[r.Topics[i].Topic]++
	}
	tooLarge := failf(kerr.PolicyViolation, "Unable to perform excessively large batch operation.")
	full := false // what comes after one topic too many is not even worked out
	for i := range r.Topics {
		req := &r.Topics[i]
		out := kmsg.NewCreateTopicsResponseTopic()
		out.Topic, out.NumPartitions, out.ReplicationFactor = req.Topic, -1, -1
		var topic *newTopic
		err := tooLarge
		if !full {
			topic, err = s.createTopic(img, req, named[req.Topic] > 1, in)
		}
		if err == nil && len(records)+len(topic.records) > maxRecordsPerRequest {
			full, err = true, tooLarge
		}
		if err != nil {
			out.ErrorCode, out.ErrorMessage = err.code, err.message()
			resp.Topics = append(resp.Topics, out)
			continue
		}
		s.describeCreated(&out, topic)
		resp.Topics = append(resp.Topics, out)
		records = append(records, topic.records...)
		if i+1 < len(r.Topics) {
			img = mustApply(img, topic.records)
		}
	}
	if r.ValidateOnly {
		records = nil
	}
	return Decision{Records: records, Response: resp}
}

// mustApply looks ahead: records that were just made contradict nothing.
func mustApply(img *meta.Image, records []meta.Record) *meta.Image {
	next, _, err := img.Apply(records, img.Offset+int64(len(records)), img.Epoch)
	if err != nil {
		panic("controller: own records do not apply: " + err.Error())
	}
	return next
}

func (s *State) createTopic(img *meta.Image, req *kmsg.CreateTopicsRequestTopic, twice bool, in Input) (*newTopic, *apiError) {
	if err := s.checkNewName(img, req.Topic, twice); err != nil {
		return nil, err
	}
	overrides, err := s.creationConfigs(req)
	if err != nil {
		return nil, err
	}
	assignments, err := s.assignments(req, in)
	if err != nil {
		return nil, err
	}
	t := &newTopic{id: newID(in.Rand), overrides: overrides, partitions: len(assignments), replicas: len(assignments[0])}
	t.records = append(t.records, meta.Record{Body: &meta.TopicRecord{Name: req.Topic, TopicID: t.id}})
	for _, c := range req.Configs {
		t.records = append(t.records, meta.Record{Body: &meta.ConfigRecord{
			ResourceType: meta.TopicResource, ResourceName: req.Topic, Name: c.Name, Value: c.Value}})
	}
	for id, replicas := range assignments {
		t.records = append(t.records, s.newPartition(t.id, int32(id), replicas))
	}
	return t, nil
}

func (s *State) checkNewName(img *meta.Image, name string, twice bool) *apiError {
	if twice {
		return failf(kerr.InvalidRequest, "Duplicate topic name.")
	}
	if name == "__cluster_metadata" {
		return failf(kerr.InvalidRequest, "Creation of internal topic %s is prohibited.", name)
	}
	if why := CheckTopicName(name); why != "" {
		return failf(kerr.InvalidTopicException, "%s", why)
	}
	if img.Topic(name) != nil {
		return failf(kerr.TopicAlreadyExists, "Topic '%s' already exists.", name)
	}
	if other := s.collision(img, name); other != "" {
		return failf(kerr.InvalidTopicException, "Topic '%s' collides with existing topic: %s", name, other)
	}
	return nil
}

// creationConfigs checks the overrides of a new topic.
func (s *State) creationConfigs(req *kmsg.CreateTopicsRequestTopic) (map[string]string, *apiError) {
	overrides := make(map[string]string, len(req.Configs))
	for _, c := range req.Configs {
		if c.Value == nil {
			return nil, failf(kerr.InvalidConfig, "Null value not supported for topic configs: %s", c.Name)
		}
		if _, twice := overrides[c.Name]; twice {
			return nil, failf(kerr.InvalidRequest, "Error due to duplicate config keys: %s", c.Name)
		}
		if err := checkValueSize(*c.Value); err != nil {
			return nil, err
		}
		overrides[c.Name] = *c.Value
	}
	return overrides, s.checkTopicConfig(overrides)
}

// assignments are the replicas of each partition, drawn or as the request says.
func (s *State) assignments(req *kmsg.CreateTopicsRequestTopic, in Input) ([][]int32, *apiError) {
	if len(req.ReplicaAssignment) > 0 {
		return s.manualAssignments(req)
	}
	switch {
	case req.ReplicationFactor < -1 || req.ReplicationFactor == 0:
		return nil, failf(kerr.InvalidReplicationFactor, "Replication factor must be larger than 0, or -1 to use the default value.")
	case req.NumPartitions < -1 || req.NumPartitions == 0:
		return nil, failf(kerr.InvalidPartitions, "Number of partitions was set to an invalid non-positive value.")
	}
	cfg := s.brokerConfig()
	partitions, factor := req.NumPartitions, req.ReplicationFactor
	if partitions == -1 {
		partitions = cfg.NumPartitions
	}
	if factor == -1 {
		factor = cfg.DefaultReplicationFactor
	}
	if partitions > maxRecordsPerRequest {
		return nil, failf(kerr.PolicyViolation, "Unable to perform excessively large batch operation.")
	}
	return s.place(0, int(partitions), int(factor), in.Rand)
}

func (s *State) manualAssignments(req *kmsg.CreateTopicsRequestTopic) ([][]int32, *apiError) {
	if req.ReplicationFactor != -1 {
		return nil, failf(kerr.InvalidRequest, "A manual partition assignment was specified, but replication factor was not set to -1.")
	}
	if req.NumPartitions != -1 {
		return nil, failf(kerr.InvalidRequest, "A manual partition assignment was specified, but numPartitions was not set to -1.")
	}
	out := make([][]int32, len(req.ReplicaAssignment))
	factor := len(req.ReplicaAssignment[0].Replicas)
	for _, a := range req.ReplicaAssignment {
		if a.Partition < 0 || int(a.Partition) >= len(out) {
			return nil, failf(kerr.InvalidReplicaAssignment, "partitions should be a consecutive 0-based integer sequence")
		}
		if out[a.Partition] != nil {
			return nil, failf(kerr.InvalidReplicaAssignment, "Found multiple manual partition assignments for partition %d", a.Partition)
		}
		if err := s.checkManual(a.Partition, a.Replicas, factor); err != nil {
			return nil, err
		}
		out[a.Partition] = slices.Clone(a.Replicas)
	}
	return out, nil
}

func (s *State) checkManual(partition int32, replicas []int32, factor int) *apiError {
	if len(replicas) == 0 {
		return failf(kerr.InvalidReplicaAssignment, "The manual partition assignment includes an empty replica list.")
	}
	ordered := slices.Sorted(slices.Values(replicas))
	for i, b := range ordered {
		if s.image.Broker(b) == nil {
			return failf(kerr.InvalidReplicaAssignment, "The manual partition assignment includes broker %d, but no such broker is registered.", b)
		}
		if i > 0 && ordered[i-1] == b {
			return failf(kerr.InvalidReplicaAssignment, "The manual partition assignment includes the broker %d more than once.", b)
		}
	}
	if len(replicas) != factor {
		return failf(kerr.InvalidReplicaAssignment, "The manual partition assignment includes a partition with %d replica(s), but this is not consistent with previous partitions, which have %d replica(s).", len(replicas), factor)
	}
	if !slices.ContainsFunc(replicas, s.active) {
		return failf(kerr.InvalidReplicaAssignment, "All brokers specified in the manual partition assignment for partition %d are fenced or in controlled shutdown.", partition)
	}
	return nil
}

// newPartition is led by the first of its replicas that may lead; some may.
func (s *State) newPartition(topic meta.UUID, id int32, replicas []int32) meta.Record {
	var isr []int32
	dirs := make([]meta.UUID, len(replicas))
	for i, b := range replicas {
		if s.active(b) {
			isr = append(isr, b)
		}
		dirs[i] = s.defaultDir(b)
	}
	return meta.Record{Version: meta.PartitionVersion(s.image.MetadataVersion()), Body: &meta.PartitionRecord{
		PartitionID: id, TopicID: topic, Replicas: replicas, ISR: isr, Leader: isr[0], Directories: dirs,
	}}
}

func (s *State) describeCreated(out *kmsg.CreateTopicsResponseTopic, t *newTopic) {
	out.TopicID, out.NumPartitions, out.ReplicationFactor = t.id, int32(t.partitions), int16(t.replicas)
	entries := s.brokerConfig().DescribeTopic(t.overrides)
	slices.SortFunc(entries, func(a, b config.Entry) int { return cmp.Compare(a.Name, b.Name) })
	for _, e := range entries {
		c := kmsg.NewCreateTopicsResponseTopicConfig()
		c.Name, c.ReadOnly, c.Source, c.IsSensitive = e.Name, e.ReadOnly, int8(e.Source), e.Sensitive
		if !e.Sensitive && !e.Null {
			c.Value = &e.Value
		}
		out.Configs = append(out.Configs, c)
	}
}

// deleteTopics deletes by name, and from version 6 by name or id.
func (s *State) deleteTopics(r *kmsg.DeleteTopicsRequest) Decision {
	resp := r.ResponseKind().(*kmsg.DeleteTopicsResponse)
	asked := slices.Clone(r.Topics)
	for _, name := range r.TopicNames {
		asked = append(asked, kmsg.DeleteTopicsRequestTopic{Topic: &name})
	}
	var records []meta.Record
	gone := make(map[meta.UUID]bool)
	for _, a := range asked {
		out := kmsg.NewDeleteTopicsResponseTopic()
		out.Topic, out.TopicID = a.Topic, a.TopicID
		t, err := s.findDeleted(r, a, gone)
		if err != nil {
			out.ErrorCode, out.ErrorMessage = err.code, err.message()
		} else {
			gone[t.ID] = true
			out.Topic, out.TopicID = &t.Name, t.ID
			records = append(records, meta.Record{Body: &meta.RemoveTopicRecord{TopicID: t.ID}})
		}
		resp.Topics = append(resp.Topics, out)
	}
	return Decision{Records: records, Response: resp}
}

func (s *State) findDeleted(r *kmsg.DeleteTopicsRequest, a kmsg.DeleteTopicsRequestTopic, gone map[meta.UUID]bool) (*meta.Topic, *apiError) {
	if !s.brokerConfig().DeleteTopics {
		if r.Version < 3 {
			return nil, failf(kerr.InvalidRequest, "Topic deletion is disabled.")
		}
		return nil, failf(kerr.TopicDeletionDisabled, "")
	}
	byID := a.TopicID != meta.UUID{}
	if byID == (a.Topic != nil) {
		return nil, failf(kerr.InvalidRequest, "A topic is named by its name or by its id, and not by both.")
	}
	t := s.image.TopicByID(a.TopicID)
	unknown := failf(kerr.UnknownTopicID, "")
	if !byID {
		t, unknown = s.image.Topic(*a.Topic), failf(kerr.UnknownTopicOrPartition, "")
	}
	if t == nil {
		return nil, unknown
	}
	if gone[t.ID] {
		return nil, failf(kerr.InvalidRequest, "The topic is named twice.")
	}
	return t, nil
}
