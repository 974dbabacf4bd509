package replica

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/node/config"
	"seedlog/node/event"
	"seedlog/node/meta"
	"seedlog/node/partition"
	"seedlog/sim/sched"
	"seedlog/sim/simdisk"
	"seedlog/sim/trace"
	"seedlog/storage"
	"seedlog/storage/record"
)

// cluster is some brokers' managers on one simulated machine, with a controller and a wire
// that the test holds in its hands: who hears which metadata when, and who reaches whom.
type cluster struct {
	t       *testing.T
	tk      *task.T
	disk    disk.Disk
	s       *sched.Scheduler
	cfg     *config.Config
	image   *meta.Image
	deltas  []*meta.Delta
	brokers map[int32]*broker
	cut     map[int32]bool  // who reaches nobody and is not reached
	refuse  map[Key]int16   // what leaders answer for a partition
	answers []func() error  // what becomes of the next proposals, instead of their answers
	asked   []string        // proposals, in words
	fetches map[Key][]int64 // the offsets that were asked for
	held    func(*task.T)   // called before a fetch's answer is delivered, once
	events  []event.Event
}

type broker struct {
	c     *cluster
	id    int32
	dir   *storage.Dir
	m     *Manager
	heard int // deltas
}

// inCluster runs fn with brokers 1 to n that have heard of nothing yet.
func inCluster(t *testing.T, n int32, settings map[string]string, fn func(c *cluster)) {
	t.Helper()
	s := sched.New(7, sched.DrawConfig(sched.Stream(7, "config")), new(trace.Log))
	t.Cleanup(s.Close)
	d := simdisk.New(simdisk.Config{Rand: s.Stream, ID: 1})
	d.MakeDir("/data")
	rt := s.NewRuntime("brokers", sched.ClockParams{})
	cfg, _, err := config.Parse(settings)
	if err != nil {
		t.Fatal(err)
	}
	mount := d.Mount(rt)
	g := task.NewGroup(rt, "test")
	g.Go("test", func(tk *task.T) {
		c := &cluster{t: t, tk: tk, s: s, disk: mount, cfg: cfg, image: meta.Empty(), brokers: map[int32]*broker{},
			cut: map[int32]bool{}, refuse: map[Key]int16{}, fetches: map[Key][]int64{}}
		var bodies []meta.Body
		for id := int32(1); id <= n; id++ {
			bodies = append(bodies, &meta.RegisterBrokerRecord{BrokerID: id, BrokerEpoch: int64(id) * 10,
				Endpoints: []meta.Endpoint{{Name: "PLAINTEXT", Host: "h", Port: uint16(id)}}})
		}
		c.decide(bodies...)
		for id := int32(1); id <= n; id++ {
			c.start(id)
		}
		fn(c)
		for id := int32(1); id <= n; id++ {
			c.stop(id)
		}
		g.Stop()
	})
	s.Run(func() bool { return g.Len() == 0 }, clock.Never)
	if f := s.Failure(); f != nil {
		t.Fatal(f)
	}
	mount.Kill()
}

func must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// start boots a broker on its directory, with the metadata as of now.
func (c *cluster) start(id int32) {
	path := fmt.Sprint("/data/", id)
	env := storage.Env{RT: c.tk.Runtime(), Disk: c.disk, Rand: c.s.Stream(path)}
	dir := must(storage.OpenDir(c.tk, env, path, storage.DirConfig{RecoveryThreads: 1}))
	topic := c.cfg.Topic(nil)
	must(dir.Load(c.tk, func(string, [16]byte) storage.Config { return LogConfig(c.cfg, &topic) }, nil))
	b := &broker{c: c, id: id, dir: dir}
	b.m = NewManager(Env{RT: c.tk.Runtime(), Self: id, Config: func() *config.Config { return c.cfg },
		Dirs: []Dir{{ID: meta.UUID{byte(id)}, Dir: dir}}, Events: c, InterBrokerListener: "PLAINTEXT",
		Dial:       func(string) Remote { return &wireTo{from: b} },
		Controller: c, BrokerEpoch: func() int64 { return c.image.Broker(id).Epoch },
	})
	b.m.Adopt()
	b.m.Start()
	b.m.MetadataChanged(c.tk, c.image.Full())
	b.heard = len(c.deltas)
	c.brokers[id] = b
}

// stop ends a broker without a clean marker: what was written stays, as after a kill.
func (c *cluster) stop(id int32) {
	b := c.brokers[id]
	b.m.Close(c.tk)
	check(b.dir.Close(c.tk))
	delete(c.brokers, id)
}

// Emit implements event.Sink.
func (c *cluster) Emit(e event.Event) { c.events = append(c.events, e) }

func (c *cluster) happened(name string) (n int) {
	for _, e := range c.events {
		if e.Name() == name {
			n++
		}
	}
	return n
}

// decide commits metadata; nobody hears of it yet.
func (c *cluster) decide(bodies ...meta.Body) {
	next, delta := withRecords(c.t, c.image, bodies...)
	c.image = next
	c.deltas = append(c.deltas, delta)
}

// hear lets brokers catch up with the metadata, all if none is named.
func (c *cluster) hear(ids ...int32) { c.hearBy(c.tk, ids...) }

func (c *cluster) hearBy(t *task.T, ids ...int32) {
	for id := int32(1); id <= 9; id++ {
		b := c.brokers[id]
		if b == nil || len(ids) > 0 && !slices.Contains(ids, id) {
			continue
		}
		for ; b.heard < len(c.deltas); b.heard++ {
			b.m.MetadataChanged(t, c.deltas[b.heard])
		}
	}
}

// create makes a topic of one partition that the first replica leads.
func (c *cluster) create(id byte, replicas ...int32) Key {
	c.decide(&meta.TopicRecord{Name: fmt.Sprint("topic", id), TopicID: meta.UUID{id}},
		&meta.PartitionRecord{TopicID: meta.UUID{id}, Replicas: replicas, ISR: replicas, Leader: replicas[0]})
	return Key{Topic: meta.UUID{id}}
}

// elect gives the leadership to a broker, with that ISR.
func (c *cluster) elect(k Key, leader int32, isr ...int32) {
	change := meta.NewPartitionChange(k.Topic, k.Partition)
	change.Leader, change.ISR = leader, isr
	c.decide(change)
}

func (c *cluster) part(id int32, k Key) *Partition {
	return must(c.brokers[id].m.Partition(k))
}

// oneRecord is a batch as a producer sends it.
func oneRecord() []byte {
	return must(record.AppendBatch(nil, record.NewOptions(0), nil, record.Record{Value: []byte("v")}))
}

// produce appends n records at a leader, one batch each.
func (c *cluster) produce(id int32, k Key, n int) {
	for i := range n {
		value := fmt.Appendf(nil, "%d at %d by %d", i, c.part(id, k).Log().LogEndOffset(), id)
		batch := must(record.AppendBatch(nil, record.NewOptions(0), nil, record.Record{Value: value}))
		_, _, err := c.part(id, k).Append(c.tk, batch, storage.Client, false)
		check(err)
	}
}

// until waits in simulated time.
func (c *cluster) until(what string, cond func() bool) {
	for deadline := c.tk.Now().Add(2 * time.Minute); !cond(); {
		if c.tk.Now() > deadline {
			panic("never: " + what)
		}
		c.tk.Sleep(c.tk.Now().Add(5 * time.Millisecond))
	}
}

func (c *cluster) caughtUp(k Key, ids ...int32) {
	c.until(fmt.Sprint(ids, " are equal"), func() bool {
		first := c.part(ids[0], k).Log().Offsets()
		for _, id := range ids[1:] {
			o := c.part(id, k).Log().Offsets()
			if o.LogEnd != first.LogEnd || o.HighWatermark != first.HighWatermark || first.HighWatermark != first.LogEnd {
				return false
			}
		}
		return true
	})
}

func (c *cluster) bytes(id int32, k Key) string {
	log := c.part(id, k).Log()
	var out []byte
	for at := log.LogStartOffset(); at < log.LogEndOffset(); {
		b := must(log.ReadInto(c.tk, at, 1<<20, storage.ToLogEnd, true, nil))
		it := record.NewBatches(b)
		for it.Next() {
			at = it.Header().NextOffset()
			out = append(out, it.Bytes()...)
		}
	}
	return string(out)
}

func (c *cluster) same(k Key, ids ...int32) {
	for _, id := range ids[1:] {
		if c.bytes(id, k) != c.bytes(ids[0], k) {
			panic(fmt.Sprintf("the logs of %d and %d differ", ids[0], id))
		}
	}
}

func expect(what string, got, want any) {
	if got != want {
		panic(fmt.Sprintf("%s: %v, want %v", what, got, want))
	}
}

// wireTo is a Remote: what node/api's Fetch does, as far as a follower sees it, in words.
type wireTo struct{ from *broker }

var errCut = errors.New("no route")

func (w *wireTo) Close() {}

func (w *wireTo) Do(t *task.T, addr string, req kmsg.Request, until clock.Instant) (kmsg.Response, error) {
	c := w.from.c
	t.Sleep(t.Now().Add(time.Millisecond))
	to := c.brokers[int32(addr[len(addr)-1]-'0')]
	if to == nil || c.cut[to.id] || c.cut[w.from.id] {
		return nil, errCut
	}
	var resp kmsg.Response
	switch req := req.(type) {
	case *kmsg.FetchRequest:
		resp = to.fetch(t, req)
	case *kmsg.ListOffsetsRequest:
		resp = to.listOffsets(req)
	}
	if held := c.held; held != nil {
		c.held = nil
		held(t)
	}
	if c.cut[to.id] || c.cut[w.from.id] {
		return nil, errCut
	}
	return resp, nil
}

func (b *broker) fetch(t *task.T, req *kmsg.FetchRequest) kmsg.Response {
	resp := kmsg.NewPtrFetchResponse()
	empty := true
	for _, topic := range req.Topics {
		out := kmsg.NewFetchResponseTopic()
		out.TopicID = topic.TopicID
		for _, p := range topic.Partitions {
			answer := b.fetchOne(t, req, topic.TopicID, p)
			empty = empty && answer.ErrorCode == 0 && len(answer.RecordBatches) == 0 && answer.DivergingEpoch.EndOffset < 0
			out.Partitions = append(out.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, out)
	}
	if empty {
		t.Sleep(t.Now().Add(5 * time.Millisecond))
	}
	return resp
}

func (b *broker) fetchOne(t *task.T, req *kmsg.FetchRequest, topic [16]byte, p kmsg.FetchRequestTopicPartition) kmsg.FetchResponseTopicPartition {
	out := kmsg.NewFetchResponseTopicPartition()
	out.Partition = p.Partition
	k := Key{topic, p.Partition}
	b.c.fetches[k] = append(b.c.fetches[k], p.FetchOffset)
	part, err := b.m.Partition(k)
	var epoch int32
	if err == nil {
		epoch, err = part.LeaderEpoch(p.CurrentLeaderEpoch)
	}
	if err == nil {
		err = part.CheckFollower(req.ReplicaState.ID, p.CurrentLeaderEpoch)
	}
	if err != nil {
		out.ErrorCode = codeOf(err)
		return out
	}
	if code := b.c.refuse[k]; code != 0 {
		out.ErrorCode = code
		return out
	}
	log := part.Log()
	if p.LastFetchedEpoch >= 0 {
		e, end := log.EndOffsetForEpoch(p.LastFetchedEpoch)
		if e < p.LastFetchedEpoch || end < p.FetchOffset {
			out.DivergingEpoch.Epoch, out.DivergingEpoch.EndOffset = e, end
			out.HighWatermark = log.HighWatermark()
			return out
		}
	}
	leaderEnd := log.LogEndOffset()
	out.RecordBatches, err = log.ReadInto(t, p.FetchOffset, p.PartitionMaxBytes, part.ReplicaBound(), true, nil)
	if err == nil {
		err = part.FollowerFetched(epoch, partition.FollowerFetch{Replica: req.ReplicaState.ID, BrokerEpoch: req.ReplicaState.Epoch,
			Offset: p.FetchOffset, LogStart: p.LogStartOffset, LeaderEnd: leaderEnd, Now: t.Now()})
	}
	if err != nil {
		out.RecordBatches, out.ErrorCode = nil, codeOf(err)
		return out
	}
	out.HighWatermark, out.LogStartOffset = log.HighWatermark(), log.LogStartOffset()
	return out
}

func codeOf(err error) int16 {
	for _, c := range []struct {
		is   error
		code int16
	}{
		{partition.ErrFencedLeaderEpoch, kerr.FencedLeaderEpoch.Code}, {partition.ErrUnknownLeaderEpoch, kerr.UnknownLeaderEpoch.Code},
		{ErrUnknownReplica, kerr.UnknownLeaderEpoch.Code}, {storage.ErrOffsetOutOfRange, kerr.OffsetOutOfRange.Code},
		{storage.ErrOffline, kerr.KafkaStorageError.Code},
	} {
		if errors.Is(err, c.is) {
			return c.code
		}
	}
	return kerr.NotLeaderForPartition.Code
}

func (b *broker) listOffsets(req *kmsg.ListOffsetsRequest) kmsg.Response {
	resp := kmsg.NewPtrListOffsetsResponse()
	for _, topic := range req.Topics {
		out := kmsg.NewListOffsetsResponseTopic()
		out.Topic = topic.Topic
		for _, p := range topic.Partitions {
			a := kmsg.NewListOffsetsResponseTopicPartition()
			log := must(b.m.Partition(Key{b.c.image.Topic(topic.Topic).ID, p.Partition})).Log()
			a.Partition, a.Offset = p.Partition, log.LogEndOffset()
			if p.Timestamp == earliestTimestamp {
				a.Offset = log.LogStartOffset()
			}
			out.Partitions = append(out.Partitions, a)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// Propose implements Controller: it writes the ISR that is asked for, if the epochs are right.
func (c *cluster) Propose(t *task.T, req kmsg.Request, until clock.Instant) (kmsg.Response, int64, error) {
	r := req.(*kmsg.AlterPartitionRequest)
	t.Sleep(t.Now().Add(2 * time.Millisecond))
	var fate func() error
	if len(c.answers) > 0 {
		fate, c.answers = c.answers[0], c.answers[1:]
	}
	resp := kmsg.NewPtrAlterPartitionResponse()
	for _, topic := range r.Topics {
		out := kmsg.NewAlterPartitionResponseTopic()
		out.TopidID = topic.TopicID
		for _, p := range topic.Partitions {
			out.Partitions = append(out.Partitions, c.alter(r.BrokerID, topic.TopicID, p))
		}
		resp.Topics = append(resp.Topics, out)
	}
	if fate != nil {
		if err := fate(); err != nil {
			return nil, -1, err
		}
	}
	return resp, -1, nil
}

func (c *cluster) alter(from int32, topic meta.UUID, p kmsg.AlterPartitionRequestTopicPartition) kmsg.AlterPartitionResponseTopicPartition {
	out := kmsg.NewAlterPartitionResponseTopicPartition()
	out.Partition = p.Partition
	now := c.image.Partition(topic, p.Partition)
	var isr []int32
	for _, b := range p.NewEpochISR {
		isr = append(isr, b.BrokerID)
	}
	c.asked = append(c.asked, fmt.Sprint(from, " wants ", isr))
	switch {
	case p.LeaderEpoch != now.LeaderEpoch || from != now.Leader:
		out.ErrorCode = kerr.FencedLeaderEpoch.Code
		return out
	case p.PartitionEpoch != now.PartitionEpoch:
		out.ErrorCode = kerr.InvalidUpdateVersion.Code
		return out
	}
	for _, b := range p.NewEpochISR {
		if r := c.image.Broker(b.BrokerID); r.Fenced || b.BrokerEpoch != -1 && b.BrokerEpoch != r.Epoch {
			out.ErrorCode = kerr.IneligibleReplica.Code
			return out
		}
	}
	change := meta.NewPartitionChange(topic, p.Partition)
	change.ISR, change.LeaderRecoveryState = isr, p.LeaderRecoveryState
	c.decide(change)
	next := c.image.Partition(topic, p.Partition)
	out.LeaderID, out.LeaderEpoch, out.PartitionEpoch, out.ISR = next.Leader, next.LeaderEpoch, next.PartitionEpoch, next.ISR
	return out
}
