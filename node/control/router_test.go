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
	"seedlog/net"
	"seedlog/node/control"
	"seedlog/sim/sched"
)

// controllers are other nodes, as a router sees them: who leads, and how each answers.
type controllers struct {
	leader control.Leader
	answer func(t *task.T, addr string, until clock.Instant) (int16, error)
	calls  []string
	closed int
	busy   int // requests on their way
	most   int // at once
}

type line struct {
	c      *controllers
	closed task.Event
}

func (l *line) Do(t *task.T, addr string, req kmsg.Request, until clock.Instant) (kmsg.Response, error) {
	l.c.calls = append(l.c.calls, addr)
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
	resp := req.ResponseKind().(*kmsg.UnregisterBrokerResponse)
	resp.ErrorCode = code
	return resp, err
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
			RT: rt, Lines: lines, Leader: func() control.Leader { return c.leader },
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

func unregister() kmsg.Request { return kmsg.NewPtrUnregisterBrokerRequest() }

func TestARequestFindsTheControllerWhileItMoves(t *testing.T) {
	c := &controllers{leader: control.Leader{ID: -1}}
	c.answer = func(tk *task.T, addr string, _ clock.Instant) (int16, error) {
		switch {
		case addr == "one" && len(c.calls) == 1:
			return 0, fmt.Errorf("dial: %w", net.ErrRefused)
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

// The answer to a request is lost, or the controller stops leading while the change is on its
// way. Whoever is asked next refuses, for it is done: maybe by this very request, and the
// client must not hear that it did nothing.
func TestARefusalAfterALostAnswerIsInDoubt(t *testing.T) {
	for name, first := range map[string]func() (int16, error){
		"lost answer":     func() (int16, error) { return 0, errors.New("connection reset") },
		"lost leadership": func() (int16, error) { return kerr.RequestTimedOut.Code, nil },
	} {
		c := &controllers{leader: control.Leader{ID: 1, Epoch: 5, Addr: "one"}}
		c.answer = func(*task.T, string, clock.Instant) (int16, error) {
			switch len(c.calls) {
			case 1:
				return first()
			case 2:
				return kerr.NotController.Code, nil
			}
			return kerr.BrokerIDNotRegistered.Code, nil
		}
		c.route(t, 1, func(tk *task.T, r *control.Router) {
			resp, _, err := r.Propose(tk, unregister(), tk.Now().Add(10*time.Second))
			if err != nil || resp.(*kmsg.UnregisterBrokerResponse).ErrorCode != kerr.RequestTimedOut.Code {
				t.Errorf("%s: %v %v", name, resp, err)
			}
		})
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
		if _, _, err := r.Propose(tk, unregister(), tk.Now().Add(time.Minute)); err != nil {
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
