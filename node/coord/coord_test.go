package coord

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"seedlog/clock"
	"seedlog/clock/live"
	"seedlog/clock/task"
	"seedlog/node/event"
	"seedlog/node/group"
	"seedlog/sim/sched"
	"seedlog/storage/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inBoth runs a story on goroutines and in the simulator, on several seeds.
func inBoth(t *testing.T, story func(w *world)) {
	t.Run("live", func(t *testing.T) {
		rt := live.New(live.Options{Chaos: 3})
		live.Main(rt, func(tk *task.T) { story(newWorld(t, tk)) })
	})
	t.Run("sim", func(t *testing.T) {
		for seed := range uint64(20) {
			if err := sched.Main(seed, func(tk *task.T) { story(newWorld(t, tk)) }); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// world is a coordinator with a log in memory.
type world struct {
	tb    testing.TB
	t     *task.T
	c     *Coordinator
	log   *memLog
	tasks *task.Group
	cfg   group.Config
	sink  *sink
}

type sink struct {
	mu   task.Mutex
	text strings.Builder
}

func (s *sink) Emit(e event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(&s.text, "%s ", e.Name())
}

func (s *sink) has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.text.String(), name+" ")
}

func newWorld(tb testing.TB, t *task.T) *world {
	w := &world{tb: tb, t: t, cfg: group.DefaultConfig(), sink: new(sink)}
	w.sink.mu.Init(t.Runtime(), "test.sink")
	w.cfg.InitialRebalanceDelayMs, w.cfg.MinSessionTimeoutMs = 0, 1
	w.log = newMemLog(t.Runtime())
	w.boot()
	return w
}

// boot makes a new coordinator, as after a restart.
func (w *world) boot() {
	if w.tasks != nil {
		w.tasks.Stop()
		w.tasks.Wait(w.t)
	}
	rt := w.t.Runtime()
	w.tasks = task.NewGroup(rt, "coord")
	w.c = New(Env{
		RT: rt, Tasks: w.tasks, Events: w.sink,
		Rand:   func(name string) *rand.Rand { return rand.New(rand.NewPCG(uint64(len(name)), 1)) },
		Config: func() group.Config { return w.cfg },
	}, 1)
}

// lead starts the shard and waits until it serves.
func (w *world) lead(epoch int32) {
	w.c.Lead(0, epoch, w.log)
	w.until("the shard serves", func() bool { return w.c.Loaded(0) })
}

func (w *world) until(what string, cond func() bool) {
	end := w.t.Now().Add(20 * time.Second)
	for !cond() {
		if w.t.Now() > end {
			w.tb.Errorf("not within 20 s: %s", what)
			return
		}
		w.t.Sleep(w.t.Now().Add(time.Millisecond))
	}
}

func (w *world) close() {
	w.tasks.Stop()
	w.tasks.Wait(w.t)
}

func (w *world) commit(offset int64) int16 {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 9, "g", -1
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: offset, LeaderEpoch: -1}}}}
	msg, code := w.c.Do(w.t, "g", func(k group.Ticket) group.Command { return group.Commit{Ticket: k, Req: req} })
	if code != 0 {
		return code
	}
	return msg.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
}

func (w *world) fetch() int64 {
	msg, code := w.c.Do(w.t, "g", func(k group.Ticket) group.Command { return group.Fetch{Ticket: k, Group: "g"} })
	if code != 0 {
		w.tb.Errorf("fetch: code %d", code)
		return -2
	}
	g := msg.(group.FetchReply).Group
	if len(g.Topics) == 0 {
		return -1
	}
	return g.Topics[0].Partitions[0].Offset
}

func (w *world) want(what string, got, want any) {
	if got != want {
		w.tb.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestOffsetsSurviveARestart(t *testing.T) {
	inBoth(t, func(w *world) {
		w.want("before there is a shard", w.commit(1), CodeNotCoordinator)
		w.lead(1)
		w.want("commit", w.commit(7), int16(0))
		w.want("fetch", w.fetch(), int64(7))
		w.boot()
		w.lead(1)
		w.want("fetch after a restart", w.fetch(), int64(7))
		w.close()
		w.want("after the stop", w.commit(8), CodeNotCoordinator)
	})
}

func TestRepliesWaitForTheCommit(t *testing.T) {
	inBoth(t, func(w *world) {
		w.lead(1)
		w.log.hold(true)
		done := task.NewEvent(w.t.Runtime(), "test.done")
		var code int16
		w.t.Go("committer", func(t *task.T) {
			code = (&world{tb: w.tb, t: t, c: w.c}).commit(5)
			done.Set()
		})
		w.until("the record is written", func() bool { _, end := w.log.Bounds(); return end == 1 })
		w.until("it is handled", func() bool { return w.c.shard(0).inFlight() == 1 })
		w.want("answered before the commit", done.IsSet(), false)
		w.log.hold(false)
		done.Wait(w.t, clock.Never)
		w.want("commit", code, int16(0))
		w.close()
	})
}

// A reader must not be told what may still be lost.
func TestReadersWaitForTheCommitToo(t *testing.T) {
	inBoth(t, func(w *world) {
		w.lead(1)
		w.want("commit", w.commit(5), int16(0))
		w.log.hold(true)
		for _, name := range []string{"committer", "reader"} {
			w.t.Go(name, func(t *task.T) {
				mine := &world{tb: w.tb, t: t, c: w.c}
				if name == "committer" {
					mine.want("commit that is lost", mine.commit(6), CodeNotCoordinator)
					return
				}
				mine.until("the other's record is written", func() bool { _, end := w.log.Bounds(); return end == 2 })
				_, code := w.c.Do(t, "g", func(k group.Ticket) group.Command { return group.Fetch{Ticket: k, Group: "g"} })
				mine.want("fetch of it", code, CodeNotCoordinator)
			})
		}
		w.until("both wait", func() bool { s := w.c.shard(0); return s != nil && s.inFlight() == 2 })
		w.log.lose()
		w.until("the shard has ended", func() bool { return !w.c.Loaded(0) })
		w.want("why", w.sink.has("group-shard-ended"), true)
		w.close()
	})
}

func TestACommitThatTakesTooLongIsToldSo(t *testing.T) {
	for seed := range uint64(5) {
		err := sched.Main(seed, func(tk *task.T) {
			w := newWorld(t, tk)
			w.lead(1)
			w.log.hold(true)
			began := w.t.Now()
			w.want("commit", w.commit(5), CodeNotAvailable)
			if took := w.t.Now().Sub(began); took < commitTimeoutMs*time.Millisecond {
				t.Errorf("gave up after %v", took)
			}
			w.log.hold(false)
			w.want("it may count later", w.fetch(), int64(5))
			w.close()
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestRefusedAppends(t *testing.T) {
	inBoth(t, func(w *world) {
		w.lead(1)
		w.log.refuse(fmt.Errorf("%w: test", ErrTooLarge))
		w.want("too large", w.commit(1), CodeUnknownServerError)
		w.log.refuse(fmt.Errorf("%w: test", ErrUnavailable))
		w.want("unavailable", w.commit(2), CodeNotAvailable)
		w.want("nothing was committed", w.fetch(), int64(-1))
		w.want("commit", w.commit(3), int16(0))
		w.log.refuse(errors.New("the disk is gone"))
		w.want("lost", w.commit(4), CodeNotCoordinator)
		w.want("still lost", w.commit(5), CodeNotCoordinator)
		w.c.Lead(0, 1, w.log)
		w.want("the same epoch does not come back", w.c.Loaded(0), false)
		w.lead(2)
		w.want("the next one does", w.fetch(), int64(3))
		w.close()
	})
}

func TestLoadingIsAnError(t *testing.T) {
	inBoth(t, func(w *world) {
		w.lead(1)
		w.want("commit", w.commit(1), int16(0))
		w.boot()
		w.log.stall(true)
		w.c.Lead(0, 2, w.log)
		w.want("while it loads", w.commit(2), CodeLoadInProgress)
		_, code := w.c.All(w.t, func(k group.Ticket) group.Command { return group.List{Ticket: k, Req: kmsg.NewPtrListGroupsRequest()} })
		w.want("list while it loads", code, CodeLoadInProgress)
		w.log.stall(false)
		w.until("it serves", func() bool { return w.c.Loaded(0) })
		w.want("fetch", w.fetch(), int64(1))
		w.c.Resign(0, 1)
		w.want("an old resignation", w.fetch(), int64(1))
		w.c.Resign(0, 3)
		w.want("resigned", w.commit(3), CodeNotCoordinator)
		w.close()
	})
}

// Members join, one of them dies silently, and its session ends: nothing but deadlines move it.
func TestTimersDriveAGroup(t *testing.T) {
	inBoth(t, func(w *world) {
		w.lead(1)
		resp := w.join("", 30, 100)
		w.want("join", resp.ErrorCode, int16(0))
		w.want("generation", resp.Generation, int32(1))
		w.until("the member's session ends", func() bool { return w.state() == "Empty" })
		w.want("told", w.sink.has("group-member-removed"), true)
		w.close()
	})
}

// Whoever waits in a rebalance is answered when the shard ends, and does not hold the stop up.
func TestStoppingAnswersThoseWhoWait(t *testing.T) {
	inBoth(t, func(w *world) {
		w.lead(1)
		first := w.join("", 60000, 60000)
		w.want("join", first.ErrorCode, int16(0))
		var code int16
		done := task.NewEvent(w.t.Runtime(), "test.done")
		w.t.Go("second", func(t *task.T) {
			_, code = w.c.Do(t, "g", joinCommand("", 60000, 60000))
			done.Set()
		})
		w.until("it waits", func() bool { return w.state() == "PreparingRebalance" })
		w.close()
		done.Wait(w.t, clock.Never)
		w.want("the second", code, CodeNotCoordinator)
	})
}

// commits has clients commit at once, one of them after the other, and waits until the first
// is in the log's hands and the others are queued behind it. answers waits for their codes.
func (w *world) commits(offsets ...int64) (answers func() []int16) {
	codes := make([]int16, len(offsets))
	clients := task.NewGroup(w.t.Runtime(), "clients")
	s := w.c.shard(0)
	before := s.inFlight() + s.queued()
	for i, offset := range offsets {
		clients.Go(fmt.Sprint("committer of ", offset), func(t *task.T) {
			codes[i] = (&world{tb: w.tb, t: t, c: w.c}).commit(offset)
		})
		w.until("the commit has come", func() bool { return s.inFlight()+s.queued() == before+i+1 })
	}
	w.until("one is being appended", func() bool { return s.inFlight() == 1 })
	return func() []int16 {
		clients.Wait(w.t)
		return codes
	}
}

// Whoever is queued at a coordinator that ends is answered.
func TestTheEndAnswersThoseInTheQueue(t *testing.T) {
	inBoth(t, func(w *world) {
		w.lead(1)
		w.log.stick(true)
		answers := w.commits(1, 2, 3)
		w.log.lose()
		w.log.stick(false)
		for i, code := range answers() {
			w.want(fmt.Sprint("commit ", i+1), code, CodeNotCoordinator)
		}
		w.close()
	})
}

// A coordinator that loses its log over what it was told answers the next request, too.
func TestALossOverWhatWasToldLosesNoRequest(t *testing.T) {
	inBoth(t, func(w *world) {
		w.lead(1)
		w.log.stick(true)
		answers := w.commits(1, 2, 3)
		w.c.TopicsDeleted([]string{"t"})
		w.log.refuse(errGone)
		w.log.stick(false)
		codes := answers()
		w.want("the commit before", codes[0], int16(0))
		w.want("the next request", codes[1], CodeNotCoordinator)
		w.want("the one after it", codes[2], CodeNotCoordinator)
		w.close()
	})
}

// What was told comes before what is asked afterwards: an offset that is committed once a topic
// is deleted is one of the next topic of that name.
func TestWhatWasToldComesFirst(t *testing.T) {
	inBoth(t, func(w *world) {
		w.lead(1)
		w.log.stick(true)
		answers := w.commits(1)
		w.c.TopicsDeleted([]string{"t"})
		next := w.commits(2)
		w.log.stick(false)
		w.want("commit to the old topic", answers()[0], int16(0))
		w.want("commit to the new one", next()[0], int16(0))
		w.want("fetch", w.fetch(), int64(2))
		w.close()
	})
}

// The next epoch is another coordinator's, though the broker is the same: whoever waits for
// members that the new one does not know is sent to it.
func TestTheNextEpochEndsACoordinator(t *testing.T) {
	inBoth(t, func(w *world) {
		w.lead(1)
		w.want("join", w.join("", 60000, 60000).ErrorCode, int16(0))
		var code int16
		done := task.NewEvent(w.t.Runtime(), "test.done")
		w.t.Go("second", func(t *task.T) {
			_, code = w.c.Do(t, "g", joinCommand("", 60000, 60000))
			done.Set()
		})
		w.until("it waits", func() bool { return w.state() == "PreparingRebalance" })
		w.log.stall(true)
		w.c.Lead(0, 2, w.log)
		w.until("it is answered while the next one loads", done.IsSet)
		w.want("the second", code, CodeNotCoordinator)
		w.log.stall(false)
		w.close()
		done.Wait(w.t, clock.Never)
	})
}

// A client's task that is told to stop does not wait for the group.
func TestAStoppingClientLeaves(t *testing.T) {
	inBoth(t, func(w *world) {
		w.lead(1)
		w.want("join", w.join("", 60000, 60000).ErrorCode, int16(0))
		clients := task.NewGroup(w.t.Runtime(), "clients")
		clients.Go("second", func(t *task.T) { w.c.Do(t, "g", joinCommand("", 60000, 60000)) })
		w.until("it waits", func() bool { return w.state() == "PreparingRebalance" })
		clients.Stop()
		clients.Wait(w.t)
		w.want("the coordinator goes on", w.state(), "PreparingRebalance")
		w.close()
	})
}

// Transactions that Kafka left in the log count once they are committed.
func TestLoadingUnderstandsTransactionsAndForeignRecords(t *testing.T) {
	inBoth(t, func(w *world) {
		key := (&kmsg.OffsetCommitKey{Version: 1, Group: "g", Topic: "t"}).AppendTo(nil)
		value := func(offset int64) []byte {
			return (&kmsg.OffsetCommitValue{Version: 3, Offset: offset, LeaderEpoch: -1}).AppendTo(nil)
		}
		txn := record.NewOptions(0)
		txn.Transactional, txn.ProducerID, txn.ProducerEpoch, txn.BaseSequence = true, 9, 0, 0
		w.log.put(txn, record.Record{Key: key, Value: value(41)})
		w.log.put(record.NewOptions(0), record.Record{Key: []byte{0, 3, 0}, Value: []byte("another protocol's")})
		w.log.put(record.NewOptions(0), record.Record{Key: []byte{0}, Value: []byte("damaged")})
		w.lead(1)
		w.want("open transaction", w.fetch(), int64(-1))
		w.want("told", w.sink.has("group-record-skipped"), true)
		w.boot()
		w.log.putRaw(record.AppendEndTxnBatch(nil, 9, 0, record.EndTxnMarker{Type: record.Commit}, 0))
		w.lead(2)
		w.want("committed transaction", w.fetch(), int64(41))
		w.close()
	})
}

func TestPartitionIsJavasHash(t *testing.T) {
	// Values of String.hashCode: "" 0, "a" 97, "hello" 99162322, "polygenelubricants" MinInt32.
	for _, c := range []struct {
		group string
		n     int32
		want  int32
	}{
		{"", 50, 0}, {"a", 50, 47}, {"hello", 50, 22}, {"polygenelubricants", 50, 0},
		{"console-consumer-12345", 50, Partition("console-consumer-12345", 50)},
		{"ä", 50, 228 % 50}, {"😀", 1 << 30, (31*0xd83d + 0xde00) % (1 << 30)},
	} {
		if got := Partition(c.group, c.n); got != c.want {
			t.Errorf("%q of %d: got %d, want %d", c.group, c.n, got, c.want)
		}
	}
}

func (s *shard) inFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inflight
}

func (s *shard) queued() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mailbox)
}

func joinCommand(member string, sessionMs, rebalanceMs int32) func(group.Ticket) group.Command {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID = 3, "g", member
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = sessionMs, rebalanceMs
	req.ProtocolType = "consumer"
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{}}}
	return func(k group.Ticket) group.Command { return group.Join{Ticket: k, ClientID: "c", Req: req} }
}

func (w *world) join(member string, sessionMs, rebalanceMs int32) *kmsg.JoinGroupResponse {
	msg, code := w.c.Do(w.t, "g", joinCommand(member, sessionMs, rebalanceMs))
	if code != 0 {
		return &kmsg.JoinGroupResponse{ErrorCode: code}
	}
	return msg.(*kmsg.JoinGroupResponse)
}

func (w *world) state() string {
	msg, code := w.c.Do(w.t, "g", func(k group.Ticket) group.Command { return group.Describe{Ticket: k, Group: "g"} })
	if code != 0 {
		return fmt.Sprint(code)
	}
	return msg.(group.DescribeReply).Group.State
}
