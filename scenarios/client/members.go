package client

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
)

// Candidate is a node that may be a voter of the metadata quorum.
type Candidate struct {
	ID   int32
	Host string
	Port uint16
	// Directory is the id of its metadata directory, if it has one now: an operator looks at the
	// machine. The quorum alone does not tell which of two replicas of a node is the one that is gone.
	Directory func() (id [16]byte, ok bool)
}

// quorumMember is a replica of the metadata log, as the quorum's leader describes it.
type quorumMember struct {
	id  int32
	dir [16]byte
}

// member changes the voters of the metadata quorum by one. A voter whose node has another
// directory now goes first; else who is no voter comes, or, with Shrink, any voter goes.
func (o *Operator) member(t *task.T, conn *Conn) error {
	voters, observers, err := o.describeQuorum(t, conn)
	if err != nil || len(voters) == 0 {
		return err
	}
	candidate := func(m quorumMember) int {
		return slices.IndexFunc(o.Voters, func(c Candidate) bool { return c.ID == m.id })
	}
	var gone, come []quorumMember
	for _, m := range observers {
		at := candidate(m)
		if at < 0 {
			continue
		}
		if id, ok := o.Voters[at].Directory(); !ok || id != m.dir {
			continue // a directory that was replaced; the leader has not forgotten it
		}
		if i := slices.IndexFunc(voters, func(v quorumMember) bool { return v.id == m.id }); i >= 0 {
			gone = append(gone, voters[i])
		} else {
			come = append(come, m)
		}
	}
	switch {
	case len(gone) > 0:
		return o.removeVoter(t, conn, gone[o.Rand.IntN(len(gone))])
	case o.Shrink && len(voters) > 1 && (len(come) == 0 || o.Rand.IntN(2) == 0):
		return o.removeVoter(t, conn, voters[o.Rand.IntN(len(voters))])
	case len(come) > 0:
		m := come[o.Rand.IntN(len(come))]
		return o.addVoter(t, conn, o.Voters[candidate(m)], m.dir)
	}
	return nil
}

// describeQuorum asks for the replicas of the metadata log; none if nobody leads.
func (o *Operator) describeQuorum(t *task.T, conn *Conn) (voters, observers []quorumMember, err error) {
	req := kmsg.NewPtrDescribeQuorumRequest()
	req.Version = 2
	rt := kmsg.NewDescribeQuorumRequestTopic()
	rt.Topic, rt.Partitions = "__cluster_metadata", []kmsg.DescribeQuorumRequestTopicPartition{kmsg.NewDescribeQuorumRequestTopicPartition()}
	req.Topics = append(req.Topics, rt)
	resp, err := conn.Call(t, req, o.deadline(t))
	if err != nil {
		return nil, nil, err
	}
	for _, topic := range resp.(*kmsg.DescribeQuorumResponse).Topics {
		for _, p := range topic.Partitions {
			for _, r := range p.CurrentVoters {
				voters = append(voters, quorumMember{r.ReplicaID, r.ReplicaDirectoryID})
			}
			for _, r := range p.Observers {
				observers = append(observers, quorumMember{r.ReplicaID, r.ReplicaDirectoryID})
			}
		}
	}
	return voters, observers, nil
}

func (o *Operator) removeVoter(t *task.T, conn *Conn, m quorumMember) error {
	req := kmsg.NewPtrRemoveRaftVoterRequest()
	req.VoterID, req.VoterDirectoryID = m.id, m.dir
	resp, err := conn.Call(t, req, o.deadline(t))
	if err == nil {
		o.voted("voter-removal", resp.(*kmsg.RemoveRaftVoterResponse).ErrorCode, m, false)
	}
	return err
}

// voted takes the answer to a change of the voters that is answered when it is made.
func (o *Operator) voted(what string, code int16, m quorumMember, votes bool) {
	o.did(what, code)
	if code == 0 && o.Voted != nil {
		o.Voted(m.id, m.dir, votes)
	}
}

func (o *Operator) addVoter(t *task.T, conn *Conn, c Candidate, dir [16]byte) error {
	req := kmsg.NewPtrAddRaftVoterRequest()
	req.Version = int16(o.Rand.IntN(2))
	req.AckWhenCommitted = o.Rand.IntN(2) == 0
	req.TimeoutMillis = int32(o.RequestTimeout / time.Millisecond)
	req.VoterID, req.VoterDirectoryID = c.ID, dir
	l := kmsg.NewAddRaftVoterRequestListener()
	l.Name, l.Host, l.Port = "CONTROLLER", c.Host, c.Port
	req.Listeners = append(req.Listeners, l)
	resp, err := conn.Call(t, req, o.deadline(t))
	switch {
	case err != nil:
		return err
	case req.Version >= 1 && !req.AckWhenCommitted: // the answer says that the leader has it
		o.did("voter-addition", resp.(*kmsg.AddRaftVoterResponse).ErrorCode)
	default:
		o.voted("voter-addition", resp.(*kmsg.AddRaftVoterResponse).ErrorCode, quorumMember{c.ID, dir}, true)
	}
	return nil
}

// Feature is one whose level may be changed, within a range.
type Feature struct {
	Name     string
	Min, Max int16
}

// Kinds of a change of a feature's level.
const (
	featureUp         = 1
	featureDown       = 2
	featureDownUnsafe = 3
)

// feature changes the level of a feature, up or else down.
func (o *Operator) feature(t *task.T, conn *Conn) error {
	f := o.Features[o.Rand.IntN(len(o.Features))]
	level := f.Min + int16(o.Rand.IntN(int(f.Max-f.Min)+1))
	version := int16(1 + o.Rand.IntN(2))
	kinds := [2]int8{featureUp, int8(featureDown + o.Rand.IntN(2))}
	for _, kind := range kinds {
		code, err := o.updateFeature(t, conn, version, f.Name, level, kind)
		if err != nil {
			return err
		}
		if o.did("feature-change", code); code == 0 {
			break
		}
	}
	return nil
}

func (o *Operator) updateFeature(t *task.T, conn *Conn, version int16, name string, level int16, kind int8) (int16, error) {
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.Version, req.TimeoutMillis = version, int32(o.RequestTimeout/time.Millisecond)
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	u.Feature, u.MaxVersionLevel, u.UpgradeType = name, level, kind
	req.FeatureUpdates = append(req.FeatureUpdates, u)
	resp, err := conn.Call(t, req, o.deadline(t))
	if err != nil {
		return 0, err
	}
	return resp.(*kmsg.UpdateFeaturesResponse).ErrorCode, nil
}
