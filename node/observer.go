package node

import (
	"seedlog/node/event"
	"seedlog/storage"
)

// observer passes what happens in the log directories on.
type observer struct{ sink event.Sink }

// Observe implements storage.Observer.
func (o observer) Observe(e storage.Event) {
	o.sink.Emit(event.Storage{
		Kind: e.Kind.String(), Dir: e.Dir, Topic: e.Topic, Partition: e.Partition,
		From: e.From, Offset: e.Offset, Bytes: e.Bytes, Clean: e.Clean, Err: e.Err, Severity: severity(e.Kind),
	})
}

func severity(k storage.Kind) event.Level {
	switch k {
	case storage.DirOffline, storage.LogOffline, storage.LogCorrupt:
		return event.Error
	case storage.LogCut, storage.IndexRebuilt, storage.BallastReleased, storage.LogTruncated:
		return event.Warn
	case storage.LogCreated, storage.LogDeleted, storage.LogMoved, storage.SegmentDeleted, storage.LogStartMoved:
		return event.Info
	}
	return event.Debug
}
