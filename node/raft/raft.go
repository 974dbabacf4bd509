package raft

import (
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"seedlog/clock"
)

// Core is the state machine of one node.
type Core struct {
	cfg   Config
	role  Role // never Observer: that is a Follower that is no voter
	state ElectionState
	// stopping: the node shuts down and stands no more; failed: its log takes no more.
	stopping, failed bool

	// sets and levels are the voter sets and levels of kraft.version that the log names,
	// oldest first. There is at least one of each.
	sets   []VoterSet
	levels []Level

	// leaderEndpoints are where the leader listens, while one is known.
	leaderEndpoints []Endpoint
	highWatermark   int64
	// seq is the last Send's.
	seq uint64

	// roleAt is when the role has lasted long enough: a follower's leader is lost, an election
	// has to begin, or to end.
	roleAt clock.Instant
	// backingOff: the candidate was not elected, and waits until roleAt to try again.
	backingOff bool
	// elections are those in a row that this node did not win.
	elections         int
	granted, rejected []ReplicaKey
	// preferred are whom a resigned leader prefers.
	preferred []ReplicaKey

	asks   []ask
	fetch  fetching
	update updating
	lead   *leading // of a leader, else nil
}

// step is what a step has: its time, its random bits, its effects.
type step struct {
	now clock.Instant
	rnd *rand.Rand
	out Effects
}

// New returns the core of a node. Nothing happens before Start.
func New(cfg Config) (*Core, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	c := &Core{cfg: cfg, state: cfg.State, highWatermark: cfg.HighWatermark, roleAt: clock.Never,
		update: updating{due: clock.Never}}
	if len(cfg.Voters) == 0 || cfg.Voters[0].Offset >= 0 {
		c.sets = []VoterSet{{Offset: -1}} // what is left when all that the log names is cut
	}
	c.sets = append(c.sets, cfg.Voters...)
	c.levels = append([]Level{{-1, cfg.KRaftVersion}}, cfg.Levels...)
	// The log may know a later epoch than a quorum-state file that was lost.
	if _, epoch := cfg.Log.End(); epoch > c.state.Epoch {
		c.state = ElectionState{Epoch: epoch, LeaderID: None, Voted: NoReplica()}
	}
	if c.state.LeaderID == cfg.Self.ID {
		c.role = Resigned
	}
	return c, nil
}

// Role is what the node is.
func (c *Core) Role() Role {
	if c.role == Follower && !c.IsVoter() {
		return Observer
	}
	return c.role
}

// Epoch is the present epoch.
func (c *Core) Epoch() int32 { return c.state.Epoch }

// LeaderID is who leads the epoch as far as this node knows, or None.
func (c *Core) LeaderID() int32 {
	switch {
	case c.role == Leader:
		return c.cfg.Self.ID
	case (c.role == Follower || c.role == Prospective) && c.state.LeaderID != c.cfg.Self.ID:
		return c.state.LeaderID
	}
	return None
}

// LeaderEndpoints are where the leader listens, or nil.
func (c *Core) LeaderEndpoints() []Endpoint {
	if c.LeaderID() == None {
		return nil
	}
	return c.leaderEndpoints
}

// HighWatermark is the end of what is known to be committed.
func (c *Core) HighWatermark() int64 { return c.highWatermark }

// Step takes an event and returns what to do, which is valid until the next step. rnd draws
// election timeouts.
func (c *Core) Step(e Event, now clock.Instant, rnd *rand.Rand) Effects {
	s := &step{now: now, rnd: rnd, out: Effects{HighWatermark: -1}}
	c.take(e, s)
	if !c.failed {
		c.expire(s)
		c.pump(s)
		c.pumpFetch(s)
		c.pumpUpdate(s)
	}
	return s.out
}

func (c *Core) take(e Event, s *step) {
	switch e := e.(type) {
	case Start:
		c.start(s)
	case Synced:
		c.synced(e, s)
	case VotersChanged:
		c.votersChanged(e, s)
	case KRaftVersionChanged:
		c.levels = append(c.levels, Level(e))
	case Request:
		c.request(e.ID, e.Body, s)
	case Response:
		c.response(e.Seq, e.Reply, s)
	case NoResponse:
		c.noResponse(e.Seq, s)
	case SnapshotPart:
		c.snapshotPart(e, s)
	case SnapshotInstalled:
		c.installed(e, s)
	case SnapshotFailed:
		c.installFailed(e.ID, s)
	case AppendFailed:
		c.fetch.appending = false
		c.fetchFailed(s)
	case Resign:
		c.shutdown(s)
	case Failed:
		c.fail(s)
	}
}

// start begins the life of the node in the role that is durable.
func (c *Core) start(s *step) {
	switch {
	case c.canStand() && c.IsVoter() && len(c.Voters()) == 1:
		c.standProspective(s) // there is nobody to wait for
	case c.role == Resigned:
		c.roleAt = c.electionTimeout(s)
	case c.state.LeaderID != None && len(c.endpointsOf(c.state.LeaderID)) > 0:
		c.follow(c.state.Epoch, c.state.LeaderID, nil, s)
	default:
		c.becomeUnattached(c.state.Epoch, s)
	}
}

// synced: what the node appended is durable.
func (c *Core) synced(e Synced, s *step) {
	if c.role == Leader {
		c.lead.end = max(c.lead.end, e.End)
		c.advance(s)
		return
	}
	if c.fetch.appending {
		c.fetch.appending = false
		c.commitFetched(s)
	}
}

// request answers a message of another node, or keeps it to be answered later.
func (c *Core) request(id uint64, m Message, s *step) {
	if c.failed {
		c.refuse(id, kerr.KafkaStorageError.Code, s)
		return
	}
	switch m := m.(type) {
	case Vote:
		c.onVote(id, m, s)
	case BeginQuorumEpoch:
		c.onBegin(id, m, s)
	case EndQuorumEpoch:
		c.onEnd(id, m, s)
	case Fetch:
		c.onFetch(id, m, s)
	case FetchSnapshot:
		c.onFetchSnapshot(id, m, s)
	case AddVoter:
		c.onAddVoter(id, m, s)
	case RemoveVoter:
		c.onRemoveVoter(id, m, s)
	case UpdateVoter:
		c.onUpdateVoter(id, m, s)
	case RaiseVersion:
		c.onRaiseVersion(id, m, s)
	case ApiVersions:
		r := c.reply(0)
		r.MinKRaftVersion, r.MaxKRaftVersion = c.cfg.MinKRaftVersion, c.cfg.MaxKRaftVersion
		c.answer(id, r, s)
	}
}

// reply is an answer with what this node knows of the leader.
func (c *Core) reply(code int16) Reply {
	return Reply{Code: code, Epoch: c.state.Epoch, LeaderID: c.LeaderID(), Endpoints: c.LeaderEndpoints(), HighWatermark: -1, LogStart: -1}
}

func (c *Core) answer(id uint64, r Reply, s *step) {
	s.out.Answers = append(s.out.Answers, Answer{id, r})
}

func (c *Core) refuse(id uint64, code int16, s *step) { c.answer(id, c.reply(code), s) }

func (c *Core) note(kind NoteKind, replica ReplicaKey, offset int64, s *step) {
	s.out.Notes = append(s.out.Notes, Note{Kind: kind, Replica: replica, Epoch: c.state.Epoch, Offset: offset})
}

// expire acts on the times that have passed.
func (c *Core) expire(s *step) {
	if c.roleAt <= s.now {
		c.roleExpired(s)
	}
	if c.role == Leader {
		c.expireLeader(s)
	}
}

// roleExpired: the role has lasted long enough.
func (c *Core) roleExpired(s *step) {
	switch {
	case c.role == Leader:
		c.roleAt = clock.Never
	case c.role == Prospective:
		c.lostProspective(s)
	case c.role == Candidate && !c.backingOff:
		c.lostElection(s)
	case c.canStand():
		c.standProspective(s)
	case c.role == Follower:
		c.seek(s)
	default:
		c.roleAt = clock.Never
	}
}

// NextDeadline is when to step Tick next, if nothing else happens before.
func (c *Core) NextDeadline() clock.Instant {
	if c.failed {
		return clock.Never
	}
	next := min(c.roleAt, c.fetchDeadline(), c.update.due)
	for i := range c.asks {
		if !c.asks[i].done {
			next = min(next, c.asks[i].due)
		}
	}
	if c.role == Leader {
		next = min(next, c.leaderDeadline())
	}
	return next
}

// electionTimeout draws when an election should begin, or has taken too long.
func (c *Core) electionTimeout(s *step) clock.Instant {
	d := c.cfg.ElectionTimeout
	return s.now.Add(d + time.Duration(s.rnd.Int64N(int64(d))))
}

// persist makes a state durable before anything else that this step says.
func (c *Core) persist(next ElectionState, s *step) {
	if c.state != next {
		c.state = next
		s.out.Persist = &next
	}
}

// fail ends the node's part: its log is of no use.
func (c *Core) fail(s *step) {
	c.stopLeading(kerr.KafkaStorageError.Code, s)
	c.cancelInstall(s)
	c.role, c.failed, c.asks = Resigned, true, nil
}
