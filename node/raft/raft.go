package raft

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"seedlog/clock"
)

// Core is the state machine of one node.
type Core struct {
	cfg    Config
	voters []Voter
	role   Role
	state  ElectionState
	// granted are the voters that voted for this candidate.
	granted []ReplicaKey
	// epochStart is the offset of the leader's first record, its LeaderChange.
	epochStart int64
	// ends are the voters' durable log ends, as this leader knows them.
	ends          map[ReplicaKey]int64
	highWatermark int64
}

// New returns the core of a node.
func New(cfg Config) (*Core, error) {
	cfg = cfg.WithDefaults()
	if len(cfg.Voters) == 0 {
		cfg.Voters = []VoterSet{{Offset: -1}}
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	c := &Core{cfg: cfg, voters: cfg.Voters[len(cfg.Voters)-1].Voters, state: cfg.State, ends: make(map[ReplicaKey]int64)}
	if err := checkVoters(cfg.Self, c.voters); err != nil {
		return nil, err
	}
	end, epoch := cfg.Log.End()
	c.epochStart = end
	// The log may know a later epoch than a quorum-state file that was lost.
	if epoch > c.state.Epoch {
		c.state = ElectionState{Epoch: epoch, LeaderID: None, Voted: NoReplica()}
	}
	if c.state.LeaderID == cfg.Self.ID {
		c.role = Resigned
	}
	return c, nil
}

// checkVoters refuses the voter sets that this version does not serve.
func checkVoters(self ReplicaKey, voters []Voter) error {
	if !slices.ContainsFunc(voters, func(v Voter) bool { return v.Key.Matches(self) }) {
		return fmt.Errorf("%w: node %d with this metadata directory is not one of the voters %v", ErrConfig, self.ID, ids(voters))
	}
	if len(voters) != 1 {
		return fmt.Errorf("%w: voters %v; this version serves a quorum of one", ErrConfig, ids(voters))
	}
	return nil
}

// Role is what the node is.
func (c *Core) Role() Role { return c.role }

// Epoch is the present epoch.
func (c *Core) Epoch() int32 { return c.state.Epoch }

// LeaderID is who leads the epoch, or None.
func (c *Core) LeaderID() int32 { return c.state.LeaderID }

// HighWatermark is the end of what is committed; 0 before this node knows any.
func (c *Core) HighWatermark() int64 { return c.highWatermark }

// Voters are the voters in force: the last that the log names.
func (c *Core) Voters() []Voter { return c.voters }

// NextDeadline is when to step Tick next.
func (c *Core) NextDeadline() clock.Instant { return clock.Never }

// Step takes an event and returns what to do, which is valid until the next step. rnd draws
// election timeouts.
func (c *Core) Step(e Event, now clock.Instant, rnd *rand.Rand) Effects {
	out := Effects{HighWatermark: -1}
	switch e := e.(type) {
	case Start:
		c.stand(&out)
	case Synced:
		c.synced(e.End, &out)
	case VotersChanged:
		c.votersChanged(e.Voters, &out)
	case Failed:
		c.resign(&out)
	}
	return out
}

// stand makes the node the leader of the next epoch, by its own vote.
func (c *Core) stand(out *Effects) {
	c.role = Leader
	c.granted = []ReplicaKey{c.cfg.Self}
	c.state = ElectionState{Epoch: c.state.Epoch + 1, LeaderID: c.cfg.Self.ID, Voted: NoReplica()}
	s := c.state
	out.Persist = &s
	clear(c.ends)
	var keys []ReplicaKey
	for _, v := range c.voters {
		keys = append(keys, v.Key)
	}
	out.Follow = &Follow{Epoch: c.state.Epoch, LeaderID: c.cfg.Self.ID}
	out.Begin = &Begin{Epoch: c.state.Epoch, Voters: keys, Granting: slices.Clone(c.granted)}
}

// synced notes the leader's own durable end.
func (c *Core) synced(end int64, out *Effects) {
	if c.role != Leader {
		return
	}
	c.ends[c.cfg.Self] = max(c.ends[c.cfg.Self], end)
	ends := make([]int64, 0, len(c.voters))
	for _, v := range c.voters {
		e := c.ends[v.Key]
		if v.Key.Matches(c.cfg.Self) {
			e = c.ends[c.cfg.Self]
		}
		ends = append(ends, e)
	}
	if hw := majorityEnd(ends); hw > c.epochStart && hw > c.highWatermark {
		c.highWatermark = hw
		out.HighWatermark = hw
	}
}

// majorityEnd is the largest end that a majority of the voters has reached.
func majorityEnd(ends []int64) int64 {
	if len(ends) == 0 {
		return 0
	}
	slices.Sort(ends)
	return ends[(len(ends)-1)/2]
}

func (c *Core) votersChanged(voters []Voter, out *Effects) {
	c.voters = slices.Clone(voters)
	if checkVoters(c.cfg.Self, voters) != nil {
		c.resign(out)
	}
}

func (c *Core) resign(out *Effects) {
	if c.role == Leader {
		out.Resigned = true
		c.role = Resigned
	}
}
