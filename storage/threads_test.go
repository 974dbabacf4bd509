package storage

import (
	"fmt"
	"testing"
	"time"

	"seedlog/clock/task"
)

// How many logs are recovered at once can be said after the directory was opened: the setting
// may be in the metadata, which is in one of the directories.
func TestRecoveryThreadsMayBeSaidBeforeLoading(t *testing.T) {
	took := func(threads int) (d time.Duration) {
		m := newMachine(t, 5)
		m.boot(func(tk *task.T, env Env) {
			d := openDir(tk, env, "/data/logs")
			for i := range 12 {
				l := must(d.Create(tk, fmt.Sprint("t", i), [16]byte{byte(i + 1)}, 0, Config{}))
				for range 20 {
					must(l.Append(tk, 0, plainBatch(), Client))
				}
			}
			m.rt.Kill()
		})
		m.boot(func(tk *task.T, env Env) {
			dir := openDir(tk, env, "/data/logs")
			dir.SetRecoveryThreads(threads)
			began := tk.Now()
			if logs := must(dir.Load(tk, func(string, [16]byte) Config { return Config{} }, nil)); len(logs) != 12 {
				t.Errorf("%d logs", len(logs))
			}
			d = tk.Now().Sub(began)
			check(dir.Close(tk))
		})
		return d
	}
	if one, six := took(1), took(6); six > one/2 {
		t.Errorf("one log after the other took %v, six at once %v", one, six)
	}
}
