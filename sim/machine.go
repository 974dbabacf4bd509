package sim

import (
	"errors"
	"math/rand/v2"
	"time"

	"seedlog/clock/task"
	"seedlog/node"
	"seedlog/node/config"
	"seedlog/node/quorum"
	"seedlog/sim/sched"
	"seedlog/sim/simdisk"
	"seedlog/sim/simnet"
)

// Machine is a disk, a clock and a name, and at most one running incarnation.
type Machine struct {
	Name string
	Disk *simdisk.Disk

	world  *World
	number int
	clock  sched.ClockParams
	jumped int64 // milliseconds, both ways
	inc    *Incarnation
	// Boots counts incarnations.
	Boots int

	stopAsked bool // of the newest incarnation
}

// Incarnation is one process of a machine.
type Incarnation struct {
	Machine *Machine
	Node    *node.Node
	rt      *sched.Runtime
	mount   *simdisk.Mount
	iface   *simnet.Iface
	group   *task.Group
	ended   bool
	err     error
	paused  bool
	// stopping: it was asked to stop cleanly.
	stopping bool
}

// AddMachine adds a machine with an empty disk.
func (w *World) AddMachine(name string, dc simdisk.Config, cp sched.ClockParams) *Machine {
	m := &Machine{Name: name, world: w, number: len(w.machines), clock: cp}
	dc.Trace, dc.ID = w.Trace, uint64(m.number)
	dc.Rand = func(stream string) *rand.Rand { return w.Sched.Stream(name + "/disk/" + stream) }
	m.Disk = simdisk.New(dc)
	w.machines = append(w.machines, m)
	return m
}

// Incarnation is the running process, or nil.
func (m *Machine) Incarnation() *Incarnation { return m.inc }

// Up reports whether a process runs that has not ended by itself.
func (m *Machine) Up() bool { return m.inc != nil && !m.inc.ended }

// Ready reports whether the process serves clients.
func (m *Machine) Ready() bool { return m.Up() && m.inc.Node.Ready().IsSet() }

// Addr is where the broker listens.
func (m *Machine) Addr() string { return m.Name + ":9092" }

// Boot starts a process on the machine. The previous one must have ended.
func (m *Machine) Boot(cfg *config.Config) *Incarnation {
	if m.inc != nil {
		panic("sim: " + m.Name + " boots while a process runs")
	}
	w := m.world
	m.Boots++
	m.stopAsked = false
	rt := w.Sched.NewRuntime(m.Name, m.clock)
	inc := &Incarnation{Machine: m, rt: rt, mount: m.Disk.Mount(rt), iface: w.Net.Attach(rt)}
	m.inc = inc
	inc.group = task.NewGroup(rt, m.Name)
	inc.Node = node.New(node.Host{
		RT: rt, Disk: inc.mount, Net: inc.iface, Rand: rt.Rand, Entropy: rt.Entropy("ids"),
		Events: sink{m, rt.Dead}, Format: true,
	}, *cfg)
	inc.group.Go("node", func(t *task.T) {
		err := inc.Node.Run(t)
		if !rt.Dead() {
			inc.ended, inc.err = true, err
		}
	})
	return inc
}

// Format formats the machine's directories, as an operator does before the first start.
func (m *Machine) Format(spec quorum.FormatSpec) (err error) {
	ended := false
	m.StartFormat(spec, func(e error) { ended, err = true, e })
	if !m.world.Run(func() bool { return ended }, time.Minute) && err == nil {
		err = errors.New("sim: formatting does not end")
	}
	return err
}

// StartFormat begins to format the machine's directories; done is told of the end.
func (m *Machine) StartFormat(spec quorum.FormatSpec, done func(err error)) {
	w := m.world
	rt := w.Sched.NewRuntime(m.Name, m.clock)
	mount := m.Disk.Mount(rt)
	spec.Entropy = rt.Entropy("format")
	task.NewGroup(rt, m.Name+"/format").Go("format", func(t *task.T) {
		spec.UnixMilli = t.UnixMilli()
		_, err := quorum.Format(t, mount, spec)
		w.Sched.At(w.Now(), func() {
			mount.Kill()
			rt.Kill()
			done(err)
		})
	})
}

// Ended reports whether the process ended by itself, and with what.
func (i *Incarnation) Ended() (bool, error) { return i.ended, i.err }

// Tasks is the number of tasks of the process that have not ended.
func (i *Incarnation) Tasks() int { return i.rt.Tasks() }

// OpenFiles lists what the process has open.
func (i *Incarnation) OpenFiles() []string { return i.mount.OpenFiles() }

// OpenNow lists what the process has open by the names that the files have now.
func (i *Incarnation) OpenNow() []string { return i.mount.OpenNow() }

// Kill ends the process as kill -9 does: what it wrote stays.
func (m *Machine) Kill() { m.end(false) }

// PowerLoss ends the process and loses, by draws, what was not synced.
func (m *Machine) PowerLoss() { m.end(true) }

func (m *Machine) end(power bool) {
	inc := m.inc
	m.inc = nil
	// Disk and network first: killed from one of its own tasks, a runtime does not return.
	if power {
		m.Disk.PowerLoss()
	} else {
		m.Disk.Kill()
	}
	if inc != nil {
		m.clock = inc.rt.Clock()
		inc.iface.Kill(power)
		inc.rt.Kill()
	}
}

// Stop asks the process to stop cleanly; Ended tells when it has.
func (m *Machine) Stop() {
	if m.Up() {
		m.inc.stopping = true
		m.stopAsked = true
		m.inc.Node.Stop()
	}
}

// Stopping reports whether the process was asked to stop and has not ended.
func (m *Machine) Stopping() bool { return m.Up() && m.inc.stopping }

// Connections is how many connections the process has, or has still to accept.
func (m *Machine) Connections() int {
	if m.inc == nil {
		return 0
	}
	return m.inc.iface.Connections()
}

// ConnectionsFrom is how many of them were made by machines that match chooses.
func (m *Machine) ConnectionsFrom(match func(machine string) bool) int {
	if m.inc == nil {
		return 0
	}
	return m.inc.iface.From(match)
}

// FrameBytes is the memory that the process holds for requests.
func (m *Machine) FrameBytes() int64 {
	if m.inc == nil {
		return 0
	}
	return m.inc.Node.FrameBytes()
}

// StopAsked reports whether the newest incarnation was asked to stop.
func (m *Machine) StopAsked() bool { return m.stopAsked }

// Reap takes away a process that ended by itself, with everything that it left behind.
func (m *Machine) Reap() {
	if m.inc != nil && m.inc.ended {
		m.end(false)
	}
}

// Pause stops the process where it is, as SIGSTOP does.
func (m *Machine) Pause() {
	if m.Up() && !m.inc.paused {
		m.inc.paused = true
		m.inc.rt.Pause()
	}
}

// Resume lets a paused process go on.
func (m *Machine) Resume() {
	if m.inc != nil && m.inc.paused {
		m.inc.paused = false
		m.inc.rt.Resume()
	}
}

// Jump moves the machine's wall clock by milliseconds.
func (m *Machine) Jump(ms int64) {
	m.jumped += max(ms, -ms)
	if m.Up() {
		m.inc.rt.Jump(ms)
	} else {
		m.clock.SkewMs += ms
	}
}

// JumpedMs is the sum of all jumps of the wall clock, both ways.
func (m *Machine) JumpedMs() int64 { return m.jumped }
