package port

import (
	"errors"
	"fmt"
	"net"
	"testing"
)

// from has the search begin at a port, and go on where it was after the test.
func from(t *testing.T, p int) {
	t.Helper()
	before := next.port
	next.port = p
	t.Cleanup(func() { next.port = before })
}

func TestRowsDoNotOverlap(t *testing.T) {
	from(t, after-7) // and the search goes around
	seen := map[int]bool{}
	for range 5 {
		p, err := Free(3)
		if err != nil {
			t.Fatal(err)
		}
		for i := p; i < p+3; i++ {
			if i < first || i >= after || seen[i] {
				t.Errorf("port %d was named twice, or is one that connections leave from", i)
			}
			seen[i] = true
		}
	}
}

func TestAUsedPortIsInNoRow(t *testing.T) {
	p, err := Free(3)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p+1))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	from(t, p)
	got, err := Free(3)
	if err != nil || got <= p+1 {
		t.Errorf("port %d is used, and a row of three begins at %d (%v)", p+1, got, err)
	}
	if _, err := Free(after - first + 1); !errors.Is(err, ErrNone) {
		t.Errorf("a row of all ports: %v", err)
	}
}
