package controller

import (
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/node/meta"
)

// producerIDBlock is how many producer ids a broker is given at once.
const producerIDBlock = 1000

// allocateProducerIDs gives a broker the next block.
func (s *State) allocateProducerIDs(r *kmsg.AllocateProducerIDsRequest) Decision {
	resp := r.ResponseKind().(*kmsg.AllocateProducerIDsResponse)
	if err := s.checkEpoch(r.BrokerID, r.BrokerEpoch); err != nil {
		resp.ErrorCode = err.code
		return Decision{Response: resp}
	}
	first := s.image.NextProducerID()
	if first > math.MaxInt64-producerIDBlock {
		resp.ErrorCode = kerr.UnknownServerError.Code
		return Decision{Response: resp}
	}
	resp.ProducerIDStart, resp.ProducerIDLen = first, producerIDBlock
	record := &meta.ProducerIdsRecord{BrokerID: r.BrokerID, BrokerEpoch: r.BrokerEpoch, NextProducerID: first + producerIDBlock}
	return Decision{Records: []meta.Record{{Body: record}}, Response: resp}
}

// registerController keeps where a controller listens and what it supports (KIP-919).
func (s *State) registerController(r *kmsg.ControllerRegistrationRequest) Decision {
	resp := r.ResponseKind().(*kmsg.ControllerRegistrationResponse)
	record := &meta.RegisterControllerRecord{ControllerID: r.ControllerID, IncarnationID: r.IncarnationID, ZkMigrationReady: r.ZkMigrationReady}
	for _, l := range r.Listeners {
		record.Endpoints = append(record.Endpoints, meta.Endpoint{Name: l.Name, Host: l.Host, Port: l.Port, SecurityProtocol: l.SecurityProtocol})
	}
	for _, f := range r.Features {
		record.Features = append(record.Features, meta.FeatureRange{Name: f.Name, Min: f.MinSupportedVersion, Max: f.MaxSupportedVersion})
	}
	return Decision{Records: []meta.Record{{Body: record}}, Response: resp}
}

// newID draws a topic id: a random UUID of version 4 whose text does not begin with a dash,
// which a command line would take for a flag.
func newID(rnd *rand.Rand) meta.UUID {
	for {
		var id meta.UUID
		for i := 0; i < len(id); i += 8 {
			v := rnd.Uint64()
			for j := range 8 {
				id[i+j] = byte(v >> (8 * j))
			}
		}
		id[6] = id[6]&0x0f | 0x40
		id[8] = id[8]&0x3f | 0x80
		if id[0]>>2 != 62 {
			return id
		}
	}
}

func decimal[N int16 | int32 | int64 | int](n N) string { return strconv.FormatInt(int64(n), 10) }
