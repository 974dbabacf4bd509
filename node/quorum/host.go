package quorum

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/node/event"
	"seedlog/node/meta"
	"seedlog/node/raft"
	"seedlog/storage"
	"seedlog/storage/record"
)

// ClusterMetadata is the topic of the metadata log, which has the one partition 0.
const ClusterMetadata = storage.MetadataTopic

// ClusterMetadataID is the id of that topic, the same in every cluster.
func ClusterMetadataID() meta.UUID { return meta.UUID{15: 1} }

// Errors of a Host.
var (
	// ErrNotLeader: this node does not lead the quorum in that epoch, any more or yet.
	ErrNotLeader = errors.New("not the leader of the metadata quorum")
	// ErrTimeout: the deadline passed first.
	ErrTimeout = errors.New("timed out waiting for the metadata quorum")
	// ErrStopping: the node stops.
	ErrStopping = errors.New("metadata quorum stops")
	// ErrLost: the metadata directory does not have what its snapshots say it must.
	ErrLost = errors.New("metadata log is incomplete")
)

// Env is the world of a Host.
type Env struct {
	RT     task.Runtime
	Disk   disk.Disk
	Rand   *rand.Rand // for election timeouts
	Events event.Sink // may be nil
}

// Config is what a Host has to know.
type Config struct {
	NodeID        int32
	Identity      Identity // of the metadata log directory, from Load or Format
	SnapshotBytes int64    // metadata.log.max.record.bytes.between.snapshots
	// StaticVoters are the ids of controller.quorum.voters, for directories that were
	// formatted without voters of their own (kraft.version 0).
	StaticVoters []int32
}

// Log is what a Host needs of the metadata log: *storage.Log.
type Log interface {
	Append(t *task.T, leaderEpoch int32, batches []byte, origin storage.Origin) (storage.AppendInfo, error)
	SyncTo(t *task.T, offset int64) error
	ReadInto(t *task.T, offset int64, max int32, bound storage.Bound, minOne bool, dst []byte) ([]byte, error)
	LogStartOffset() int64
	LogEndOffset() int64
	LatestEpoch() int32
	EndOffsetForEpoch(epoch int32) (int32, int64)
	SetHighWatermark(hw int64) int64
	TruncateFullyAt(t *task.T, offset int64) error
	DeleteRecords(t *task.T, before int64) (int64, error)
	Roll(t *task.T) error
}

// Listener sees every committed change, in order.
type Listener interface {
	// MetadataChanged is called in the publisher's task, which it may make wait: the quorum
	// goes on meanwhile, later deltas queue. The first call brings all there is (From is
	// the empty image).
	MetadataChanged(t *task.T, d *meta.Delta)
}

// Host is a member of the metadata quorum.
type Host struct {
	env       Env
	cfg       Config
	log       Log
	path      string
	bootstrap []meta.Record
	listeners []Listener

	image     task.Published[meta.Image]
	committed task.Signal // the high watermark, the term or err moved
	published task.Int64  // the offset that every listener has seen
	kraft     task.Int64  // the finalized kraft.version
	shown     task.Signal // published moved
	work      task.Signal // pending grew
	changed   task.Signal // deltas grew
	due       task.Signal // a snapshot is due

	// Of the raft task alone.
	core       *raft.Core
	applied    *meta.Image // all that is committed, or nothing before the first term
	next       int64       // the offset after what applied contains
	lastTime   int64       // timestamp of the last batch applied
	sinceBytes int64       // replayed since the last snapshot
	buf        []byte
	voters     []record.Voter
	snapshotID raft.SnapshotID // the one that the log was loaded from

	mu          task.Mutex // guards what follows
	pending     []appendOp
	pendingNext int64 // the offset that the next Append must have
	term        *Term
	committedTo int64
	err         error
	deltas      []*meta.Delta
	snapshot    *dueSnapshot
	leaderID    int32
	leaderEpoch int32
}

// Term is this node's leadership of the quorum, once everything before it is replayed.
type Term struct {
	Epoch int32
	// Image is everything below NextOffset, which is where the term's records begin.
	Image      *meta.Image
	NextOffset int64
}

// Open reads the newest snapshot below path, the directory of log, and the voters. log is
// the metadata log; it stays the caller's to close.
func Open(t *task.T, env Env, cfg Config, log Log, path string) (*Host, error) {
	if env.Rand == nil {
		env.Rand = rand.New(rand.NewPCG(0, uint64(cfg.NodeID)))
	}
	h := &Host{env: env, cfg: cfg, log: log, path: path, applied: meta.Empty(), leaderID: raft.None}
	h.mu.Init(env.RT, "quorum.Host")
	h.image.Init(env.RT, h.applied)
	h.published.Store(-1)
	for _, s := range []*task.Signal{&h.committed, &h.shown, &h.work, &h.changed, &h.due} {
		s.Init(env.RT, "quorum.Host.signal")
	}
	if err := h.load(t); err != nil {
		return nil, err
	}
	state, err := readElection(t, env.Disk, path)
	if err != nil {
		return nil, err
	}
	h.leaderEpoch = state.Epoch
	h.core, err = raft.New(raft.Config{
		Self:    raft.ReplicaKey{ID: cfg.NodeID, Directory: cfg.Identity.DirectoryID},
		CanVote: true, MaxKRaftVersion: meta.KRaftVersion,
		State: state, Log: raftLog{log, &h.snapshotID},
		Voters: []raft.VoterSet{{Offset: -1, Voters: h.raftVoters()}}, KRaftVersion: h.KRaftVersion(), HighWatermark: h.committedTo,
	})
	return h, err
}

// load reads the newest snapshot and the voters that the log names after it.
func (h *Host) load(t *task.T) error {
	snapshots, err := listSnapshots(t, h.env.Disk, h.path)
	if err != nil {
		return err
	}
	if len(snapshots) > 0 {
		if err := h.loadSnapshot(t, snapshots[len(snapshots)-1]); err != nil {
			return err
		}
	}
	if start := h.log.LogStartOffset(); start > h.next {
		return fmt.Errorf("%w: %s begins at offset %d and the newest snapshot ends at %d", ErrLost, h.path, start, h.next)
	}
	if h.log.LogEndOffset() < h.next {
		// The log lost what the snapshot has: it begins anew where the snapshot ends.
		if err := h.log.TruncateFullyAt(t, h.next); err != nil {
			return err
		}
	}
	if h.bootstrap, err = readBootstrap(t, h.env.Disk, parentOf(h.path)); err != nil {
		return err
	}
	if err := h.scanVoters(t); err != nil {
		return err
	}
	h.committedTo = h.next
	return nil
}

func (h *Host) loadSnapshot(t *task.T, id snapshotID) error {
	path := h.path + "/" + id.name()
	s, err := readSnapshot(t, h.env.Disk, path)
	if err != nil {
		return err
	}
	image, _, err := h.applied.Apply(s.Records, id.end-1, id.epoch)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if image.InTransaction() {
		return fmt.Errorf("%s: %w: it ends within a metadata transaction", path, ErrSnapshot)
	}
	h.applied, h.next, h.lastTime = image, id.end, s.LastContainedLogTimestamp
	h.snapshotID = raft.SnapshotID{EndOffset: id.end, Epoch: id.epoch}
	h.kraft.Store(int64(s.KRaftVersion))
	h.voters = s.Voters
	return nil
}

// scanVoters reads the log above the snapshot for voters: they count from the moment that
// they are in the log, committed or not (KIP-853).
func (h *Host) scanVoters(t *task.T) error {
	return h.readLog(t, h.next, h.log.LogEndOffset(), storage.ToLogEnd, func(head *record.Header, batch []byte) error {
		if !head.IsControl() {
			return nil
		}
		return eachControl(batch, h.noteControl)
	})
}

func (h *Host) noteControl(v record.ControlValue) error {
	switch v := v.(type) {
	case record.KRaftVersionValue:
		if v.KRaftVersion > meta.KRaftVersion {
			return fmt.Errorf("kraft.version is finalized at %d; this version serves up to %d", v.KRaftVersion, meta.KRaftVersion)
		}
		h.kraft.Store(int64(v.KRaftVersion))
	case record.VotersValue:
		h.voters = v.Voters
	}
	return nil
}

// readMax is how much of the log is read at once.
const readMax = 1 << 20

// readLog visits the batches in [from, to).
func (h *Host) readLog(t *task.T, from, to int64, bound storage.Bound, visit func(*record.Header, []byte) error) error {
	for from < to {
		b, err := h.log.ReadInto(t, from, readMax, bound, true, h.buf)
		if err != nil {
			return err
		}
		h.buf = b
		it := record.NewBatches(b)
		progress := false
		for from < to && it.Next() {
			if err := record.CheckCRC(it.Bytes()); err != nil {
				return fmt.Errorf("%s: %w", h.path, err)
			}
			if err := visit(it.Header(), it.Bytes()); err != nil {
				return fmt.Errorf("%s: batch at offset %d: %w", h.path, it.Header().BaseOffset, err)
			}
			from, progress = it.Header().NextOffset(), true
		}
		if it.Err() != nil {
			return fmt.Errorf("%s: %w", h.path, it.Err())
		}
		if !progress {
			return fmt.Errorf("%w: %s has nothing at offset %d, and should up to %d", ErrLost, h.path, from, to)
		}
	}
	return nil
}

// raftVoters are the voters of the log, or else the configured ones.
func (h *Host) raftVoters() []raft.Voter {
	var out []raft.Voter
	for _, v := range h.voters {
		r := raft.Voter{Key: raft.ReplicaKey{ID: v.ID, Directory: v.DirectoryID}, MinKRaftVersion: v.MinKRaftVersion, MaxKRaftVersion: v.MaxKRaftVersion}
		for _, e := range v.Endpoints {
			r.Endpoints = append(r.Endpoints, raft.Endpoint{Name: e.Name, Host: e.Host, Port: e.Port})
		}
		out = append(out, r)
	}
	if len(out) == 0 {
		for _, id := range h.cfg.StaticVoters {
			out = append(out, raft.Voter{Key: raft.ReplicaKey{ID: id}})
		}
	}
	return out
}

// Subscribe adds a listener; before Run.
func (h *Host) Subscribe(l Listener) { h.listeners = append(h.listeners, l) }

// Image is the newest committed image; empty before the log was read. It is never nil.
func (h *Host) Image() *meta.Image { return h.image.Load() }

// ClusterID is the cluster's id.
func (h *Host) ClusterID() string { return h.cfg.Identity.ClusterID }

// KRaftVersion is the finalized level of kraft.version, which is not in the image.
func (h *Host) KRaftVersion() int16 { return int16(h.kraft.Load()) }

// Bootstrap are the records that an empty log begins with.
func (h *Host) Bootstrap() []meta.Record { return h.bootstrap }

// Leader is the quorum's leader (-1 if none is known) and the epoch.
func (h *Host) Leader() (id, epoch int32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.leaderID, h.leaderEpoch
}

// HighWatermark is the end of what is committed.
func (h *Host) HighWatermark() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.committedTo
}

// Err is what ended the host, or nil.
func (h *Host) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// AwaitTerm waits until this node leads in an epoch after past and has replayed everything
// before its term.
func (h *Host) AwaitTerm(t *task.T, past int32) (Term, error) {
	for {
		seen := h.committed.Generation()
		h.mu.Lock()
		term, err := h.term, h.err
		h.mu.Unlock()
		if err != nil {
			return Term{}, err
		}
		if term != nil && term.Epoch > past {
			return *term, nil
		}
		if h.committed.Wait(t, seen, clock.Never) == task.Stopping {
			return Term{}, ErrStopping
		}
	}
}

// WaitCommitted waits until offset is committed in the term of epoch. After ErrNotLeader,
// ErrTimeout and ErrStopping it is unknown whether it ever will be.
func (h *Host) WaitCommitted(t *task.T, epoch int32, offset int64, until clock.Instant) error {
	for {
		seen := h.committed.Generation()
		h.mu.Lock()
		leads, done, err := h.term != nil && h.term.Epoch == epoch, h.committedTo > offset, h.err
		h.mu.Unlock()
		switch {
		case err != nil:
			return err
		case !leads:
			return ErrNotLeader
		case done:
			return nil
		}
		switch h.committed.Wait(t, seen, until) {
		case task.TimedOut:
			return ErrTimeout
		case task.Stopping:
			return ErrStopping
		}
	}
}

// WaitPublished waits until every listener has seen the image at offset, or one after.
func (h *Host) WaitPublished(t *task.T, offset int64, until clock.Instant) task.Reason {
	for {
		seen := h.shown.Generation()
		if h.published.Load() >= offset {
			return task.Woken
		}
		if r := h.shown.Wait(t, seen, until); r != task.Woken {
			return r
		}
	}
}
