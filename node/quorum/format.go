package quorum

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"seedlog/node/meta"
	"seedlog/storage/record"
)

// ParseInitialVoters reads a list of voters as Kafka's tools take it,
// id@host:port:directoryId,..., with the directory ids in base64. listener is the name of
// their controller listener. A voter that is named twice, or a directory id that cannot be
// one, is an error.
func ParseInitialVoters(text, listener string) ([]record.Voter, error) {
	var out []record.Voter
	for _, e := range strings.Split(text, ",") {
		v, err := parseVoter(strings.TrimSpace(e), listener)
		if err != nil {
			return nil, fmt.Errorf("initial controller %q: %w", e, err)
		}
		same := func(o record.Voter) bool { return o.ID == v.ID || o.DirectoryID == v.DirectoryID }
		if slices.ContainsFunc(out, same) {
			return nil, fmt.Errorf("initial controller %q: its node id or its directory id is named twice", e)
		}
		out = append(out, v)
	}
	return out, nil
}

func parseVoter(text, listener string) (record.Voter, error) {
	form := fmt.Errorf("write id@host:port:directoryId")
	idText, rest, ok := strings.Cut(text, "@")
	colon := strings.LastIndexByte(rest, ':')
	if !ok || colon < 0 {
		return record.Voter{}, form
	}
	id, err := strconv.ParseInt(idText, 10, 32)
	if err != nil || id < 0 {
		return record.Voter{}, fmt.Errorf("%q is not a node id", idText)
	}
	dir, err := meta.ParseUUID(rest[colon+1:])
	if err != nil {
		return record.Voter{}, fmt.Errorf("directory id: %w", err)
	}
	if meta.ReservedUUID(dir) {
		return record.Voter{}, fmt.Errorf("directory id %s is reserved", rest[colon+1:])
	}
	addr := rest[:colon]
	colon = strings.LastIndexByte(addr, ':')
	if colon <= 0 {
		return record.Voter{}, form
	}
	port, err := strconv.ParseUint(addr[colon+1:], 10, 16)
	if err != nil || port == 0 {
		return record.Voter{}, fmt.Errorf("%q is not a port", addr[colon+1:])
	}
	host := strings.TrimSuffix(strings.TrimPrefix(addr[:colon], "["), "]")
	return record.Voter{ID: int32(id), DirectoryID: dir, MaxKRaftVersion: meta.KRaftVersion,
		Endpoints: []record.VoterEndpoint{{Name: listener, Host: host, Port: uint16(port)}}}, nil
}
