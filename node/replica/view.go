package replica

import (
	"seedlog/node/meta"
	"seedlog/node/partition"
)

// standings looks the brokers of a partition up in an image; it implements partition.Brokers.
type standings struct {
	image *meta.Image
	state *meta.Partition
}

func (s *standings) Standing(id int32) partition.Standing {
	b := s.image.Broker(id)
	if b == nil {
		return partition.Standing{}
	}
	return partition.Standing{Known: true, Fenced: b.Fenced, ShuttingDown: b.InControlledShutdown, DirLost: s.state.DirLost(b), Epoch: b.Epoch}
}

// racks looks up where the brokers are that a listener's clients can reach; it implements
// partition.Racks.
type racks struct {
	image    *meta.Image
	listener string
}

func (r racks) Rack(id int32) (string, bool) {
	b := r.image.Broker(id)
	if b == nil || b.Fenced || b.Rack == nil {
		return "", false
	}
	_, ok := b.Endpoint(r.listener)
	return *b.Rack, ok
}

// brokerAddr is where a broker is reached on a listener.
func brokerAddr(image *meta.Image, id int32, listener string) (addr string, ok bool) {
	b := image.Broker(id)
	if b == nil {
		return "", false
	}
	e, ok := b.Endpoint(listener)
	if !ok {
		return "", false
	}
	return e.Addr(), true
}
