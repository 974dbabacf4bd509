package api

// InitProducerId: an id for an idempotent producer.
//
//	0-1  the same     2  flexible     3  a producer that goes on names its id and epoch
//	4    PRODUCER_FENCED              5  transactions v2
//
// A transactional id is refused with INVALID_REQUEST: transactions are not served. Without
// one, id and epoch of a request are ignored, as in Kafka, and a new id given.

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/node/conn"
)

// allocateMaxMs is how long a request for a producer id waits for the controller.
const allocateMaxMs = 10_000

func (s *Service) initProducerID(t *task.T, r *conn.Request, req *kmsg.InitProducerIDRequest) kmsg.Response {
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	if req.TransactionalID != nil {
		resp.ErrorCode = kerr.InvalidRequest.Code
		return resp
	}
	id, code := s.producerIDs.next(t, s)
	if code != 0 {
		resp.ErrorCode = code
		return resp
	}
	resp.ProducerID, resp.ProducerEpoch = id, 0
	return resp
}

// producerIDs hands out ids of a block that the controller allotted to this broker.
type producerIDs struct {
	mu      task.Mutex
	from    int64
	until   int64
	refresh task.Gate
}

func (p *producerIDs) init(rt task.Runtime) {
	p.mu.Init(rt, "api.producerIDs")
	p.refresh.Init(rt, "api.producerIDs.refresh")
}

func (p *producerIDs) take() (int64, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.from >= p.until {
		return 0, false
	}
	p.from++
	return p.from - 1, true
}

func (p *producerIDs) next(t *task.T, s *Service) (int64, int16) {
	if id, ok := p.take(); ok {
		return id, 0
	}
	p.refresh.Enter(t)
	defer p.refresh.Leave(t)
	if id, ok := p.take(); ok {
		return id, 0
	}
	return p.allocate(t, s, t.Now().Add(millis(allocateMaxMs)))
}

func (p *producerIDs) allocate(t *task.T, s *Service, until clock.Instant) (int64, int16) {
	req := kmsg.NewPtrAllocateProducerIDsRequest()
	req.BrokerID, req.BrokerEpoch = s.NodeID, s.BrokerEpoch()
	resp, _, err := s.Control.Propose(t, req, until)
	if err != nil {
		return 0, kerr.CoordinatorLoadInProgress.Code
	}
	block := resp.(*kmsg.AllocateProducerIDsResponse)
	if block.ErrorCode != 0 {
		return 0, kerr.CoordinatorLoadInProgress.Code
	}
	p.mu.Lock()
	p.from, p.until = block.ProducerIDStart+1, block.ProducerIDStart+int64(block.ProducerIDLen)
	p.mu.Unlock()
	return block.ProducerIDStart, 0
}
