package storage

import (
	"math/rand/v2"

	"seedlog/clock/task"
	"seedlog/disk"
)

// Env is the world a Dir and its logs live in.
type Env struct {
	RT     task.Runtime
	Disk   disk.Disk
	Events Observer   // nil: nobody listens
	Rand   *rand.Rand // roll jitter and the names of deleted directories
}

// TimestampType is message.timestamp.type.
type TimestampType uint8

const (
	// CreateTime keeps the producer's timestamps.
	CreateTime TimestampType = iota
	// LogAppendTime stamps every client batch with the broker's clock at the append.
	LogAppendTime
)

// Config is what a log takes from its topic's settings. Zero values of limits mean
// Kafka's default, except where noted.
type Config struct {
	SegmentBytes       int32 // segment.bytes; unchecked here
	IndexIntervalBytes int32 // index.interval.bytes
	SegmentIndexBytes  int32 // segment.index.bytes
	SegmentMs          int64 // segment.ms
	SegmentJitterMs    int64 // segment.jitter.ms; 0 is none
	FlushMessages      int64 // flush.messages; 0 is never
	FlushMs            int64 // flush.ms; 0 is never
	FileDeleteDelayMs  int64 // file.delete.delay.ms; negative is at once
	MaxMessageBytes    int32 // max.message.bytes: bounds decompression in scans

	TimestampType        TimestampType
	TimestampBeforeMaxMs int64 // for node's validation; the log does not look
	TimestampAfterMaxMs  int64

	ProducerExpirationMs int64 // producer.id.expiration.ms

	RetentionMs    int64 // retention.ms; negative is for ever
	RetentionBytes int64 // retention.bytes; negative is no limit
	Compact        bool  // cleanup.policy has compact
	Delete         bool  // cleanup.policy has delete
}

// Kafka's defaults.
const (
	DefaultSegmentBytes         = 1 << 30
	DefaultIndexIntervalBytes   = 4096
	DefaultSegmentIndexBytes    = 10 << 20
	DefaultSegmentMs            = 7 * 24 * 3600 * 1000
	DefaultFileDeleteDelayMs    = 60 * 1000
	DefaultProducerExpirationMs = 24 * 3600 * 1000
	DefaultMaxMessageBytes      = 1048588
)

// withDefaults fills the zero limits in.
func (c Config) withDefaults() Config {
	set32 := func(v *int32, d int32) {
		if *v <= 0 {
			*v = d
		}
	}
	set64 := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	set32(&c.SegmentBytes, DefaultSegmentBytes)
	set32(&c.IndexIntervalBytes, DefaultIndexIntervalBytes)
	set32(&c.SegmentIndexBytes, DefaultSegmentIndexBytes)
	set32(&c.MaxMessageBytes, DefaultMaxMessageBytes)
	set64(&c.SegmentMs, DefaultSegmentMs)
	set64(&c.FileDeleteDelayMs, DefaultFileDeleteDelayMs)
	set64(&c.ProducerExpirationMs, DefaultProducerExpirationMs)
	return c
}

// DirConfig is what one log directory takes from the broker's settings.
type DirConfig struct {
	RecoveryThreads int   // num.recovery.threads.per.data.dir; at least 1
	MaxOpenFiles    int   // descriptors kept open though nobody uses them; 0: 1024
	BallastBytes    int64 // room that a full disk's deletions may use; 0: no ballast file
}
