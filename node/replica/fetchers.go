package replica

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/node/meta"
	"seedlog/node/partition"
)

// Remote is another broker, asked one request after the other.
type Remote interface {
	// Do asks the broker at addr and waits until the deadline. After an error it is unknown
	// whether it acted. The response is valid until the next Do.
	Do(t *task.T, addr string, req kmsg.Request, until clock.Instant) (kmsg.Response, error)
	// Close ends whatever is under way, for good.
	Close()
}

// source names a fetcher: num.replica.fetchers of them copy from each broker.
type source struct {
	broker int32
	index  int32
}

func (s source) String() string { return fmt.Sprintf("fetcher-%d-of-broker-%d", s.index, s.broker) }

// sourceOf spreads the partitions that a broker leads over its fetchers.
func sourceOf(leader int32, k Key, fetchers int32) source {
	h := uint32(k.Partition)
	for _, b := range k.Topic {
		h = h*31 + uint32(b)
	}
	return source{leader, int32(h % uint32(max(fetchers, 1)))}
}

// refetch lets the partition be copied from the leader that reg names, and from nobody else.
// It comes after the change of role: what an earlier fetcher still brings is of another epoch.
func (m *Manager) refetch(p *Partition, reg partition.Registration) {
	if m.dial == nil {
		return
	}
	var next *fetcher
	if reg.Leader != meta.NoLeader && reg.Leader != m.self {
		next = m.fetcher(sourceOf(reg.Leader, p.key, m.fetchersPerBroker))
	}
	m.mu.Lock()
	before := p.fetchedBy
	p.fetchedBy = next
	m.mu.Unlock()
	if before != nil && before != next {
		before.drop(p)
	}
	if next != nil {
		next.copy(p, reg.LeaderEpoch)
	}
}

// spread lets so many fetchers copy from each broker from now on. Those that are left without
// a partition hang up and wait.
func (m *Manager) spread(fetchers int32) {
	if fetchers == m.fetchersPerBroker {
		return
	}
	m.fetchersPerBroker = fetchers
	for _, p := range m.Partitions() {
		leader, epoch := p.Leader()
		m.refetch(p, partition.Registration{Leader: leader, LeaderEpoch: epoch})
	}
}

// fetcher is the one of that source, which is started if it is missing.
func (m *Manager) fetcher(s source) *fetcher {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.fetchers[s]
	if f == nil {
		f = newFetcher(m, s)
		m.fetchers[s] = f
		m.sources = append(m.sources, f)
		m.group.Go(s.String(), f.run)
	}
	return f
}

// wakeFetchers lets every fetcher look at the metadata again.
func (m *Manager) wakeFetchers() {
	for _, f := range m.allFetchers() {
		f.awaken()
	}
}

func (m *Manager) allFetchers() []*fetcher {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.sources)
}

// throttle is a rate that several tasks count.
type throttle struct {
	mu   task.Mutex
	rate partition.Throttle
}

func (q *throttle) init(rt task.Runtime) { q.mu.Init(rt, "replica.throttle") }

func (q *throttle) add(bytes int64, now clock.Instant) {
	q.mu.Lock()
	q.rate.Add(bytes, now)
	q.mu.Unlock()
}

func (q *throttle) exceeded(limit int64, now clock.Instant) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.rate.Exceeded(limit, now)
}
