package client

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
)

// source is a consumer's connection to one broker, with its fetch session.
type source struct {
	addr      string
	conn      *Conn
	sessionID int32
	epoch     int32
	// left are partitions that the session still has and that are read elsewhere now.
	left []*position
}

func (c *Consumer) source(addr string) *source {
	for _, s := range c.sources {
		if s.addr == addr {
			return s
		}
	}
	s := &source{addr: addr}
	c.sources = append(c.sources, s)
	return s
}

// mine are the positions that are read from the source. A lone broker has all.
func (s *source) mine(c *Consumer) []*position {
	if c.Routes == nil {
		return c.positions
	}
	var out []*position
	for _, p := range c.positions {
		if p.from == s {
			out = append(out, p)
		}
	}
	return out
}

// choose gives each position the source that it is to be read from, and draws one of them.
func (c *Consumer) choose(t *task.T) *source {
	if c.Routes == nil {
		src := c.source(c.Addr)
		if len(c.sources) == 1 && c.positions[0].from == nil {
			for _, p := range c.positions {
				p.from = src
			}
		}
		return src
	}
	var ready []*position
	for _, p := range c.positions {
		if c.GiveUp != nil && c.GiveUp(p.log) || c.ToEnd && c.atEnd(p) {
			c.move(p, nil)
			continue
		}
		addr, ledIn := p.nearer, int32(noEpoch)
		if addr == "" || t.Now() > p.nearerTill {
			p.nearer = ""
			addr, ledIn = c.Find(t, p.topic, p.index)
		}
		if addr == "" {
			c.Rec.Note(c.ID, "no leader of %s-%d is known", p.topic.Name, p.index)
			c.move(p, nil)
			continue
		}
		c.move(p, c.source(addr))
		p.ledIn = ledIn
		ready = append(ready, p)
	}
	if len(ready) == 0 {
		c.pause(t)
		return nil
	}
	return ready[c.Rand.IntN(len(ready))].from
}

// move lets a position be read from another source, or from none: it must not stay with one
// that is asked for other positions, and whose answers would be taken for its leader's.
func (c *Consumer) move(p *position, to *source) {
	if p.from == to {
		return
	}
	if p.from != nil && p.from.sessionID != 0 {
		p.from.left = append(p.from.left, p)
	}
	p.from, p.sent, p.told, p.inAsk = to, -1, -1, false
}

// leave tells the session of the partitions that it may forget.
func (s *source) leave(req *kmsg.FetchRequest) {
	for _, p := range s.left {
		if p.from == s {
			continue // it came back
		}
		i := 0
		for i < len(req.ForgottenTopics) && req.ForgottenTopics[i].TopicID != p.topic.ID {
			i++
		}
		if i == len(req.ForgottenTopics) {
			f := kmsg.NewFetchRequestForgottenTopic()
			f.Topic, f.TopicID = p.topic.Name, p.topic.ID
			req.ForgottenTopics = append(req.ForgottenTopics, f)
		}
		req.ForgottenTopics[i].Partitions = append(req.ForgottenTopics[i].Partitions, p.index)
	}
	s.left = nil
}

// strange forgets who was sent to a replica that does not answer.
func (c *Consumer) strange(src *source) {
	for _, p := range c.positions {
		if p.nearer == src.addr {
			p.nearer = ""
		}
	}
}

// leads reports whether the source is the position's leader.
func (c *Consumer) leads(src *source, p *position) bool { return p.nearer == "" && p.from == src }

// nearerFor is how long a consumer reads from the replica that it was sent to.
const nearerFor = 5 * time.Second

// sent is the leader's advice to read from a closer replica.
func (c *Consumer) sent(t *task.T, p *position, replica int32) {
	if addr := c.Routes.addrOf(replica); addr != "" {
		p.nearer, p.nearerTill = addr, t.Now().Add(nearerFor)
	}
}

// refused takes what a refusal tells of the leader.
func (c *Consumer) refused(p *position, r *kmsg.FetchResponseTopicPartition) {
	if c.Routes == nil {
		return
	}
	c.Outdated()
	c.Routes.hint(p.topic, p.index, r.CurrentLeader.LeaderID, r.CurrentLeader.LeaderEpoch)
}

// epochOf is the leader epoch that an answer is known to be of.
func (c *Consumer) epochOf(p *position) int32 {
	if c.Routes == nil || c.Version < 9 {
		return -1
	}
	return p.epoch
}

// validate asks a new leader where the epoch of the last batch that was read ends (KIP-320).
func (c *Consumer) validate(t *task.T, src *source, p *position) error {
	if c.Routes == nil || p.unset || p.lastEpoch < 0 || !c.leads(src, p) {
		return nil
	}
	_, epoch := c.Leader(p.topic, p.index)
	if epoch <= p.checked {
		return nil
	}
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.Version, req.ReplicaID = int16(2+c.Rand.IntN(3)), -1
	part := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	part.Partition, part.CurrentLeaderEpoch, part.LeaderEpoch = p.index, epoch, p.lastEpoch
	rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
	rt.Topic = p.topic.Name
	rt.Partitions = append(rt.Partitions, part)
	req.Topics = append(req.Topics, rt)
	resp, err := src.conn.Call(t, req, c.deadline(t))
	if err != nil {
		return err
	}
	r := resp.(*kmsg.OffsetForLeaderEpochResponse)
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		c.Rec.Failf("I30", c.Name, "OffsetForLeaderEpoch answered %d topics", len(r.Topics))
		return nil
	}
	switch a := r.Topics[0].Partitions[0]; {
	case a.ErrorCode == kerr.FencedLeaderEpoch.Code, a.ErrorCode == kerr.NotLeaderForPartition.Code, a.ErrorCode == kerr.UnknownLeaderEpoch.Code:
		c.Outdated()
	case a.ErrorCode != 0:
	case a.EndOffset >= 0 && a.EndOffset < p.next:
		c.truncated(p, a.EndOffset)
		p.checked = epoch
	default:
		p.checked = epoch
	}
	return nil
}

// truncated is the leader's word that what was read is not in its log. Only a lawful loss may
// take what consumers could read.
func (c *Consumer) truncated(p *position, end int64) {
	if end < p.next {
		c.Rec.Unless(p.log, p.next, "I5", "client %d read up to %d, and the log of the new leader goes with it up to %d only", c.ID, p.next, end)
	}
	p.next, p.seek, p.sent, p.lastEpoch = min(p.next, end), true, -1, -1
}
