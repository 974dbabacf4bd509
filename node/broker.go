package node

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/node/meta"
)

// errStopped: the node was asked to stop while it started.
var errStopped = errors.New("stopped while starting")

// ErrRefused: the controller does not let this broker into the cluster. The text says why.
var ErrRefused = errors.New("the controller refuses this broker")

// Pauses between attempts and reports.
const (
	retryMin = 2 * time.Millisecond // while registering, longer each time
	retryMax = 200 * time.Millisecond
	soon     = 10 * time.Millisecond // until the controller has done what the broker waits for
	shortly  = 50 * time.Millisecond
)

// leaveMax bounds a controlled shutdown, after which the broker stops all the same.
const leaveMax = time.Minute

// broker keeps this node's broker registered with the active controller, reports to it, and
// asks it to move leadership away before the broker stops:
//
//	register --> report, wants to be fenced --> report --> report, wants to shut down --> stop
//	             until the partitions are loaded
//
// It is one task. The others tell it what they want and see what became true.
type broker struct {
	l           *life
	incarnation meta.UUID
	epoch       task.Int64  // of the registration; -1 before
	due         task.Signal // a report is due now

	// What became true; node.moved is raised after each.
	registered task.Event
	unfenced   task.Event // for the first time
	released   task.Event // the controller lets the broker stop

	mu       task.Mutex    // guards what follows
	ready    bool          // the partitions are loaded
	leaving  bool          // it wants to stop
	answered clock.Instant // when the controller answered last
}

func newBroker(l *life) *broker {
	b := &broker{l: l}
	l.h.Entropy(b.incarnation[:])
	b.epoch.Store(-1)
	b.mu.Init(l.h.RT, "node.broker")
	b.due.Init(l.h.RT, "node.broker.due")
	for _, e := range []*task.Event{&b.registered, &b.unfenced, &b.released} {
		e.Init(l.h.RT, "node.broker.event")
	}
	for _, d := range l.dirs {
		// With the metadata's directory the node is about to end, or a full disk is being made
		// room on: what the report makes the controller write waits for the next one.
		if d.data && !d.metadata {
			d.OnOffline(func(error) { b.due.Raise() })
		}
	}
	return b
}

// becomeReady lets the controller unfence the broker.
func (b *broker) becomeReady() {
	b.mu.Lock()
	b.ready = true
	b.mu.Unlock()
	b.due.Raise()
}

// metadataChanged has the broker report at once when the metadata shows it unregistered or
// fenced: it need not be so for longer than a report takes.
func (b *broker) metadataChanged(d *meta.Delta) {
	if !slices.Contains(d.Brokers, b.l.cfg.NodeID) || !b.unfenced.IsSet() {
		return
	}
	own := d.To.Broker(b.l.cfg.NodeID)
	if own != nil && !own.Fenced && own.Epoch == b.epoch.Load() {
		return
	}
	b.mu.Lock()
	leaving := b.leaving
	b.mu.Unlock()
	if leaving {
		b.released.Set() // it leads nothing; the answer that says so may have been lost
	}
	b.due.Raise()
}

// leave asks the controller to move leadership away and waits until it has, or until it
// does not answer for as long as another controller would take to be elected.
func (b *broker) leave(t *task.T) {
	if !b.unfenced.IsSet() {
		return
	}
	began := t.Now()
	b.mu.Lock()
	b.leaving, b.answered = true, began
	b.mu.Unlock()
	b.due.Raise()
	cfg := b.l.cfg
	silence := time.Duration(cfg.ControllerFetchTimeoutMs+2*cfg.ControllerElectionTimeoutMs) * time.Millisecond
	for {
		b.mu.Lock()
		until := min(began.Add(leaveMax), b.answered.Add(silence))
		b.mu.Unlock()
		took := int64(time.Duration(t.Now()-began) / time.Millisecond)
		switch {
		case b.released.IsSet():
			b.l.n.event("leadership moved", took, "")
			return
		case t.Now() >= until:
			b.l.n.event("leadership not moved", took, "the controller does not answer or does not let go")
			return
		}
		b.released.Wait(t, until)
	}
}

// run registers the broker and reports until t's group stops.
func (b *broker) run(t *task.T) {
	if err := b.register(t); err != nil {
		b.end(t, err)
		return
	}
	b.registered.Set()
	b.l.n.moved.Raise()
	failures := 0
	for {
		seen := b.due.Generation()
		pause, err := b.report(t)
		switch {
		case err == nil:
			failures = 0
		case errors.Is(err, errGone):
			if err := b.register(t); err != nil {
				b.end(t, err)
				return
			}
			continue
		default:
			// The next report is soon: the session outlives several, and a new controller waits
			// for one.
			pause = min(retryMax, soon<<min(failures, 5))
			failures++
		}
		if b.due.Wait(t, seen, t.Now().Add(pause)) == task.Stopping {
			return
		}
	}
}

// end ends the node because of err, unless it stops anyway.
func (b *broker) end(t *task.T, err error) {
	if !t.Stopping() {
		b.l.n.fail(err)
	}
}

// errGone: the controller does not know this registration (any more).
var errGone = errors.New("registration is gone")

// register registers the broker. It goes on until that works or the controller refuses for
// good. That no controller can be found is not for good: the others may still start.
func (b *broker) register(t *task.T) error {
	req := b.registration()
	patience := t.Now().Add(time.Duration(b.l.cfg.InitialRegistrationTimeoutMs) * time.Millisecond)
	for pause := retryMin; ; pause = min(2*pause, retryMax) {
		err := b.tryRegister(t, req)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, kerr.UnsupportedVersion) && !t.Sleep(t.Now().Add(b.patience())):
			return errStopped // by the metadata, which says which level it is
		case errors.Is(err, ErrRefused) && (!errors.Is(err, kerr.DuplicateBrokerRegistration) || t.Now() >= patience):
			return err
		case !t.Sleep(t.Now().Add(pause)):
			return errStopped
		}
	}
}

// tryRegister registers once.
func (b *broker) tryRegister(t *task.T, req *kmsg.BrokerRegistrationRequest) error {
	resp, _, err := b.l.routes.lifecycle.Propose(t, req, t.Now().Add(b.patience()))
	if err != nil {
		return err
	}
	r := resp.(*kmsg.BrokerRegistrationResponse)
	if err := kerr.ErrorForCode(r.ErrorCode); kerr.IsRetriable(err) {
		return err
	} else if err != nil {
		return b.refused(err)
	}
	b.epoch.Store(r.BrokerEpoch)
	return nil
}

// refused says in one line why the broker cannot be part of the cluster.
func (b *broker) refused(err error) error {
	why := err.Error()
	switch err {
	case kerr.DuplicateBrokerRegistration:
		why = "another process is registered as this broker and runs: give each node a node.id of its own"
	case kerr.InconsistentClusterID:
		why = fmt.Sprintf("the directories of this node belong to cluster %s, and the controller is of another", b.l.identity.ClusterID)
	case kerr.InvalidRegistration:
		why = "a log directory of this node is registered by another broker, or none can be: was a directory copied?"
	case kerr.UnsupportedVersion:
		why = fmt.Sprintf("a feature is finalized at a level that this node does not serve (%v)", b.l.cfg.Features)
	}
	return &refusal{broker: b.l.cfg.NodeID, code: err, why: why}
}

// refusal is an answer of the controller that another attempt would not change.
type refusal struct {
	broker int32
	code   error // of kerr
	why    string
}

func (r *refusal) Error() string {
	name := r.code.Error()
	var k *kerr.Error
	if errors.As(r.code, &k) {
		name = k.Message
	}
	return fmt.Sprintf("%v: broker %d: %s: %s", ErrRefused, r.broker, name, r.why)
}

// Unwrap gives ErrRefused and Kafka's error.
func (r *refusal) Unwrap() []error { return []error{ErrRefused, r.code} }

// patience is how long one attempt to reach the controller takes at most: half a session, so
// that there is time for another.
func (b *broker) patience() time.Duration {
	return time.Duration(b.l.cfg.BrokerSessionTimeoutMs) * time.Millisecond / 2
}

func (b *broker) registration() *kmsg.BrokerRegistrationRequest {
	l := b.l
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.Version = 4
	req.BrokerID, req.ClusterID, req.IncarnationID = l.cfg.NodeID, l.identity.ClusterID, b.incarnation
	for _, a := range l.advertised(l.cfg.AdvertisedBrokers()) {
		e := kmsg.NewBrokerRegistrationRequestListener()
		e.Name, e.Host, e.Port = a.Name, a.Host, uint16(a.Port)
		req.Listeners = append(req.Listeners, e)
	}
	for _, f := range l.cfg.Features {
		rf := kmsg.NewBrokerRegistrationRequestFeature()
		rf.Name, rf.MinSupportedVersion, rf.MaxSupportedVersion = f.Name, f.Min, f.Max
		req.Features = append(req.Features, rf)
	}
	if l.cfg.Rack != "" {
		req.Rack = &l.cfg.Rack
	}
	for _, d := range l.dirs {
		if d.data && !d.lost {
			req.LogDirs = append(req.LogDirs, d.id)
		}
	}
	req.PreviousBrokerEpoch = b.previousEpoch()
	return req
}

// previousEpoch is the epoch of the registration that nothing was lost since: that of this
// life if it has one, or else of the life before, if that stopped all directories cleanly and
// none is lost.
func (b *broker) previousEpoch() int64 {
	if epoch := b.epoch.Load(); epoch >= 0 {
		return epoch
	}
	previous, first := int64(-1), true
	for _, d := range b.l.dirs {
		if !d.data {
			continue
		}
		e := d.PreviousBrokerEpoch()
		if d.lost || !first && e != previous {
			return -1
		}
		previous, first = e, false
	}
	return previous
}

// report tells the controller once how the broker is and what it wants. pause is when to
// report again.
func (b *broker) report(t *task.T) (pause time.Duration, err error) {
	req := b.heartbeat()
	resp, offset, err := b.l.routes.lifecycle.Propose(t, req, t.Now().Add(b.patience()))
	if err != nil {
		return 0, err
	}
	r := resp.(*kmsg.BrokerHeartbeatResponse)
	switch err := kerr.ErrorForCode(r.ErrorCode); err {
	case nil:
	case kerr.StaleBrokerEpoch, kerr.BrokerIDNotRegistered:
		return 0, errGone
	default:
		return 0, err
	}
	b.mu.Lock()
	b.answered = t.Now()
	b.mu.Unlock()
	pause = time.Duration(b.l.cfg.BrokerHeartbeatMs) * time.Millisecond
	switch {
	case req.WantShutdown && r.ShouldShutdown:
		b.released.Set()
	case req.WantShutdown:
		pause = min(pause, shortly)
	case !r.IsFenced && !b.unfenced.IsSet():
		if !b.seeUnfenced(t, offset) {
			pause = min(pause, soon)
		}
	case r.IsFenced && !req.WantFence:
		pause = min(pause, soon)
	}
	return pause, nil
}

// seeUnfenced waits until this broker's own metadata shows what the controller decided: it,
// unfenced, and whom it elected then. Clients must not come before.
func (b *broker) seeUnfenced(t *task.T, offset int64) bool {
	until := t.Now().Add(b.patience())
	for {
		image := b.l.image.Load()
		own := image.Broker(b.l.cfg.NodeID)
		if own != nil && own.Epoch == b.epoch.Load() && !own.Fenced && image.Offset >= offset {
			b.unfenced.Set()
			b.l.n.moved.Raise()
			return true
		}
		if b.l.quorum.WaitPublished(t, image.Offset+1, until) != task.Woken {
			return false
		}
	}
}

func (b *broker) heartbeat() *kmsg.BrokerHeartbeatRequest {
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.Version = 1
	req.BrokerID, req.BrokerEpoch = b.l.cfg.NodeID, b.epoch.Load()
	req.CurrentMetadataOffset = b.l.image.Load().Offset
	b.mu.Lock()
	req.WantFence, req.WantShutdown = !b.ready, b.leaving
	b.mu.Unlock()
	for _, d := range b.l.dirs {
		if d.data && !d.lost && d.Err() != nil { // a lost one was never registered
			req.OfflineLogDirs = append(req.OfflineLogDirs, d.id)
		}
	}
	return req
}
