package control

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/node/peer"
)

// Peer talks to one node at a time: *peer.Client. Close is for good and wakes who is in DoAs.
type Peer interface {
	// DoAs sends req with the client id, or with the peer's own if it is "".
	DoAs(t *task.T, addr, clientID string, req kmsg.Request, until clock.Instant) (kmsg.Response, error)
	Close()
}

// Leader is who leads the metadata quorum, as far as this node knows.
type Leader struct {
	ID    int32 // -1: unknown
	Epoch int32
	// Self: it is this node itself.
	Self bool
	// Addr is where its controller listens, "host:port"; "" is unknown.
	Addr string
}

// RouterEnv is what a Router works with.
type RouterEnv struct {
	RT task.Runtime
	// Host decides what this node decides itself; nil if it is no controller.
	Host *Host
	// Leader tells who leads the quorum now.
	Leader func() Leader
	// Connect returns a new client, which the Router closes.
	Connect func(name string) Peer
	// Lines is how many requests may be on their way to the controller at once; others wait.
	Lines int
	// Process names this process among all that ever speak to a controller: "node-4/9f3c2a11d0b7e655".
	Process string
}

// Router sends what only the active controller decides to whoever that is:
//
//	Propose --> this node leads the quorum --> Host.Propose
//	        \-> another does --> a line (one connection) --> its controller listener
//	        \-> nobody, or it is not the one --> a short pause, and again until the deadline
//
// A request whose answer was lost is sent again to the same controller, under the same number
// (Attempt), by which that one knows it again and gives the answer it has. The next controller
// would not know it: there only goes what is repeatable, and for anything else nobody knows
// whether it was done (ErrUnsettled).
type Router struct {
	env   RouterEnv
	name  string
	freed task.Signal // a line became free, or closed changed
	moved task.Signal // the leader moved, or closed changed

	mu     task.Mutex // guards what follows
	idle   []*line
	busy   []*line
	made   int
	free   []*number // of those who sent nothing that could still arrive
	names  int
	closed bool
}

// line is a client and where its present request goes.
type line struct {
	peer  Peer
	addr  string
	epoch int32
}

// The pauses between two attempts.
const (
	retryMin = 2 * time.Millisecond
	retryMax = 100 * time.Millisecond
)

// NewRouter returns a router that is not connected. name is what its clients are called.
func NewRouter(env RouterEnv, name string) *Router {
	r := &Router{env: env, name: name}
	r.mu.Init(env.RT, "control.Router")
	r.freed.Init(env.RT, "control.Router.freed")
	r.moved.Init(env.RT, "control.Router.moved")
	return r
}

// Propose is Host.Propose of the active controller. It tries until the deadline (ErrTimeout)
// or until the node stops (ErrStopping), and gives up if it might do twice what is not to be
// done twice (ErrUnsettled). offset is -1 if another node decided.
func (r *Router) Propose(t *task.T, req kmsg.Request, until clock.Instant) (resp kmsg.Response, offset int64, err error) {
	offset = -1
	resp, err = r.Forward(t, req, until, func() (resp kmsg.Response, err error) {
		if r.env.Host == nil {
			return nil, ErrNotController
		}
		resp, offset, err = r.env.Host.Propose(t, req, until)
		return resp, err
	})
	return resp, offset, err
}

// Forward has req answered by the node that leads the quorum: by local if that is this one,
// where ErrNotController means that it is not (yet, or any more).
func (r *Router) Forward(t *task.T, req kmsg.Request, until clock.Instant, local func() (kmsg.Response, error)) (kmsg.Response, error) {
	f := &forward{req: req, until: until, local: local, repeatable: repeatable(req)}
	defer r.settle(f)
	epoch := int32(-1)
	for pause := retryMin; ; pause = min(2*pause, retryMax) {
		seen := r.retry().Generation()
		if now := r.env.Leader().Epoch; now != epoch {
			epoch, pause = now, retryMin // a new leader is about to be the controller
		}
		resp, err := r.attempt(t, f)
		switch {
		case err == nil, errors.Is(err, ErrTimeout), errors.Is(err, ErrStopping):
			return resp, err
		case errors.Is(err, ErrUnsettled) && f.repeatable, errors.Is(err, errTryAgain), errors.Is(err, ErrNotController):
		default:
			return nil, err
		}
		if err := r.pause(t, seen, pause, until); err != nil {
			return nil, err
		}
	}
}

// forward is a request on its way.
type forward struct {
	req        kmsg.Request
	until      clock.Instant
	local      func() (kmsg.Response, error)
	repeatable bool
	// number is what it is known by at the controller of epoch; nil: no controller may have it.
	number *number
	epoch  int32
	sent   bool // under that number
}

// number numbers the requests of a line (Attempt).
type number struct {
	line string
	last uint64
}

// errTryAgain: the attempt changed nothing, for a reason that may pass, or another one to the
// same controller finds out what it changed.
var errTryAgain = errors.New("controller cannot be reached")

func (r *Router) attempt(t *task.T, f *forward) (kmsg.Response, error) {
	if r.env.Host != nil {
		if err := r.env.Host.ended(); err != nil {
			return nil, err
		}
	}
	leader := r.env.Leader()
	switch {
	case f.number != nil && leader.Epoch != f.epoch:
		return nil, fmt.Errorf("%w: the controller of epoch %d may have done it", ErrUnsettled, f.epoch)
	case leader.Self:
		return f.local()
	case leader.ID < 0 || leader.Addr == "":
		return nil, errTryAgain
	}
	l, err := r.take(t, leader, f.until)
	if err != nil {
		return nil, err
	}
	if r.env.Leader().Epoch != leader.Epoch {
		// It moved while there was no line. Who is on a line is cut off from then on, and this is not yet.
		r.put(l)
		return nil, errTryAgain
	}
	resp, err := l.peer.DoAs(t, leader.Addr, r.mark(f, leader.Epoch), f.req, f.until)
	r.put(l)
	switch {
	case t.Stopping():
		return nil, ErrStopping
	case err != nil && t.Now() >= f.until:
		return nil, fmt.Errorf("%w: %w", ErrTimeout, err)
	case errors.Is(err, peer.ErrUnsent), err == nil && refused(resp):
		// Says nothing of an earlier attempt: the process that may have done it is perhaps gone.
		if !f.sent {
			r.settle(f)
		}
		return nil, errTryAgain
	case err != nil && !f.repeatable:
		f.sent = true
		return nil, fmt.Errorf("%w: %w", errTryAgain, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnsettled, err)
	case unsettled(resp):
		return nil, ErrUnsettled
	}
	return resp, nil
}

// mark is the client id of the next attempt. The first one takes a number.
func (r *Router) mark(f *forward, epoch int32) string {
	if f.repeatable {
		return ""
	}
	if f.number == nil {
		r.mu.Lock()
		if n := len(r.free); n > 0 {
			f.number, r.free = r.free[n-1], r.free[:n-1]
		} else {
			r.names++
			f.number = &number{line: fmt.Sprintf("%s/%s%d", r.env.Process, r.name, r.names)}
		}
		r.mu.Unlock()
		f.number.last++
		f.epoch = epoch
	}
	return Attempt{Line: f.number.line, Number: f.number.last, Epoch: f.epoch}.String()
}

// settle ends the use of a number: no attempt that is still on its way will be run once the
// controller has seen the next one.
func (r *Router) settle(f *forward) {
	if f.number == nil {
		return
	}
	r.mu.Lock()
	r.free = append(r.free, f.number)
	r.mu.Unlock()
	f.number, f.sent = nil, false
}

// take waits for a line.
func (r *Router) take(t *task.T, leader Leader, until clock.Instant) (*line, error) {
	for {
		seen := r.freed.Generation()
		r.mu.Lock()
		l, closed := r.line(), r.closed
		if l != nil {
			l.addr, l.epoch = leader.Addr, leader.Epoch
			r.busy = append(r.busy, l)
		}
		r.mu.Unlock()
		switch {
		case closed:
			return nil, ErrStopping
		case l != nil:
			return l, nil
		}
		switch r.freed.Wait(t, seen, until) {
		case task.TimedOut:
			return nil, ErrTimeout
		case task.Stopping:
			return nil, ErrStopping
		}
	}
}

// line returns an idle line, or a new one if there may be more; under mu.
func (r *Router) line() *line {
	switch n := len(r.idle); {
	case r.closed:
		return nil
	case n > 0:
		l := r.idle[n-1]
		r.idle = r.idle[:n-1]
		return l
	case r.made < max(r.env.Lines, 1):
		r.made++
		return &line{peer: r.env.Connect(r.name)}
	}
	return nil
}

// put gives a line back. One that was cut off is not used again.
func (r *Router) put(l *line) {
	r.mu.Lock()
	for i, b := range r.busy {
		if b == l {
			r.busy = append(r.busy[:i], r.busy[i+1:]...)
			r.idle = append(r.idle, l)
			break
		}
	}
	closed := r.closed
	r.mu.Unlock()
	if closed {
		l.peer.Close()
	}
	r.freed.Raise()
}

// LeaderMoved cuts off the requests on their way to a node that does not lead any longer:
// it may be paused, or behind a network that lets nothing through, and would never answer.
func (r *Router) LeaderMoved() {
	leader := r.env.Leader()
	r.mu.Lock()
	var cut []*line
	keep := r.busy[:0]
	for _, l := range r.busy {
		if leader.ID >= 0 && l.epoch < leader.Epoch {
			cut = append(cut, l)
			r.made--
		} else {
			keep = append(keep, l)
		}
	}
	clear(r.busy[len(keep):])
	r.busy = keep
	r.mu.Unlock()
	for _, l := range cut {
		l.peer.Close()
	}
	r.freed.Raise()
	r.retry().Raise()
}

// Close ends all connections and everybody who waits, for good.
func (r *Router) Close() {
	r.mu.Lock()
	r.closed = true
	lines := append(append([]*line(nil), r.idle...), r.busy...)
	r.idle = nil
	r.mu.Unlock()
	for _, l := range lines {
		l.peer.Close()
	}
	r.freed.Raise()
	r.retry().Raise()
}

// retry is raised when another attempt may fare better.
func (r *Router) retry() *task.Signal {
	if r.env.Host != nil {
		return &r.env.Host.activated
	}
	return &r.moved
}

// pause waits a little, or until this node itself becomes the controller, or until the
// leader moves.
func (r *Router) pause(t *task.T, seen uint64, d time.Duration, until clock.Instant) error {
	reason := r.retry().Wait(t, seen, min(until, t.Now().Add(d)))
	r.mu.Lock()
	closed := r.closed
	r.mu.Unlock()
	switch {
	case closed || reason == task.Stopping:
		return ErrStopping
	case t.Now() >= until:
		return ErrTimeout
	}
	return nil
}
