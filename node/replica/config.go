package replica

import (
	"cmp"
	"time"

	"seedlog/node/config"
	"seedlog/node/meta"
	"seedlog/storage"
)

// LogConfig is what a log takes from its topic's settings.
func LogConfig(c *config.Config, t *config.Topic) storage.Config { return logConfig(c, t) }

func logConfig(c *config.Config, t *config.Topic) storage.Config {
	lc := storage.Config{
		SegmentBytes:         t.SegmentBytes,
		IndexIntervalBytes:   t.IndexIntervalBytes,
		SegmentIndexBytes:    t.SegmentIndexBytes,
		SegmentMs:            t.SegmentMs,
		SegmentJitterMs:      t.SegmentJitterMs,
		FlushMessages:        t.FlushMessages,
		FlushMs:              t.FlushMs,
		FileDeleteDelayMs:    t.FileDeleteDelayMs,
		MaxMessageBytes:      t.MaxMessageBytes,
		TimestampBeforeMaxMs: t.TimestampBeforeMaxMs,
		TimestampAfterMaxMs:  t.TimestampAfterMaxMs,
		ProducerExpirationMs: c.ProducerIDExpirationMs,
		RetentionMs:          t.RetentionMs,
		RetentionBytes:       t.RetentionBytes,
		Compact:              t.CleanupCompact,
		Delete:               t.CleanupDelete,
	}
	if t.LogAppendTime {
		lc.TimestampType = storage.LogAppendTime
	}
	if t.FileDeleteDelayMs == 0 {
		lc.FileDeleteDelayMs = -1 // at once: zero means the default there
	}
	return lc
}

func compareResource(a, b meta.ConfigResource) int {
	return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name))
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
