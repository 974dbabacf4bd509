package coord

import (
	"math/rand/v2"
	"unicode/utf16"

	"seedlog/clock/task"
	"seedlog/node/event"
	"seedlog/node/group"
)

// Topic is the name of the topic that groups and offsets are stored in.
const Topic = "__consumer_offsets"

// Codes that the host answers with, in Kafka's numbers.
const (
	CodeUnknownServerError int16 = -1
	CodeNotAvailable       int16 = 15
	CodeLoadInProgress     int16 = 14
	CodeNotCoordinator     int16 = 16
)

// commitTimeoutMs is how long a reply waits for its records to be committed
// (offsets.commit.timeout.ms).
const commitTimeoutMs = 5000

// Env is what a Coordinator works with.
type Env struct {
	RT task.Runtime
	// Tasks is the group that the shards run in; stopping it stops them.
	Tasks  *task.Group
	Events event.Sink
	// Rand gives one stream per name.
	Rand func(name string) *rand.Rand
	// Config returns the newest settings.
	Config func() group.Config
}

// Coordinator is the group coordinator of one broker.
type Coordinator struct {
	env Env

	mu     task.Mutex
	shards map[int32]*shard
	count  int32
}

// New returns a coordinator without shards; partitions is how many __consumer_offsets has,
// or will have.
func New(env Env, partitions int32) *Coordinator {
	c := &Coordinator{env: env, shards: map[int32]*shard{}, count: partitions}
	c.mu.Init(env.RT, "coord.Coordinator")
	return c
}

// SetPartitions says how many partitions __consumer_offsets has.
func (c *Coordinator) SetPartitions(n int32) {
	c.mu.Lock()
	c.count = n
	c.mu.Unlock()
}

// Lead starts the shard of a partition that this broker leads from now on, in the epoch.
func (c *Coordinator) Lead(partition, epoch int32, log Log) {
	c.mu.Lock()
	old := c.shards[partition]
	if old != nil && old.epoch >= epoch {
		c.mu.Unlock()
		return
	}
	s := newShard(c, partition, epoch, log)
	c.shards[partition] = s
	c.mu.Unlock()
	if old != nil {
		old.stop()
	}
	c.env.Tasks.Go(s.name(), s.run)
}

// Resign ends the shard of a partition that is led by another broker in the epoch.
func (c *Coordinator) Resign(partition, epoch int32) {
	c.mu.Lock()
	s := c.shards[partition]
	if s == nil || s.epoch > epoch {
		c.mu.Unlock()
		return
	}
	delete(c.shards, partition)
	c.mu.Unlock()
	s.stop()
}

// Failed says that this broker leads the partition in the epoch but cannot serve it.
func (c *Coordinator) Failed(partition, epoch int32, err error) {
	c.Resign(partition, epoch)
	c.emit(ShardEnded{Partition: partition, Epoch: epoch, Err: err})
}

func (c *Coordinator) shard(partition int32) *shard {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shards[partition]
}

// PartitionFor is the partition of __consumer_offsets that a group belongs to.
func (c *Coordinator) PartitionFor(groupID string) int32 {
	c.mu.Lock()
	n := c.count
	c.mu.Unlock()
	return Partition(groupID, n)
}

// Partition hashes a group id to one of n partitions as Kafka does: Java's String.hashCode,
// which works on UTF-16 units, without its sign bit.
func Partition(groupID string, n int32) int32 {
	var h int32
	for _, r := range groupID {
		if r > 0xffff {
			a, b := utf16.EncodeRune(r)
			h = 31*(31*h+a) + b
			continue
		}
		h = 31*h + r
	}
	return h & 0x7fffffff % n
}

// Do has the shard of the group handle a command and waits for its reply, however long that
// takes. A code other than 0 comes instead of a message: CodeNotCoordinator,
// CodeLoadInProgress, CodeNotAvailable or CodeUnknownServerError. build makes the command;
// what its request points at is not used any more when Do returns.
func (c *Coordinator) Do(t *task.T, groupID string, build func(group.Ticket) group.Command) (msg any, code int16) {
	s := c.shard(c.PartitionFor(groupID))
	if s == nil {
		return nil, CodeNotCoordinator
	}
	return s.do(t, build)
}

// All has every shard of this broker handle a command, in the order of partitions, and
// returns the replies. Shards that are lost meanwhile are left out; one that loads fails
// the whole.
func (c *Coordinator) All(t *task.T, build func(group.Ticket) group.Command) (msgs []any, code int16) {
	for _, s := range c.all() {
		msg, code := s.do(t, build)
		switch code {
		case 0:
			msgs = append(msgs, msg)
		case CodeNotCoordinator:
		default:
			return nil, code
		}
	}
	return msgs, 0
}

// all lists the shards by partition.
func (c *Coordinator) all() []*shard {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]*shard, 0, len(c.shards))
	for p := range c.count {
		if s := c.shards[p]; s != nil {
			list = append(list, s)
		}
	}
	return list
}

// TopicsDeleted tells every shard that topics are gone. It does not wait.
func (c *Coordinator) TopicsDeleted(topics []string) {
	for _, s := range c.all() {
		s.tell(group.TopicsDeleted{Topics: topics})
	}
}

// Loaded reports whether the shard of the partition serves; for tests and conditions of
// liveness.
func (c *Coordinator) Loaded(partition int32) bool {
	s := c.shard(partition)
	return s != nil && s.serving()
}

func (c *Coordinator) emit(e event.Event) {
	if c.env.Events != nil {
		c.env.Events.Emit(e)
	}
}
