package api

// DescribeLogDirs: what lies in each log directory, and how large it is.
//
//	1  throttle time     2  flexible     3  top-level error
//	4  size of the file system           5  cordoned directories (there are none)

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
	"seedlog/node/replica"
	"seedlog/storage"
)

func (s *Service) describeLogDirs(t *task.T, r *conn.Request, req *kmsg.DescribeLogDirsRequest) kmsg.Response {
	resp := kmsg.NewPtrDescribeLogDirsResponse()
	asked := askedLogs(req)
	for _, d := range s.Replicas.Dirs() {
		dir := kmsg.NewDescribeLogDirsResponseDir()
		dir.Dir, dir.TotalBytes, dir.UsableBytes = d.Dir.Path(), -1, -1
		if d.Dir.Err() != nil {
			dir.ErrorCode = kerr.KafkaStorageError.Code
			resp.Dirs = append(resp.Dirs, dir)
			continue
		}
		dir.Topics = s.logsOf(d, asked)
		if usage, err := s.Disk.Usage(t, d.Dir.Path()); err == nil {
			dir.TotalBytes, dir.UsableBytes = usage.Total, usage.Free
		}
		resp.Dirs = append(resp.Dirs, dir)
	}
	return resp
}

// namedLog is a partition by its topic's name.
type namedLog struct {
	topic string
	index int32
}

// askedLogs are the partitions that a request names; nil for all.
func askedLogs(req *kmsg.DescribeLogDirsRequest) map[namedLog]bool {
	if req.Topics == nil {
		return nil
	}
	asked := make(map[namedLog]bool)
	for _, t := range req.Topics {
		for _, index := range t.Partitions {
			asked[namedLog{t.Topic, index}] = true
		}
	}
	return asked
}

// logsOf lists the directory's partitions by name, those that are asked for.
func (s *Service) logsOf(d replica.Dir, asked map[namedLog]bool) []kmsg.DescribeLogDirsResponseDirTopic {
	var topics []kmsg.DescribeLogDirsResponseDirTopic
	for _, h := range s.hostedIn(d) {
		p, index := h.p, h.p.Key().Partition
		if asked != nil && !asked[namedLog{p.Topic(), index}] {
			continue
		}
		if len(topics) == 0 || topics[len(topics)-1].Topic != p.Topic() {
			topic := kmsg.NewDescribeLogDirsResponseDirTopic()
			topic.Topic = p.Topic()
			topics = append(topics, topic)
		}
		out := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		out.Partition, out.Size, out.IsFuture = index, h.log.Size(), h.future
		if h.future { // against the replica that it becomes
			out.OffsetLag = max(p.Log().LogEndOffset()-h.log.LogEndOffset(), 0)
		} else {
			out.OffsetLag = max(p.Log().HighWatermark()-p.Log().LogEndOffset(), 0)
		}
		topic := &topics[len(topics)-1]
		topic.Partitions = append(topic.Partitions, out)
	}
	return topics
}

// hosted is a log in a directory: a partition's, or the copy that is to become it (KIP-113).
type hosted struct {
	p      *replica.Partition
	log    *storage.Log
	future bool
}

func (s *Service) hostedIn(d replica.Dir) []hosted {
	var list []hosted
	for _, p := range s.Replicas.Partitions() {
		if p.Log().Dir() == d.Dir {
			list = append(list, hosted{p, p.Log(), false})
		} else if f := s.Replicas.FutureOf(p); f != nil && f.Dir() == d.Dir {
			list = append(list, hosted{p, f, true})
		}
	}
	slices.SortFunc(list, func(a, b hosted) int { return replica.ByName(a.p, b.p) })
	return list
}
