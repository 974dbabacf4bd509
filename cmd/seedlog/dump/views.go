package dump

import "github.com/twmb/franz-go/pkg/kmsg"

// view is what to show of a coordinator's value: Kafka's names in Kafka's order, and what the
// consumer protocol keeps in the bytes of a member.
func view(v message) any {
	switch v := v.(type) {
	case *kmsg.GroupMetadataValue:
		return viewGroup(v)
	case *kmsg.TxnMetadataValue:
		return viewTxn(v)
	}
	return v
}

type groupValue struct {
	ProtocolType          string
	Generation            int32
	Protocol, Leader      *string
	CurrentStateTimestamp int64
	Members               []groupMember
}

type groupMember struct {
	MemberID                         string
	GroupInstanceID                  *string
	ClientID, ClientHost             string
	RebalanceTimeout, SessionTimeout int32
	Subscription, Assignment         any
}

func viewGroup(v *kmsg.GroupMetadataValue) groupValue {
	g := groupValue{v.ProtocolType, v.Generation, v.Protocol, v.Leader, v.CurrentStateTimestamp, nil}
	for _, m := range v.Members {
		shown := groupMember{m.MemberID, m.InstanceID, m.ClientID, m.ClientHost, m.RebalanceTimeoutMillis, m.SessionTimeoutMillis, m.Subscription, m.Assignment}
		if v.ProtocolType == "consumer" {
			shown.Subscription = viewSubscription(m.Subscription)
			shown.Assignment = viewAssignment(m.Assignment)
		}
		g.Members = append(g.Members, shown)
	}
	return g
}

type topicPartitions struct {
	Topic      string
	Partitions []int32
}

// subscription holds nil in the fields that its version does not have.
type subscription struct {
	Topics          []string
	UserData        []byte
	OwnedPartitions []topicPartitions
	GenerationID    any
	RackID          any
}

func viewSubscription(raw []byte) any {
	var m kmsg.ConsumerMemberMetadata
	if m.ReadFrom(raw) != nil {
		return raw
	}
	s := subscription{Topics: m.Topics, UserData: m.UserData}
	if m.Version >= 1 {
		s.OwnedPartitions = []topicPartitions{}
		for _, p := range m.OwnedPartitions {
			s.OwnedPartitions = append(s.OwnedPartitions, topicPartitions{p.Topic, p.Partitions})
		}
	}
	if m.Version >= 2 {
		s.GenerationID = m.Generation
	}
	if m.Version >= 3 {
		s.RackID = m.Rack
	}
	return s
}

type assignment struct {
	AssignedPartitions []topicPartitions
	UserData           []byte
}

func viewAssignment(raw []byte) any {
	var m kmsg.ConsumerMemberAssignment
	if m.ReadFrom(raw) != nil {
		return raw
	}
	a := assignment{UserData: m.UserData}
	for _, t := range m.Topics {
		a.AssignedPartitions = append(a.AssignedPartitions, topicPartitions{t.Topic, t.Partitions})
	}
	return a
}

type txnValue struct {
	ProducerID                       int64
	ProducerEpoch                    int16
	TransactionTimeoutMs             int32
	TransactionStatus                int8
	TransactionPartitions            any
	TransactionLastUpdateTimestampMs int64
	TransactionStartTimestampMs      int64
	PreviousProducerID               int64
	NextProducerID                   int64
	ClientTransactionVersion         int16
	NextProducerEpoch                int16
}

type txnPartitions struct {
	Topic        string
	PartitionIDs []int32
}

func viewTxn(v *kmsg.TxnMetadataValue) txnValue {
	t := txnValue{v.ProducerID, v.ProducerEpoch, v.TimeoutMillis, int8(v.State), nil, v.LastUpdateTimestamp, v.StartTimestamp,
		v.PreviousProducerID, v.NextProducerID, v.ClientTransactionVersion, v.NextProducerEpoch}
	if v.Topics == nil {
		return t
	}
	list := []txnPartitions{}
	for _, p := range v.Topics {
		list = append(list, txnPartitions{p.Topic, p.Partitions})
	}
	t.TransactionPartitions = list
	return t
}
