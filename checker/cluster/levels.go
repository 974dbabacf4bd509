package cluster

import (
	"fmt"
	"strconv"

	"seedlog/checker/logfile"
)

// metadataVersion is the feature that says which versions the metadata's records may have.
const metadataVersion = "metadata.version"

// versions are the schema versions of records above 0, and the metadata.version from which on
// each may be written. Of all other records there is version 0 alone.
var versions = map[uint64][]int16{
	0:  {7, 8, 17}, // RegisterBrokerRecord: controlled shutdown, migration, directories
	3:  {17, 23},   // PartitionRecord: directories, eligible leaders
	5:  {17, 23},   // PartitionChangeRecord
	17: {7, 17},    // BrokerRegistrationChangeRecord
}

// tooNew says of a record that its version is one that a metadata.version does not allow, or
// nothing. A log that has no level yet is about to name its first.
func tooNew(b []byte, level int16) string {
	r := &reader{b: b}
	r.uvarint() // the frame
	key, version := r.uvarint(), r.uvarint()
	if level == 0 || version == 0 {
		return ""
	}
	since := versions[key]
	if version > uint64(len(since)) {
		return fmt.Sprintf("a record of type %d has version %d, which there is not", key, version)
	}
	if need := since[version-1]; need > level {
		return fmt.Sprintf("a record of type %d has version %d, which %s %d brought, at level %d", key, version, metadataVersion, need, level)
	}
	return ""
}

// checkVersion compares a record with the level that is finalized before it.
func (s *State) checkVersion(b []byte, at int64) {
	if s.loading {
		return // a snapshot is compared as a whole
	}
	if why := tooNew(b, s.features[metadataVersion]); why != "" {
		s.v.Failf("levels", "metadata log", "%s (metadata offset %d)", why, at)
	}
}

// checkVersions compares all records of a snapshot with the level in it.
func (q *Quorum) checkVersions(where string, batches []logfile.Batch, got *image) {
	level, _ := strconv.ParseInt(got.entries["feature "+metadataVersion], 10, 16)
	for i := range batches {
		records, err := batches[i].Records()
		if err != nil || batches[i].IsControl() {
			continue
		}
		for _, rec := range records {
			if why := tooNew(rec.Value, int16(level)); why != "" {
				q.v.Failf("levels", where, "%s", why)
				return
			}
		}
	}
}

// span is what a node says that it supports of a feature.
type span struct {
	name     string
	min, max int16
}

// supports reports whether a node with these features can live with a finalized level. What it
// does not name it knows at level 0.
func supports(spans []span, name string, level int16) bool {
	for _, f := range spans {
		if f.name == name {
			return f.min <= level && level <= f.max
		}
	}
	return level == 0
}

// checkLevels compares the finalized levels with the nodes, after a batch of records in which a
// level changed or a broker registered: each registered broker supports them all, fenced or not,
// for it may be unfenced any time; and who is registered as a controller when a level is
// finalized supports that one. A controller that registers later finds out by itself.
func (s *State) checkLevels(at int64) {
	for name, level := range s.features { //order: each is judged alone
		for _, b := range s.Brokers {
			if !supports(b.features, name, level) {
				s.v.Failf("levels", fmt.Sprintf("broker %d", b.ID), "supports %v, and %s is finalized at %d (metadata offset %d)", b.features, name, level, at)
			}
		}
	}
	if s.loading {
		return // when each of them registered a snapshot does not say
	}
	for _, f := range s.finalized {
		for id, spans := range s.controllers { //order: each is judged alone
			if !supports(spans, f.name, f.level) {
				s.v.Failf("levels", fmt.Sprintf("controller %d", id), "supports %v, and %s is finalized at %d (metadata offset %d)", spans, f.name, f.level, at)
			}
		}
	}
}
