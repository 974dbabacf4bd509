package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"seedlog/cmd/port"
)

// benchBroker is a broker in a process of its own: this binary.
type benchBroker struct {
	cmd  *exec.Cmd
	addr string
	dir  string
	log  *os.File
	done chan struct{} // closed when the process has ended, by err
	err  error
}

// startBenchBroker starts a broker on a free port with its data in dir. It does not wait
// until it serves.
func startBenchBroker(dir string, settings ...string) (*benchBroker, error) {
	return startBrokerUnder(nil, dir, settings...)
}

// startBrokerUnder starts it as an argument of another command, which must become it.
func startBrokerUnder(wrap []string, dir string, settings ...string) (*benchBroker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	at, err := port.Free(1)
	if err != nil {
		return nil, err
	}
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(at))
	args := append(slices.Clone(wrap), self, "start", "--data-dir", dir, "--listen", addr)
	for _, s := range settings {
		args = append(args, "--set", s)
	}
	return runBenchBroker(addr, dir, args)
}

// runBenchBroker runs a command that becomes a broker.
func runBenchBroker(addr, dir string, args []string) (*benchBroker, error) {
	b := &benchBroker{addr: addr, dir: dir, done: make(chan struct{})}
	var err error
	if b.log, err = os.Create(dir + ".stderr"); err != nil {
		return nil, err
	}
	b.cmd = exec.Command(args[0], args[1:]...)
	b.cmd.Stderr = b.log
	if err := b.cmd.Start(); err != nil {
		b.log.Close()
		return nil, err
	}
	go func() {
		b.err = b.cmd.Wait()
		b.log.Close()
		close(b.done)
	}()
	return b, nil
}

// dial connects as soon as somebody listens.
func (b *benchBroker) dial(ctx context.Context) (*benchConn, error) {
	for {
		nc, err := net.Dial("tcp", b.addr)
		if err == nil {
			return newBenchConn(nc.(*net.TCPConn)), nil
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, err
		}
		select {
		case <-b.done:
			return nil, fmt.Errorf("the broker ended: %v: %s", b.err, b.lastWords())
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(200 * time.Microsecond):
		}
	}
}

// lastWords is the last line that the broker logged.
func (b *benchBroker) lastWords() string {
	text, err := os.ReadFile(b.log.Name())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

// stop sends SIGTERM and returns an error unless the broker ends with 0.
func (b *benchBroker) stop() error {
	if err := b.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-b.done:
		if b.err != nil {
			return fmt.Errorf("the broker ended: %w: %s", b.err, b.lastWords())
		}
		return nil
	case <-time.After(2 * time.Minute):
		b.kill()
		return errors.New("the broker did not stop within two minutes of SIGTERM")
	}
}

// kill ends the broker at once, if it still runs.
func (b *benchBroker) kill() {
	b.cmd.Process.Kill()
	<-b.done
}

// cpu is the processor time that the broker took so far.
func (b *benchBroker) cpu() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", b.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may have spaces in it.
	_, rest, ok := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat: %q", b.cmd.Process.Pid, text)
	}
	const ticks = 100 // per second, on every Linux
	var sum time.Duration
	for _, f := range fields[11:13] { // utime, stime
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(n) * time.Second / ticks
	}
	return sum, nil
}

// residentKB is the broker's resident memory.
func (b *benchBroker) residentKB() (int64, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", b.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if v, ok := strings.CutPrefix(s.Text(), "VmRSS:"); ok {
			return strconv.ParseInt(strings.Fields(v)[0], 10, 64)
		}
	}
	return 0, errors.New("no VmRSS in /proc")
}

// benchDir makes an empty directory below root, and what is removed with it.
func benchDir(root string) (dir string, remove func(), err error) {
	base, err := os.MkdirTemp(root, "seedlog-bench-*")
	if err != nil {
		return "", nil, err
	}
	return filepath.Join(base, "data"), func() { os.RemoveAll(base) }, nil
}
