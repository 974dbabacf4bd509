package event

// RequestMalformed: a request did not decode; its connection is closed.
type RequestMalformed struct {
	Key, Version int16
	Bytes        int
	Err          error
}

func (RequestMalformed) Name() string { return "request-malformed" }
func (RequestMalformed) Level() Level { return Warn }
func (e RequestMalformed) Fields(f *Fields) {
	f.Int("key", int64(e.Key))
	f.Int("version", int64(e.Version))
	f.Int("bytes", int64(e.Bytes))
	f.Err(e.Err)
}

// CheckpointFailed: a periodic checkpoint could not be written.
type CheckpointFailed struct {
	Dir, What string
	Err       error
}

func (CheckpointFailed) Name() string { return "checkpoint-failed" }
func (CheckpointFailed) Level() Level { return Error }
func (e CheckpointFailed) Fields(f *Fields) {
	f.Str("dir", e.Dir)
	f.Str("what", e.What)
	f.Err(e.Err)
}

// PartitionFailed: a replica could not be made, led or deleted.
type PartitionFailed struct {
	Topic     string
	Partition int32
	Err       error
}

func (PartitionFailed) Name() string { return "partition-failed" }
func (PartitionFailed) Level() Level { return Error }
func (e PartitionFailed) Fields(f *Fields) {
	f.Str("topic", e.Topic)
	f.Int("partition", int64(e.Partition))
	f.Err(e.Err)
}

// LogStray: a directory that the metadata does not assign to this broker was moved aside.
type LogStray struct{ Dir, Log, TopicID string }

func (LogStray) Name() string { return "log-stray" }
func (LogStray) Level() Level { return Warn }
func (e LogStray) Fields(f *Fields) {
	f.Str("dir", e.Dir)
	f.Str("log", e.Log)
	f.Str("topic-id", e.TopicID)
}

// LeaderBegan: this broker leads a partition in a new epoch, which starts at Offset.
type LeaderBegan struct {
	Topic       string
	Partition   int32
	LeaderEpoch int32
	Offset      int64
}

func (LeaderBegan) Name() string { return "leader-began" }
func (LeaderBegan) Level() Level { return Debug }
func (e LeaderBegan) Fields(f *Fields) {
	f.Str("topic", e.Topic)
	f.Int("partition", int64(e.Partition))
	f.Int("epoch", int64(e.LeaderEpoch))
	f.Int("offset", e.Offset)
}

// NodeState: the node came to a stage of its life: formatting, loaded (one directory), serving,
// stopping, leadership moved or not moved, stopped. Number counts what the stage is about.
type NodeState struct {
	Stage  string
	Number int64
	Text   string
}

func (NodeState) Name() string { return "node-state" }
func (e NodeState) Fields(f *Fields) {
	f.Str("stage", e.Stage)
	f.Int("number", e.Number)
	if e.Text != "" {
		f.Str("text", e.Text)
	}
}

// Storage is a happening in a log directory, as package storage reports it.
type Storage struct {
	Kind, Dir, Topic    string
	Partition           int32
	From, Offset, Bytes int64
	Clean               bool
	Err                 error
	Severity            Level
}

func (e Storage) Name() string { return e.Kind }
func (e Storage) Level() Level { return e.Severity }
func (e Storage) Fields(f *Fields) {
	f.Str("dir", e.Dir)
	if e.Topic != "" {
		f.Str("topic", e.Topic)
		f.Int("partition", int64(e.Partition))
	}
	f.Int("from", e.From)
	f.Int("offset", e.Offset)
	f.Int("bytes", e.Bytes)
	if e.Clean {
		f.Int("clean", 1)
	}
	f.Err(e.Err)
}

// Loading: how far the recovery of a directory has come.
type Loading struct {
	Dir                                    string
	LogsDone, Logs, SegmentsDone, Segments int
}

func (Loading) Name() string { return "loading" }
func (Loading) Level() Level { return Debug }
func (e Loading) Fields(f *Fields) {
	f.Str("dir", e.Dir)
	f.Int("logs-done", int64(e.LogsDone))
	f.Int("logs", int64(e.Logs))
	f.Int("segments-done", int64(e.SegmentsDone))
	f.Int("segments", int64(e.Segments))
}
