package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
)

// watchdog is how long one seed may take in wall time before its worker is made to dump its
// stacks and is ended.
const watchdog = 120 * time.Second

// worker is one worker process.
type worker struct {
	binary string
	args   []string
	env    []string

	cmd  *exec.Cmd
	used time.Duration // processor time of the seeds that the process has finished
	in   io.WriteCloser
	out  *bufio.Reader
	err  *tail
}

// tail keeps the end of what a process writes to its standard error.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailBytes = 64 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if n := len(t.buf); n > tailBytes {
		t.buf = append(t.buf[:0], t.buf[n-tailBytes:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}

func (w *worker) start() error {
	w.cmd = exec.Command(w.binary, append([]string{"worker"}, w.args...)...)
	w.cmd.Env = append(os.Environ(), w.env...)
	w.err, w.used = new(tail), 0
	w.cmd.Stderr = w.err
	var err error
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return err
	}
	stdout, err := w.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	w.out = bufio.NewReaderSize(stdout, 1<<20)
	return w.cmd.Start()
}

// run runs one seed in the worker, and starts the process if there is none. A process that
// dies or hangs is an outcome, not an error.
func (w *worker) run(seed uint64, traceFile string) (*outcome, error) {
	if w.cmd == nil {
		if err := w.start(); err != nil {
			return nil, err
		}
	}
	timer := time.AfterFunc(watchdog, func() { _ = w.cmd.Process.Signal(syscall.SIGQUIT) })
	fmt.Fprintf(w.in, "%d %s\n", seed, traceFile)
	line, err := w.out.ReadBytes('\n')
	hung := !timer.Stop()
	if err != nil {
		_ = w.cmd.Wait()
		state := w.cmd.ProcessState
		what := "crash"
		if hung {
			what = "hang"
		}
		o := &outcome{Seed: seed, Found: what, Kind: what, CPU: max(0, state.UserTime()+state.SystemTime()-w.used),
			Line:   fmt.Sprintf("sim: seed=%d verdict=%s", seed, what),
			Report: fmt.Sprintf("sim: seed=%d verdict=%s\n%s", seed, what, w.err.String())}
		w.cmd = nil
		return o, nil
	}
	o := new(outcome)
	if err := json.Unmarshal(line, o); err != nil {
		return nil, fmt.Errorf("a worker said %q: %w", strings.TrimSpace(string(line)), err)
	}
	w.used += o.CPU
	return o, nil
}

func (w *worker) close() {
	if w.cmd != nil {
		w.in.Close()
		_ = w.cmd.Wait()
		w.cmd = nil
	}
}

// each runs the seeds on n workers and hands the outcomes to fn, one at a time, in the order
// they come. fn returns false to stop.
func each(n int, make func() *worker, seeds <-chan uint64, fn func(*outcome) bool) error {
	if n < 1 {
		return fmt.Errorf("-workers %d: nothing would be run", n)
	}
	var mu sync.Mutex
	var first error
	stop := false
	var wg sync.WaitGroup
	for range n {
		wg.Add(1)
		go func() {
			defer wg.Done()
			w := make()
			defer w.close()
			for seed := range seeds {
				mu.Lock()
				done := stop || first != nil
				mu.Unlock()
				if done {
					continue
				}
				o, err := w.run(seed, "")
				mu.Lock()
				if err != nil && first == nil {
					first = err
				} else if err == nil && !stop && !fn(o) {
					stop = true
				}
				mu.Unlock()
			}
		}()
	}
	wg.Wait()
	return first
}

// count hands out the seeds from lo to hi, until it is interrupted: a long campaign that is
// ended early still says what it saw.
func count(lo, hi uint64) <-chan uint64 {
	c := make(chan uint64)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		defer close(c)
		defer signal.Stop(signals)
		for s := lo; ; s++ {
			select {
			case c <- s:
			case <-signals:
				return
			}
			if s == hi {
				return
			}
		}
	}()
	return c
}
