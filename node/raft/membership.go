package raft

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"seedlog/clock"
)

// change is the one change of the voters that is under way (KIP-853).
//
//	AddVoter --> ApiVersions to the joiner --> is it caught up? --> Effects.Change --> VotersChanged --> committed
//	RemoveVoter, UpdateVoter, RaiseVersion ------------------------^
type change struct {
	id    uint64 // of the Request
	kind  NoteKind
	voter Voter
	until clock.Instant // when the requester is told that it took too long
	early bool          // the answer does not wait for the commit
	// seq is of the ApiVersions under way, 0 if none is.
	seq uint64
	// asked: the host appends it; offset is where it is in the log then, else -1.
	asked  bool
	offset int64
	// answered: the requester is gone, but nothing else changes before this is committed.
	answered bool
}

// mayChange is the error of a change that comes now: one at a time, only after a commit in
// the leader's own epoch, only on top of a committed voter set, and from the level of
// kraft.version on that it needs.
func (c *Core) mayChange(level int16) (code int16, text string) {
	switch {
	case c.lead.change != nil:
		return kerr.RequestTimedOut.Code, "another change of the voters is not complete"
	case !c.committedInEpoch():
		return kerr.RequestTimedOut.Code, "the leader has not committed anything in its epoch"
	case c.KRaftVersion() < level:
		return kerr.UnsupportedVersion.Code, fmt.Sprintf("kraft.version is %d: its voters are configured", c.KRaftVersion())
	case c.lastSet().Offset >= c.highWatermark:
		return kerr.RequestTimedOut.Code, fmt.Sprintf("the voters at offset %d are not committed", c.lastSet().Offset)
	}
	return 0, ""
}

// startChange checks what all changes have in common; nil if it answered. A change of the
// voters needs voters that the log names.
func (c *Core) startChange(id uint64, epoch int32, kind NoteKind, v Voter, timeout time.Duration, s *step) *change {
	code, text, level := c.leaderOnly(epoch), "", int16(1)
	if kind == VersionRaised {
		level = 0
	}
	if code == 0 {
		code, text = c.mayChange(level)
	}
	if code != 0 {
		c.refuseText(id, code, text, s)
		return nil
	}
	if timeout <= 0 || timeout > time.Hour {
		timeout = c.cfg.RequestTimeout
	}
	return &change{id: id, kind: kind, voter: v, until: s.now.Add(timeout), offset: -1}
}

func (c *Core) refuseText(id uint64, code int16, text string, s *step) {
	r := c.reply(code)
	r.Text = text
	c.answer(id, r, s)
}

// onAddVoter asks the joiner what it supports; whether it is caught up is decided after.
func (c *Core) onAddVoter(id uint64, m AddVoter, s *step) {
	k := m.Voter.Key
	if k.ID < 0 || k.Directory == [16]byte{} || len(m.Voter.Endpoints) == 0 {
		c.refuseText(id, kerr.InvalidRequest.Code, "a voter has an id, a directory id and endpoints", s)
		return
	}
	ch := c.startChange(id, -1, VoterAdded, m.Voter, m.Timeout, s)
	if ch == nil {
		return
	}
	for _, v := range c.Voters() {
		if v.Key.ID == k.ID {
			c.refuseText(id, kerr.DuplicateVoter.Code, fmt.Sprintf("node %d is a voter", k.ID), s)
			return
		}
	}
	c.seq++
	ch.seq, ch.early = c.seq, m.AckWhenAppended
	c.lead.change = ch
	s.out.Sends = append(s.out.Sends, Send{Seq: ch.seq, To: k, Endpoints: m.Voter.Endpoints, Body: ApiVersions{}})
}

// joinerAnswered: the joiner said what it supports.
func (c *Core) joinerAnswered(r Reply, s *step) {
	ch := c.lead.change
	ch.seq = 0
	level := c.KRaftVersion()
	switch {
	case r.Code != 0:
		c.dropChange(kerr.RequestTimedOut.Code, fmt.Sprintf("node %d answered with error %d", ch.voter.Key.ID, r.Code), s)
	case r.MinKRaftVersion > level || r.MaxKRaftVersion < level:
		c.dropChange(kerr.InvalidRequest.Code, fmt.Sprintf("node %d supports kraft.version %d to %d, and %d is finalized",
			ch.voter.Key.ID, r.MinKRaftVersion, r.MaxKRaftVersion, level), s)
	case !c.caughtUp(ch.voter.Key, s):
		c.dropChange(kerr.RequestTimedOut.Code, fmt.Sprintf("node %d has not caught up with the log", ch.voter.Key.ID), s)
	default:
		ch.voter.MinKRaftVersion, ch.voter.MaxKRaftVersion = r.MinKRaftVersion, r.MaxKRaftVersion
		c.appendChange(c.withVoter(ch.voter), s)
	}
}

func (c *Core) joinerSilent(s *step) {
	c.dropChange(kerr.RequestTimedOut.Code, fmt.Sprintf("node %d does not answer", c.lead.change.voter.Key.ID), s)
}

// caughtUp reports whether a replica had all of the log within the last fetch interval. A
// voter that is far behind would hold up the high watermark.
func (c *Core) caughtUp(k ReplicaKey, s *step) bool {
	r := c.replica(k)
	return r != nil && r.caughtUp != clock.Never && s.now.Sub(r.caughtUp) <= c.cfg.FetchTimeout
}

// onRemoveVoter removes a voter; the leader itself may be the one.
func (c *Core) onRemoveVoter(id uint64, m RemoveVoter, s *step) {
	ch := c.startChange(id, -1, VoterRemoved, Voter{Key: m.Voter}, m.Timeout, s)
	if ch == nil {
		return
	}
	voters := slices.DeleteFunc(slices.Clone(c.Voters()), func(v Voter) bool { return v.Key == m.Voter })
	switch {
	case len(voters) == len(c.Voters()):
		c.refuseText(id, kerr.VoterNotFound.Code, fmt.Sprintf("%v is no voter", m.Voter), s)
	case len(voters) == 0:
		c.refuseText(id, kerr.InvalidRequest.Code, "the last voter cannot be removed", s)
	default:
		c.lead.change = ch
		c.appendChange(voters, s)
	}
}

// onUpdateVoter takes in where a voter listens and what it supports.
func (c *Core) onUpdateVoter(id uint64, m UpdateVoter, s *step) {
	if c.role == Leader && c.KRaftVersion() < 1 {
		c.onStaticVoter(id, m, s)
		return
	}
	ch := c.startChange(id, m.Epoch, VoterUpdated, m.Voter, 0, s)
	if ch == nil {
		return
	}
	level := c.KRaftVersion()
	at := slices.IndexFunc(c.Voters(), func(v Voter) bool { return v.Key == m.Voter.Key })
	switch {
	case len(m.Voter.Endpoints) == 0:
		c.refuseText(id, kerr.InvalidRequest.Code, "a voter has endpoints", s)
	case at < 0:
		c.refuseText(id, kerr.VoterNotFound.Code, fmt.Sprintf("%v is no voter", m.Voter.Key), s)
	case m.Voter.MinKRaftVersion > level || m.Voter.MaxKRaftVersion < level:
		c.refuseText(id, kerr.InvalidRequest.Code, fmt.Sprintf("kraft.version %d is finalized", level), s)
	case c.Voters()[at].equal(m.Voter):
		c.refuse(id, 0, s)
	default:
		c.lead.change = ch
		c.appendChange(c.withVoter(m.Voter), s)
	}
}

// withVoter is the present voter set with v in it, by id.
func (c *Core) withVoter(v Voter) []Voter {
	voters := slices.Clone(c.Voters())
	for i := range voters {
		if voters[i].Key.ID == v.Key.ID {
			voters[i] = v
			return voters
		}
	}
	voters = append(voters, v)
	slices.SortFunc(voters, func(a, b Voter) int { return int(a.Key.ID - b.Key.ID) })
	return voters
}

func (c *Core) appendChange(voters []Voter, s *step) {
	c.lead.change.asked = true
	s.out.Change = &Change{Epoch: c.state.Epoch, Voters: voters, KRaftVersion: -1}
}

// changeAppended: the voters are in the log, and count.
func (c *Core) changeAppended(offset int64, s *step) {
	ch := c.lead.change
	ch.offset = offset
	c.note(ch.kind, ch.voter.Key, offset, s)
	if ch.early {
		c.refuseChange(ch, 0, "", s)
	}
}

// changeCommitted completes the change whose voters are committed.
func (c *Core) changeCommitted(s *step) {
	if ch := c.lead.change; ch != nil && ch.offset >= 0 && ch.offset < c.highWatermark {
		c.dropChange(0, "", s)
	}
}

// expireChange tells the requester that it took too long. A change that is in the log may
// still be committed; the next one waits for that.
func (c *Core) expireChange(s *step) {
	ch := c.lead.change
	if ch == nil || ch.until > s.now {
		return
	}
	if !ch.asked {
		c.dropChange(kerr.RequestTimedOut.Code, "the joiner did not answer in time", s)
		return
	}
	c.refuseChange(ch, kerr.RequestTimedOut.Code, "the change is not committed yet", s)
	ch.until = clock.Never
}

func (c *Core) dropChange(code int16, text string, s *step) {
	c.refuseChange(c.lead.change, code, text, s)
	c.lead.change = nil
}

// abandonChange answers the requester of a leader that leads no longer. A change that is in
// its log may still be committed, by the next leader: that it was not made is not known.
func (c *Core) abandonChange(ch *change, code int16, s *step) {
	if ch.asked {
		c.refuseChange(ch, kerr.RequestTimedOut.Code, "the leadership ended before the change was committed", s)
		return
	}
	c.refuseChange(ch, code, "", s)
}

// refuseChange answers the requester, once.
func (c *Core) refuseChange(ch *change, code int16, text string, s *step) {
	if !ch.answered {
		ch.answered = true
		c.refuseText(ch.id, code, text, s)
	}
}
