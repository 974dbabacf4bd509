package sim

import (
	"time"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/node/event"
	"seedlog/sim/sched"
	"seedlog/sim/simnet"
	"seedlog/sim/trace"
)

// World is one simulated run's surroundings.
type World struct {
	Seed  uint64
	Sched *sched.Scheduler
	Net   *simnet.Net
	Trace *trace.Log

	machines []*Machine
	clients  int
	probes   map[string]int64
	onEvent  []func(m *Machine, e event.Event)
	fields   event.Fields
}

// New returns an empty world. log may be set to keep or to write events.
func New(seed uint64, sc sched.Config, nc simnet.Config, log *trace.Log) *World {
	if log == nil {
		log = new(trace.Log)
	}
	s := sched.New(seed, sc, log)
	return &World{Seed: seed, Sched: s, Net: simnet.New(s, nc), Trace: log, probes: make(map[string]int64)}
}

// Close ends the world; nothing of it is left running.
func (w *World) Close() { w.Sched.Close() }

// Now is the simulated time.
func (w *World) Now() clock.Instant { return w.Sched.Now() }

// Run runs until the condition holds, or the simulated duration passes. It reports whether
// the condition was met.
func (w *World) Run(until func() bool, limit time.Duration) bool {
	return w.Sched.Run(until, w.Now().Add(limit)) == sched.Met
}

// Failure is what ended the run from inside, or nil.
func (w *World) Failure() *sched.Failure { return w.Sched.Failure() }

// Client returns a group for a client's tasks and its network, on a machine of its own.
func (w *World) Client(name string) (*task.Group, *simnet.Iface) {
	w.clients++
	rt := w.Sched.NewRuntime(name, sched.ClockParams{})
	return task.NewGroup(rt, name), w.Net.Attach(rt)
}

// Probe counts that a place was reached: an event of the node, or anything worth asking for.
func (w *World) Probe(name string) { w.probes[name]++ }

// Probes is how often each was reached.
func (w *World) Probes() map[string]int64 { return w.probes }

// OnEvent calls fn for every event of every node, as it happens.
func (w *World) OnEvent(fn func(m *Machine, e event.Event)) { w.onEvent = append(w.onEvent, fn) }

// Phase notes the beginning of a part of the run in the trace.
func (w *World) Phase(name string) { w.Trace.AddString(trace.PhaseStart, 0, name) }

// Machines lists the machines in the order they were added.
func (w *World) Machines() []*Machine { return w.machines }

// sink turns a node's events into trace and probes.
type sink struct {
	m    *Machine
	dead func() bool
}

// Emit implements event.Sink.
func (s sink) Emit(e event.Event) {
	if s.dead() {
		return
	}
	w := s.m.world
	w.probes[e.Name()]++
	w.Trace.AddString(trace.NodeEvent, uint64(s.m.number), e.Name())
	w.fields.List = w.fields.List[:0]
	e.Fields(&w.fields)
	for _, f := range w.fields.List {
		if f.IsNum {
			w.Trace.Add(trace.NodeField, uint64(s.m.number), uint64(f.Num), 0)
		} else {
			w.Trace.AddString(trace.NodeField, uint64(s.m.number), f.Text)
		}
	}
	for _, fn := range w.onEvent {
		fn(s.m, e)
	}
}
