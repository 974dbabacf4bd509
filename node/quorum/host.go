package quorum

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/net"
	"seedlog/node/event"
	"seedlog/node/meta"
	"seedlog/node/raft"
	"seedlog/storage"
	"seedlog/storage/epoch"
)

// ClusterMetadata is the topic of the metadata log, which has the one partition 0.
const ClusterMetadata = storage.MetadataTopic

// ClusterMetadataID is the id of that topic, the same in every cluster.
func ClusterMetadataID() meta.UUID { return meta.UUID{15: 1} }

// Errors of a Host.
var (
	// ErrNotLeader: this node does not lead the quorum in that epoch, any more or yet.
	ErrNotLeader = errors.New("not the leader of the metadata quorum")
	// ErrMoved: the voters were written into the log since the caller looked where it ends;
	// see Host.NextOffset.
	ErrMoved = errors.New("metadata log moved on")
	// ErrTimeout: the deadline passed first.
	ErrTimeout = errors.New("timed out waiting for the metadata quorum")
	// ErrStopping: the node stops.
	ErrStopping = errors.New("metadata quorum stops")
	// ErrLost: the metadata directory does not have what its snapshots say it must.
	ErrLost = errors.New("metadata log is incomplete")
)

// Env is the world of a Host.
type Env struct {
	RT   task.Runtime
	Disk disk.Disk
	// Net reaches the other members; nil is enough for a node that has none.
	Net    net.Network
	Rand   *rand.Rand // for election timeouts
	Events event.Sink // may be nil
	// LeaderMoved, if set, is called when Leader has changed. It must not wait.
	LeaderMoved func()
}

// Config is what a Host has to know.
type Config struct {
	NodeID        int32
	Identity      Identity // of the metadata log directory, from Load or Format
	SnapshotBytes int64    // metadata.log.max.record.bytes.between.snapshots
	// ReplayMaxBytes is how much of the log is replayed before others are heard again; 0 is
	// 1 MiB.
	ReplayMaxBytes int32
	// Observer: the node is no controller. It replicates the log and never votes.
	Observer bool
	// StaticVoters are those of controller.quorum.voters, for directories that were formatted
	// without voters of their own (kraft.version 0). Their directories are unknown.
	StaticVoters []raft.Voter
	// Bootstrap are controller.quorum.bootstrap.servers, "host:port": where a node that knows
	// no leader asks for it. Without any, the voters are asked.
	Bootstrap []string
	// Features are the levels that this node serves; none is all that the build serves. What
	// is finalized beyond them ends the host.
	Features meta.Levels
	// Listener is the name of the listener through which the members reach each other: the
	// first of controller.listener.names.
	Listener string
	// Endpoints are this node's controller listeners, as the others are to reach them.
	Endpoints []raft.Endpoint
	// Guessed: nobody wrote the host of Endpoints. Where the voters have this node at the same port,
	// that counts.
	Guessed bool

	// Kafka's defaults where zero: controller.quorum.{election.timeout, election.backoff.max,
	// fetch.timeout, request.timeout, retry.backoff}.ms.
	ElectionTimeout, ElectionBackoffMax, FetchTimeout, RequestTimeout, RetryBackoff time.Duration
}

// Log is what a Host needs of the metadata log: *storage.Log.
type Log interface {
	Append(t *task.T, leaderEpoch int32, batches []byte, origin storage.Origin) (storage.AppendInfo, error)
	AppendFollower(t *task.T, batches []byte) (storage.AppendInfo, error)
	SyncTo(t *task.T, offset int64) error
	ReadInto(t *task.T, offset int64, max int32, bound storage.Bound, minOne bool, dst []byte) ([]byte, error)
	LogStartOffset() int64
	LogEndOffset() int64
	LatestEpoch() int32
	EpochAt(offset int64) int32
	Epochs() []epoch.Entry
	SetHighWatermark(hw int64) int64
	TruncateTo(t *task.T, offset int64) error
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

// Host is a member of the metadata quorum, or an observer of it.
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
	kraft     task.Int64  // the kraft.version that image goes with
	shown     task.Signal // published moved
	work      task.Signal // inbox or pending grew
	room      task.Signal // inbox shrank
	changed   task.Signal // deltas grew
	due       task.Signal // a snapshot is due
	install   task.Signal // wanted changed

	// Of the raft task alone.
	core     *raft.Core
	self     raft.ReplicaKey
	todo     []raft.Event // follow-up events of the effects carried out
	fetched  []byte       // the records of the Response being stepped
	calls    map[uint64]*call
	lastCall uint64
	begun    *raft.Begin // this node leads since then
	begunAt  int64       // offset of its LeaderChange record
	buf      []byte
	replayed replay
	gone     deletions

	mu          task.Mutex // guards what follows
	inbox       []inbound
	pending     []appendOp
	pendingNext int64 // the offset that the next Append must have
	term        *Term
	committedTo int64
	err         error
	over        bool // Run has returned: nobody answers any more
	misfit      misfit
	deltas      []*meta.Delta // those that some listener has not seen
	snapshot    *dueSnapshot
	stored      []snapshotID // what there is, oldest first
	leader      raft.Follow
	leading     bool // leader is this node, and not another one with its id
	senders     map[raft.ReplicaKey]*line
	fetcher     *line
	wanted      *raft.Install
	known       []raft.Voter // those that the end of the log names
	asked       int          // which bootstrap server was asked last
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
	if cfg.Features == nil {
		cfg.Features = meta.SupportedFeatures()
	}
	h := &Host{
		env: env, cfg: cfg, log: log, path: path, calls: map[uint64]*call{}, senders: map[raft.ReplicaKey]*line{},
		self: raft.ReplicaKey{ID: cfg.NodeID, Directory: cfg.Identity.DirectoryID}, leader: raft.Follow{LeaderID: raft.None},
	}
	h.replayed.image = meta.Empty()
	h.mu.Init(env.RT, "quorum.Host")
	h.image.Init(env.RT, h.replayed.image)
	h.published.Store(-1)
	for _, s := range []*task.Signal{&h.committed, &h.shown, &h.work, &h.room, &h.changed, &h.due, &h.install} {
		s.Init(env.RT, "quorum.Host.signal")
	}
	// A process that was killed between a rename and its sync left files that only the page
	// cache knows by their names: a vote, a snapshot. What is read is relied on from now on, so
	// no power loss may take it back.
	if err := env.Disk.SyncDir(t, path); err != nil {
		return nil, fmt.Errorf("syncing the names in %s: %w", path, err)
	}
	names, err := h.load(t)
	if err != nil {
		return nil, err
	}
	state, err := readElection(t, env.Disk, path)
	if err != nil {
		return nil, err
	}
	h.core, err = raft.New(h.coreConfig(state, names))
	if err != nil {
		return nil, err
	}
	h.leader = raft.Follow{Epoch: h.core.Epoch(), LeaderID: raft.None}
	return h, nil
}

func (h *Host) coreConfig(state raft.ElectionState, names named) raft.Config {
	endpoints, voters := h.cfg.Endpoints, names.sets
	if (len(endpoints) == 0 || h.cfg.Guessed) && len(voters) > 0 {
		// A node that does not say where it is, or that nobody has to reach, is where it was formatted
		// to be.
		there := func(a, b raft.Endpoint) bool { return a.Name == b.Name && a.Port == b.Port }
		for _, v := range voters[len(voters)-1].Voters {
			if v.Key == h.self && (len(endpoints) == 0 || slices.EqualFunc(v.Endpoints, endpoints, there)) {
				endpoints = v.Endpoints
			}
		}
	}
	if h.cfg.Guessed {
		h.cfg.Endpoints = endpoints
	}
	cfg := raft.Config{
		Self: h.self, Endpoints: endpoints, CanVote: !h.cfg.Observer, MaxKRaftVersion: h.cfg.Features.Newest(meta.KRaftVersionFeature),
		State: state, Log: raftLog{h}, Voters: voters, Levels: names.levels, HighWatermark: h.replayed.next,
		ElectionTimeout: h.cfg.ElectionTimeout, ElectionBackoffMax: h.cfg.ElectionBackoffMax,
		FetchTimeout: h.cfg.FetchTimeout, RequestTimeout: h.cfg.RequestTimeout, RetryBackoff: h.cfg.RetryBackoff,
	}
	h.cfg.RequestTimeout, h.cfg.FetchTimeout = cfg.WithDefaults().RequestTimeout, cfg.WithDefaults().FetchTimeout
	return cfg
}

// Endpoints are this node's controller listeners, as others are told of them.
func (h *Host) Endpoints() []raft.Endpoint { return h.cfg.Endpoints }

// Subscribe adds a listener; before Run.
func (h *Host) Subscribe(l Listener) { h.listeners = append(h.listeners, l) }

// Image is the newest committed image; empty before the log was read. It is never nil.
func (h *Host) Image() *meta.Image { return h.image.Load() }

// ClusterID is the cluster's id.
func (h *Host) ClusterID() string { return h.cfg.Identity.ClusterID }

// KRaftVersion is the finalized level of kraft.version that goes with Image and is not in it.
func (h *Host) KRaftVersion() int16 { return int16(h.kraft.Load()) }

// Bootstrap are the records that an empty log begins with.
func (h *Host) Bootstrap() []meta.Record { return h.bootstrap }

// Leader is the quorum's leader (-1 if none is known) and the epoch.
func (h *Host) Leader() (id, epoch int32) {
	f := h.following()
	return f.LeaderID, f.Epoch
}

// LeaderAddr is Leader and where its controller listens, "host:port", or "".
func (h *Host) LeaderAddr() (id, epoch int32, addr string) {
	f := h.following()
	return f.LeaderID, f.Epoch, h.address(f.Endpoints)
}

// Leads reports whether Leader is this node: another one may have its id by mistake.
func (h *Host) Leads() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.leading
}

func (h *Host) following() raft.Follow {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.leader
}

// HighWatermark is the end of what is committed and replayed.
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
