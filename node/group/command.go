package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock"
	"seedlog/node/event"
)

// Config holds the settings of a shard; times in milliseconds.
type Config struct {
	MinSessionTimeoutMs     int32
	MaxSessionTimeoutMs     int32
	InitialRebalanceDelayMs int64
	MaxSize                 int32
	// NewMemberJoinTimeoutMs is how long a new member may wait for its first rebalance.
	NewMemberJoinTimeoutMs int64
	// OffsetMetadataMax is the longest metadata of a commit, in UTF-16 units as Kafka counts.
	OffsetMetadataMax       int32
	OffsetsRetentionMs      int64
	OffsetsRetentionCheckMs int64
}

// DefaultConfig is Kafka's.
func DefaultConfig() Config {
	return Config{
		MinSessionTimeoutMs:     6000,
		MaxSessionTimeoutMs:     1800000,
		InitialRebalanceDelayMs: 3000,
		MaxSize:                 1<<31 - 1,
		NewMemberJoinTimeoutMs:  300000,
		OffsetMetadataMax:       4096,
		OffsetsRetentionMs:      10080 * 60000,
		OffsetsRetentionCheckMs: 600000,
	}
}

// Now is the moment of a step: deadlines are monotonic, record timestamps are wall time.
type Now struct {
	Mono   clock.Instant
	UnixMs int64
}

// Ticket names the request that a reply answers. The host gives them out.
type Ticket uint64

// Command is one thing to handle: [Join], [Sync], [Heartbeat], [Leave], [Commit], [Fetch],
// [List], [Describe], [Expired] or [TopicsDeleted]. A command's request is not kept, nor are
// the bytes it points at.
type Command interface{ isCommand() }

// Join is a JoinGroup of a client at a host.
type Join struct {
	Ticket     Ticket
	ClientID   string
	ClientHost string
	Req        *kmsg.JoinGroupRequest
}

// Sync is a SyncGroup.
type Sync struct {
	Ticket Ticket
	Req    *kmsg.SyncGroupRequest
}

// Heartbeat is a Heartbeat.
type Heartbeat struct {
	Ticket Ticket
	Req    *kmsg.HeartbeatRequest
}

// Leave is a LeaveGroup of any version.
type Leave struct {
	Ticket Ticket
	Req    *kmsg.LeaveGroupRequest
}

// Commit is an OffsetCommit whose topics all have their names filled in, and their ids too
// if the request came with ids. It is answered with a *kmsg.OffsetCommitResponse in the
// order of the request.
type Commit struct {
	Ticket Ticket
	Req    *kmsg.OffsetCommitRequest
}

// Fetch asks for offsets of one group; Topics nil asks for all. Topics have names, and ids if
// the request came with ids. It is answered with [FetchReply].
type Fetch struct {
	Ticket        Ticket
	Group         string
	Topics        []kmsg.OffsetFetchRequestGroupTopic
	RequireStable bool
}

// List asks for the groups of the shard; it is answered with a *kmsg.ListGroupsResponse.
type List struct {
	Ticket Ticket
	Req    *kmsg.ListGroupsRequest
}

// Describe asks for one group of the shard; it is answered with [DescribeReply].
type Describe struct {
	Ticket Ticket
	Group  string
}

// Expired says that the timer of the key has come.
type Expired struct{ Key TimerKey }

// TopicsDeleted says that topics are gone: their offsets go too. It has no reply.
type TopicsDeleted struct{ Topics []string }

func (Join) isCommand()          {}
func (Sync) isCommand()          {}
func (Heartbeat) isCommand()     {}
func (Leave) isCommand()         {}
func (Commit) isCommand()        {}
func (Fetch) isCommand()         {}
func (List) isCommand()          {}
func (Describe) isCommand()      {}
func (Expired) isCommand()       {}
func (TopicsDeleted) isCommand() {}

// FetchReply answers [Fetch].
type FetchReply struct{ Group kmsg.OffsetFetchResponseGroup }

// DescribeReply answers [Describe]. Found is false for a group that does not exist, which is
// described as Dead.
type DescribeReply struct {
	Found bool
	Group kmsg.DescribeGroupsResponseGroup
}

// TimerKind is what a timer is for.
type TimerKind uint8

const (
	// TimerSession ends a member that was not heard of.
	TimerSession TimerKind = iota
	// TimerJoin ends the wait for members that have not rejoined, or an initial delay.
	TimerJoin
	// TimerSync ends the wait for members that have not synced.
	TimerSync
	// TimerRetention starts the search for expired offsets.
	TimerRetention
)

// TimerKey names a timer; setting it again moves it. Member is empty but for sessions, Group
// is empty for retention.
type TimerKey struct {
	Kind   TimerKind
	Group  string
	Member string
}

// Timer sets or cancels a timer of the host.
type Timer struct {
	Key TimerKey
	// At is when to send [Expired]; Never cancels.
	At clock.Instant
}

// Reply answers a ticket. Msg is the response of the command's request, or the type that
// the command names.
type Reply struct {
	Ticket Ticket
	Msg    any
}

// Effects is what the host does after a step, in any order but that of each list.
type Effects struct {
	// Records are appended as one batch; then Appended or Refused is called, before
	// anything else. Nil: nothing to append.
	Records []Record
	// Replies leave when everything appended so far is committed.
	Replies []Reply
	Timers  []Timer
	Events  []event.Event
}
