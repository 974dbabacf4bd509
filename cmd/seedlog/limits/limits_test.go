//go:build linux

package limits

import (
	"context"
	"os"
	"strings"
	"testing"
)

func small(dir string) Config {
	return Config{Dir: dir, Frame: 1024, Bytes: 200 << 10, InFlight: 8, Rounds: 3}
}

func TestEveryLoopMeasures(t *testing.T) {
	for name, loop := range map[string]func(context.Context, Config) (Result, error){
		"produce": Produce, "fetch": Fetch, "sync": Sync,
	} {
		for _, frame := range []int{1, 1024, 70_001} {
			dir := t.TempDir()
			c := small(dir)
			c.Frame = frame
			c.Bytes = int64(frame) * 70 // more than one group, and not a whole number of them
			rounds := 0
			c.Progress = func(string, int, int, int) { rounds++ }
			r, err := loop(t.Context(), c)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if len(r.MBps) != 3 || rounds != 3 || r.Min() <= 0 || r.Min() > r.Median() || r.Median() > r.Max() {
				t.Errorf("%s: %+v after %d rounds", name, r, rounds)
			}
			if !strings.Contains(r.String(), name) {
				t.Errorf("%s", r)
			}
			if left, _ := os.ReadDir(dir); len(left) != 0 {
				t.Errorf("%s leaves %v behind", name, left)
			}
		}
	}
}

// What the loops move arrives: the file holds the frames, and the client read the file.
func TestLoopsMoveTheBytes(t *testing.T) {
	c := small(t.TempDir())
	f, err := os.CreateTemp(c.Dir, "x")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const frames = 100
	if err := c.produce(f, frames); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(f.Name())
	if err != nil || len(b) != frames*c.Frame || !strings.HasPrefix(string(b), string(c.pattern())) {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	if err := c.fetch(f, frames); err != nil {
		t.Fatal(err)
	}
	if err := c.fetch(f, frames+1); err == nil {
		t.Fatal("a file that is too short was fetched in full")
	}
}

func TestBadInputAndCancellation(t *testing.T) {
	c := small(t.TempDir())
	c.Frame = 0
	if _, err := Produce(t.Context(), c); err == nil {
		t.Error("a frame of no bytes was measured")
	}
	c = small(t.TempDir() + "/none")
	if _, err := Sync(t.Context(), c); err == nil {
		t.Error("measured in a directory that does not exist")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := Fetch(ctx, small(t.TempDir())); err == nil {
		t.Errorf("a cancelled run measured %v", r)
	}
}

func BenchmarkLimits(b *testing.B) {
	for _, frame := range []int{1 << 20, 16 << 10, 1 << 10} {
		c := Config{Dir: b.TempDir(), Frame: frame, Bytes: int64(min(256<<20, frame*50_000)), InFlight: 8, Rounds: 1}
		for _, loop := range []func(context.Context, Config) (Result, error){Produce, Fetch} {
			r, err := loop(b.Context(), c)
			if err != nil {
				b.Fatal(err)
			}
			b.Log(r)
		}
	}
}
