package scenarios

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/scenarios/client"
)

func timestamps(r *Run) {
	tell(r, func(s *story) {
		topic := s.topic("t", 1)
		stamped := s.topic("stamped", 1, [2]string{"message.timestamp.type", "LogAppendTime"})
		bounded := s.topic("bounded", 1, [2]string{"message.timestamp.before.max.ms", "60000"})
		s.client("produce", func(t *task.T, p *client.Plain) {
			const hour = int64(time.Hour / time.Millisecond)
			send := func(topic *client.Topic, shift int64, want *kerr.Error) client.Produced {
				a, err := p.Produce(t, topic, 0, 9, -1, batch(t.UnixMilli()+shift, nobody, 2, 10, 0))
				if s.ok(err, "produce") {
					s.code(a.Code, want, "produce")
				}
				return a
			}
			send(topic, -8*24*hour, nil)
			a := send(topic, 2*hour, kerr.InvalidTimestamp)
			s.must(len(a.Records) == 2 && a.Records[0].RelativeOffset == 0, "codes", "INVALID_TIMESTAMP names records %v", a.Records)
			send(topic, hour/2, nil)
			send(bounded, -2*60_000, kerr.InvalidTimestamp)
			before := t.UnixMilli()
			a = send(stamped, -8*24*hour, nil)
			s.must(a.LogAppendTime >= before && a.LogAppendTime <= t.UnixMilli(), "S8", "LogAppendTime %d, now %d", a.LogAppendTime, t.UnixMilli())
			got, err := p.Fetch(t, stamped, 0, 11, 0, -1)
			if s.ok(err, "fetch") && s.must(len(got.Batches) == 1, "S8", "%d batches", len(got.Batches)) {
				s.must(got.Batches[0].LogAppendTime() && got.Batches[0].MaxTs == a.LogAppendTime, "S8", "the stored batch says %d", got.Batches[0].MaxTs)
			}
		})
	})
}

func idempotence(r *Run) {
	tell(r, func(s *story) {
		topic := s.topic("t", 1, [2]string{"internal.segment.bytes", "1200"})
		var id int64
		var epoch int16
		send := func(t *task.T, p *client.Plain, seq int32) client.Produced {
			spec := client.BatchSpec{ProducerID: id, ProducerEpoch: epoch, BaseSequence: seq}
			a, err := p.Produce(t, topic, 0, 9, -1, batch(1_700_000_000_000, spec, 2, 100, int(seq)))
			s.ok(err, "produce")
			return a
		}
		s.client("eight batches, then the last five again", func(t *task.T, p *client.Plain) {
			var err error
			id, epoch, err = p.ProducerID(t)
			s.ok(err, "producer id")
			for seq := int32(0); seq < 16; seq += 2 {
				s.must(send(t, p, seq).Base == int64(seq), "I17", "sequence %d is not at its offset", seq)
			}
			for seq := int32(6); seq < 16; seq += 2 {
				a := send(t, p, seq)
				s.must(a.Code == 0 && a.Base == int64(seq), "I17", "the repeat of sequence %d got %s at %d", seq, client.CodeName(a.Code), a.Base)
			}
			s.code(send(t, p, 18).Code, kerr.OutOfOrderSequenceNumber, "a gap")
		})
		for _, power := range []bool{false, true} {
			if power {
				s.restart() // everything is synced by a clean stop
			}
			if !s.crash(power) {
				return
			}
			s.client("the last batch again, then a gap, then the next", func(t *task.T, p *client.Plain) {
				next := int32(16)
				if power {
					next = 18
				}
				a := send(t, p, next-2)
				s.must(a.Code == 0 && a.Base == int64(next-2), "I17", "after a crash the repeat of sequence %d got %s at %d", next-2, client.CodeName(a.Code), a.Base)
				s.code(send(t, p, next+2).Code, kerr.OutOfOrderSequenceNumber, "a gap after a crash")
				a = send(t, p, next)
				s.must(a.Code == 0 && a.Base == int64(next), "I17", "after a crash sequence %d got %s at %d", next, client.CodeName(a.Code), a.Base)
			})
		}
		s.client("old epochs", func(t *task.T, p *client.Plain) {
			epoch++
			s.must(send(t, p, 0).Code == 0, "I10", "a new epoch may begin at sequence 0")
			epoch--
			s.code(send(t, p, 20).Code, kerr.InvalidProducerEpoch, "an old epoch")
		})
		if s.stop() {
			s.judgeDirs()
		}
	})
}

func recreatedTopic(r *Run) {
	tell(r, func(s *story) {
		old := s.topic("t", 2)
		s.fillAll(old)
		s.client("delete", func(t *task.T, p *client.Plain) {
			code, err := p.Delete(t, "t")
			if s.ok(err, "delete") {
				s.code(code, nil, "delete")
			}
		})
		s.down(r.Rand("crash").IntN(2) == 0)
		if !s.boot() {
			return
		}
		again := s.topic("t", 2)
		s.must(again.ID != old.ID, "I32", "the new topic has the old one's id")
		s.must(s.end(again) == 0, "I32", "a new topic begins with %d records", s.end(again))
		s.client("by the old id", func(t *task.T, p *client.Plain) {
			got, err := p.Fetch(t, old, 0, 13, 0, -1)
			if s.ok(err, "fetch") {
				s.code(got.Code, kerr.UnknownTopicID, "fetch by the old topic id")
			}
			a, err := p.Produce(t, old, 0, 13, -1, batch(t.UnixMilli(), nobody, 1, 10, 0))
			if s.ok(err, "produce") {
				s.code(a.Code, kerr.UnknownTopicID, "produce by the old topic id")
			}
		})
		s.fillAll(again)
		if s.restart() {
			s.must(s.end(again) == 2, "I32", "after a restart the new topic has %d records", s.end(again))
		}
	})
}

// setting asks for a topic's own setting; "" if it has none.
func (s *story) setting(topic, name string) (value string) {
	s.client("settings of "+topic, func(t *task.T, p *client.Plain) {
		req := kmsg.NewPtrDescribeConfigsRequest()
		req.Version = 1
		res := kmsg.NewDescribeConfigsRequestResource()
		res.ResourceType, res.ResourceName, res.ConfigNames = kmsg.ConfigResourceTypeTopic, topic, []string{name}
		req.Resources = append(req.Resources, res)
		resp, err := p.Call(t, req)
		if !s.ok(err, "describe") {
			return
		}
		got := resp.(*kmsg.DescribeConfigsResponse).Resources[0]
		if s.code(got.ErrorCode, nil, "describe") && len(got.Configs) == 1 && got.Configs[0].Source == kmsg.ConfigSourceDynamicTopicConfig {
			value = *got.Configs[0].Value
		}
	})
	return value
}

// topicSettings: a topic's settings live as long as the topic, whether the log has them or a
// snapshot of the metadata.
func topicSettings(r *Run) {
	r.Set("metadata.log.max.record.bytes.between.snapshots", "300")
	tell(r, func(s *story) {
		s.topic("t", 1, [2]string{"retention.ms", "1234567"})
		for i := range 8 {
			s.topic(fmt.Sprintf("other%d", i), 1)
		}
		for i := range 2 {
			got := s.setting("t", "retention.ms")
			if !s.must(got == "1234567", "I31", "retention.ms is %q after %d restarts", got, i) || !s.crash(false) {
				return
			}
		}
		s.client("delete", func(t *task.T, p *client.Plain) {
			code, err := p.Delete(t, "t")
			if s.ok(err, "delete") {
				s.code(code, nil, "delete")
			}
		})
		s.topic("t", 1)
		got := s.setting("t", "retention.ms")
		s.must(got == "", "I32", "a new topic has its predecessor's retention.ms=%s", got)
	})
}

func strays(r *Run) {
	tell(r, func(s *story) {
		topic := s.topic("t", 3)
		s.fillAll(topic)
		// A directory that no metadata knows.
		s.Broker.Disk.WriteFile("/data/ghost-0/partition.metadata", []byte("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAQQ"))
		s.Broker.Disk.WriteFile("/data/ghost-0/00000000000000000000.log", nil)
		for range 2 {
			if !s.restart() {
				return
			}
			for i := range topic.Partitions {
				_, ok := s.Broker.Disk.Size("/data/" + client.PartitionName(s.partition(topic, i)) + "/00000000000000000000.log")
				s.must(ok, "I32", "the directory of a live replica is gone")
			}
			_, ghost := s.Broker.Disk.Size("/data/ghost-0/00000000000000000000.log")
			s.must(!ghost, "I32", "the stray directory is still served")
		}
		s.must(s.end(topic) == 2, "I32", "a live replica has %d records", s.end(topic))
	})
}

func errorCodes(r *Run) {
	r.Set("group.min.session.timeout.ms", "6000")
	tell(r, func(s *story) {
		topic := s.topic("t", 1, [2]string{"max.message.bytes", "1000"})
		s.fill(topic, 3)
		compacted := s.topic("compacted", 1, [2]string{"cleanup.policy", "compact"})
		s.client("each code", func(t *task.T, p *client.Plain) {
			s.produceCodes(t, p, topic, compacted)
			s.fetchCodes(t, p, topic)
			s.code(s.deleteRecords(t, p, topic, 9), kerr.OffsetOutOfRange, "delete records above the high watermark 8")
			s.code(s.deleteRecords(t, p, topic, -2), kerr.OffsetOutOfRange, "delete records below -2")
			s.groupCodes(t, p)
		})
	})
}

func (s *story) produceCodes(t *task.T, p *client.Plain, topic, compacted *client.Topic) {
	send := func(topic *client.Topic, version, acks int16, b []byte, want *kerr.Error, what string) {
		a, err := p.Produce(t, topic, 0, version, acks, b)
		if s.ok(err, what) {
			s.code(a.Code, want, what)
		}
	}
	now := t.UnixMilli()
	fine := func() []byte { return batch(now, nobody, 2, 50, 0) }
	// A record of n bytes below 8 KiB costs n+9 in a batch, with the header's 61: the limit is 1000.
	over := batch(now, nobody, 1, 1001-61-9, 0)
	if !s.must(len(over) == 1001, "scenario", "a batch has %d bytes, not 1001", len(over)) {
		return
	}
	send(topic, 9, -1, over, kerr.MessageTooLarge, "a batch one byte above max.message.bytes")
	b := fine()
	b[70] ^= 0xff
	send(topic, 9, -1, b, kerr.CorruptMessage, "a wrong CRC")
	b = fine()
	b[60]++ // counts more records than there are
	client.Seal(b)
	send(topic, 9, -1, b, kerr.InvalidRecord, "a wrong count")
	send(topic, 9, -1, append(fine(), fine()...), kerr.InvalidRecord, "two batches")
	send(topic, 9, -1, client.Encode(client.BatchSpec{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, Attributes: 0x20}, []client.Record{{Timestamp: now}}), kerr.InvalidRecord, "a control batch")
	spec := nobody
	spec.Codec = client.Zstd
	send(topic, 6, -1, batch(now, spec, 2, 50, 0), kerr.UnsupportedCompressionType, "zstd below version 7")
	send(topic, 7, -1, batch(now, spec, 2, 50, 0), nil, "zstd in version 7")
	send(topic, 9, 2, fine(), kerr.InvalidRequiredAcks, "acks=2")
	send(compacted, 9, -1, fine(), kerr.InvalidRecord, "a record without key for a compacted topic")
	send(&client.Topic{Name: "nosuch"}, 9, -1, fine(), kerr.UnknownTopicOrPartition, "an unknown topic")
	send(&client.Topic{ID: [16]byte{9}}, 13, -1, fine(), kerr.UnknownTopicID, "an unknown topic id")
}

func (s *story) fetchCodes(t *task.T, p *client.Plain, topic *client.Topic) {
	get := func(topic *client.Topic, version int16, offset int64, epoch int32, want *kerr.Error, what string) {
		got, err := p.Fetch(t, topic, 0, version, offset, epoch)
		if s.ok(err, what) {
			s.code(got.Code, want, what)
		}
	}
	end := int64(8) // six by fill, two by zstd
	get(topic, 11, end, -1, nil, "fetch at the end")
	get(topic, 11, end+1, -1, kerr.OffsetOutOfRange, "fetch above the end")
	get(topic, 11, -5, -1, kerr.OffsetOutOfRange, "fetch below the start")
	get(topic, 12, 0, 0, nil, "fetch in the current epoch")
	get(topic, 12, 0, 7, kerr.UnknownLeaderEpoch, "fetch in an epoch to come")
	get(&client.Topic{ID: [16]byte{9}}, 13, 0, -1, kerr.UnknownTopicID, "fetch of an unknown topic id")
	get(&client.Topic{Name: "nosuch"}, 11, 0, -1, kerr.UnknownTopicOrPartition, "fetch of an unknown topic")
}

func (s *story) groupCodes(t *task.T, p *client.Plain) {
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version, find.CoordinatorKey = 3, "g"
	for range 50 {
		resp, err := p.Call(t, find)
		if !s.ok(err, "FindCoordinator") {
			return
		}
		code := resp.(*kmsg.FindCoordinatorResponse).ErrorCode
		if code == 0 {
			break
		}
		if !s.code(code, kerr.CoordinatorNotAvailable, "a coordinator that is being made") {
			return
		}
		t.Sleep(t.Now().Add(100 * time.Millisecond))
	}
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 5, "g", "consumer", 10, 10
	proto := kmsg.NewJoinGroupRequestProtocol()
	proto.Name = "range"
	join.Protocols = append(join.Protocols, proto)
	for _, c := range []struct {
		session int32
		member  string
		want    *kerr.Error
		what    string
	}{
		{10, "", kerr.InvalidSessionTimeout, "a session below the minimum"},
		{10_000, "nobody", kerr.UnknownMemberID, "an unknown member"},
		{10_000, "", kerr.MemberIDRequired, "a member without an id"},
	} {
		join.SessionTimeoutMillis, join.MemberID = c.session, c.member
		for range 50 {
			resp, err := p.Call(t, join)
			if !s.ok(err, c.what) {
				return
			}
			code := resp.(*kmsg.JoinGroupResponse).ErrorCode
			if code == kerr.CoordinatorLoadInProgress.Code || code == kerr.NotCoordinator.Code {
				t.Sleep(t.Now().Add(50 * time.Millisecond))
				continue
			}
			s.code(code, c.want, c.what)
			break
		}
	}
	find.CoordinatorKey, find.CoordinatorType = "tx", 1
	resp, err := p.Call(t, find)
	if s.ok(err, "FindCoordinator") {
		s.must(resp.(*kmsg.FindCoordinatorResponse).ErrorCode != 0, "codes", "a transaction coordinator is promised")
	}
}
