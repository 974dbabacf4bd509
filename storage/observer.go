package storage

// Kind says what an Event is about.
type Kind uint8

const (
	// SegmentRolled: Offset is the new segment's base.
	SegmentRolled Kind = iota
	// LogFlushed: everything below Offset is durable.
	LogFlushed
	// LogRecovered: From is where the check began, Offset the recovered end, Bytes what
	// was read; Clean says whether the check was skipped.
	LogRecovered
	// LogCut: recovery removed the tail from Offset on (Bytes of it): a crash's damage.
	LogCut
	// LogTruncated: From was the end offset, Offset is the new one.
	LogTruncated
	// LogStartMoved: Offset is the new log start.
	LogStartMoved
	// IndexRebuilt: the index files of the segment at Offset were lost or damaged.
	IndexRebuilt
	// SegmentDeleted: the segment at Offset left the log.
	SegmentDeleted
	// LogCorrupt: damage in [From, Offset) below the recovery point.
	LogCorrupt
	// LogOffline: the log stopped serving because of Err.
	LogOffline
	// DirOffline: the directory stopped serving because of Err.
	DirOffline
	// LogCreated, LogDeleted: a directory came or went.
	LogCreated
	LogDeleted
	// BallastReleased: the disk was full, Bytes were given back for deletions.
	BallastReleased
	// LogMoved: the log, up to Offset, is in another directory of the node now: Dir.
	LogMoved
)

// String is the kind in kebab-case.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

var kindNames = [...]string{
	SegmentRolled: "segment-rolled", LogFlushed: "log-flushed", LogRecovered: "log-recovered",
	LogCut: "log-cut", LogTruncated: "log-truncated", LogStartMoved: "log-start-moved",
	IndexRebuilt: "index-rebuilt", SegmentDeleted: "segment-deleted", LogCorrupt: "log-corrupt",
	LogOffline: "log-offline", DirOffline: "dir-offline", LogCreated: "log-created",
	LogDeleted: "log-deleted", BallastReleased: "ballast-released",
	LogMoved: "log-moved",
}

// Event is one happening in a Dir. Which numbers mean something is said at the Kind.
type Event struct {
	Kind      Kind
	Dir       string
	Topic     string // empty for the events of a whole directory
	Partition int32
	From      int64
	Offset    int64
	Bytes     int64
	Clean     bool
	Err       error
}

// Observer is told what happens in a Dir. It must not wait, must not call back into the
// Dir or its logs, and may be called from several tasks at once.
type Observer interface {
	Observe(e Event)
}
