package config

import "strconv"

const (
	maxLong = "9223372036854775807"
	// MinSegmentBytes is the smallest segment.bytes that a client may set.
	MinSegmentBytes = 1048576
)

var cleanupPolicies = []string{"compact", "delete"}

// topicDefs is every topic setting, by name. Each takes its default from a broker setting.
var topicDefs = []*Def{
	def("cleanup.policy", List, "delete", "Whether old segments are deleted (by time or size), compacted (the newest value of each key stays), or both.").in(cleanupPolicies...).required().from("log.cleanup.policy"),
	def("compression.gzip.level", Int, "-1", "The gzip level used when compression.type is gzip; -1 is the codec's default.").between(-1, 9).from("compression.gzip.level"),
	def("compression.lz4.level", Int, "9", "The lz4 level used when compression.type is lz4.").between(1, 17).from("compression.lz4.level"),
	def("compression.type", String, "producer", "The codec of the stored batches; producer keeps the one that the producer chose.").in("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer").from("compression.type"),
	def("compression.zstd.level", Int, "3", "The zstd level used when compression.type is zstd.").between(-131072, 22).from("compression.zstd.level"),
	def("delete.retention.ms", Long, "86400000", "How long tombstones stay in a compacted topic, in milliseconds.").atLeast(0).from("log.cleaner.delete.retention.ms"),
	def("file.delete.delay.ms", Long, "60000", "How long a removed file stays on disk under its .deleted name, in milliseconds.").atLeast(0).from("log.segment.delete.delay.ms"),
	def("flush.messages", Long, maxLong, "How many records may be appended before an fsync; 1 acknowledges only what is synced.").atLeast(1).from("log.flush.interval.messages"),
	def("flush.ms", Long, maxLong, "How long a record may stay unsynced, in milliseconds.").atLeast(0).from("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
	def("follower.replication.throttled.replicas", List, "", "The replicas whose replication is throttled on the follower's side: [partition]:[broker],... or *."),
	def("index.interval.bytes", Int, "4096", "How many bytes of batches lie between two index entries.").atLeast(0).from("log.index.interval.bytes"),
	def("internal.segment.bytes", Int, "", "The segment size without its lower bound, for tests.").between(14, 2147483647).internal(),
	def("leader.replication.throttled.replicas", List, "", "The replicas whose replication is throttled on the leader's side: [partition]:[broker],... or *."),
	def("local.retention.bytes", Long, "-2", "How much of a tiered partition stays on local disk, in bytes; -2 follows retention.bytes.").atLeast(-2).from("log.local.retention.bytes"),
	def("local.retention.ms", Long, "-2", "How long tiered segments stay on local disk, in milliseconds; -2 follows retention.ms.").atLeast(-2).from("log.local.retention.ms"),
	def("max.compaction.lag.ms", Long, maxLong, "The longest that a record may stay uncompacted, in milliseconds.").atLeast(1).from("log.cleaner.max.compaction.lag.ms"),
	def("max.message.bytes", Int, "1048588", "The largest batch that is accepted, in bytes.").atLeast(0).from("message.max.bytes"),
	def("message.timestamp.after.max.ms", Long, "3600000", "How far a record's timestamp may lie ahead of the broker's clock, in milliseconds.").atLeast(0).from("log.message.timestamp.after.max.ms"),
	def("message.timestamp.before.max.ms", Long, maxLong, "How far a record's timestamp may lie behind the broker's clock, in milliseconds.").atLeast(0).from("log.message.timestamp.before.max.ms"),
	def("message.timestamp.type", String, "CreateTime", "Whether records keep the producer's timestamp or are stamped at append.").in("CreateTime", "LogAppendTime").from("log.message.timestamp.type"),
	def("min.cleanable.dirty.ratio", Double, "0.5", "The share of dirty log from which a partition is compacted.").between(0, 1).from("log.cleaner.min.cleanable.ratio"),
	def("min.compaction.lag.ms", Long, "0", "The shortest that a record stays uncompacted, in milliseconds.").atLeast(0).from("log.cleaner.min.compaction.lag.ms"),
	def("min.insync.replicas", Int, "1", "How many replicas must be in sync for acks=all to be accepted.").atLeast(1).from("min.insync.replicas"),
	def("preallocate", Boolean, "false", "Whether a segment's file is preallocated when it is created.").from("log.preallocate"),
	def("remote.storage.enable", Boolean, "false", "Whether the topic is tiered. Tiering is not served: true is refused.").in("false"),
	def("retention.bytes", Long, "-1", "How large a partition may grow before its oldest segments are deleted, in bytes; -1 is unlimited.").from("log.retention.bytes"),
	def("retention.ms", Long, "604800000", "How long segments are kept, by their largest timestamp, in milliseconds; -1 is for ever.").atLeast(-1).from("log.retention.ms").fromScaled("log.retention.minutes", 60_000).fromScaled("log.retention.hours", 3_600_000),
	def("segment.bytes", Int, "1073741824", "The size at which a segment is rolled, in bytes.").atLeast(MinSegmentBytes).from("log.segment.bytes"),
	def("segment.index.bytes", Int, "10485760", "The size of an offset index, in bytes; a full index rolls the segment.").atLeast(4).from("log.index.size.max.bytes"),
	def("segment.jitter.ms", Long, "0", "The largest random reduction of segment.ms, in milliseconds.").atLeast(0).from("log.roll.jitter.ms").fromScaled("log.roll.jitter.hours", 3_600_000),
	def("segment.ms", Long, "604800000", "The age at which a segment is rolled even if it is not full, in milliseconds.").atLeast(1).from("log.roll.ms").fromScaled("log.roll.hours", 3_600_000),
	def("unclean.leader.election.enable", Boolean, "false", "Whether a replica that is not in sync may become leader, at the price of lost records.").from("unclean.leader.election.enable"),
}

var topicByName = index(topicDefs)

func index(defs []*Def) map[string]*Def {
	m := make(map[string]*Def, len(defs))
	for _, d := range defs {
		m[d.Name] = d
	}
	return m
}

// TopicDef returns the definition of a topic setting, or nil.
func TopicDef(name string) *Def { return topicByName[name] }

// CheckTopic checks one topic override: [*UnknownError] or [*ValueError].
func CheckTopic(name, value string) error {
	d := topicByName[name]
	if d == nil {
		return &UnknownError{What: "topic", Name: name}
	}
	if name == "remote.storage.enable" && value != "false" {
		return &ValueError{Name: name, Value: value, Why: "Tiered storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."}
	}
	return d.Check(value)
}

// CheckTopicSet checks what must hold between the overrides of one topic, each of which
// CheckTopic has passed.
func (c *Config) CheckTopicSet(overrides map[string]string) error {
	t := c.Topic(overrides)
	if t.LocalRetentionMs != -2 && t.RetentionMs != -1 && t.LocalRetentionMs > t.RetentionMs {
		return &ValueError{Name: "local.retention.ms", Value: strconv.FormatInt(t.LocalRetentionMs, 10), Why: "Value must not be more than property retention.ms value."}
	}
	if t.MaxCompactionLagMs < t.MinCompactionLagMs {
		return &ValueError{Name: "min.compaction.lag.ms", Value: strconv.FormatInt(t.MinCompactionLagMs, 10),
			Why: "conflict topic config setting min.compaction.lag.ms (" + strconv.FormatInt(t.MinCompactionLagMs, 10) + ") > max.compaction.lag.ms (" + strconv.FormatInt(t.MaxCompactionLagMs, 10) + ")"}
	}
	return nil
}
