package scenarios

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/scenarios/client"
)

// forwardedOnce: what a broker passes on to the controller is done once. The first time, its
// bytes lie in a connection that the broker has given up, until the same node is the controller
// again, two terms later. The second time it was done, the answer is lost, and the broker asks
// again; the third time there is another controller to ask by then. Meanwhile somebody else
// deleted the topic, and was told so: it stays deleted. The fourth time the controller was killed
// before it answered, and says when it is back that it is none.
func forwardedOnce(r *Run) {
	tellCluster(r, six(1), func(s *tale) {
		s.lateCreation("late")
		s.together()
		s.lostAnswer("lost", false)
		s.lostAnswer("moved", true)
		s.restarted("restarted")
	})
}

// lateCreation has a CreateTopics arrive when its connection is long given up.
func (s *tale) lateCreation(name string) {
	s.create(4, "warm", 20_000) // the connection is there
	first := s.cluster.controller()
	if !s.must(first != nil, "scenario", "there is no controller") {
		return
	}
	s.World.Net.StallAll(s.node(4).Name, first.Name)
	a := s.creates(4, name)
	s.wait(200 * time.Millisecond)
	s.moveController(first, nil)
	s.until("the client is answered", 30*time.Second, func() bool { return a.done })
	s.ok(a.err, "create")
	s.must(a.code == 0 || a.code == kerr.RequestTimedOut.Code, "errors", "the client is told %s", client.CodeName(a.code))
	code := s.create(5, name, 20_000)
	s.must(code == 0 || code == kerr.TopicAlreadyExists.Code, "errors", "another client is told %s", client.CodeName(code))
	s.deletes(5, name)
	for range 20 {
		if c := s.cluster.controller(); c != nil && c != first {
			s.moveController(c, first)
		}
	}
	s.must(s.cluster.controller() == first, "scenario", "node %d did not become the controller again", first.id)
	s.create(5, "again", 20_000) // it decides
	s.together()
	s.wait(5 * time.Second)
	s.gone(5, name)
}

// moveController isolates the controller from the other voters until one of them leads, or
// this one if that was wanted.
func (s *tale) moveController(from, to *server) {
	others := slices.DeleteFunc([]int32{1, 2, 3}, func(id int32) bool { return id == from.id })
	net := s.World.Net
	for _, id := range others {
		net.Partition(from.Name, s.node(id).Name)
		net.Partition(s.node(id).Name, from.Name)
	}
	s.until("another controller", 30*time.Second, func() bool { c := s.cluster.controller(); return c != nil && c != from })
	for _, id := range others {
		net.Heal(from.Name, s.node(id).Name)
		net.Heal(s.node(id).Name, from.Name)
	}
	if to == nil || s.cluster.controller() != to {
		s.wait(time.Second)
	}
}

// lostAnswer has a broker lose the answer of what was done, and was undone by somebody else. It
// hears it from the same controller. The next one could not know it.
func (s *tale) lostAnswer(name string, moves bool) {
	c := s.cluster.controller()
	if !s.must(c != nil, "scenario", "there is no controller") {
		return
	}
	s.create(4, "warm-"+name, 20_000)
	s.World.Net.Clog(c.Name, s.node(4).Name)
	a := s.creates(4, name)
	s.wait(500 * time.Millisecond)
	s.must(!a.done, "scenario", "the answer is there")
	s.deletes(5, name)
	want := (*kerr.Error)(nil)
	if moves {
		want = kerr.RequestTimedOut
		s.moveController(c, nil)
		s.until("the broker hears of another controller", 30*time.Second, func() bool { return a.done })
	} else {
		s.World.Net.ResetAll(s.node(4).Name, c.Name)
	}
	s.World.Net.Heal(c.Name, s.node(4).Name)
	s.until("the client is answered", 30*time.Second, func() bool { return a.done })
	_ = s.ok(a.err, "create") && s.code(a.code, want, "a creation whose answer was lost")
	s.must((s.cluster.controller() != c) == moves, "scenario", "the controller moved, or did not")
	s.wait(2 * time.Second)
	s.gone(5, name)
}

// restarted kills the controller that has done what a broker asked, and starts it at once. Its
// refusal then says nothing of what it did before: nobody knows, and the client is told so.
func (s *tale) restarted(name string) {
	c := s.cluster.controller()
	if !s.must(c != nil, "scenario", "there is no controller") {
		return
	}
	s.create(4, "warm-"+name, 20_000)
	s.World.Net.Clog(c.Name, s.node(4).Name)
	a := s.creates(4, name)
	s.wait(500 * time.Millisecond)
	s.must(!a.done, "scenario", "the answer is there")
	s.World.Net.ResetAll(s.node(4).Name, c.Name) // or the answer would come when the clog ends
	s.kill(c.id)
	s.World.Net.Heal(c.Name, s.node(4).Name)
	s.start(c.id)
	s.until("the client is answered", 30*time.Second, func() bool { return a.done })
	_ = s.ok(a.err, "create") && s.code(a.code, kerr.RequestTimedOut, "a creation whose controller was restarted")
}

// waitingForward: a broker passes on more requests at once than it has connections for, to a
// controller that is paused. Those that waited for a connection are for the next controller: at
// the one of before they would hang until their clients have given up, and all others behind them.
func waitingForward(r *Run) {
	tellCluster(r, six(1), func(s *tale) {
		s.create(4, "warm", 20_000)
		old := s.cluster.controller()
		if !s.must(old != nil, "scenario", "there is no controller") {
			return
		}
		old.Pause()
		var clients []*asked
		for i := range 12 {
			clients = append(clients, s.creates(4, fmt.Sprint("waiting-", i)))
		}
		s.until("another controller", 30*time.Second, func() bool { c := s.cluster.controller(); return c != nil && c != old })
		waits := func(a *asked) bool { return !a.done }
		s.until("all clients are answered", 10*time.Second, func() bool { return !slices.ContainsFunc(clients, waits) })
		made := 0
		for _, a := range clients {
			if s.ok(a.err, "create") && a.code == 0 {
				made++
			}
		}
		s.must(made > 0, "liveness", "of %d topics the next controller made none", len(clients))
		old.Resume()
	})
}

// creates asks a node for a topic in the background.
func (s *tale) creates(id int32, name string) *asked {
	a := &asked{}
	e, group := s.Env(2 * time.Minute)
	group.Go("creates", func(t *task.T) {
		p := client.OpenAt(t, &e, s.node(id).Addr())
		p.Within = time.Minute
		a.code, a.err = createOne(t, p, name, 40_000)
		a.done = true
		p.Close()
	})
	return a
}

// deletes has a node delete a topic that is there.
func (s *tale) deletes(id int32, name string) {
	s.at(id, "delete", func(t *task.T, p *client.Plain) {
		code, err := p.Delete(t, name)
		_ = s.ok(err, "delete") && s.code(code, nil, "delete "+name)
	})
}

// gone expects that a node does not know the topic.
func (s *tale) gone(id int32, name string) {
	s.at(id, "metadata", func(t *task.T, p *client.Plain) {
		req := kmsg.NewPtrMetadataRequest()
		req.Version = 12
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, topic)
		resp, err := p.Call(t, req)
		if !s.ok(err, "metadata") {
			return
		}
		code := resp.(*kmsg.MetadataResponse).Topics[0].ErrorCode
		s.must(code == kerr.UnknownTopicOrPartition.Code, "linearizable", "%s was deleted and nobody created it since: %s", name, client.CodeName(code))
	})
}
