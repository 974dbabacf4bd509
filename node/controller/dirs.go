package controller

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/node/meta"
)

// dirOnline reports whether the directory of the broker's replica is one that it has.
func (s *State) dirOnline(p *meta.Partition, broker int32) bool {
	b := s.image.Broker(broker)
	return b == nil || !p.DirLost(b)
}

// defaultDir is the directory of a new replica on the broker, if it has but one.
func (s *State) defaultDir(broker int32) meta.UUID {
	b := s.image.Broker(broker)
	switch {
	case b == nil || len(b.LogDirs) == 0:
		return meta.DirMigrating
	case len(b.LogDirs) == 1:
		return b.LogDirs[0]
	}
	return meta.DirUnassigned
}

// directories are those of the wanted replicas, in their order.
func (c *change) directories() []meta.UUID {
	p := c.partition
	if c.movedBroker < 0 && len(p.Directories) == len(p.Replicas) && slices.Equal(p.Replicas, c.replicas) {
		return p.Directories
	}
	out := make([]meta.UUID, len(c.replicas))
	for i, b := range c.replicas {
		if b == c.movedBroker {
			out[i] = c.movedTo
		} else if dir, known := p.Dir(b); known {
			out[i] = dir
		} else {
			out[i] = c.defaultDir(b)
		}
	}
	return out
}

// offlineDirs takes the replicas of directories that failed out of leadership.
func (s *State) offlineDirs(b *meta.Broker, offline [][16]byte) []meta.Record {
	online := slices.DeleteFunc(slices.Clone(b.LogDirs), func(d meta.UUID) bool { return slices.Contains(offline, d) })
	if len(online) == len(b.LogDirs) || len(online) == 0 {
		return nil // none, or all: the latter fences the broker
	}
	records := s.partitionUpdates(brokerEvent{removed: b.ID, added: -1, unclean: -1}, func(p *meta.Partition) bool {
		dir, known := p.Dir(b.ID)
		return known && slices.Contains(p.ISR, b.ID) && slices.Contains(offline, dir)
	})
	return append(records, meta.Record{Version: meta.BrokerRegistrationChangeVersion(s.image.MetadataVersion()),
		Body: &meta.BrokerRegistrationChangeRecord{BrokerID: b.ID, BrokerEpoch: b.Epoch, LogDirs: online}})
}

func allOffline(b *meta.Broker, offline [][16]byte) bool {
	return len(b.LogDirs) > 0 && !slices.ContainsFunc(b.LogDirs, func(d meta.UUID) bool { return !slices.Contains(offline, d) })
}

// assignReplicasToDirs takes a broker's word for which of its directories a replica is in.
func (s *State) assignReplicasToDirs(r *kmsg.AssignReplicasToDirsRequest) Decision {
	resp := r.ResponseKind().(*kmsg.AssignReplicasToDirsResponse)
	if err := s.checkEpoch(r.BrokerID, r.BrokerEpoch); err != nil {
		resp.ErrorCode = err.code
		return Decision{Response: resp}
	}
	var records []meta.Record
	next := s // each is decided on what the ones before made of the image
	for _, d := range r.Directories {
		out := kmsg.NewAssignReplicasToDirsResponseDirectory()
		out.ID = d.ID
		for _, x := range d.Topics {
			topic := kmsg.NewAssignReplicasToDirsResponseDirectoryTopic()
			topic.TopicID = x.TopicID
			for _, id := range x.Partitions {
				p := kmsg.NewAssignReplicasToDirsResponseDirectoryTopicPartition()
				p.Partition = id.Partition
				more, err := next.assignDir(r.BrokerID, d.ID, x.TopicID, id.Partition)
				p.ErrorCode = err.errorCode()
				records, next = append(records, more...), next.after(more)
				topic.Partitions = append(topic.Partitions, p)
			}
			out.Topics = append(out.Topics, topic)
		}
		resp.Directories = append(resp.Directories, out)
	}
	return Decision{Records: records, Response: resp}
}

func (s *State) assignDir(broker int32, dir, topic meta.UUID, id int32) ([]meta.Record, *apiError) {
	t := s.image.TopicByID(topic)
	if t == nil {
		return nil, failf(kerr.UnknownTopicID, "")
	}
	p := t.Partition(id)
	if p == nil {
		return nil, failf(kerr.UnknownTopicOrPartition, "")
	}
	if !slices.Contains(p.Replicas, broker) {
		return nil, failf(kerr.NotLeaderForPartition, "")
	}
	c := s.begin(t, id)
	c.movedBroker, c.movedTo = broker, dir
	online := meta.HasDir(s.image.Broker(broker).LogDirs, dir)
	if !online { // it failed meanwhile
		c.isr = without(p.ISR, broker)
	}
	was := c.acceptable
	c.acceptable = func(b int32) bool {
		if b == broker {
			return online && s.active(b)
		}
		return was(b)
	}
	return s.appendChange(nil, c), nil
}
