package dump

import "reflect"

// shownField is how a field appears in Kafka's JSON.
type shownField struct {
	name string
	// optional fields, tagged or of some versions only, are left out at their default.
	optional bool
	def      int64 // of an optional number; of all else it is the zero value
	never    bool
}

// omits tells whether the field is left out with this value.
func (f shownField) omits(v reflect.Value) bool {
	if f.never {
		return true
	}
	if !f.optional {
		return false
	}
	if v.CanInt() {
		return v.Int() == f.def
	}
	return v.IsZero()
}

// field is how a field of a type is shown: under its own name, always, unless there is a rule.
func field(typeName, name string) shownField {
	f := fieldRules[typeName+"."+name]
	if f.name == "" {
		f.name = camelName(name)
	}
	f.never = f.never || name == "UnknownTags"
	return f
}

// fieldRules are Kafka's names where ours differ, and what Kafka leaves out at its default.
var fieldRules = map[string]shownField{
	"RegisterBrokerRecord.Endpoints":     {name: "endPoints"},
	"RegisterBrokerRecord.LogDirs":       {optional: true},
	"RegisterControllerRecord.Endpoints": {name: "endPoints"},
	"FeatureRange.Min":                   {name: "minSupportedVersion"},
	"FeatureRange.Max":                   {name: "maxSupportedVersion"},

	"BrokerRegistrationChangeRecord.Fenced":               {optional: true},
	"BrokerRegistrationChangeRecord.InControlledShutdown": {optional: true},
	"BrokerRegistrationChangeRecord.LogDirs":              {optional: true},

	"BeginTransactionRecord.Name":   {optional: true},
	"AbortTransactionRecord.Reason": {optional: true},

	"PartitionRecord.LeaderRecoveryState":    {optional: true},
	"PartitionRecord.Directories":            {optional: true},
	"PartitionRecord.EligibleLeaderReplicas": {optional: true},
	"PartitionRecord.LastKnownELR":           {optional: true},

	"PartitionChangeRecord.ISR":                    {optional: true},
	"PartitionChangeRecord.Leader":                 {optional: true, def: -2},
	"PartitionChangeRecord.Replicas":               {optional: true},
	"PartitionChangeRecord.RemovingReplicas":       {optional: true},
	"PartitionChangeRecord.AddingReplicas":         {optional: true},
	"PartitionChangeRecord.LeaderRecoveryState":    {optional: true, def: -1},
	"PartitionChangeRecord.EligibleLeaderReplicas": {optional: true},
	"PartitionChangeRecord.LastKnownELR":           {optional: true},
	"PartitionChangeRecord.Directories":            {optional: true},

	// What a record's version is stands before its data.
	"OffsetCommitKey.Version":   {never: true},
	"OffsetCommitValue.Version": {never: true},
	"GroupMetadataKey.Version":  {never: true},
	"TxnMetadataKey.Version":    {never: true},

	"OffsetCommitValue.ExpireTimestamp": {optional: true},
	"OffsetCommitValue.TopicID":         {optional: true},

	"txnPartitions.PartitionIDs": {name: "partitionIds"},

	"txnValue.PreviousProducerID":       {optional: true, def: -1},
	"txnValue.NextProducerID":           {optional: true, def: -1},
	"txnValue.ClientTransactionVersion": {optional: true},
	"txnValue.NextProducerEpoch":        {optional: true, def: -1},

	"subscription.OwnedPartitions": {optional: true},
	"subscription.GenerationID":    {optional: true},
	"subscription.RackID":          {optional: true},
}
