package scenarios

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/scenarios/client"
	"seedlog/sim/simdisk"
)

// brokenFrames: large requests that never come to their end give their memory back, and who
// comes after them is served.
func brokenFrames(r *Run) {
	r.Set("queued.max.request.bytes", "262144")
	rng := r.Rand("frames")
	tell(r, func(s *story) {
		topic := s.topic("t", 1)
		s.client("begin large requests, hang up, then send a whole one", func(t *task.T, p *client.Plain) {
			for range 30 {
				q := client.Open(t, p.Env)
				_ = q.Conn.Raw(t, client.HalfFrame(rng, 200<<10), t.Now().Add(time.Second)) // it may be sent away before the end
				t.Sleep(t.Now().Add(time.Duration(rng.IntN(20)) * time.Millisecond))
				q.Close()
			}
			a, err := p.Produce(t, topic, 0, 9, -1, batch(t.UnixMilli(), nobody, 4, 30_000, 0))
			if s.must(err == nil, "I30", "a request gets no memory, which broken ones hold: %v", err) {
				s.code(a.Code, nil, "produce")
			}
		})
		s.World.Run(func() bool { return s.Broker.Connections() == 0 }, time.Minute)
		s.framesFreed()
	})
}

// epochLine is where a leadership began.
type epochLine struct {
	epoch int32
	start int64
}

// leaderEpochs: a log of many leaderships, whose start is moved onto, below and above the
// beginning of one; what is said of each epoch is what the batches say.
func leaderEpochs(r *Run) {
	rng := r.Rand("epochs")
	tell(r, func(s *story) {
		topic := s.topic("t", 1, [2]string{"flush.messages", "1"})
		for range 6 {
			s.fill(topic, 1+rng.IntN(3))
			s.epochsTold(topic)
			if s.failed || !s.crash(rng.IntN(2) == 0) {
				return
			}
		}
		s.fill(topic, 1)
		for range 3 {
			lines, _, _ := s.epochLines(topic)
			if s.failed || len(lines) < 2 {
				break
			}
			to := lines[1].start + int64(rng.IntN(2)) // the next leadership's beginning, or one above
			s.client("move the log start", func(t *task.T, p *client.Plain) {
				s.code(s.deleteRecords(t, p, topic, to), nil, "delete records")
			})
			s.epochsTold(topic)
			if s.failed || rng.IntN(2) == 0 && !s.crash(rng.IntN(2) == 0) {
				return
			}
			s.fill(topic, 1) // a leadership without a batch is not seen in the batches
		}
		if s.stop() {
			s.judgeDirs()
		}
	})
}

// epochLines reads the leaderships in the batches at and above the log start.
func (s *story) epochLines(topic *client.Topic) (lines []epochLine, start, end int64) {
	s.client("epochs of "+topic.Name, func(t *task.T, p *client.Plain) {
		var err error
		if start, end, err = client.Bounds(t, p.Env, p.Conn, topic, 0); !s.ok(err, "bounds") {
			return
		}
		got, err := p.Fetch(t, topic, 0, 11, start, -1)
		if !s.ok(err, "fetch") || !s.code(got.Code, nil, "fetch") {
			return
		}
		for _, b := range got.Batches {
			if n := len(lines); n == 0 || lines[n-1].epoch != b.Epoch {
				lines = append(lines, epochLine{b.Epoch, max(b.Base, start)})
			}
		}
	})
	return lines, start, end
}

// epochsTold compares what OffsetForLeaderEpoch says of each epoch with the batches (KIP-101:
// the largest epoch not above the one asked for, and where the next begins), and what ListOffsets
// says of the first record.
func (s *story) epochsTold(topic *client.Topic) {
	lines, _, end := s.epochLines(topic)
	if s.failed || !s.must(len(lines) > 0, "scenario", "no epochs") {
		return
	}
	latest := lines[len(lines)-1].epoch
	s.client("where epochs end", func(t *task.T, p *client.Plain) {
		for _, when := range []int64{-2, 0} {
			first, epoch, err := client.OffsetAndEpoch(t, p.Env, p.Conn, topic, 0, when)
			if !s.ok(err, "ListOffsets") || !s.must(first == lines[0].start && epoch == lines[0].epoch, "I12",
				"ListOffsets of %d: told offset %d in epoch %d, the batches say %v", when, first, epoch, lines) {
				return
			}
		}
		for e := int32(0); e <= latest+1; e++ {
			epoch, offset, code, err := client.EpochEnd(t, p.Env, p.Conn, topic, 0, e)
			if !s.ok(err, "OffsetForLeaderEpoch") || !s.code(code, nil, "OffsetForLeaderEpoch") {
				return
			}
			i := slices.IndexFunc(lines, func(l epochLine) bool { return l.epoch > e })
			want := epochLine{e, end}
			switch {
			case e > latest:
				want = epochLine{-1, -1}
			case i > 0:
				want = epochLine{lines[i-1].epoch, lines[i].start}
			case i == 0:
				want = epochLine{e, lines[0].start}
			}
			if !s.must(epoch == want.epoch && offset == want.start, "I12", "epoch %d: told that epoch %d ends at %d, the batches say epoch %d and %d (%v)", e, epoch, offset, want.epoch, want.start, lines) {
				return
			}
		}
	})
}

// durableCheckpoints: what was answered on the strength of a small file survives the worst
// power loss right after it: the log start, and the quorum's epoch.
func durableCheckpoints(r *Run) {
	tell(r, func(s *story) {
		topic := s.topic("t", 1, [2]string{"flush.messages", "1"})
		s.fill(topic, 8)
		s.Broker.Disk.SetPower(simdisk.Power{None: 1})
		for start := int64(1); start <= 10; start += 3 {
			s.client("delete records", func(t *task.T, p *client.Plain) {
				s.code(s.deleteRecords(t, p, topic, start), nil, "delete records")
			})
			if s.failed || !s.crash(true) {
				return
			}
			s.client("log start", func(t *task.T, p *client.Plain) {
				got, err := client.ListOffset(t, p.Env, p.Conn, topic, 0, -2)
				if s.ok(err, "ListOffsets") {
					s.must(got == start, "I24", "records below %d were deleted, and after a power loss the log begins at %d", start, got)
				}
			})
		}
	})
}

// smallIndex: a segment ends when its index is full, so that each index is whole.
func smallIndex(r *Run) {
	tell(r, func(s *story) {
		topic := s.topic("t", 1, [2]string{"segment.index.bytes", "256"}, [2]string{"index.interval.bytes", "100"})
		s.fill(topic, 120) // each with an entry, but for the first of a segment
		n := s.segments("/data/t-0")
		s.must(s.failed || n > 2, "S2", "%d segments, of 120 batches with an index of 32 entries", n)
		if s.stop() {
			s.judgeDirs()
		}
	})
}

// sealedSegments: power losses around the end of segments. What lies below the
// recovery point is durable, with the indexes of the segments that end there; the guard looks
// at it before the next start does (I16).
func sealedSegments(r *Run) {
	r.Set("log.flush.offset.checkpoint.interval.ms", "20")
	rng := r.Rand("sealed")
	tell(r, func(s *story) {
		topic := s.topic("t", 1, [2]string{"flush.messages", "4"}, [2]string{"internal.segment.bytes", "1000"}, [2]string{"index.interval.bytes", "100"})
		// The name of a new segment may be durable, and nothing that was written meanwhile.
		s.Broker.Disk.SetPower(simdisk.Power{All: 1, None: 1})
		for range 80 { // a segment has three batches
			for range 1 + rng.IntN(3) {
				s.fill(topic, 1+rng.IntN(2))
				if rng.IntN(3) > 0 {
					s.wait(100 * time.Millisecond)
				}
			}
			if s.failed || !s.crash(true) {
				return
			}
		}
	})
}

// syncedTail is a log of which the leader has more than it has synced when only what is synced
// begins to count (flush.messages=1). It syncs that by itself: nobody writes any more, and a
// follower that was away waits for it.
func syncedTail(r *Run) {
	r.Set("replica.lag.time.max.ms", "2000")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("tail", []int32{4, 5, 6})
		s.apart(6, 4, 5)
		s.produce(4, topic, 1, 5, nil)
		s.alter(kmsg.ConfigResourceTypeTopic, "tail", [2]string{"flush.messages", "1"})
		s.isr(topic, 2)
		s.together()
		s.equal(topic, 5)
		s.reaches(4, topic, 5)
	})
}
