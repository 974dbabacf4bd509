package partition

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"seedlog/clock"
)

// Standing is what the metadata says about a broker.
type Standing struct {
	Known        bool // registered
	Fenced       bool
	ShuttingDown bool
	DirLost      bool  // the directory of its replica of this partition failed
	Epoch        int64 // of its registration
}

// Brokers looks the brokers of a partition up in the metadata.
type Brokers interface {
	Standing(id int32) Standing
}

// Member is a broker of a proposed ISR, with the epoch that the leader knows it by (KIP-903);
// -1 is not known.
type Member struct {
	ID          int32
	BrokerEpoch int64
}

// Proposal is an ISR that a leader asks the controller to write. It is fenced by both epochs.
type Proposal struct {
	ISR            []Member
	LeaderEpoch    int32
	PartitionEpoch int32
	// Recovered tells the controller that the leader has recovered from an unclean election.
	Recovered bool
}

func (p *Proposal) names(id int32) bool {
	for i := range p.ISR {
		if p.ISR[i].ID == id {
			return true
		}
	}
	return false
}

// eligible tells whether a broker may be in an ISR: neither fenced nor shutting down
// (KIP-841), its replica not in a directory that failed, and the incarnation that fetches is
// the one that is registered (KIP-903). One that was not registered yet when it asked does not
// count: that may have been an earlier one, which lost what it had then. All followers name
// their epoch: they fetch by version 15 or later.
func (f *follower) eligible(brokers Brokers) bool {
	b := brokers.Standing(f.id)
	return b.Known && !b.Fenced && !b.ShuttingDown && !b.DirLost && f.brokerEpoch == b.Epoch
}

// Joins tells whether a follower is to be proposed for the ISR now.
func (l *Leader) Joins(id int32, brokers Brokers) bool {
	return l.pending == nil && l.CanJoin(id) && l.find(id).eligible(brokers)
}

// Propose is the change that the controller is to be asked for, if there is one and none is
// on its way: who is out of sync leaves, who caught up joins, and a leader that was elected
// uncleanly has recovered. From now on, and until the controller's answer or newer metadata
// settles it, both sets count.
func (l *Leader) Propose(leaderEnd int64, lagMax time.Duration, brokers Brokers, ownEpoch int64, now clock.Instant) (Proposal, bool) {
	if l.pending != nil {
		return Proposal{}, false
	}
	changed := l.reg.Recovering
	p := Proposal{LeaderEpoch: l.reg.LeaderEpoch, PartitionEpoch: l.reg.PartitionEpoch, Recovered: l.reg.Recovering}
	for _, id := range l.reg.ISR {
		f := l.find(id)
		switch {
		case id == l.self:
			p.ISR = append(p.ISR, Member{id, ownEpoch})
		case f == nil:
			// It has no replica any more: the controller's to remove.
		case l.outOfSync(f, leaderEnd, lagMax, now):
			changed = true
		default:
			p.ISR = append(p.ISR, Member{id, f.brokerEpoch})
		}
	}
	for i := range l.followers {
		f := &l.followers[i]
		if l.Joins(f.id, brokers) {
			p.ISR = append(p.ISR, Member{f.id, f.brokerEpoch})
			changed = true
		}
	}
	if !changed {
		return Proposal{}, false
	}
	l.pending = &p
	return p, true
}

// Pending is what is on its way to the controller.
func (l *Leader) Pending() (Proposal, bool) {
	if l.pending == nil {
		return Proposal{}, false
	}
	return *l.pending, true
}

// Verdict is what an answer of the controller means for the proposal.
type Verdict uint8

const (
	// Accepted: the new ISR counts.
	Accepted Verdict = iota
	// Refused: the change was not made and will not be; the old ISR alone counts again.
	Refused
	// Awaiting: somebody else changed the partition; both sets count until the metadata says
	// what it is now.
	Awaiting
	// Unsettled: whether the change was made is not known; the same is to be proposed again.
	Unsettled
)

func (v Verdict) String() string {
	return [...]string{"accepted", "refused", "awaiting", "unsettled"}[v]
}

// Answered takes the controller's answer to the proposal: an error code, or the state that
// the partition is in now. An answer to anything but what is pending settles nothing.
func (l *Leader) Answered(to Proposal, code int16, now Registration, at clock.Instant) Verdict {
	if l.pending == nil || l.pending.LeaderEpoch != to.LeaderEpoch || l.pending.PartitionEpoch != to.PartitionEpoch {
		return Awaiting
	}
	switch code {
	case 0:
		// Replicas change by the metadata alone.
		now.Replicas = l.reg.Replicas
		if now.Leader != l.self || !l.Update(now, at) && !l.unchanged(now) {
			return Awaiting
		}
		return Accepted
	case kerr.IneligibleReplica.Code, kerr.OperationNotAttempted.Code:
		// The controller knew this partition epoch and did not make the change.
		l.pending = nil
		return Refused
	case kerr.InvalidUpdateVersion.Code, kerr.FencedLeaderEpoch.Code, kerr.InvalidRequest.Code, kerr.NewLeaderElected.Code,
		kerr.UnknownTopicOrPartition.Code, kerr.UnknownTopicID.Code:
		return Awaiting
	}
	return Unsettled
}

// unchanged settles a proposal that the controller found to be the state already.
func (l *Leader) unchanged(now Registration) bool {
	same := now.LeaderEpoch == l.reg.LeaderEpoch && now.PartitionEpoch == l.reg.PartitionEpoch && slices.Equal(now.ISR, l.reg.ISR)
	if same {
		l.reg.Recovering = now.Recovering
		l.pending = nil
	}
	return same
}
