package controller

import (
	"cmp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock"
	"seedlog/node/meta"
)

// session is what the active controller knows of a broker beside its registration. It is
// not replicated: a new controller gives every broker a fresh one.
type session struct {
	epoch int64
	// until is when a silent broker is fenced.
	until clock.Instant
	// heard: this controller has heard from this incarnation of the broker.
	heard bool
	// offset is how far the broker has read the metadata log, as it said.
	offset int64
	// shutdownOffset: the broker may stop once every active one has read this far; -1 while
	// it does not want to.
	shutdownOffset int64
}

func (s *State) sessionTimeout() time.Duration {
	return time.Duration(s.static.BrokerSessionTimeoutMs) * time.Millisecond
}

// Activate begins a term as the active controller: every broker gets a fresh session, and
// the records are those that the log needs first: an abandoned metadata transaction is
// aborted, and an empty log gets the bootstrap records.
func (s *State) Activate(now clock.Instant, bootstrap []meta.Record) []meta.Record {
	s.sessions = make(map[int32]*session)
	for b := range s.image.Brokers() {
		s.sessions[b.ID] = &session{epoch: b.Epoch, until: now.Add(s.sessionTimeout()), shutdownOffset: -1}
	}
	var out []meta.Record
	if s.image.InTransaction() {
		reason := "Controller failover"
		out = append(out, meta.Record{Body: &meta.AbortTransactionRecord{Reason: &reason}})
	}
	if s.image.MetadataVersion() == 0 {
		name := "Bootstrap records"
		out = append(out, meta.Record{Body: &meta.BeginTransactionRecord{Name: &name}})
		out = append(out, bootstrap...)
		out = append(out, s.elrRecords(bootstrap)...)
		out = append(out, meta.Record{Body: &meta.EndTransactionRecord{}})
	}
	return out
}

// elrRecords are what eligible leader replicas need of the configuration: one value of
// min.insync.replicas for the whole cluster.
func (s *State) elrRecords(bootstrap []meta.Record) []meta.Record {
	for _, r := range bootstrap {
		f, ok := r.Body.(*meta.FeatureLevelRecord)
		if ok && f.Name == meta.ELRVersionFeature && f.FeatureLevel > 0 {
			value := decimal(s.defaults.MinInsyncReplicas)
			return []meta.Record{{Body: &meta.ConfigRecord{ResourceType: meta.BrokerResource, Name: minISRName, Value: &value}}}
		}
	}
	return nil
}

// Expire fences the brokers whose session ended. next is when to look again.
func (s *State) Expire(now clock.Instant) (records []meta.Record, next clock.Instant) {
	next = clock.Never
	for b := range s.image.Brokers() {
		x := s.sessions[b.ID]
		if x == nil || b.Fenced {
			continue
		}
		if now < x.until {
			next = min(next, x.until)
			continue
		}
		return s.fence(b), now // one at a time: the next decision sees the first
	}
	return nil, next
}

// fence takes the broker out of leadership and every ISR.
func (s *State) fence(b *meta.Broker) []meta.Record {
	records := s.partitionUpdates(brokerEvent{removed: b.ID, added: -1, unclean: -1}, inISR(b.ID))
	return append(records, s.registrationChange(b, 1, 0))
}

func inISR(broker int32) func(*meta.Partition) bool {
	return func(p *meta.Partition) bool { return slices.Contains(p.ISR, broker) }
}

func (s *State) registrationChange(b *meta.Broker, fenced, shutdown int8) meta.Record {
	return meta.Record{Version: meta.BrokerRegistrationChangeVersion(s.image.MetadataVersion()),
		Body: &meta.BrokerRegistrationChangeRecord{BrokerID: b.ID, BrokerEpoch: b.Epoch, Fenced: fenced, InControlledShutdown: shutdown}}
}

// registerBroker gives a new incarnation of a broker its epoch, which is the offset of its
// registration.
func (s *State) registerBroker(r *kmsg.BrokerRegistrationRequest, in Input) Decision {
	resp := r.ResponseKind().(*kmsg.BrokerRegistrationResponse)
	resp.BrokerEpoch = -1
	if err := s.checkRegistration(r, in.Now); err != nil {
		resp.ErrorCode = err.code
		return Decision{Response: resp}
	}
	old := s.image.Broker(r.BrokerID)
	record := &meta.RegisterBrokerRecord{BrokerID: r.BrokerID, IncarnationID: r.IncarnationID, Rack: r.Rack, LogDirs: slices.Clone(r.LogDirs), Fenced: true}
	for _, l := range r.Listeners {
		record.Endpoints = append(record.Endpoints, meta.Endpoint{Name: l.Name, Host: l.Host, Port: l.Port, SecurityProtocol: l.SecurityProtocol})
	}
	for _, f := range r.Features {
		record.Features = append(record.Features, meta.FeatureRange{Name: f.Name, Min: f.MinSupportedVersion, Max: f.MaxSupportedVersion})
	}
	var records []meta.Record
	if old != nil && old.IncarnationID == r.IncarnationID {
		record.BrokerEpoch, record.Fenced, record.InControlledShutdown = old.Epoch, old.Fenced, old.InControlledShutdown
	} else {
		records = s.stopped(r.BrokerID, old != nil && old.Epoch == r.PreviousBrokerEpoch)
		record.BrokerEpoch = in.NextOffset + int64(len(records))
	}
	records = append(records, meta.Record{Version: meta.RegisterBrokerVersion(s.image.MetadataVersion()), Body: record})
	s.sessions[r.BrokerID] = &session{epoch: record.BrokerEpoch, until: in.Now.Add(s.sessionTimeout()), heard: true, offset: -1, shutdownOffset: -1}
	resp.BrokerEpoch = record.BrokerEpoch
	return Decision{Records: records, Response: resp}
}

// stopped is what the end of an incarnation means for its partitions. One that stopped
// uncleanly may have lost what it acknowledged: it is not eligible any more.
func (s *State) stopped(broker int32, cleanly bool) []meta.Record {
	if cleanly || !s.elrEnabled() {
		return s.partitionUpdates(brokerEvent{removed: broker, added: -1, unclean: -1}, inISR(broker))
	}
	return s.partitionUpdates(brokerEvent{removed: -1, added: -1, unclean: broker}, func(p *meta.Partition) bool {
		return slices.Contains(p.ISR, broker) || slices.Contains(p.ELR, broker)
	})
}

func (s *State) checkRegistration(r *kmsg.BrokerRegistrationRequest, now clock.Instant) *apiError {
	if r.ClusterID != s.clusterID {
		return failf(kerr.InconsistentClusterID, "")
	}
	old := s.image.Broker(r.BrokerID)
	if old != nil && old.IncarnationID != r.IncarnationID && s.alive(old, r, now) {
		return failf(kerr.DuplicateBrokerRegistration, "")
	}
	if r.IsMigratingZkBroker {
		return failf(kerr.BrokerIDNotRegistered, "")
	}
	return cmp.Or(s.checkDirectories(r), s.checkFeatures(r))
}

// alive reports whether the registered incarnation may still run. A session counts, unless
// this controller never heard of that incarnation and the new one holds one of its log
// directories: a directory is locked by its process, so the old one is gone. That is how a
// lone node comes back without waiting for the session of its former self.
func (s *State) alive(old *meta.Broker, r *kmsg.BrokerRegistrationRequest, now clock.Instant) bool {
	x := s.sessions[old.ID]
	if x == nil || old.Fenced || now >= x.until {
		return false
	}
	holds := slices.ContainsFunc(r.LogDirs, func(d [16]byte) bool { return slices.Contains(old.LogDirs, d) })
	return x.heard || !holds
}

func (s *State) checkDirectories(r *kmsg.BrokerRegistrationRequest) *apiError {
	if len(r.LogDirs) == 0 {
		return failf(kerr.InvalidRegistration, "")
	}
	for i, d := range r.LogDirs {
		if reservedDir(d) || slices.Contains(r.LogDirs[:i], d) {
			return failf(kerr.InvalidRegistration, "")
		}
	}
	for b := range s.image.Brokers() {
		for _, d := range b.LogDirs {
			if b.ID != r.BrokerID && slices.Contains(r.LogDirs, d) {
				return failf(kerr.InvalidRegistration, "")
			}
		}
	}
	return nil
}

// checkFeatures refuses a broker that does not know a finalized level.
func (s *State) checkFeatures(r *kmsg.BrokerRegistrationRequest) *apiError {
	for name, level := range s.image.Features() {
		ok := false
		for _, f := range r.Features {
			ok = ok || f.Name == name && f.MinSupportedVersion <= level && level <= f.MaxSupportedVersion
		}
		if !ok {
			return failf(kerr.UnsupportedVersion, "")
		}
	}
	return nil
}

// checkEpoch fences requests of former incarnations.
func (s *State) checkEpoch(broker int32, epoch int64) *apiError {
	b := s.image.Broker(broker)
	if b == nil {
		return failf(kerr.BrokerIDNotRegistered, "")
	}
	if b.Epoch != epoch {
		return failf(kerr.StaleBrokerEpoch, "")
	}
	return nil
}

// heartbeat renews a session and moves the broker between fenced, unfenced and controlled
// shutdown.
func (s *State) heartbeat(r *kmsg.BrokerHeartbeatRequest, in Input) Decision {
	resp := r.ResponseKind().(*kmsg.BrokerHeartbeatResponse)
	resp.IsFenced = true
	if err := s.checkEpoch(r.BrokerID, r.BrokerEpoch); err != nil {
		resp.ErrorCode = err.code
		return Decision{Response: resp}
	}
	b := s.image.Broker(r.BrokerID)
	x := s.touch(b, r, in.Now)
	records := s.offlineDirs(b, r.OfflineLogDirs)
	switch {
	case b.Fenced:
		resp.ShouldShutdown = r.WantShutdown
		if !r.WantShutdown && !r.WantFence && r.CurrentMetadataOffset >= b.Epoch {
			records = append(records, s.unfence(b)...)
			resp.IsFenced = false
		}
	case r.WantShutdown:
		records = append(records, s.shutDown(b, x, resp)...)
	case r.WantFence:
		records = append(records, s.fence(b)...)
	default:
		resp.IsFenced = false
	}
	resp.IsCaughtUp = r.CurrentMetadataOffset >= b.Epoch
	return Decision{Records: records, Response: resp}
}

func (s *State) touch(b *meta.Broker, r *kmsg.BrokerHeartbeatRequest, now clock.Instant) *session {
	x := s.sessions[b.ID]
	if x == nil || x.epoch != b.Epoch {
		x = &session{epoch: b.Epoch, shutdownOffset: -1}
		s.sessions[b.ID] = x
	}
	x.heard, x.until, x.offset = true, now.Add(s.sessionTimeout()), r.CurrentMetadataOffset
	return x
}

func (s *State) unfence(b *meta.Broker) []meta.Record {
	if b.InControlledShutdown { // it is on its way out and may not lead
		return []meta.Record{s.registrationChange(b, -1, 0)}
	}
	leaderless := func(p *meta.Partition) bool { return p.Leader < 0 && slices.Contains(p.Replicas, b.ID) }
	return append([]meta.Record{s.registrationChange(b, -1, 0)},
		s.partitionUpdates(brokerEvent{removed: -1, added: b.ID, unclean: -1}, leaderless)...)
}

// shutDown moves leadership away and lets the broker go once it leads nothing and every
// active broker has seen so.
func (s *State) shutDown(b *meta.Broker, x *session, resp *kmsg.BrokerHeartbeatResponse) []meta.Record {
	resp.IsFenced = false
	leads := s.leads(b.ID)
	switch {
	case !b.InControlledShutdown && !leads:
		resp.ShouldShutdown = true
		return nil
	case !b.InControlledShutdown:
		x.shutdownOffset = s.image.Offset + 1
		records := s.partitionUpdates(brokerEvent{removed: b.ID, added: -1, unclean: -1}, inISR(b.ID))
		return append([]meta.Record{s.registrationChange(b, 0, 1)}, records...)
	}
	resp.ShouldShutdown = !leads && x.shutdownOffset <= s.lowestActiveOffset()
	return nil
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
	lowest := s.image.Offset
	for b := range s.image.Brokers() {
		if x := s.sessions[b.ID]; b.Active() && x != nil {
			lowest = min(lowest, x.offset)
		}
	}
	return lowest
}

// offlineDirs takes the replicas of directories that failed out of leadership.
func (s *State) offlineDirs(b *meta.Broker, offline [][16]byte) []meta.Record {
	online := slices.DeleteFunc(slices.Clone(b.LogDirs), func(d meta.UUID) bool { return slices.Contains(offline, d) })
	if len(online) == len(b.LogDirs) || len(online) == 0 {
		return nil
	}
	records := s.partitionUpdates(brokerEvent{removed: b.ID, added: -1, unclean: -1}, func(p *meta.Partition) bool {
		at := slices.Index(p.Replicas, b.ID)
		return slices.Contains(p.ISR, b.ID) && at >= 0 && at < len(p.Directories) && slices.Contains(offline, p.Directories[at])
	})
	return append(records, meta.Record{Version: meta.BrokerRegistrationChangeVersion(s.image.MetadataVersion()),
		Body: &meta.BrokerRegistrationChangeRecord{BrokerID: b.ID, BrokerEpoch: b.Epoch, LogDirs: online}})
}

func (s *State) unregisterBroker(r *kmsg.UnregisterBrokerRequest) Decision {
	resp := r.ResponseKind().(*kmsg.UnregisterBrokerResponse)
	b := s.image.Broker(r.BrokerID)
	if b == nil {
		err := failf(kerr.BrokerIDNotRegistered, "Broker ID %d is not currently registered", r.BrokerID)
		resp.ErrorCode, resp.ErrorMessage = err.code, err.message()
		return Decision{Response: resp}
	}
	records := s.partitionUpdates(brokerEvent{removed: b.ID, added: -1, unclean: b.ID}, func(p *meta.Partition) bool {
		return slices.Contains(p.ISR, b.ID) || slices.Contains(p.ELR, b.ID)
	})
	records = append(records, meta.Record{Body: &meta.UnregisterBrokerRecord{BrokerID: b.ID, BrokerEpoch: b.Epoch}})
	return Decision{Records: records, Response: resp}
}
