package client

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/checker/logfile"
	"seedlog/clock/task"
)

// Plain is a connection for the stories of scenarios: one request at a time, each answered
// in full, an error of the connection being the story's end.
type Plain struct {
	*Env
	Conn *Conn
	// Within is how long a broker may take to commit what is produced; 0 is RequestTimeout.
	Within time.Duration
}

// Open connects; it tries until the broker answers.
func Open(t *task.T, e *Env) *Plain { return &Plain{Env: e, Conn: e.dial(t)} }

// OpenAt connects to one of several brokers; it tries until that answers or the task stops.
func OpenAt(t *task.T, e *Env, addr string) *Plain {
	for !t.Stopping() {
		if c, err := Dial(t, e.Net, addr, e.Name, e.deadline(t)); err == nil {
			c.broken = func(err error) { e.Rec.Failf("I30", e.Name, "%v", err) }
			return &Plain{Env: e, Conn: c}
		}
		e.pause(t)
	}
	return &Plain{Env: e}
}

// Close ends the connection.
func (p *Plain) Close() {
	if p.Conn != nil {
		p.Conn.Close()
	}
}

// Call sends a request and waits for its response.
func (p *Plain) Call(t *task.T, req kmsg.Request) (kmsg.Response, error) {
	if p.Conn == nil {
		return nil, fmt.Errorf("client: no connection")
	}
	return p.Conn.Call(t, req, p.deadline(t))
}

// Produced is the answer to one produced batch.
type Produced struct {
	Code    int16
	Base    int64
	Message string
	// LogAppendTime is -1 unless the broker stamped the batch.
	LogAppendTime int64
	Records       []kmsg.ProduceResponseTopicPartitionErrorRecord
}

// Produce sends one batch.
func (p *Plain) Produce(t *task.T, topic *Topic, index int32, version, acks int16, batch []byte) (Produced, error) {
	req := ProduceRequest(topic, index, version, acks, batch)
	req.TimeoutMillis = int32(p.RequestTimeout.Milliseconds())
	if p.Within > 0 {
		req.TimeoutMillis = int32(p.Within.Milliseconds())
	}
	resp, err := p.Call(t, req)
	if err != nil {
		return Produced{}, err
	}
	r := resp.(*kmsg.ProduceResponse)
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		return Produced{}, fmt.Errorf("%w: Produce answered %d topics", ErrProtocol, len(r.Topics))
	}
	a := r.Topics[0].Partitions[0]
	out := Produced{Code: a.ErrorCode, Base: a.BaseOffset, LogAppendTime: a.LogAppendTime, Records: a.ErrorRecords}
	if a.ErrorMessage != nil {
		out.Message = *a.ErrorMessage
	}
	return out, nil
}

// ProduceRequest is a request with one batch, which may take 30 s.
func ProduceRequest(topic *Topic, index int32, version, acks int16, batch []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = version, acks, 30_000
	part := kmsg.NewProduceRequestTopicPartition()
	part.Partition, part.Records = index, batch
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.TopicID = topic.Name, topic.ID
	rt.Partitions = append(rt.Partitions, part)
	req.Topics = append(req.Topics, rt)
	return req
}

// Fetched is the answer for one fetched partition.
type Fetched struct {
	Code          int16
	Preferred     int32 // the replica that the leader sends the client to, or -1
	HighWatermark int64
	LogStart      int64
	// DivergingEpoch is where the log parts from what was read, and ends at DivergingEnd; -1 if it
	// does not.
	DivergingEpoch int32
	DivergingEnd   int64
	Batches        []logfile.Batch
	Bytes          []byte
}

// FetchAfter is Fetch of a reader that knows the leader epoch, and read a record of epoch last
// right before the offset.
func (p *Plain) FetchAfter(t *task.T, topic *Topic, index int32, offset int64, current, last int32) (Fetched, error) {
	req := p.fetchRequest(topic, index, 12, offset, current, 0)
	req.Topics[0].Partitions[0].LastFetchedEpoch = last
	return p.fetched(t, req)
}

// FetchAs is Fetch in the name of a follower with a broker epoch.
func (p *Plain) FetchAs(t *task.T, topic *Topic, index int32, offset int64, current int32, replica int32, epoch int64) (Fetched, error) {
	req := p.fetchRequest(topic, index, 15, offset, current, 0)
	req.ReplicaState.ID, req.ReplicaState.Epoch = replica, epoch
	return p.fetched(t, req)
}

// Fetch asks for one partition from an offset, in the leader epoch (-1 for none).
func (p *Plain) Fetch(t *task.T, topic *Topic, index int32, version int16, offset int64, epoch int32) (Fetched, error) {
	return p.fetch(t, topic, index, version, offset, epoch, 0)
}

// Await is Fetch that waits for something to read.
func (p *Plain) Await(t *task.T, topic *Topic, index int32, offset int64, atMost time.Duration) (Fetched, error) {
	return p.fetch(t, topic, index, 11, offset, -1, atMost)
}

// Wide is a Fetch that names a partition so often, and waits for something to read in it.
func (p *Plain) Wide(topic *Topic, times int, atMost time.Duration) *kmsg.FetchRequest {
	req := p.fetchRequest(topic, 0, 11, 0, -1, atMost)
	of := &req.Topics[0]
	for range times - 1 {
		of.Partitions = append(of.Partitions, of.Partitions[0])
	}
	return req
}

func (p *Plain) fetch(t *task.T, topic *Topic, index int32, version int16, offset int64, epoch int32, wait time.Duration) (Fetched, error) {
	return p.fetched(t, p.fetchRequest(topic, index, version, offset, epoch, wait))
}

func (p *Plain) fetchRequest(topic *Topic, index int32, version int16, offset int64, epoch int32, wait time.Duration) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MinBytes, req.MaxBytes, req.MaxWaitMillis, req.SessionEpoch = version, 0, 1<<20, int32(wait.Milliseconds()), -1
	if wait > 0 {
		req.MinBytes = 1
	}
	part := kmsg.NewFetchRequestTopicPartition()
	if p.Routes != nil {
		req.Rack = p.Routes.Rack
	}
	part.Partition, part.FetchOffset, part.PartitionMaxBytes, part.CurrentLeaderEpoch, part.LogStartOffset = index, offset, 1<<20, epoch, -1
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = topic.Name, topic.ID
	rt.Partitions = append(rt.Partitions, part)
	req.Topics = append(req.Topics, rt)
	return req
}

func (p *Plain) fetched(t *task.T, req *kmsg.FetchRequest) (Fetched, error) {
	resp, err := p.Call(t, req)
	if err != nil {
		return Fetched{}, err
	}
	r := resp.(*kmsg.FetchResponse)
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		return Fetched{}, fmt.Errorf("%w: Fetch answered %d topics, code %d", ErrProtocol, len(r.Topics), r.ErrorCode)
	}
	a := r.Topics[0].Partitions[0]
	out := Fetched{Code: a.ErrorCode, Preferred: a.PreferredReadReplica, HighWatermark: a.HighWatermark, LogStart: a.LogStartOffset,
		DivergingEpoch: a.DivergingEpoch.Epoch, DivergingEnd: a.DivergingEpoch.EndOffset, Bytes: a.RecordBatches}
	out.Batches, _, _ = logfile.Scan(a.RecordBatches)
	return out, nil
}

// Delete deletes a topic and returns the code.
func (p *Plain) Delete(t *task.T, topic string) (int16, error) {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis = 5, int32(p.RequestTimeout.Milliseconds())
	req.TopicNames = []string{topic}
	resp, err := p.Call(t, req)
	if err != nil {
		return 0, err
	}
	return resp.(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode, nil
}

// ProducerID asks for a producer id and epoch.
func (p *Plain) ProducerID(t *task.T) (id int64, epoch int16, err error) {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version = 4
	req.ProducerID, req.ProducerEpoch = -1, -1
	resp, err := p.Call(t, req)
	if err != nil {
		return -1, -1, err
	}
	r := resp.(*kmsg.InitProducerIDResponse)
	if r.ErrorCode != 0 {
		return -1, -1, fmt.Errorf("InitProducerId: %s", CodeName(r.ErrorCode))
	}
	return r.ProducerID, r.ProducerEpoch, nil
}

// CodeName is the name of an error code.
func CodeName(code int16) string { return name(code) }
