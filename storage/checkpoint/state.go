package checkpoint

import (
	"bytes"
	"encoding/json"
	"strconv"

	"seedlog/clock/task"
	"seedlog/disk"
)

// NoBrokerEpoch is the epoch of a clean-shutdown marker that names none.
const NoBrokerEpoch = -1

// EncodeCleanShutdown is the marker of a clean stop under a broker epoch.
func EncodeCleanShutdown(brokerEpoch int64) []byte {
	return []byte(`{"version":0,"brokerEpoch":` + strconv.FormatInt(brokerEpoch, 10) + `}`)
}

// ParseCleanShutdown reads the broker epoch from a marker. Old ones are empty and mean a
// clean stop too: NoBrokerEpoch.
func ParseCleanShutdown(b []byte) (int64, error) {
	if len(b) == 0 {
		return NoBrokerEpoch, nil
	}
	var m struct {
		Version     *int   `json:"version"`
		BrokerEpoch *int64 `json:"brokerEpoch"`
	}
	if err := parseJSON(b, &m); err != nil {
		return 0, err
	}
	switch {
	case m.Version == nil || *m.Version < 0:
		return 0, damaged(0, "there is no version")
	case m.BrokerEpoch == nil:
		return NoBrokerEpoch, nil
	case *m.BrokerEpoch < NoBrokerEpoch:
		return 0, damaged(0, "broker epoch %d", *m.BrokerEpoch)
	}
	return *m.BrokerEpoch, nil
}

// ReadCleanShutdown reads a clean-shutdown marker, or returns disk.ErrNotExist.
func ReadCleanShutdown(t *task.T, d disk.Disk, name string) (brokerEpoch int64, err error) {
	return parseFile(t, d, name, maxSmallBytes, ParseCleanShutdown)
}

// WriteCleanShutdown replaces a clean-shutdown marker.
func WriteCleanShutdown(t *task.T, d disk.Disk, name string, brokerEpoch int64) error {
	return Replace(t, d, name, EncodeCleanShutdown(brokerEpoch))
}

// QuorumState is what a voter must not forget.
type QuorumState struct {
	// DataVersion is 0 under kraft.version 0, whose voters are static, and 1 above.
	DataVersion int16
	LeaderID    int32 // -1: unknown
	LeaderEpoch int32
	VotedID     int32 // -1: none
	// VotedDirectoryID is only kept in version 1.
	VotedDirectoryID UUID
	// Voters are only kept in version 0.
	Voters []int32
}

// EncodeQuorumState is the file of s, one line of JSON without its end.
func EncodeQuorumState(s QuorumState) []byte {
	b := []byte(`{`)
	if s.DataVersion == 0 {
		b = append(b, `"clusterId":"",`...)
	}
	field := func(name string, v int64) {
		b = append(b, '"')
		b = append(b, name...)
		b = append(b, `":`...)
		b = strconv.AppendInt(b, v, 10)
		b = append(b, ',')
	}
	field("leaderId", int64(s.LeaderID))
	field("leaderEpoch", int64(s.LeaderEpoch))
	field("votedId", int64(s.VotedID))
	if s.DataVersion == 0 {
		field("appliedOffset", 0)
		b = append(b, `"currentVoters":[`...)
		for i, v := range s.Voters {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, `{"voterId":`...)
			b = strconv.AppendInt(b, int64(v), 10)
			b = append(b, '}')
		}
		b = append(b, `],`...)
	} else {
		b = append(b, `"votedDirectoryId":"`+FormatUUID(s.VotedDirectoryID)+`",`...)
	}
	b = append(b, `"data_version":`...)
	b = strconv.AppendInt(b, int64(s.DataVersion), 10)
	return append(b, '}')
}

// quorumJSON has a pointer for each field that must be there.
type quorumJSON struct {
	DataVersion      *int16  `json:"data_version"`
	ClusterID        *string `json:"clusterId"`
	LeaderID         *int32  `json:"leaderId"`
	LeaderEpoch      *int32  `json:"leaderEpoch"`
	VotedID          *int32  `json:"votedId"`
	VotedDirectoryID *string `json:"votedDirectoryId"`
	AppliedOffset    *int64  `json:"appliedOffset"`
	CurrentVoters    []struct {
		VoterID *int32 `json:"voterId"`
	} `json:"currentVoters"`
}

// ParseQuorumState reads such a file.
func ParseQuorumState(b []byte) (s QuorumState, err error) {
	var q quorumJSON
	if err := parseJSON(b, &q); err != nil {
		return s, err
	}
	switch {
	case q.DataVersion == nil:
		return s, damaged(0, "there is no data_version")
	case *q.DataVersion != 0 && *q.DataVersion != 1:
		return s, damaged(0, "data_version %d; known are 0 and 1", *q.DataVersion)
	case q.LeaderID == nil || q.LeaderEpoch == nil || q.VotedID == nil:
		return s, damaged(0, "leaderId, leaderEpoch or votedId is missing")
	case *q.LeaderID < -1 || *q.LeaderEpoch < -1 || *q.VotedID < -1:
		return s, damaged(0, "leader %d, epoch %d, voted %d", *q.LeaderID, *q.LeaderEpoch, *q.VotedID)
	}
	s = QuorumState{DataVersion: *q.DataVersion, LeaderID: *q.LeaderID, LeaderEpoch: *q.LeaderEpoch, VotedID: *q.VotedID}
	if s.DataVersion == 1 {
		if q.VotedDirectoryID == nil {
			return QuorumState{}, damaged(0, "votedDirectoryId is missing")
		}
		if s.VotedDirectoryID, err = ParseUUID(*q.VotedDirectoryID); err != nil {
			return QuorumState{}, damaged(0, "votedDirectoryId: %v", err)
		}
		return s, nil
	}
	if q.ClusterID == nil || q.AppliedOffset == nil {
		return QuorumState{}, damaged(0, "clusterId or appliedOffset is missing")
	}
	for _, v := range q.CurrentVoters {
		if v.VoterID == nil || *v.VoterID < 0 {
			return QuorumState{}, damaged(0, "a voter without an id")
		}
		s.Voters = append(s.Voters, *v.VoterID)
	}
	return s, nil
}

// ReadQuorumState reads a quorum-state file, or returns disk.ErrNotExist.
func ReadQuorumState(t *task.T, d disk.Disk, name string) (QuorumState, error) {
	return parseFile(t, d, name, maxSmallBytes, ParseQuorumState)
}

// WriteQuorumState replaces a quorum-state file.
func WriteQuorumState(t *task.T, d disk.Disk, name string, s QuorumState) error {
	return Replace(t, d, name, EncodeQuorumState(s))
}

// parseJSON reads one JSON object and nothing after it. Unknown fields are ignored.
func parseJSON(b []byte, v any) error {
	if b = bytes.TrimSpace(b); len(b) == 0 || b[0] != '{' {
		return damaged(0, "not a JSON object: %q", clip(string(b)))
	}
	if err := json.Unmarshal(b, v); err != nil {
		return damaged(0, "%v: %q", err, clip(string(b)))
	}
	return nil
}
