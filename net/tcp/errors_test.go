package tcp

import (
	"context"
	"errors"
	stdnet "net"
	"os"
	"strings"
	"syscall"
	"testing"

	"seedlog/net"
)

func TestErrorsSayTheContractsWords(t *testing.T) {
	op := func(err error) error { return &stdnet.OpError{Op: "x", Net: "tcp", Err: err} }
	for _, c := range []struct {
		op        string
		err, want error
	}{
		{"read", op(os.ErrDeadlineExceeded), net.ErrTimeout},
		{"write", op(os.ErrDeadlineExceeded), net.ErrTimeout},
		// Keep-alive gave up: the connection is gone, reading again would not wait.
		{"read", op(os.NewSyscallError("read", syscall.ETIMEDOUT)), net.ErrReset},
		{"dial", op(os.NewSyscallError("connect", syscall.ETIMEDOUT)), net.ErrTimeout},
		{"dial", context.DeadlineExceeded, net.ErrTimeout},
		{"dial", op(os.NewSyscallError("connect", syscall.ECONNREFUSED)), net.ErrRefused},
		{"listen", op(os.NewSyscallError("bind", syscall.EADDRINUSE)), net.ErrInUse},
		{"write", syscall.EPIPE, net.ErrReset},
		{"read", op(stdnet.ErrClosed), net.ErrClosed},
	} {
		got := mapErr(c.op, "1.2.3.4:5", c.err)
		if !errors.Is(got, c.want) || !strings.Contains(got.Error(), "1.2.3.4:5") {
			t.Errorf("%s: %v gives %v, want %v", c.op, c.err, got, c.want)
		}
	}
	// A handshake that timed out says so for ever, so it is not a time-out of a read.
	for _, not := range []error{net.ErrTimeout, net.ErrReset, net.ErrClosed} {
		if errors.Is(mapErr("read", "a:1", context.DeadlineExceeded), not) {
			t.Errorf("a failed handshake reads as %v", not)
		}
	}
}
