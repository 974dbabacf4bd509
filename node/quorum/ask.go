package quorum

import (
	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/node/raft"
	"seedlog/storage"
)

// inboxMax is how many messages may wait for the raft task; who has another one waits.
const inboxMax = 1024

// inbound is something for the raft task: one of event, call, look and download.
type inbound struct {
	event   raft.Event // of a line; records are the Response's
	records []byte
	call    *call
	look    *look
	install *download
}

// call is a request of another node, or of an administrator, and its answer.
type call struct {
	body     raft.Message
	maxBytes int32 // of the records of a Fetch
	done     task.Event

	// Set before done.
	ok      bool // false: the node stops
	reply   raft.Reply
	records []byte
}

// look is a question that is answered from the core, between two steps.
type look struct {
	see  func(c *raft.Core)
	done task.Event
	ok   bool
}

// ask has the core answer a message. It reports false if the node stops.
func (h *Host) ask(t *task.T, body raft.Message, maxBytes int32) (raft.Reply, []byte, bool) {
	c := &call{body: body, maxBytes: maxBytes}
	c.done.Init(h.env.RT, "quorum.call")
	if !h.enqueue(t, inbound{call: c}) || c.done.Wait(t, clock.Never) != task.Woken || !c.ok {
		return raft.Reply{}, nil, false
	}
	return c.reply, c.records, true
}

// inspect runs see in the raft task. It reports false if the node stops.
func (h *Host) inspect(t *task.T, see func(c *raft.Core)) bool {
	l := &look{see: see}
	l.done.Init(h.env.RT, "quorum.look")
	return h.enqueue(t, inbound{look: l}) && l.done.Wait(t, clock.Never) == task.Woken && l.ok
}

// enqueue waits for room and hands something to the raft task. It reports false if nobody
// would take it.
func (h *Host) enqueue(t *task.T, in inbound) bool {
	for {
		seen := h.room.Generation()
		h.mu.Lock()
		over, room := h.over, len(h.inbox) < inboxMax
		if !over && room {
			h.inbox = append(h.inbox, in)
		}
		h.mu.Unlock()
		switch {
		case over:
			return false
		case room:
			h.work.Raise()
			return true
		}
		if h.room.Wait(t, seen, clock.Never) == task.Stopping {
			return false
		}
	}
}

// post hands something to the raft task that comes of its own doing, at most one for each
// line, and does not wait.
func (h *Host) post(in inbound) {
	h.mu.Lock()
	if !h.over {
		h.inbox = append(h.inbox, in)
	}
	h.mu.Unlock()
	h.work.Raise()
}

// answer completes a call.
func (h *Host) answer(t *task.T, a raft.Answer) error {
	c := h.calls[a.ID]
	if c == nil {
		return nil
	}
	delete(h.calls, a.ID)
	c.reply, c.ok = a.Reply, true
	if f, ok := c.body.(raft.Fetch); ok && a.Reply.Code == 0 && a.Reply.Diverging == nil && a.Reply.Snapshot == nil {
		if err := h.read(t, f.Offset, c); err != nil {
			return err
		}
	}
	c.done.Set()
	return nil
}

// read adds the records from offset on. The raft task reads them itself: in between the log
// could be cut, and what comes then would not be the leader's of that epoch.
func (h *Host) read(t *task.T, offset int64, c *call) error {
	if offset >= h.log.LogEndOffset() || offset < h.log.LogStartOffset() {
		return nil
	}
	bound := storage.ToLogEnd
	if f := c.body.(raft.Fetch); f.Replica.ID == raft.None {
		bound = storage.ToHighWatermark
	}
	records, err := h.log.ReadInto(t, offset, min(max(c.maxBytes, 1), fetchMaxBytes), bound, true, nil)
	c.records = records
	return err
}
