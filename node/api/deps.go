package api

import (
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/node/config"
	"seedlog/node/coord"
	"seedlog/node/event"
	"seedlog/node/meta"
	"seedlog/node/quorum"
	"seedlog/node/replica"
)

// Proposer decides what clients and brokers ask of the controller. It is a
// *control.Router on the listeners of brokers, which finds the active controller wherever
// it is, and a *control.Host on those of controllers, which answers that it is not the one.
type Proposer interface {
	// Propose has req (with its Version set, and not changed any more) decided and
	// committed. offset is what quorum.Host.WaitPublished is to wait for, or -1 if that is
	// not known: the decision was made elsewhere.
	Propose(t *task.T, req kmsg.Request, until clock.Instant) (resp kmsg.Response, offset int64, err error)
}

// Deps are the parts of the node that requests are answered from. All are set, but for a
// node that is no broker: there Replicas and Groups are nil, and only a Service of the
// controller role may be made.
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
	Control  Proposer
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
