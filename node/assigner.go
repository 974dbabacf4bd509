package node

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/node/meta"
	"seedlog/node/replica"
)

// assigner tells the controller which directory holds a replica, where that is not what the
// metadata says: the broker chose one, or the replica was moved (KIP-858). Without it the
// failure of a directory would not be known to be the failure of its replicas.
type assigner struct {
	l     *life
	grown task.Signal

	mu      task.Mutex
	pending []replica.Key // to be looked at; may have some twice
}

const (
	assignMax     = 10 * time.Second // for one request
	assignAtOnce  = 2000             // replicas in one request
	assignRetryIn = 200 * time.Millisecond
)

func newAssigner(l *life) *assigner {
	a := &assigner{l: l}
	a.mu.Init(l.h.RT, "node.assigner")
	a.grown.Init(l.h.RT, "node.assigner.grown")
	l.brokering.Go("directory assignments", a.run)
	return a
}

// MetadataChanged implements quorum.Listener: it comes after the replicas were made.
func (a *assigner) MetadataChanged(_ *task.T, d *meta.Delta) {
	var keys []replica.Key
	for i := range d.Topics {
		for _, index := range d.Topics[i].Changed() {
			k := replica.Key{Topic: d.Topics[i].ID, Partition: index}
			if _, ok := a.misplaced(d.To, k); ok {
				keys = append(keys, k)
			}
		}
	}
	a.add(keys)
}

func (a *assigner) add(keys []replica.Key) {
	if len(keys) == 0 {
		return
	}
	a.mu.Lock()
	a.pending = append(a.pending, keys...)
	a.mu.Unlock()
	a.grown.Raise()
}

// misplaced reports whether the metadata says something else than the directory that holds
// this broker's replica.
func (a *assigner) misplaced(image *meta.Image, k replica.Key) (dir meta.UUID, ok bool) {
	p := image.Partition(k.Topic, k.Partition)
	if p == nil {
		return meta.UUID{}, false
	}
	at := slices.Index(p.Replicas, a.l.cfg.NodeID)
	if at < 0 || at >= len(p.Directories) {
		return meta.UUID{}, false
	}
	host, err := a.l.replicas.Partition(k)
	if err != nil {
		return meta.UUID{}, false
	}
	for _, d := range a.l.dirs {
		if d.Dir == host.Log().Dir() {
			return d.id, d.id != p.Directories[at]
		}
	}
	return meta.UUID{}, false
}

// run sends what is pending until t's group stops.
func (a *assigner) run(t *task.T) {
	a.l.broker.registered.Wait(t, clock.Never)
	for !t.Stopping() {
		seen := a.grown.Generation()
		a.mu.Lock()
		n := min(len(a.pending), assignAtOnce)
		keys := slices.Clone(a.pending[:n])
		a.pending = slices.Delete(a.pending, 0, n)
		a.mu.Unlock()
		switch {
		case len(keys) == 0:
			a.grown.Wait(t, seen, clock.Never)
		case !a.assign(t, keys):
			a.add(keys)
			t.Sleep(t.Now().Add(assignRetryIn))
		}
	}
}

// assign sends one request; false if it is to be sent again.
func (a *assigner) assign(t *task.T, keys []replica.Key) bool {
	slices.SortFunc(keys, replica.Key.Compare)
	req := a.request(slices.Compact(keys))
	if len(req.Directories) == 0 {
		return true
	}
	resp, _, err := a.l.routes.partitions.Propose(t, req, t.Now().Add(assignMax))
	if err != nil {
		return false
	}
	// Partitions that are refused one by one are gone, or moved since: the metadata that says
	// so brings them here again.
	return kerr.ErrorForCode(resp.(*kmsg.AssignReplicasToDirsResponse).ErrorCode) == nil
}

func (a *assigner) request(keys []replica.Key) *kmsg.AssignReplicasToDirsRequest {
	req := kmsg.NewPtrAssignReplicasToDirsRequest()
	req.BrokerID, req.BrokerEpoch = a.l.cfg.NodeID, a.l.broker.epoch.Load()
	image := a.l.image.Load()
	for _, d := range a.l.dirs {
		dir := kmsg.NewAssignReplicasToDirsRequestDirectory()
		dir.ID = d.id
		for _, k := range keys {
			if in, ok := a.misplaced(image, k); ok && in == d.id {
				addPartition(&dir, k)
			}
		}
		if len(dir.Topics) > 0 {
			req.Directories = append(req.Directories, dir)
		}
	}
	return req
}

// addPartition adds one of ascending keys.
func addPartition(dir *kmsg.AssignReplicasToDirsRequestDirectory, k replica.Key) {
	if n := len(dir.Topics); n == 0 || dir.Topics[n-1].TopicID != k.Topic {
		topic := kmsg.NewAssignReplicasToDirsRequestDirectoryTopic()
		topic.TopicID = k.Topic
		dir.Topics = append(dir.Topics, topic)
	}
	topic := &dir.Topics[len(dir.Topics)-1]
	p := kmsg.NewAssignReplicasToDirsRequestDirectoryTopicPartition()
	p.Partition = k.Partition
	topic.Partitions = append(topic.Partitions, p)
}
