package client

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/checker/history"
	"seedlog/checker/linear"
	"seedlog/clock/task"
)

// Create makes a topic and waits until it is there; for the set-up of a run.
func Create(t *task.T, e *Env, topic *Topic, configs [][2]string) error {
	for !t.Stopping() {
		conn := e.dial(t)
		if conn == nil {
			break
		}
		done, err := create(t, e, conn, topic, configs)
		conn.Close()
		if done || err != nil {
			return err
		}
		e.pause(t)
	}
	return errors.New("stopped")
}

func create(t *task.T, e *Env, conn *Conn, topic *Topic, configs [][2]string) (done bool, err error) {
	req := createRequest(e, topic, configs)
	resp, err := conn.Call(t, req, e.deadline(t))
	if err != nil {
		return false, nil
	}
	r := resp.(*kmsg.CreateTopicsResponse).Topics
	if len(r) != 1 {
		return false, fmt.Errorf("%w: CreateTopics answered %d topics", ErrProtocol, len(r))
	}
	switch kerr.ErrorForCode(r[0].ErrorCode) {
	case nil, kerr.TopicAlreadyExists:
		id, n, ok := e.describe(t, conn, topic.Name)
		topic.ID, topic.Partitions = id, n
		return ok, nil
	case kerr.InvalidConfig, kerr.InvalidPartitions, kerr.InvalidRequest, kerr.InvalidTopicException:
		msg := ""
		if r[0].ErrorMessage != nil {
			msg = *r[0].ErrorMessage
		}
		return false, fmt.Errorf("create %s: %s: %s", topic.Name, name(r[0].ErrorCode), msg)
	}
	return false, nil
}

func createRequest(e *Env, topic *Topic, configs [][2]string) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = int16(2 + e.Rand.IntN(6))
	req.TimeoutMillis = int32(e.RequestTimeout.Milliseconds())
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic.Name, topic.Partitions, max(topic.Replication, 1)
	if topic.Assignment != nil {
		rt.NumPartitions, rt.ReplicationFactor = -1, -1
		for i, replicas := range topic.Assignment {
			a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
			a.Partition, a.Replicas = int32(i), replicas
			rt.ReplicaAssignment = append(rt.ReplicaAssignment, a)
		}
	}
	for _, kv := range configs {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = kv[0], &kv[1]
		rt.Configs = append(rt.Configs, c)
	}
	req.Topics = append(req.Topics, rt)
	return req
}

// describe asks for a topic's id and partitions.
func (e *Env) describe(t *task.T, conn *Conn, topic string) (id [16]byte, partitions int32, ok bool) {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 13
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = &topic
	req.Topics = append(req.Topics, rt)
	resp, err := conn.Call(t, req, e.deadline(t))
	if err != nil {
		return id, 0, false
	}
	for _, r := range resp.(*kmsg.MetadataResponse).Topics {
		if r.Topic != nil && *r.Topic == topic && r.ErrorCode == 0 {
			return r.TopicID, int32(len(r.Partitions)), true
		}
	}
	return id, 0, false
}

// Churner creates, grows, describes and deletes topics of a few names of its own; the
// history of each name must be linearizable.
type Churner struct {
	Env
	Names []string
	Ops   int
}

// Run churns until the budget is spent.
func (c *Churner) Run(t *task.T) {
	var conn *Conn
	for ; c.Ops > 0 && !c.Enough() && !t.Stopping(); c.Ops-- {
		if conn == nil {
			if conn = c.dial(t); conn == nil {
				break
			}
		}
		if !c.one(t, conn, c.Names[c.Rand.IntN(len(c.Names))]) {
			conn.Close()
			conn = nil
		}
		t.Sleep(t.Now().Add(time.Duration(c.Rand.IntN(300)) * time.Millisecond))
	}
	if conn != nil {
		conn.Close()
	}
}

func (c *Churner) one(t *task.T, conn *Conn, topic string) bool {
	op := linear.TopicOp{Client: c.ID, Topic: topic, Invoke: int64(c.Rec.Stamp()), Unknown: true}
	var ok bool
	switch c.Rand.IntN(4) {
	case 0, 1:
		ok = c.create(t, conn, &op)
	case 2:
		ok = c.delete(t, conn, &op)
	default:
		ok = c.grow(t, conn, &op)
	}
	op.Return = int64(c.Rec.Stamp())
	c.Rec.Topic(op)
	return ok
}

func (c *Churner) create(t *task.T, conn *Conn, op *linear.TopicOp) bool {
	op.Kind, op.Partitions = linear.CreateTopic, int32(1+c.Rand.IntN(4))
	req := createRequest(&c.Env, &Topic{Name: op.Topic, Partitions: op.Partitions}, nil)
	req.Version = 7
	resp, err := conn.Call(t, req, c.deadline(t))
	if err != nil {
		return false
	}
	r := resp.(*kmsg.CreateTopicsResponse).Topics[0]
	switch r.ErrorCode {
	case 0:
		op.Unknown, op.OK, op.ID = false, true, r.TopicID
	case kerr.TopicAlreadyExists.Code:
		op.Unknown, op.Exists = false, true // where that may be our own doing, we are told nothing
	}
	return true
}

func (c *Churner) delete(t *task.T, conn *Conn, op *linear.TopicOp) bool {
	op.Kind = linear.DeleteTopic
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version = int16(1 + c.Rand.IntN(6))
	req.TimeoutMillis = int32(c.RequestTimeout.Milliseconds())
	if req.Version >= 6 {
		rt := kmsg.NewDeleteTopicsRequestTopic()
		rt.Topic = &op.Topic
		req.Topics = append(req.Topics, rt)
	} else {
		req.TopicNames = []string{op.Topic}
	}
	resp, err := conn.Call(t, req, c.deadline(t))
	if err != nil {
		return false
	}
	switch resp.(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode {
	case 0:
		op.Unknown, op.OK = false, true
	case kerr.UnknownTopicOrPartition.Code:
		op.Unknown = false
	}
	return true
}

func (c *Churner) grow(t *task.T, conn *Conn, op *linear.TopicOp) bool {
	op.Kind, op.Partitions = linear.CreatePartitions, int32(1+c.Rand.IntN(8))
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.Version = int16(c.Rand.IntN(4))
	req.TimeoutMillis = int32(c.RequestTimeout.Milliseconds())
	rt := kmsg.NewCreatePartitionsRequestTopic()
	rt.Topic, rt.Count = op.Topic, op.Partitions
	req.Topics = append(req.Topics, rt)
	resp, err := conn.Call(t, req, c.deadline(t))
	if err != nil {
		return false
	}
	switch resp.(*kmsg.CreatePartitionsResponse).Topics[0].ErrorCode {
	case 0:
		op.Unknown, op.OK = false, true
	case kerr.InvalidPartitions.Code, kerr.UnknownTopicOrPartition.Code:
		op.Unknown = false
	}
	return true
}

// Trimmer deletes records from the front of drawn partitions.
type Trimmer struct {
	Env
	Topics []*Topic
	Ops    int
}

// Run trims until the budget is spent.
func (c *Trimmer) Run(t *task.T) {
	var conn *Conn
	for ; c.Ops > 0 && !c.Enough() && !t.Stopping(); c.Ops-- {
		t.Sleep(t.Now().Add(time.Duration(c.Rand.IntN(2000)) * time.Millisecond))
		if conn == nil {
			if conn = c.dial(t); conn == nil {
				break
			}
		}
		topic := c.Topics[c.Rand.IntN(len(c.Topics))]
		index := c.Rand.Int32N(topic.Partitions)
		if c.Routes != nil {
			conn.Close()
			addr, _ := c.Find(t, topic, index)
			if addr == "" {
				conn = nil
				continue
			}
			if conn = c.connect(t, addr); conn == nil {
				continue
			}
		}
		if err := c.trim(t, conn, topic, index); err != nil {
			conn.Close()
			conn = nil
		}
	}
	c.closeRoutes()
	if conn != nil {
		conn.Close()
	}
}

func (c *Trimmer) trim(t *task.T, conn *Conn, topic *Topic, index int32) error {
	start, end, err := Bounds(t, &c.Env, conn, topic, index)
	if err != nil || start < 0 || end == start {
		return err
	}
	before := start + c.Rand.Int64N((end-start)/2+1)
	log := c.partition(topic, index)
	removal := c.Rec.Removal(history.Removal{Invoke: c.Rec.Stamp(), Partition: log, Before: before})
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Version = int16(c.Rand.IntN(3))
	req.TimeoutMillis = int32(c.RequestTimeout.Milliseconds())
	part := kmsg.NewDeleteRecordsRequestTopicPartition()
	part.Partition, part.Offset = index, before
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic = topic.Name
	rt.Partitions = append(rt.Partitions, part)
	req.Topics = append(req.Topics, rt)
	resp, err := conn.Call(t, req, c.deadline(t))
	if err != nil {
		return err
	}
	r := resp.(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]
	if r.ErrorCode == 0 {
		c.Rec.Removed(removal)
	}
	if r.ErrorCode == 0 && r.LowWatermark < before && c.Rec.Losses(log) == 0 {
		c.Rec.Failf("I24", PartitionName(history.Partition{Topic: topic.Name, Index: index}), "DeleteRecords before %d left the low watermark at %d", before, r.LowWatermark)
	}
	return nil
}
