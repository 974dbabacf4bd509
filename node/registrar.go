package node

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/node/meta"
)

// registrar keeps this node's controller registered, so that all know its endpoints and the
// features that it serves (KIP-919).
type registrar struct {
	l           *life
	incarnation meta.UUID
}

func newRegistrar(l *life) *registrar {
	r := &registrar{l: l}
	l.h.Entropy(r.incarnation[:])
	return r
}

// registerMax bounds one attempt.
const registerMax = 5 * time.Second

// run registers whenever the metadata does not show this incarnation.
func (r *registrar) run(t *task.T) {
	if len(r.l.cfg.ControllerListeners) == 0 {
		return // a quorum of one without a controller listener is nobody's to find
	}
	for pause := retryMin; !t.Stopping(); {
		image := r.l.image.Load()
		known := image.Controller(r.l.cfg.NodeID)
		if image.MetadataVersion() == 0 || known != nil && known.IncarnationID == r.incarnation {
			r.l.quorum.WaitPublished(t, image.Offset+1, clock.Never)
			continue
		}
		if r.register(t) {
			pause = retryMin
			continue
		}
		t.Sleep(t.Now().Add(pause))
		pause = min(2*pause, retryMax)
	}
}

// register registers once. It reports whether the metadata shows it, or something newer.
func (r *registrar) register(t *task.T) bool {
	req := kmsg.NewPtrControllerRegistrationRequest()
	req.ControllerID, req.IncarnationID = r.l.cfg.NodeID, r.incarnation
	for _, a := range r.l.quorum.Endpoints() {
		e := kmsg.NewControllerRegistrationRequestListener()
		e.Name, e.Host, e.Port = a.Name, a.Host, a.Port
		req.Listeners = append(req.Listeners, e)
	}
	for _, f := range r.l.cfg.Features {
		rf := kmsg.NewControllerRegistrationRequestFeature()
		rf.Name, rf.MinSupportedVersion, rf.MaxSupportedVersion = f.Name, f.Min, f.Max
		req.Features = append(req.Features, rf)
	}
	until := t.Now().Add(registerMax)
	seen := r.l.image.Load().Offset
	resp, _, err := r.l.routes.lifecycle.Propose(t, req, until)
	if err != nil || kerr.ErrorForCode(resp.(*kmsg.ControllerRegistrationResponse).ErrorCode) != nil {
		return false
	}
	return r.l.quorum.WaitPublished(t, seen+1, until) == task.Woken
}
