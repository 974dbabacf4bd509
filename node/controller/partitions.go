package controller

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/node/meta"
)

// createPartitions adds partitions to topics.
func (s *State) createPartitions(r *kmsg.CreatePartitionsRequest, in Input) Decision {
	resp := r.ResponseKind().(*kmsg.CreatePartitionsResponse)
	var records []meta.Record
	named := make(map[string]int, len(r.Topics))
	for i := range r.Topics {
		named[r.Topics[i].Topic]++
	}
	for _, req := range r.Topics {
		out := kmsg.NewCreatePartitionsResponseTopic()
		out.Topic = req.Topic
		more, err := s.addPartitions(req, named[req.Topic] > 1, maxRecordsPerRequest-len(records), in)
		if err != nil {
			out.ErrorCode, out.ErrorMessage = err.code, err.message()
		} else {
			records = append(records, more...)
		}
		resp.Topics = append(resp.Topics, out)
	}
	if r.ValidateOnly {
		records = nil
	}
	return Decision{Records: records, Response: resp}
}

// addPartitions adds them to one topic. Where there is no room for as many records they are not
// even placed: the brokers' reports wait behind this.
func (s *State) addPartitions(req kmsg.CreatePartitionsRequestTopic, twice bool, room int, in Input) ([]meta.Record, *apiError) {
	if twice {
		return nil, failf(kerr.InvalidRequest, "Duplicate topic name.")
	}
	t := s.image.Topic(req.Topic)
	if t == nil {
		return nil, failf(kerr.UnknownTopicOrPartition, "")
	}
	have := len(t.Partitions)
	switch {
	case int(req.Count) == have:
		return nil, failf(kerr.InvalidPartitions, "Topic already has %d partition(s).", have)
	case int(req.Count) < have:
		return nil, failf(kerr.InvalidPartitions, "The topic %s currently has %d partition(s); %d would not be an increase.", t.Name, have, req.Count)
	case int(req.Count)-have > room:
		return nil, failf(kerr.PolicyViolation, "Unable to perform excessively large batch operation.")
	case req.Count > meta.MaxPartitions:
		return nil, failf(kerr.InvalidPartitions, "The topic %s can have at most %d partitions.", t.Name, meta.MaxPartitions)
	}
	assignments, err := s.moreAssignments(t, req, in)
	if err != nil {
		return nil, err
	}
	var records []meta.Record
	for i, replicas := range assignments {
		records = append(records, s.newPartition(t.ID, int32(have+i), replicas))
	}
	return records, nil
}

func (s *State) moreAssignments(t *meta.Topic, req kmsg.CreatePartitionsRequestTopic, in Input) ([][]int32, *apiError) {
	have, factor := len(t.Partitions), len(t.Partitions[0].Replicas)
	additional := int(req.Count) - have
	if req.Assignment == nil {
		return s.place(have, additional, factor, in.Rand)
	}
	if len(req.Assignment) != additional {
		return nil, failf(kerr.InvalidReplicaAssignment, "Attempted to add %d additional partition(s), but only %d assignment(s) were specified.", additional, len(req.Assignment))
	}
	var out [][]int32
	for i, a := range req.Assignment {
		if err := s.checkManual(int32(have+i), a.Replicas, factor); err != nil {
			return nil, err
		}
		out = append(out, slices.Clone(a.Replicas))
	}
	return out, nil
}
