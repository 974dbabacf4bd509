package scenarios

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"seedlog/clock/task"
	"seedlog/scenarios/client"
	"seedlog/sim/simdisk"
)

// fill appends n plain batches of two records to partition 0.
func (s *story) fill(topic *client.Topic, n int) {
	s.client("fill "+topic.Name, func(t *task.T, p *client.Plain) {
		for i := range n {
			a, err := p.Produce(t, topic, 0, 9, -1, batch(t.UnixMilli(), nobody, 2, 100, 2*i))
			if !s.ok(err, "produce") || !s.code(a.Code, nil, "produce") {
				return
			}
		}
	})
}

// end is a partition's high watermark as a client sees it.
func (s *story) end(topic *client.Topic) (hw int64) {
	s.client("end of "+topic.Name, func(t *task.T, p *client.Plain) {
		got, err := p.Fetch(t, topic, 0, 11, 0, -1)
		if s.ok(err, "fetch") && s.code(got.Code, nil, "fetch") {
			hw = got.HighWatermark
		}
	})
	return hw
}

// tornTail: half of the records are synced, half are not; then the power fails with each of
// the drawn fates. The guard compares bytes (I16); here the numbers are looked at.
func tornTail(r *Run) {
	rng := r.Rand("torn")
	tell(r, func(s *story) {
		synced := s.topic("synced", 1, [2]string{"flush.messages", "1"})
		loose := s.topic("loose", 1, [2]string{"internal.segment.bytes", "4000"})
		for round := range 6 {
			s.Broker.Disk.SetPower(simdisk.Power{Prefix: 2, Holes: 2, None: 1, SizeAhead: 700, Garbage: 500})
			s.fill(synced, 3)
			s.fill(loose, 1+rng.IntN(20))
			before := s.end(synced)
			if !s.crash(true) {
				return
			}
			s.must(s.end(synced) == before && before == int64(6*(round+1)), "I16", "a synced log of %d ends at %d after the power loss", before, s.end(synced))
			s.end(loose)
		}
		s.restart()
		s.fill(loose, 2)
	})
}

// corruption: bytes below the recovery point are damaged while the node is down.
func corruption(r *Run) {
	r.Set("log.flush.offset.checkpoint.interval.ms", "100")
	rng := r.Rand("damage")
	tell(r, func(s *story) {
		topic := s.topic("t", 1, [2]string{"flush.messages", "1"})
		other := s.topic("other", 1)
		s.fill(topic, 20)
		s.fill(other, 3)
		s.wait(time.Second) // the recovery point is written
		s.down(false)
		const log = "/data/t-0/00000000000000000000.log"
		size, _ := s.Broker.Disk.Size(log)
		at := size/2 + rng.Int64N(size/4) // mostly in a record, of which only the CRC tells
		if rng.IntN(2) == 0 {
			at = size/20*(10+rng.Int64N(5)) + rng.Int64N(16) // offset, size and epoch, of which it does not
		}
		s.must(s.Broker.Disk.FlipBits(log, at, 0x10), "scenario", "nothing to damage in %d bytes", size)
		if !s.boot() {
			return
		}
		s.client("read what is damaged", func(t *task.T, p *client.Plain) {
			got, err := p.Fetch(t, topic, 0, 11, 0, -1)
			if s.ok(err, "fetch") {
				s.code(got.Code, kerr.KafkaStorageError, "fetch from the damaged log")
			}
			a, err := p.Produce(t, topic, 0, 9, -1, batch(t.UnixMilli(), nobody, 1, 10, 0))
			if s.ok(err, "produce") {
				s.code(a.Code, kerr.KafkaStorageError, "produce to the damaged log")
			}
		})
		after, _ := s.Broker.Disk.Size(log)
		s.must(after == size, "I16", "the damaged log of %d bytes was cut to %d", size, after)
		s.must(s.end(other) == 6, "I16", "the other log ends at %d", s.end(other))
		// Nor does a clean stop make the damage good.
		if !s.stop() {
			return
		}
		_, marked := s.Broker.Disk.Size("/data/.kafka_cleanshutdown")
		s.must(!marked, "I15", "the directory of a damaged log was marked as cleanly stopped")
		if s.boot() {
			after, _ = s.Broker.Disk.Size(log)
			s.must(after == size, "I16", "the damaged log of %d bytes was cut to %d by the second start", size, after)
		}
	})
}

// crashWhileRecovering kills at drawn moments of recoveries, with unsynced tails before.
func crashWhileRecovering(r *Run) {
	rng := r.Rand("moments")
	tell(r, func(s *story) {
		topic := s.topic("t", 1, [2]string{"internal.segment.bytes", "3000"})
		for range 4 {
			s.fill(topic, 5+rng.IntN(10))
			clean := rng.IntN(2) == 0
			if !clean {
				s.down(rng.IntN(2) == 0)
			} else if !s.stop() {
				return
			}
			for range 3 {
				if !s.Boot() {
					return
				}
				s.wait(time.Duration(rng.IntN(30_000)) * time.Microsecond)
				s.guard.pending = false // it need not have recovered yet
				s.down(rng.IntN(3) == 0)
				_, marker := s.Broker.Disk.ReadFile("/data/.kafka_cleanshutdown")
				s.must(clean || !marker, "I15", "a node that crashed while it recovered left a clean marker")
			}
			if !s.boot() {
				return
			}
		}
	})
}

// failedFsync fails one fsync of a log, with the dirty pages dropped, and goes on producing.
func failedFsync(r *Run) {
	tell(r, func(s *story) {
		topic := s.topic("t", 1, [2]string{"flush.messages", "1"})
		s.fill(topic, 5)
		isLog := func(path string) bool { return strings.HasSuffix(path, "/t-0/00000000000000000000.log") }
		in := s.Broker.Disk.Arm(&simdisk.Injection{Fault: simdisk.SyncForgets, Match: isLog})
		s.client("produce through a failed fsync", func(t *task.T, p *client.Plain) {
			for i := range 4 {
				a, err := p.Produce(t, topic, 0, 9, -1, batch(t.UnixMilli(), nobody, 2, 100, i))
				if s.ok(err, "produce") {
					s.must(a.Code != 0, "I34", "batch %d was acknowledged after the fsync failed", i)
				}
			}
		})
		s.must(in.Fired, "scenario", "no fsync failed")
		// What the kernel still has is read after a kill, is not on the device, and looks clean.
		end := int64(10)
		if s.Rand("how").IntN(2) == 0 {
			if !s.crash(false) {
				return
			}
			end = s.end(topic)
			s.Broker.Disk.SetPower(simdisk.Power{None: 1})
		}
		if s.crash(true) {
			s.must(s.end(topic) >= end, "I34", "%d records were acknowledged as synced, or served after a recovery; the log ends at %d", end, s.end(topic))
			s.fill(topic, 1)
		}
	})
}

// writeError fails one write of one of two directories. Who waits for a partition there is told at
// once.
func writeError(r *Run) {
	r.Set("log.dirs", "/data,/more")
	tell(r, func(s *story) {
		topic := s.topic("t", 4)
		s.fillAll(topic)
		victim := "/more"
		in := s.Broker.Disk.Arm(&simdisk.Injection{Fault: simdisk.WriteError, Match: func(path string) bool {
			return strings.HasPrefix(path, victim+"/t-") && strings.HasSuffix(path, ".log")
		}})
		c := &crowd{story: s}
		for i := range topic.Partitions {
			c.spawn("wait", 1, func(t *task.T, p *client.Plain, _ int) error {
				_, err := p.Await(t, topic, i, 2, crowdDeadline)
				return err
			})
		}
		s.wait(100 * time.Millisecond)
		s.client("produce through a failed write", func(t *task.T, p *client.Plain) {
			bad, good := 0, 0
			for round := range 2 {
				bad, good = 0, 0
				for i := range topic.Partitions {
					a, err := p.Produce(t, topic, i, 9, -1, batch(t.UnixMilli(), nobody, 2, 100, round))
					if !s.ok(err, "produce") {
						return
					}
					if a.Code == 0 {
						good++
					} else if s.code(a.Code, kerr.KafkaStorageError, "produce to the failed directory") {
						bad++
					}
				}
			}
			s.must(in.Fired && bad > 0 && good > 0, "I34", "after a failed write %d partitions refuse and %d take records", bad, good)
		})
		c.wait()
		s.must(s.Broker.Up(), "I34", "the process ended: %v", s.ended())
		if s.crash(false) {
			s.fillAll(topic)
		}
	})
}

// failedCreation: a directory that fails while a partition is made in it fails alone. The partition
// is made in another, and stays there when the directory is back with what was begun.
func failedCreation(r *Run) {
	r.Set("log.dirs", strings.Join(twoDirs, ","))
	tell(r, func(s *story) {
		in := s.Broker.Disk.Arm(&simdisk.Injection{Fault: simdisk.WriteError, Match: func(path string) bool {
			return strings.HasPrefix(path, twoDirs[1]+"/t-")
		}})
		topic := s.topic("t", 4)
		s.must(in.Fired, "scenario", "nothing was begun in %s", twoDirs[1])
		s.fillAll(topic)
		if s.crash(false) {
			s.client("produce with the directory back", func(t *task.T, p *client.Plain) {
				for i := range topic.Partitions {
					a, err := p.Produce(t, topic, i, 9, -1, batch(t.UnixMilli(), nobody, 1, 100, 0))
					if s.ok(err, "produce") && s.code(a.Code, nil, "produce") {
						s.must(a.Base == 2, "I4", "partition %d takes offset %d, and two records were acknowledged", i, a.Base)
					}
				}
			})
		}
	})
}

// absentDirectory: a directory that cannot be read when the broker starts may have the logs that it
// lacks. None of them begins anew elsewhere, and all are back with the directory.
func absentDirectory(r *Run) {
	r.Set("log.dirs", "/data,/more")
	tell(r, func(s *story) {
		topic := s.topic("t", 4)
		s.fillAll(topic)
		away := make(map[int32]bool)
		for i := range topic.Partitions {
			away[i] = s.segments(fmt.Sprintf("/more/t-%d", i)) > 0
		}
		s.down(false)
		in := s.Broker.Disk.Arm(&simdisk.Injection{Fault: simdisk.ReadError, Match: func(path string) bool {
			return strings.HasPrefix(path, "/more/") && strings.HasSuffix(path, "-checkpoint")
		}})
		if !s.boot() {
			return
		}
		produce := func(what string, want func(i int32) *kerr.Error) {
			s.client(what, func(t *task.T, p *client.Plain) {
				for i := range topic.Partitions {
					a, err := p.Produce(t, topic, i, 9, -1, batch(t.UnixMilli(), nobody, 1, 100, 0))
					if !s.ok(err, what) || !s.code(a.Code, want(i), fmt.Sprintf("%s, partition %d", what, i)) {
						return
					}
					s.must(a.Code != 0 || a.Base >= 2, "I4", "partition %d takes offset %d, and two records were acknowledged", i, a.Base)
				}
			})
		}
		produce("without the directory", func(i int32) *kerr.Error {
			if away[i] {
				return kerr.KafkaStorageError
			}
			return nil
		})
		s.must(in.Fired, "scenario", "nothing of /more was read")
		if !s.failed && s.crash(false) {
			produce("with the directory", func(int32) *kerr.Error { return nil })
		}
	})
}

func (s *story) fillAll(topic *client.Topic) {
	s.client("fill all partitions", func(t *task.T, p *client.Plain) {
		for i := range topic.Partitions {
			a, err := p.Produce(t, topic, i, 9, -1, batch(t.UnixMilli(), nobody, 2, 100, 0))
			if !s.ok(err, "produce") || !s.code(a.Code, nil, "produce") {
				return
			}
		}
	})
}

// diskFull fills the disk, and deletes a topic to make room.
func diskFull(r *Run) {
	r.Set("log.segment.delete.delay.ms", "0")
	tell(r, func(s *story) {
		big := s.topic("big", 1)
		s.client("fill", func(t *task.T, p *client.Plain) {
			for i := range 20 {
				a, err := p.Produce(t, big, 0, 9, -1, batch(t.UnixMilli(), nobody, 1, 50_000, i))
				if !s.ok(err, "produce") || !s.code(a.Code, nil, "produce") {
					return
				}
			}
		})
		d := s.Broker.Disk
		d.SetCapacity(d.Used() + 20_000)
		s.client("produce to a full disk", func(t *task.T, p *client.Plain) {
			a, err := p.Produce(t, big, 0, 9, -1, batch(t.UnixMilli(), nobody, 1, 60_000, 0))
			if s.ok(err, "produce") {
				s.code(a.Code, kerr.KafkaStorageError, "produce to a full disk")
			}
		})
		s.must(s.Broker.Up(), "S11", "a full disk ended the process: %v", s.ended())
		used := d.Used()
		s.client("delete", func(t *task.T, p *client.Plain) {
			code, err := p.Delete(t, "big")
			if s.ok(err, "delete") {
				s.code(code, nil, "delete on a full disk")
			}
		})
		s.wait(5 * time.Second)
		s.must(d.Used() < used-900_000, "S11", "deleting a topic of a megabyte brought the disk from %d to %d bytes", used, d.Used())
		// With room again a restart brings everything back.
		d.SetCapacity(diskBytes)
		if s.crash(false) {
			s.fill(s.topic("small", 1), 2)
		}
	})
}

// metadataLost fails a write of the metadata log.
func metadataLost(r *Run) {
	tell(r, func(s *story) {
		s.topic("t", 1)
		s.Broker.Disk.Arm(&simdisk.Injection{Fault: simdisk.SyncError, Match: func(path string) bool {
			return strings.Contains(path, metadataDir) && strings.HasSuffix(path, ".log")
		}})
		inc := s.Broker.Incarnation()
		env, group := s.Env(time.Second)
		group.Go("create", func(t *task.T) { _ = client.Create(t, &env, &client.Topic{Name: "u", Partitions: 1}, nil) })
		s.World.Run(func() bool { ended, _ := inc.Ended(); return ended }, time.Minute)
		ended, err := inc.Ended()
		s.must(ended && err != nil, "S11", "the metadata log failed and the process ended: %v, with: %v", ended, err)
		group.Stop()
		s.Broker.Reap()
		if s.boot() {
			s.fill(s.Topics[0], 1)
		}
	})
}

// firstEpoch: the first leadership is epoch 0, and an unclean restart must find it again.
func firstEpoch(r *Run) {
	tell(r, func(s *story) {
		topic := s.topic("t", 1, [2]string{"flush.messages", "1"})
		s.fill(topic, 3)
		epoch := s.lastEpoch(topic)
		s.must(epoch == 0, "I10", "the first leadership has epoch %d", epoch)
		for i := range 3 {
			s.down(true)
			if i == 2 {
				s.must(s.Broker.Disk.FlipBits("/data/t-0/leader-epoch-checkpoint", 0, 0x40), "scenario", "no epochs to damage")
			}
			if !s.boot() {
				return
			}
			s.fill(topic, 2)
			next := s.lastEpoch(topic)
			s.must(next > epoch, "I10", "a broker that came back leads in epoch %d, as before it was %d", next, epoch)
			epoch = next
		}
		if s.stop() {
			s.judgeDirs()
		}
	})
}

// loadingLogs is a node that installs a snapshot of the metadata while it loads a log whose reads
// take long, and is killed then: the log starts that are written for the metadata log keep the
// line of the one that is not loaded yet, or what was deleted would come back.
func loadingLogs(r *Run) {
	r.Set("metadata.log.max.record.bytes.between.snapshots", "300")
	tellCluster(r, six(1), func(s *tale) {
		b := s.node(6)
		starts := func(s *server) map[string]int64 { return s.guard.offsets("/data/log-start-offset-checkpoint") }
		topic := s.replicated("t", []int32{6, 5}, [2]string{"internal.segment.bytes", "200"})
		s.produce(6, topic, -1, 40, nil)
		s.at(6, "delete records", func(t *task.T, p *client.Plain) { s.code(s.deleteRecords(t, p, topic, 7), nil, "delete records") })
		s.kill(6)
		if s.failed || !s.must(starts(b)["t-0"] == 7, "I15", "the log start is %d, records below 7 were deleted", starts(b)["t-0"]) {
			return
		}
		b.Disk.SetRate(simdisk.Slow, 1, func(path string) bool { return strings.HasPrefix(path, "/data/t-0/") })
		loads := s.World.Probes()["loading"]
		b.boot()
		s.until("it loads", readyWithin, func() bool { return s.World.Probes()["loading"] > loads })
		s.apart(6, 1, 2, 3)
		was := starts(b)[metadataDir]
		for i := range 6 {
			s.replicated(fmt.Sprintf("more%d", i), []int32{4, 5})
		}
		s.together()
		s.until("it installs a snapshot", readyWithin, func() bool { return starts(b)[metadataDir] > was })
		s.must(!b.Ready(), "scenario", "it had loaded before")
		s.kill(6)
		b.Disk.SetRate(simdisk.Slow, 0, nil)
		s.must(starts(b)["t-0"] == 7, "I15", "the log start is %d after a kill, records below 7 were deleted", starts(b)["t-0"])
		s.start(6)
		s.equal(topic, 40)
	})
}

// lastEpoch is the leader epoch of the last batch that can be read.
func (s *story) lastEpoch(topic *client.Topic) (epoch int32) {
	s.client("epoch of "+topic.Name, func(t *task.T, p *client.Plain) {
		got, err := p.Fetch(t, topic, 0, 11, 0, -1)
		if s.ok(err, "fetch") && s.must(len(got.Batches) > 0, "scenario", "nothing to read") {
			epoch = got.Batches[len(got.Batches)-1].Epoch
		}
	})
	return epoch
}

// judgeDirs runs the store checker over what a stopped broker left.
func (s *story) judgeDirs() {
	s.verdict.Merge(s.guard.Verdict())
}
