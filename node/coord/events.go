package coord

import "seedlog/node/event"

// ShardLoaded says that a shard begins to serve.
type ShardLoaded struct {
	Partition int32
	Epoch     int32
	Start     int64
	End       int64
	Records   int64
	Malformed int64
	Unserved  int64
	TookMs    int64
}

// Name implements event.Event.
func (ShardLoaded) Name() string { return "group-shard-loaded" }

// Fields implements event.Event.
func (e ShardLoaded) Fields(f *event.Fields) {
	f.Int("partition", int64(e.Partition))
	f.Int("epoch", int64(e.Epoch))
	f.Int("start", e.Start)
	f.Int("end", e.End)
	f.Int("records", e.Records)
	f.Int("malformed", e.Malformed)
	f.Int("unserved", e.Unserved)
	f.Int("took_ms", e.TookMs)
}

// ShardEnded says that a shard does not serve any more, and why if it was not asked to.
type ShardEnded struct {
	Partition int32
	Epoch     int32
	Err       error
}

// Name implements event.Event.
func (ShardEnded) Name() string { return "group-shard-ended" }

// Level implements event.Leveled.
func (e ShardEnded) Level() event.Level {
	if e.Err != nil {
		return event.Warn
	}
	return event.Info
}

// Fields implements event.Event.
func (e ShardEnded) Fields(f *event.Fields) {
	f.Int("partition", int64(e.Partition))
	f.Int("epoch", int64(e.Epoch))
	f.Err(e.Err)
}

// RecordSkipped says that a record of the log is not what it should be.
type RecordSkipped struct {
	Partition int32
	Offset    int64
	Err       error
}

// Name implements event.Event.
func (RecordSkipped) Name() string { return "group-record-skipped" }

// Level implements event.Leveled.
func (RecordSkipped) Level() event.Level { return event.Error }

// Fields implements event.Event.
func (e RecordSkipped) Fields(f *event.Fields) {
	f.Int("partition", int64(e.Partition))
	f.Int("offset", e.Offset)
	f.Err(e.Err)
}

// AppendRefused says that the log did not take a batch; its clients were told.
type AppendRefused struct {
	Partition int32
	Records   int
	Err       error
}

// Name implements event.Event.
func (AppendRefused) Name() string { return "group-append-refused" }

// Level implements event.Leveled.
func (AppendRefused) Level() event.Level { return event.Warn }

// Fields implements event.Event.
func (e AppendRefused) Fields(f *event.Fields) {
	f.Int("partition", int64(e.Partition))
	f.Int("records", int64(e.Records))
	f.Err(e.Err)
}
