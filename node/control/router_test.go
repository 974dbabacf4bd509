package control_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/node/control"
	"seedlog/node/peer"
	"seedlog/sim/sched"
)

// controllers are other nodes, as a router sees them: who leads, and how each answers.
type controllers struct {
	leader control.Leader
	answer func(t *task.T, addr string, until clock.Instant) (int16, error)
	calls  []string
	ids    []string // the client ids of the calls
	closed int
	busy   int // requests on their way
	most   int // at once
}

type line struct {
	c      *controllers
	closed task.Event
}

func (l *line) DoAs(t *task.T, addr, clientID string, req kmsg.Request, until clock.Instant) (kmsg.Response, error) {
	l.c.calls = append(l.c.calls, addr)
	l.c.ids = append(l.c.ids, clientID)
	l.c.busy++
	l.c.most = max(l.c.most, l.c.busy)
	defer func() { l.c.busy-- }()
	code, err := l.c.answer(t, addr, until)
	if code == hang {
		if l.closed.Wait(t, until) == task.TimedOut {
			return nil, errors.New("timed out")
		}
		return nil, errors.New("closed")
	}
	switch resp := req.ResponseKind().(type) {
	case *kmsg.UnregisterBrokerResponse:
		resp.ErrorCode = code
		return resp, err
	case *kmsg.AllocateProducerIDsResponse:
		resp.ErrorCode = code
		return resp, err
	case *kmsg.AlterPartitionResponse:
		resp.ErrorCode = code
		return resp, err
	}
	return nil, errors.New("unexpected request")
}

func (l *line) Close() { l.c.closed++; l.closed.Set() }

// hang is the answer of a node that gives none.
const hang = 30000

// route runs body with a router to the controllers.
func (c *controllers) route(t *testing.T, lines int, body func(t *task.T, r *control.Router)) {
	s := sched.New(1, sched.DrawConfig(sched.Stream(1, "config")), nil)
	defer s.Close()
	rt := s.NewRuntime("node", sched.ClockParams{})
	main := task.NewGroup(rt, "main")
	main.Go("main", func(tk *task.T) {
		r := control.NewRouter(control.RouterEnv{
			RT: rt, Lines: lines, Process: "node-1/ab", Leader: func() control.Leader { return c.leader },
			Connect: func(string) control.Peer {
				l := &line{c: c}
				l.closed.Init(rt, "test.line")
				return l
			},
		}, "test")
		body(tk, r)
		r.Close()
	})
	s.Run(func() bool { return rt.Tasks() == 0 }, clock.Never)
	if f := s.Failure(); f != nil {
		t.Fatal(f)
	}
}

// unregister and alter are not to be done twice, allocate may.
func alter() kmsg.Request      { return kmsg.NewPtrAlterPartitionRequest() }
func unregister() kmsg.Request { return kmsg.NewPtrUnregisterBrokerRequest() }
func allocate() kmsg.Request   { return kmsg.NewPtrAllocateProducerIDsRequest() }

func TestARequestFindsTheControllerWhileItMoves(t *testing.T) {
	c := &controllers{leader: control.Leader{ID: -1}}
	c.answer = func(tk *task.T, addr string, _ clock.Instant) (int16, error) {
		switch {
		case addr == "one" && len(c.calls) == 1:
			return 0, fmt.Errorf("dial: %w", peer.ErrUnsent)
		case addr == "one":
			c.leader = control.Leader{ID: 2, Epoch: 6, Addr: "two"}
			return kerr.NotController.Code, nil
		}
		return kerr.BrokerIDNotRegistered.Code, nil
	}
	c.route(t, 1, func(tk *task.T, r *control.Router) {
		tk.Go("election", func(tk *task.T) {
			tk.Sleep(tk.Now().Add(300 * time.Millisecond))
			c.leader = control.Leader{ID: 1, Epoch: 5, Addr: "one"}
		})
		resp, offset, err := r.Propose(tk, unregister(), tk.Now().Add(10*time.Second))
		if err != nil || offset != -1 || resp.(*kmsg.UnregisterBrokerResponse).ErrorCode != kerr.BrokerIDNotRegistered.Code {
			t.Errorf("%v %d %v", resp, offset, err)
		}
	})
	if got := fmt.Sprint(c.calls); got != "[one one two]" {
		t.Errorf("asked %v", got)
	}
}

// errLost is the answer of a node from which none comes.
var errLost = errors.New("connection reset")

// What became of a request whose answer was lost is asked of the same controller, under the
// number that it has. The next request has another.
func TestALostAnswerIsAskedForUnderTheSameNumber(t *testing.T) {
	c := &controllers{leader: control.Leader{ID: 1, Epoch: 5, Addr: "one"}}
	c.answer = func(*task.T, string, clock.Instant) (int16, error) {
		if len(c.calls) <= 2 {
			return 0, errLost
		}
		return kerr.BrokerIDNotRegistered.Code, nil
	}
	c.route(t, 1, func(tk *task.T, r *control.Router) {
		for range 2 {
			resp, _, err := r.Propose(tk, unregister(), tk.Now().Add(10*time.Second))
			if err != nil || resp.(*kmsg.UnregisterBrokerResponse).ErrorCode != kerr.BrokerIDNotRegistered.Code {
				t.Errorf("%v %v", resp, err)
			}
		}
	})
	const first, second = "node-1/ab/test1#1@5", "node-1/ab/test1#2@5"
	if got, want := fmt.Sprint(c.ids), fmt.Sprint([]string{first, first, first, second}); got != want {
		t.Errorf("asked as %v, want %v", got, want)
	}
}

// Two requests at once have two lines of numbers.
func TestRequestsAtOnceAreNumberedApart(t *testing.T) {
	c := &controllers{leader: control.Leader{ID: 1, Epoch: 5, Addr: "one"}}
	c.answer = func(tk *task.T, _ string, _ clock.Instant) (int16, error) {
		tk.Sleep(tk.Now().Add(time.Second))
		return 0, nil
	}
	c.route(t, 2, func(tk *task.T, r *control.Router) {
		g := task.NewGroup(tk.Runtime(), "clients")
		for range 2 {
			g.Go("client", func(tk *task.T) { _, _, _ = r.Propose(tk, unregister(), clock.Never) })
		}
		g.Wait(tk)
	})
	if got := fmt.Sprint(c.ids); got != "[node-1/ab/test1#1@5 node-1/ab/test2#1@5]" {
		t.Errorf("asked as %v", got)
	}
}

// What the controller of one epoch may have done does not go to the next one, unless twice is
// as good as once. What it did not do goes.
func TestTheNextControllerIsToldWhatWasNotDone(t *testing.T) {
	type answer struct {
		code int16
		err  error
	}
	refusal := answer{kerr.NotController.Code, nil}
	for name, x := range map[string]struct {
		req     func() kmsg.Request
		answers []answer // of the first controller, which leads until the last one
		asked   string
	}{
		"lost":                 {unregister, []answer{{0, errLost}}, "[node-1/ab/test1#1@5]"},
		"an ISR, lost":         {alter, []answer{{0, errLost}}, "[node-1/ab/test1#1@5]"},
		"unsettled":            {unregister, []answer{{kerr.RequestTimedOut.Code, nil}}, "[node-1/ab/test1#1@5]"},
		"refused":              {unregister, []answer{refusal}, "[node-1/ab/test1#1@5 node-1/ab/test1#2@6]"},
		"lost, refused":        {unregister, []answer{{0, errLost}, refusal}, "[node-1/ab/test1#1@5 node-1/ab/test1#1@5]"},
		"unsent":               {unregister, []answer{{0, peer.ErrUnsent}}, "[node-1/ab/test1#1@5 node-1/ab/test1#2@6]"},
		"lost, unsent":         {unregister, []answer{{0, errLost}, {0, peer.ErrUnsent}}, "[node-1/ab/test1#1@5 node-1/ab/test1#1@5]"},
		"unsent, lost":         {unregister, []answer{{0, peer.ErrUnsent}, {0, errLost}}, "[node-1/ab/test1#1@5 node-1/ab/test1#2@5]"},
		"repeatable, lost":     {allocate, []answer{{0, errLost}}, "[ ]"},
		"repeatable, in doubt": {allocate, []answer{{kerr.RequestTimedOut.Code, nil}}, "[ ]"},
	} {
		c := &controllers{leader: control.Leader{ID: 1, Epoch: 5, Addr: "one"}}
		done := false
		c.answer = func(_ *task.T, addr string, _ clock.Instant) (int16, error) {
			if addr == "two" {
				done = true
				return 0, nil
			}
			if len(c.calls) == len(x.answers) {
				c.leader = control.Leader{ID: 2, Epoch: 6, Addr: "two"}
			}
			a := x.answers[len(c.calls)-1]
			return a.code, a.err
		}
		c.route(t, 1, func(tk *task.T, r *control.Router) {
			began := tk.Now()
			_, _, err := r.Propose(tk, x.req(), tk.Now().Add(time.Minute))
			if done != (err == nil) || !done && !errors.Is(err, control.ErrUnsettled) || tk.Now() > began.Add(10*time.Second) {
				t.Errorf("%s: done %v, %v after %v", name, done, err, time.Duration(tk.Now()-began))
			}
		})
		if got := fmt.Sprint(c.ids); got != x.asked {
			t.Errorf("%s: asked as %v, want %v", name, got, x.asked)
		}
	}
}

func TestNobodyLeadsUntilTheDeadline(t *testing.T) {
	c := &controllers{leader: control.Leader{ID: -1}}
	c.route(t, 1, func(tk *task.T, r *control.Router) {
		until := tk.Now().Add(time.Second)
		_, _, err := r.Propose(tk, unregister(), until)
		if !errors.Is(err, control.ErrTimeout) || tk.Now() < until || tk.Now() > until.Add(time.Second) {
			t.Errorf("%v at %v", err, tk.Now())
		}
	})
}

// A leader that is paused never answers. Its successor is asked as soon as it is known, and
// not only when the deadline of the request has passed.
func TestALeaderThatHangsIsLeftForItsSuccessor(t *testing.T) {
	c := &controllers{leader: control.Leader{ID: 1, Epoch: 5, Addr: "one"}}
	c.answer = func(_ *task.T, addr string, _ clock.Instant) (int16, error) {
		if addr == "one" {
			return hang, nil
		}
		return 0, nil
	}
	c.route(t, 1, func(tk *task.T, r *control.Router) {
		tk.Go("election", func(tk *task.T) {
			tk.Sleep(tk.Now().Add(time.Second))
			r.LeaderMoved() // the same leader: nothing happens to the request
			tk.Sleep(tk.Now().Add(time.Second))
			if c.closed != 0 {
				t.Error("cut off from the leader")
			}
			c.leader = control.Leader{ID: 2, Epoch: 6, Addr: "two"}
			r.LeaderMoved()
		})
		began := tk.Now()
		if _, _, err := r.Propose(tk, allocate(), tk.Now().Add(time.Minute)); err != nil {
			t.Error(err)
		}
		if took := time.Duration(tk.Now() - began); took > 10*time.Second {
			t.Errorf("took %v", took)
		}
	})
	if got := fmt.Sprint(c.calls); got != "[one two]" || c.closed != 2 {
		t.Errorf("asked %v, closed %d", got, c.closed)
	}
}

// Who waited for a line goes to the leader of the moment when there is one: the earlier one may be
// paused, and the next change of leaders would be the first to cut it off there.
func TestWhoWaitedForALineAsksTheLeaderOfNow(t *testing.T) {
	c := &controllers{leader: control.Leader{ID: 1, Epoch: 5, Addr: "one"}}
	c.answer = func(_ *task.T, addr string, _ clock.Instant) (int16, error) {
		if addr == "one" {
			return hang, nil
		}
		return 0, nil
	}
	c.route(t, 1, func(tk *task.T, r *control.Router) {
		g := task.NewGroup(tk.Runtime(), "clients")
		began := tk.Now()
		for range 3 {
			g.Go("client", func(tk *task.T) {
				_, _, err := r.Propose(tk, allocate(), tk.Now().Add(time.Minute))
				if took := time.Duration(tk.Now() - began); err != nil || took > 10*time.Second {
					t.Errorf("%v after %v", err, took)
				}
			})
		}
		tk.Sleep(tk.Now().Add(time.Second))
		c.leader = control.Leader{ID: 2, Epoch: 6, Addr: "two"}
		r.LeaderMoved()
		g.Wait(tk)
	})
	if got := fmt.Sprint(c.calls); got != "[one two two two]" {
		t.Errorf("asked %v", got)
	}
}

func TestARequestThatWaitsForALineDoesNotOutliveItsDeadline(t *testing.T) {
	c := &controllers{leader: control.Leader{ID: 1, Epoch: 5, Addr: "one"}}
	c.answer = func(*task.T, string, clock.Instant) (int16, error) { return hang, nil }
	c.route(t, 2, func(tk *task.T, r *control.Router) {
		g := task.NewGroup(tk.Runtime(), "clients")
		for range 3 {
			g.Go("client", func(tk *task.T) {
				until := tk.Now().Add(time.Second)
				if _, _, err := r.Propose(tk, unregister(), until); !errors.Is(err, control.ErrTimeout) {
					t.Error(err)
				}
			})
		}
		g.Wait(tk)
	})
	if c.most != 2 {
		t.Errorf("%d requests at once on 2 lines", c.most)
	}
}

func TestClosingEndsEverybodyWhoWaits(t *testing.T) {
	c := &controllers{leader: control.Leader{ID: 1, Epoch: 5, Addr: "one"}}
	c.answer = func(*task.T, string, clock.Instant) (int16, error) { return hang, nil }
	c.route(t, 1, func(tk *task.T, r *control.Router) {
		g := task.NewGroup(tk.Runtime(), "clients")
		for range 3 {
			g.Go("client", func(tk *task.T) {
				if _, _, err := r.Propose(tk, unregister(), clock.Never); !errors.Is(err, control.ErrStopping) {
					t.Error(err)
				}
			})
		}
		tk.Sleep(tk.Now().Add(time.Second))
		r.Close()
		g.Wait(tk)
	})
}
