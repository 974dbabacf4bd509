package controller

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/node/meta"
)

// Kinds of election that a client can ask for (KIP-460).
const (
	askPreferred = 0
	askUnclean   = 1
)

// electLeaders elects the preferred leader, or any where there is none, for the partitions
// that are named, or for all.
func (s *State) electLeaders(r *kmsg.ElectLeadersRequest) Decision {
	resp := r.ResponseKind().(*kmsg.ElectLeadersResponse)
	if r.ElectionType != askPreferred && r.ElectionType != askUnclean {
		resp.ErrorCode = kerr.InvalidRequest.Code
		return Decision{Response: resp}
	}
	e := electionRequest{State: s, kind: r.ElectionType, elected: make(map[*meta.Partition]bool)}
	if r.Topics == nil {
		resp.Topics = e.all()
	}
	for _, x := range r.Topics {
		out := kmsg.NewElectLeadersResponseTopic()
		out.Topic = x.Topic
		seen := make(map[int32]bool, len(x.Partitions))
		for _, id := range x.Partitions {
			if !seen[id] {
				seen[id] = true
				out.Partitions = append(out.Partitions, electionResult(id, e.elect(s.image.Topic(x.Topic), id)))
			}
		}
		resp.Topics = append(resp.Topics, out)
	}
	return Decision{Records: e.records, Response: resp}
}

// electionRequest collects the records of one request.
type electionRequest struct {
	*State
	kind    int8
	elected map[*meta.Partition]bool // a topic may be named twice
	records []meta.Record
}

// all elects everywhere, and lists the partitions where there was something to do.
func (e *electionRequest) all() []kmsg.ElectLeadersResponseTopic {
	list := []kmsg.ElectLeadersResponseTopic{}
	for t := range e.image.Topics() {
		out := kmsg.NewElectLeadersResponseTopic()
		out.Topic = t.Name
		for id := range t.Partitions {
			if err := e.elect(t, int32(id)); err.errorCode() != kerr.ElectionNotNeeded.Code {
				out.Partitions = append(out.Partitions, electionResult(int32(id), err))
			}
		}
		if len(out.Partitions) > 0 {
			list = append(list, out)
		}
	}
	return list
}

func electionResult(id int32, err *apiError) kmsg.ElectLeadersResponseTopicPartition {
	out := kmsg.NewElectLeadersResponseTopicPartition()
	out.Partition, out.ErrorCode, out.ErrorMessage = id, err.errorCode(), err.message()
	return out
}

func (e *electionRequest) elect(t *meta.Topic, id int32) *apiError {
	p := t.Partition(id)
	switch {
	case p == nil:
		return failf(kerr.UnknownTopicOrPartition, "")
	case e.needless(p) || e.elected[p]:
		return failf(kerr.ElectionNotNeeded, "")
	case len(e.records) >= maxRecordsPerRequest:
		return failf(kerr.PolicyViolation, "Unable to perform excessively large batch operation.")
	}
	c := e.begin(t, id)
	if e.kind == askPreferred {
		c.election = electPreferred
		if !c.mayBeElected(c.replicas[0]) {
			return failf(kerr.PreferredLeaderNotAvailable, "")
		}
	} else {
		c.election = electUnclean
		if leader, _ := c.leader(); leader < 0 {
			return failf(kerr.EligibleLeadersNotAvailable, "")
		}
	}
	e.records = e.appendChange(e.records, c)
	e.elected[p] = true
	return nil
}

func (e *electionRequest) needless(p *meta.Partition) bool {
	if e.kind == askPreferred {
		return p.Leader == p.Replicas[0]
	}
	return p.Leader >= 0
}
