package controller

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock"
	"seedlog/node/meta"
)

func (w *world) stopping(id int32) *kmsg.BrokerHeartbeatResponse {
	w.t.Helper()
	return w.heartbeat(id, func(r *kmsg.BrokerHeartbeatRequest) { r.WantShutdown = true })
}

// A follower has nothing to hand over: it leaves the ISR in the decision that lets it go.
func TestABrokerThatLeadsNothingStopsAtOnce(t *testing.T) {
	w := newWorld(t, nil)
	w.start(2)
	w.create("t", 1, 2)
	if r := w.stopping(2); !r.ShouldShutdown || !r.IsFenced {
		t.Errorf("%+v", r)
	}
	w.want("t", "leader=1 isr=[1] elr=[] last=[] recovering=0")
	if !w.state.image.Broker(2).Fenced {
		t.Error("it may still be elected")
	}
	if r := w.stopping(2); !r.ShouldShutdown {
		t.Error("asked again, it has to stay")
	}
}

// A lone broker has nobody to hand over to, and nobody to wait for.
func TestTheLastBrokerStops(t *testing.T) {
	w := newWorld(t, nil)
	w.start(1)
	w.create("t", 1)
	if r := w.stopping(1); r.ShouldShutdown {
		t.Error("stopped while it leads")
	}
	w.want("t", "leader=-1 isr=[] elr=[1] last=[1] recovering=0")
	if r := w.stopping(1); !r.ShouldShutdown {
		t.Error("not let go")
	}
	w.now += clock.Instant(time.Second)
	w.register(1, 2, w.state.image.Broker(1).Epoch, "")
	w.heartbeat(1, nil)
	w.want("t", "leader=1 isr=[1] elr=[] last=[] recovering=0")
}

// Another controller does not know what the last one waited for: it waits until everybody
// has read what it began with.
func TestAShutdownOutlivesTheController(t *testing.T) {
	w := newWorld(t, nil)
	w.start(2)
	w.create("t", 1, 2)
	w.stopping(1)
	w.state = New(clusterID, w.state.static, w.state.image)
	w.append(w.state.Activate(w.now, nil))
	if r := w.stopping(1); r.ShouldShutdown {
		t.Error("broker 2 has not said how far it is")
	}
	w.heartbeat(2, nil)
	if r := w.stopping(1); !r.ShouldShutdown {
		t.Error("not let go")
	}
}

func TestABrokerThatFallsSilentWhileItStopsIsFenced(t *testing.T) {
	w := newWorld(t, nil)
	w.start(2)
	w.create("t", 1, 2)
	w.stopping(1)
	w.now += clock.Instant(10 * time.Second)
	w.heartbeat(2, nil)
	records, _ := w.state.Expire(w.now)
	w.append(records)
	if r := w.stopping(1); !r.ShouldShutdown || !r.IsFenced {
		t.Errorf("%+v", r)
	}
	// Unfenced without a new registration, it is still on its way out.
	w.create("u", 2, 1)
	w.heartbeat(1, nil)
	w.silence(2)
	w.want("t", "leader=-1 isr=[] elr=[2] last=[2] recovering=0")
	if w.state.active(1) {
		t.Error("active")
	}
}

func TestABrokerWithoutDirectoriesIsFenced(t *testing.T) {
	w := newWorld(t, nil)
	w.start(2)
	w.create("t", 1, 2)
	r := w.heartbeat(1, func(r *kmsg.BrokerHeartbeatRequest) { r.OfflineLogDirs = [][16]byte{dirOf(1)} })
	if !r.IsFenced {
		t.Error("unfenced")
	}
	w.want("t", "leader=2 isr=[2] elr=[] last=[] recovering=0")
}

// A replica whose directory failed does not come back into the ISR, though its broker is well
// and its last request for the partition comes late.
func TestWhoLostTheDirectoryDoesNotJoin(t *testing.T) {
	w := newWorld(t, nil)
	w.start(2)
	lost := meta.UUID{9, 99}
	w.append([]meta.Record{{Version: 2, Body: &meta.BrokerRegistrationChangeRecord{BrokerID: 2, BrokerEpoch: w.state.image.Broker(2).Epoch, LogDirs: []meta.UUID{dirOf(2), lost}}}})
	topic := w.create("t", 1, 2)
	w.append([]meta.Record{{Version: 2, Body: &meta.PartitionChangeRecord{TopicID: topic.ID, Leader: meta.LeaderUnchanged, Directories: []meta.UUID{dirOf(1), lost}}}})
	w.heartbeat(2, func(r *kmsg.BrokerHeartbeatRequest) { r.OfflineLogDirs = [][16]byte{lost} })
	w.want("t", "leader=1 isr=[1] elr=[] last=[] recovering=0")
	both := func(x *kmsg.AlterPartitionRequestTopicPartition) { x.NewEpochISR = isrOf(1, -1, 2, -1) }
	if r := w.alterPartition(1, both); r.ErrorCode != kerr.IneligibleReplica.Code {
		t.Errorf("it joined: %+v", r)
	}
	// In another directory it may.
	w.append([]meta.Record{{Version: 2, Body: &meta.PartitionChangeRecord{TopicID: topic.ID, Leader: meta.LeaderUnchanged, Directories: []meta.UUID{dirOf(1), dirOf(2)}}}})
	if r := w.alterPartition(1, both); r.ErrorCode != 0 {
		t.Errorf("%+v", r)
	}
}

// A replica whose directory does not come back has nothing, however cleanly it stopped.
func TestACleanStopWithoutTheDirectoryIsUnclean(t *testing.T) {
	w := newWorld(t, nil)
	w.start(1)
	w.create("t", 1)
	w.stopping(1)
	w.stopping(1)
	req := registration(1, 2, w.state.image.Broker(1).Epoch, "")
	req.LogDirs = [][16]byte{{7}}
	if r := w.do(req).(*kmsg.BrokerRegistrationResponse); r.ErrorCode != 0 {
		t.Fatal(kerr.ErrorForCode(r.ErrorCode))
	}
	w.want("t", "leader=-1 isr=[] elr=[] last=[1] recovering=0")
}

// assign says where replicas of t-0 are, one after the other in one request.
func (w *world) assign(id int32, dirs ...meta.UUID) {
	w.t.Helper()
	req := kmsg.NewPtrAssignReplicasToDirsRequest()
	req.BrokerID, req.BrokerEpoch = id, w.state.image.Broker(id).Epoch
	for _, d := range dirs {
		req.Directories = append(req.Directories, kmsg.AssignReplicasToDirsRequestDirectory{ID: d, Topics: []kmsg.AssignReplicasToDirsRequestDirectoryTopic{
			{TopicID: w.state.image.Topic("t").ID, Partitions: []kmsg.AssignReplicasToDirsRequestDirectoryTopicPartition{{}}}}})
	}
	if resp := w.do(req).(*kmsg.AssignReplicasToDirsResponse); resp.ErrorCode != 0 || resp.Directories[0].Topics[0].Partitions[0].ErrorCode != 0 {
		w.t.Fatalf("%+v", resp)
	}
}

// A replica in a directory that its broker does not have is out of sync.
func TestAnAssignmentToAFailedDirectory(t *testing.T) {
	w := newWorld(t, nil)
	w.start(2)
	w.create("t", 1, 2)
	w.assign(1, meta.UUID{5}, meta.UUID{6})
	w.want("t", "leader=2 isr=[2] elr=[] last=[] recovering=0")
	if p := w.partition("t"); p.Directories[0] != (meta.UUID{6}) || p.LeaderEpoch != 1 || p.PartitionEpoch != 2 {
		t.Errorf("%+v", p)
	}
}

func TestAnUnregisteredBrokerIsNotEligible(t *testing.T) {
	w := newWorld(t, map[string]string{"min.insync.replicas": "2"})
	w.start(2)
	w.create("t", 1, 2)
	w.silence(1)
	w.want("t", "leader=2 isr=[2] elr=[1] last=[] recovering=0")
	req := kmsg.NewPtrUnregisterBrokerRequest()
	req.BrokerID = 1
	if r := w.do(req).(*kmsg.UnregisterBrokerResponse); r.ErrorCode != 0 {
		t.Fatal(kerr.ErrorForCode(r.ErrorCode))
	}
	w.want("t", "leader=2 isr=[2] elr=[] last=[] recovering=0")
	if r := w.do(req).(*kmsg.UnregisterBrokerResponse); r.ErrorCode != kerr.BrokerIDNotRegistered.Code {
		t.Errorf("%+v", r)
	}
}

// The quorum may write its voters between a decision and its append: the command is decided
// anew, as if for the first time.
func TestARegistrationIsDecidedAnewAtAnotherOffset(t *testing.T) {
	w := newWorld(t, nil)
	w.start(1)
	w.now += clock.Instant(10 * time.Second)
	req := registration(1, 2, -1, "")
	first := w.state.Decide(req, Input{NextOffset: int64(len(w.log)), Now: w.now, Rand: w.rnd})
	again := w.state.Decide(req, Input{NextOffset: int64(len(w.log)) + 1, Now: w.now, Rand: w.rnd})
	a, b := first.Response.(*kmsg.BrokerRegistrationResponse), again.Response.(*kmsg.BrokerRegistrationResponse)
	if a.ErrorCode != 0 || b.ErrorCode != 0 || b.BrokerEpoch != a.BrokerEpoch+1 {
		t.Errorf("%+v, then %+v", a, b)
	}
}
