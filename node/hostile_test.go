package node_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/node/api/apitest"
	"seedlog/node/event"
)

// complaints counts the events that tell an operator of a bad client.
type complaints struct {
	events
	malformed, closed, timedOut int
}

func newComplaints(t *testing.T) *complaints {
	c := &complaints{events: events{t: t}}
	c.all = func(e event.Event) {
		switch e := e.(type) {
		case event.RequestMalformed:
			c.malformed++
		case event.ConnectionClosed:
			if e.Bad {
				c.closed++
			}
			if strings.Contains(e.Reason, "i/o timeout") || e.Reason == "idle" {
				c.timedOut++
			}
		}
	}
	return c
}

// filled is a valid request with something in every field. Where waiting is asked for, it is
// for a millisecond.
func filled(key, version int16) kmsg.Request {
	req := apitest.Filled(key, version, 1)
	if q, ok := req.(*kmsg.JoinGroupRequest); ok {
		q.Group = "" // refused at once: nobody else would come
	}
	return req
}

// abrupt is a connection whose end is no news: nothing is left behind in the kernel.
func (r *running) abrupt() *net.TCPConn {
	r.t.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	tc := c.(*net.TCPConn)
	_ = tc.SetLinger(0)
	return tc
}

// Every prefix of every listed request, in a frame of its own length, ends its connection
// with an event, or is an answerable request of its own.
func TestEveryPrefixOfEveryRequestIsRefused(t *testing.T) {
	sink := newComplaints(t)
	r := start(t, t.TempDir(), nil, &sink.events)
	r.createTopic("x", 1, nil)
	sent, answered := 0, map[string]int{}
	for _, k := range listed {
		for version := k[1]; version <= k[2]; version++ {
			whole := kmsg.NewRequestFormatter(kmsg.FormatterClientID("p")).AppendRequest(nil, filled(k[0], version), 7)
			for cut := 4; cut < len(whole); cut++ {
				b := bytes.Clone(whole[:cut])
				binary.BigEndian.PutUint32(b, uint32(cut-4))
				c := r.abrupt()
				if _, err := c.Write(b); err != nil {
					t.Fatal(err)
				}
				sent++
				reply, err := (&raw{t: t, c: c}).receive()
				var timeout net.Error
				switch {
				case errors.As(err, &timeout) && timeout.Timeout():
					t.Errorf("%s %d cut to %d of %d: neither answer nor end", kmsg.NameForKey(k[0]), version, cut, len(whole))
				case err == nil:
					answered[fmt.Sprintf("%s %d: %d of %d", kmsg.NameForKey(k[0]), version, cut, len(whole))] = len(reply)
				}
				c.Close()
			}
		}
	}
	t.Logf("%d prefixes", sent)
	for what, n := range answered {
		t.Errorf("%s bytes: answered with %d", what, n)
	}
	r.stop() // an event may come after the end that it tells of
	sink.mu.Lock()
	defer sink.mu.Unlock()
	if sink.closed < sent {
		t.Errorf("%d connections ended with a complaint, %d prefixes were sent", sink.closed, sent)
	}
}

// Random bytes, bare and behind the header of a real request, never end the node.
func TestRandomBytesAreRefused(t *testing.T) {
	r := start(t, t.TempDir(), nil, nil)
	defer r.stop()
	rnd := rand.New(rand.NewPCG(3, 9))
	for i := range 1500 {
		b := make([]byte, 4+rnd.IntN(600))
		for j := range b {
			b[j] = byte(rnd.Uint32())
		}
		if i%3 > 0 {
			k := listed[rnd.IntN(len(listed))]
			binary.BigEndian.PutUint32(b, uint32(len(b)-4))
			head := binary.BigEndian.AppendUint16(nil, uint16(k[0]))
			head = binary.BigEndian.AppendUint16(head, uint16(k[1]+int16(rnd.IntN(int(k[2]-k[1])+1))))
			head = append(head, 0, 0, 0, 1, 0xff, 0xff, 0)
			copy(b[4:], head)
		}
		if i%3 == 2 { // a real request with a few bytes changed
			k := listed[rnd.IntN(len(listed))]
			version := k[1] + int16(rnd.IntN(int(k[2]-k[1])+1))
			b = kmsg.NewRequestFormatter().AppendRequest(nil, filled(k[0], version), 7)
			for range 1 + rnd.IntN(4) {
				b[8+rnd.IntN(len(b)-8)] = byte(rnd.Uint32())
			}
		}
		c := r.abrupt()
		_, _ = c.Write(b)
		_ = c.CloseWrite()
		_ = c.SetReadDeadline(time.Now().Add(patience))
		var sink [4096]byte
		for {
			if _, err := c.Read(sink[:]); err != nil {
				var timeout net.Error
				if errors.As(err, &timeout) && timeout.Timeout() {
					t.Fatalf("bytes %x: the connection stays open", b)
				}
				break
			}
		}
		c.Close()
	}
	// A topic that no request above could name: one with a few bytes changed may be a good one
	// that deletes those of before.
	r.createTopic("afterwards", 1, nil)
	r.produce("afterwards", "v", 10)
	values(t, r.consume("afterwards", 10), "v", 10)
}
