package scenarios

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"seedlog/clock/task"
	"seedlog/node/meta"
	"seedlog/scenarios/client"
)

// Workload is the clients of a run.
type Workload struct {
	text    []string
	starts  []func()
	running atomic.Int64
}

// Surroundings makes those of a client, with the group of its tasks.
type Surroundings func(timeout time.Duration) (client.Env, *task.Group)

// DrawWorkload draws producers, consumers, group members, administrators and rude clients over the topics.
func DrawWorkload(rng *rand.Rand, topics []*client.Topic, env Surroundings) *Workload {
	return drawWorkload(rng, topics, env, func(*client.Producer) {})
}

// DrawDurableWorkload is DrawWorkload with producers that wait for every replica in sync, and
// whose repeats are recognized: nothing that they are told may be lost or doubled.
func DrawDurableWorkload(rng *rand.Rand, topics []*client.Topic, env Surroundings) *Workload {
	return drawWorkload(rng, topics, env, func(p *client.Producer) { p.Acks, p.Idempotent = -1, true })
}

func drawWorkload(rng *rand.Rand, topics []*client.Topic, env Surroundings, also func(*client.Producer)) *Workload {
	w := &Workload{}
	// Some clients rest between operations, so that time passes for faults and time-outs.
	unpaced := env
	env = func(timeout time.Duration) (client.Env, *task.Group) {
		e, group := unpaced(timeout)
		if e.Pace == 0 && rng.IntN(4) > 0 {
			e.Pace = drawn(rng, time.Millisecond, 300*time.Millisecond)
		}
		return e, group
	}
	timeout := func() time.Duration { return drawn(rng, 300*time.Millisecond, 10*time.Second) }
	for range 1 + rng.IntN(4) {
		e, group := env(timeout())
		p := &client.Producer{
			Env: e, Topics: topics, Version: int16(3 + rng.IntN(11)), Acks: -1, Idempotent: rng.IntN(3) > 0,
			Codec: client.Codec(rng.IntN(5)), Budget: 1 << 30, MaxRecords: 1 + rng.IntN(8), MaxValue: int(drawn[int64](rng, 1, 2000)), Depth: 1 + rng.IntN(5),
		}
		if !p.Idempotent {
			p.Acks = int16(rng.IntN(3) - 1)
		}
		if p.Codec == client.Zstd {
			p.Version = max(p.Version, 7)
		}
		also(p)
		w.add(group, fmt.Sprintf("producer v%d acks=%d idempotent=%v codec=%d depth=%d", p.Version, p.Acks, p.Idempotent, p.Codec, p.Depth), p.Run)
	}
	for range 1 + rng.IntN(3) {
		e, group := env(timeout())
		c := &client.Consumer{
			Env: e, Topics: topics, Version: int16(4 + rng.IntN(15)), MaxWait: drawn(rng, time.Millisecond, 2*time.Second),
			MinBytes: int32(drawn[int64](rng, 1, 5000)), MaxBytes: int32(drawn[int64](rng, 100, 1<<20)), SeekOdds: rng.IntN(40), Polls: 1 << 30,
			Think: drawn(rng, time.Millisecond, time.Second),
		}
		w.add(group, fmt.Sprintf("consumer v%d", c.Version), c.Run)
	}
	if rng.IntN(2) == 0 {
		session := drawn(rng, 400*time.Millisecond, 10*time.Second)
		for i := range 1 + rng.IntN(3) {
			e, group := env(timeout())
			m := &client.Member{Env: e, Group: "g", Topics: topics, SessionTimeout: session, Commits: 1 << 30, LeaveOdds: 3 + rng.IntN(20)}
			if rng.IntN(3) == 0 {
				m.InstanceID = fmt.Sprintf("static%d", i)
			}
			w.add(group, "member", m.Run)
		}
	}
	if rng.IntN(2) == 0 {
		e, group := env(timeout())
		c := &client.Churner{Env: e, Names: []string{"churn0", "churn1"}, Ops: 5 + rng.IntN(30)}
		w.add(group, "churner", c.Run)
	}
	if rng.IntN(3) == 0 {
		e, group := env(timeout())
		c := &client.Trimmer{Env: e, Topics: topics, Ops: 1 + rng.IntN(15)}
		w.add(group, "trimmer", c.Run)
	}
	if rng.IntN(4) == 0 {
		e, group := env(timeout())
		c := &client.Rude{Env: e, Topics: topics, Ops: 1 + rng.IntN(30)}
		w.add(group, "rude", c.Run)
	}
	return w
}

func (w *Workload) add(group *task.Group, text string, run func(t *task.T)) {
	w.text = append(w.text, text)
	w.running.Add(1)
	w.starts = append(w.starts, func() {
		group.Go(strings.Fields(text)[0], func(t *task.T) {
			run(t)
			w.running.Add(-1)
		})
	})
}

// Start starts every client.
func (w *Workload) Start() {
	for _, fn := range w.starts {
		fn()
	}
}

// Done reports that every client came to its end.
func (w *Workload) Done() bool { return w.running.Load() == 0 }

func (w *Workload) String() string { return strings.Join(w.text, ", ") }

// DrawClusterWorkload draws clients of a cluster: those of a lone broker, each somewhere in a
// rack, and an operator.
func DrawClusterWorkload(rng *rand.Rand, r *Run) *Workload {
	w := DrawWorkload(rng, r.Topics, r.Env)
	if rng.IntN(3) > 0 || r.cluster.voting != fixedVoters {
		e, group := r.Env(5 * time.Second)
		o := &client.Operator{Env: e, Topics: r.Topics, Ops: 5 + rng.IntN(30), Pace: drawn(rng, 100*time.Millisecond, 4*time.Second)}
		for _, s := range r.servers {
			o.Brokers = append(o.Brokers, s.id)
			if r.cluster.voting != fixedVoters && (s.voter || r.cluster.voting == changingVoters) {
				o.Voters = append(o.Voters, client.Candidate{ID: s.id, Host: s.Name, Port: 9093, Directory: func() ([16]byte, bool) { return s.directory(s.guard.LogDirs[0]) }})
			}
		}
		o.Shrink = r.cluster.voting == changingVoters
		o.Features = r.cluster.features
		o.Did, o.Voted = r.count, r.cluster.ghost.voted
		w.add(group, "operator", o.Run)
	}
	r.drawDirMoves(w)
	r.drawUpgrader(w)
	r.drawRaise(w)
	return w
}

// drawRaise has kraft.version raised in half of the clusters whose voters are configured. It
// draws from a stream of its own, so that runs without it are as they were.
func (r *Run) drawRaise(w *Workload) {
	rng := r.Rand("raise")
	if r.cluster.dynamic || rng.IntN(2) == 0 {
		return
	}
	e, group := r.Env(5 * time.Second)
	o := &client.Operator{Env: e, Features: []client.Feature{{Name: meta.KRaftVersionFeature, Min: 1, Max: 1}}, FeaturesOnly: true,
		Ops: 1 + rng.IntN(8), Pace: drawn(rng, 200*time.Millisecond, 10*time.Second), Did: r.count}
	w.add(group, "raiser", o.Run)
}

// drawUpgrader has the levels of features raised and lowered, where the builds differ.
func (r *Run) drawUpgrader(w *Workload) {
	if !r.cluster.mixed {
		return
	}
	rng := r.Rand("upgrader's work")
	e, group := r.Env(5 * time.Second)
	o := &client.Operator{Env: e, Features: r.cluster.features, FeaturesOnly: true, Ops: 5 + rng.IntN(20), Pace: drawn(rng, 200*time.Millisecond, 3*time.Second), Did: r.count}
	w.add(group, "upgrader", o.Run)
}

// drawDirMoves has replicas moved between directories, where the brokers have several. It draws
// from a stream of its own, so that runs without it are as they were.
func (r *Run) drawDirMoves(w *Workload) {
	rng, dirs := r.Rand("directory moves"), r.servers[0].guard.LogDirs
	if len(dirs) < 2 || rng.IntN(2) == 0 {
		return
	}
	e, group := r.Env(5 * time.Second)
	m := &client.DirMover{Env: e, Topics: r.Topics, Dirs: dirs, Ops: 10 + rng.IntN(60), Pace: drawn(rng, 50*time.Millisecond, 2*time.Second), Did: r.count}
	for _, s := range r.servers {
		m.Brokers = append(m.Brokers, s.Addr())
	}
	w.add(group, "directory-mover", m.Run)
}
