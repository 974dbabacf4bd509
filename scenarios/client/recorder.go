package client

import (
	"fmt"
	"slices"
	"sync"

	"seedlog/checker"
	"seedlog/checker/history"
	"seedlog/checker/linear"
	"seedlog/checker/store"
)

// Recorder writes down what all clients of a run did. It may be used from many tasks; in the
// simulator its lock is never contended.
type Recorder struct {
	mu      sync.Mutex
	stamp   history.Stamp
	h       history.History
	index   map[history.Partition]int
	topics  []linear.TopicOp
	offsets []linear.OffsetOp
	verdict checker.Verdict
	ops     int
	owners  map[string]string // who owns what in a generation
	joined  map[string]int32  // the newest generation of each group that a member was told of
	given   map[int64]int     // who was given a producer id
	notes   map[int]string    // what each client was told last
	// epochs are the answers to OffsetForLeaderEpoch, by partition, since so many power losses.
	epochs       map[int][]store.EpochEnd
	epochsLosses int
	// excusable are reports of what only a lawful loss of the same log may excuse.
	excusable []excusable
	// powerLosses counts so far; a client may not blame a broker for forgetting after one.
	powerLosses int
	// boots of the brokers so far, and the loads of producers, in the order in which they began.
	boots int
	loads []load
	// Unwatched says that nobody tells of loads, only of starts: after one of any broker each may
	// have loaded each log, for a new leader has others cut theirs. Set at the start.
	Unwatched bool
	// OffsetsSynced says that committed offsets and generations are acknowledged only when
	// they are synced (log.flush.interval.messages=1): a power loss takes none. Set at the start.
	OffsetsSynced bool
	// OnTold, if it is set, hears what clients are told is committed, and says who told it. It may
	// ask the recorder.
	OnTold func(Told) Teller
	// OnPoll, if it is set, hears every answered poll, before OnTold does.
	OnPoll func(p history.Poll)
	// Holds, if it is set, looks into the log of the broker at an address for a record.
	Holds func(log int, digest uint64, addr string) history.Held
	// Leads, if it is set, reports whether the broker at an address began the newest leader epoch of
	// a log.
	Leads func(log int, addr string) bool
	// LedIn, if it is set, is the newest leader epoch of a log that the broker at an address had begun
	// before a stamp, -1 for none.
	LedIn func(log int, addr string, asked history.Stamp) int32
}

// Teller is what is known of a broker that answers.
type Teller uint8

const (
	// Leading: it leads the partition, as far as is known.
	Leading Teller = iota
	// Following: another broker leads in the epoch of the answer, or none yet.
	Following
	// Stranded: it has not led since a lawful loss, and tells of more than that left.
	Stranded
)

// Told is that a client was told that everything of a log below an offset is committed.
type Told struct {
	Log   int
	Below int64
	Asked history.Stamp // when the client asked
	Epoch int32         // that in which the broker answered, -1 if it was not said
	By    string        // the address of the broker that answered
}

// NewRecorder returns an empty recorder.
func NewRecorder() *Recorder { return &Recorder{index: make(map[history.Partition]int)} }

// Stamp moves the event number on and returns it.
func (r *Recorder) Stamp() history.Stamp {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stamp++
	return r.stamp
}

// Partition is the number of a log, new or known.
func (r *Recorder) Partition(p history.Partition) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, ok := r.index[p]
	if !ok {
		i = len(r.h.Partitions)
		r.index[p] = i
		r.h.Partitions = append(r.h.Partitions, p)
		r.h.Logs = append(r.h.Logs, history.Log{})
		r.h.Deleted = append(r.h.Deleted, false)
		r.h.StartsKept = append(r.h.StartsKept, false)
		r.h.Replicated = append(r.h.Replicated, false)
		r.h.Epochs = append(r.h.Epochs, nil)
		r.h.Anew = append(r.h.Anew, nil)
	}
	return i
}

// Send adds a send as it is invoked and returns its number, for Settle.
func (r *Recorder) Send(s history.Send) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Sends = append(r.h.Sends, s)
	r.ops++
	return len(r.h.Sends) - 1
}

// Settle notes the outcome of a send, and the address of the broker that answered.
func (r *Recorder) Settle(i int, o history.Outcome, offset int64, synced bool, by string) {
	if s := r.settle(i, o, offset, synced, by); o == history.OK && offset >= 0 && !s.Alone && r.OnTold != nil {
		r.OnTold(Told{Log: s.Partition, Below: offset + 1, Asked: s.Invoke, Epoch: -1, By: by})
	}
}

func (r *Recorder) settle(i int, o history.Outcome, offset int64, synced bool, by string) history.Send {
	epoch := r.ledIn(i, by)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stamp++
	s := &r.h.Sends[i]
	s.LeaderEpoch = epoch
	s.Outcome, s.Offset, s.Return, s.Synced = o, offset, r.stamp, synced
	// A single copy has committed what it acknowledged, whatever was asked for.
	s.Alone = s.Acks != -1 && r.h.Replicated[s.Partition]
	return *s
}

// ledIn is in which epoch the broker that answered a send led, -1 if that is not known.
func (r *Recorder) ledIn(i int, by string) int32 {
	r.mu.Lock()
	s := r.h.Sends[i]
	r.mu.Unlock()
	if r.LedIn == nil {
		return -1
	}
	return r.LedIn(s.Partition, by, s.Invoke)
}

// Disowned notes that a send was called out of order though all before it was acknowledged, and
// what is known of the broker that did.
func (r *Recorder) Disowned(i int, why history.Send) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stamp++
	s := &r.h.Sends[i]
	s.Disowned, s.Restarted, s.Deposed, s.Bereft, s.Held, s.Return = true, why.Restarted, why.Deposed, why.Bereft, why.Held, r.stamp
}

// leads reports whether the broker at an address is the last that began to lead a log, as far as
// anybody knows.
func (r *Recorder) leads(log int, addr string) bool { return r.Leads == nil || r.Leads(log, addr) }

// held looks whether the broker at an address has what was sent.
func (r *Recorder) held(i int, addr string) history.Held {
	r.mu.Lock()
	s := r.h.Sends[i]
	r.mu.Unlock()
	if r.Holds == nil {
		return history.Unseen
	}
	return r.Holds(s.Partition, s.Digest, addr)
}

// Poll adds an answered poll.
func (r *Recorder) Poll(p history.Poll) {
	if r.OnPoll != nil {
		r.OnPoll(p)
	}
	if r.OnTold != nil {
		teller := r.OnTold(Told{Log: p.Partition, Below: p.HighWatermark, Asked: p.Invoke, Epoch: p.LeaderEpoch, By: p.Node})
		p.Bygone, p.Follower = teller == Stranded, p.Follower || teller == Following
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops++
	r.h.Polls = append(r.h.Polls, p)
}

// Removal adds a DeleteRecords that may have happened and returns its number, for Removed.
func (r *Recorder) Removal(x history.Removal) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Removals = append(r.h.Removals, x)
	r.ops++
	return len(r.h.Removals) - 1
}

// Removed notes that a DeleteRecords was acknowledged.
func (r *Recorder) Removed(i int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Removals[i].Acked = true
}

// Topic adds an operation on a topic's metadata.
func (r *Recorder) Topic(o linear.TopicOp) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.topics = append(r.topics, o)
	r.ops++
}

// Offset adds an operation on a committed offset.
func (r *Recorder) Offset(o linear.OffsetOp) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.offsets = append(r.offsets, o)
	r.ops++
}

// PowerLoss notes that unsynced data may be gone from now on.
func (r *Recorder) PowerLoss() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.powerLosses++
}

// PowerLosses is how many there were.
func (r *Recorder) PowerLosses() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.powerLosses
}

// Losses is how many power losses a log has lived through so far; of several brokers, how
// often something of it was lost lawfully.
func (r *Recorder) Losses(log int) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.h.Cuts {
		if c.Partition == log {
			n++
		}
	}
	return n
}

// load is that of the producers of a log, by the name of its directory, by the broker at an
// address: of what is in the log it remembers their last batches. Without a name it is the start
// of the broker.
type load struct{ by, log string }

// Boot notes that the broker at an address was started.
func (r *Recorder) Boot(by string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.boots++
	r.loads = append(r.loads, load{by: by})
}

// Reload notes that the broker at an address loads the producers of its copy of a log, by the name
// of its directory: it begins with it, or cut it.
func (r *Recorder) Reload(by, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loads = append(r.loads, load{by, name})
}

// Loads is how many loads there were so far, for Loaded.
func (r *Recorder) Loads() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.loads)
}

// Loaded reports whether the broker at an address has loaded the producers of a log since there
// were so many loads. Who begins without a copy of it copies it batch by batch, and knows of each
// producer what the log says.
func (r *Recorder) Loaded(log int, by string, since int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Unwatched && len(r.loads) > since || slices.Contains(r.loads[since:], load{by, PartitionName(r.h.Partitions[log])})
}

// started reports whether the broker at an address was started since there were so many loads.
func (r *Recorder) started(by string, since int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.loads[since:], load{by: by})
}

// Boots is how often the broker was started.
func (r *Recorder) Boots() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.boots
}

// Cut notes that a power loss ended a log at an offset.
func (r *Recorder) Cut(c history.Cut) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Cuts = append(r.h.Cuts, c)
}

// Failf notes something that a client saw and no broker may do.
func (r *Recorder) Failf(invariant, where, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verdict.Failf(invariant, where, format, args...)
}

// Failed reports whether a client saw something that no broker may do.
func (r *Recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.verdict.OK()
}

// Ops is the number of client operations so far.
func (r *Recorder) Ops() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ops
}

// Take returns the history to be resolved and judged, with what clients complained of.
func (r *Recorder) Take() (*history.History, []linear.TopicOp, []linear.OffsetOp, checker.Verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.verdict
	for _, e := range r.excusable {
		if !slices.ContainsFunc(r.h.Cuts, func(c history.Cut) bool { return c.Partition == e.log && c.Offset < e.below }) {
			seen.Merge(e.verdict)
		}
	}
	return &r.h, r.topics, r.offsets, seen
}

// excusable is a report that does not count if something of the log below an offset was
// lost lawfully.
type excusable struct {
	log     int
	below   int64
	verdict checker.Verdict
}

// Unless notes something that no broker may do unless something of the log below an offset was
// lost lawfully. That is known in the end: the client may hear of a loss before who watches the
// disks does.
func (r *Recorder) Unless(log int, below int64, invariant, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := excusable{log: log, below: below}
	e.verdict.Failf(invariant, PartitionName(r.h.Partitions[log]), format, args...)
	r.excusable = append(r.excusable, e)
}

// Log is the number of a partition's log.
func (r *Recorder) Log(topic string, id [16]byte, index int32) int {
	return r.Partition(history.Partition{Topic: topic, ID: id, Index: index})
}

// Replicate notes whether a log has several copies.
func (r *Recorder) Replicate(log int, on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Replicated[log] = on
}

// Name is how the directory of a log is called.
func (r *Recorder) Name(i int) string { return PartitionName(r.h.Partitions[i]) }

// TopicID is the id of the topic that a log is of.
func (r *Recorder) TopicID(i int) [16]byte { return r.h.Partitions[i].ID }

// Index is the number of a log by the name of its directory, or -1.
func (r *Recorder) Index(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, p := range r.h.Partitions {
		if PartitionName(p) == name {
			return i
		}
	}
	return -1
}

// PartitionName is how a partition's directory is called.
func PartitionName(p history.Partition) string { return fmt.Sprintf("%s-%d", p.Topic, p.Index) }

// Note keeps what a client was told last, for a report that says why it still waits.
func (r *Recorder) Note(client int, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.notes == nil {
		r.notes = make(map[int]string)
	}
	r.notes[client] = fmt.Sprintf(format, args...)
}

// producerID is I31 for producer ids: the block that they come from is in the metadata, so
// that none is given twice.
func (r *Recorder) producerID(client int, id int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.given == nil {
		r.given = make(map[int64]int)
	}
	if first, twice := r.given[id]; twice {
		r.verdict.Failf("I31", "producer ids", "producer id %d was given to client %d and to client %d", id, first, client)
	}
	r.given[id] = client
}

// mayLose reports whether a power loss may have taken what the coordinator acknowledged.
func (r *Recorder) mayLose() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.powerLosses > 0 && !r.OffsetsSynced
}

// Notes is what each client was told last.
func (r *Recorder) Notes() map[int]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.notes
}
