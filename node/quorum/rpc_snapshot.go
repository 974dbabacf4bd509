package quorum

// FetchSnapshot: a part of a snapshot, by its position in the file.
//
//	0  by the topic's name     1  the replica's directory; the leader's endpoint

import (
	"errors"
	"fmt"
	"io"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/node/raft"
)

func (h *Host) fetchSnapshotRequest(order *raft.Install, at int64) kmsg.Request {
	p := kmsg.NewFetchSnapshotRequestTopicPartition()
	p.CurrentLeaderEpoch, p.Position, p.ReplicaDirectoryID = order.Epoch, at, h.self.Directory
	p.SnapshotID.EndOffset, p.SnapshotID.Epoch = order.ID.EndOffset, order.ID.Epoch
	topic := kmsg.NewFetchSnapshotRequestTopic()
	topic.Topic, topic.Partitions = ClusterMetadata, []kmsg.FetchSnapshotRequestTopicPartition{p}
	r := kmsg.NewPtrFetchSnapshotRequest()
	r.Version, r.ClusterID, r.ReplicaID, r.MaxBytes = fetchSnapshotVersion, &h.cfg.Identity.ClusterID, h.self.ID, pieceMaxBytes
	r.Topics = append(r.Topics, topic)
	return r
}

// piece is a part of a snapshot; bytes lie in the connection's buffer.
type piece struct {
	bytes []byte
	size  int64 // of the snapshot
	reply raft.Reply
}

// parsePiece reads the answer to a request for the piece at a position. The reply is told
// even with an error, if there is one: the node may not lead any more.
func (h *Host) parsePiece(resp kmsg.Response, id raft.SnapshotID, at int64) (piece, error) {
	r, _ := resp.(*kmsg.FetchSnapshotResponse)
	p := oneTopic(r.Topics, func(t *kmsg.FetchSnapshotResponseTopic) (string, []kmsg.FetchSnapshotResponseTopicPartition) {
		return t.Topic, t.Partitions
	}, func(p *kmsg.FetchSnapshotResponseTopicPartition) int32 { return p.Partition })
	if r.ErrorCode != 0 || p == nil {
		return piece{reply: failure(r.ErrorCode)}, fmt.Errorf("%w: %w", errDownload, errAnswer(r.ErrorCode))
	}
	out := piece{bytes: p.Bytes, size: p.Size}
	out.reply = raft.Reply{Code: p.ErrorCode, Epoch: p.CurrentLeader.LeaderEpoch, LeaderID: p.CurrentLeader.LeaderID, HighWatermark: -1}
	out.reply.Endpoints = leaderAmong(h, out.reply.LeaderID, r.NodeEndpoints)
	got := raft.SnapshotID{EndOffset: p.SnapshotID.EndOffset, Epoch: p.SnapshotID.Epoch}
	switch {
	case p.ErrorCode != 0:
		return out, fmt.Errorf("%w: %w", errDownload, errAnswer(p.ErrorCode))
	case got != id || p.Position != at:
		return out, fmt.Errorf("%w: position %d of %v where %d of %v was asked", errDownload, p.Position, got, at, id)
	case p.Size > snapshotMaxBytes || len(p.Bytes) == 0 || at+int64(len(p.Bytes)) > p.Size:
		return out, fmt.Errorf("%w: %d bytes at position %d of %d", errDownload, len(p.Bytes), at, p.Size)
	}
	return out, nil
}

// FetchSnapshot answers a request that came through listener.
func (h *Host) FetchSnapshot(t *task.T, req *kmsg.FetchSnapshotRequest, listener string) *kmsg.FetchSnapshotResponse {
	resp := kmsg.NewPtrFetchSnapshotResponse()
	if h.foreign(req.ClusterID) {
		resp.ErrorCode = kerr.InconsistentClusterID.Code
		return resp
	}
	if len(req.Topics) != 1 || len(req.Topics[0].Partitions) != 1 {
		resp.ErrorCode = kerr.InvalidRequest.Code
		return resp
	}
	asked := &req.Topics[0].Partitions[0]
	out := kmsg.NewFetchSnapshotResponseTopicPartition()
	out.Partition = asked.Partition
	topic := kmsg.NewFetchSnapshotResponseTopic()
	topic.Topic = req.Topics[0].Topic
	if topic.Topic != ClusterMetadata || asked.Partition != 0 {
		out.ErrorCode = kerr.UnknownTopicOrPartition.Code
		topic.Partitions = append(topic.Partitions, out)
		resp.Topics = append(resp.Topics, topic)
		return resp
	}
	id := raft.SnapshotID{EndOffset: asked.SnapshotID.EndOffset, Epoch: asked.SnapshotID.Epoch}
	reply, _, ok := h.ask(t, raft.FetchSnapshot{
		Epoch: asked.CurrentLeaderEpoch, Replica: key(req.ReplicaID, asked.ReplicaDirectoryID), Snapshot: id, Position: asked.Position,
	}, 0)
	if !ok {
		resp.ErrorCode = kerr.BrokerNotAvailable.Code
		return resp
	}
	out.ErrorCode, out.CurrentLeader.LeaderID, out.CurrentLeader.LeaderEpoch = reply.Code, reply.LeaderID, reply.Epoch
	if reply.Code == 0 {
		h.addPiece(t, &out, id, asked.Position, req.MaxBytes)
	}
	topic.Partitions = append(topic.Partitions, out)
	resp.Topics = append(resp.Topics, topic)
	if req.Version >= 1 {
		resp.NodeEndpoints = leaderNode[kmsg.FetchSnapshotResponseNodeEndpoint](h, listener, reply)
	}
	return resp
}

// addPiece reads a piece of a snapshot's file. The file may be removed meanwhile, for a newer
// one took its place; the asker begins anew. Formatting's 0-0 is not given away: what it says
// is in the log.
func (h *Host) addPiece(t *task.T, out *kmsg.FetchSnapshotResponseTopicPartition, id raft.SnapshotID, at int64, maxBytes int32) {
	out.SnapshotID.EndOffset, out.SnapshotID.Epoch, out.Position = id.EndOffset, id.Epoch, at
	b, size, err := h.readPiece(t, idOf(id), at, int(min(max(maxBytes, 1), pieceMaxBytes)))
	switch {
	case errors.Is(err, disk.ErrNotExist):
		out.ErrorCode = kerr.SnapshotNotFound.Code
	case errors.Is(err, errPosition):
		out.ErrorCode = kerr.PositionOutOfRange.Code
	case err != nil:
		out.ErrorCode = kerr.KafkaStorageError.Code
	default:
		out.Bytes, out.Size = b, size
	}
}

var errPosition = errors.New("position is not in the snapshot")

func (h *Host) readPiece(t *task.T, id snapshotID, at int64, max int) (b []byte, size int64, err error) {
	if id.end == 0 {
		return nil, 0, disk.ErrNotExist
	}
	f, err := h.env.Disk.Open(t, h.path+"/"+id.name(), disk.Read)
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if cerr := f.Close(t); err == nil {
			err = cerr
		}
	}()
	if size, err = f.Size(t); err != nil {
		return nil, 0, err
	}
	if at < 0 || at >= size {
		return nil, 0, errPosition
	}
	b = make([]byte, min(int64(max), size-at))
	if n, err := f.ReadAt(t, b, at); n < len(b) || err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, fmt.Errorf("%w: %d bytes of %d at %d", disk.ErrIO, n, len(b), at)
	}
	return b, size, nil
}
