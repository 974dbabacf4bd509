package scenarios

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/checker/store"
	"seedlog/clock/task"
	"seedlog/scenarios/client"
	"seedlog/sim/sched"
	"seedlog/sim/simdisk"
	"seedlog/storage"
	"seedlog/storage/checkpoint"
)

// producerOutlivesData: the records of a producer are deleted, and it is still known.
func producerOutlivesData(r *Run) {
	tell(r, func(s *story) {
		topic := s.topic("t", 1, [2]string{"internal.segment.bytes", "1200"})
		s.client("produce, delete everything, go on", func(t *task.T, p *client.Plain) {
			id, epoch, err := p.ProducerID(t)
			if !s.ok(err, "producer id") {
				return
			}
			send := func(epoch int16, seq int32) client.Produced {
				a, err := p.Produce(t, topic, 0, 9, -1, batch(t.UnixMilli(), client.BatchSpec{ProducerID: id, ProducerEpoch: epoch, BaseSequence: seq}, 2, 100, int(seq)))
				s.ok(err, "produce")
				return a
			}
			for seq := int32(0); seq < 16; seq += 2 {
				s.code(send(epoch, seq).Code, nil, "produce")
			}
			s.code(s.deleteRecords(t, p, topic, -1), nil, "delete records")
			a := send(epoch, 14)
			s.must(a.Code == 0 && a.Base == 14, "I17", "the repeat of a batch that was deleted got %s at %d", client.CodeName(a.Code), a.Base)
			s.must(send(epoch, 18).Code == kerr.OutOfOrderSequenceNumber.Code, "I17", "a gap is taken once the batch before it is deleted")
			s.must(send(epoch+1, 0).Code == 0, "I10", "a new epoch may begin")
			s.code(s.deleteRecords(t, p, topic, -1), nil, "delete records")
			s.must(send(epoch, 16).Code == kerr.InvalidProducerEpoch.Code, "I10", "an old epoch is taken once the new one's batch is deleted")
		})
	})
}

func (s *story) deleteRecords(t *task.T, p *client.Plain, topic *client.Topic, before int64) int16 {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Version, req.TimeoutMillis = 2, 5000
	part := kmsg.NewDeleteRecordsRequestTopicPartition()
	part.Offset = before
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic = topic.Name
	rt.Partitions = append(rt.Partitions, part)
	req.Topics = append(req.Topics, rt)
	resp, err := p.Call(t, req)
	if !s.ok(err, "DeleteRecords") {
		return 0
	}
	return resp.(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0].ErrorCode
}

// changedSettings: a log that runs takes over what is altered.
func changedSettings(r *Run) {
	tell(r, func(s *story) {
		topic, plain := s.topic("t", 1), s.topic("plain", 1)
		s.fill(topic, 3)
		s.fill(plain, 3)
		s.alter(kmsg.ConfigResourceTypeTopic, "t", [2]string{"flush.messages", "1"}, [2]string{"internal.segment.bytes", "2000"})
		s.alter(kmsg.ConfigResourceTypeBroker, "", [2]string{"log.flush.interval.messages", "1"})
		s.fill(topic, 20)
		s.fill(plain, 1)
		rolled := s.segments("/data/t-0")
		s.must(rolled > 2, "I31", "%d segments, after segment.bytes became 2000", rolled)
		s.Broker.Disk.SetPower(simdisk.Power{None: 1})
		if s.crash(true) {
			s.must(s.end(topic) == 46, "I4", "46 records were acknowledged, the last 40 under flush.messages=1; the log ends at %d", s.end(topic))
			s.must(s.end(plain) == 8, "I31", "8 records were acknowledged, the last 2 under the broker's log.flush.interval.messages=1; the log ends at %d", s.end(plain))
		}
	})
}

// alter changes settings of a resource.
func (s *story) alter(kind kmsg.ConfigResourceType, name string, settings ...[2]string) {
	s.client("alter", func(t *task.T, p *client.Plain) { s.alterBy(t, p, kind, name, settings...) })
}

// alterBy is alter over a connection of the story's.
func (s *story) alterBy(t *task.T, p *client.Plain, kind kmsg.ConfigResourceType, name string, settings ...[2]string) {
	req := kmsg.NewIncrementalAlterConfigsRequest()
	req.Version = 1
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kind, name
	for _, kv := range settings {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value = kv[0], &kv[1]
		res.Configs = append(res.Configs, c)
	}
	req.Resources = append(req.Resources, res)
	resp, err := p.Call(t, &req)
	if s.ok(err, "alter") {
		s.code(resp.(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode, nil, "alter")
	}
}

// segments counts the segments of a partition's directory.
func (s *story) segments(path string) (n int) {
	for _, info := range s.Broker.Disk.List(path) {
		if strings.HasSuffix(info.Name, ".log") {
			n++
		}
	}
	return n
}

// flushSettings: what flush.messages and flush.ms call durable survives a power loss that
// takes everything else, and segment.ms ends a segment.
func flushSettings(r *Run) {
	tell(r, func(s *story) {
		counted := s.topic("counted", 1, [2]string{"flush.messages", "4"})
		timed := s.topic("timed", 1, [2]string{"flush.ms", "500"})
		rolling := s.topic("rolling", 1, [2]string{"segment.ms", "1000"})
		s.fill(timed, 3)
		s.fill(rolling, 1)
		s.wait(3 * time.Second)
		s.fill(rolling, 1)
		s.fill(counted, 4)
		rolled := s.segments("/data/rolling-0")
		s.must(s.failed || rolled == 2, "S2", "%d segments, of two batches three seconds apart under segment.ms=1000", rolled)
		steady := s.topic("steady", 1, [2]string{"segment.ms", "1000"})
		for range 6 {
			s.fill(steady, 1)
			s.wait(400 * time.Millisecond)
		}
		rolled = s.segments("/data/steady-0")
		s.must(s.failed || rolled > 1, "S2", "%d segment, of six batches 400 ms apart under segment.ms=1000", rolled)
		s.Broker.Disk.SetPower(simdisk.Power{None: 1})
		if !s.failed && s.crash(true) {
			s.must(s.end(counted) == 8, "S5", "8 records under flush.messages=4; the log ends at %d", s.end(counted))
			s.must(s.end(timed) == 6, "S5", "6 records, long ago, under flush.ms=500; the log ends at %d", s.end(timed))
		}
	})
}

// returningDirectory: a topic is deleted and made again while a disk is away that has its
// old directory; when the disk is back the old bytes are nobody's.
func returningDirectory(r *Run) {
	r.Set("log.dirs", "/data,/more")
	tell(r, func(s *story) {
		old := s.topic("t", 1)
		s.fill(old, 5)
		if !s.stop() {
			return
		}
		kept := make(map[string][]byte)
		var names []string
		for _, dir := range s.guard.LogDirs {
			for _, info := range s.Broker.Disk.List(dir + "/t-0") {
				kept[info.Name], _ = s.Broker.Disk.ReadFile(dir + "/t-0/" + info.Name)
				names = append(names, info.Name)
			}
		}
		if !s.boot() {
			return
		}
		s.client("delete", func(t *task.T, p *client.Plain) {
			code, err := p.Delete(t, "t")
			if s.ok(err, "delete") {
				s.code(code, nil, "delete")
			}
		})
		topic := s.topic("t", 1)
		s.fill(topic, 1)
		if s.failed || !s.stop() {
			return
		}
		away := s.guard.LogDirs[0]
		if _, there := s.Broker.Disk.Size(away + "/t-0/partition.metadata"); there {
			away = s.guard.LogDirs[1]
		}
		for _, name := range names {
			s.Broker.Disk.WriteFile(away+"/t-0/"+name, kept[name])
		}
		for range 2 {
			if !s.boot() {
				return
			}
			s.must(s.end(topic) == 2, "I32", "the new topic has %d records once the old one's directory is back", s.end(topic))
			_, ghost := s.Broker.Disk.Size(away + "/t-0/partition.metadata")
			s.must(!ghost, "I32", "the old topic's directory is still in its place")
			if s.failed || !s.stop() {
				return
			}
		}
	})
}

// lookUpByTime compares ListOffsets by time with what was sent, timestamps going up and down.
func lookUpByTime(r *Run) {
	rng := r.Rand("times")
	tell(r, func(s *story) {
		topic := s.topic("t", 1, [2]string{"internal.segment.bytes", "3000"}, [2]string{"index.interval.bytes", "300"})
		var stamps []int64
		s.client("produce and look up", func(t *task.T, p *client.Plain) {
			began := t.UnixMilli()
			for range 60 {
				records := make([]client.Record, 1+rng.IntN(3))
				for i := range records {
					records[i] = client.Record{Timestamp: began - 1000 + rng.Int64N(500) + int64(len(stamps)), Value: make([]byte, 50)}
					stamps = append(stamps, records[i].Timestamp)
				}
				b := client.Encode(nobody, records)
				if rng.IntN(4) == 0 { // what a client says of its largest timestamp is not believed
					binary.BigEndian.PutUint64(b[35:], uint64(began-2000+rng.Int64N(4000)))
					client.Seal(b)
				}
				a, err := p.Produce(t, topic, 0, 9, -1, b)
				if !s.ok(err, "produce") || !s.code(a.Code, nil, "produce") {
					return
				}
			}
			// The largest comes again, in other segments too: the first one counts.
			for range 30 {
				stamps = append(stamps, slices.Max(stamps))
				a, err := p.Produce(t, topic, 0, 9, -1, client.Encode(nobody, []client.Record{{Timestamp: stamps[len(stamps)-1], Value: make([]byte, 50)}}))
				if !s.ok(err, "produce") || !s.code(a.Code, nil, "produce") {
					return
				}
			}
			for range 80 {
				ts := stamps[rng.IntN(len(stamps))] + rng.Int64N(3) - 1
				want := int64(slices.IndexFunc(stamps, func(x int64) bool { return x >= ts }))
				got, err := client.ListOffset(t, p.Env, p.Conn, topic, 0, ts)
				if !s.ok(err, "ListOffsets") || !s.must(got == want, "S4", "the first record at or after %d is %d, ListOffsets says %d", ts, want, got) {
					return
				}
			}
			newest := int64(slices.Index(stamps, slices.Max(stamps)))
			got, err := client.ListOffset(t, p.Env, p.Conn, topic, 0, -3)
			if s.ok(err, "ListOffsets") {
				s.must(got == newest, "S4", "the largest timestamp is at %d, ListOffsets says %d", newest, got)
			}
			s.lookUpBehindStart(t, p, topic, stamps, newest)
		})
	})
}

// lookUpBehindStart moves the log start, above the largest timestamp in the end, and asks again.
func (s *story) lookUpBehindStart(t *task.T, p *client.Plain, topic *client.Topic, stamps []int64, newest int64) {
	for _, start := range []int64{int64(len(stamps) / 3), newest, newest + 1} {
		if start < 1 || start >= int64(len(stamps)) {
			continue
		}
		if !s.code(s.deleteRecords(t, p, topic, start), nil, "delete records") {
			return
		}
		left := stamps[start:]
		first := func(which func(x int64) bool) int64 {
			if i := slices.IndexFunc(left, which); i >= 0 {
				return start + int64(i)
			}
			return -1
		}
		top := slices.Max(left)
		for _, ts := range []int64{-3, 0, slices.Min(left), stamps[start-1], top, top + 1} {
			want := first(func(x int64) bool { return x >= ts })
			if ts == -3 {
				want = first(func(x int64) bool { return x == top })
			}
			got, err := client.ListOffset(t, p.Env, p.Conn, topic, 0, ts)
			if !s.ok(err, "ListOffsets") || !s.must(got == want, "S4", "log start %d: ListOffsets of %d is %d, expected %d", start, ts, got, want) {
				return
			}
		}
	}
}

// followerLog feeds a log what a follower gets from its leader: batches with their offsets,
// some of them twice.
func followerLog(r *Run) {
	rng := r.Rand("follower")
	r.AddBroker(simdisk.Config{}, sched.ClockParams{}) // its disk is what is needed
	disk := r.Broker.Disk
	rt := r.World.Sched.NewRuntime("follower", sched.ClockParams{})
	group := task.NewGroup(rt, "follower")
	done := false
	group.Go("append", func(t *task.T) {
		defer func() { done = true }()
		dir, err := storage.OpenDir(t, storage.Env{RT: rt, Disk: disk.Mount(rt), Rand: rng}, "/f", storage.DirConfig{})
		if err != nil {
			r.Failf("scenario", "follower", "%v", err)
			return
		}
		log, err := dir.Create(t, "t", [16]byte{1}, 0, storage.Config{SegmentBytes: 2000, IndexIntervalBytes: 300})
		if err != nil {
			r.Failf("scenario", "follower", "%v", err)
			return
		}
		var sent [][]byte
		next := int64(0)
		for range 40 {
			b := batch(1_700_000_000_000+next, nobody, 1+rng.IntN(3), 60, int(next))
			binary.BigEndian.PutUint64(b, uint64(next))
			binary.BigEndian.PutUint32(b[12:], 0)
			if _, err := log.AppendFollower(t, b); err != nil {
				r.Failf("scenario", "follower", "append at %d: %v", next, err)
				return
			}
			sent = append(sent, b)
			next = log.LogEndOffset()
			again := sent[rng.IntN(len(sent))]
			if _, err := log.AppendFollower(t, again); !errors.Is(err, storage.ErrUnexpectedOffset) {
				r.Failf("I11", "follower", "batch %d was appended again to a log that ends at %d: %v", binary.BigEndian.Uint64(again), next, err)
				return
			}
		}
		if err := dir.CloseClean(t, 1); err != nil {
			r.Failf("scenario", "follower", "%v", err)
		}
	})
	if !r.World.Run(func() bool { return done }, readyWithin) {
		r.Failf("liveness", "follower", "the appends do not end")
		return
	}
	p, v := store.Parse("t-0", filesOf(disk, "/f/t-0"))
	v.Merge(p.Check(store.Options{IndexIntervalBytes: 300, SegmentBytes: 2000, Closed: true}))
	r.verdict.Merge(v)
}

// cutAtThePoint cuts a follower's log at its recovery point and begins a segment there, and the
// power fails: what the recovery point says is durable has to be.
func cutAtThePoint(r *Run) {
	r.AddBroker(simdisk.Config{}, sched.ClockParams{}) // its disk is what is needed
	disk := r.Broker.Disk
	disk.SetPower(simdisk.Power{All: 1, None: 1})
	for round := range 40 {
		root := fmt.Sprint("/cut", round)
		rt := r.World.Sched.NewRuntime(root, sched.ClockParams{})
		mount := disk.Mount(rt)
		group := task.NewGroup(rt, root)
		done := false
		group.Go("cut", func(t *task.T) {
			if err := rollAtThePoint(t, storage.Env{RT: rt, Disk: mount}, root); err != nil {
				r.Failf("scenario", root, "%v", err)
			}
			done = true
		})
		if !r.World.Run(func() bool { return done }, readyWithin) {
			r.Failf("liveness", root, "the roll does not end")
			return
		}
		disk.PowerLoss()
		rt.Kill()
		b, _ := disk.ReadFile(root + "/" + checkpoint.RecoveryPointFile)
		points, err := checkpoint.ParseOffsets(b)
		if err != nil || len(points) != 1 {
			r.Failf("scenario", root, "recovery points %v: %v", points, err)
			return
		}
		p, _ := store.Parse("t-0", filesOf(disk, root+"/t-0"))
		r.verdict.Merge(p.CheckSealed(points[0].Offset, store.Options{IndexIntervalBytes: 100}))
	}
}

// rollAtThePoint makes a log whose recovery point is on disk where what is not synced begins, cuts
// it there, and begins a segment.
func rollAtThePoint(t *task.T, env storage.Env, root string) error {
	dir, err := storage.OpenDir(t, env, root, storage.DirConfig{})
	if err != nil {
		return err
	}
	log, err := dir.Create(t, "t", [16]byte{1}, 0, storage.Config{IndexIntervalBytes: 100})
	if err != nil {
		return err
	}
	err = errors.Join(feed(log, t, 6), log.Flush(t), feed(log, t, 2), dir.CheckpointRecoveryPoints(t))
	return errors.Join(err, log.TruncateTo(t, log.SyncedEnd()), log.Roll(t))
}

// feed appends batches of two records as a leader sends them.
func feed(log *storage.Log, t *task.T, n int) (err error) {
	for i := 0; i < n && err == nil; i++ {
		next := log.LogEndOffset()
		b := batch(1_700_000_000_000+next, nobody, 2, 60, int(next))
		binary.BigEndian.PutUint64(b, uint64(next))
		binary.BigEndian.PutUint32(b[12:], 0)
		_, err = log.AppendFollower(t, b)
	}
	return err
}

// unfinishedTruncation is a follower's log that its leader's does not reach down to any more: all
// of it goes. A crash in the midst leaves some of the files, which is no damage.
func unfinishedTruncation(r *Run) {
	rng := r.Rand("unfinished")
	r.AddBroker(simdisk.Config{}, sched.ClockParams{}) // its disk is what is needed
	for round := 0; round < 60 && !r.over(); round++ {
		x := &lives{Run: r, rng: rng, root: fmt.Sprint("/gone", round)}
		x.live(readyWithin, x.fill)
		x.live(time.Duration(rng.Int64N(int64(40*time.Millisecond))), func(t *task.T, env storage.Env) error {
			log, err := x.load(t, env)
			if err == nil {
				err = log.TruncateFullyAt(t, 200)
			}
			return err
		})
		for range 2 { // a second start finds what the first one made of it
			x.live(readyWithin, func(t *task.T, env storage.Env) error {
				_, err := x.load(t, env)
				return err
			})
		}
	}
}

// lives are the processes that open a directory one after the other, each of which is killed.
type lives struct {
	*Run
	rng  *rand.Rand
	root string
}

// live runs fn in a process until it is done or the time is over, and ends that.
func (x *lives) live(within time.Duration, fn func(t *task.T, env storage.Env) error) {
	disk := x.Broker.Disk
	rt := x.World.Sched.NewRuntime(x.root, sched.ClockParams{})
	mount := disk.Mount(rt)
	done := false
	task.NewGroup(rt, x.root).Go(x.root, func(t *task.T) {
		if err := fn(t, storage.Env{RT: rt, Disk: mount}); err != nil && !rt.Dead() {
			x.Failf("scenario", x.root, "%v", err)
		}
		done = true
	})
	x.World.Run(func() bool { return done }, within)
	if x.rng.IntN(2) == 0 {
		disk.PowerLoss()
	} else {
		disk.Kill()
	}
	rt.Kill()
}

// fill makes a log of several segments, all of it durable.
func (x *lives) fill(t *task.T, env storage.Env) error {
	dir, err := storage.OpenDir(t, env, x.root, storage.DirConfig{})
	if err != nil {
		return err
	}
	log, err := dir.Create(t, "t", [16]byte{1}, 0, storage.Config{})
	for i := 0; i < 4 && err == nil; i++ {
		err = errors.Join(feed(log, t, 1), log.Roll(t))
	}
	if err != nil {
		return err
	}
	return errors.Join(feed(log, t, 1), log.Flush(t), dir.CheckpointRecoveryPoints(t))
}

// load opens the log that is there.
func (x *lives) load(t *task.T, env storage.Env) (*storage.Log, error) {
	dir, err := storage.OpenDir(t, env, x.root, storage.DirConfig{})
	if err != nil {
		return nil, err
	}
	logs, err := dir.Load(t, func(string, [16]byte) storage.Config { return storage.Config{} }, nil)
	if err != nil || len(logs) != 1 {
		return nil, fmt.Errorf("%d logs: %w", len(logs), err)
	}
	if err := logs[0].Err(); err != nil {
		x.Failf("I16", x.root, "an unfinished truncation is called damage: %v", err)
	}
	if o := logs[0].Offsets(); o.LogStart == o.LogEnd && o.LatestEpoch >= 0 {
		x.Failf("I12", x.root, "an empty log has epoch %d at %d", o.LatestEpoch, o.LogEnd)
	}
	return logs[0], nil
}

// filesOf are the files of a log's directory.
func filesOf(disk *simdisk.Disk, path string) (files []store.File) {
	for _, info := range disk.List(path) {
		if b, ok := disk.ReadFile(path + "/" + info.Name); ok {
			files = append(files, store.File{Name: info.Name, Data: b})
		}
	}
	return files
}
