package node

import (
	"cmp"
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
	pending []toTell // to be looked at; may have some twice
}

// toTell is a replica whose directory the controller may not know. One that waits for its
// answer has it told always: what the metadata says may be about to change by what was told
// before.
type toTell struct {
	replica.Key
	always bool
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
	var keys []toTell
	for i := range d.Topics {
		for _, index := range d.Topics[i].Changed() {
			k := replica.Key{Topic: d.Topics[i].ID, Partition: index}
			if _, ok := a.misplaced(d.To, k); ok {
				keys = append(keys, toTell{Key: k})
			}
		}
	}
	a.add(keys)
}

func (a *assigner) add(keys []toTell) {
	if len(keys) == 0 {
		return
	}
	a.mu.Lock()
	a.pending = append(a.pending, keys...)
	a.mu.Unlock()
	a.grown.Raise()
}

// tell has the controller told where a replica is to be, and the replicas that it knows.
func (a *assigner) tell(k replica.Key) { a.add([]toTell{{k, true}}) }

// misplaced reports whether the metadata says something else than the directory that this
// broker's replica is, or is about to be, in.
func (a *assigner) misplaced(image *meta.Image, k replica.Key) (dir meta.UUID, ok bool) {
	p := image.Partition(k.Topic, k.Partition)
	if p == nil {
		return meta.UUID{}, false
	}
	at := slices.Index(p.Replicas, a.l.cfg.NodeID)
	if at < 0 || at >= len(p.Directories) {
		return meta.UUID{}, false
	}
	dir, ok = a.l.replicas.PlaceOf(k)
	return dir, ok && dir != p.Directories[at]
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
func (a *assigner) assign(t *task.T, keys []toTell) bool {
	slices.SortFunc(keys, func(x, y toTell) int { return x.Key.Compare(y.Key) })
	keys = merge(keys)
	req := a.request(keys)
	if len(req.Directories) == 0 {
		return true
	}
	resp, _, err := a.l.routes.partitions.Propose(t, req, t.Now().Add(assignMax))
	if err != nil {
		return false
	}
	// Partitions that are refused one by one are gone, or moved since: the metadata that says
	// so brings them here again.
	r := resp.(*kmsg.AssignReplicasToDirsResponse)
	if kerr.ErrorForCode(r.ErrorCode) != nil {
		return false
	}
	a.told(r, keys)
	return true
}

// merge makes one of those that a sorted list has twice.
func merge(keys []toTell) []toTell {
	out := keys[:0]
	for _, k := range keys {
		if n := len(out); n > 0 && out[n-1].Key == k.Key {
			out[n-1].always = out[n-1].always || k.always
		} else {
			out = append(out, k)
		}
	}
	return out
}

// told passes on what the controller took to those that wait for it.
func (a *assigner) told(r *kmsg.AssignReplicasToDirsResponse, keys []toTell) {
	waiting := map[replica.Key]bool{}
	for _, k := range keys {
		if k.always {
			waiting[k.Key] = true
		}
	}
	for _, d := range r.Directories {
		for _, topic := range d.Topics {
			for _, p := range topic.Partitions {
				k := replica.Key{Topic: topic.TopicID, Partition: p.Partition}
				if p.ErrorCode == 0 && waiting[k] {
					a.l.replicas.PlaceTold(k, d.ID)
				}
			}
		}
	}
}

func (a *assigner) request(keys []toTell) *kmsg.AssignReplicasToDirsRequest {
	req := kmsg.NewPtrAssignReplicasToDirsRequest()
	req.BrokerID, req.BrokerEpoch = a.l.cfg.NodeID, a.l.broker.epoch.Load()
	image := a.l.image.Load()
	var dirs []meta.UUID
	in := map[meta.UUID][]replica.Key{}
	for _, k := range keys {
		id, ok := a.place(image, k)
		if !ok {
			continue
		}
		if in[id] == nil {
			dirs = append(dirs, id)
		}
		in[id] = append(in[id], k.Key)
	}
	slices.SortFunc(dirs, func(x, y meta.UUID) int { return cmp.Compare(a.position(x), a.position(y)) })
	for _, id := range dirs {
		dir := kmsg.NewAssignReplicasToDirsRequestDirectory()
		dir.ID = id
		for _, k := range in[id] {
			addPartition(&dir, k)
		}
		req.Directories = append(req.Directories, dir)
	}
	return req
}

// place is the directory that the controller is told for a replica, if it is told one.
func (a *assigner) place(image *meta.Image, k toTell) (meta.UUID, bool) {
	if !k.always {
		return a.misplaced(image, k.Key)
	}
	return a.l.replicas.PlaceOf(k.Key)
}

// position orders directories as they are configured; the one that stands for none is last.
func (a *assigner) position(id meta.UUID) int {
	at := slices.IndexFunc(a.l.dirs, func(d *openDir) bool { return d.id == id })
	if at < 0 {
		return len(a.l.dirs)
	}
	return at
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
