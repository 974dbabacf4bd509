package raft

import (
	"time"

	"seedlog/clock"
)

// ask is what a role asks of another voter, until it has an answer.
type ask struct {
	to  Voter
	seq uint64 // of the message under way, 0 if there is none
	// due is when to send it, or when to give up the one under way.
	due      clock.Instant
	failures int
	done     bool
}

// askVoters asks all other voters what the role has to ask.
func (c *Core) askVoters(s *step) {
	old := c.asks
	c.asks = nil
	for _, v := range c.Voters() {
		if v.Key.Matches(c.cfg.Self) {
			continue
		}
		a := ask{to: v, due: s.now}
		for _, o := range old {
			if o.to.Key == v.Key {
				a = o
				a.to = v
			}
		}
		c.asks = append(c.asks, a)
	}
}

// pump sends what is due.
func (c *Core) pump(s *step) {
	for i := range c.asks {
		a := &c.asks[i]
		if a.done || a.due > s.now {
			continue
		}
		if a.seq != 0 {
			c.askFailed(a, s)
			continue
		}
		c.seq++
		a.seq, a.due = c.seq, s.now.Add(c.cfg.RequestTimeout)
		s.out.Sends = append(s.out.Sends, Send{Seq: a.seq, To: a.to.Key, Endpoints: a.to.Endpoints, Body: c.question(a)})
	}
}

// question is what the role asks.
func (c *Core) question(a *ask) Message {
	switch c.role {
	case Leader:
		return BeginQuorumEpoch{Epoch: c.state.Epoch, LeaderID: c.cfg.Self.ID, Voter: a.to.Key, Endpoints: c.cfg.Endpoints}
	case Resigned:
		return EndQuorumEpoch{Epoch: c.state.Epoch, LeaderID: c.cfg.Self.ID, Preferred: c.preferred, Endpoints: c.cfg.Endpoints}
	}
	end, epoch := c.cfg.Log.End()
	return Vote{Epoch: c.state.Epoch, Candidate: c.cfg.Self, Voter: a.to.Key, EndOffset: end, LastEpoch: epoch, PreVote: c.role == Prospective}
}

// askFailed asks again after a while.
func (c *Core) askFailed(a *ask, s *step) {
	a.seq, a.due = 0, s.now.Add(c.backoff(a.failures))
	a.failures++
}

// backoff is how long to wait after as many failures in a row.
func (c *Core) backoff(failures int) time.Duration {
	return min(c.cfg.RetryBackoff<<min(failures, 10), max(c.cfg.RetryBackoff, c.cfg.FetchTimeout/4))
}

// response finds what a reply is the answer to.
func (c *Core) response(seq uint64, r Reply, s *step) {
	switch {
	case c.failed || seq == 0:
	case seq == c.fetch.seq:
		c.fetched(r, s)
	case seq == c.update.seq:
		c.updated(r, s)
	case c.lead != nil && c.lead.change != nil && c.lead.change.seq == seq:
		c.joinerAnswered(r, s)
	default:
		for i := range c.asks {
			if c.asks[i].seq == seq {
				c.answered(&c.asks[i], r, s)
				return
			}
		}
	}
}

func (c *Core) noResponse(seq uint64, s *step) {
	switch {
	case c.failed || seq == 0:
	case seq == c.fetch.seq:
		c.fetchFailed(s)
	case seq == c.update.seq:
		c.update.seq, c.update.due = 0, s.now.Add(c.cfg.FetchTimeout)
	case c.lead != nil && c.lead.change != nil && c.lead.change.seq == seq:
		c.joinerSilent(s)
	default:
		for i := range c.asks {
			if c.asks[i].seq == seq {
				c.askFailed(&c.asks[i], s)
			}
		}
	}
}

// answered: a voter answered the role's question.
func (c *Core) answered(a *ask, r Reply, s *step) {
	if c.observe(r.Epoch, r.LeaderID, r.Endpoints, s) {
		return
	}
	switch c.role {
	case Prospective, Candidate:
		c.voted(a, r, s)
	case Leader:
		if r.Code != 0 {
			c.askFailed(a, s)
			return
		}
		// It is told again only if it does not fetch.
		a.seq, a.failures, a.due = 0, 0, s.now.Add(c.cfg.FetchTimeout/2)
	case Resigned:
		if r.Code != 0 {
			c.askFailed(a, s)
			return
		}
		a.seq, a.done = 0, true
	}
}
