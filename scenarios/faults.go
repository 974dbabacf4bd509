package scenarios

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"seedlog/sim/simdisk"
)

// plan is the faults of a run: a drawn subset, each with its own stream, so that switching
// one off shifts nothing else. The fault budget of a single machine is simple: it promises
// to lose nothing to a kill, and to a power loss nothing that it acknowledged as synced;
// the guard tells the history what a power loss took. That of a cluster is the [ledger]'s.
//
// The budget of a run thins out: each fault of a kind makes the next one a little less likely,
// so that whatever was drawn the workload comes to an end, and a run is not a long series of
// restarts.
type plan struct {
	r       *Run
	classes []*class
	rates   []*rate
}

// class is one kind of fault with its mean interval.
type class struct {
	name string
	mean time.Duration
	rng  *rand.Rand
	// once makes it happen and reports whether it could have an effect.
	once func(rng *rand.Rand) (fired, effective bool)
	// always: it is part of every run that it may be part of.
	always bool
}

// rate is a kind of fault that strikes one call of the disk in so many.
type rate struct {
	fault simdisk.Fault
	every int64
	fired int64
}

// newPlan draws the subset and the rates.
func newPlan(r *Run, rng *rand.Rand) *plan {
	p := &plan{r: r}
	all := append(p.machineClasses(), r.moreClasses(p)...)
	for _, c := range all {
		on, mean := rng.IntN(3) == 0, drawn(rng, 300*time.Millisecond, 6*time.Second)
		if !on && !c.always {
			continue
		}
		c.mean, c.rng = mean, r.Rand("fault/"+c.name)
		p.classes = append(p.classes, c)
		r.enable(c.name)
	}
	p.drawDiskRates(rng)
	r.prompt = r.prompt && !p.has("pause")
	return p
}

// machineClasses are the faults that strike one machine and those who talk to it.
func (p *plan) machineClasses() []*class {
	r := p.r
	return []*class{
		{name: "kill", once: p.kill},
		{name: "power-loss", once: p.powerLoss},
		{name: "kill-in-recovery", once: p.killInRecovery},
		{name: "clean-restart", once: p.cleanRestart},
		{name: "pause", once: p.pause},
		{name: "clock-jump", once: p.clockJump},
		{name: "disk-full", once: p.diskFull},
		{name: "read-only", once: p.readOnly},
		{name: "partition", once: p.partition},
		{name: "clog", once: p.clog},
		{name: "reset", once: func(*rand.Rand) (bool, bool) { ok := r.World.Net.ResetOne(); return ok, ok }},
		{name: "half-open", once: func(*rand.Rand) (bool, bool) { ok := r.World.Net.HalfOpenOne(); return ok, ok }},
		{name: "stalled-reader", once: func(rng *rand.Rand) (bool, bool) {
			ok := r.World.Net.StallOne(drawn(rng, 100*time.Millisecond, 8*time.Second))
			return ok, ok
		}},
	}
}

// drawDiskRates switches on faults that strike calls of the disk. Write and sync errors take
// a directory offline until the operator restarts the node.
func (p *plan) drawDiskRates(rng *rand.Rand) {
	for _, f := range []simdisk.Fault{simdisk.ReadError, simdisk.WriteError, simdisk.SyncError, simdisk.SyncForgets, simdisk.CloseError, simdisk.WriteFull, simdisk.Slow, simdisk.Stalled} {
		on, every := rng.IntN(6) == 0, drawn[int64](rng, 20, 800)
		if on {
			p.rates = append(p.rates, &rate{fault: f, every: every})
			p.r.enable("disk:" + f.String())
			p.r.prompt = p.r.prompt && f != simdisk.Slow && f != simdisk.Stalled
		}
	}
}

// setRate leaves the metadata log alone: its errors end the process.
func (p *plan) setRate(x *rate) {
	for _, s := range p.r.servers {
		s.Disk.SetRate(x.fault, x.every, func(path string) bool { return !strings.Contains(path, metadataDir) })
	}
}

// thinOut makes faults of the disk rarer by an eighth for each that fired.
func (p *plan) thinOut() {
	for _, x := range p.rates {
		fired := int64(0)
		for _, s := range p.r.servers {
			fired += s.Disk.Count(x.fault).Fired
		}
		if fired == x.fired {
			continue
		}
		for ; x.fired < fired && x.every < maxEvery; x.fired++ {
			x.every += 1 + x.every/8
		}
		x.fired = fired
		p.setRate(x)
	}
}

// maxEvery is as rare as a fault gets.
const maxEvery = 1 << 20

func (p *plan) String() string {
	var s []string
	for _, x := range p.rates {
		s = append(s, fmt.Sprintf("disk:%v/%d", x.fault, x.every))
	}
	for _, c := range p.classes {
		s = append(s, fmt.Sprintf("%s/%v", c.name, c.mean.Round(100*time.Millisecond)))
	}
	return "faults " + strings.Join(s, " ")
}

// drawn is log-uniform between the bounds.
func drawn[N ~int64](rng *rand.Rand, lo, hi N) N {
	octaves := 0
	for lo<<octaves < hi {
		octaves++
	}
	v := lo << rng.IntN(octaves+1)
	if v >= hi {
		return hi
	}
	return v + N(rng.Int64N(int64(min(v, hi-v))+1))
}

// start schedules the faults until the run is stopped.
func (p *plan) start() {
	for _, x := range p.rates {
		p.setRate(x)
	}
	for _, c := range p.classes {
		p.schedule(c)
	}
	p.supervise()
}

func (p *plan) schedule(c *class) {
	p.after(drawn(c.rng, c.mean/8, c.mean*2), func() {
		fired, effective := c.once(c.rng)
		if fired {
			p.r.count(c.name, effective)
		}
		c.mean += c.mean / 8
		p.schedule(c)
	})
}

// after calls fn later, unless the run is stopped by then.
func (p *plan) after(d time.Duration, fn func()) {
	w := p.r.World
	w.Sched.At(w.Now().Add(d), func() {
		if !p.r.stopped {
			fn()
		}
	})
}

// supervise is the operator: it restarts a process that ended or lost a directory.
func (p *plan) supervise() {
	rng := p.r.Rand("operator")
	var look func()
	look = func() {
		p.thinOut()
		for _, s := range p.r.servers {
			p.look(s, rng)
		}
		p.after(500*time.Millisecond, look)
	}
	p.after(500*time.Millisecond, look)
}

// look restarts a server where an operator would.
func (p *plan) look(s *server, rng *rand.Rand) {
	inc := s.Incarnation()
	if inc == nil {
		return
	}
	if ended, err := inc.Ended(); ended {
		// What a clean stop says is durable must outlive a power loss right after it.
		power := err == nil && p.has("power-loss") && rng.IntN(2) == 0
		s.end(power)
		if err != nil {
			s.outdated()
		}
		p.bootIn(s, drawn(rng, 10*time.Millisecond, 2*time.Second))
	} else if s.offline && rng.IntN(3) == 0 {
		p.r.World.Probe("restart-after-offline")
		p.down(s, false)
	}
}

// pick draws a server.
func (p *plan) pick(rng *rand.Rand) *server {
	if len(p.r.servers) == 1 {
		return p.r.servers[0]
	}
	return p.r.servers[rng.IntN(len(p.r.servers))]
}

// has reports whether a class of faults is part of the run.
func (p *plan) has(name string) bool {
	return slices.ContainsFunc(p.classes, func(c *class) bool { return c.name == name })
}

// down ends the process and schedules its return.
func (p *plan) down(s *server, power bool) {
	s.end(power)
	p.bootIn(s, drawn(p.r.Rand(s.where(fmt.Sprintf("boot%d", s.Boots))), time.Millisecond, 3*time.Second))
}

func (p *plan) bootIn(s *server, d time.Duration) {
	if s.booting {
		return
	}
	s.booting = true
	p.after(d, func() {
		s.booting = false
		if s.Incarnation() == nil && !s.gone && !s.formatting {
			s.boot()
			s.watchReady()
		}
	})
}

func (p *plan) kill(rng *rand.Rand) (fired, effective bool) {
	s := p.pick(rng)
	if !s.Up() {
		return false, false
	}
	effective = s.Ready()
	p.down(s, false)
	return true, effective
}

func (p *plan) powerLoss(rng *rand.Rand) (fired, effective bool) {
	s := p.pick(rng)
	if !s.Up() || !p.r.afford(s) {
		return false, false
	}
	before := s.Disk.Count(simdisk.PowerLost).Effective
	p.down(s, true)
	return true, s.Disk.Count(simdisk.PowerLost).Effective > before
}

// killInRecovery kills, and kills again while the next incarnation recovers.
func (p *plan) killInRecovery(rng *rand.Rand) (fired, effective bool) {
	s := p.pick(rng)
	if !s.Up() {
		return false, false
	}
	s.end(false)
	p.bootIn(s, time.Millisecond)
	power := rng.IntN(3) == 0
	p.after(time.Millisecond+drawn(rng, 100*time.Microsecond, 200*time.Millisecond), func() {
		if s.Up() && !s.Ready() {
			p.r.World.Probe("crash-in-recovery")
			if power = power && p.r.afford(s); power {
				p.r.World.Probe("power-loss-in-recovery")
			}
			p.down(s, power)
		}
	})
	return true, true
}

func (p *plan) cleanRestart(rng *rand.Rand) (fired, effective bool) {
	s := p.pick(rng)
	if !s.Ready() {
		return false, false
	}
	s.Stop()
	return true, true
}

func (p *plan) pause(rng *rand.Rand) (fired, effective bool) {
	s := p.pick(rng)
	if !s.Up() {
		return false, false
	}
	s.Pause()
	p.after(drawn(rng, 10*time.Millisecond, 10*time.Second), s.Resume)
	return true, true
}

func (p *plan) clockJump(rng *rand.Rand) (fired, effective bool) {
	s := p.pick(rng)
	ms := drawn[int64](rng, 1, 7_200_000)
	if rng.IntN(2) == 0 {
		ms = -ms
	}
	s.Jump(ms)
	return true, s.Up()
}

func (p *plan) diskFull(rng *rand.Rand) (fired, effective bool) {
	d := p.pick(rng).Disk
	before := d.Count(simdisk.NoSpace).Effective
	d.SetCapacity(d.Used() + rng.Int64N(8<<10))
	p.after(drawn(rng, 500*time.Millisecond, 10*time.Second), func() {
		d.SetCapacity(diskBytes)
		p.r.count("disk-full", d.Count(simdisk.NoSpace).Effective > before)
	})
	return false, false
}

func (p *plan) readOnly(rng *rand.Rand) (fired, effective bool) {
	d := p.pick(rng).Disk
	before := d.Count(simdisk.ReadOnly).Effective
	d.SetReadOnly(true)
	p.after(drawn(rng, 100*time.Millisecond, 5*time.Second), func() {
		d.SetReadOnly(false)
		p.r.count("read-only", d.Count(simdisk.ReadOnly).Effective > before)
	})
	return false, false
}

// victim is the machine of a drawn client.
func (p *plan) victim(rng *rand.Rand) string {
	return fmt.Sprintf("client%d", 1+rng.IntN(max(1, p.r.clients)))
}

func (p *plan) partition(rng *rand.Rand) (fired, effective bool) {
	a, b := p.victim(rng), p.pick(rng).Name
	if rng.IntN(2) == 0 {
		a, b = b, a
	}
	both := rng.IntN(2) == 0
	net := p.r.World.Net
	net.Partition(a, b)
	if both {
		net.Partition(b, a)
	}
	p.after(drawn(rng, 50*time.Millisecond, 15*time.Second), func() {
		net.Heal(a, b)
		net.Heal(b, a)
	})
	return true, true
}

func (p *plan) clog(rng *rand.Rand) (fired, effective bool) {
	a, b := p.victim(rng), p.pick(rng).Name
	if rng.IntN(2) == 0 {
		a, b = b, a
	}
	net := p.r.World.Net
	net.Clog(a, b)
	p.after(drawn(rng, 50*time.Millisecond, 15*time.Second), func() { net.Heal(a, b) })
	return true, true
}
