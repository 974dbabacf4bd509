package client

import (
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
)

// Operator changes a cluster while it works: it moves replicas and takes that back, elects
// preferred leaders, alters settings, and changes voters and feature levels. What it asks for may be refused; nothing that it
// does may lose or change a record.
type Operator struct {
	Env
	Topics  []*Topic
	Brokers []int32
	// Voters, if there are any, are who may be a voter of the metadata quorum. Shrink says that a
	// voter may be removed that is well.
	Voters []Candidate
	Shrink bool
	// Features are those whose levels may be changed.
	Features []Feature
	// FeaturesOnly: it changes nothing but their levels.
	FeaturesOnly bool
	Ops          int
	Pace         time.Duration
	// Did counts what was accepted.
	Did func(what string, effective bool)
	// Voted, if it is set, hears of a change of the voters that was answered as made.
	Voted func(id int32, directory [16]byte, votes bool)
}

// Run works until the budget is spent.
func (o *Operator) Run(t *task.T) {
	var conn *Conn
	for ; o.Ops > 0 && !o.Enough() && !t.Stopping(); o.Ops-- {
		t.Sleep(t.Now().Add(time.Duration(o.Rand.Int64N(2 * int64(o.Pace)))))
		if conn == nil {
			if conn = o.dial(t); conn == nil {
				break
			}
		}
		if err := o.one(t, conn); err != nil {
			conn.Close()
			conn = nil
		}
	}
	// What goes on is left to end by itself.
	if conn != nil {
		conn.Close()
	}
}

func (o *Operator) one(t *task.T, conn *Conn) error {
	if o.FeaturesOnly {
		return o.feature(t, conn)
	}
	topic := o.Topics[o.Rand.IntN(len(o.Topics))]
	index := o.Rand.Int32N(topic.Partitions)
	n := 6
	if len(o.Voters) > 0 {
		n += 4
	}
	switch k := o.Rand.IntN(n); k {
	case 0, 1:
		return o.reassign(t, conn, topic, index)
	case 2:
		return o.cancel(t, conn, topic, index)
	case 3:
		return o.elect(t, conn, topic, index)
	case 4:
		if len(o.Features) > 0 {
			return o.feature(t, conn)
		}
		return o.elect(t, conn, topic, index)
	case 5:
		return o.alter(t, conn, topic)
	}
	return o.member(t, conn)
}

func (o *Operator) did(what string, code int16) {
	if o.Did != nil {
		o.Did(what, code == 0)
	}
}

// reassign moves a partition to drawn brokers, as many as before.
// A single copy becomes two: what the old one acknowledges before it hears that the new one
// leads is its own alone.
func (o *Operator) reassign(t *task.T, conn *Conn, topic *Topic, index int32) error {
	o.Rec.Replicate(o.partition(topic, index), true)
	target := make([]int32, 0, max(topic.Replication, 1))
	for _, i := range o.Rand.Perm(len(o.Brokers))[:max(topic.Replication, 1)] {
		target = append(target, o.Brokers[i])
	}
	code, err := o.assign(t, conn, topic, index, target)
	if err != nil {
		return err
	}
	if o.did("reassignment", code); code != 0 || o.Rand.IntN(2) == 0 {
		return nil
	}
	// It is taken back, at once or while a new replica cannot follow.
	t.Sleep(t.Now().Add(time.Millisecond << o.Rand.IntN(13)))
	return o.cancel(t, conn, topic, index)
}

func (o *Operator) cancel(t *task.T, conn *Conn, topic *Topic, index int32) error {
	code, err := o.assign(t, conn, topic, index, nil)
	if err == nil {
		o.did("reassignment-cancel", code)
	}
	return err
}

func (o *Operator) assign(t *task.T, conn *Conn, topic *Topic, index int32, target []int32) (int16, error) {
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.TimeoutMillis = int32(o.RequestTimeout.Milliseconds())
	part := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	part.Partition, part.Replicas = index, target
	rt := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	rt.Topic = topic.Name
	rt.Partitions = append(rt.Partitions, part)
	req.Topics = append(req.Topics, rt)
	resp, err := conn.Call(t, req, o.deadline(t))
	if err != nil {
		return 0, err
	}
	r := resp.(*kmsg.AlterPartitionAssignmentsResponse)
	if r.ErrorCode != 0 || len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		return r.ErrorCode, nil
	}
	return r.Topics[0].Partitions[0].ErrorCode, nil
}

func (o *Operator) elect(t *task.T, conn *Conn, topic *Topic, index int32) error {
	req := kmsg.NewPtrElectLeadersRequest()
	req.Version = int16(o.Rand.IntN(3))
	req.TimeoutMillis = int32(o.RequestTimeout.Milliseconds())
	rt := kmsg.NewElectLeadersRequestTopic()
	rt.Topic, rt.Partitions = topic.Name, []int32{index}
	req.Topics = append(req.Topics, rt)
	if o.Rand.IntN(4) == 0 {
		req.Topics = nil // all
	}
	resp, err := conn.Call(t, req, o.deadline(t))
	if err == nil {
		o.did("preferred-election", resp.(*kmsg.ElectLeadersResponse).ErrorCode)
	}
	return err
}

// alter changes a setting of a topic that matters to no check.
func (o *Operator) alter(t *task.T, conn *Conn, topic *Topic) error {
	value := strconv.Itoa(10 + o.Rand.IntN(100_000))
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Value = "segment.ms", &value
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, topic.Name
	res.Configs = append(res.Configs, c)
	req.Resources = append(req.Resources, res)
	resp, err := conn.Call(t, req, o.deadline(t))
	if err == nil {
		for _, r := range resp.(*kmsg.IncrementalAlterConfigsResponse).Resources {
			o.did("config-change", r.ErrorCode)
		}
	}
	return err
}
