package quorum

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/node/meta"
	"seedlog/node/raft"
	"seedlog/storage/checkpoint"
)

// snapshotMaxBytes is the largest snapshot that is read.
const snapshotMaxBytes = 1 << 31

func parentOf(path string) string {
	i := strings.LastIndexByte(strings.TrimRight(path, "/"), '/')
	switch {
	case i < 0:
		return "."
	case i == 0:
		return "/"
	}
	return path[:i]
}

// snapshotID names a snapshot: all below end, in which epoch is the last.
type snapshotID struct {
	end   int64
	epoch int32
}

func (id snapshotID) name() string { return SnapshotName(id.end, id.epoch) }

func idOf(id raft.SnapshotID) snapshotID { return snapshotID{id.EndOffset, id.Epoch} }

func compareSnapshots(a, b snapshotID) int {
	return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.epoch, b.epoch))
}

// listSnapshots lists the snapshots in a directory, oldest first, and removes what writing
// or fetching one left behind.
func listSnapshots(t *task.T, d disk.Disk, path string) ([]snapshotID, error) {
	infos, err := d.ReadDir(t, path)
	if err != nil {
		return nil, err
	}
	var out []snapshotID
	for _, in := range infos {
		if strings.HasSuffix(in.Name, snapshotSuffix+".tmp") || strings.HasSuffix(in.Name, partSuffix) {
			if err := d.Remove(t, path+"/"+in.Name); err != nil {
				return nil, err
			}
		}
		if end, epoch, ok := ParseSnapshotName(in.Name); ok && !in.Dir {
			out = append(out, snapshotID{end, epoch})
		}
	}
	slices.SortFunc(out, compareSnapshots)
	return out, nil
}

// readFile reads a whole file.
func readFile(t *task.T, d disk.Disk, path string) ([]byte, error) {
	f, err := d.Open(t, path, disk.Read)
	if err != nil {
		return nil, err
	}
	size, err := f.Size(t)
	if err == nil && size > snapshotMaxBytes {
		err = fmt.Errorf("%w: %d bytes", ErrSnapshot, size)
	}
	var b []byte
	if err == nil {
		b = make([]byte, size)
		var n int
		if n, err = f.ReadAt(t, b, 0); errors.Is(err, io.EOF) && int64(n) == size {
			err = nil
		}
	}
	if cerr := f.Close(t); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

func readSnapshot(t *task.T, d disk.Disk, path string) (*Snapshot, error) {
	b, err := readFile(t, d, path)
	if err != nil {
		return nil, err
	}
	s, err := ParseSnapshot(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// readBootstrap reads the records that a new cluster begins with, from beside the metadata
// log; directories without the file get those of this version.
func readBootstrap(t *task.T, d disk.Disk, dir string) ([]meta.Record, error) {
	s, err := readSnapshot(t, d, dir+"/"+bootstrapFile)
	if errors.Is(err, disk.ErrNotExist) {
		return meta.BootstrapRecords(), nil
	}
	if err != nil {
		return nil, err
	}
	// The level of kraft.version is the quorum's own matter and not in the image.
	return slices.DeleteFunc(s.Records, func(r meta.Record) bool {
		f, ok := r.Body.(*meta.FeatureLevelRecord)
		return ok && f.Name == meta.KRaftVersionFeature
	}), nil
}

func readElection(t *task.T, d disk.Disk, path string) (raft.ElectionState, error) {
	s, err := checkpoint.ReadQuorumState(t, d, path+"/"+quorumStateFile)
	if errors.Is(err, disk.ErrNotExist) {
		return raft.NoElection(), nil
	}
	if err != nil {
		return raft.ElectionState{}, err
	}
	return raft.ElectionState{
		Epoch: max(s.LeaderEpoch, 0), LeaderID: s.LeaderID, Voted: raft.ReplicaKey{ID: s.VotedID, Directory: s.VotedDirectoryID},
	}, nil
}

// writeElection makes an election state durable. Under kraft.version 0 the file names the
// static voters.
func (h *Host) writeElection(t *task.T, e raft.ElectionState) error {
	s := checkpoint.QuorumState{LeaderID: e.LeaderID, LeaderEpoch: e.Epoch, VotedID: e.Voted.ID}
	if h.core.KRaftVersion() > 0 {
		s.DataVersion, s.VotedDirectoryID = 1, e.Voted.Directory
	} else {
		for _, v := range h.core.Voters() {
			s.Voters = append(s.Voters, v.Key.ID)
		}
	}
	return checkpoint.WriteQuorumState(t, h.env.Disk, h.path+"/"+quorumStateFile, s)
}
