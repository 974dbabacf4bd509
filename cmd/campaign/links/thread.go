package links

import (
	"os/exec"
	"runtime"
	"syscall"
)

// thread is a thread of the kernel that lives as long as its work. It is not given back to the
// Go runtime: whatever namespace it is in, and whatever is tied to it, ends with it.
type thread struct{ work chan func() }

func newThread() *thread {
	t := &thread{work: make(chan func())}
	go func() {
		runtime.LockOSThread()
		for fn := range t.work {
			fn()
		}
	}()
	return t
}

// Do runs fn on the thread: what it dials, opens or starts belongs to the thread's namespace.
func (t *thread) Do(fn func()) {
	done := make(chan struct{})
	t.work <- func() {
		defer close(done)
		fn()
	}
	<-done
}

// Close ends the thread.
func (t *thread) Close() { close(t.work) }

// start starts a process that the kernel kills when the thread ends: no node outlives the
// campaign, however that ends.
func (t *thread) start(cmd *exec.Cmd) (err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	t.Do(func() { err = cmd.Start() })
	return err
}
