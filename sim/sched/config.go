package sched

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// PolicyKind says how the next task is picked.
type PolicyKind uint8

const (
	// Random picks any runnable task.
	Random PolicyKind = iota
	// Priorities runs the runnable task of the highest drawn priority, and demotes the one
	// that runs at a few drawn steps (probabilistic concurrency testing, Burckhardt et al.).
	// One step in 64 is a random pick, so that nobody starves for ever.
	Priorities
	// Starve runs a victim, changed now and then, only if nothing else can run, or rarely.
	Starve
)

func (k PolicyKind) String() string {
	return [...]string{"random", "priorities", "starve"}[k]
}

// Config is how a scheduler behaves. "One in n" rates are off at zero.
type Config struct {
	Policy PolicyKind
	// A step costs at least StepMinNs and less than StepMaxNs simulated nanoseconds.
	StepMinNs, StepMaxNs int64
	// HoldEvery: one task in n that becomes runnable is held back for a heavy-tailed time,
	// from some microseconds up to HoldMaxNs.
	HoldEvery int
	HoldMaxNs int64
	// SpuriousEvery: one park in n ends for no reason.
	SpuriousEvery int
	// YieldEvery: one Mutex.Lock or exploration point in n, with no lock held, lets other
	// tasks run.
	YieldEvery int
	// ChangeEvery is the mean number of steps between two change points of the policy.
	ChangeEvery int
	// EpochMs is the wall clock, in milliseconds since 1970, when simulated time is zero.
	EpochMs int64
	// LivelockSteps is the number of steps without a callback between them that fails the run,
	// for tasks that only keep each other busy. So do four times as many without a call of
	// Progress, if there ever was one, for tasks that keep the network busy, too.
	LivelockSteps int64
}

// Calm is a configuration that explores little: random picks, no held tasks, no spurious
// wakes. The liveness phase of a run uses it.
func Calm() Config {
	return Config{
		StepMinNs: 200, StepMaxNs: 2_000,
		ChangeEvery:   1_000,
		EpochMs:       1_700_000_000_000,
		LivelockSteps: 500_000,
	}
}

// DrawConfig draws a configuration. Every kind of disturbance is off in some draws.
func DrawConfig(r *rand.Rand) Config {
	c := Calm()
	c.Policy = [...]PolicyKind{Random, Random, Priorities, Starve}[r.IntN(4)]
	c.StepMaxNs = c.StepMinNs + logUniform(r, 500, 50_000)
	c.ChangeEvery = int(logUniform(r, 20, 5_000))
	if r.IntN(4) != 0 {
		c.HoldEvery = int(logUniform(r, 20, 5_000))
		c.HoldMaxNs = logUniform(r, int64(time.Millisecond), int64(5*time.Second))
	}
	if r.IntN(4) != 0 {
		c.SpuriousEvery = int(logUniform(r, 4, 500))
	}
	if r.IntN(4) != 0 {
		c.YieldEvery = int(logUniform(r, 2, 200))
	}
	return c
}

// logUniform draws from [lo, hi), each power of two about as likely as the next. It uses no
// floating point, which may differ between machines.
func logUniform(r *rand.Rand, lo, hi int64) int64 {
	octaves := 0
	for lo<<octaves < hi {
		octaves++
	}
	span := lo << r.IntN(octaves)
	return span + r.Int64N(min(span, hi-span))
}

// String is the draw, for the head of a report.
func (c Config) String() string {
	return fmt.Sprintf("policy=%s step=%d-%dns hold=1/%d≤%s spurious=1/%d yield=1/%d change=%d",
		c.Policy, c.StepMinNs, c.StepMaxNs, c.HoldEvery, time.Duration(c.HoldMaxNs),
		c.SpuriousEvery, c.YieldEvery, c.ChangeEvery)
}
