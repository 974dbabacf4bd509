package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// side is what is compared: a topic on the lone node with acks=1, or on the cluster with
// acks=all and three copies.
type side struct {
	b       *benchBroker
	acks    int16
	cluster bool
}

func (r *clusterBench) sides() [2]side {
	return [2]side{{r.one, 1, false}, {r.nodes[0], -1, true}}
}

// on runs fn with a connection to the leader of a new topic of the side.
func (r *clusterBench) on(s side, topic string, fn func(c *benchConn) error) error {
	c, err := s.b.dial(r.ctx)
	if err != nil {
		return err
	}
	defer c.close()
	if s.cluster {
		err = r.create(topic, nil, 1, 2, 3)
	} else {
		err = c.createTopic(topic, benchTopicSettings...)
	}
	if err != nil {
		return err
	}
	if err := fn(c); err != nil {
		return err
	}
	if s.cluster {
		return r.remove(topic)
	}
	return c.deleteTopic(topic)
}

// throughput compares what one connection with eight requests in flight gets through.
func (r *clusterBench) throughput() error {
	head := []string{"request", "one node acks=1 MB/s", "cluster acks=all MB/s", "ratio", "target"}
	var lines [][]string
	for _, size := range limitsSizes {
		batch, records, err := benchBatch(size.frame, r.recordSize)
		if err != nil {
			return err
		}
		n := max(64, int(r.bytes/size.share/int64(len(batch))))
		var rates [2]series
		for round := range r.rounds {
			for i, s := range r.sides() {
				topic := fmt.Sprintf("throughput-%d-%d", size.frame, round)
				err := r.on(s, topic, func(c *benchConn) error {
					frame := c.produceFrame(topic, s.acks, batch)
					if err := c.produce(topic, frame, n/4, records, inFlight); err != nil {
						return err
					}
					rate, _, err := s.b.timed(n*len(batch), func() error { return c.produce(topic, frame, n, records, inFlight) })
					rates[i] = append(rates[i], rate)
					return err
				})
				if err != nil {
					return err
				}
			}
		}
		lines = append(lines, []string{fmt.Sprint(len(batch)), spread(rates[0], 0), spread(rates[1], 0), spread(rates[1].over(rates[0]), 2), fmt.Sprintf("≥ %.2f", clusterShare)})
	}
	r.table("Throughput, 8 requests in flight on one connection", head, lines)
	return nil
}

// latency compares how long one request takes when it is the only one.
func (r *clusterBench) latency() error {
	head := []string{"request", "where", "p50 ms", "p95 ms", "p99 ms", "p99.9 ms", "max ms"}
	var lines [][]string
	for _, size := range []int{1, 16 << 10} {
		batch, _, err := benchBatch(size, r.recordSize)
		if err != nil {
			return err
		}
		var took [2]histogram
		for round := range r.rounds {
			for i, s := range r.sides() {
				topic := fmt.Sprintf("latency-%d-%d", size, round)
				err := r.on(s, topic, func(c *benchConn) error {
					frame := c.produceFrame(topic, s.acks, batch)
					for k := range r.requests + r.requests/10 { // the first tenth warms up
						began := time.Now()
						if err := c.oneByOne(topic, frame, 1); err != nil {
							return err
						}
						if k >= r.requests/10 {
							took[i].add(time.Since(began))
						}
					}
					return nil
				})
				if err != nil {
					return err
				}
			}
		}
		for i, where := range []string{"one node, acks=1", "cluster, acks=all"} {
			p := took[i].percentiles()
			line := []string{fmt.Sprint(len(batch)), where}
			for _, q := range []string{"p50", "p95", "p99", "p99.9", "max"} {
				line = append(line, fmt.Sprintf("%.2f", p[q]))
			}
			lines = append(lines, line)
		}
	}
	r.table(fmt.Sprintf("Latency, one request in flight, %d requests each", r.rounds*r.requests), head, lines)
	return nil
}

// follower stops the process that follows one partition, waits until the partition goes on
// without it, and compares what the other partitions get through with what they got right
// before and right after.
func (r *clusterBench) follower() error {
	victim, err := r.bystander()
	if err != nil {
		return err
	}
	lead, other := victim%3+1, (victim+1)%3+1
	if err := r.create("loser", small, lead, other, victim); err != nil {
		return err
	}
	load, err := r.load("loser", lead, [][]int32{{lead, other}, {other, lead}, {lead, other}, {other, lead}})
	if err != nil {
		return err
	}
	var with, without series
	load.rate(r.window) // it warms up
	before := load.rate(r.window)
	for range r.rounds {
		if err := r.nodes[victim-1].cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		gone := r.until("the ISR shrinks", func() (bool, error) { return r.inSync("loser", lead, lead, other) })
		if gone == nil {
			gone = r.until("the node is fenced", func() (bool, error) {
				m, err := r.metadata(r.nodes[lead-1])
				return err == nil && len(m.Brokers) == 2, err
			})
		}
		during := load.rate(r.window)
		if err := errors.Join(gone, r.nodes[victim-1].cmd.Process.Signal(syscall.SIGCONT)); err != nil {
			return err
		}
		if err := r.until("the ISR is whole again", func() (bool, error) { return r.inSync("loser", lead, lead, other, victim) }); err != nil {
			return err
		}
		after := load.rate(r.window)
		with, without = append(with, (before+after)/2), append(without, during)
		before = after
	}
	if err := load.end(); err != nil {
		return err
	}
	r.table(fmt.Sprintf("Four other partitions while one partition's follower stands still, %v a look", r.window),
		[]string{"with it MB/s", "without it MB/s", "ratio", "target"},
		[][]string{{spread(with, 0), spread(without, 0), spread(without.over(with), 2), fmt.Sprintf("≥ %.2f", followerShare)}})
	return nil
}

// bystander is a node that does not lead the quorum, as soon as somebody leads it.
func (r *clusterBench) bystander() (id int32, err error) {
	err = r.until("somebody leads the quorum", func() (bool, error) {
		leader, err := r.quorumLeader()
		id = leader%3 + 1
		return leader >= 1, err
	})
	return id, err
}

// quorumLeader is who leads the quorum, less than 1 if nobody does.
func (r *clusterBench) quorumLeader() (id int32, err error) {
	c, err := r.nodes[0].dial(r.ctx)
	if err != nil {
		return 0, err
	}
	defer c.close()
	req := kmsg.NewPtrDescribeQuorumRequest()
	t := kmsg.NewDescribeQuorumRequestTopic()
	t.Topic = "__cluster_metadata"
	t.Partitions = append(t.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, t)
	resp, err := c.ask(req)
	if err != nil {
		return 0, err
	}
	topics := resp.(*kmsg.DescribeQuorumResponse).Topics
	if len(topics) != 1 || len(topics[0].Partitions) != 1 {
		return 0, nil
	}
	return topics[0].Partitions[0].LeaderID, nil
}

// followerLoad is producers that go on until they are ended.
type followerLoad struct {
	bytes   atomic.Int64 // acknowledged, by the partitions that count
	stop    atomic.Bool
	running sync.WaitGroup
	mu      sync.Mutex
	failed  error
}

// small segments are removed soon after their records are.
var small = [][2]string{{"segment.bytes", "16777216"}}

// trimEvery bounds what a topic that is written for long keeps in memory.
const trimEvery = 500 * time.Millisecond

// load starts a producer of each of the topics, which it makes, and a slow one of the topic
// that is to lose its follower.
func (r *clusterBench) load(loser string, leader int32, others [][]int32) (*followerLoad, error) {
	batch, _, err := benchBatch(16<<10, r.recordSize)
	if err != nil {
		return nil, err
	}
	l := new(followerLoad)
	start := func(topic string, leader int32, count *atomic.Int64, rest time.Duration) error {
		c, err := r.nodes[leader-1].dial(r.ctx)
		if err != nil {
			return err
		}
		frame := c.produceFrame(topic, -1, batch)
		l.running.Go(func() {
			defer c.close()
			for trimmed := time.Now(); !l.stop.Load(); {
				err := c.oneByOne(topic, frame, 1)
				if err == nil && time.Since(trimmed) > trimEvery {
					err, trimmed = c.trim(topic), time.Now()
				}
				if err != nil {
					l.fail(fmt.Errorf("%s: %w", topic, err))
					return
				}
				count.Add(int64(len(batch)))
				if rest > 0 {
					time.Sleep(rest)
				}
			}
		})
		return nil
	}
	for i, replicas := range others {
		topic := fmt.Sprintf("other-%d", i)
		if err := r.create(topic, small, replicas...); err != nil {
			return nil, err
		}
		if err := start(topic, replicas[0], &l.bytes, 0); err != nil {
			return nil, err
		}
	}
	return l, start(loser, leader, new(atomic.Int64), 10*time.Millisecond)
}

// trim deletes all records of a partition.
func (c *benchConn) trim(topic string) error {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Version, req.TimeoutMillis = 2, 10_000
	t, p := kmsg.NewDeleteRecordsRequestTopic(), kmsg.NewDeleteRecordsRequestTopicPartition()
	t.Topic, p.Offset = topic, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := c.ask(req)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0].ErrorCode)
}

func (l *followerLoad) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = errors.Join(l.failed, err)
}

// rate is what the others get through in a while, in MB/s.
func (l *followerLoad) rate(window time.Duration) float64 {
	before, began := l.bytes.Load(), time.Now()
	time.Sleep(window)
	return float64(l.bytes.Load()-before) / 1e6 / time.Since(began).Seconds()
}

// end ends the load; an error is that of any producer.
func (l *followerLoad) end() error {
	l.stop.Store(true)
	l.running.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// table prints what was found, with the load of the machine by then.
func (r *clusterBench) table(title string, head []string, lines [][]string) {
	load, _ := os.ReadFile("/proc/loadavg")
	one, _, _ := strings.Cut(string(load), " ")
	fmt.Fprintf(r.out, "\n%s; load average %s:\n\n", title, one)
	if r.format == "markdown" {
		printMarkdown(r.out, head, lines)
	} else {
		printTable(r.out, head, lines)
	}
}
