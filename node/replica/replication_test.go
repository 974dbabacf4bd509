package replica

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"seedlog/clock/task"
	"seedlog/node/meta"
	"seedlog/storage"
	"seedlog/storage/record"
)

func TestFollowersCopyTheirLeader(t *testing.T) {
	inCluster(t, 3, nil, func(c *cluster) {
		k := c.create(7, 1, 2, 3)
		c.hear()
		c.produce(1, k, 50)
		c.caughtUp(k, 1, 2, 3)
		c.same(k, 1, 2, 3)
	})
}

// The worked example: 200 records that nobody copied; their leader dies, another leads, the
// old one comes back and cuts them.
func TestUnreplicatedRecordsAreCutWhenTheirLeaderComesBack(t *testing.T) {
	inCluster(t, 2, nil, func(c *cluster) {
		k := c.create(7, 1, 2)
		c.hear()
		c.produce(1, k, 100)
		c.caughtUp(k, 1, 2)
		c.cut[1] = true
		c.produce(1, k, 200)
		expect("log end of the leader", c.part(1, k).Log().LogEndOffset(), int64(300))
		expect("its high watermark", c.part(1, k).Log().HighWatermark(), int64(100))
		c.stop(1)
		c.elect(k, 2, 2)
		c.hear()
		c.produce(2, k, 10)
		delete(c.cut, 1)
		c.start(1)
		c.caughtUp(k, 2, 1)
		c.same(k, 2, 1)
		expect("log end", c.part(1, k).Log().LogEndOffset(), int64(110))
		expect("diverging truncations", c.happened("log-diverged"), 1)
		c.until("1 is in the ISR again", func() bool { return len(c.image.Partition(k.Topic, 0).ISR) == 2 })
	})
}

// KIP-101, first example: a follower restarts with a high watermark that lags behind its log,
// and its leader dies before it fetches. What the leader had committed is not cut.
func TestAFollowersOwnHighWatermarkCutsNothing(t *testing.T) {
	inCluster(t, 2, nil, func(c *cluster) {
		k := c.create(7, 1, 2)
		c.hear()
		c.produce(1, k, 1)
		c.caughtUp(k, 1, 2)
		c.produce(1, k, 1)
		c.until("2 has the second record and 1 knows", func() bool { return c.part(1, k).Log().HighWatermark() == 2 })
		c.cut[1] = true
		c.stop(2) // its checkpointed high watermark is older than its log
		c.start(2)
		if hw := c.part(2, k).Log().HighWatermark(); hw >= 2 {
			panic(fmt.Sprint("the restarted follower's high watermark is ", hw, ": the example needs it to lag"))
		}
		c.elect(k, 2, 2)
		c.hear(2)
		expect("log end of the new leader", c.part(2, k).Log().LogEndOffset(), int64(2))
		c.hear(1)
		delete(c.cut, 1)
		c.caughtUp(k, 2, 1)
		c.same(k, 2, 1)
		expect("log end of the old leader", c.part(1, k).Log().LogEndOffset(), int64(2))
	})
}

// KIP-101, second example: both lost tails of the same length and wrote on. Offsets agree and
// records do not: epochs tell.
func TestEqualLengthsWithDifferentRecordsAreToldApart(t *testing.T) {
	inCluster(t, 2, nil, func(c *cluster) {
		k := c.create(7, 1, 2)
		c.hear()
		c.produce(1, k, 1)
		c.caughtUp(k, 1, 2)
		c.cut[1] = true
		c.produce(1, k, 1)
		c.elect(k, 2, 2)
		c.hear(2)
		c.produce(2, k, 1)
		expect("ends", c.part(1, k).Log().LogEndOffset(), c.part(2, k).Log().LogEndOffset())
		c.hear(1)
		delete(c.cut, 1)
		c.caughtUp(k, 2, 1)
		c.same(k, 2, 1)
	})
}

// KIP-279: two fast failovers with writes between, so that the follower has an epoch that the
// leader has not. One round of truncation is not enough.
func TestTwoFastFailovers(t *testing.T) {
	inCluster(t, 3, nil, func(c *cluster) {
		k := c.create(7, 1, 2, 3)
		c.hear()
		c.produce(1, k, 3)
		c.caughtUp(k, 1, 2, 3)
		for id := int32(1); id <= 3; id++ {
			c.cut[id] = true
		}
		c.produce(1, k, 2) // epoch 0: 3, 4, on 1 alone
		c.elect(k, 2, 2, 3)
		c.hear(2)
		c.produce(2, k, 4) // epoch 1: 3..6, on 2 alone
		c.elect(k, 3, 3)
		c.hear(3)
		c.produce(3, k, 1) // epoch 2: 3, on 3
		c.hear()
		clear(c.cut)
		c.caughtUp(k, 3, 1, 2)
		c.same(k, 3, 1, 2)
		expect("log end", c.part(1, k).Log().LogEndOffset(), int64(4))
		if n := c.happened("log-diverged"); n < 2 {
			panic(fmt.Sprint(n, " truncations"))
		}
	})
}

// A leadership without a record leaves an epoch behind that the next leader does not know.
func TestAnEpochWithoutRecordsIsNoObstacle(t *testing.T) {
	inCluster(t, 2, nil, func(c *cluster) {
		k := c.create(7, 1, 2)
		c.hear()
		c.produce(1, k, 3)
		c.caughtUp(k, 1, 2)
		c.cut[2] = true
		c.elect(k, 2, 1, 2)
		c.hear(2)
		c.elect(k, 1, 1, 2)
		c.hear()
		clear(c.cut)
		c.produce(1, k, 2)
		c.caughtUp(k, 1, 2)
		c.same(k, 1, 2)
	})
}

// A follower whose log lies before the leader's begins again at the leader's start.
func TestAFollowerTooFarBehindBeginsAgain(t *testing.T) {
	settings := map[string]string{"replica.lag.time.max.ms": "600000"}
	inCluster(t, 2, settings, func(c *cluster) {
		k := c.create(7, 1, 2)
		c.hear()
		c.produce(1, k, 3)
		c.caughtUp(k, 1, 2)
		c.elect(k, 1, 1)
		c.hear()
		c.cut[2] = true
		c.produce(1, k, 10)
		must(c.part(1, k).Log().DeleteRecords(c.tk, 8))
		delete(c.cut, 2)
		c.caughtUp(k, 1, 2)
		expect("log start of the follower", c.part(2, k).Log().LogStartOffset(), int64(8))
		expect("restarts", c.happened("log-out-of-range"), 1)
		c.same(k, 1, 2)
		must(c.part(1, k).Log().DeleteRecords(c.tk, 10))
		c.until("the follower's start follows", func() bool { return c.part(2, k).Log().LogStartOffset() == 10 })
		c.until("the low watermark follows", func() bool { return must(c.part(1, k).LowWatermark()) == 10 })
	})
}

// Records may be deleted up to the middle of a batch. Who begins there begins with that batch.
func TestAFollowerBeginsInTheMiddleOfABatch(t *testing.T) {
	inCluster(t, 2, nil, func(c *cluster) {
		k := c.create(7, 1, 2)
		c.elect(k, 1, 1)
		c.cut[2] = true
		c.hear()
		var records []record.Record
		for i := range int64(4) {
			records = append(records, record.Record{Offset: i, Value: []byte("v")})
		}
		batch := must(record.AppendBatch(nil, record.NewOptions(0), nil, records...))
		_, _, err := c.part(1, k).Append(c.tk, batch, storage.Client, false)
		check(err)
		c.produce(1, k, 2)
		must(c.part(1, k).Log().DeleteRecords(c.tk, 3))
		delete(c.cut, 2)
		c.caughtUp(k, 1, 2)
		expect("log start of the follower", c.part(2, k).Log().LogStartOffset(), int64(3))
		c.same(k, 1, 2)
	})
}

// What a leader says about one partition does not stop the others.
func TestOneRefusedPartitionDoesNotStopTheOthers(t *testing.T) {
	inCluster(t, 2, nil, func(c *cluster) {
		bad, good := c.create(7, 1, 2), c.create(8, 1, 2)
		c.hear()
		for _, code := range []int16{kerr.KafkaStorageError.Code, kerr.NotLeaderForPartition.Code, kerr.UnknownServerError.Code} {
			c.refuse[bad] = code
			c.produce(1, bad, 5)
			for range 20 {
				c.produce(1, good, 1)
				c.until("the good one is copied", func() bool {
					return c.part(2, good).Log().LogEndOffset() == c.part(1, good).Log().LogEndOffset()
				})
			}
			if c.part(2, bad).Log().LogEndOffset() == c.part(1, bad).Log().LogEndOffset() {
				panic("the refused one was copied")
			}
			delete(c.refuse, bad)
			c.caughtUp(bad, 1, 2)
		}
		if n := len(c.fetches[bad]); n > 400 {
			panic(fmt.Sprint("it was asked for ", n, " times while it was refused"))
		}
	})
}

// So does a follower's own broken log: it alone is given up.
func TestABrokenLogIsLeftAlone(t *testing.T) {
	inCluster(t, 2, nil, func(c *cluster) {
		k := c.create(7, 1, 2)
		c.hear()
		c.produce(1, k, 3)
		c.caughtUp(k, 1, 2)
		c.brokers[2].dir.Fail(errors.New("the disk burns"))
		c.produce(1, k, 3)
		c.until("the fetcher gave up", func() bool { return c.happened("fetch-refused") > 0 })
		before := len(c.fetches[k])
		c.tk.Sleep(c.tk.Now().Add(10 * time.Second))
		if after := len(c.fetches[k]); after != before {
			panic(fmt.Sprint("asked ", after-before, " times more for a log that is offline"))
		}
	})
}

// An answer that comes after the change of role is dropped: the new leader's log has nothing
// of the old one's.
func TestALateAnswerIsDropped(t *testing.T) {
	inCluster(t, 2, nil, func(c *cluster) {
		k := c.create(7, 1, 2)
		c.hear()
		c.produce(1, k, 3)
		c.caughtUp(k, 1, 2)
		c.held = func(t *task.T) {
			c.elect(k, 2, 2)
			c.hearBy(t, 2)
		}
		c.produce(1, k, 1)
		c.until("2 leads", func() bool { return c.part(2, k).Leads(1) })
		c.cut[1] = true
		c.tk.Sleep(c.tk.Now().Add(time.Second))
		start := c.part(2, k).Log().Epochs()
		if end := c.part(2, k).Log().LogEndOffset(); start[len(start)-1].Start != end {
			panic(fmt.Sprint("epoch 1 began at ", start[len(start)-1].Start, ", and the log ends at ", end))
		}
	})
}

// Where every message is flushed, a follower tells its leader of nothing that is not synced.
func TestFollowersTellOnlyWhatIsSynced(t *testing.T) {
	inCluster(t, 2, map[string]string{"log.flush.interval.messages": "1"}, func(c *cluster) {
		k := c.create(7, 1, 2)
		c.hear()
		for range 20 {
			c.produce(1, k, 1)
			c.until("2 has told", func() bool { return c.part(1, k).Log().HighWatermark() == c.part(1, k).Log().LogEndOffset() })
			if hw, synced := c.part(1, k).Log().HighWatermark(), c.part(2, k).Log().SyncedEnd(); hw > synced {
				panic(fmt.Sprint("committed ", hw, ", the follower has synced ", synced))
			}
		}
	})
}

// The ISR shrinks by time and grows by catching up; the high watermark follows at once.
func TestTheISRShrinksAndGrows(t *testing.T) {
	inCluster(t, 3, nil, func(c *cluster) {
		k := c.create(7, 1, 2, 3)
		c.hear()
		c.produce(1, k, 3)
		c.caughtUp(k, 1, 2, 3)
		c.cut[3] = true
		c.produce(1, k, 3)
		c.until("3 left", func() bool { return slices.Equal(c.image.Partition(k.Topic, 0).ISR, []int32{1, 2}) })
		c.until("the high watermark moved without an append", func() bool { return c.part(1, k).Log().HighWatermark() == 6 })
		delete(c.cut, 3)
		c.until("3 joined", func() bool { return len(c.image.Partition(k.Topic, 0).ISR) == 3 })
		c.hear()
		expect("shrunk", c.happened("isr-shrunk"), 1)
		expect("expanded", c.happened("isr-expanded"), 1)
	})
}

// What becomes of a proposal: it is repeated while nobody knows, dropped where the controller
// refused it, and never doubled.
func TestUnsettledProposalsAreRepeated(t *testing.T) {
	inCluster(t, 2, nil, func(c *cluster) {
		k := c.create(7, 1, 2)
		c.elect(k, 1, 1)
		lost := func() error { return errors.New("the controller moved") }
		c.answers = []func() error{lost, lost}
		c.hear()
		c.until("2 joined", func() bool { return len(c.image.Partition(k.Topic, 0).ISR) == 2 })
		c.until("the answers were used", func() bool { return len(c.answers) == 0 })
		c.tk.Sleep(c.tk.Now().Add(time.Second))
		for _, a := range c.asked {
			expect("proposal", a, "1 wants [1 2]")
		}
		c.hear() // the first one was made, and the leader learns of it only now
		c.produce(1, k, 1)
		c.caughtUp(k, 1, 2)
	})
}

func TestAFencedFollowerIsNotProposed(t *testing.T) {
	inCluster(t, 2, nil, func(c *cluster) {
		k := c.create(7, 1, 2)
		c.elect(k, 1, 1)
		c.decide(&meta.BrokerRegistrationChangeRecord{BrokerID: 2, BrokerEpoch: 20, Fenced: 1})
		c.hear()
		c.produce(1, k, 1)
		c.until("2 has it", func() bool { return c.part(2, k).Log().LogEndOffset() == 1 })
		c.tk.Sleep(c.tk.Now().Add(5 * time.Second))
		expect("proposals", strings.Join(c.asked, ", "), "")
		c.decide(&meta.BrokerRegistrationChangeRecord{BrokerID: 2, BrokerEpoch: 20, Fenced: -1})
		c.hear()
		c.until("2 joined", func() bool { return len(c.image.Partition(k.Topic, 0).ISR) == 2 })
	})
}

// A replica that a reassignment removed is deleted, and one that it added is filled.
func TestAReassignmentMovesTheReplica(t *testing.T) {
	inCluster(t, 3, nil, func(c *cluster) {
		k := c.create(7, 1, 2)
		c.hear()
		c.produce(1, k, 20)
		c.caughtUp(k, 1, 2)
		change := meta.NewPartitionChange(k.Topic, 0)
		change.Replicas, change.AddingReplicas = []int32{1, 2, 3}, []int32{3}
		c.decide(change)
		c.hear()
		c.until("3 joined", func() bool { return len(c.image.Partition(k.Topic, 0).ISR) == 3 })
		change = meta.NewPartitionChange(k.Topic, 0)
		change.Replicas, change.AddingReplicas, change.ISR = []int32{1, 3}, []int32{}, []int32{1, 3}
		c.decide(change)
		c.hear()
		if _, err := c.brokers[2].m.Partition(k); !errors.Is(err, ErrUnknownPartition) {
			panic(fmt.Sprint("2 still hosts it: ", err))
		}
		c.produce(1, k, 1)
		c.caughtUp(k, 1, 3)
		c.same(k, 1, 3)
	})
}

// A throttled follower catches up at its rate; what is not throttled is not slowed.
func TestAThrottledFollowerCatchesUpSlowly(t *testing.T) {
	settings := map[string]string{"follower.replication.throttled.rate": "100", "replica.fetch.max.bytes": "500", "replica.lag.time.max.ms": "600000"}
	inCluster(t, 2, settings, func(c *cluster) {
		slow, fast := c.create(7, 1, 2), c.create(8, 1, 2)
		all := "*"
		c.decide(&meta.ConfigRecord{ResourceType: meta.TopicResource, ResourceName: "topic7", Name: "follower.replication.throttled.replicas", Value: &all})
		c.elect(slow, 1, 1)
		c.cut[2] = true
		c.hear()
		c.produce(1, slow, 100)
		c.produce(1, fast, 100)
		size := c.part(1, slow).Log().Size()
		delete(c.cut, 2)
		began := c.tk.Now()
		c.caughtUp(fast, 1, 2)
		quick := c.tk.Now().Sub(began)
		c.caughtUp(slow, 1, 2)
		took := c.tk.Now().Sub(began)
		// In each window of eleven seconds a fetch of 500 bytes may be half a window too many.
		if least := time.Duration(size/200) * time.Second; took < least {
			panic(fmt.Sprintf("%d bytes at 100 a second took %v, want at least %v", size, took, least))
		}
		if quick > 10*time.Second {
			panic(fmt.Sprint("what is not throttled took ", quick))
		}
	})
}

// TestTheNumberOfFetchersChangesWhileTheyCopy: num.replica.fetchers is a setting of the running
// cluster.
func TestTheNumberOfFetchersChangesWhileTheyCopy(t *testing.T) {
	inCluster(t, 2, nil, func(c *cluster) {
		var keys []Key
		for _, id := range []byte{1, 2, 9, 10, 17, 18} { // enough for three fetchers to have some each
			keys = append(keys, c.create(id, 1, 2))
		}
		c.hear()
		sources := func() map[source]bool {
			used := map[source]bool{}
			for _, k := range keys {
				used[c.part(2, k).fetchedBy.source] = true
			}
			return used
		}
		copied := func() {
			for _, k := range keys {
				c.produce(1, k, 3)
			}
			for _, k := range keys {
				c.caughtUp(k, 1, 2)
			}
		}
		expect("fetchers of one", len(sources()), 1)
		copied()
		for _, n := range []int32{3, 2} {
			next := *c.cfg
			next.NumReplicaFetchers = n
			c.cfg = &next
			value := fmt.Sprint(n)
			c.decide(&meta.ConfigRecord{ResourceType: meta.BrokerResource, Name: "num.replica.fetchers", Value: &value})
			c.hear()
			expect("fetchers", len(sources()), int(n))
			copied()
		}
		for _, k := range keys {
			c.same(k, 1, 2)
		}
	})
}

// Whoever keeps a replica forgets producers that were idle for producer.id.expiration.ms, and
// nobody else: one that an application makes for each run of its own would be remembered for ever.
func TestIdleProducersAreForgotten(t *testing.T) {
	inCluster(t, 2, map[string]string{"producer.id.expiration.ms": "60000", "producer.id.expiration.check.interval.ms": "10000"}, func(c *cluster) {
		k := c.create(7, 1, 2)
		c.hear()
		write := func(id int64, seq int32) {
			o := record.NewOptions(0)
			o.ProducerID, o.ProducerEpoch, o.BaseSequence = id, 0, seq
			r := record.Record{Timestamp: c.tk.UnixMilli(), Value: []byte("v")}
			_, _, err := c.part(1, k).Append(c.tk, must(record.AppendBatch(nil, o, nil, r)), storage.Client, false)
			check(err)
		}
		write(5, 0)
		for seq := range int32(9) {
			write(6, seq)
			c.tk.Sleep(c.tk.Now().Add(10 * time.Second))
		}
		c.caughtUp(k, 1, 2)
		for id := int32(1); id <= 2; id++ {
			if p := c.part(id, k).Log().Producers(); len(p) != 1 || p[0].ProducerID != 6 {
				t.Errorf("broker %d remembers %+v", id, p)
			}
		}
	})
}
