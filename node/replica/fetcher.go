package replica

import (
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/node/partition"
)

// fetcher copies some of the partitions that one broker leads. Its task asks the leader for
// all of them at once, and lets each act on its answer:
//
//	compose --> Fetch --> for each partition: takeAnswer --> appended, truncated, again
//	   ^                                       \--> out of range: ListOffsets, takeOffsets
//	   |                                        \--> refused: later, alone
//	   \-- a pause, if the leader did not answer or nothing is to be asked
//
// A partition that fails waits by itself; the others go on.
type fetcher struct {
	m       *Manager
	source  source
	changed task.Signal

	mu     task.Mutex
	parts  []*followed // in the order of their keys; copied on write
	remote Remote      // nil while there is nothing to copy
	closed bool

	// Of the task alone.
	session  fetchSession
	req      kmsg.FetchRequest
	wants    []want
	asked    map[Key]*followed // by the last request, or in its session
	failures int               // in a row
	notUntil clock.Instant     // it asks again
}

// followed is a partition in one leader epoch. But for p and epoch it is the task's alone.
type followed struct {
	p        *Partition
	epoch    int32
	asked    int64         // the offset
	notUntil clock.Instant // it is asked for again
	failures int           // in a row
	given    bool          // up, until the metadata changes
}

func newFetcher(m *Manager, s source) *fetcher {
	f := &fetcher{m: m, source: s, asked: map[Key]*followed{}}
	f.mu.Init(m.rt, "replica.fetcher")
	f.changed.Init(m.rt, "replica.fetcher.changed")
	return f
}

// copy lets the partition be copied in the leader epoch.
func (f *fetcher) copy(p *Partition, epoch int32) {
	f.mu.Lock()
	at, found := slices.BinarySearchFunc(f.parts, p.key, func(x *followed, k Key) int { return x.p.key.Compare(k) })
	if found && f.parts[at].epoch == epoch && f.parts[at].p == p {
		f.mu.Unlock()
		return
	}
	next := slices.Clone(f.parts)
	if found {
		next[at] = &followed{p: p, epoch: epoch}
	} else {
		next = slices.Insert(next, at, &followed{p: p, epoch: epoch})
	}
	f.parts = next
	f.mu.Unlock()
	f.changed.Raise()
}

// drop ends the copying of the partition.
func (f *fetcher) drop(p *Partition) {
	f.mu.Lock()
	f.parts = slices.DeleteFunc(slices.Clone(f.parts), func(x *followed) bool { return x.p == p })
	f.mu.Unlock()
	f.changed.Raise()
}

func (f *fetcher) list() []*followed {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.parts
}

// awaken lets the task look at the metadata again.
func (f *fetcher) awaken() { f.changed.Raise() }

// close wakes the task from a request; its group is stopping.
func (f *fetcher) close() {
	f.mu.Lock()
	remote := f.remote
	f.closed = true
	f.mu.Unlock()
	if remote != nil {
		remote.Close()
	}
}

// run copies until t's group stops.
func (f *fetcher) run(t *task.T) {
	for !t.Stopping() {
		seen := f.changed.Generation()
		list := f.list()
		if len(list) == 0 {
			f.hangUp()
			f.changed.Wait(t, seen, clock.Never)
			continue
		}
		if now := t.Now(); now < f.notUntil {
			f.changed.Wait(t, seen, f.notUntil)
			if t.Now() < f.notUntil && f.failures > 1 {
				continue // whatever changed, the leader did not answer twice
			}
		}
		more := f.compose(t, list)
		if len(f.wants) == 0 {
			f.changed.Wait(t, seen, more)
			continue
		}
		f.fetch(t)
	}
	f.hangUp()
}

// hangUp ends the connection while there is nothing to copy.
func (f *fetcher) hangUp() {
	f.mu.Lock()
	remote := f.remote
	f.remote = nil
	f.mu.Unlock()
	if remote != nil {
		remote.Close()
	}
	f.session.id = 0
	f.session.reset()
}

// compose fills in the request for those that can be asked for now, and returns when there
// will be more.
func (f *fetcher) compose(t *task.T, list []*followed) (more clock.Instant) {
	cfg := f.m.config()
	more = clock.Never
	f.wants = f.wants[:0]
	clear(f.asked)
	for _, x := range list {
		now := t.Now()
		switch {
		case x.given:
			continue
		case x.notUntil > now:
			more = min(more, x.notUntil)
			continue
		case f.throttled(x, now):
			more = min(more, now.Add(throttlePause))
			continue
		}
		at, err := x.p.position(t, x.epoch)
		if err != nil {
			if f.giveUp(x, err); !x.given {
				more = min(more, now.Add(f.pause(1)))
			}
			continue
		}
		x.asked = at.offset
		f.asked[x.p.key] = x
		f.wants = append(f.wants, want{x.p.key, toldPart{position: at, leaderEpoch: x.epoch, maxBytes: cfg.ReplicaFetchMaxBytes}})
	}
	if len(f.wants) == 0 {
		return more
	}
	req := &f.req
	req.Version = fetchVersion
	req.ReplicaID = -1
	req.ReplicaState = kmsg.NewFetchRequestReplicaState()
	req.ReplicaState.ID, req.ReplicaState.Epoch = f.m.self, f.m.brokerEpoch()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = cfg.ReplicaFetchWaitMaxMs, cfg.ReplicaFetchMinBytes, cfg.ReplicaFetchResponseMaxBytes
	if more != clock.Never {
		req.MaxWaitMillis = min(req.MaxWaitMillis, int32(max(more.Sub(t.Now()).Milliseconds(), 1)))
	}
	f.session.compose(req, f.wants)
	return more
}

// fetchVersion has topic ids, the diverging epoch, and the replica's state in a tag.
const fetchVersion = 17

// throttlePause is how long a throttled replica waits before it looks at the rate again.
const throttlePause = 100 * time.Millisecond

// throttled reports whether the replica must not be copied now: it is throttled, behind, and
// this broker has copied as much as it may.
func (f *fetcher) throttled(x *followed, now clock.Instant) bool {
	if !x.p.Settings().FollowerThrottled.Has(x.p.key.Partition, f.m.self) || !x.p.behind() {
		return false
	}
	return f.m.received.exceeded(f.m.config().FollowerThrottledRate, now)
}

// fetch asks the leader and acts on its answer.
func (f *fetcher) fetch(t *task.T) {
	resp, err := f.do(t, &f.req)
	r, _ := resp.(*kmsg.FetchResponse)
	if err == nil {
		err = f.accept(r)
	}
	if err != nil {
		f.failed(t, err)
		return
	}
	f.failures, f.notUntil = 0, 0
	var outside []*followed
	for i := range r.Topics {
		topic := &r.Topics[i]
		for j := range topic.Partitions {
			p := &topic.Partitions[j]
			x := f.asked[Key{topic.TopicID, p.Partition}]
			if x != nil && f.take(t, x, p) == partition.AskOffsets {
				outside = append(outside, x)
			}
		}
	}
	if len(outside) > 0 {
		f.resolve(t, outside)
	}
}

// do asks the leader at the address that the metadata has for it now.
func (f *fetcher) do(t *task.T, req kmsg.Request) (kmsg.Response, error) {
	addr, ok := brokerAddr(f.m.image.Load(), f.source.broker, f.m.listener)
	if !ok {
		return nil, errNoAddress
	}
	f.mu.Lock()
	if f.remote == nil && !f.closed {
		f.remote = f.m.dial(f.source.String())
	}
	remote := f.remote
	f.mu.Unlock()
	if remote == nil {
		return nil, errMoved
	}
	return remote.Do(t, addr, req, t.Now().Add(millis(int64(f.m.config().ReplicaSocketTimeoutMs))))
}

var (
	errNoAddress = errors.New("the metadata has no address for the leader")
	errSession   = errors.New("the leader does not know the fetch session")
)

// accept keeps the session in step with the leader's.
func (f *fetcher) accept(r *kmsg.FetchResponse) error {
	switch r.ErrorCode {
	case 0:
		f.session.answered(r.SessionID)
		return nil
	case kerr.FetchSessionIDNotFound.Code, kerr.InvalidFetchSessionEpoch.Code, kerr.FetchSessionTopicIDError.Code:
		if r.ErrorCode == kerr.FetchSessionIDNotFound.Code {
			f.session.id = 0
		}
		return errSession
	}
	return kerr.ErrorForCode(r.ErrorCode)
}

// failed lets the next request begin a session of its own, after a pause. A session that the
// leader forgot is no reason to pause, once.
func (f *fetcher) failed(t *task.T, err error) {
	f.session.reset()
	f.failures++
	if t.Stopping() || errors.Is(err, errMoved) {
		return
	}
	if !errors.Is(err, errSession) || f.failures > 1 {
		f.notUntil = t.Now().Add(f.pause(f.failures))
	}
	f.m.emit(FetcherFailed{Fetcher: f.source.String(), Err: err})
}

// pause grows with every failure in a row, up to replica.fetch.backoff.ms.
func (f *fetcher) pause(failures int) time.Duration {
	most := millis(int64(f.m.config().ReplicaFetchBackoffMs))
	return most >> max(0, 5-failures)
}

// take lets one partition act on its answer.
func (f *fetcher) take(t *task.T, x *followed, p *kmsg.FetchResponseTopicPartition) partition.Step {
	a := partition.Answer{Code: p.ErrorCode, HighWatermark: p.HighWatermark, LogStart: p.LogStartOffset}
	if p.DivergingEpoch.EndOffset >= 0 && p.DivergingEpoch.Epoch >= 0 {
		a.Diverges, a.DivergeEpoch, a.DivergeEnd = true, p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset
	}
	if n := int64(len(p.RecordBatches)); n > 0 && x.p.Settings().FollowerThrottled.Has(x.p.key.Partition, f.m.self) {
		f.m.received.add(n, t.Now())
	}
	step, err := x.p.takeAnswer(t, x.epoch, x.asked, a, p.RecordBatches)
	return f.after(t, x, step, err, p.ErrorCode)
}

// after decides when a partition is asked for again.
func (f *fetcher) after(t *task.T, x *followed, step partition.Step, err error, code int16) partition.Step {
	switch {
	case err != nil:
		f.giveUp(x, err)
		return partition.AwaitMetadata
	case step == partition.AwaitMetadata:
		x.given = true
	case step == partition.RetryLater:
		x.failures++
		x.notUntil = t.Now().Add(f.pause(x.failures))
	case step == partition.Append:
		x.failures = 0
		return step
	default:
		return step
	}
	f.m.emit(FetchRefused{Topic: x.p.topic, Partition: x.p.key.Partition, Code: code})
	return step
}

// giveUp leaves a partition alone until the metadata changes: its log is offline. One whose
// role or log changed meanwhile is looked at again, if it is still this fetcher's.
func (f *fetcher) giveUp(x *followed, err error) {
	if errors.Is(err, errMoved) {
		x.given = !x.p.follows(x.epoch)
		return
	}
	x.given = true
	f.m.emit(FetchRefused{Topic: x.p.topic, Partition: x.p.key.Partition, Err: err})
}

// The timestamps that ask ListOffsets for the ends of a log.
const (
	latestTimestamp   = -1
	earliestTimestamp = -2
)

// resolve finds out where the leader's logs start and end, for those whose own end lies
// outside.
func (f *fetcher) resolve(t *task.T, outside []*followed) {
	starts, err := f.offsets(t, outside, earliestTimestamp)
	var ends map[Key]int64
	if err == nil {
		ends, err = f.offsets(t, outside, latestTimestamp)
	}
	if err != nil {
		f.failed(t, err)
	}
	for _, x := range outside {
		start, ok1 := starts[x.p.key]
		end, ok2 := ends[x.p.key]
		step := partition.RetryLater
		var failure error
		if ok1 && ok2 {
			if step, failure = x.p.takeOffsets(t, x.epoch, x.asked, start, end); failure == nil && step == partition.AskAgain && x.p.log.LogEndOffset() == x.asked {
				step = partition.RetryLater // nothing changed here: the leader is to change
			}
		}
		f.after(t, x, step, failure, kerr.OffsetOutOfRange.Code)
	}
}

// offsets asks the leader for one end of the logs.
func (f *fetcher) offsets(t *task.T, of []*followed, timestamp int64) (map[Key]int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.ReplicaID = 7, f.m.self
	asked := map[string][]*followed{}
	for _, x := range of {
		if asked[x.p.topic] == nil {
			topic := kmsg.NewListOffsetsRequestTopic()
			topic.Topic = x.p.topic
			req.Topics = append(req.Topics, topic)
		}
		asked[x.p.topic] = append(asked[x.p.topic], x)
		for i := range req.Topics {
			if req.Topics[i].Topic == x.p.topic {
				p := kmsg.NewListOffsetsRequestTopicPartition()
				p.Partition, p.CurrentLeaderEpoch, p.Timestamp = x.p.key.Partition, x.epoch, timestamp
				req.Topics[i].Partitions = append(req.Topics[i].Partitions, p)
			}
		}
	}
	resp, err := f.do(t, req)
	if err != nil {
		return nil, err
	}
	out := map[Key]int64{}
	r := resp.(*kmsg.ListOffsetsResponse)
	for i := range r.Topics {
		for j := range r.Topics[i].Partitions {
			p := &r.Topics[i].Partitions[j]
			for _, x := range asked[r.Topics[i].Topic] {
				if x.p.key.Partition == p.Partition && p.ErrorCode == 0 && p.Offset >= 0 {
					out[x.p.key] = p.Offset
				}
			}
		}
	}
	return out, nil
}
