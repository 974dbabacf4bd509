package scenarios

import (
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/scenarios/client"
	"seedlog/sim/simdisk"
)

// ofOffsets are the segments of the topic of the groups.
func ofOffsets(path string) bool {
	return strings.Contains(path, "/"+offsetsTopic+"-") && strings.HasSuffix(path, ".log")
}

// deletedWhileLoading is a topic that is deleted while the coordinator loads, which takes long:
// what was committed for it goes, too.
func deletedWhileLoading(r *Run) {
	r.Set("offsets.topic.num.partitions", "1")
	tell(r, func(s *story) {
		s.topic("t", 1)
		s.client("commit", func(t *task.T, p *client.Plain) {
			if s.findCoordinator(t, p) {
				s.code(s.commitOffset(t, p, "", -1, 5), nil, "commit")
			}
		})
		if s.failed || !s.stop() {
			return
		}
		s.Broker.Disk.HoldFor(simdisk.OpRead, 5*time.Second, ofOffsets)
		if !s.boot() {
			return
		}
		s.client("delete", func(t *task.T, p *client.Plain) {
			code, err := p.Delete(t, "t")
			if !s.ok(err, "delete") || !s.code(code, nil, "delete") {
				return
			}
			t.Sleep(t.Now().Add(100 * time.Millisecond))
			resp, err := p.Call(t, s.offsetFetch())
			if s.ok(err, "OffsetFetch") {
				got := resp.(*kmsg.OffsetFetchResponse).ErrorCode
				s.must(got == kerr.CoordinatorLoadInProgress.Code, "scenario", "the coordinator answers %s, and was to load still", client.CodeName(got))
			}
		})
		s.Broker.Disk.HoldFor(simdisk.OpRead, 0, nil)
		s.topic("t", 1)
		s.wait(10 * time.Second)
		s.client("read", func(t *task.T, p *client.Plain) {
			got, code := s.readOffset(t, p)
			s.must(code == 0 && got == -1, "I28", "the offset is %d (%s) in a new topic of the same name", got, client.CodeName(code))
		})
	})
}

// overtakenCoordinator is a coordinator that waits for its disk, with more to write, when its broker
// leads on in the next epoch, in which another coordinator has loaded what there is. That one is not
// told of anything, so nothing may be written but by it.
func overtakenCoordinator(r *Run) {
	r.Set("offsets.topic.num.partitions", "1")
	tellCluster(r, six(1), func(s *tale) {
		offsets := s.replicated(offsetsTopic, []int32{4, 5, 6}, [2]string{"flush.messages", "2"})
		s.replicated("t", []int32{1})
		s.failed = s.failed || !s.CreateTopic(&client.Topic{Name: "u", Partitions: 3, Replication: 1, Assignment: [][]int32{{1}, {1}, {1}}}, nil)
		commit := func(what string, done *bool, topic string, partitions ...int32) {
			e, group := s.Env(time.Minute)
			group.Go(what, func(t *task.T) {
				p := client.OpenAt(t, &e, s.node(4).Addr())
				code := s.commitOf(t, p, 9, topic, partitions...)
				s.Rec.Note(0, "%s is answered with %s", what, client.CodeName(code))
				*done = true
				p.Close()
			})
		}
		s.at(4, "commit", func(t *task.T, p *client.Plain) {
			if s.findCoordinator(t, p) {
				settled(t, func() int16 { return s.commitOf(t, p, 5, "t", 0) })
			}
		})
		s.wait(time.Second)
		var first, second bool
		s.node(4).Disk.HoldFor(simdisk.OpSync, 4*time.Second, ofOffsets)
		commit("the first commit", &first, "u", 0, 1, 2)
		s.wait(time.Second)
		s.at(1, "delete", func(t *task.T, p *client.Plain) {
			code, err := p.Delete(t, "u")
			if s.ok(err, "delete") {
				s.code(code, nil, "delete")
			}
		})
		commit("the second commit", &second, "t", 0)
		had := s.ends(offsets)[4]
		s.until("the deletion is written", 20*time.Second, func() bool { return s.ends(offsets)[4] > had })
		epoch := s.partition(offsets).LeaderEpoch
		s.assignAt(1, offsets, []int32{4, 5}, nil)
		s.until("the next epoch", 10*time.Second, func() bool {
			p := s.partition(offsets)
			return p.LeaderEpoch > epoch && p.Leader == 4 && slices.Equal(p.Replicas, []int32{4, 5})
		})
		s.wait(time.Second) // the broker is to hear of it
		end := int64(0)
		s.at(4, "read", func(t *task.T, p *client.Plain) {
			got, code := s.readOffset(t, p)
			s.must(code == 0 && got == 5, "I27", "the offset is said to be %d (%s), and 5 was committed", got, client.CodeName(code))
			end = s.ends(offsets)[4]
		})
		s.must(!second, "scenario", "the second commit is answered before the next coordinator has loaded")
		s.until("the second commit is answered", 30*time.Second, func() bool { return second })
		s.wait(5 * time.Second)
		ends := s.ends(offsets)
		s.must(ends[4] == end, "I27", "a coordinator had loaded the log up to %d, and one of an earlier epoch has written up to %d", end, ends[4])
		s.node(4).Disk.HoldFor(simdisk.OpSync, 0, nil)
	})
}

// commitOf commits an offset of each of the partitions.
func (s *story) commitOf(t *task.T, p *client.Plain, offset int64, topic string, partitions ...int32) int16 {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 7, "g", -1
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic = topic
	for _, index := range partitions {
		part := kmsg.NewOffsetCommitRequestTopicPartition()
		part.Partition, part.Offset, part.LeaderEpoch = index, offset, -1
		rt.Partitions = append(rt.Partitions, part)
	}
	req.Topics = append(req.Topics, rt)
	resp, err := p.Call(t, req)
	if !s.ok(err, "commit") {
		return -1
	}
	return resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
}
