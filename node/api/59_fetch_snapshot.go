package api

// FetchSnapshot: a part of a snapshot of the metadata log.
//
//	0  by topic name     1  the replica's directory; the leader's endpoint (KIP-853)

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
)

func (s *Service) fetchSnapshot(t *task.T, r *conn.Request, req *kmsg.FetchSnapshotRequest) kmsg.Response {
	return s.Quorum.FetchSnapshot(t, req, r.Conn.Listener())
}
