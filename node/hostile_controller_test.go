package node_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// governed is a node with a controller listener, and what is listed there.
func governed(t *testing.T) (c *cluster, r *running, listed [][3]int16) {
	c = newCluster(t, 1, false, nil)
	c.start()
	r = &running{t: t, addr: c.members[0].control}
	for _, k := range apiVersions(r.raw(), 4).ApiKeys {
		listed = append(listed, [3]int16{k.ApiKey, k.MinVersion, k.MaxVersion})
	}
	return c, r, listed
}

// unharmed reports whether the cluster still decides.
func (c *cluster) unharmed(topic string) {
	c.t.Helper()
	adm := kadm.NewClient(c.client())
	defer adm.Close()
	if _, err := adm.CreateTopic(timeout(c.t), 1, 1, nil, topic); err != nil {
		c.t.Errorf("afterwards no topic can be created: %v", err)
	}
}

func TestControllersListOnlyWhatIsServedThere(t *testing.T) {
	c, _, got := governed(t)
	want := [][3]int16{
		{1, 4, 18}, {18, 0, 4}, {19, 2, 7}, {20, 1, 6}, {32, 1, 4}, {33, 0, 2}, {37, 0, 3}, {43, 0, 2}, {44, 0, 1}, {45, 0, 1}, {46, 0, 0},
		{52, 0, 2}, {53, 0, 1}, {54, 0, 1}, {55, 0, 2}, {56, 2, 3}, {57, 0, 2}, {59, 0, 1}, {60, 0, 2}, {62, 0, 4}, {63, 0, 2}, {64, 0, 0},
		{67, 0, 0}, {70, 0, 0}, {73, 0, 0}, {80, 0, 1}, {81, 0, 0}, {82, 0, 0},
	}
	if len(got) != len(want) {
		t.Errorf("%v", got)
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("listed %v, want %v", got[i], want[i])
		}
	}
	// A key of the other listener ends the connection, on either.
	for addr, req := range map[string]kmsg.Request{c.members[0].control: kmsg.NewPtrMetadataRequest(), c.members[0].broker: kmsg.NewPtrVoteRequest()} {
		r := &running{t: t, addr: addr}
		w := r.raw()
		if _, err := w.c.Write(w.frame(req)); err != nil {
			t.Fatal(err)
		}
		if b, err := w.receive(); err == nil {
			t.Errorf("%T was answered at the wrong listener with %d bytes", req, len(b))
		}
	}
}

// Every prefix of every request of the quorum and of brokers ends its connection.
func TestEveryPrefixAtAControllerIsRefused(t *testing.T) {
	c, r, listed := governed(t)
	sent := 0
	for _, k := range listed {
		for version := k[1]; version <= k[2]; version++ {
			whole := kmsg.NewRequestFormatter(kmsg.FormatterClientID("p")).AppendRequest(nil, filled(k[0], version), 7)
			for cut := 4; cut < len(whole); cut++ {
				b := bytes.Clone(whole[:cut])
				binary.BigEndian.PutUint32(b, uint32(cut-4))
				conn := r.abrupt()
				if _, err := conn.Write(b); err != nil {
					t.Fatal(err)
				}
				sent++
				reply, err := (&raw{t: t, c: conn}).receive()
				var timeout net.Error
				switch {
				case errors.As(err, &timeout) && timeout.Timeout():
					t.Errorf("%s %d cut to %d of %d: neither answer nor end", kmsg.NameForKey(k[0]), version, cut, len(whole))
				case err == nil:
					t.Errorf("%s %d cut to %d of %d: answered with %d bytes", kmsg.NameForKey(k[0]), version, cut, len(whole), len(reply))
				}
				conn.Close()
			}
		}
	}
	t.Logf("%d prefixes", sent)
	c.unharmed("after-prefixes")
}

// Random bytes behind the header of a real request, and real requests with bytes changed, end
// neither the node nor its quorum.
func TestRandomBytesAtAControllerAreRefused(t *testing.T) {
	c, r, listed := governed(t)
	rnd := rand.New(rand.NewPCG(5, 11))
	for i := range 1500 {
		k := listed[rnd.IntN(len(listed))]
		version := k[1] + int16(rnd.IntN(int(k[2]-k[1])+1))
		b := kmsg.NewRequestFormatter().AppendRequest(nil, filled(k[0], version), 7)
		if i%3 == 0 {
			b = append(b[:8], make([]byte, 4+rnd.IntN(600))...)
			for j := 8; j < len(b); j++ {
				b[j] = byte(rnd.Uint32())
			}
			binary.BigEndian.PutUint32(b, uint32(len(b)-4))
		} else {
			for range 1 + rnd.IntN(4) {
				b[8+rnd.IntN(len(b)-8)] = byte(rnd.Uint32())
			}
		}
		conn := r.abrupt()
		_, _ = conn.Write(b)
		_ = conn.CloseWrite()
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		var sink [4096]byte
		for {
			if _, err := conn.Read(sink[:]); err != nil {
				var timeout net.Error
				if errors.As(err, &timeout) && timeout.Timeout() {
					t.Fatalf("bytes %x: the connection stays open", b)
				}
				break
			}
		}
		conn.Close()
	}
	c.unharmed("after-noise")
}
