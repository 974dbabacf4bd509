package node_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// relay passes connections on to another address until it is cut off: then they stay open
// and nothing comes through any more, as behind a network that drops everything.
type relay struct {
	ln    net.Listener
	to    string
	cutAt chan struct{}
	cut   func()
	mu    sync.Mutex
	conns []net.Conn
}

func newRelay(t *testing.T, at, to string) *relay {
	t.Helper()
	ln, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{ln: ln, to: to, cutAt: make(chan struct{})}
	r.cut = sync.OnceFunc(func() { close(r.cutAt) })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			r.keep(c)
			if d, err := net.Dial("tcp", to); err == nil {
				r.keep(d)
				go r.copy(c, d)
				go r.copy(d, c)
			}
		}
	}()
	t.Cleanup(func() {
		r.cut()
		ln.Close()
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, c := range r.conns {
			c.Close()
		}
	})
	return r
}

func (r *relay) keep(c net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns = append(r.conns, c)
}

// copy copies until the relay is cut off; then it reads no more.
func (r *relay) copy(to, from net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		select {
		case <-r.cutAt:
			return
		default:
		}
		if _, werr := to.Write(buf[:n]); werr != nil || err != nil {
			to.Close()
			return
		}
	}
}

// A broker that hears nothing from the controller any more can be stopped, although clients
// wait for what the controller would decide: their patience is not the broker's.
func TestABrokerStopsWhileTheControllerIsSilent(t *testing.T) {
	c := newCluster(t, 1, false, nil)
	at := freePorts(t, 2)
	r := newRelay(t, at[0], c.members[0].control)
	c.members[0].settings["advertised.listeners"] = "PLAINTEXT://" + c.members[0].broker + ",CONTROLLER://" + at[0]
	b := c.addBroker(2, at[1])
	b.settings["controller.quorum.bootstrap.servers"] = at[0]
	delete(b.settings, "advertised.listeners")
	c.start()
	cl := c.client(kgo.SeedBrokers(b.broker))
	defer cl.Close()
	r.cut()
	create := kmsg.NewPtrCreateTopicsRequest()
	create.TimeoutMillis = int32((time.Hour).Milliseconds())
	x := kmsg.NewCreateTopicsRequestTopic()
	x.Topic, x.NumPartitions, x.ReplicationFactor = "t", 1, 1
	create.Topics = append(create.Topics, x)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_, _ = cl.SeedBrokers()[0].Request(ctx, create)
	}()
	c.await("on its way", func() bool { return c.events.said("peer-connected", "node 2", "client=forwarding") > 0 })
	if err := b.stop(); err != nil {
		t.Errorf("the broker ended with %v", err)
	}
	<-answered
}
