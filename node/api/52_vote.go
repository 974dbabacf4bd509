package api

// Vote: a candidate of the metadata quorum asks for a vote.
//
//	0  flexible     1  which voter it is for, directories; the leader's endpoint (KIP-853)
//	2  pre-vote (KIP-996)

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
)

func (s *Service) vote(t *task.T, r *conn.Request, req *kmsg.VoteRequest) kmsg.Response {
	return s.Quorum.Vote(t, req, r.Conn.Listener())
}
