package live_test

import (
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"seedlog/clock"
	"seedlog/clock/live"
	"seedlog/clock/task"
	"seedlog/clock/task/tasktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	tasktest.Run(t, func(t *testing.T, fn func(t *task.T)) { live.Main(live.New(live.Options{}), fn) })
}

func TestConformanceUnderChaos(t *testing.T) {
	for seed := uint64(1); seed <= 3; seed++ {
		tasktest.Run(t, func(t *testing.T, fn func(t *task.T)) { live.Main(live.New(live.Options{Chaos: seed}), fn) })
	}
}

func TestAForeignGoroutineWakesATask(t *testing.T) {
	live.Main(live.New(live.Options{}), func(tk *task.T) {
		var mu sync.Mutex
		n := 0
		for range 4 {
			go func() {
				for range 100 {
					mu.Lock()
					n++
					mu.Unlock()
					tk.Wake()
				}
			}()
		}
		for {
			mu.Lock()
			done := n == 400
			mu.Unlock()
			if done {
				return
			}
			tk.Park(clock.Never)
		}
	})
}

func TestTheClocksAreTheMachines(t *testing.T) {
	rt := live.New(live.Options{})
	a := rt.Now()
	if w := rt.UnixMilli(); w < time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli() {
		t.Errorf("wall clock %d", w)
	}
	if b := rt.Now(); a < 0 || b < a {
		t.Errorf("monotonic clock: %d, then %d", a, b)
	}
}

func TestParkAndWakeAllocateNothing(t *testing.T) {
	live.Main(live.New(live.Options{}), func(tk *task.T) {
		e := task.NewEvent(tk.Runtime(), "test.event")
		tk.Park(tk.Now() + 1000) // makes the timer
		n := testing.AllocsPerRun(1000, func() {
			tk.Wake()
			tk.Park(clock.Never)
			tk.Wake()
			tk.Park(tk.Now() + 1e9)
			tk.Park(tk.Now() + 1000)
			e.Wait(tk, tk.Now()+1000)
		})
		if n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

func BenchmarkPingPong(b *testing.B) {
	b.ReportAllocs()
	live.Main(live.New(live.Options{}), func(tk *task.T) {
		there := task.NewQueue[int](tk.Runtime(), "bench.queue", 1)
		back := task.NewQueue[int](tk.Runtime(), "bench.queue", 1)
		tk.Go("echo", func(t *task.T) {
			for {
				v, ok := there.Pop(t, clock.Never)
				if !ok || !back.Push(t, v) {
					return
				}
			}
		})
		for b.Loop() {
			there.Push(tk, 1)
			back.Pop(tk, tk.Now()+1e9)
		}
		there.Close()
	})
}
