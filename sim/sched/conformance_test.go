package sched_test

import (
	"testing"

	"seedlog/clock/task"
	"seedlog/clock/task/tasktest"
	"seedlog/sim/sched"
)

func TestConformance(t *testing.T) {
	for seed := uint64(1); seed <= 25; seed++ {
		tasktest.Run(t, func(t *testing.T, fn func(t *task.T)) {
			if err := sched.Main(seed, fn); err != nil {
				t.Error(err)
			}
		})
	}
}
