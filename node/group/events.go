package group

import "seedlog/node/event"

// Rebalanced says that a group has a new generation; members 0 means it is empty.
type Rebalanced struct {
	Group      string
	Generation int32
	Members    int
	Protocol   string
}

// Name implements event.Event.
func (Rebalanced) Name() string { return "group-rebalanced" }

// Fields implements event.Event.
func (e Rebalanced) Fields(f *event.Fields) {
	f.Str("group", e.Group)
	f.Int("generation", int64(e.Generation))
	f.Int("members", int64(e.Members))
	f.Str("protocol", e.Protocol)
}

// Stabilized says that a group's assignment is written.
type Stabilized struct {
	Group      string
	Generation int32
	Members    int
}

// Name implements event.Event.
func (Stabilized) Name() string { return "group-stable" }

// Fields implements event.Event.
func (e Stabilized) Fields(f *event.Fields) {
	f.Str("group", e.Group)
	f.Int("generation", int64(e.Generation))
	f.Int("members", int64(e.Members))
}

// MemberRemoved says that a member left or was put out, and why.
type MemberRemoved struct {
	Group  string
	Member string
	Reason string
}

// Name implements event.Event.
func (MemberRemoved) Name() string { return "group-member-removed" }

// Fields implements event.Event.
func (e MemberRemoved) Fields(f *event.Fields) {
	f.Str("group", e.Group)
	f.Str("member", e.Member)
	f.Str("reason", e.Reason)
}

// MemberFenced says that a static member's older process was shut out.
type MemberFenced struct {
	Group    string
	Instance string
	Old      string
	New      string
}

// Name implements event.Event.
func (MemberFenced) Name() string { return "group-member-fenced" }

// Fields implements event.Event.
func (e MemberFenced) Fields(f *event.Fields) {
	f.Str("group", e.Group)
	f.Str("instance", e.Instance)
	f.Str("old", e.Old)
	f.Str("new", e.New)
}

// OffsetsExpired says how many offsets and groups of a shard passed their retention.
type OffsetsExpired struct {
	Offsets int
	Groups  int
}

// Name implements event.Event.
func (OffsetsExpired) Name() string { return "group-offsets-expired" }

// Fields implements event.Event.
func (e OffsetsExpired) Fields(f *event.Fields) {
	f.Int("offsets", int64(e.Offsets))
	f.Int("groups", int64(e.Groups))
}
