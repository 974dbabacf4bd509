package client

import (
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock"
	"seedlog/clock/task"
)

// Routes is what one client knows of a cluster: the brokers, and who leads what in which
// epoch. It is asked for again when an answer says that it is old, or a connection ends, and
// it never goes back to an older epoch, whoever tells of one.
type Routes struct {
	// Bootstrap are the addresses to begin with.
	Bootstrap []string
	// Rack is where the client is, or empty.
	Rack string

	brokers []place
	topics  []*Topic
	leaders map[string]leading // looked up only
	stale   bool
	asked   clock.Instant
	conn    *Conn
	told    map[string]int32 // epochs that the connection told, looked up only
}

type place struct {
	id   int32
	addr string
}

type leading struct {
	id    int32
	epoch int32
}

// refreshAtMost is the shortest time between two questions.
const refreshAtMost = 20 * time.Millisecond

// anywhere is the address of any broker.
func (e *Env) anywhere() string {
	r := e.Routes
	if r == nil {
		return e.Addr
	}
	n := e.Rand.IntN(len(r.Bootstrap) + len(r.brokers))
	if n < len(r.Bootstrap) {
		return r.Bootstrap[n]
	}
	return r.brokers[n-len(r.Bootstrap)].addr
}

func routeKey(topic *Topic, index int32) string { return topic.Name + "-" + strconv.Itoa(int(index)) }

// addrOf is where a broker listens, or "".
func (r *Routes) addrOf(id int32) string {
	for _, b := range r.brokers {
		if b.id == id {
			return b.addr
		}
	}
	return ""
}

// Leader is who leads a partition as far as the client knows, "" if it knows of none. A lone
// broker leads everything.
func (e *Env) Leader(topic *Topic, index int32) (addr string, epoch int32) {
	if e.Routes == nil {
		return e.Addr, -1
	}
	l, ok := e.Routes.leaders[routeKey(topic, index)]
	if !ok || l.id < 0 {
		return "", -1
	}
	return e.Routes.addrOf(l.id), l.epoch
}

// Find is Leader, and asks if that is not known or known to be old.
func (e *Env) Find(t *task.T, topic *Topic, index int32) (addr string, epoch int32) {
	r := e.Routes
	if r == nil {
		return e.Addr, -1
	}
	known := false
	for _, x := range r.topics {
		known = known || x == topic
	}
	if !known {
		r.topics, r.stale = append(r.topics, topic), true
	}
	if addr, epoch = e.Leader(topic, index); addr != "" && !r.stale {
		return addr, epoch
	}
	e.refresh(t)
	return e.Leader(topic, index)
}

// Outdated says that what is known is old.
func (e *Env) Outdated() {
	if e.Routes != nil {
		e.Routes.stale = true
	}
}

// hint takes what an answer tells of a partition's leader.
func (r *Routes) hint(topic *Topic, index, id, epoch int32) {
	if id < 0 || epoch < 0 {
		return
	}
	k := routeKey(topic, index)
	if l, ok := r.leaders[k]; ok && l.epoch < epoch && r.addrOf(id) != "" {
		r.leaders[k] = leading{id, epoch}
	}
}

// refresh asks a broker for the metadata, once.
func (e *Env) refresh(t *task.T) {
	r := e.Routes
	if now := t.Now(); r.asked != 0 && now < r.asked.Add(refreshAtMost) {
		t.Sleep(r.asked.Add(refreshAtMost))
	}
	r.asked = t.Now()
	if r.conn == nil {
		c, err := Dial(t, e.Net, e.anywhere(), e.Name, e.deadline(t))
		if err != nil {
			e.pause(t)
			return
		}
		c.broken = func(err error) { e.Rec.Failf("I30", e.Name, "%v", err) }
		r.conn, r.told = c, make(map[string]int32)
	}
	req := kmsg.NewPtrMetadataRequest()
	req.Version = int16(7 + e.Rand.IntN(7))
	for _, topic := range r.topics {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = &topic.Name
		req.Topics = append(req.Topics, rt)
	}
	req.AllowAutoTopicCreation = false
	resp, err := r.conn.Call(t, req, e.deadline(t))
	if err != nil {
		e.closeRoutes()
		return
	}
	e.learn(resp.(*kmsg.MetadataResponse))
	if e.Rand.IntN(4) == 0 { // another broker next time
		e.closeRoutes()
	}
}

func (e *Env) closeRoutes() {
	if r := e.Routes; r != nil && r.conn != nil {
		r.conn.Close()
		r.conn = nil
	}
}

// learn takes a metadata answer. Epochs that one connection tells do not go back (I10).
func (e *Env) learn(m *kmsg.MetadataResponse) {
	r := e.Routes
	if r.leaders == nil {
		r.leaders = make(map[string]leading)
	}
	if len(m.Brokers) > 0 {
		r.brokers = r.brokers[:0]
	}
	for _, b := range m.Brokers {
		r.brokers = append(r.brokers, place{b.NodeID, fmt.Sprintf("%s:%d", b.Host, b.Port)})
	}
	r.stale = false
	for _, topic := range r.topics {
		for i := range m.Topics {
			rt := &m.Topics[i]
			if rt.Topic == nil || *rt.Topic != topic.Name {
				continue
			}
			for _, p := range rt.Partitions {
				k := routeKey(topic, p.Partition)
				if before, ok := r.told[k]; ok && p.LeaderEpoch < before {
					e.Rec.Failf("I10", k, "client %d: one connection told of leader epoch %d and then of %d", e.ID, before, p.LeaderEpoch)
				}
				r.told[k] = p.LeaderEpoch
				if l, ok := r.leaders[k]; !ok || l.epoch <= p.LeaderEpoch {
					r.leaders[k] = leading{p.Leader, p.LeaderEpoch}
				}
				r.stale = r.stale || p.Leader < 0
			}
		}
	}
}

// connect dials an address once; a cluster's client then looks for another leader.
func (e *Env) connect(t *task.T, addr string) *Conn {
	if e.Routes == nil {
		return e.dial(t)
	}
	c, err := Dial(t, e.Net, addr, e.Name, e.deadline(t))
	if err != nil {
		e.Outdated()
		e.pause(t)
		return nil
	}
	c.broken = func(err error) { e.Rec.Failf("I30", e.Name, "%v", err) }
	return c
}
