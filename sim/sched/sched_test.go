package sched_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/sim/sched"
	"seedlog/sim/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world makes a calm world with one machine that is closed when the test ends.
func world(t testing.TB, cfg sched.Config) (*sched.Scheduler, *sched.Runtime) {
	s := sched.New(1, cfg, nil)
	t.Cleanup(s.Close)
	return s, s.NewRuntime("m", sched.ClockParams{})
}

// spawn starts fn as a task of a group of its own.
func spawn(rt *sched.Runtime, name string, fn func(t *task.T)) *task.T {
	return task.NewGroup(rt, name).Go(name, fn)
}

// mustFail runs the world and checks how it failed.
func mustFail(t *testing.T, s *sched.Scheduler, kind string, words ...string) {
	t.Helper()
	if out := s.Run(nil, clock.Never); out != sched.Failed {
		t.Fatalf("the run ended as %v", out)
	}
	f := s.Failure()
	if f.Kind != kind {
		t.Fatalf("failed by %s: %v", f.Kind, f)
	}
	for _, w := range words {
		if !strings.Contains(f.Error(), w) {
			t.Errorf("%q is not in: %v", w, f)
		}
	}
}

func TestAPanicIsReportedWithItsStackAndTask(t *testing.T) {
	s, rt := world(t, sched.Calm())
	spawn(rt, "innocent", func(t *task.T) { t.Park(clock.Never) })
	spawn(rt, "culprit", func(t *task.T) { explode() })
	mustFail(t, s, sched.Panic, "m#1/culprit", "boom 7", "sched_test.explode", "seed=1", "m#1/innocent: parked")
}

func explode() { panic(fmt.Sprint("boom ", 7)) }

func TestAGoexitIsAFailureAndSparesTheCaller(t *testing.T) {
	s, rt := world(t, sched.Calm())
	spawn(rt, "quitter", func(t *task.T) { runtime.Goexit() })
	mustFail(t, s, sched.Goexit, "m#1/quitter")
}

func TestAPanicInACallbackIsAFailure(t *testing.T) {
	s, _ := world(t, sched.Calm())
	s.At(5, func() { explode() })
	mustFail(t, s, sched.Panic, "boom", "explode")
}

func TestADeadlockNamesWhoWaitsWhere(t *testing.T) {
	s, rt := world(t, sched.Calm())
	e := task.NewEvent(rt, "never")
	spawn(rt, "waiter", func(t *task.T) { waitForGodot(t, e) })
	mustFail(t, s, sched.Deadlock, "m#1/waiter: parked", "waitForGodot", "sched_test.go:")
}

func waitForGodot(t *task.T, e *task.Event) { e.Wait(t, clock.Never) }

func TestParkingWithAMutexHeldFails(t *testing.T) {
	s, rt := world(t, sched.Calm())
	mu := task.NewMutex(rt, "a.lock")
	spawn(rt, "holder", func(t *task.T) { mu.Lock(); t.Park(clock.Never) })
	mustFail(t, s, sched.Locked, "parks while it holds a.lock", "m#1/holder")
}

func TestLockingAHeldMutexNamesWhoHoldsIt(t *testing.T) {
	s, rt := world(t, sched.Calm())
	mu := task.NewMutex(rt, "a.lock")
	spawn(rt, "twice", func(t *task.T) { mu.Lock(); mu.Lock() })
	mustFail(t, s, sched.HeldMutex, "task m#1/twice", "locks a.lock, which m#1/twice holds")

	s, rt = world(t, sched.Calm())
	mu = task.NewMutex(rt, "a.lock")
	s.At(0, mu.Lock)
	spawn(rt, "late", func(t *task.T) { mu.Lock() })
	mustFail(t, s, sched.HeldMutex, "task m#1/late", "locks a.lock, which the world holds")
}

func TestEndingWithAMutexHeldFails(t *testing.T) {
	s, rt := world(t, sched.Calm())
	mu := task.NewMutex(rt, "a.lock")
	spawn(rt, "careless", func(t *task.T) { mu.Lock() })
	mustFail(t, s, sched.Locked, "ends while it holds a.lock", "m#1/careless")
}

func TestUnlockingWhatIsNotLockedFails(t *testing.T) {
	s, rt := world(t, sched.Calm())
	mu := task.NewMutex(rt, "a.lock")
	spawn(rt, "confused", func(t *task.T) { mu.Unlock() })
	mustFail(t, s, sched.HeldMutex, "unlocks a.lock, which is not locked")
}

func TestALockOrderCycleFailsThoughNobodyBlocked(t *testing.T) {
	s, rt := world(t, sched.Calm())
	a, b, c := task.NewMutex(rt, "A"), task.NewMutex(rt, "B"), task.NewMutex(rt, "C")
	pair := func(x, y *task.Mutex) func(*task.T) {
		return func(*task.T) {
			x.Lock()
			y.Lock()
			y.Unlock() //lint:ignore SA2001 the order is what is tested
			x.Unlock()
		}
	}
	spawn(rt, "one", func(t *task.T) {
		pair(a, b)(t)
		t.Go("two", func(t *task.T) {
			pair(b, c)(t)
			t.Go("three", pair(c, a))
		})
	})
	mustFail(t, s, sched.LockOrder, "m#1/three", "locks A while it holds C", "m#1/one locked B while it held A", "m#1/two locked C while it held B")
}

func TestTwoLocksOfOneClassAreACycle(t *testing.T) {
	s, rt := world(t, sched.Calm())
	a, b := task.NewMutex(rt, "log"), task.NewMutex(rt, "log")
	spawn(rt, "both", func(*task.T) {
		a.Lock()
		b.Lock()
		b.Unlock() //lint:ignore SA2001 the order is what is tested
		a.Unlock()
	})
	mustFail(t, s, sched.LockOrder, "locks log while it holds log")
}

func TestTasksThatOnlyWakeEachOtherAreALivelock(t *testing.T) {
	cfg := sched.Calm()
	cfg.LivelockSteps = 10_000
	s, rt := world(t, cfg)
	var a, b *task.T
	spin := func(other **task.T) func(t *task.T) {
		return func(t *task.T) {
			for {
				(*other).Wake()
				t.Park(clock.Never)
			}
		}
	}
	a = spawn(rt, "ping", spin(&b))
	b = spawn(rt, "pong", spin(&a))
	_, _ = a, b
	mustFail(t, s, sched.Livelock, "10001 steps without a callback", "m#1/ping", "m#1/pong")
}

func TestManyCallbacksAreNoProgress(t *testing.T) {
	cfg := sched.Calm()
	cfg.LivelockSteps = 1_000
	s, rt := world(t, cfg)
	spawn(rt, "busy", func(t *task.T) {
		for i := 0; ; i++ {
			if i < 10 {
				s.Progress()
			}
			s.At(0, t.Wake)
			t.Park(clock.Never)
		}
	})
	mustFail(t, s, sched.Livelock, "4001 steps without progress")
}

func TestParkingAnotherTaskIsMisuse(t *testing.T) {
	s, rt := world(t, sched.Calm())
	other := spawn(rt, "other", func(t *task.T) { t.Park(clock.Never) })
	spawn(rt, "thief", func(t *task.T) { other.Park(clock.Never) })
	mustFail(t, s, sched.Misuse, "m#1/thief", "parks m#1/other")
}

func TestAKillUnwindsTasksWhereTheyAreAndMutesThem(t *testing.T) {
	s, rt := world(t, sched.Calm())
	outside := spawn(s.World(), "outside", func(t *task.T) {
		for t.Park(clock.Never) != task.Stopping {
		}
	})
	mu := task.NewMutex(rt, "a.lock")
	gate := task.NewGate(rt, "a.gate")
	var unwound []string
	wentOn := false
	for i := range 3 {
		name := fmt.Sprint("victim", i)
		spawn(rt, name, func(t *task.T) {
			defer func() {
				unwound = append(unwound, name)
				mu.Lock()
				t.Go("ghost", func(*task.T) { panic("a spawn of the dead") })
				outside.Wake()
				s.At(0, func() { panic("a callback of the dead") })
				t.Park(clock.Never)
				wentOn = true
			}()
			gate.Enter(t)
			defer gate.Leave(t)
			t.Park(clock.Never)
			wentOn = true
		})
	}
	spawn(rt, "sleeper", func(t *task.T) {
		t.Park(t.Now() + 1e9)
		wentOn = true
	})
	never := spawn(rt, "never started", func(t *task.T) {})
	_ = never
	late := rt.At(1e9, func() { panic("a callback of the dead") })
	s.Run(nil, 1e6)
	steps := s.Steps()
	rt.Kill()
	rt.Kill()
	if got := strings.Join(unwound, " "); got != "victim0 victim1 victim2" || rt.Tasks() != 0 || !rt.Dead() {
		t.Errorf("unwound %q, %d tasks left", got, rt.Tasks())
	}
	if out := s.Run(nil, 2e9); out != sched.Expired || s.Steps() != steps || wentOn {
		t.Errorf("%v after %d steps, went on: %v, %v", out, s.Steps()-steps, wentOn, s.Failure())
	}
	if late.Cancel() {
		t.Error("a callback was still to come")
	}
}

func TestATaskKillsItsOwnIncarnationInsideACall(t *testing.T) {
	s, rt := world(t, sched.Calm())
	after, sibling := false, false
	spawn(rt, "bystander", func(t *task.T) {
		defer func() { sibling = true }()
		t.Park(clock.Never)
	})
	spawn(rt, "dier", func(t *task.T) {
		t.Park(t.Now() + 1e6)
		rt.Kill()
		after = true
	})
	if out := s.Run(nil, clock.Never); out != sched.Idle || after || !sibling {
		t.Errorf("%v, went on: %v, sibling unwound: %v, %v", out, after, sibling, s.Failure())
	}
	again := s.NewRuntime("m", rt.Clock())
	if again.Name() != "m#2" || again.Machine() != "m" {
		t.Errorf("the next incarnation is %s of %s", again.Name(), again.Machine())
	}
}

func TestAGoexitOfADyingTaskIsDropped(t *testing.T) {
	s, rt := world(t, sched.Calm())
	unwound := 0
	for range 3 {
		spawn(rt, "dying", func(t *task.T) {
			defer func() { unwound++; runtime.Goexit() }()
			t.Park(clock.Never)
		})
	}
	s.At(1e6, rt.Kill)
	if out := s.Run(nil, clock.Never); out != sched.Idle || unwound != 3 {
		t.Errorf("%v, %d unwound: %v", out, unwound, s.Failure())
	}
}

func TestAPausedIncarnationSeesItsTimePass(t *testing.T) {
	s, rt := world(t, sched.Calm())
	var woke clock.Instant
	spawn(rt, "sleeper", func(t *task.T) {
		t.Park(t.Now() + 1e9)
		woke = s.Now()
	})
	s.Run(nil, 5e8)
	rt.Pause()
	if s.Run(nil, 30e9) != sched.Expired || woke != 0 {
		t.Fatalf("it ran while paused, at %d", woke)
	}
	rt.Resume()
	if s.Run(nil, clock.Never) != sched.Idle || woke < 30e9 || woke > 31e9 {
		t.Errorf("it woke at %d", woke)
	}
}

func TestClocksAreSkewedDriftAndJump(t *testing.T) {
	s := sched.New(1, sched.Calm(), nil)
	t.Cleanup(s.Close)
	for _, ppm := range []int64{0, 1, -1, 250, -250, 99_999, -99_999, 1_000_000} {
		rt := s.NewRuntime("drifting", sched.ClockParams{SkewMs: -5000, DriftPPM: ppm})
		spawn(rt, "sleeper", func(tk *task.T) {
			for _, d := range []clock.Instant{1, 7, 1_000, 999_999, 123_456_789, 7_200_000_000_123} {
				start, simStart := tk.Now(), s.Now()
				for tk.Park(start+d) != task.TimedOut {
				}
				late, passed := tk.Now()-(start+d), s.Now()-simStart
				if late < 0 || late > 50_000 {
					t.Errorf("%d ppm: a sleep of %d ended %d late", ppm, d, late)
				}
				want := passed + clock.Instant(int64(passed)/1e6*ppm)
				if diff := tk.Now() - start - want; diff < -2_000_000 || diff > 2_000_000 {
					t.Errorf("%d ppm: %d passed for %d", ppm, tk.Now()-start, passed)
				}
			}
		})
	}
	if s.Run(nil, clock.Never) != sched.Idle {
		t.Fatal(s.Failure())
	}
	for _, ppm := range []int64{1, -1, 333_333, -333_333} {
		rt := s.NewRuntime("exact", sched.ClockParams{DriftPPM: ppm})
		for d := clock.Instant(1); d < 1e13; d = d*3 + 1 {
			local := rt.Now() + d
			s.At(rt.SimTime(local)-1, func() {
				if rt.Now() >= local {
					t.Errorf("%d ppm: a deadline in %d is late", ppm, d)
				}
			})
			s.At(rt.SimTime(local), func() {
				if rt.Now() < local {
					t.Errorf("%d ppm: a deadline in %d is %d early", ppm, d, local-rt.Now())
				}
			})
		}
	}
	s.Run(nil, clock.Never)
	rt := s.NewRuntime("jumper", sched.ClockParams{SkewMs: 1000})
	wall, mono := rt.UnixMilli(), rt.Now()
	rt.Jump(-3_600_000)
	if rt.UnixMilli() != wall-3_600_000 || rt.Now() != mono || rt.Clock().SkewMs != -3_599_000 {
		t.Errorf("wall %d after %d", rt.UnixMilli(), wall)
	}
}

func TestCallbacksHappenInOrderAndCanBeCalledOff(t *testing.T) {
	s, _ := world(t, sched.Calm())
	var got []int
	note := func(i int) func() { return func() { got = append(got, i) } }
	s.At(300, note(3))
	s.At(100, note(1))
	off := s.At(200, note(-1))
	s.At(100, func() { note(2)(); s.At(0, note(22)) })
	last := s.At(400, note(4))
	if !off.Cancel() || off.Cancel() {
		t.Error("Cancel twice")
	}
	s.Run(nil, clock.Never)
	if fmt.Sprint(got) != "[1 2 22 3 4]" || last.Cancel() || s.Now() != 400 {
		t.Errorf("%v at %d", got, s.Now())
	}
	got = nil
	for i := range 100 {
		s.At(500+clock.Instant(i%2), note(i%2*50+i/2))
	}
	s.Run(nil, clock.Never)
	for i := range 100 {
		if got[i] != i {
			t.Fatalf("callbacks of one instant came as %v", got)
		}
	}
}

func TestRunStopsAtTheConditionOrTheDeadline(t *testing.T) {
	s, rt := world(t, sched.Calm())
	n := 0
	spawn(rt, "counter", func(t *task.T) {
		for ; n < 10; n++ {
			t.Park(t.Now() + 1e6)
		}
	})
	if out := s.Run(func() bool { return n == 3 }, clock.Never); out != sched.Met || n != 3 {
		t.Errorf("%v at %d", out, n)
	}
	if out := s.Run(nil, s.Now()+2e6); out != sched.Expired || n > 5 {
		t.Errorf("%v at %d", out, n)
	}
	if out := s.Run(func() bool { return false }, clock.Never); out != sched.Idle || n != 10 {
		t.Errorf("%v at %d", out, n)
	}
}

// busy is a world of tasks that use everything, under a drawn configuration.
func busy(seed uint64, log *trace.Log) *sched.Scheduler {
	s := sched.New(seed, sched.DrawConfig(sched.Stream(seed, "config")), log)
	for i := range 3 {
		rt := s.NewRuntime("m", sched.ClockParams{SkewMs: int64(i), DriftPPM: int64(i * 100)})
		g := task.NewGroup(rt, "busy")
		q := task.NewQueue[uint64](rt, "busy.queue", 2)
		gate := task.NewGate(rt, "busy.gate")
		r := rt.Rand("work")
		for range 3 {
			g.Go("producer", func(t *task.T) {
				for range 20 {
					gate.Enter(t)
					t.Park(t.Now() + clock.Instant(r.Uint64()%1e7))
					gate.Leave(t)
					q.Push(t, r.Uint64())
				}
			})
			g.Go("consumer", func(t *task.T) {
				for !t.Stopping() {
					q.Pop(t, t.Now()+1e6)
				}
			})
		}
		switch i {
		case 0:
			rt.At(15e6, rt.Kill)
		case 1:
			rt.At(10e6, rt.Pause)
			rt.At(50e6, rt.Resume)
		}
		s.At(3e9, g.Stop)
	}
	return s
}

func TestASeedReplaysWhateverElseRuns(t *testing.T) {
	type result struct{ hash, count uint64 }
	run := func(seed uint64) result {
		var log trace.Log
		s := busy(seed, &log)
		defer s.Close()
		if out := s.Run(nil, 100e9); out == sched.Failed {
			t.Errorf("seed %d: %v", seed, s.Failure())
		}
		return result{log.Hash(), log.Count()}
	}
	const seeds = 24
	var first [seeds]result
	distinct := map[uint64]bool{}
	for i := range first {
		first[i] = run(uint64(i))
		distinct[first[i].hash] = true
	}
	if len(distinct) != seeds {
		t.Errorf("%d hashes for %d seeds", len(distinct), seeds)
	}
	var wg sync.WaitGroup
	for i := range first {
		wg.Go(func() {
			if got := run(uint64(i)); got != first[i] {
				t.Errorf("seed %d: %x, then %x", i, first[i], got)
			}
		})
	}
	wg.Wait()
}

// TestASeedReplaysInAnotherProcess compares hashes with processes that have other settings
// of the Go runtime; they run this test, too, and print.
func TestASeedReplaysInAnotherProcess(t *testing.T) {
	var hashes strings.Builder
	for seed := uint64(100); seed < 106; seed++ {
		var log trace.Log
		s := busy(seed, &log)
		s.Run(nil, 100e9)
		s.Close()
		fmt.Fprintf(&hashes, "%016x.%d ", log.Hash(), log.Count())
	}
	if os.Getenv("SCHED_PRINT") != "" {
		fmt.Println("hashes", hashes.String())
		return
	}
	for _, env := range []string{"GOMAXPROCS=1 GOGC=1", "GOMAXPROCS=4 GOGC=off"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestASeedReplaysInAnotherProcess$")
		cmd.Env = append(append(os.Environ(), "SCHED_PRINT=1"), strings.Fields(env)...)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), hashes.String()) {
			t.Errorf("%s: %v, printed %s; want %s", env, err, out, hashes.String())
		}
	}
}

func TestTheFirstDifferingEventOfTwoRunsIsNamed(t *testing.T) {
	write := func(disturb bool) *bytes.Buffer {
		var log trace.Log
		var out bytes.Buffer
		log.Write(&out)
		s := busy(5, &log)
		defer s.Close()
		s.Run(func() bool { return s.Steps() == 50 }, clock.Never)
		if disturb {
			s.At(s.Now()+1, func() {})
		}
		s.Run(func() bool { return s.Steps() == 100 }, clock.Never)
		log.Flush()
		return &out
	}
	if d, err := trace.Diff(write(false), write(false)); d != nil || err != nil {
		t.Errorf("two equal runs: %v, %v", d, err)
	}
	d, err := trace.Diff(write(false), write(true))
	if err != nil || d == nil || !strings.Contains(d.B, " call ") || len(d.Since) == 0 {
		t.Errorf("a disturbed run: %v, %v", d, err)
	}
}

func TestStreamsOfDifferentNamesAreIndependent(t *testing.T) {
	s, rt := world(t, sched.Calm())
	a, again, b := s.Stream("a"), s.Stream("a"), s.Stream("b")
	x := a.Uint64()
	if x != again.Uint64() || x == b.Uint64() || x == sched.Stream(2, "a").Uint64() || x != sched.Stream(1, "a").Uint64() {
		t.Error("a stream is not its seed's and its name's")
	}
	id := make([]byte, 19)
	rt.Entropy("ids")(id)
	if string(id) == string(make([]byte, 19)) || id[18] == 0 && id[17] == 0 {
		t.Errorf("entropy %x", id)
	}
}

func TestEveryPolicyLetsEverybodyRun(t *testing.T) {
	for _, k := range []sched.PolicyKind{sched.Random, sched.Priorities, sched.Starve} {
		cfg := sched.Calm()
		cfg.Policy, cfg.LivelockSteps = k, 0
		s, rt := world(t, cfg)
		var n [5]int
		for i := range n {
			spawn(rt, "spinner", func(t *task.T) {
				for {
					n[i]++
					t.Park(0)
				}
			})
		}
		s.Run(func() bool { return s.Steps() == 20_000 }, clock.Never)
		for i := range n {
			if n[i] < 10 {
				t.Errorf("%v: task %d ran %d of 20000 times", k, i, n[i])
			}
		}
	}
}

func TestDisturbancesHappenAtTheirRates(t *testing.T) {
	cfg := sched.Calm()
	cfg.SpuriousEvery, cfg.YieldEvery, cfg.HoldEvery, cfg.HoldMaxNs = 4, 4, 4, int64(5*time.Second)
	s, rt := world(t, cfg)
	spurious, preempted, inside := 0, 0, false
	var longest clock.Instant
	mu := task.NewMutex(rt, "a.lock")
	spawn(rt, "one", func(t *task.T) {
		for range 2000 {
			inside = true
			mu.Lock()
			mu.Unlock() //lint:ignore SA2001 what happens before the lock is what is tested
			inside = false
			until := t.Now() + 1e7
			if t.Park(until) == task.Woken {
				spurious++
			} else {
				longest = max(longest, t.Now()-until)
			}
		}
	})
	spawn(rt, "two", func(t *task.T) {
		for range 200_000 {
			if inside {
				preempted++
			}
			t.Park(t.Now() + 1e5)
		}
	})
	s.Run(nil, clock.Never)
	if s.Failure() != nil {
		t.Fatal(s.Failure())
	}
	if spurious < 350 || spurious > 650 || preempted < 20 || longest < 1e8 {
		t.Errorf("%d of 2000 spurious, %d preempted, longest hold %d ns", spurious, preempted, longest)
	}
}

func TestAScheduledRunAllocatesNothingPerStep(t *testing.T) {
	s, rt := world(t, spinning())
	spinners(rt, 10)
	n := uint64(0)
	s.Run(func() bool { n++; return n > 1000 }, clock.Never)
	allocs := testing.AllocsPerRun(5, func() {
		until := s.Steps() + 10_000
		s.Run(func() bool { return s.Steps() >= until }, clock.Never)
	})
	if allocs > 20 {
		t.Errorf("%v allocations in 10,000 steps", allocs)
	}
}

func spinning() sched.Config {
	cfg := sched.Calm()
	cfg.LivelockSteps = 0
	cfg.YieldEvery, cfg.SpuriousEvery, cfg.HoldEvery, cfg.HoldMaxNs = 50, 50, 100, 1e6
	return cfg
}

// spinners starts pairs of tasks that wake each other and wait with deadlines.
func spinners(rt *sched.Runtime, pairs int) {
	for range pairs {
		var a, b *task.T
		mu := task.NewMutex(rt, "spin")
		spin := func(other **task.T) func(t *task.T) {
			return func(t *task.T) {
				for {
					mu.Lock()
					o := *other
					mu.Unlock()
					o.Wake()
					t.Park(t.Now() + 1e6)
				}
			}
		}
		a = spawn(rt, "a", spin(&b))
		b = spawn(rt, "b", spin(&a))
	}
}

func BenchmarkSteps(b *testing.B) {
	s, rt := world(b, spinning())
	spinners(rt, 10)
	b.ReportAllocs()
	n := 0
	s.Run(func() bool { n++; return n > b.N }, clock.Never)
	b.ReportMetric(float64(s.Steps())/b.Elapsed().Seconds()/1e6, "Msteps/s")
}
