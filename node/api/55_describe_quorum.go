package api

// DescribeQuorum: who leads the metadata quorum, and how far everybody is.
//
//	0  flexible     1  when replicas fetched (KIP-836)
//	2  directories, where the voters listen, messages (KIP-853)

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
)

// describeMaxMs is how long DescribeQuorum waits for a leader. That there is none is what the one
// who asks wants to know, and before the client gives up.
const describeMaxMs = 5000

func (s *Service) describeQuorum(t *task.T, r *conn.Request, req *kmsg.DescribeQuorumRequest) kmsg.Response {
	return s.byLeader(t, r, req, describeMaxMs, func() (kmsg.Response, bool) {
		resp := s.Quorum.Describe(t, req)
		leads := len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 || resp.Topics[0].Partitions[0].ErrorCode != kerr.NotLeaderForPartition.Code
		return resp, leads
	}, func(code int16) kmsg.Response {
		resp := kmsg.NewPtrDescribeQuorumResponse()
		resp.ErrorCode = code
		return resp
	})
}
