package client

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/checker/linear"
	"seedlog/clock/task"
)

// Member is one member of a consumer group of the classic protocol. It joins, assigns when
// it leads (each partition to the member it falls to by turns), heartbeats, fetches its
// committed offsets, moves them on and commits. It dies and joins again now and then.
type Member struct {
	Env
	Group          string
	InstanceID     string // static membership, or empty
	Topics         []*Topic
	SessionTimeout time.Duration
	Commits        int // budget
	LeaveOdds      int // one commit in n is followed by leaving, or by silence

	conn       *Conn
	memberID   string
	generation int32
	highest    int32 // generation seen
	moved      bool  // the coordinator is another broker
	losses     int   // power losses before it joined
	owned      []owned
}

type owned struct {
	topic *Topic
	index int32
	next  int64
}

// Run takes part until the budget is spent.
func (m *Member) Run(t *task.T) {
	for !t.Stopping() && m.Commits > 0 && !m.Enough() {
		if m.conn == nil {
			if m.conn = m.coordinator(t); m.conn == nil {
				continue
			}
		}
		if err := m.life(t); err != nil || m.moved {
			m.moved = false
			m.conn.Close()
			m.conn = nil
			m.pause(t)
		}
	}
	if m.conn != nil {
		m.conn.Close()
	}
}

// coordinator finds and connects to the group's coordinator.
func (m *Member) coordinator(t *task.T) *Conn {
	conn := m.dial(t)
	if conn == nil {
		return nil
	}
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.Version = int16(m.Rand.IntN(7))
	if req.CoordinatorKey = m.Group; req.Version >= 4 {
		req.CoordinatorKey, req.CoordinatorKeys = "", []string{m.Group}
	}
	resp, err := conn.Call(t, req, m.deadline(t))
	if err == nil {
		r := resp.(*kmsg.FindCoordinatorResponse)
		code, host, port := r.ErrorCode, r.Host, r.Port
		if req.Version >= 4 && len(r.Coordinators) == 1 {
			code, host, port = r.Coordinators[0].ErrorCode, r.Coordinators[0].Host, r.Coordinators[0].Port
		}
		if code == 0 && m.Routes == nil {
			return conn
		}
		if code == 0 {
			conn.Close()
			return m.connect(t, fmt.Sprintf("%s:%d", host, port))
		}
	}
	conn.Close()
	m.pause(t)
	return nil
}

// life is one membership, from joining to the first reason to join again. An error means
// that the connection is of no use.
func (m *Member) life(t *task.T) error {
	members, err := m.join(t)
	if err != nil || m.generation < 0 {
		return err
	}
	if ok, err := m.sync(t, members); err != nil || !ok {
		return err
	}
	if ok, err := m.load(t); err != nil || !ok {
		return err
	}
	for m.Commits > 0 && !t.Stopping() && !m.Enough() {
		t.Sleep(t.Now().Add(time.Duration(m.Rand.Int64N(int64(m.SessionTimeout) / 4))))
		if m.Rand.IntN(4) > 0 { // a commit is a sign of life, too
			if ok, err := m.heartbeat(t); err != nil || !ok {
				return err
			}
		}
		m.Commits--
		if ok, err := m.commit(t); err != nil || !ok {
			return err
		}
		if m.LeaveOdds > 0 && m.Rand.IntN(m.LeaveOdds) == 0 {
			return m.leave(t)
		}
	}
	return nil
}

func (m *Member) join(t *task.T) ([]kmsg.JoinGroupResponseMember, error) {
	m.generation = -1
	if m.memberID == "" {
		m.highest = 0 // an empty group may have been removed, and begins anew
	}
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version = int16(5 + m.Rand.IntN(5))
	req.Group, req.MemberID, req.ProtocolType = m.Group, m.memberID, "consumer"
	req.SessionTimeoutMillis = int32(m.SessionTimeout.Milliseconds())
	// A rebalance that ends before a silent session does leaves a static member behind.
	req.RebalanceTimeoutMillis = req.SessionTimeoutMillis/2 + m.Rand.Int32N(3*req.SessionTimeoutMillis/2)
	if m.InstanceID != "" {
		req.InstanceID = &m.InstanceID
	}
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "turns", []byte(m.Name)
	req.Protocols = append(req.Protocols, p)
	m.losses = m.Rec.PowerLosses()
	resp, err := m.conn.Call(t, req, t.Now().Add(4*m.SessionTimeout+m.RequestTimeout))
	if err != nil {
		return nil, err
	}
	r := resp.(*kmsg.JoinGroupResponse)
	switch r.ErrorCode {
	case 0:
	case kerr.MemberIDRequired.Code:
		m.memberID = r.MemberID
		return nil, nil
	default:
		m.refused(t, r.ErrorCode)
		return nil, nil
	}
	m.memberID, m.generation = r.MemberID, r.Generation
	if m.generation < m.highest && !m.Rec.mayLose() {
		m.Rec.Failf("I26", m.Group, "member %s joined generation %d after generation %d", m.Name, m.generation, m.highest)
	}
	m.highest = max(m.highest, m.generation)
	m.Rec.generation(m.Group, m.generation)
	if r.LeaderID == r.MemberID {
		return r.Members, nil
	}
	return nil, nil
}

// refused forgets the member id where the broker has forgotten it.
func (m *Member) refused(t *task.T, code int16) {
	switch kerr.ErrorForCode(code) {
	case kerr.UnknownMemberID, kerr.FencedInstanceID:
		m.memberID = ""
	case kerr.IllegalGeneration, kerr.RebalanceInProgress:
	case kerr.NotCoordinator, kerr.CoordinatorNotAvailable:
		m.moved = m.Routes != nil
		m.pause(t)
	default:
		m.pause(t)
	}
}

// sync hands out, if this member leads, and takes its own part.
func (m *Member) sync(t *task.T, members []kmsg.JoinGroupResponseMember) (bool, error) {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version = int16(3 + m.Rand.IntN(3))
	req.Group, req.MemberID, req.Generation = m.Group, m.memberID, m.generation
	if m.InstanceID != "" {
		req.InstanceID = &m.InstanceID
	}
	typ, proto := "consumer", "turns"
	req.ProtocolType, req.Protocol = &typ, &proto
	shares := make([][]byte, len(members))
	n := 0
	for ti, topic := range m.Topics {
		for i := range topic.Partitions {
			if len(members) > 0 {
				shares[n%len(members)] = binary.BigEndian.AppendUint64(shares[n%len(members)], uint64(ti)<<32|uint64(i))
				n++
			}
		}
	}
	for i, o := range members {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = o.MemberID, shares[i]
		req.GroupAssignment = append(req.GroupAssignment, a)
	}
	resp, err := m.conn.Call(t, req, t.Now().Add(4*m.SessionTimeout+m.RequestTimeout))
	if err != nil {
		return false, err
	}
	r := resp.(*kmsg.SyncGroupResponse)
	if r.ErrorCode != 0 {
		m.refused(t, r.ErrorCode)
		return false, nil
	}
	m.owned = nil
	for b := r.MemberAssignment; len(b) >= 8; b = b[8:] {
		v := binary.BigEndian.Uint64(b)
		o := owned{topic: m.Topics[v>>32], index: int32(uint32(v))}
		m.owned = append(m.owned, o)
		m.Rec.own(m, o)
	}
	return true, nil
}

// own is I25: in one generation a partition is handed to one member.
func (r *Recorder) own(m *Member, o owned) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owners == nil {
		r.owners = make(map[string]string)
	}
	// A power loss may take generations with it, which are then used again; of an answer that
	// was under way meanwhile nobody knows which of them it means.
	if r.powerLosses != m.losses {
		return
	}
	key := fmt.Sprintf("%d/%s/%d/%s-%d", r.powerLosses, m.Group, m.generation, o.topic.Name, o.index)
	// A static member that restarts takes its share over under a new member id.
	if other, ok := r.owners[key]; ok && other != m.Name {
		r.verdict.Failf("I25", m.Group, "%s-%d is owned by %s and by %s in generation %d", o.topic.Name, o.index, other, m.Name, m.generation)
	}
	r.owners[key] = m.Name
}

// generation notes that a member was told of a generation.
func (r *Recorder) generation(group string, g int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.joined == nil {
		r.joined = make(map[string]int32)
	}
	r.joined[group] = g // not the largest: an empty group may be removed and begin anew
}

// newestGeneration is the last one that any member was told of.
func (r *Recorder) newestGeneration(group string) int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.joined[group]
}

// load reads the committed offsets of what is owned.
func (m *Member) load(t *task.T) (bool, error) {
	if len(m.owned) == 0 {
		return true, nil
	}
	invoke := int64(m.Rec.Stamp())
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version = int16(1 + m.Rand.IntN(7))
	req.Group = m.Group
	for _, o := range m.owned {
		i := 0
		for i < len(req.Topics) && req.Topics[i].Topic != o.topic.Name {
			i++
		}
		if i == len(req.Topics) {
			rt := kmsg.NewOffsetFetchRequestTopic()
			rt.Topic = o.topic.Name
			req.Topics = append(req.Topics, rt)
		}
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, o.index)
	}
	resp, err := m.conn.Call(t, req, m.deadline(t))
	if err != nil {
		return false, err
	}
	r := resp.(*kmsg.OffsetFetchResponse)
	if r.ErrorCode != 0 {
		m.refused(t, r.ErrorCode)
		return false, nil
	}
	ret := int64(m.Rec.Stamp())
	for _, rt := range r.Topics {
		for _, rp := range rt.Partitions {
			if rp.ErrorCode != 0 {
				return false, nil
			}
			for i := range m.owned {
				if o := &m.owned[i]; o.topic.Name == rt.Topic && o.index == rp.Partition {
					o.next = max(rp.Offset, 0)
					m.Rec.Offset(linear.OffsetOp{Client: m.ID, Group: m.Group, Topic: rt.Topic, Partition: rp.Partition, Invoke: invoke, Return: ret, Offset: rp.Offset})
				}
			}
		}
	}
	return true, nil
}

func (m *Member) heartbeat(t *task.T) (bool, error) {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version = int16(3 + m.Rand.IntN(2))
	req.Group, req.MemberID, req.Generation = m.Group, m.memberID, m.generation
	if m.InstanceID != "" {
		req.InstanceID = &m.InstanceID
	}
	resp, err := m.conn.Call(t, req, m.deadline(t))
	if err != nil {
		return false, err
	}
	if code := resp.(*kmsg.HeartbeatResponse).ErrorCode; code != 0 {
		m.refused(t, code)
		return false, nil
	}
	return true, nil
}

// commit moves one owned partition on.
func (m *Member) commit(t *task.T) (bool, error) {
	if len(m.owned) == 0 {
		return true, nil
	}
	o := &m.owned[m.Rand.IntN(len(m.owned))]
	o.next += int64(1 + m.Rand.IntN(9))
	op := linear.OffsetOp{Client: m.ID, Group: m.Group, Topic: o.topic.Name, Partition: o.index, Invoke: int64(m.Rec.Stamp()), Commit: true, Offset: o.next, Unknown: true}
	newest := m.Rec.newestGeneration(m.Group)
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version = int16(7 + m.Rand.IntN(3))
	req.Group, req.MemberID, req.Generation = m.Group, m.memberID, m.generation
	if m.InstanceID != "" {
		req.InstanceID = &m.InstanceID
	}
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch = o.index, o.next, -1
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic = o.topic.Name
	rt.Partitions = append(rt.Partitions, p)
	req.Topics = append(req.Topics, rt)
	resp, err := m.conn.Call(t, req, m.deadline(t))
	if err != nil {
		m.Rec.Offset(op)
		return false, err
	}
	op.Return = int64(m.Rec.Stamp())
	code := resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
	switch kerr.ErrorForCode(code) {
	case nil:
		op.Unknown = false
		m.Rec.Offset(op)
		if newest > m.generation && !m.Rec.mayLose() {
			m.Rec.Failf("I28", m.Group, "a commit of member %s in generation %d was taken, after generation %d had been joined", m.Name, m.generation, newest)
		}
		return true, nil
	case kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.RebalanceInProgress, kerr.FencedInstanceID, kerr.CoordinatorLoadInProgress:
		// Refused: without effect. NOT_COORDINATOR may come after the record was written.
	default:
		m.Rec.Offset(op)
	}
	m.refused(t, code)
	return false, nil
}

// leave leaves, or falls silent for longer than the session.
func (m *Member) leave(t *task.T) error {
	if m.Rand.IntN(2) == 0 {
		t.Sleep(t.Now().Add(m.SessionTimeout + m.SessionTimeout/2))
		return nil
	}
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version = 3
	req.Group = m.Group
	lm := kmsg.NewLeaveGroupRequestMember()
	lm.MemberID = m.memberID
	if m.InstanceID != "" {
		lm.InstanceID = &m.InstanceID
	}
	req.Members = append(req.Members, lm)
	_, err := m.conn.Call(t, req, m.deadline(t))
	m.memberID = ""
	return err
}
