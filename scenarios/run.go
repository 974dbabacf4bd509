package scenarios

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"seedlog/checker"
	"seedlog/clock/task"
	"seedlog/node/config"
	"seedlog/node/event"
	"seedlog/scenarios/client"
	"seedlog/sim"
	"seedlog/sim/sched"
	"seedlog/sim/simdisk"
	"seedlog/sim/simnet"
	"seedlog/sim/trace"
)

// Swarm is the name of the scenario that draws everything.
const Swarm = "swarm"

// Scenario is one story.
type Scenario struct {
	Name string
	// Doc says in a line what it shows, with the section or KIP it stands for.
	Doc string
	Run func(r *Run)
}

// All lists the scenarios, the swarm first.
func All() []Scenario {
	return append([]Scenario{
		{Swarm, "everything is drawn: knobs, workload, faults", swarm},
		{Cluster, "everything is drawn, of a cluster of three to seven nodes", clusterSwarm},
		{ClusterOfThree, "the same of three nodes", clusterOfThree},
		{ClusterOfOne, "the same of a cluster that has one node", clusterOfOne},
	}, named...)
}

// Find returns the scenario of a name; the empty name is the swarm's.
func Find(name string) (Scenario, error) {
	if name == "" {
		name = Swarm
	}
	for _, s := range All() {
		if s.Name == name {
			return s, nil
		}
	}
	var names []string
	for _, s := range All() {
		names = append(names, s.Name)
	}
	return Scenario{}, fmt.Errorf("no scenario %q: there are %v", name, names)
}

// Run is one run while it goes on.
type Run struct {
	World *sim.World
	// Brokers are the machines that nodes run on; Broker is the first.
	Brokers []*sim.Machine
	Broker  *sim.Machine
	Rec     *client.Recorder
	Config  *config.Config
	Topics  []*client.Topic
	Ops     int

	opts  Options
	props map[string]string
	draw  string
	// topicText is what was drawn for each topic.
	topicText []string
	verdict   checker.Verdict
	servers   []*server
	cluster   *clusterRun // nil for a lone broker
	found     bool        // by a check while it goes on
	guard     *guard      // of the first server
	faults    []FaultCount
	clients   int
	stopped   bool
	dead      map[int]bool
	// interval is index.interval.bytes of each topic that was created with it.
	interval map[string]int64
	// segment is segment.bytes of each topic that was created with it.
	segment map[string]int64
	// prompt says that nothing in the run makes anybody wait for long.
	prompt bool
	// onEvent, if it is set, is a story's.
	onEvent func(s *server, e event.Event)
}

// Execute runs one scenario under one seed.
func Execute(o Options) (*Result, error) {
	s, err := Find(o.Scenario)
	if err != nil {
		return nil, err
	}
	if o.Ops == 0 {
		o.Ops = 500
	}
	began := time.Now()
	r := &Run{opts: o, Ops: o.Ops, Rec: client.NewRecorder(), dead: make(map[int]bool), props: make(map[string]string), interval: make(map[string]int64), segment: make(map[string]int64)}
	draw := sched.Stream(o.Seed, "scenario")
	sc, nc := sched.DrawConfig(draw), simnet.DrawConfig(draw)
	switch s.Name {
	case Swarm, Cluster, ClusterOfThree, ClusterOfOne:
	default:
		sc, nc = sched.Calm(), simnet.Calm()
	}
	if o.Log == nil {
		o.Log = new(trace.Log)
		o.Log.Keep(40)
	}
	r.World = sim.New(o.Seed, sc, nc, o.Log)
	defer r.World.Close()
	r.draw = fmt.Sprintf("%v; %v", sc, nc)
	r.prompt = sc.HoldEvery == 0 || sc.HoldMaxNs <= int64(100*time.Millisecond)
	r.World.OnEvent(r.saw)
	r.Rec.Holds = r.holds
	s.Run(r)
	return r.result(s.Name, began), nil
}

func (r *Run) result(name string, began time.Time) *Result {
	res := &Result{
		Seed: r.opts.Seed, Scenario: name, Draw: r.draw, Events: r.World.Trace.Count(), Sim: time.Duration(r.World.Now()),
		Ops: r.Rec.Ops(), Trace: r.World.Trace.Hash(), Faults: r.faultCounts(), Probes: r.World.Probes(),
		Verdict: r.verdict, Failure: r.World.Failure(), Wall: time.Since(began),
	}
	if !res.OK() {
		res.Tail = r.World.Trace.Tail(40)
	}
	return res
}

// saw watches the node's events.
func (r *Run) saw(m *sim.Machine, e event.Event) {
	if s := r.server(m); s != nil {
		s.saw(e)
		if r.onEvent != nil {
			r.onEvent(s, e)
		}
	}
}

// Rand is a stream of the run.
func (r *Run) Rand(name string) *rand.Rand { return r.World.Sched.Stream(name) }

// Failf notes a broken invariant.
func (r *Run) Failf(invariant, where, format string, args ...any) {
	r.verdict.Failf(invariant, where, format, args...)
}

// over reports that there is no point in going on.
func (r *Run) over() bool { return r.World.Failure() != nil || r.Rec.Failed() || r.found }

// Set sets a broker property before Boot.
func (r *Run) Set(name, value string) { r.props[name] = value }

// diskBytes is how large a broker's disk is.
const diskBytes = 1 << 30

// AddBroker adds the machine that a lone broker runs on.
func (r *Run) AddBroker(dc simdisk.Config, cp sched.ClockParams) {
	s := r.addServer("broker", dc, cp)
	r.Broker, r.guard = s.Machine, s.guard
}

// Boot starts every node that is down.
func (r *Run) Boot() bool {
	for _, s := range r.servers {
		if s.Incarnation() == nil && !s.gone && !s.boot() {
			return false
		}
	}
	return true
}

// Env is a new client's surroundings, and the group of its tasks.
func (r *Run) Env(timeout time.Duration) (client.Env, *task.Group) {
	r.clients++
	name := fmt.Sprintf("client%d", r.clients)
	group, iface := r.World.Client(name)
	e := client.Env{
		Net: iface, Addr: r.servers[0].Addr(), Rand: r.Rand(name), Rec: r.Rec, ID: r.clients, Name: name, RequestTimeout: timeout,
		GiveUp: func(p int) bool { return r.dead[p] },
		Enough: func() bool { return r.stopped },
		Prompt: func() bool { return r.prompt },
	}
	if r.cluster != nil {
		e.Routes = r.cluster.routes()
	}
	return e, group
}

// Do runs fn as a client's task to its end, and reports whether it got there in time.
func (r *Run) Do(name string, limit time.Duration, fn func(t *task.T, e *client.Env)) bool {
	e, group := r.Env(5 * time.Second)
	done := false
	group.Go(name, func(t *task.T) {
		fn(t, &e)
		done = true
	})
	if r.World.Run(func() bool { return done }, limit) {
		return true
	}
	if r.World.Failure() == nil {
		r.Failf("liveness", name, "did not end within %v", limit)
		r.fates()
		r.Failf("liveness", "tasks", "\n%s", r.World.Sched.Dump())
	}
	return false
}

// CreateTopic makes a topic, to be used by workloads.
func (r *Run) CreateTopic(topic *client.Topic, configs [][2]string) bool {
	var err error
	ok := r.Do("create "+topic.Name, 5*time.Minute, func(t *task.T, e *client.Env) { err = client.Create(t, e, topic, configs) })
	if err != nil {
		r.Failf("scenario", topic.Name, "%v", err)
	}
	if ok && err == nil {
		r.Topics = append(r.Topics, topic)
		r.interval[topic.Name] = 4096
		for _, kv := range configs {
			if kv[0] == "index.interval.bytes" {
				r.interval[topic.Name], _ = strconv.ParseInt(kv[1], 10, 64)
			}
			if kv[0] == "internal.segment.bytes" {
				r.segment[topic.Name], _ = strconv.ParseInt(kv[1], 10, 64)
			}
		}
		if r.cluster != nil {
			r.cluster.made(topic)
		}
	}
	return ok && err == nil
}

// count adds to a fault's count.
func (r *Run) count(name string, effective bool) {
	i := slices.IndexFunc(r.faults, func(f FaultCount) bool { return f.Name == name })
	if i < 0 {
		r.faults = append(r.faults, FaultCount{Name: name, Enabled: true})
		i = len(r.faults) - 1
	}
	r.faults[i].Fired++
	if effective {
		r.faults[i].Effective++
	}
}

// enable notes that a fault is part of the run, whether it fires or not.
func (r *Run) enable(name string) {
	if !slices.ContainsFunc(r.faults, func(f FaultCount) bool { return f.Name == name }) {
		r.faults = append(r.faults, FaultCount{Name: name, Enabled: true})
	}
}

// planned are the faults of the network that the plan does, under the plan's names.
var planned = map[simnet.Fault]string{
	simnet.Partition: "partition", simnet.Clog: "clog", simnet.HalfOpen: "half-open", simnet.Stall: "stalled-reader",
}

// faultCounts joins the run's own counts with those of disk and network, which know best
// whether somebody noticed. A range that is bound once more at its delivery is no fault here:
// nothing truncates a single copy while it serves.
func (r *Run) faultCounts() []FaultCount {
	out := slices.Clone(r.faults)
	add := func(name string, fired, effective int64) {
		i := slices.IndexFunc(out, func(f FaultCount) bool { return f.Name == name })
		if i < 0 && fired > 0 {
			i = len(out)
			out = append(out, FaultCount{Name: name, Enabled: true})
		}
		if i >= 0 {
			out[i].Fired, out[i].Effective = fired, effective
		}
	}
	for _, f := range simdisk.AllFaults() {
		switch f {
		case simdisk.PowerLost, simdisk.NoSpace, simdisk.ReadOnly, simdisk.Wiped:
		default:
			var sum simdisk.Counter
			for _, s := range r.servers {
				c := s.Disk.Count(f)
				sum.Fired, sum.Effective = sum.Fired+c.Fired, sum.Effective+c.Effective
			}
			add("disk:"+f.String(), sum.Fired, sum.Effective)
		}
	}
	for _, f := range simnet.Faults() {
		c := r.World.Net.Count(f)
		if name, ok := planned[f]; ok {
			add(name, c.Fired, c.Effective)
		} else if f != simnet.Rebind {
			add("net:"+strings.TrimPrefix(f.String(), "net-"), c.Fired, c.Effective)
		}
	}
	return out
}
