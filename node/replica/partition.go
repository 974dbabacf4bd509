package replica

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"time"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/node/config"
	"seedlog/node/event"
	"seedlog/node/partition"
	"seedlog/storage"
)

// Errors of a partition; the text adds its name and the numbers.
var (
	// ErrNotLeader: this broker does not lead the partition (any more).
	ErrNotLeader = errors.New("not the leader")
	// ErrUnknownPartition: this broker has no replica of it.
	ErrUnknownPartition = errors.New("unknown partition")
)

// Key names a partition: topics by id, because names come back.
type Key struct {
	Topic     [16]byte
	Partition int32
}

// Compare orders keys by topic and partition.
func (k Key) Compare(o Key) int {
	return cmp.Or(bytes.Compare(k.Topic[:], o.Topic[:]), cmp.Compare(k.Partition, o.Partition))
}

// Partition is this broker's replica of one partition.
//
// Lock order: the moves, the role, Watchers, Partition, then the log's own.
type Partition struct {
	key   Key
	topic string
	m     *Manager
	log   *storage.Log

	// Appended waits for data, Committed for the high watermark or the synced end. Both are
	// checked after every change of what they wait for.
	Appended, Committed Watchers
	bytes               task.Int64 // appended since the start
	settings            task.Published[config.Topic]

	// role orders what a follower does to its log with the changes of role: it is held across
	// both. Leaders' appends do not take it; see storage.Log.Fence.
	role      task.Gate
	leaderHW  task.Int64 // the leader's high watermark, as this follower was told last
	fetchedBy *fetcher   // under Manager.mu
	isrAsked  bool       // under isrKeeper.mu

	// moves orders what is done about the replica's move to another directory.
	moves task.Gate

	mu       task.Mutex
	leader   *partition.Leader      // nil while another broker leads, or none
	reg      partition.Registration // the newest metadata
	brokers  standings              // what the newest metadata say of the replicas' brokers
	gone     bool                   // deleted, or the node stops
	syncing  bool                   // a task is syncing the log
	wantSync int64                  // up to where
	askers   int                    // appends that want it, since the last sync began
	asked    clock.Instant          // when the last of them came
	enough   int                    // so many end the syncer's wait for more; 0: it does not wait
	syncer   *task.T                // who waits

	move      *move // to another directory, or nil
	announced bool  // the controller is to have the replica in the move's directory
	placeTold bool  // and knows it

	unsettled    bool          // the pending proposal is to be made again
	proposeAfter clock.Instant // after a refusal
}

func newPartition(m *Manager, key Key, log *storage.Log, settings config.Topic) *Partition {
	p := &Partition{key: key, topic: log.Topic(), m: m, log: log}
	p.reg = partition.Registration{Leader: -1, LeaderEpoch: -1, PartitionEpoch: -1}
	p.role.Init(m.rt, "replica.Partition.role")
	p.moves.Init(m.rt, "replica.Partition.moves")
	p.mu.Init(m.rt, "replica.Partition")
	p.Appended.Init(m.rt)
	p.Committed.Init(m.rt)
	p.settings.Init(m.rt, &settings)
	return p
}

// Key is the topic's id and the partition's index.
func (p *Partition) Key() Key { return p.key }

// Topic is the topic's name.
func (p *Partition) Topic() string { return p.topic }

// Log is the replica's log.
func (p *Partition) Log() *storage.Log { return p.log }

// Settings are the topic's settings.
func (p *Partition) Settings() *config.Topic { return p.settings.Load() }

// BytesAppended is a counter of appended bytes, for who waits for a certain number.
func (p *Partition) BytesAppended() int64 { return p.bytes.Load() }

func (p *Partition) String() string { return fmt.Sprintf("%s-%d", p.topic, p.key.Partition) }

// LeaderEpoch returns the epoch that this broker leads in. currentEpoch is what the client
// believes, -1 for nothing. The errors are ErrNotLeader, those of partition.CheckEpoch and
// storage.ErrOffline.
func (p *Partition) LeaderEpoch(currentEpoch int32) (int32, error) {
	if err := p.log.Err(); err != nil {
		return -1, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.leaderEpoch(currentEpoch)
}

func (p *Partition) leaderEpoch(currentEpoch int32) (int32, error) {
	if p.gone {
		return -1, fmt.Errorf("%s: %w", p, ErrUnknownPartition)
	}
	if err := partition.CheckEpoch(currentEpoch, p.reg.LeaderEpoch); err != nil {
		return -1, fmt.Errorf("%s: %w", p, err)
	}
	if p.leader == nil {
		return -1, fmt.Errorf("%s: %w: broker %d leads in epoch %d", p, ErrNotLeader, p.reg.Leader, p.reg.LeaderEpoch)
	}
	return p.leader.LeaderEpoch(), nil
}

// Leads reports whether this broker still leads in the epoch, and can serve.
func (p *Partition) Leads(epoch int32) bool {
	if p.log.Err() != nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.gone && p.leader != nil && p.leader.LeaderEpoch() == epoch
}

// BehindEpochStart reports that the high watermark has not reached the start of this
// leader's epoch: how much is committed is not known yet (KIP-207).
func (p *Partition) BehindEpochStart() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.leader != nil && p.leader.HighWatermark() < p.leader.EpochStart()
}

// Leader returns the broker that leads by the newest metadata, and the epoch.
func (p *Partition) Leader() (id, epoch int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reg.Leader, p.reg.LeaderEpoch
}

// Append writes validated batches as the leader. allISR asks that the in-sync set is large
// enough for acks=all (partition.ErrNotEnoughReplicas). The returned epoch is the one that
// the batches were written in.
func (p *Partition) Append(t *task.T, batches []byte, origin storage.Origin, allISR bool) (storage.AppendInfo, int32, error) {
	return p.AppendIn(t, -1, batches, origin, allISR)
}

// AppendIn is Append for one who must not write in another epoch than its own.
func (p *Partition) AppendIn(t *task.T, ownEpoch int32, batches []byte, origin storage.Origin, allISR bool) (storage.AppendInfo, int32, error) {
	p.mu.Lock()
	epoch, err := p.leaderEpoch(ownEpoch)
	if err == nil && allISR {
		err = p.leader.CheckMinInSync(p.minInSync())
	}
	p.mu.Unlock()
	if errors.Is(err, ErrNotLeader) {
		// A log that is damaged never led; its clients must hear of the damage.
		err = cmp.Or(p.log.Err(), err)
	}
	if err != nil {
		return storage.AppendInfo{}, -1, err
	}
	info, err := p.appendIn(t, epoch, batches, origin)
	return info, epoch, err
}

func (p *Partition) appendIn(t *task.T, epoch int32, batches []byte, origin storage.Origin) (storage.AppendInfo, error) {
	info, err := p.log.Append(t, epoch, batches, origin)
	if err != nil {
		return info, err
	}
	if !info.Duplicate {
		p.bytes.Add(int64(len(batches)))
	}
	if info.MustSync {
		p.syncSoon(t, info.LastOffset+1)
	}
	if !p.advance() {
		// Somebody else's append may have moved the high watermark past ours already, before our
		// bytes were counted: who waits for a number of them is to count again.
		p.m.purgatory.Check(&p.Appended)
	}
	return info, nil
}

func (p *Partition) minInSync() int { return int(p.Settings().MinInsyncReplicas) }

// everySync reports whether only what is synced counts (flush.messages=1).
func (p *Partition) everySync() bool { return p.Settings().FlushMessages == 1 }

// ownEnd is what the leader counts itself with in the high watermark.
func (p *Partition) ownEnd() int64 {
	if p.everySync() {
		return p.log.SyncedEnd()
	}
	return p.log.LogEndOffset()
}

// syncRest has the rest of a leader's log synced where nothing else counts: what it fetched when
// it followed, or took under other settings, and nobody may ask for again.
func (p *Partition) syncRest(t *task.T) {
	p.mu.Lock()
	leads := p.leader != nil
	p.mu.Unlock()
	if o := p.log.Offsets(); leads && p.everySync() && o.SyncedEnd < o.LogEnd {
		p.syncSoon(t, o.LogEnd)
	}
}

// advance moves the high watermark as far as it may and completes who waited for it.
func (p *Partition) advance() bool {
	p.mu.Lock()
	moved := false
	if p.leader != nil {
		var hw int64
		hw, moved = p.leader.AdvanceHighWatermark(p.ownEnd(), p.minInSync(), p.surroundings())
		if moved {
			p.log.SetHighWatermark(hw)
		}
	}
	p.mu.Unlock()
	if moved {
		p.check()
	}
	return moved
}

// standings are those of the brokers for this partition; mu is held, as long as they are used.
func (p *Partition) standings() *standings {
	p.brokers.image = p.m.image.Load()
	return &p.brokers
}

// surroundings are what the leader must know beside its own log. The clock is read only
// where it matters.
func (p *Partition) surroundings() partition.Surroundings {
	w := partition.Surroundings{Brokers: p.standings(), LagMax: p.m.isr.lagMax()}
	if !p.leader.Complete() {
		w.Now = p.m.rt.Now()
	}
	return w
}

func (p *Partition) check() {
	p.m.purgatory.Check(&p.Committed)
	p.m.purgatory.Check(&p.Appended)
}

// syncSoon has everything below offset synced by a task of its own, one for all who ask
// meanwhile. Who waits for it watches Committed.
func (p *Partition) syncSoon(t *task.T, offset int64) {
	now := t.Now()
	p.mu.Lock()
	p.wantSync = max(p.wantSync, offset)
	p.askers++
	p.asked = now
	begin := !p.syncing && !p.gone
	p.syncing = p.syncing || begin
	var wake *task.T
	if p.enough > 0 && p.askers >= p.enough {
		wake, p.enough = p.syncer, 0
	}
	p.mu.Unlock()
	if begin {
		p.m.group.Go("sync "+p.String(), p.sync)
	}
	if wake != nil {
		wake.Wake()
	}
}

// sync is the task that syncs until nobody wants more. A failed sync takes the log
// offline; those who wait see that.
func (p *Partition) sync(t *task.T) {
	for {
		p.mu.Lock()
		// What a truncation took since it was wanted is nobody's any more.
		p.wantSync = min(p.wantSync, p.log.LogEndOffset())
		want, served := p.wantSync, p.askers
		p.askers = 0
		if want <= p.log.SyncedEnd() || p.gone {
			p.syncing = false
			p.mu.Unlock()
			p.synced() // maybe by somebody else, who tells nobody: a roll, a flush
			return
		}
		p.mu.Unlock()
		began := t.Now()
		if err := p.log.SyncTo(t, want); err != nil {
			p.mu.Lock()
			p.syncing = false
			p.mu.Unlock()
			p.check()
			return
		}
		took := t.Now().Sub(began)
		p.mu.Lock()
		waiting, back := p.askers, p.asked.Sub(began)
		p.mu.Unlock()
		p.synced()
		producers, patience := group(served, waiting, took, back)
		p.gather(t, producers, min(patience, gatherMax))
	}
}

// synced tells who waits that more is durable.
func (p *Partition) synced() {
	if !p.advance() {
		p.check() // followers read up to the synced end
	}
}

// gatherMax bounds how long a sync waits for more appends.
const gatherMax = 5 * time.Millisecond

// group decides for how many producers the next sync waits, and how long at most. The last
// one served some of them and took its time; others came meanwhile, the last of them after
// back, and wait now.
//
// If everybody can be back before another sync would be over, one sync for all is the
// faster way: two halves that take turns would each wait for a sync that the other cannot
// share. On a disk that is faster than that, halves are better, for one half is served
// while the other is synced: then patience shrinks with how many wait, so that neither the
// disk nor the processors are idle for the few who would make the group as large as the
// last one.
func group(served, waiting int, took, back time.Duration) (producers int, patience time.Duration) {
	if waiting == 0 || served == 0 { // served is 0 where a truncation undid what was synced
		return served, took
	}
	if all := served + waiting; back*time.Duration(all) < took*time.Duration(waiting) {
		return all, took
	}
	return served, took * time.Duration(max(served-waiting, 0)) / time.Duration(served)
}

// gather waits until so many producers want a sync, for at most the patience. A lone
// producer never waits.
func (p *Partition) gather(t *task.T, producers int, patience time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if producers < 2 || p.askers >= producers || p.gone {
		return
	}
	p.enough, p.syncer = producers, t
	for until := t.Now().Add(patience); p.enough > 0; {
		p.mu.Unlock()
		r := t.Park(until)
		p.mu.Lock()
		if r != task.Woken {
			break
		}
	}
	p.enough = 0
}

// Synced reports whether everything below offset is durable.
func (p *Partition) Synced(offset int64) bool { return p.log.SyncedEnd() >= offset }

// CommittedTo answers for an acks=all append of the epoch that ends at required: not yet,
// committed (nil), or why it never will be.
func (p *Partition) CommittedTo(required int64, epoch int32) (done bool, err error) {
	if err := p.log.Err(); err != nil {
		return true, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if now, err := p.leaderEpoch(-1); err != nil {
		return true, err
	} else if now != epoch {
		return true, fmt.Errorf("%s: %w: appended in epoch %d, now leading in %d", p, ErrNotLeader, epoch, now)
	}
	return p.leader.CommittedAndEnough(required, p.minInSync())
}

// lead takes the leadership that the metadata gives, or keeps it with new replicas. What a
// fetcher was appending is in the log before the epoch begins, and nothing comes after.
func (p *Partition) lead(t *task.T, reg partition.Registration) error {
	p.role.Enter(t)
	defer p.role.Leave(t)
	p.mu.Lock()
	if p.leader != nil && p.leader.LeaderEpoch() == reg.LeaderEpoch {
		before := p.leader.Registration()
		updated := p.leader.Update(reg, t.Now())
		if updated {
			p.reg = reg
		}
		p.mu.Unlock()
		if updated {
			p.tellISR(before, reg)
			p.advance()
			p.m.purgatory.Check(&p.Committed)
		}
		return nil
	}
	old := p.reg
	p.mu.Unlock()
	if reg.LeaderEpoch < old.LeaderEpoch {
		return nil
	}
	start, err := p.log.AssignEpochStart(t, reg.LeaderEpoch)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.leader = partition.NewLeader(p.m.self, reg, start, p.log.HighWatermark(), t.Now())
	p.reg = reg
	p.mu.Unlock()
	p.m.emit(event.LeaderBegan{Topic: p.topic, Partition: p.key.Partition, LeaderEpoch: reg.LeaderEpoch, Offset: start})
	p.syncRest(t)
	p.advance()
	p.check()
	if reg.Recovering {
		p.m.isr.ask(p)
	}
	return nil
}

// follow gives the leadership up: another broker leads, or none. Whoever waits is answered at
// once; appends under way end before anything is fetched.
func (p *Partition) follow(t *task.T, reg partition.Registration) {
	p.role.Enter(t)
	defer p.role.Leave(t)
	p.mu.Lock()
	if reg.LeaderEpoch < p.reg.LeaderEpoch {
		p.mu.Unlock()
		return
	}
	began := reg.LeaderEpoch > p.reg.LeaderEpoch
	led := p.leader != nil
	p.leader, p.reg = nil, reg
	p.mu.Unlock()
	p.check()
	if led {
		p.log.Fence(t, reg.LeaderEpoch)
	}
	if began {
		o := p.log.Offsets()
		p.m.emit(FollowerBegan{Topic: p.topic, Partition: p.key.Partition, Leader: reg.Leader, LeaderEpoch: reg.LeaderEpoch,
			Offset: o.LogEnd, Epoch: int64(o.LatestEpoch)})
	}
}

// close ends the replica; whoever waits gets an error. It returns the move that is under way.
func (p *Partition) close() *move {
	p.mu.Lock()
	p.gone, p.leader = true, nil
	x := p.move
	p.mu.Unlock()
	p.check()
	return x
}

// ByName orders partitions by topic name and index.
func ByName(a, b *Partition) int {
	return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.key.Partition, b.key.Partition))
}
