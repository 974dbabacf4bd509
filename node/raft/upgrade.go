package raft

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
)

// How static voters become those that the log names (kraft.version 0 to 1, KIP-853): each tells
// every leader its directory, its endpoints and what it supports, which the leader keeps in
// memory, for no record of level 0 has a place for it. When the level is raised, all of it goes
// into the log behind the level, in one batch: no log has the one without the other. A majority
// of the voters before is one of those after, so that both may count at the same time.

// onStaticVoter takes in what a static voter says about itself.
func (c *Core) onStaticVoter(id uint64, m UpdateVoter, s *step) {
	code, text := c.leaderOnly(m.Epoch), ""
	switch {
	case code != 0:
	case m.Voter.Key.Directory == [16]byte{} || len(m.Voter.Endpoints) == 0:
		code, text = kerr.InvalidRequest.Code, "a voter has a directory id and endpoints"
	case c.voter(m.Voter.Key) == nil:
		code, text = kerr.VoterNotFound.Code, fmt.Sprintf("%v is no voter", m.Voter.Key)
	default:
		other := func(v Voter) bool { return v.Key.ID == m.Voter.Key.ID }
		c.lead.said = append(slices.DeleteFunc(c.lead.said, other), m.Voter)
	}
	c.refuseText(id, code, text, s)
}

// onRaiseVersion finalizes a level of kraft.version, and with level 1 the voters.
func (c *Core) onRaiseVersion(id uint64, m RaiseVersion, s *step) {
	ch := c.startChange(id, m.Epoch, VersionRaised, Voter{Key: c.cfg.Self}, 0, s)
	if ch == nil {
		return
	}
	voters, why := c.raised(m.Version)
	switch {
	case why != "":
		c.refuseText(id, kerr.InvalidUpdateVersion.Code, why, s)
	case m.ValidateOnly || m.Version == c.KRaftVersion():
		c.refuse(id, 0, s)
	default:
		ch.early = true
		c.lead.change = ch
		c.appendChange(voters, s)
		s.out.Change.KRaftVersion = m.Version
	}
}

// raised are the voters as a level of kraft.version that is not below the present one needs
// them, or why it cannot be.
func (c *Core) raised(level int16) (voters []Voter, why string) {
	if level < c.KRaftVersion() {
		return nil, fmt.Sprintf("kraft.version cannot be lowered from %d", c.KRaftVersion())
	}
	for _, v := range c.Voters() {
		if v.Key.Directory == [16]byte{} {
			if v, why = c.described(v); why != "" {
				return nil, why
			}
		}
		if level < v.MinKRaftVersion || level > v.MaxKRaftVersion {
			return nil, fmt.Sprintf("voter %d supports kraft.version %d to %d", v.Key.ID, v.MinKRaftVersion, v.MaxKRaftVersion)
		}
		voters = append(voters, v)
	}
	return voters, ""
}

// described is a static voter as it has described itself, or why that is of no use.
func (c *Core) described(v Voter) (out Voter, why string) {
	for _, said := range append([]Voter{c.self()}, c.lead.said...) {
		if v.Key.Matches(said.Key) {
			out = said
			break
		}
	}
	r := c.replica(v.Key)
	switch {
	case out.Key.Directory == [16]byte{}:
		return out, fmt.Sprintf("the directory id of voter %d is not known", v.Key.ID)
	case len(out.Endpoints) == 0:
		return out, fmt.Sprintf("the endpoints of voter %d are not known", v.Key.ID)
	case r != nil && r.directory != out.Key.Directory && r.directory != [16]byte{}:
		return out, fmt.Sprintf("voter %d fetches with another directory id than it told", v.Key.ID)
	}
	return out, ""
}

// knowDirectories keeps what is known of static voters for those of the same directory that
// the log names now. Nothing else may count for them.
func (c *Core) knowDirectories() {
	for i := range c.lead.replicas {
		r := &c.lead.replicas[i]
		named := ReplicaKey{r.key.ID, r.directory}
		if c.voter(r.key) != nil || c.voter(named) == nil {
			continue
		}
		for j, k := range c.lead.fetched {
			if k == r.key {
				c.lead.fetched[j] = named
			}
		}
		r.key = named
	}
	c.lead.replicas = slices.DeleteFunc(c.lead.replicas, func(r replica) bool { return r.key.Directory == [16]byte{} && c.voter(r.key) == nil })
}
