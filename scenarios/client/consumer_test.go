package client

import (
	"math/rand/v2"
	"testing"
)

// A consumer that learns of a new leader when it has chosen whom to ask asks the old one in the
// new epoch, which answers as a follower: what it tells is not the new leader's word, whose high
// watermark may be lower for as long as too few are in its ISR.
func TestAnAnswerInTheNextLeadersEpochIsAFollowers(t *testing.T) {
	topic := &Topic{Name: "t", Partitions: 1}
	routes := &Routes{topics: []*Topic{topic}, brokers: []place{{1, "a"}, {2, "b"}}, leaders: map[string]leading{"t-0": {1, 4}}}
	c := &Consumer{Env: Env{Routes: routes, Rand: rand.New(rand.NewPCG(1, 1))}, Version: 12}
	old := c.source("a")
	p := &position{topic: topic, from: old, sent: -1, ledIn: noEpoch}
	c.positions = []*position{p}
	if c.request(old); p.ledIn != 4 || c.epochOf(p) != 4 {
		t.Errorf("who is asked leads in epoch 4: %+v", p)
	}
	old.sessionID, old.epoch = 7, 1 // the next request names what has changed
	routes.brokers = routes.brokers[1:]
	if req := c.request(old); p.ledIn != 4 || c.epochOf(p) != 4 || len(req.Topics) != 0 {
		t.Errorf("the session has it, and the same one leads, though the controller has fenced it: %+v, %+v", p, req.Topics)
	}
	routes.leaders["t-0"] = leading{2, 5}
	if req := c.request(old); p.ledIn != 4 || c.epochOf(p) != 5 || len(req.Topics) != 1 {
		t.Errorf("another leads in epoch 5: %+v, %+v", p, req.Topics)
	}
	c.choose(nil)
	if c.request(p.from); p.from.addr != "b" || p.ledIn != 5 || c.epochOf(p) != 5 {
		t.Errorf("the leader of epoch 5 is asked: %+v", p)
	}
}
