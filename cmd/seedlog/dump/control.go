package dump

import (
	"fmt"

	"seedlog/storage/record"
)

// control describes a control record.
func control(r *record.Record) string {
	t, err := record.ParseControlKey(r.Key)
	if err != nil {
		return fmt.Sprintf("controlType: %v", err)
	}
	if t == record.Commit || t == record.Abort {
		m, err := record.ParseEndTxnMarker(r.Key, r.Value)
		if err != nil {
			return fmt.Sprintf("endTxnMarker: %v %v", t, err)
		}
		return fmt.Sprintf("endTxnMarker: %v coordinatorEpoch: %d", m.Type, m.CoordinatorEpoch)
	}
	v, err := record.ParseControlValue(t, r.Value)
	if err != nil {
		return fmt.Sprintf("controlType: %v(%d)", t, int16(t))
	}
	switch v := v.(type) {
	case record.LeaderChangeValue:
		return "LeaderChange: " + toJSON(leaderChange(v))
	case record.SnapshotHeaderValue:
		return "SnapshotHeader " + toJSON(v)
	case record.SnapshotFooterValue:
		return "SnapshotFooter " + toJSON(v)
	case record.KRaftVersionValue:
		return "KRaftVersion " + toJSON(v)
	case record.VotersValue:
		return "KRaftVoters " + toJSON(voters(v))
	}
	return fmt.Sprintf("controlType: %v(%d)", t, int16(t))
}

// The JSON of Kafka's schemas, whose names for the fields of a voter are longer than ours.

type voterID0 struct{ VoterID int32 }

type voterID1 struct {
	VoterID          int32
	VoterDirectoryID [16]byte
}

type leaderChangeJSON struct {
	Version        int16
	LeaderID       int32
	Voters         []any
	GrantingVoters []any
}

func leaderChange(v record.LeaderChangeValue) leaderChangeJSON {
	list := func(voters []record.LeaderChangeVoter) []any {
		out := []any{}
		for _, x := range voters {
			if v.Version >= 1 {
				out = append(out, voterID1{x.ID, x.DirectoryID})
			} else {
				out = append(out, voterID0{x.ID})
			}
		}
		return out
	}
	return leaderChangeJSON{v.Version, v.LeaderID, list(v.Voters), list(v.GrantingVoters)}
}

type votersJSON struct {
	Version int16
	Voters  []voterJSON
}

type voterJSON struct {
	VoterID             int32
	VoterDirectoryID    [16]byte
	Endpoints           []record.VoterEndpoint
	KRaftVersionFeature featureJSON
}

type featureJSON struct{ MinSupportedVersion, MaxSupportedVersion int16 }

func voters(v record.VotersValue) votersJSON {
	out := votersJSON{Version: v.Version, Voters: []voterJSON{}}
	for _, x := range v.Voters {
		out.Voters = append(out.Voters, voterJSON{x.ID, x.DirectoryID, x.Endpoints, featureJSON{x.MinKRaftVersion, x.MaxKRaftVersion}})
	}
	return out
}
