package raft

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The transcripts in testdata are stories of one node: a command a line, its effects
// indented below. UPDATE=1 go test ./node/raft writes them anew.

func (s ElectionState) String() string {
	return fmt.Sprintf("epoch=%d leader=%d voted=%d", s.Epoch, s.LeaderID, s.Voted.ID)
}

func show(c *Core, e Effects) string {
	var b strings.Builder
	if e.Persist != nil {
		fmt.Fprintf(&b, "  persist %s\n", e.Persist)
	}
	if e.Begin != nil {
		fmt.Fprintf(&b, "  begin epoch=%d voters=%v granting=%v\n", e.Begin.Epoch, ids(e.Begin.Voters), ids(e.Begin.Granting))
	}
	if e.HighWatermark >= 0 {
		fmt.Fprintf(&b, "  high watermark %d\n", e.HighWatermark)
	}
	if e.Resigned {
		b.WriteString("  resigned\n")
	}
	fmt.Fprintf(&b, "  %s in epoch %d\n", c.Role(), c.Epoch())
	return b.String()
}

// play runs one command of a transcript. The node is 1 with directory 7.
func play(c **Core, durable *ElectionState, line string) (string, error) {
	word, arg, _ := strings.Cut(line, " ")
	var n, m int64
	_, _ = fmt.Sscan(arg, &n, &m)
	var e Event
	switch word {
	case "boot": // log end, last epoch
		core, err := New(ReplicaKey{1, [16]byte{7}}, *durable, []ReplicaKey{{1, [16]byte{7}}}, n, int32(m))
		if err != nil {
			return "", err
		}
		*c = core
		return fmt.Sprintf("  %s in epoch %d\n", core.Role(), core.Epoch()), nil
	case "start":
		e = Start{}
	case "persisted":
		e = Persisted{}
	case "synced":
		e = Synced{n}
	case "failed":
		e = Failed{}
	case "voters":
		e = VotersChanged{[]ReplicaKey{{int32(n), [16]byte{7}}, {int32(m), [16]byte{8}}}}
	default:
		return "", fmt.Errorf("no command %q", word)
	}
	out := (*c).Step(e)
	if out.Persist != nil {
		*durable = *out.Persist
	}
	return show(*c, out), nil
}

func TestTranscripts(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txt")
	if len(files) == 0 {
		t.Fatal("no transcripts")
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		var c *Core
		durable := NoElection()
		for line := range strings.Lines(string(raw)) {
			line = strings.TrimRight(line, "\n")
			if strings.HasPrefix(line, "  ") {
				continue
			}
			got.WriteString(line + "\n")
			if line == "" || line[0] == '#' {
				continue
			}
			out, err := play(&c, &durable, line)
			if err != nil {
				t.Fatalf("%s: %v", f, err)
			}
			got.WriteString(out)
		}
		if os.Getenv("UPDATE") != "" {
			if err := os.WriteFile(f, []byte(got.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got.String() != string(raw) && os.Getenv("UPDATE") == "" {
			t.Errorf("%s: got\n%s", f, got.String())
		}
	}
}

func TestOtherVoterSetsAreRefused(t *testing.T) {
	self := ReplicaKey{1, [16]byte{7}}
	for _, voters := range [][]ReplicaKey{nil, {{2, [16]byte{7}}}, {{1, [16]byte{8}}}, {self, {2, [16]byte{9}}}} {
		if _, err := New(self, NoElection(), voters, 0, 0); !errors.Is(err, ErrVoters) {
			t.Errorf("%v: %v", voters, err)
		}
	}
	if _, err := New(self, NoElection(), []ReplicaKey{{ID: 1}}, 0, 0); err != nil {
		t.Errorf("a static voter is known by its id: %v", err)
	}
}

func TestMajorityEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ends := rapid.SliceOfN(rapid.Int64Range(0, 20), 1, 7).Draw(t, "ends")
		have := func(at int64) (n int) {
			for _, e := range ends {
				if e >= at {
					n++
				}
			}
			return n
		}
		hw := majorityEnd(append([]int64(nil), ends...))
		if have(hw) <= len(ends)/2 || have(hw+1) > len(ends)/2 {
			t.Fatalf("majority of %v at %d", ends, hw)
		}
	})
}

// TestOneLeaderAndOneVotePerEpoch kills the node at any step and boots it again with what
// was durable: no epoch begins twice, and the high watermark never goes back (I9, I10).
func TestOneLeaderAndOneVotePerEpoch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		self := ReplicaKey{1, [16]byte{7}}
		durable := NoElection()
		logEnd, logEpoch := int64(0), int32(0)
		begun := map[int32]bool{}
		for range rapid.IntRange(1, 6).Draw(t, "boots") {
			c, err := New(self, durable, []ReplicaKey{self}, logEnd, logEpoch)
			if err != nil {
				t.Fatal(err)
			}
			out := c.Step(Start{})
			hw := int64(0)
			for range rapid.IntRange(0, 8).Draw(t, "steps") {
				if out.Begin != nil {
					if begun[out.Begin.Epoch] {
						t.Fatalf("epoch %d begins twice", out.Begin.Epoch)
					}
					begun[out.Begin.Epoch] = true
					logEnd, logEpoch = logEnd+1, out.Begin.Epoch
				}
				if out.HighWatermark >= 0 {
					if out.HighWatermark < hw || out.HighWatermark > logEnd {
						t.Fatalf("high watermark %d after %d, log end %d", out.HighWatermark, hw, logEnd)
					}
					hw = out.HighWatermark
				}
				if out.Persist != nil {
					if rapid.Bool().Draw(t, "lost") {
						break // power fails before it is durable
					}
					if out.Persist.Epoch < durable.Epoch {
						t.Fatalf("epoch %d after %d", out.Persist.Epoch, durable.Epoch)
					}
					durable = *out.Persist
					out = c.Step(Persisted{})
					continue
				}
				if c.Role() == Leader && rapid.Bool().Draw(t, "append") {
					logEnd++
				}
				out = c.Step(Synced{logEnd})
			}
		}
	})
}
