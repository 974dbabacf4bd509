package config

import (
	"slices"
	"strconv"
)

// brokerDefs is every broker setting that has an effect here, or that a Kafka file commonly
// carries: one whose default is the only value served says so, and those of retention, compaction
// and transactions, which are not there yet, are taken and have no effect (docs/operations.md).
var brokerDefs = slices.Concat([]*Def{
	// Process and quorum.
	def("process.roles", List, "broker,controller", "The roles of this process.").in("broker", "controller").required(),
	def("node.id", Int, "1", "The id of this node.").atLeast(0),
	unset("broker.id", Int, "The old name of node.id.").atLeast(0),
	unset("broker.rack", String, "The rack of this broker."),
	def("controller.quorum.bootstrap.servers", List, "", "Where the quorum can be found: host:port,..."),
	def("controller.quorum.voters", List, "", "The static voters of the quorum: id@host:port,..."),
	unset("controller.listener.names", List, "The listeners of the controller."),
	def("controller.quorum.election.timeout.ms", Int, "1000", "How long a candidate waits for votes, in milliseconds.").atLeast(1),
	def("controller.quorum.fetch.timeout.ms", Int, "2000", "How long a voter waits for the leader before it starts an election, in milliseconds.").atLeast(1),
	def("controller.quorum.election.backoff.max.ms", Int, "1000", "The longest pause before a candidate that lost stands again, in milliseconds."),
	def("controller.quorum.request.timeout.ms", Int, "2000", "How long a member of the quorum waits for another's answer, in milliseconds.").atLeast(1),
	def("controller.quorum.retry.backoff.ms", Int, "20", "How long a member of the quorum pauses after a failed request, in milliseconds.").atLeast(0),
	def("broker.heartbeat.interval.ms", Int, "2000", "How often a broker reports to the controller, in milliseconds.").atLeast(1),
	def("broker.session.timeout.ms", Int, "9000", "How long a silent broker stays unfenced, in milliseconds.").atLeast(1),
	unset("metadata.log.dir", String, "The directory of the metadata log; the first of log.dirs if unset."),
	def("metadata.log.max.record.bytes.between.snapshots", Long, "20971520", "How much metadata is appended between two snapshots, in bytes.").atLeast(1),

	// Log.
	unset("log.dirs", List, "The directories of the partitions."),
	def("log.dir", String, "seedlog-data", "The directory of the partitions, if log.dirs is unset."),
	def("num.partitions", Int, "1", "How many partitions an automatically created topic gets.").atLeast(1),
	def("log.segment.bytes", Int, "1073741824", "The default of segment.bytes.").atLeast(MinSegmentBytes).dynamic(ClusterWide),
	unset("log.roll.ms", Long, "The default of segment.ms.").atLeast(1).dynamic(ClusterWide),
	def("log.roll.hours", Int, "168", "The default of segment.ms, in hours.").atLeast(1),
	unset("log.roll.jitter.ms", Long, "The default of segment.jitter.ms.").atLeast(0).dynamic(ClusterWide),
	def("log.roll.jitter.hours", Int, "0", "The default of segment.jitter.ms, in hours.").atLeast(0),
	def("log.index.interval.bytes", Int, "4096", "The default of index.interval.bytes.").atLeast(0).dynamic(ClusterWide),
	def("log.index.size.max.bytes", Int, "10485760", "The default of segment.index.bytes.").atLeast(4).dynamic(ClusterWide),
	def("log.flush.interval.messages", Long, maxLong, "The default of flush.messages.").atLeast(1).dynamic(ClusterWide),
	unset("log.flush.interval.ms", Long, "The default of flush.ms.").dynamic(ClusterWide),
	def("log.flush.scheduler.interval.ms", Long, maxLong, "The default of flush.ms, if log.flush.interval.ms is unset."),
	def("log.flush.offset.checkpoint.interval.ms", Int, "60000", "How often recovery points are written, in milliseconds.").atLeast(0),
	def("log.flush.start.offset.checkpoint.interval.ms", Int, "60000", "How often log start offsets are written, in milliseconds.").atLeast(0),
	def("num.recovery.threads.per.data.dir", Int, "2", "How many logs of a directory are recovered at once.").atLeast(1).dynamic(ClusterWide),
	def("message.max.bytes", Int, "1048588", "The default of max.message.bytes.").atLeast(0).dynamic(ClusterWide),
	def("compression.type", String, "producer", "The default of the topic setting.").in("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer").dynamic(ClusterWide),
	def("compression.gzip.level", Int, "-1", "The default of the topic setting.").between(-1, 9).dynamic(ClusterWide),
	def("compression.lz4.level", Int, "9", "The default of the topic setting.").between(1, 17).dynamic(ClusterWide),
	def("compression.zstd.level", Int, "3", "The default of the topic setting.").between(-131072, 22).dynamic(ClusterWide),
	def("log.message.timestamp.type", String, "CreateTime", "The default of message.timestamp.type.").in("CreateTime", "LogAppendTime").dynamic(ClusterWide),
	def("log.message.timestamp.before.max.ms", Long, maxLong, "The default of message.timestamp.before.max.ms.").atLeast(0).dynamic(ClusterWide),
	def("log.message.timestamp.after.max.ms", Long, "3600000", "The default of message.timestamp.after.max.ms.").atLeast(0).dynamic(ClusterWide),
	def("log.preallocate", Boolean, "false", "The default of preallocate.").dynamic(ClusterWide),
	def("auto.create.topics.enable", Boolean, "true", "Whether a metadata request may create topics."),
	def("delete.topic.enable", Boolean, "true", "Whether topics can be deleted."),
	unset("create.topic.policy.class.name", Class, "Not served: a policy class cannot be loaded.").internal(),

	// Retention and compaction.
	unset("log.retention.ms", Long, "The default of retention.ms.").atLeast(-1).dynamic(ClusterWide),
	unset("log.retention.minutes", Int, "The default of retention.ms, in minutes."),
	def("log.retention.hours", Int, "168", "The default of retention.ms, in hours."),
	def("log.retention.bytes", Long, "-1", "The default of retention.bytes.").dynamic(ClusterWide),
	def("log.retention.check.interval.ms", Long, "300000", "How often segments are checked for deletion, in milliseconds.").atLeast(1),
	def("log.segment.delete.delay.ms", Long, "60000", "The default of file.delete.delay.ms.").atLeast(0).dynamic(ClusterWide),
	def("log.cleanup.policy", List, "delete", "The default of cleanup.policy.").in(cleanupPolicies...).required().dynamic(ClusterWide),
	def("log.local.retention.bytes", Long, "-2", "The default of local.retention.bytes.").atLeast(-2).dynamic(ClusterWide),
	def("log.local.retention.ms", Long, "-2", "The default of local.retention.ms.").atLeast(-2).dynamic(ClusterWide),
	def("log.cleaner.delete.retention.ms", Long, "86400000", "The default of delete.retention.ms.").atLeast(0).dynamic(ClusterWide),
	def("log.cleaner.max.compaction.lag.ms", Long, maxLong, "The default of max.compaction.lag.ms.").atLeast(1).dynamic(ClusterWide),
	def("log.cleaner.min.cleanable.ratio", Double, "0.5", "The default of min.cleanable.dirty.ratio.").between(0, 1).dynamic(ClusterWide),
	def("log.cleaner.min.compaction.lag.ms", Long, "0", "The default of min.compaction.lag.ms.").atLeast(0).dynamic(ClusterWide),

	// Replication.
	def("default.replication.factor", Int, "1", "The replication factor of an automatically created topic.").atLeast(1),
	def("min.insync.replicas", Int, "1", "The default of the topic setting.").atLeast(1).dynamic(ClusterWide),
	def("unclean.leader.election.enable", Boolean, "false", "The default of the topic setting.").dynamic(ClusterWide),
	def("replica.high.watermark.checkpoint.interval.ms", Long, "5000", "How often high watermarks are written, in milliseconds.").atLeast(1),

	// Groups.
	def("offsets.topic.num.partitions", Int, "50", "How many partitions __consumer_offsets is created with.").atLeast(1),
	def("offsets.topic.replication.factor", Short, "3", "The replication factor __consumer_offsets is created with.").atLeast(1),
	def("offsets.topic.segment.bytes", Int, "104857600", "The segment size of __consumer_offsets.").atLeast(1),
	def("offsets.retention.minutes", Int, "10080", "How long the offsets of an unused group are kept, in minutes.").atLeast(1),
	def("offsets.retention.check.interval.ms", Long, "600000", "How often offsets are checked for expiry, in milliseconds.").atLeast(1),
	def("offset.metadata.max.bytes", Int, "4096", "How long the metadata of a committed offset may be, in bytes."),
	def("group.initial.rebalance.delay.ms", Int, "3000", "How long an empty group waits for more members, in milliseconds.").atLeast(0),
	def("group.min.session.timeout.ms", Int, "6000", "The smallest session time-out that a member may ask for, in milliseconds.").atLeast(1),
	def("group.max.session.timeout.ms", Int, "1800000", "The largest session time-out that a member may ask for, in milliseconds.").atLeast(1),
	def("group.max.size", Int, "2147483647", "How many members a group may have.").atLeast(1),

	// Producers.
	def("producer.id.expiration.ms", Int, "86400000", "How long an idle producer's state is kept, in milliseconds.").atLeast(1).dynamic(ClusterWide),
	def("producer.id.expiration.check.interval.ms", Int, "600000", "How often idle producers are looked for, in milliseconds.").atLeast(1).internal(),
	def("transaction.max.timeout.ms", Int, "900000", "The longest transaction time-out, in milliseconds.").atLeast(1),

	// Network.
	def("listeners", List, "PLAINTEXT://:9092", "Where the node listens: NAME://host:port,..."),
	unset("advertised.listeners", List, "What clients are told to connect to: NAME://host:port,..."),
	def("listener.security.protocol.map", List, "PLAINTEXT:PLAINTEXT", "The protocol of each listener name. Only PLAINTEXT is served."),
	unset("inter.broker.listener.name", String, "The listener that brokers use among themselves."),
	def("queued.max.requests", Int, "500", "Kept for compatibility: requests are bounded by memory (queued.max.request.bytes).").atLeast(1),
	def("queued.max.request.bytes", Long, "134217728", "How much memory all requests together may hold, in bytes.").atLeast(-1),
	def("socket.request.max.bytes", Int, "104857600", "The largest request, in bytes.").atLeast(1),
	def("connections.max.idle.ms", Long, "600000", "How long a silent connection stays open, in milliseconds.").atLeast(1),
	def("max.connections", Int, "2147483647", "How many connections are accepted at once.").atLeast(0).dynamic(ClusterWide),
	def("max.connections.per.ip", Int, "2147483647", "How many connections are accepted at once from one address.").atLeast(0).dynamic(ClusterWide),
	def("fetch.max.bytes", Int, "57671680", "The largest fetch response, in bytes.").atLeast(1024),
	def("max.incremental.fetch.session.cache.slots", Int, "1000", "How many fetch sessions are kept.").atLeast(0),
	def("max.request.partition.size.limit", Int, "2000", "How many partitions one DescribeTopicPartitions answer may list.").atLeast(1),

	// Mixed clusters, for tests: a node serves a feature only up to a level, as an older build.
	newest("metadata.version", 21, 27),
	newest("eligible.leader.replicas.version", 0, 1),
	newest("kraft.version", 0, 1),
}, replicationDefs())

// newest bounds what the node serves of a feature. The levels are those of the build.
func newest(feature string, min, max int64) *Def {
	return def("internal."+feature+".max", Short, strconv.FormatInt(max, 10), "The newest level of "+feature+" that the node serves, for tests of mixed clusters.").between(min, max).internal()
}

var brokerByName = index(brokerDefs)

// BrokerDef returns the definition of a broker setting, or nil.
func BrokerDef(name string) *Def { return brokerByName[name] }

// CheckBroker checks one broker setting: [*UnknownError] or [*ValueError].
func CheckBroker(name, value string) error {
	d := brokerByName[name]
	if d == nil {
		return &UnknownError{What: "broker", Name: name}
	}
	return d.Check(value)
}
