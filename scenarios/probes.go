package scenarios

// Probes are the places that a campaign of the swarm must reach, by the name of the node's
// event or of the run's own mark.
//
// Not here, because one node cannot come there: log-truncated is a follower's, a stray log is of
// a replica that was moved to another node (log-stray), and an append of a group is refused for
// want of replicas (group-append-refused). Nor can the swarm: it damages
// no stored bytes (log-corrupt, index-rebuilt, group-record-skipped), does not run for the
// minutes after which offsets expire (group-offsets-expired), and its listeners never fail
// (accept-failed). The named scenarios come to some of these.
var Probes = []string{
	// The node's life.
	"loading", "node-state", "checkpoint-failed", "leader-began", "partition-failed",
	// Directories and logs.
	"ballast-released", "dir-offline", "log-created", "log-cut", "log-deleted",
	"log-flushed", "log-offline", "log-recovered", "log-start-moved", "segment-deleted", "segment-rolled",
	// Connections and requests.
	"connection-closed", "request-malformed",
	// The metadata quorum.
	"metadata-snapshot", "quorum-failed", "quorum-leader-elected",
	// Groups.
	"group-member-fenced", "group-member-removed", "group-rebalanced", "group-shard-ended",
	"group-shard-loaded", "group-stable",
	// The run's own.
	"crash-in-recovery", "restart-after-offline",
}
