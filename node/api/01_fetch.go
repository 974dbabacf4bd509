package api

// Fetch: batches of some partitions.
//
//	4  isolation level, aborted transactions (0-3 are gone)
//	5  log start offset          7  sessions             9  current leader epoch
//	10 zstd                      11 rack                 12 flexible; diverging epoch
//	13 topic ids                 15 replica state in a tag
//	16 endpoints of the leaders that the reply names     17 directory id    18 follower's HW
//
// A request with less than min_bytes to answer waits in the purgatory, at most for
// max_wait_ms. The bytes of batches are file ranges, which the connection sends from the
// page cache.

import (
	"errors"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/node/conn"
	"seedlog/node/meta"
	"seedlog/node/replica"
	"seedlog/storage"
)

// fetchOp is one Fetch request from its decoding to its reply.
type fetchOp struct {
	fetchRequest
	s        *Service
	image    *meta.Image
	listener string
	hints    leaderHints
	session  *fetchSession
	full     bool // the reply names every partition
	targets  []fetchTarget
	results  []fetchResult // of the targets
	out      fetchReply

	// While it waits.
	rackKept []byte // what rack is then
	delayed  replica.Delayed
	watch    []*replica.Watchers
	need     int64 // more bytes than there were at the last read
	woken    task.Signal
	ready    bool // woken is set up
}

// fetchTarget is one partition to read, with what there was at the last read.
type fetchTarget struct {
	asked *fetchPart
	memo  *sessionPart // nil without a session
	topic string

	part   *replica.Partition // nil: see the result's code
	epoch  int32
	leads  bool  // this broker leads, or the asker reads from a follower
	bytes  int64 // appended so far
	end    int64 // of what may be read
	hidden bool  // more was appended than may be read: bytes counts it already
	muted  bool  // throttled: what is appended is no reason to answer
}

func (s *Service) fetchRequest(t *task.T, r *conn.Request, reply *conn.Reply) {
	op := s.fetches.get()
	op.s = s
	if !op.ready {
		op.woken.Init(s.RT, "api.fetchOp")
		op.ready = true
	}
	if err := op.decode(r.Body, r.Version); err != nil {
		s.fetches.put(op)
		s.malformed(r, reply, err)
		return
	}
	op.listener = r.Conn.Listener()
	op.out = fetchReply{version: r.Version, cuts: op.out.cuts[:0], results: op.out.results[:0]}
	if code := op.openSession(t.Now()); code != 0 {
		op.out.code = code
		op.send(reply)
		return
	}
	op.aim()
	// A client may be gone before its time is over, which nobody sees while it waits.
	deadline := r.Received.Add(millis(min(int64(max(op.maxWaitMs, 0)), s.Config().ConnectionsMaxIdleMs)))
	for !op.read(t) && t.Now() < deadline {
		op.release()
		op.leaveFrame(r, reply)
		if !op.wait(t, deadline) {
			op.closeSession()
			reply.Close("stopping")
			return // op is still in the purgatory: it is not used again
		}
	}
	op.choose()
	op.count(t)
	op.closeSession()
	op.send(reply)
}

// openSession finds or begins the session that the request belongs to.
func (op *fetchOp) openSession(now clock.Instant) int16 {
	cache := &op.s.sessions
	op.session, op.full = nil, true
	switch op.sessionEpoch {
	case sessionEpochFinal, sessionEpochInitial:
		if op.sessionID != 0 {
			cache.end(op.sessionID)
		}
		if op.sessionEpoch == sessionEpochInitial && len(op.parts) > 0 {
			op.session = cache.begin(len(op.parts), op.fromReplica(), now)
		}
		if op.session != nil {
			op.session.byID = op.version >= 13
			op.session.update(&op.fetchRequest)
			op.out.sessionID = op.session.id
		}
		return 0
	}
	session, stale := cache.resume(op.sessionID, op.sessionEpoch, now)
	switch {
	case stale:
		return kerr.InvalidFetchSessionEpoch.Code
	case session == nil:
		return kerr.FetchSessionIDNotFound.Code
	case session.byID != (op.version >= 13):
		cache.release(session)
		return kerr.FetchSessionTopicIDError.Code
	}
	session.update(&op.fetchRequest)
	op.session, op.full = session, false
	if len(session.parts) > 0 {
		op.out.sessionID = session.id
	}
	return 0
}

func (op *fetchOp) closeSession() {
	if op.session != nil {
		op.s.sessions.release(op.session)
		op.session = nil
	}
}

// aim lists the partitions to read: the session's, or the request's.
func (op *fetchOp) aim() {
	op.targets = op.targets[:0]
	if op.session != nil {
		for _, p := range op.session.parts {
			op.targets = append(op.targets, fetchTarget{asked: &p.asked, memo: p, topic: p.key.topic})
		}
	} else {
		for i := range op.parts {
			op.targets = append(op.targets, fetchTarget{asked: &op.parts[i]})
		}
	}
	for len(op.results) < len(op.targets) {
		op.results = append(op.results, fetchResult{})
	}
}

// read reads every target and reports whether the request can be answered now.
func (op *fetchOp) read(t *task.T) bool {
	op.image = op.s.Image()
	left := int64(max(min(op.maxBytes, op.s.Config().FetchMaxBytes), 0))
	got, failed := int64(0), false
	for i := range op.targets {
		target, result := &op.targets[i], &op.results[i]
		result.reset()
		code := op.resolve(target, result)
		if code == 0 {
			code = op.readOne(t, target, result, left, got == 0)
		}
		if code != 0 {
			op.fail(target, result, code)
		}
		failed = failed || code != 0 || result.diverges || result.elsewhere
		got += result.data.Size
		left = max(left-result.data.Size, 0)
	}
	op.need = int64(min(op.minBytes, op.maxBytes, op.s.Config().FetchMaxBytes)) - got
	return failed || op.need <= 0 || len(op.targets) == 0
}

// resolve finds the topic and the replica.
func (op *fetchOp) resolve(target *fetchTarget, result *fetchResult) int16 {
	target.part = nil
	result.index = target.asked.index
	var topic *meta.Topic
	if op.version >= 13 {
		result.id = target.asked.id
		if topic = op.image.TopicByID(target.asked.id); topic == nil {
			return kerr.UnknownTopicID.Code
		}
	} else {
		if target.topic == "" {
			target.topic = op.nameOf(target.asked.name)
		}
		result.topic = target.topic
		topic = op.image.Topic(target.topic)
	}
	if topic.Partition(result.index) == nil {
		return kerr.UnknownTopicOrPartition.Code
	}
	part, code := op.s.hosted(op.image, replica.Key{Topic: topic.ID, Partition: result.index})
	if code != 0 {
		return code
	}
	epoch, leads, err := part.Serves(target.asked.currentEpoch, op.anyReplica())
	if err == nil && op.fromReplica() {
		err = op.checkReplica(part, target)
	}
	if err != nil {
		return errorCode(err)
	}
	target.part, target.epoch, target.leads = part, epoch, leads
	return 0
}

// nameOf is the metadata's own copy of a name in the frame, if it has one.
func (op *fetchOp) nameOf(frame []byte) string {
	if topic := op.image.Topic(unsafeText(frame)); topic != nil {
		return topic.Name
	}
	return string(frame)
}

func (op *fetchOp) readOne(t *task.T, target *fetchTarget, result *fetchResult, left int64, minOne bool) int16 {
	if op.sendElsewhere(target, result) {
		return 0
	}
	bound := op.bound(target)
	result.aborted = bound == storage.ToLastStable
	target.bytes = target.part.BytesAppended()
	limit := int32(min(int64(max(target.asked.maxBytes, 0)), left))
	known := op.diverged(target, result)
	if target.muted = op.throttled(t, target); target.muted {
		limit, minOne = 0, false
	}
	var err error
	if result.diverges {
		err = op.look(target, result)
	} else if err = target.part.Log().Read(t, target.asked.offset, limit, bound, minOne, &result.data); errors.Is(err, storage.ErrOffsetOutOfRange) {
		err = op.outside(target, result, err)
	}
	if err == nil && !known {
		err = errUnknownEpoch
	}
	if err == nil {
		err = op.settle(t, target, result)
	}
	if err != nil {
		return errorCode(err)
	}
	result.hw, result.lso, result.logStart = result.data.HighWatermark, result.data.LastStableOffset, result.data.LogStartOffset
	target.end = end(bound, &result.data)
	target.hidden = result.data.LogEndOffset > target.end
	return 0
}

// bound is how far the asker reads.
func (op *fetchOp) bound(target *fetchTarget) storage.Bound {
	switch {
	case op.fromReplica():
		return target.part.ReplicaBound()
	case op.readCommitted:
		return storage.ToLastStable
	}
	return storage.ToHighWatermark
}

// end is the offset of the bound.
func end(b storage.Bound, f *storage.Fetched) int64 {
	switch b {
	case storage.ToLogEnd:
		return f.LogEndOffset
	case storage.ToSynced:
		return f.SyncedEnd
	case storage.ToLastStable:
		return f.LastStableOffset
	}
	return f.HighWatermark
}

// outside judges a read that the log refused. Between what may be read and the end of the
// log there is nothing yet; a follower may not have yet what its leader has.
func (op *fetchOp) outside(target *fetchTarget, result *fetchResult, err error) error {
	log := target.part.Log()
	switch {
	case target.asked.offset < log.LogStartOffset():
		return err
	case target.asked.offset <= log.LogEndOffset():
		return op.look(target, result)
	case !target.leads && target.part.CommittedElsewhere(target.asked.offset):
		return errOffsetNotAvailable
	}
	return err
}

// look fills in the log's numbers without reading, for an asker whose log goes another way:
// how far it goes does not matter.
func (op *fetchOp) look(target *fetchTarget, result *fetchResult) error {
	o := target.part.Log().Offsets()
	result.data.Release()
	result.data.HighWatermark, result.data.LastStableOffset, result.data.LogStartOffset = o.HighWatermark, o.LastStable, o.LogStart
	result.data.LogEndOffset, result.data.SyncedEnd = o.LogEnd, o.SyncedEnd
	if target.asked.offset < o.LogStart {
		return storage.ErrOffsetOutOfRange
	}
	return nil
}

// diverged compares the epoch of the asker's last record with the log (KIP-595). It reports
// false if the log cannot tell where that epoch ended. A follower's end says nothing: what a
// consumer has beyond it may be what the leader has.
func (op *fetchOp) diverged(target *fetchTarget, result *fetchResult) (known bool) {
	if target.asked.lastFetchedEpoch < 0 {
		return true
	}
	log, logEnd := target.part.Log(), int64(math.MaxInt64)
	if !target.leads {
		logEnd = log.LogEndOffset()
	}
	epoch, end := log.EndOffsetForEpoch(target.asked.lastFetchedEpoch)
	switch {
	case epoch < 0 || end < 0:
		return false
	case end >= logEnd:
		return true
	}
	if epoch < target.asked.lastFetchedEpoch || end < target.asked.offset {
		result.diverges, result.divergeEpoch, result.divergeOffset = true, epoch, end
	}
	return true
}

func (op *fetchOp) fail(target *fetchTarget, result *fetchResult, code int16) {
	result.data.Release()
	result.code = code
	result.hw, result.lso, result.logStart = -1, -1, -1
	if op.version < 16 || !wantsHint(code) {
		return
	}
	k := replica.Key{Topic: target.asked.id, Partition: result.index}
	result.leader, result.leaderEpoch, result.tellLeader = op.hints.hint(op.image, k, op.listener)
}

// choose puts the results into the reply: all, or in a session those that say something
// new.
func (op *fetchOp) choose() {
	got := 0
	for i := range op.targets {
		result := &op.results[i]
		memo := op.targets[i].memo
		changed := memo == nil || memo.changed(result)
		if op.full || changed {
			op.out.results = append(op.out.results, result)
		}
		if result.data.Size > 0 {
			got++
		}
	}
	if op.session != nil && !op.full && got > 0 && got < len(op.targets) {
		next := 0
		op.session.rotate(func(*sessionPart) bool {
			next++
			return op.results[next-1].data.Size > 0
		})
	}
}

// changed tells whether a session's client has to be told, and remembers what it is told. Of an
// error, and of where its log parts from this one, it takes nothing else: it has to hear the high
// watermark again, though that stands still.
func (p *sessionPart) changed(r *fetchResult) bool {
	changed := r.data.Size > 0 || r.hw != p.hw || r.logStart != p.logStart || r.diverges || r.code != 0 || r.elsewhere
	p.hw, p.logStart = r.hw, r.logStart
	if r.code != 0 || r.diverges {
		p.hw = -1
	}
	return changed
}

func (op *fetchOp) send(reply *conn.Reply) {
	if op.version >= 16 {
		op.out.endpoints = op.hints.endpoints
	}
	buf, parts := op.out.encode(reply.Buffer(), reply.Parts())
	reply.Keep(buf)
	reply.Send(parts)
	op.recycle()
}

// recycle drops the references and keeps the memory.
func (op *fetchOp) recycle() {
	clear(op.parts)
	clear(op.forgotten)
	clear(op.targets)
	clear(op.watch)
	clear(op.out.results)
	for i := range op.results {
		op.results[i].reset()
	}
	op.rack = nil
	if cap(op.rackKept) > keepParts {
		op.rackKept = nil
	}
	op.image, op.hints.endpoints, op.out.endpoints = nil, op.hints.endpoints[:0], nil
	if cap(op.parts) <= keepParts {
		op.s.fetches.put(op)
	}
}
