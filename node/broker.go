package node

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/config"
	"seedlog/node/meta"
)

// errStopped: the node was asked to stop while it started.
var errStopped = errors.New("stopped while starting")

// Registering pauses after a refusal, longer each time.
const (
	registerRetryMin = 2 * time.Millisecond
	registerRetryMax = 200 * time.Millisecond
)

// broker keeps this node's broker registered and unfenced with the controller.
type broker struct {
	l           *life
	incarnation meta.UUID
	epoch       task.Int64
}

func newBroker(l *life) *broker {
	b := &broker{l: l}
	l.h.Entropy(b.incarnation[:])
	b.epoch.Store(-1)
	return b
}

// register registers the broker and has it unfenced. It goes on until that works, the node
// stops, or the controller refuses for good.
func (b *broker) register(t *task.T) error {
	req := b.registration()
	if err := b.retry(t, func() (bool, error) { return b.tryRegister(t, req) }); err != nil {
		return err
	}
	return b.retry(t, func() (bool, error) {
		fenced, err := b.heartbeat(t)
		return err == nil && !fenced, nil
	})
}

// tryRegister registers once. The controller unfences who has seen its own registration, so
// that is waited for.
func (b *broker) tryRegister(t *task.T, req *kmsg.BrokerRegistrationRequest) (done bool, err error) {
	resp, offset, err := b.l.router.Propose(t, req, t.Now().Add(b.sessionTimeout()))
	if err != nil {
		return false, nil
	}
	r := resp.(*kmsg.BrokerRegistrationResponse)
	switch err := kerr.ErrorForCode(r.ErrorCode); {
	case err == nil:
	case kerr.IsRetriable(err), err == kerr.DuplicateBrokerRegistration:
		return false, nil
	default:
		return false, fmt.Errorf("the controller refuses broker %d: %w", b.l.cfg.NodeID, err)
	}
	b.epoch.Store(r.BrokerEpoch)
	b.l.quorum.WaitPublished(t, offset, t.Now().Add(b.sessionTimeout()))
	return true, nil
}

// retry calls try until it is done or fails.
func (b *broker) retry(t *task.T, try func() (bool, error)) error {
	for pause := registerRetryMin; ; pause = min(2*pause, registerRetryMax) {
		if done, err := try(); done || err != nil {
			return err
		}
		if err := b.pause(t, pause); err != nil {
			return err
		}
	}
}

// pause waits a little; it returns an error if the node is to stop.
func (b *broker) pause(t *task.T, d time.Duration) error {
	if r := b.l.n.stop.Wait(t, t.Now().Add(d)); r == task.TimedOut {
		return nil
	}
	if err := b.l.n.failure(); err != nil {
		return err
	}
	return errStopped
}

func (b *broker) sessionTimeout() time.Duration {
	return time.Duration(b.l.cfg.BrokerSessionTimeoutMs) * time.Millisecond
}

func (b *broker) registration() *kmsg.BrokerRegistrationRequest {
	l := b.l
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.Version = 4
	req.BrokerID, req.ClusterID, req.IncarnationID = l.cfg.NodeID, l.identity.ClusterID, b.incarnation
	for _, a := range l.advertised() {
		e := kmsg.NewBrokerRegistrationRequestListener()
		e.Name, e.Host, e.Port = a.Name, a.Host, uint16(a.Port)
		req.Listeners = append(req.Listeners, e)
	}
	for _, f := range meta.SupportedFeatures() {
		rf := kmsg.NewBrokerRegistrationRequestFeature()
		rf.Name, rf.MinSupportedVersion, rf.MaxSupportedVersion = f.Name, f.Min, f.Max
		req.Features = append(req.Features, rf)
	}
	if l.cfg.Rack != "" {
		req.Rack = &l.cfg.Rack
	}
	previous := int64(-1)
	for i, d := range l.dirs {
		if !d.data {
			continue
		}
		req.LogDirs = append(req.LogDirs, d.id)
		// Only if all directories were cleanly stopped, and by the same life, was the broker.
		if e := d.PreviousBrokerEpoch(); i == 0 || e == previous {
			previous = e
		} else {
			previous = -1
		}
	}
	req.PreviousBrokerEpoch = previous
	return req
}

// heartbeat reports to the controller once.
func (b *broker) heartbeat(t *task.T) (fenced bool, err error) {
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.Version = 1
	req.BrokerID, req.BrokerEpoch = b.l.cfg.NodeID, b.epoch.Load()
	req.CurrentMetadataOffset = b.l.image.Load().Offset
	for _, d := range b.l.dirs {
		if d.data && d.Err() != nil {
			req.OfflineLogDirs = append(req.OfflineLogDirs, d.id)
		}
	}
	resp, offset, err := b.l.router.Propose(t, req, t.Now().Add(b.sessionTimeout()))
	if err != nil {
		return true, err
	}
	r := resp.(*kmsg.BrokerHeartbeatResponse)
	if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
		return true, err
	}
	if offset >= 0 {
		// What the controller decided on this report, such as whom to elect, must be here before
		// clients are.
		b.l.quorum.WaitPublished(t, offset, t.Now().Add(b.sessionTimeout()))
	}
	return r.IsFenced, nil
}

// heartbeats reports every broker.heartbeat.interval.ms until t's group stops.
func (b *broker) heartbeats(t *task.T) {
	interval := time.Duration(b.l.cfg.BrokerHeartbeatMs) * time.Millisecond
	for t.Sleep(t.Now().Add(interval)) {
		// A report that fails is made again at the next interval; the session outlives several.
		_, _ = b.heartbeat(t)
	}
}

// advertised is what clients are told to connect to.
func (l *life) advertised() []config.Listener {
	var out []config.Listener
	for i, c := range l.cfg.Listeners {
		adv := config.Listener{Name: c.Name, Host: c.Host, Port: c.Port}
		for _, a := range l.cfg.Advertised {
			if a.Name == c.Name {
				adv = a
			}
		}
		if adv.Host == "" || adv.Host == "0.0.0.0" || adv.Host == "[::]" {
			adv.Host = "localhost"
		}
		if adv.Port == 0 {
			adv.Port = portOf(l.listeners[i].Addr())
		}
		out = append(out, adv)
	}
	return out
}

// portOf is the port of "host:port".
func portOf(addr string) int32 {
	port, err := strconv.ParseUint(addr[strings.LastIndexByte(addr, ':')+1:], 10, 16)
	if err != nil {
		return 0
	}
	return int32(port)
}
