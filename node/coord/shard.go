package coord

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/node/group"
	"seedlog/storage/record"
)

// phase is how far a shard is.
type phase uint8

const (
	phaseLoading phase = iota
	phaseServing
	phaseEnded
)

// shard is one partition's task and what it shares with the handlers.
type shard struct {
	c         *Coordinator
	partition int32
	epoch     int32
	log       Log

	mu       task.Mutex
	task     *task.T // nil until it runs
	phase    phase
	stopped  bool
	mailbox  []*op
	told     []group.Command // without reply
	watching bool            // the log will wake the task
	inflight int             // requests taken and not answered

	// The task's own.
	core     *group.Shard
	cfg      group.Config
	timers   timers
	tickets  group.Ticket
	waiting  map[group.Ticket]*op
	deferred []deferred // by next
	written  int64      // the offset that all later replies wait for
	builder  []byte
}

// deferred is a reply that waits for next to be committed.
type deferred struct {
	op    *op
	msg   any
	next  int64
	until clock.Instant
}

func newShard(c *Coordinator, partition, epoch int32, log Log) *shard {
	s := &shard{c: c, partition: partition, epoch: epoch, log: log, waiting: map[group.Ticket]*op{}}
	s.mu.Init(c.env.RT, "coord.shard")
	return s
}

func (s *shard) name() string { return fmt.Sprintf("group coordinator %d", s.partition) }

func (s *shard) ending(t *task.T) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped || t.Stopping()
}

// run is the shard's task.
func (s *shard) run(t *task.T) {
	s.mu.Lock()
	s.task = t
	s.mu.Unlock()
	s.cfg = s.c.env.Config()
	// A stream of its own for each epoch, or the next one would give the same member ids.
	s.core = group.NewShard(s.cfg, s.c.env.Rand(fmt.Sprintf("%s epoch %d", s.name(), s.epoch)))
	s.timers.init(t.Now())
	err := s.load(t)
	if err == nil {
		err = s.serve(t)
	}
	s.end(t, err)
}

// serve handles requests, timers and commits until the shard is to end.
func (s *shard) serve(t *task.T) error {
	if err := s.effects(t, s.core.Loaded(s.now(t))); err != nil {
		return err
	}
	s.mu.Lock()
	s.phase = phaseServing
	s.mu.Unlock()
	for !s.ending(t) {
		busy, err := s.turn(t)
		if err != nil {
			return err
		}
		if !busy {
			t.Park(min(s.timers.next(), s.releaseBy()))
		}
	}
	return nil
}

// turn does what there is to do once, and tells whether there was anything.
func (s *shard) turn(t *task.T) (busy bool, err error) {
	if cfg := s.c.env.Config(); cfg != s.cfg {
		s.cfg = cfg
		s.core.SetConfig(cfg)
	}
	told, o := s.take()
	for _, c := range told {
		if err := s.step(t, c); err != nil {
			return true, err
		}
	}
	if o != nil {
		err := s.handle(t, o)
		if err != nil {
			return true, err
		}
	}
	for _, key := range s.timers.due(t.Now()) {
		if err := s.step(t, group.Expired{Key: key}); err != nil {
			return true, err
		}
		busy = true
	}
	if err := s.release(t); err != nil {
		return true, err
	}
	return busy || o != nil || len(told) > 0, nil
}

func (s *shard) handle(t *task.T, o *op) error {
	s.tickets++
	ticket := s.tickets
	s.waiting[ticket] = o
	err := s.step(t, o.build(ticket))
	s.mu.Lock()
	waits := o.state == opHandling
	if waits {
		o.state = opParked
	}
	s.mu.Unlock()
	if waits && o.t.Stopping() {
		o.t.Wake()
	}
	return err
}

func (s *shard) now(t *task.T) group.Now { return group.Now{Mono: t.Now(), UnixMs: t.UnixMilli()} }

// step is one command with all that follows from it.
func (s *shard) step(t *task.T, c group.Command) error {
	return s.effects(t, s.core.Handle(c, s.now(t)))
}

// effects carries out a step's effects: its records are in the log and replayed before its
// replies are queued. An error is the loss of the partition.
func (s *shard) effects(t *task.T, fx group.Effects) error {
	s.apply(t, fx)
	if fx.Records == nil {
		return nil
	}
	base, err := s.append(t, fx.Records)
	if err != nil {
		code, lost := refusedCode(err)
		s.apply(t, s.core.Refused(code, s.now(t)))
		if lost {
			return err
		}
		s.c.emit(AppendRefused{Partition: s.partition, Records: len(fx.Records), Err: err})
		return nil
	}
	s.written = base + int64(len(fx.Records))
	s.apply(t, s.core.Appended(base, s.now(t)))
	return nil
}

// refusedCode is what the clients of a refused append are told.
func refusedCode(err error) (code int16, lost bool) {
	switch {
	case errors.Is(err, ErrTooLarge):
		return CodeUnknownServerError, false
	case errors.Is(err, ErrUnavailable):
		return CodeNotAvailable, false
	}
	return CodeNotCoordinator, true
}

func (s *shard) append(t *task.T, records []group.Record) (int64, error) {
	b := record.NewBuilder(record.NewOptions(0), nil)
	now := t.UnixMilli()
	for _, r := range records {
		b.Append(record.Record{Timestamp: now, Key: r.Key, Value: r.Value})
	}
	batch, err := b.Build(s.builder[:0])
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	s.builder = batch
	if cap(s.builder) > 1<<20 {
		s.builder = nil
	}
	return s.log.Append(t, batch)
}

// apply takes over timers, events and replies. Replies wait for all that is written so far,
// be it by this step or an earlier one: what they tell may rest on any of it.
func (s *shard) apply(t *task.T, fx group.Effects) {
	for _, tm := range fx.Timers {
		s.timers.set(tm.Key, tm.At)
	}
	for _, e := range fx.Events {
		s.c.emit(e)
	}
	until := t.Now().Add(commitTimeoutMs * time.Millisecond)
	for _, r := range fx.Replies {
		o := s.waiting[r.Ticket]
		delete(s.waiting, r.Ticket)
		s.deferred = append(s.deferred, deferred{o, r.Msg, s.written, until})
	}
}

// release answers those whose records are committed, and those whose time is up.
func (s *shard) release(t *task.T) error {
	n := 0
	now := t.Now()
	for ; n < len(s.deferred); n++ {
		d := &s.deferred[n]
		done, err := s.log.Committed(d.next)
		if err != nil {
			return err
		}
		switch {
		case done:
			s.answer(d.op, d.msg, 0)
		case now >= d.until:
			s.answer(d.op, nil, CodeNotAvailable)
		default:
			s.dropReleased(n)
			s.watch(s.deferred[0].next)
			return nil
		}
	}
	s.dropReleased(n)
	return nil
}

func (s *shard) dropReleased(n int) {
	rest := copy(s.deferred, s.deferred[n:])
	clear(s.deferred[rest:])
	s.deferred = s.deferred[:rest]
}

// releaseBy is when the first deferred reply gives up.
func (s *shard) releaseBy() clock.Instant {
	if len(s.deferred) == 0 {
		return clock.Never
	}
	return s.deferred[0].until
}

// watch asks the log for a wake, unless it owes one.
func (s *shard) watch(next int64) {
	s.mu.Lock()
	owed := s.watching
	s.watching = true
	runner := s.task
	s.mu.Unlock()
	if owed {
		return
	}
	s.log.Watch(next, func() {
		s.mu.Lock()
		s.watching = false
		s.mu.Unlock()
		runner.Wake()
	})
}

// end answers everybody: the broker does not coordinate these groups any more.
func (s *shard) end(t *task.T, err error) {
	s.mu.Lock()
	s.phase = phaseEnded
	left := s.mailbox
	s.inflight += len(left)
	s.mailbox, s.told = nil, nil
	s.mu.Unlock()
	s.core.Unloaded(CodeNotCoordinator, s.now(t))
	for _, d := range s.deferred {
		s.answer(d.op, nil, CodeNotCoordinator)
	}
	s.deferred = nil
	for _, ticket := range slices.Sorted(maps.Keys(s.waiting)) { //order: sorted
		s.answer(s.waiting[ticket], nil, CodeNotCoordinator)
	}
	clear(s.waiting)
	for _, o := range left {
		s.answer(o, nil, CodeNotCoordinator)
	}
	s.c.emit(ShardEnded{Partition: s.partition, Epoch: s.epoch, Err: err})
}
