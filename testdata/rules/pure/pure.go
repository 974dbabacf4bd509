// Package pure breaks the rules that a pure package has beyond those of tasks.
package pure

import (
	"seedlog/clock"
	"seedlog/clock/task"     // want `a pure package must not import clock/task: take it as an argument`
	"seedlog/disk"           // want `a pure package must not import disk`
	"seedlog/storage/record" // pure, too
)

type (
	_ = clock.Instant
	_ = task.T
	_ = disk.Disk
	_ = record.Header
)
