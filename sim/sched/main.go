package sched

import (
	"seedlog/clock"
	"seedlog/clock/task"
)

// Main runs fn as the task "main" of a world of its own under a configuration drawn from
// the seed, as live.Main does on the real machine, and returns the failure of the run or
// nil. When fn returns its group is stopped, and all of the group's tasks have to end.
func Main(seed uint64, fn func(t *task.T)) error {
	s := New(seed, DrawConfig(Stream(seed, "config")), nil)
	defer s.Close()
	rt := s.NewRuntime("main", ClockParams{})
	g := task.NewGroup(rt, "main")
	g.Go("main", func(t *task.T) {
		fn(t)
		g.Stop()
	})
	s.Run(func() bool { return rt.first == nil }, clock.Never)
	if s.failure != nil {
		return s.failure
	}
	return nil
}
