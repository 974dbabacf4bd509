// Package control hosts the controller of package controller while this node leads the
// metadata quorum.
//
//	Propose --> queue --> controller task: Decide, Replay, Append --> metadata log
//	   \--------------------------- waits for the commit <------------------/
//
// The task decides one command after the other, each on what the ones before made of the
// state, and does not wait for the disk: while one sync runs, the next commands are decided
// and share the next one. The proposers wait for their own commit.
//
// What this package never does: decide anything itself, or answer before the commit.
package control

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/node/config"
	"seedlog/node/controller"
	"seedlog/node/event"
	"seedlog/node/meta"
	"seedlog/node/quorum"
)

// Errors of Propose. What is wrong with a request is in its response, not here.
var (
	// ErrNotController: this node does not lead the quorum. Nothing was changed.
	ErrNotController = errors.New("not the controller")
	// ErrTimeout: the deadline passed first. The change may still be committed.
	ErrTimeout = errors.New("timed out waiting for the controller")
	// ErrUnsettled: this node stopped leading before the change was committed. The next
	// leader may have it and commit it, or not.
	ErrUnsettled = errors.New("the leadership ended before the change was committed")
	// ErrStopping: the node stops.
	ErrStopping = errors.New("controller stops")
)

// queueLength is how many commands wait undecided before proposers wait to hand theirs in.
const queueLength = 1024

// Host runs the controller while the node leads the quorum.
type Host struct {
	// Events is told what was decided, once it is handed to the log; nil tells nobody. It is
	// set before Run.
	Events event.Sink

	q    *quorum.Host
	cfg  *config.Config
	rand *rand.Rand

	arrived   task.Signal // the queue grew or shrank, or closed changed
	activated task.Signal // active changed, or somebody should look again

	mu     task.Mutex // guards what follows
	queue  []*command
	taken  int32 // the epoch of the newest term in which commands were taken
	active bool  // commands are taken: this node leads and knows all that was before
	closed error // set once Run returned

	// Of the controller task alone.
	state *controller.State
	term  quorum.Term
	next  int64 // the offset of the next record
}

// command is one proposal.
type command struct {
	req     kmsg.Request
	decided task.Event

	// Set before decided.
	resp   kmsg.Response
	epoch  int32
	offset int64
	err    error
}

// New returns a host on q. rand draws topic ids and places replicas.
func New(rt task.Runtime, q *quorum.Host, cfg *config.Config, rand *rand.Rand) *Host {
	h := &Host{q: q, cfg: cfg, rand: rand}
	h.mu.Init(rt, "control.Host")
	h.arrived.Init(rt, "control.Host.arrived")
	h.activated.Init(rt, "control.Host.activated")
	return h
}

// Propose decides req and, if it changes anything, waits until the change is committed. It
// is ErrNotController at once while this node is not the active controller: [Router] looks
// for the one that is.
// req is one of those that controller.State.Decide knows, with its Version set; the response is
// of the same version. req is kept: the caller must not change it. offset is the last offset that
// the response depends on (for quorum.Host.WaitPublished).
func (h *Host) Propose(t *task.T, req kmsg.Request, until clock.Instant) (resp kmsg.Response, offset int64, err error) {
	return h.ProposeIn(t, anyTerm, req, until)
}

// ProposeIn is Propose, and ErrNotController in any term but that of the epoch: what was meant
// for an earlier term of this node may have been decided by those who led in between.
func (h *Host) ProposeIn(t *task.T, epoch int32, req kmsg.Request, until clock.Instant) (resp kmsg.Response, offset int64, err error) {
	c := &command{req: req}
	c.decided.Init(t.Runtime(), "control.command")
	if err := h.push(t, c, epoch, until); err != nil {
		return nil, -1, err
	}
	switch c.decided.Wait(t, until) {
	case task.TimedOut:
		return nil, -1, ErrTimeout
	case task.Stopping:
		return nil, -1, errStopped
	}
	if c.err != nil {
		return nil, -1, c.err
	}
	err = h.q.WaitCommitted(t, c.epoch, c.offset, until)
	switch {
	case errors.Is(err, quorum.ErrNotLeader):
		return nil, -1, ErrUnsettled
	case errors.Is(err, quorum.ErrStopping):
		return nil, -1, errStopped
	}
	if err != nil {
		return nil, -1, translate(err)
	}
	return c.resp, c.offset, nil
}

// errStopped: the node stops, and what it took may be decided, and be committed yet.
var errStopped = fmt.Errorf("%w: %w", ErrUnsettled, ErrStopping)

func translate(err error) error {
	switch {
	case errors.Is(err, quorum.ErrNotLeader):
		return ErrNotController
	case errors.Is(err, quorum.ErrTimeout):
		return ErrTimeout
	case errors.Is(err, quorum.ErrStopping):
		return ErrStopping
	}
	return err
}

// anyTerm is no epoch: whichever term is now.
const anyTerm = -1

// push waits for room in the queue.
func (h *Host) push(t *task.T, c *command, epoch int32, until clock.Instant) error {
	for {
		seen := h.arrived.Generation()
		h.mu.Lock()
		err, room := h.closed, len(h.queue) < queueLength
		if err == nil && (!h.active || epoch != anyTerm && epoch != h.taken) {
			err = ErrNotController
		}
		if err == nil && room {
			h.queue = append(h.queue, c)
		}
		h.mu.Unlock()
		if err != nil {
			return err
		}
		if room {
			h.arrived.Raise()
			return nil
		}
		switch h.arrived.Wait(t, seen, until) {
		case task.TimedOut:
			return ErrTimeout
		case task.Stopping:
			return ErrStopping
		}
	}
}

// Run decides what is proposed, until t's group stops (nil) or the quorum fails.
func (h *Host) Run(t *task.T) error {
	err := h.serve(t)
	if errors.Is(err, quorum.ErrStopping) {
		err = nil
	}
	closed := err
	if closed == nil {
		closed = ErrStopping
	}
	h.mu.Lock()
	h.closed = closed
	h.mu.Unlock()
	h.deactivate(closed)
	return err
}

// ended is why Run returned, or nil.
func (h *Host) ended() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed
}

// activate begins to take commands.
func (h *Host) activate() {
	h.mu.Lock()
	h.active, h.taken = true, h.term.Epoch
	h.mu.Unlock()
	h.activated.Raise()
}

// deactivate takes no more commands and fails those that wait.
func (h *Host) deactivate(err error) {
	h.mu.Lock()
	queue := h.queue
	h.queue, h.active = nil, false
	h.mu.Unlock()
	h.arrived.Raise()
	h.activated.Raise()
	for _, c := range queue {
		c.fail(err)
	}
}

func (c *command) fail(err error) {
	c.err = err
	c.decided.Set()
}

// serve runs one term after the other.
func (h *Host) serve(t *task.T) error {
	past := int32(-1)
	for {
		term, err := h.q.AwaitTerm(t, past)
		if err != nil {
			return err
		}
		past = term.Epoch
		err = h.lead(t, term)
		h.deactivate(ErrNotController)
		if err != nil && !errors.Is(err, quorum.ErrNotLeader) {
			return err
		}
	}
}

// lead decides until the term ends.
func (h *Host) lead(t *task.T, term quorum.Term) error {
	h.state = controller.New(h.q.ClusterID(), h.cfg, term.Image)
	h.term, h.next = term, term.NextOffset
	if err := h.append(t, h.state.Activate(t.Now(), h.q.Bootstrap())); err != nil {
		return err
	}
	h.activate()
	for {
		seen := h.arrived.Generation()
		if t.Stopping() {
			return quorum.ErrStopping
		}
		if !h.leads() {
			return quorum.ErrNotLeader
		}
		now, queue := t.Now(), h.take()
		for i, c := range queue {
			if err := h.decide(t, c); err != nil {
				for _, rest := range queue[i+1:] {
					rest.fail(translate(err))
				}
				return err
			}
		}
		// After what waited by then, and as of then: a report that came while this task was held up
		// counts.
		records, expires := h.state.Expire(now)
		if err := h.append(t, records); err != nil {
			return err
		}
		if len(queue) == 0 && len(records) == 0 {
			h.arrived.Wait(t, seen, expires)
		}
	}
}

// leads reports whether the term goes on. Commands that change nothing would not find out.
func (h *Host) leads() bool {
	leader, epoch := h.q.Leader()
	return leader == h.cfg.NodeID && epoch == h.term.Epoch
}

// LeaderMoved lets the controller task see that its term ended.
func (h *Host) LeaderMoved() { h.arrived.Raise() }

func (h *Host) take() []*command {
	h.mu.Lock()
	queue := h.queue
	h.queue = nil
	h.mu.Unlock()
	if len(queue) > 0 {
		h.arrived.Raise()
	}
	return queue
}

// decide completes c, or ends the term with an error.
func (h *Host) decide(t *task.T, c *command) error {
	in := controller.Input{Rand: h.rand}
	if _, ok := c.req.(*kmsg.UpdateFeaturesRequest); ok {
		in.KRaftVersion, in.Voters = h.q.KRaftVersion(), h.q.OtherVoters()
	}
	resp, raised, err := h.decideIn(t, c.req, in)
	switch {
	case errors.Is(err, quorum.ErrStopping):
		c.fail(errStopped)
	case err != nil && raised:
		c.fail(ErrUnsettled)
	case err != nil:
		c.fail(translate(err))
	default:
		c.resp, c.epoch, c.offset = resp, h.term.Epoch, h.next-1
		c.decided.Set()
	}
	return err
}

// decideIn decides until nothing came in between. raised: the quorum has another level of
// kraft.version in its log already.
func (h *Host) decideIn(t *task.T, req kmsg.Request, in controller.Input) (resp kmsg.Response, raised bool, err error) {
	for {
		in.NextOffset, in.Now = h.next, t.Now()
		d := h.state.Decide(req, in)
		if d.KRaftVersion > in.KRaftVersion {
			in.KRaftVersion = d.KRaftVersion
			resp, err := h.raise(t, req.(*kmsg.UpdateFeaturesRequest), d.KRaftVersion)
			if resp != nil || err != nil {
				return resp, false, err
			}
			raised = true
			if h.next, err = h.q.NextOffset(h.term.Epoch); err != nil {
				return nil, true, err
			}
			continue
		}
		moved, err := h.tryAppend(t, d.Records)
		if err != nil || !moved {
			return d.Response, raised, err
		}
	}
}

// raise has the quorum raise kraft.version, or look whether it could. A response is its refusal.
func (h *Host) raise(t *task.T, req *kmsg.UpdateFeaturesRequest, level int16) (kmsg.Response, error) {
	code, why, err := h.q.RaiseVersion(t, h.term.Epoch, level, req.ValidateOnly)
	if err != nil || code == 0 {
		return nil, err
	}
	return controller.Refused(req, code, why), nil
}

// append hands records to the log that do not depend on their offset.
func (h *Host) append(t *task.T, records []meta.Record) error {
	for {
		if moved, err := h.tryAppend(t, records); !moved {
			return err
		}
	}
}

// tryAppend hands records to the log and makes them the state's. They are committed later.
// moved tells that nothing was done, for the quorum has written its voters into the log: the
// next offset is another one now.
func (h *Host) tryAppend(t *task.T, records []meta.Record) (moved bool, err error) {
	if len(records) == 0 {
		return false, nil
	}
	last, err := h.q.Append(t.UnixMilli(), h.term.Epoch, h.next, records)
	if errors.Is(err, quorum.ErrMoved) {
		h.next, err = h.q.NextOffset(h.term.Epoch)
		return err == nil, err
	}
	if err != nil {
		return false, err
	}
	delta, err := h.state.Replay(records, last, h.term.Epoch)
	if err != nil {
		return false, err
	}
	h.next = last + 1
	if h.Events != nil {
		controller.Events(delta, h.Events.Emit)
	}
	return false, nil
}
