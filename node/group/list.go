package group

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// typeClassic is how ListGroups names groups of this protocol.
const typeClassic = "classic"

func (s *Shard) list(c List) {
	r := kmsg.NewPtrListGroupsResponse()
	r.Version = c.Req.Version
	for _, id := range s.sortedGroups() {
		g := s.groups[id]
		if !listed(c.Req.StatesFilter, g.state.String()) || !listed(c.Req.TypesFilter, typeClassic) {
			continue
		}
		rg := kmsg.NewListGroupsResponseGroup()
		rg.Group, rg.ProtocolType, rg.GroupState, rg.GroupType = id, g.protocolType, g.state.String(), typeClassic
		r.Groups = append(r.Groups, rg)
	}
	s.reply(c.Ticket, r)
}

// listed: an empty filter takes all; case and blanks around do not matter.
func listed(filter []string, value string) bool {
	return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool {
		return strings.EqualFold(strings.TrimSpace(f), value)
	})
}

func (s *Shard) describe(c Describe) {
	r := kmsg.NewDescribeGroupsResponseGroup()
	r.Group, r.State, r.AuthorizedOperations = c.Group, Dead.String(), -1<<31
	g := s.groups[c.Group]
	if g == nil {
		s.reply(c.Ticket, DescribeReply{Group: r})
		return
	}
	r.State, r.ProtocolType = g.state.String(), g.protocolType
	if g.state == Stable {
		r.Protocol = str(g.protocol)
	}
	for _, m := range g.members {
		rm := kmsg.NewDescribeGroupsResponseGroupMember()
		rm.MemberID, rm.InstanceID, rm.ClientID, rm.ClientHost = m.id, m.instance, m.clientID, m.clientHost
		rm.MemberAssignment, rm.ProtocolMetadata = clone(m.assignment), []byte{}
		if g.state == Stable {
			rm.ProtocolMetadata = clone(m.metadata(r.Protocol))
		}
		r.Members = append(r.Members, rm)
	}
	s.reply(c.Ticket, DescribeReply{Found: true, Group: r})
}

// Dump prints the hard state, one line per fact in a fixed order: two shards that replayed
// the same log, or one and what compaction left of it, print the same.
func (s *Shard) Dump() string {
	var b strings.Builder
	for _, id := range s.sortedGroups() {
		g := s.groups[id]
		if g.durable != nil {
			dumpGroup(&b, g)
		}
		for _, tp := range g.sortedOffsets() {
			o := g.offsets[tp]
			fmt.Fprintf(&b, "offset %q %q %d: %d epoch %d metadata %q committed %d expires %d topic %x\n", id, tp.topic,
				tp.partition, o.Offset.Offset, o.LeaderEpoch, o.Metadata, o.CommitTimestampMs, o.ExpireTimestampMs, o.TopicID)
		}
	}
	producers := make([]int64, 0, len(s.txns))
	for p := range s.txns { //order: sorted below
		producers = append(producers, p)
	}
	slices.Sort(producers)
	for _, p := range producers {
		for _, k := range sortedOffsets(s.txns[p]) {
			fmt.Fprintf(&b, "pending %d %q %q %d: %d\n", p, k.Group, k.Topic, k.Partition, s.txns[p][k].Offset.Offset)
		}
	}
	return b.String()
}

func dumpGroup(b *strings.Builder, g *group) {
	v, err := ParseGroup(g.durable)
	if err != nil {
		panic(fmt.Sprintf("group: %s: a record that was replayed does not decode: %v", g.id, err))
	}
	fmt.Fprintf(b, "group %q generation %d type %q protocol %q leader %q since %d\n",
		g.id, v.Generation, v.ProtocolType, str(v.Protocol), str(v.Leader), v.CurrentStateTimestamp)
	for _, m := range v.Members {
		fmt.Fprintf(b, "member %q %q instance %q client %q %q session %d rebalance %d subscription %x assignment %x\n", g.id,
			m.MemberID, str(m.InstanceID), m.ClientID, m.ClientHost, m.SessionTimeoutMillis, m.RebalanceTimeoutMillis, m.Subscription, m.Assignment)
	}
}
