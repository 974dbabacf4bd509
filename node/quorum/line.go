package quorum

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/node/peer"
	"seedlog/node/raft"
)

// lineIdle is how long a line without anything to send is kept.
const lineIdle = time.Minute

// errNowhere: it is not known where to send a message to.
var errNowhere = errors.New("address of the other node is not known")

// line is a task that sends to one member, one message at a time. What is sent next takes
// the place of what was not sent yet.
//
//	send  --> line of that member --> answer or failure --> raft task
//	fetch --> the fetcher, another one if the present is busy with an old leader
type line struct {
	h      *Host
	name   string
	client *peer.Client
	key    raft.ReplicaKey // in Host.senders; of none for a fetcher
	ready  task.Signal     // next or closed changed
	said   string          // the last complaint about an answer

	// Under the Host's mu.
	next   *raft.Send
	busy   bool
	closed bool
}

func (h *Host) newLine(t *task.T, name string, key raft.ReplicaKey) *line {
	l := &line{h: h, name: name, key: key}
	l.client = peer.NewClient(peer.Env{
		RT: h.env.RT, Net: h.env.Net, ClientID: fmt.Sprintf("raft-client-%d", h.cfg.NodeID), Events: h.env.Events,
	}, name)
	l.ready.Init(h.env.RT, "quorum.line")
	t.Go(name, l.run)
	return l
}

// send sends a message to a member.
func (h *Host) send(t *task.T, s *raft.Send) {
	order := *s
	h.mu.Lock()
	l := h.senders[s.To]
	if l != nil {
		l.next = &order
	}
	h.mu.Unlock()
	if l == nil {
		l = h.newLine(t, fmt.Sprintf("quorum to %d", s.To.ID), s.To)
		h.mu.Lock()
		h.senders[s.To] = l
		l.next = &order
		h.mu.Unlock()
	}
	l.ready.Raise()
}

// fetch sends a Fetch. It does not wait for the answer to an earlier one, which counts no
// more: whom it was sent to may be gone.
func (h *Host) fetch(t *task.T, s *raft.Send) {
	order := *s
	h.mu.Lock()
	l := h.fetcher
	stale := l != nil && l.busy
	if stale {
		l.closed = true
	}
	h.mu.Unlock()
	if stale {
		l.client.Close()
	}
	if l == nil || stale {
		l = h.newLine(t, "quorum fetcher", raft.NoReplica())
	}
	h.mu.Lock()
	h.fetcher = l
	l.next = &order
	h.mu.Unlock()
	l.ready.Raise()
}

// closeLines ends all lines, for good.
func (h *Host) closeLines() {
	h.mu.Lock()
	var lines []*line
	keys := slices.SortedFunc(maps.Keys(h.senders), func(a, b raft.ReplicaKey) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), bytes.Compare(a.Directory[:], b.Directory[:]))
	})
	for _, k := range keys { // who is woken first is part of the run
		lines = append(lines, h.senders[k])
	}
	if h.fetcher != nil {
		lines = append(lines, h.fetcher)
	}
	for _, l := range lines {
		l.closed = true
	}
	h.mu.Unlock()
	for _, l := range lines {
		l.client.Close()
		l.ready.Raise()
	}
	h.want(nil)
}

// take takes what is to be sent. last: there is nothing, and will be nothing more.
func (l *line) take() (s *raft.Send, last bool) {
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	s = l.next
	l.next, l.busy = nil, s != nil
	return s, l.closed
}

// retire ends the line if nothing is to be sent.
func (l *line) retire() {
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	if l.next != nil || l.key.ID == raft.None {
		return
	}
	l.closed = true
	delete(l.h.senders, l.key)
}

func (l *line) run(t *task.T) {
	for {
		seen := l.ready.Generation()
		s, last := l.take()
		if last || t.Stopping() {
			l.client.Close()
			return
		}
		if s == nil {
			if l.ready.Wait(t, seen, t.Now().Add(lineIdle)) == task.TimedOut {
				l.retire()
			}
			continue
		}
		in := l.exchange(t, s)
		l.h.mu.Lock()
		l.busy = false
		closed := l.closed
		l.h.mu.Unlock()
		if !closed {
			l.h.post(in)
		}
	}
}

// exchange sends a message and translates its answer.
func (l *line) exchange(t *task.T, s *raft.Send) inbound {
	h := l.h
	addr := h.address(s.Endpoints)
	if s.To.ID == raft.None {
		addr = h.anyAddress()
	}
	wait := h.cfg.RequestTimeout
	if f, ok := s.Body.(raft.Fetch); ok {
		wait += f.MaxWait
	}
	resp, err := h.dial(t, l.client, addr, h.encode(s), t.Now().Add(wait))
	if err == nil {
		var reply raft.Reply
		var records []byte
		if reply, records, err = h.decode(resp); err == nil {
			h.suspectTwin(t, &reply)
			return inbound{event: raft.Response{Seq: s.Seq, Reply: reply}, records: records}
		}
		h.suspectCluster(addr, err)
		l.complain(addr, err)
	}
	return inbound{event: raft.NoResponse{Seq: s.Seq}}
}

// complain reports a bad answer, once: it is likely to come again and again.
func (l *line) complain(addr string, err error) {
	if text := err.Error(); text != l.said {
		l.said = text
		l.h.emit(BadAnswer{Peer: addr, Err: err})
	}
}

func (h *Host) dial(t *task.T, c *peer.Client, addr string, req kmsg.Request, until clock.Instant) (kmsg.Response, error) {
	if addr == "" || h.env.Net == nil {
		return nil, errNowhere
	}
	return c.Do(t, addr, req, until)
}
