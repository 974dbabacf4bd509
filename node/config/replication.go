package config

import "math"

// RackAwareSelector is the replica.selector.class that has consumers read from a replica in
// their own rack (KIP-392). Kafka's name is kept: a file for Kafka works here.
const RackAwareSelector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

const leaderSelector = "org.apache.kafka.common.replica.LeaderSelector"

// Unthrottled is the rate of replication that is not throttled, in bytes a second.
const Unthrottled = math.MaxInt64

// Replication is how brokers copy partitions, and how leaders are chosen.
type Replication struct {
	ReplicaLagTimeMaxMs          int64
	ReplicaFetchMaxBytes         int32 // of one partition
	ReplicaFetchResponseMaxBytes int32
	ReplicaFetchWaitMaxMs        int32
	ReplicaFetchMinBytes         int32
	ReplicaFetchBackoffMs        int32
	ReplicaSocketTimeoutMs       int32
	NumReplicaFetchers           int32 // from each source broker
	// RackAware: consumers are sent to a replica in their rack.
	RackAware bool

	AutoLeaderRebalance          bool
	LeaderImbalanceCheckMs       int64
	LeaderImbalancePercentage    int32
	UncleanElectionIntervalMs    int64
	ControlledShutdown           bool
	InitialRegistrationTimeoutMs int64
	RequestTimeoutMs             int32

	// Throttled rates, in bytes a second; Unthrottled if unset.
	LeaderThrottledRate   int64
	FollowerThrottledRate int64
	// AlterLogDirsThrottledRate is how fast replicas are moved between directories, in bytes a second.
	AlterLogDirsThrottledRate int64
}

// replicationDefs are the settings of Replication.
func replicationDefs() []*Def {
	return []*Def{
		def("replica.lag.time.max.ms", Long, "30000", "How long a follower may stay behind before it leaves the ISR, in milliseconds.").atLeast(1),
		def("replica.fetch.max.bytes", Int, "1048576", "How much of one partition a follower asks for at once, in bytes.").atLeast(0),
		def("replica.fetch.response.max.bytes", Int, "10485760", "How much a follower asks for at once, in bytes.").atLeast(0),
		def("replica.fetch.wait.max.ms", Int, "500", "How long a follower's fetch waits for data, in milliseconds."),
		def("replica.fetch.min.bytes", Int, "1", "How much data a follower's fetch waits for, in bytes."),
		def("replica.fetch.backoff.ms", Int, "1000", "How long a follower pauses after a failed fetch of a partition, in milliseconds.").atLeast(0),
		def("replica.socket.timeout.ms", Int, "30000", "How long a follower waits for an answer, in milliseconds."),
		def("num.replica.fetchers", Int, "1", "How many fetchers copy from each broker.").atLeast(1).dynamic(ClusterWide),
		unset("replica.selector.class", String, "Which replica consumers read from: unset or LeaderSelector is the leader, RackAwareReplicaSelector one in the consumer's rack.").in(leaderSelector, RackAwareSelector),
		def("auto.leader.rebalance.enable", Boolean, "true", "Whether leadership moves back to the preferred replicas by itself."),
		def("leader.imbalance.check.interval.seconds", Long, "300", "How often leadership is checked for balance, in seconds.").atLeast(1),
		def("leader.imbalance.per.broker.percentage", Int, "10", "How many of a broker's partitions may be led elsewhere, in percent."),
		def("unclean.leader.election.interval.ms", Long, "300000", "How often unclean elections are tried where they are enabled, in milliseconds.").atLeast(1),
		def("controlled.shutdown.enable", Boolean, "true", "Whether a broker moves leadership away before it stops."),
		def("initial.broker.registration.timeout.ms", Int, "60000", "How long a broker tries to register before it gives up, in milliseconds.").atLeast(0),
		def("request.timeout.ms", Int, "30000", "How long a broker waits for another node's answer, in milliseconds.").atLeast(0),
		def("leader.replication.throttled.rate", Long, maxLong, "How fast a leader sends throttled replicas, in bytes a second.").atLeast(0).dynamic(PerBroker),
		def("follower.replication.throttled.rate", Long, maxLong, "How fast a follower fetches throttled replicas, in bytes a second.").atLeast(0).dynamic(PerBroker),
		def("replica.alter.log.dirs.io.max.bytes.per.second", Long, maxLong, "How fast replicas are moved between directories, in bytes a second.").atLeast(0).dynamic(PerBroker),
	}
}

func (c *Config) resolveReplication() error {
	c.ReplicaLagTimeMaxMs = c.num("replica.lag.time.max.ms")
	c.ReplicaFetchMaxBytes = int32(c.num("replica.fetch.max.bytes"))
	c.ReplicaFetchResponseMaxBytes = int32(c.num("replica.fetch.response.max.bytes"))
	c.ReplicaFetchWaitMaxMs = int32(c.num("replica.fetch.wait.max.ms"))
	c.ReplicaFetchMinBytes = int32(c.num("replica.fetch.min.bytes"))
	c.ReplicaFetchBackoffMs = int32(c.num("replica.fetch.backoff.ms"))
	c.ReplicaSocketTimeoutMs = int32(c.num("replica.socket.timeout.ms"))
	c.NumReplicaFetchers = int32(c.num("num.replica.fetchers"))
	c.RackAware = c.text("replica.selector.class") == RackAwareSelector
	c.AutoLeaderRebalance = c.flag("auto.leader.rebalance.enable")
	c.LeaderImbalanceCheckMs = c.num("leader.imbalance.check.interval.seconds") * 1000
	c.LeaderImbalancePercentage = int32(c.num("leader.imbalance.per.broker.percentage"))
	c.UncleanElectionIntervalMs = c.num("unclean.leader.election.interval.ms")
	c.ControlledShutdown = c.flag("controlled.shutdown.enable")
	c.InitialRegistrationTimeoutMs = c.num("initial.broker.registration.timeout.ms")
	c.RequestTimeoutMs = int32(c.num("request.timeout.ms"))
	c.LeaderThrottledRate = c.num("leader.replication.throttled.rate")
	c.FollowerThrottledRate = c.num("follower.replication.throttled.rate")
	c.AlterLogDirsThrottledRate = c.num("replica.alter.log.dirs.io.max.bytes.per.second")
	switch {
	case c.ReplicaFetchWaitMaxMs > c.ReplicaSocketTimeoutMs:
		return rulef("replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent unnecessary socket timeouts")
	case int64(c.ReplicaFetchWaitMaxMs) > c.ReplicaLagTimeMaxMs:
		return rulef("replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to prevent frequent changes in ISR")
	}
	return nil
}
