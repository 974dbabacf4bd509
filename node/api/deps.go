package api

import (
	"math/rand/v2"

	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/node/config"
	"seedlog/node/control"
	"seedlog/node/coord"
	"seedlog/node/event"
	"seedlog/node/meta"
	"seedlog/node/quorum"
	"seedlog/node/replica"
)

// Deps are the parts of the node that requests are answered from. All are set.
type Deps struct {
	RT        task.Runtime
	Disk      disk.Disk
	NodeID    int32
	ClusterID string
	// Config is the newest settings of this broker.
	Config func() *config.Config
	// Image is the newest metadata that this broker's replicas have caught up with.
	Image    func() *meta.Image
	Quorum   *quorum.Host
	Control  *control.Host
	Replicas *replica.Manager
	Groups   *coord.Coordinator
	Events   event.Sink
	// Rand draws fetch session ids.
	Rand *rand.Rand
	// BrokerEpoch is the epoch of this broker's registration.
	BrokerEpoch func() int64
	// DecodeBytesMax bounds what requests being decoded may take together.
	DecodeBytesMax int64
}
