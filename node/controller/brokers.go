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
	// registered is the offset of its registration, as far as this controller wrote it: that of
	// an amended one is above the epoch.
	registered int64
}

func newSession(epoch int64) *session {
	return &session{epoch: epoch, offset: -1, shutdownOffset: -1, registered: epoch}
}

// caughtUp: the broker has read its own registration.
func (x *session) caughtUp(b *meta.Broker, offset int64) bool {
	return offset >= max(b.Epoch, x.registered)
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
		x := newSession(b.Epoch)
		x.until = now.Add(s.sessionTimeout())
		if b.InControlledShutdown { // what its leadership moved by is at or below this
			x.shutdownOffset = s.image.Offset
		}
		s.sessions[b.ID] = x
	}
	s.startTimers(now)
	s.minISRSetAt = s.image.Offset
	var out []meta.Record
	if s.image.InTransaction() {
		reason := "Controller failover"
		out = append(out, meta.Record{Body: &meta.AbortTransactionRecord{Reason: &reason}})
	}
	if s.image.MetadataVersion() == 0 {
		name := "Bootstrap records"
		out = append(out, meta.Record{Body: &meta.BeginTransactionRecord{Name: &name}})
		out = append(out, bootstrap...)
		if finalizesELR(bootstrap) {
			out = append(out, s.elrBegins()...)
		}
		out = append(out, meta.Record{Body: &meta.EndTransactionRecord{}})
	}
	return out
}

func finalizesELR(records []meta.Record) bool {
	return slices.ContainsFunc(records, func(r meta.Record) bool {
		f, ok := r.Body.(*meta.FeatureLevelRecord)
		return ok && f.Name == meta.ELRVersionFeature && f.FeatureLevel > 0
	})
}

// Expire is what time brings: it fences the brokers whose session ended, and holds the
// elections that are due. next is when to look again.
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
		x.shutdownOffset = -1
		return s.fence(b), now // one at a time: the next decision sees the first
	}
	records, at := s.elections(now)
	return records, min(next, at)
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
	x := s.sessions[r.BrokerID]
	if old != nil && old.IncarnationID == r.IncarnationID {
		record.BrokerEpoch, record.Fenced, record.InControlledShutdown = old.Epoch, old.Fenced, old.InControlledShutdown
	} else {
		records = s.stopped(r, old != nil && old.Epoch == r.PreviousBrokerEpoch)
		record.BrokerEpoch = in.NextOffset + int64(len(records))
		x = nil
	}
	if x == nil {
		x = newSession(record.BrokerEpoch)
		s.sessions[r.BrokerID] = x
	}
	x.heard, x.until, x.registered = true, in.Now.Add(s.sessionTimeout()), in.NextOffset+int64(len(records))
	records = append(records, meta.Record{Version: meta.RegisterBrokerVersion(s.image.MetadataVersion()), Body: record})
	resp.BrokerEpoch = record.BrokerEpoch
	return Decision{Records: records, Response: resp}
}

// stopped is what the end of an incarnation means for its partitions. One that stopped
// uncleanly may have lost what it acknowledged: it is not eligible any more. The same goes
// for a replica whose directory does not come back.
func (s *State) stopped(r *kmsg.BrokerRegistrationRequest, cleanly bool) []meta.Record {
	id := r.BrokerID
	if !s.elrEnabled() {
		return s.partitionUpdates(brokerEvent{removed: id, added: -1, unclean: -1}, inISR(id))
	}
	intact := func(p *meta.Partition) bool {
		dir, _ := p.Dir(id)
		return cleanly && meta.HasDir(r.LogDirs, dir)
	}
	records := s.partitionUpdates(brokerEvent{removed: id, added: -1, unclean: -1}, func(p *meta.Partition) bool {
		return intact(p) && slices.Contains(p.ISR, id)
	})
	return append(records, s.partitionUpdates(brokerEvent{removed: -1, added: -1, unclean: id}, func(p *meta.Partition) bool {
		return !intact(p) && (slices.Contains(p.ISR, id) || slices.Contains(p.ELR, id))
	})...)
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
// lone node comes back without waiting for the session of its former self. One that was on its way
// to stop does not hold the place either.
func (s *State) alive(old *meta.Broker, r *kmsg.BrokerRegistrationRequest, now clock.Instant) bool {
	x := s.sessions[old.ID]
	if x == nil || x.epoch != old.Epoch || old.Fenced || old.InControlledShutdown || now >= x.until {
		return false // or the session is one that was just given to the new one
	}
	holds := slices.ContainsFunc(r.LogDirs, func(d [16]byte) bool { return slices.Contains(old.LogDirs, d) })
	return x.heard || !holds
}

func (s *State) checkDirectories(r *kmsg.BrokerRegistrationRequest) *apiError {
	if len(r.LogDirs) == 0 {
		return failf(kerr.InvalidRegistration, "")
	}
	for i, d := range r.LogDirs {
		if meta.ReservedUUID(d) || slices.Contains(r.LogDirs[:i], d) {
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
