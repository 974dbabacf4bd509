package quorum

import (
	"maps"
	"slices"

	"seedlog/clock/task"
	"seedlog/node/raft"
)

// Run takes part in the quorum: it votes, leads or follows, appends, commits, publishes,
// takes snapshots. It returns nil when t's group stops, or what ended it: a metadata
// directory that failed. Its other tasks run in t's group.
func (h *Host) Run(t *task.T) error {
	t.Go("metadata-publisher", h.publish)
	t.Go("metadata-snapshotter", h.takeSnapshots)
	t.Go("metadata-installer", h.installs)
	h.know()
	// A loaded log is synced: what a killed process left in the page cache alone is written anew.
	// The first Fetch of a follower says that it is durable.
	err := h.step(t, raft.Start{})
	for err == nil && !t.Stopping() {
		if err = h.turn(t); err == nil {
			err = h.misfitErr()
		}
	}
	h.end(t, err)
	return err
}

// turn does what there is to do, or waits for something.
func (h *Host) turn(t *task.T) error {
	seen := h.work.Generation()
	in := h.takeInbox()
	for _, m := range in {
		if err := h.receive(t, m); err != nil {
			return err
		}
	}
	// Only now: a change of the voters that came in goes behind what was queued before it, and
	// writes that first.
	ops := h.takePending()
	if len(ops) > 0 {
		// What came in may have ended the leadership that these belong to.
		if ops[0].epoch == h.core.Epoch() && h.leads() {
			if err := h.write(t, ops); err != nil {
				return err
			}
		}
		if err := h.settle(t); err != nil {
			return err
		}
	}
	if t.Now() >= h.core.NextDeadline() {
		if err := h.step(t, raft.Tick{}); err != nil {
			return err
		}
	}
	if h.behind() {
		return h.replayMore(t)
	}
	if len(in) == 0 && len(ops) == 0 {
		h.work.Wait(t, seen, h.core.NextDeadline())
	}
	return nil
}

// takeInbox takes what came in.
func (h *Host) takeInbox() []inbound {
	h.mu.Lock()
	in := h.inbox
	h.inbox = nil
	h.mu.Unlock()
	if len(in) >= inboxMax {
		h.room.Raise()
	}
	return in
}

// takePending takes what is to be appended.
func (h *Host) takePending() []appendOp {
	h.mu.Lock()
	defer h.mu.Unlock()
	ops := h.pending
	h.pending = nil
	return ops
}

// receive steps one message.
func (h *Host) receive(t *task.T, in inbound) error {
	switch {
	case in.call != nil:
		h.lastCall++
		h.calls[h.lastCall] = in.call
		return h.step(t, raft.Request{ID: h.lastCall, Body: in.call.body})
	case in.look != nil:
		in.look.see(h.core)
		in.look.ok = true
		in.look.done.Set()
		return nil
	case in.install != nil:
		if err := h.installed(t, in.install); err != nil {
			return err
		}
		return h.settle(t)
	}
	h.fetched = in.records
	err := h.step(t, in.event)
	h.fetched = nil
	return err
}

// step steps an event and everything that follows from it.
func (h *Host) step(t *task.T, e raft.Event) error {
	h.todo = append(h.todo, e)
	return h.settle(t)
}

// settle steps what the effects carried out brought about, until nothing is left.
func (h *Host) settle(t *task.T) error {
	for len(h.todo) > 0 {
		e := h.todo[0]
		h.todo = h.todo[1:]
		effects := h.core.Step(e, t.Now(), h.env.Rand)
		if err := h.carryOut(t, &effects); err != nil {
			return err
		}
		switch e.(type) {
		case raft.VotersChanged, raft.SnapshotInstalled:
			h.know()
		}
	}
	h.todo = nil
	return nil
}

// carryOut does what the core asks for, in its order: nothing is said before it is durable.
func (h *Host) carryOut(t *task.T, e *raft.Effects) error {
	if e.Persist != nil {
		if err := h.writeElection(t, *e.Persist); err != nil {
			return err
		}
	}
	if e.Resigned {
		h.resigned()
	}
	if err := h.carryOutLog(t, e); err != nil {
		return err
	}
	if e.HighWatermark >= 0 {
		h.commit(e.HighWatermark)
	}
	for _, a := range e.Answers {
		if err := h.answer(t, a); err != nil {
			return err
		}
	}
	for i := range e.Sends {
		h.send(t, &e.Sends[i])
	}
	if e.Fetch != nil {
		h.fetch(t, e.Fetch)
	}
	for _, n := range e.Notes {
		h.note(n)
	}
	return nil
}

// carryOutLog is the part of the effects that changes the log or who leads it.
func (h *Host) carryOutLog(t *task.T, e *raft.Effects) error {
	if e.Truncate != nil {
		if err := h.truncate(t, *e.Truncate); err != nil {
			return err
		}
		h.know()
	}
	if e.Append {
		if err := h.appendFetched(t); err != nil {
			return err
		}
	}
	if e.CancelInstall {
		h.want(nil)
	}
	if e.Install != nil {
		h.want(e.Install)
	}
	if e.Follow != nil {
		h.follow(*e.Follow)
	}
	if e.Begin != nil {
		if err := h.begin(t, e.Begin); err != nil {
			return err
		}
	}
	if e.Change != nil {
		return h.change(t, e.Change)
	}
	return nil
}

// resigned ends the term: whoever waits for a commit in it is told so, and what was not
// appended never is.
func (h *Host) resigned() {
	h.begun = nil
	h.mu.Lock()
	h.term, h.pending = nil, nil
	h.mu.Unlock()
	h.committed.Raise()
	h.emit(LeaderResigned{NodeID: h.cfg.NodeID, Epoch: h.core.Epoch()})
}

// follow shows who leads.
func (h *Host) follow(f raft.Follow) {
	h.mu.Lock()
	h.leader, h.leading = f, f.LeaderID == h.cfg.NodeID && h.core.Role() == raft.Leader
	h.mu.Unlock()
	if h.env.LeaderMoved != nil {
		h.env.LeaderMoved()
	}
}

// know shows who the voters are.
func (h *Host) know() {
	voters := h.core.Voters()
	h.mu.Lock()
	h.known = voters
	h.mu.Unlock()
}

// end resigns: nobody waits for this node any longer.
func (h *Host) end(t *task.T, err error) {
	h.core.Step(raft.Failed{}, t.Now(), h.env.Rand)
	h.mu.Lock()
	h.term, h.pending, h.err, h.over, h.leading = nil, nil, err, true, false
	if h.leader.LeaderID == h.cfg.NodeID {
		h.leader.LeaderID, h.leader.Endpoints = raft.None, nil
	}
	in := h.inbox
	h.inbox = nil
	h.mu.Unlock()
	h.committed.Raise()
	h.room.Raise()
	for _, m := range in {
		switch {
		case m.call != nil:
			m.call.done.Set()
		case m.look != nil:
			m.look.done.Set()
		}
	}
	for _, id := range slices.Sorted(maps.Keys(h.calls)) { // who is woken first is part of the run
		h.calls[id].done.Set()
	}
	h.closeLines()
	if h.env.LeaderMoved != nil {
		h.env.LeaderMoved()
	}
	if err != nil {
		h.emit(Failed{err})
	}
}

// Resign has this node hand over the leadership, if it leads, and stand for no election any
// more: the node shuts down. It returns without waiting for a new leader.
func (h *Host) Resign(t *task.T) { h.post(inbound{event: raft.Resign{}}) }
