package main

import (
	"net"
	"strings"
	"syscall"
	"testing"
)

// One broker that is down is not a cluster that is down.
func TestRefusedConnectionsAreExplained(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	if got := explain(refused, []string{addr}).Error(); !strings.HasPrefix(got, "a broker of this cluster is down") {
		t.Errorf("beside a broker that answers: %s", got)
	}
	l.Close()
	if got := explain(refused, []string{addr}).Error(); !strings.HasPrefix(got, "no broker answers at "+addr) {
		t.Errorf("beside none: %s", got)
	}
	if got := explain(net.ErrClosed, []string{addr}); got != net.ErrClosed {
		t.Errorf("another error: %v", got)
	}
}
