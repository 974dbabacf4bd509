package config

import (
	"strconv"
	"strings"
)

// Topic is the effective settings of one topic. Sizes are bytes, times milliseconds.
type Topic struct {
	CleanupCompact, CleanupDelete bool

	SegmentBytes       int32
	SegmentIndexBytes  int32
	SegmentMs          int64
	SegmentJitterMs    int64
	IndexIntervalBytes int32
	Preallocate        bool

	FlushMessages int64
	FlushMs       int64

	RetentionMs       int64
	RetentionBytes    int64
	LocalRetentionMs  int64
	FileDeleteDelayMs int64

	DeleteRetentionMs  int64
	MinCompactionLagMs int64
	MaxCompactionLagMs int64

	CompressionType  string
	CompressionLevel int

	MaxMessageBytes      int32
	LogAppendTime        bool
	TimestampBeforeMaxMs int64
	TimestampAfterMaxMs  int64

	MinInsyncReplicas     int32
	UncleanLeaderElection bool

	// Which replicas the broker's throttled rates are for.
	LeaderThrottled   ThrottledReplicas
	FollowerThrottled ThrottledReplicas
}

// Topic resolves a topic's settings from its overrides, which may be nil. Overrides that do
// not parse fall back, for the controller has checked them.
func (c *Config) Topic(overrides map[string]string) Topic {
	r := topicResolver{c, overrides}
	policies := SplitList(r.text("cleanup.policy"))
	t := Topic{
		CleanupCompact: contains(policies, "compact"),
		CleanupDelete:  contains(policies, "delete"),

		SegmentBytes:       int32(r.num("segment.bytes")),
		SegmentIndexBytes:  int32(r.num("segment.index.bytes")),
		SegmentMs:          r.num("segment.ms"),
		SegmentJitterMs:    r.num("segment.jitter.ms"),
		IndexIntervalBytes: int32(r.num("index.interval.bytes")),
		Preallocate:        r.flag("preallocate"),

		FlushMessages: r.num("flush.messages"),
		FlushMs:       r.num("flush.ms"),

		RetentionMs:       r.num("retention.ms"),
		RetentionBytes:    r.num("retention.bytes"),
		LocalRetentionMs:  r.num("local.retention.ms"),
		FileDeleteDelayMs: r.num("file.delete.delay.ms"),

		DeleteRetentionMs:  r.num("delete.retention.ms"),
		MinCompactionLagMs: r.num("min.compaction.lag.ms"),
		MaxCompactionLagMs: r.num("max.compaction.lag.ms"),

		CompressionType: r.text("compression.type"),

		MaxMessageBytes:      int32(r.num("max.message.bytes")),
		LogAppendTime:        r.text("message.timestamp.type") == "LogAppendTime",
		TimestampBeforeMaxMs: r.num("message.timestamp.before.max.ms"),
		TimestampAfterMaxMs:  r.num("message.timestamp.after.max.ms"),

		MinInsyncReplicas:     int32(r.num("min.insync.replicas")),
		UncleanLeaderElection: r.flag("unclean.leader.election.enable"),

		LeaderThrottled:   parseThrottled(r.text("leader.replication.throttled.replicas")),
		FollowerThrottled: parseThrottled(r.text("follower.replication.throttled.replicas")),
	}
	if v, _ := strconv.ParseInt(r.text("internal.segment.bytes"), 10, 32); v > 0 {
		t.SegmentBytes = int32(v)
	}
	switch t.CompressionType {
	case "gzip", "lz4", "zstd":
		t.CompressionLevel = int(r.num("compression." + t.CompressionType + ".level"))
	}
	return t
}

type topicResolver struct {
	c         *Config
	overrides map[string]string
}

func (r topicResolver) text(name string) string {
	d := topicByName[name]
	if v, ok := r.overrides[name]; ok && d.Check(v) == nil {
		return strings.TrimSpace(v)
	}
	v, _ := r.c.topicDefault(d)
	return v
}

func (r topicResolver) num(name string) int64 {
	n, err := strconv.ParseInt(r.text(name), 10, 64)
	if err != nil {
		panic("config: " + name + " has no number: " + r.text(name))
	}
	return n
}

func (r topicResolver) flag(name string) bool { return strings.EqualFold(r.text(name), "true") }

// topicDefault is a topic setting without its override: the first of its broker synonyms
// that is set, in the topic setting's unit, or the default.
func (c *Config) topicDefault(d *Def) (string, Source) {
	for _, s := range d.synonyms {
		if v, src, ok := c.lookup(s.name); ok {
			return scaled(v, s.factor), src
		}
	}
	return d.Default, SourceDefault
}

func scaled(v string, factor int64) string {
	n, err := strconv.ParseInt(v, 10, 64)
	if factor == 1 || err != nil || n < 0 {
		return v
	}
	return strconv.FormatInt(n*factor, 10)
}
