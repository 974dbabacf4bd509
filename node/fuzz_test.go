package node_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/node/event"
)

// FuzzRequest sends a body under a listed key and version to a running node. It is answered
// with something that decodes, or its connection ends; and the node has nothing to complain
// of about itself.
func FuzzRequest(f *testing.F) {
	for _, k := range listed {
		for version := k[1]; version <= k[2]; version++ {
			f.Add(k[0], version, filled(k[0], version).AppendTo(nil))
		}
	}
	for key, sample := range samples([16]byte{1}) {
		f.Add(key, int16(4), withVersion(sample(), 4).AppendTo(nil))
	}
	var mu sync.Mutex
	var failure error
	sink := &events{t: f, on: func(e event.Event) bool {
		var fields event.Fields
		e.Fields(&fields)
		mu.Lock()
		defer mu.Unlock()
		for _, x := range fields.List {
			failure = errors.Join(failure, errors.New(e.Name()+" "+x.Key+"="+x.Text))
		}
		return true
	}}
	r := start(f, f.TempDir(), nil, sink)
	f.Cleanup(r.stop)
	r.createTopic("x", 1, nil)
	r.createTopic("orders", 1, nil)
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		if !isListed(key, version) || len(body) > 60<<10 {
			return
		}
		c, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.(*net.TCPConn).SetLinger(0)
		defer c.Close()
		req := withVersion(kmsg.RequestForKey(key), version)
		if _, err := c.Write(requestFrame(req, body)); err != nil {
			t.Fatal(err)
		}
		checkAnswer(t, c, req)
		mu.Lock()
		defer mu.Unlock()
		if failure != nil {
			t.Fatal(failure)
		}
	})
}

func isListed(key, version int16) bool {
	for _, k := range listed {
		if k[0] == key {
			return version >= k[1] && version <= k[2]
		}
	}
	return false
}

func withVersion(req kmsg.Request, version int16) kmsg.Request {
	req.SetVersion(version)
	return req
}

// requestFrame is a frame with the header that req has, and the body.
func requestFrame(req kmsg.Request, body []byte) []byte {
	b := make([]byte, 4, 32+len(body))
	b = binary.BigEndian.AppendUint16(b, uint16(req.Key()))
	b = binary.BigEndian.AppendUint16(b, uint16(req.GetVersion()))
	b = append(b, 0, 0, 0, 7, 0xff, 0xff)
	if req.IsFlexible() {
		b = append(b, 0)
	}
	b = append(b, body...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// checkAnswer wants a reply, the end of the connection, or, of a request that may wait,
// neither.
func checkAnswer(t *testing.T, c net.Conn, req kmsg.Request) {
	waits := req.Key() == int16(kmsg.Fetch) || req.Key() == int16(kmsg.JoinGroup) || req.Key() == int16(kmsg.SyncGroup)
	within := patience
	switch {
	case waits:
		within = 20 * time.Millisecond
	case req.Key() == int16(kmsg.Produce): // with acks=0 there is no answer
		within = time.Second
	}
	_ = c.SetReadDeadline(time.Now().Add(within))
	var size [4]byte
	_, err := io.ReadFull(c, size[:])
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() && within == patience {
		t.Fatal("neither an answer nor the end of the connection")
	}
	if err != nil {
		return
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.ReadFull(c, b); err != nil {
		t.Fatal(err)
	}
	b = b[4:]
	if req.IsFlexible() && req.Key() != int16(kmsg.ApiVersions) {
		b = b[1:]
	}
	resp := req.ResponseKind()
	if err := resp.ReadFrom(b); err != nil {
		t.Fatalf("the answer does not decode: %v", err)
	}
}
