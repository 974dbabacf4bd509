package controller

import (
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock"
	"seedlog/node/meta"
)

// The states of a broker, and what moves it between them:
//
//	fenced --caught up with its registration--> unfenced --wants to stop, leads something--> in controlled shutdown
//	   ^                                           |                                              |
//	   +--- silent, or wants it, or stops and -----+    leads nothing, and every active broker ---+
//	        leads nothing                               has read so: it may stop
//
// A broker in controlled shutdown leads nothing new and is in no ISR. It stays so until it
// registers anew.

// verdict is what a heartbeat comes to.
type verdict uint8

const (
	staysFenced verdict = iota
	staysUnfenced
	staysInShutdown
	becomesFenced
	becomesUnfenced
	beginsShutdown
	mayStop // the broker may stop now
)

// heartbeat renews a session and moves the broker between its states. Version 2 says which
// directories are cordoned (KIP-1066), which no finalized metadata.version can keep yet.
func (s *State) heartbeat(r *kmsg.BrokerHeartbeatRequest, in Input) Decision {
	resp := r.ResponseKind().(*kmsg.BrokerHeartbeatResponse)
	resp.IsFenced = true
	if err := s.checkEpoch(r.BrokerID, r.BrokerEpoch); err != nil {
		resp.ErrorCode = err.code
		return Decision{Response: resp}
	}
	b := s.image.Broker(r.BrokerID)
	x := s.touch(b, r, in.Now)
	resp.IsCaughtUp = x.caughtUp(b, r.CurrentMetadataOffset)
	records := s.offlineDirs(b, r.OfflineLogDirs)
	next := s.after(records)
	b = next.image.Broker(r.BrokerID)
	v := next.judge(b, x, r)
	records = append(records, next.move(b, v)...)
	resp.IsFenced = v == staysFenced || v == becomesFenced || v == mayStop
	resp.ShouldShutdown = v == mayStop
	switch v {
	case beginsShutdown:
		x.shutdownOffset = in.NextOffset + int64(len(records)) - 1
	case becomesFenced, mayStop:
		x.shutdownOffset = -1
	}
	return Decision{Records: records, Response: resp}
}

// touch renews the session of a broker that reports.
func (s *State) touch(b *meta.Broker, r *kmsg.BrokerHeartbeatRequest, now clock.Instant) *session {
	x := s.sessions[b.ID]
	if x == nil || x.epoch != b.Epoch {
		x = newSession(b.Epoch)
		s.sessions[b.ID] = x
	}
	x.heard, x.until, x.offset = true, now.Add(s.sessionTimeout()), r.CurrentMetadataOffset
	return x
}

// judge decides what a report comes to.
func (s *State) judge(b *meta.Broker, x *session, r *kmsg.BrokerHeartbeatRequest) verdict {
	wantsFence := r.WantFence || allOffline(b, r.OfflineLogDirs)
	switch {
	case b.Fenced && r.WantShutdown:
		return mayStop
	case b.Fenced && !wantsFence && x.caughtUp(b, r.CurrentMetadataOffset):
		return becomesUnfenced
	case b.Fenced:
		return staysFenced
	case wantsFence && r.WantShutdown:
		return mayStop
	case wantsFence:
		return becomesFenced
	case b.InControlledShutdown:
		return s.judgeShutdown(b, x)
	case !r.WantShutdown:
		return staysUnfenced
	case s.leads(b.ID):
		return beginsShutdown
	}
	return mayStop
}

// judgeShutdown lets a broker go once it leads nothing and every active one knows.
func (s *State) judgeShutdown(b *meta.Broker, x *session) verdict {
	if s.leads(b.ID) || x.shutdownOffset > s.lowestActiveOffset() {
		return staysInShutdown
	}
	return mayStop
}

// move is what a verdict appends.
func (s *State) move(b *meta.Broker, v verdict) []meta.Record {
	switch v {
	case becomesUnfenced:
		return s.unfence(b)
	case beginsShutdown:
		return s.beginShutdown(b)
	case becomesFenced:
		return s.fence(b)
	case mayStop:
		if !b.Fenced {
			return s.fence(b)
		}
	}
	return nil
}

// fence takes the broker out of leadership and every ISR.
func (s *State) fence(b *meta.Broker) []meta.Record {
	records := s.partitionUpdates(brokerEvent{removed: b.ID, added: -1, unclean: -1}, inISR(b.ID))
	return append(records, s.registrationChange(b, 1, 0))
}

// unfence lets the broker lead what nobody leads.
func (s *State) unfence(b *meta.Broker) []meta.Record {
	records := []meta.Record{s.registrationChange(b, -1, 0)}
	if b.InControlledShutdown { // it is on its way out and may not lead
		return records
	}
	leaderless := func(p *meta.Partition) bool { return p.Leader < 0 && slices.Contains(p.Replicas, b.ID) }
	return append(records, s.partitionUpdates(brokerEvent{removed: -1, added: b.ID, unclean: -1}, leaderless)...)
}

// beginShutdown moves leadership away before the broker stops.
func (s *State) beginShutdown(b *meta.Broker) []meta.Record {
	records := s.partitionUpdates(brokerEvent{removed: b.ID, added: -1, unclean: -1}, inISR(b.ID))
	return append([]meta.Record{s.registrationChange(b, 0, 1)}, records...)
}

func inISR(broker int32) func(*meta.Partition) bool {
	return func(p *meta.Partition) bool { return slices.Contains(p.ISR, broker) }
}

func (s *State) registrationChange(b *meta.Broker, fenced, shutdown int8) meta.Record {
	return meta.Record{Version: meta.BrokerRegistrationChangeVersion(s.image.MetadataVersion()),
		Body: &meta.BrokerRegistrationChangeRecord{BrokerID: b.ID, BrokerEpoch: b.Epoch, Fenced: fenced, InControlledShutdown: shutdown}}
}

func (s *State) leads(broker int32) bool {
	for t := range s.image.Topics() {
		for _, p := range t.Partitions {
			if p.Leader == broker {
				return true
			}
		}
	}
	return false
}

// lowestActiveOffset is how far every active broker has read, as far as they said.
func (s *State) lowestActiveOffset() int64 {
	lowest := int64(math.MaxInt64)
	for b := range s.image.Brokers() {
		if x := s.sessions[b.ID]; b.Active() && x != nil {
			lowest = min(lowest, x.offset)
		}
	}
	return lowest
}
