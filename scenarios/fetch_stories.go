package scenarios

import (
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/scenarios/client"
)

// fetchSession is a client's side of one session over a topic's partitions.
type fetchSession struct {
	s        *story
	p        *client.Plain
	topic    *client.Topic
	id       int32
	maxBytes int32
}

// fetch sends one request of a session, which asks for partitions from offsets and forgets
// others, and returns the answer.
func (f *fetchSession) fetch(t *task.T, epoch int32, ask map[int32]int64, forget ...int32) *kmsg.FetchResponse {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxBytes, req.SessionID, req.SessionEpoch = 11, f.maxBytes, f.id, epoch
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic = f.topic.Name
	for i := range f.topic.Partitions {
		if offset, asked := ask[i]; asked {
			part := kmsg.NewFetchRequestTopicPartition()
			part.Partition, part.FetchOffset, part.PartitionMaxBytes, part.CurrentLeaderEpoch, part.LogStartOffset = i, offset, 1<<20, -1, -1
			rt.Partitions = append(rt.Partitions, part)
		}
	}
	if len(rt.Partitions) > 0 {
		req.Topics = append(req.Topics, rt)
	}
	if len(forget) > 0 {
		gone := kmsg.NewFetchRequestForgottenTopic()
		gone.Topic, gone.Partitions = f.topic.Name, forget
		req.ForgottenTopics = append(req.ForgottenTopics, gone)
	}
	resp, err := f.p.Call(t, req)
	if !f.s.ok(err, "fetch") {
		return kmsg.NewPtrFetchResponse()
	}
	return resp.(*kmsg.FetchResponse)
}

// answers is which partitions an answer has, and which of them with records.
func answers(resp *kmsg.FetchResponse) (all, full []int32) {
	for _, topic := range resp.Topics {
		for i := range topic.Partitions {
			all = append(all, topic.Partitions[i].Partition)
			if len(topic.Partitions[i].RecordBatches) > 0 {
				full = append(full, topic.Partitions[i].Partition)
			}
		}
	}
	slices.Sort(all)
	slices.Sort(full)
	return all, full
}

// fetchSessions walks through a session: what it leaves out, tells, forgets and refuses.
func fetchSessions(r *Run) {
	tell(r, func(s *story) {
		topic := s.topic("t", 3)
		s.fillAll(topic)
		s.client("a session", func(t *task.T, p *client.Plain) {
			f := &fetchSession{s: s, p: p, topic: topic, maxBytes: 1}
			has := func(resp *kmsg.FetchResponse, all, full []int32, what string) {
				gotAll, gotFull := answers(resp)
				s.must(resp.ErrorCode == 0 && slices.Equal(gotAll, all) && slices.Equal(gotFull, full), "I29",
					"%s: %s, partitions %v, with records %v; expected %v, %v", what, client.CodeName(resp.ErrorCode), gotAll, gotFull, all, full)
			}
			all := []int32{0, 1, 2}
			first := f.fetch(t, 0, map[int32]int64{0: 0, 1: 0, 2: 0})
			has(first, all, []int32{0}, "max_bytes of 1")
			f.id, f.maxBytes = first.SessionID, 1<<20
			if !s.must(f.id != 0, "I29", "no session is given") {
				return
			}
			has(f.fetch(t, 1, nil), all, all, "the same offsets again")
			has(f.fetch(t, 2, map[int32]int64{0: 2, 1: 2, 2: 2}), nil, nil, "all three at the end")
			a, err := p.Produce(t, topic, 1, 9, -1, batch(t.UnixMilli(), nobody, 2, 100, 0))
			if s.ok(err, "produce") {
				s.code(a.Code, nil, "produce")
			}
			has(f.fetch(t, 3, nil), []int32{1}, []int32{1}, "new records in one")
			s.code(s.deleteRecords(t, p, topic, 1), nil, "delete records")
			got := f.fetch(t, 4, map[int32]int64{1: 4})
			has(got, []int32{0}, nil, "a new log start in one")
			if len(got.Topics) == 1 && len(got.Topics[0].Partitions) == 1 {
				s.must(got.Topics[0].Partitions[0].LogStartOffset == 1, "I24", "the log start is told as %d", got.Topics[0].Partitions[0].LogStartOffset)
			}
			has(f.fetch(t, 5, map[int32]int64{1: 0, 2: 0}, 2), []int32{1}, []int32{1}, "one forgotten that the request names, too")
			has(f.fetch(t, 6, map[int32]int64{1: 4}, 1), nil, nil, "another forgotten")
			s.code(f.fetch(t, 9, nil).ErrorCode, kerr.InvalidFetchSessionEpoch, "an epoch that does not come next")
			s.code(f.fetch(t, 6, nil).ErrorCode, kerr.InvalidFetchSessionEpoch, "an epoch that was")
			f.fetch(t, -1, nil)
			s.code(f.fetch(t, 7, nil).ErrorCode, kerr.FetchSessionIDNotFound, "a session that was ended")
		})
		s.inTurn(topic)
		s.ownSessions(topic)
	})
}

// ownSessions: no session is anybody else's, also when others ended.
func (s *story) ownSessions(topic *client.Topic) {
	s.client("several sessions", func(t *task.T, p *client.Plain) {
		var live []*fetchSession
		for i := range int32(24) {
			f := &fetchSession{s: s, p: p, topic: topic, maxBytes: 1 << 20}
			f.id = f.fetch(t, 0, map[int32]int64{i % 3: 2}).SessionID
			taken := slices.ContainsFunc(live, func(o *fetchSession) bool { return o.id == f.id })
			if !s.must(f.id != 0 && !taken, "I29", "session %d has the id %d, which is another's: %v", i, f.id, taken) {
				return
			}
			if live = append(live, f); i%3 == 1 {
				live[0].fetch(t, -1, nil)
				live = live[1:]
			}
		}
		for _, f := range live {
			resp := f.fetch(t, 1, nil)
			s.code(resp.ErrorCode, nil, "a session that was not ended")
			all, _ := answers(resp)
			s.must(len(all) <= 1, "I29", "a session of one partition is answered with %v", all)
		}
	})
}

// inTurn is what max_bytes lets through: so many bytes in all, and whoever got nothing comes first
// the next time.
func (s *story) inTurn(topic *client.Topic) {
	s.client("in turn", func(t *task.T, p *client.Plain) {
		f := &fetchSession{s: s, p: p, topic: topic, maxBytes: 1 << 20}
		start := make(map[int32]int64)
		for i := range topic.Partitions {
			a, err := p.Produce(t, topic, i, 9, -1, batch(t.UnixMilli(), nobody, 2, 100, 0))
			if !s.ok(err, "produce") || !s.code(a.Code, nil, "produce") {
				return
			}
			start[i] = a.Base
		}
		first := f.fetch(t, 0, start)
		_, full := answers(first)
		if !s.must(len(full) == 3, "I29", "with room for all only %v have records", full) {
			return
		}
		size := bytesOf(first) / 3
		f.id = first.SessionID
		for i, most := range []int{size, size + size/2, 2 * size} {
			f.maxBytes = int32(most)
			got := bytesOf(f.fetch(t, int32(i+1), nil))
			s.must(got == most, "I29", "an answer has %d bytes of records, and max_bytes is %d", got, most)
		}
		f.maxBytes = 1
		seen := make(map[int32]bool)
		for i := range 3 {
			_, full := answers(f.fetch(t, int32(i+4), nil))
			for _, id := range full {
				seen[id] = true
			}
		}
		s.must(len(seen) == 3, "I29", "three answers with one batch each are of the partitions %v alone", seen)
	})
}

// bytesOf is how many bytes of records an answer has.
func bytesOf(resp *kmsg.FetchResponse) (n int) {
	for _, topic := range resp.Topics {
		for i := range topic.Partitions {
			n += len(topic.Partitions[i].RecordBatches)
		}
	}
	return n
}

// sequences: where a producer's sequences wrap, and what a new epoch begins with.
func sequences(r *Run) {
	tell(r, func(s *story) {
		topic := s.topic("t", 1, [2]string{"message.timestamp.type", "LogAppendTime"})
		var id int64
		at := int64(0)
		send := func(t *task.T, p *client.Plain, epoch int16, seq int32) client.Produced {
			a, err := p.Produce(t, topic, 0, 9, -1, batch(t.UnixMilli(), client.BatchSpec{ProducerID: id, ProducerEpoch: epoch, BaseSequence: seq}, 2, 100, int(at)))
			s.ok(err, "produce")
			return a
		}
		next := func(t *task.T, p *client.Plain, epoch int16, seq int32, what string) int64 {
			a := send(t, p, epoch, seq)
			s.must(a.Code == 0 && a.Base == at, "I18", "%s got %s at %d, expected offset %d", what, client.CodeName(a.Code), a.Base, at)
			at += 2
			return a.LogAppendTime
		}
		s.client("up to the largest sequence and on", func(t *task.T, p *client.Plain) {
			var err error
			if id, _, err = p.ProducerID(t); !s.ok(err, "producer id") {
				return
			}
			next(t, p, 0, math.MaxInt32-3, "a first sequence that is not 0")
			stamp := next(t, p, 0, math.MaxInt32-1, "the largest sequence")
			next(t, p, 0, 0, "the sequence after the largest")
			next(t, p, 0, 2, "the one after it")
			t.Sleep(t.Now().Add(50 * time.Millisecond))
			a := send(t, p, 0, math.MaxInt32-1)
			s.must(a.Code == 0 && a.Base == 2, "I17", "the repeat of the largest sequence got %s at %d", client.CodeName(a.Code), a.Base)
			s.must(a.LogAppendTime == stamp, "I17", "a repeat is answered with the time %d, the first one with %d", a.LogAppendTime, stamp)
		})
		s.client("the next epoch", func(t *task.T, p *client.Plain) {
			s.code(send(t, p, 1, 4).Code, kerr.OutOfOrderSequenceNumber, "a new epoch that goes on with the old one's sequence")
			next(t, p, 1, 0, "a new epoch")
			next(t, p, 1, 2, "its second batch")
			next(t, p, 1, 4, "its third batch, with sequences that the old epoch had not")
			s.code(send(t, p, 0, 4).Code, kerr.InvalidProducerEpoch, "the old epoch")
		})
		s.restart()
		s.client("after a restart", func(t *task.T, p *client.Plain) {
			a := send(t, p, 1, 4)
			s.must(a.Code == 0 && a.Base == 12, "I17", "after a restart the repeat of the last sequence got %s at %d", client.CodeName(a.Code), a.Base)
			next(t, p, 1, 6, "the next batch")
		})
		if s.stop() {
			s.judgeDirs()
		}
	})
}

// idleProducers: a broker forgets who was idle for producer.id.expiration.ms, while it runs, and
// lets whoever comes back begin anywhere. Of those who write it forgets nobody.
func idleProducers(r *Run) {
	r.Set("producer.id.expiration.ms", "3000")
	r.Set("producer.id.expiration.check.interval.ms", "500")
	tell(r, func(s *story) {
		topic := s.topic("t", 1)
		n := 0
		s.client("producers", func(t *task.T, p *client.Plain) {
			idle, _, err := p.ProducerID(t)
			busy, _, err2 := p.ProducerID(t)
			if !s.ok(err, "producer id") || !s.ok(err2, "producer id") {
				return
			}
			send := func(id int64, seq int32, want *kerr.Error, what string) {
				n++
				a, err := p.Produce(t, topic, 0, 9, -1, batch(t.UnixMilli(), client.BatchSpec{ProducerID: id, BaseSequence: seq}, 1, 100, n))
				_ = s.ok(err, "produce") && s.code(a.Code, want, what)
			}
			send(idle, 0, nil, "a first batch")
			send(idle, 7, kerr.OutOfOrderSequenceNumber, "a leap of who was just there")
			for seq := range int32(10) {
				send(busy, seq, nil, "one of many batches")
				t.Sleep(t.Now().Add(500 * time.Millisecond))
			}
			send(busy, 17, kerr.OutOfOrderSequenceNumber, "a leap of who writes all the time")
			send(idle, 7, nil, "the first batch of who was forgotten")
			send(idle, 9, kerr.OutOfOrderSequenceNumber, "a leap of who is known again")
		})
		s.guard.ProducersExpire = true
		if s.stop() {
			s.judgeDirs()
		}
	})
}
