package simdisk

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"seedlog/clock/task"
	"seedlog/disk"
)

// filled is n bytes of v.
func filled(v byte, n int) []byte { return bytes.Repeat([]byte{v}, n) }

// want fails unless every named outcome was seen in some seed.
func want(t *testing.T, seen map[string]int, names ...string) {
	t.Helper()
	for _, n := range names {
		if seen[n] == 0 {
			t.Errorf("never seen: %s (seen: %v)", n, seen)
		}
	}
}

// counted is how many sectors the files hold that can be found.
func counted(d *Disk) (n int64) {
	d.eachFile(d.root, "", func(_ string, f *inode) { n += f.held })
	return n
}

// A file is appended to, synced somewhere, and appended to again.
func TestPowerLossOfAnAppendedFile(t *testing.T) {
	const synced, total = 1700, 9000
	seen := map[string]int{}
	for seed := range uint64(400) {
		m := newMachine(t, seed, Config{Latency: None{}})
		m.boot(t, func(tk *task.T, d *Mount) {
			f := must(d.Open(tk, "/data/f", disk.Create))
			must(f.WriteAt(tk, filled('s', synced), 0))
			check(f.Sync(tk))
			check(d.SyncDir(tk, "/data"))
			for off := synced; off < total; off += 100 {
				must(f.WriteAt(tk, filled('u', 100), int64(off)))
			}
		})
		m.d.PowerLoss()
		if got, want := m.d.used, counted(m.d); got != want {
			t.Fatalf("seed %d: %d sectors are said to be used, and files hold %d", seed, got, want)
		}
		b, ok := m.d.ReadFile("/data/f")
		if !ok || len(b) < synced || !bytes.Equal(b[:synced], filled('s', synced)) {
			t.Fatalf("seed %d: synced bytes were lost: %d bytes", seed, len(b))
		}
		rest := b[synced:]
		kept := bytes.Count(rest, []byte{'u'})
		lead := len(rest) - len(bytes.TrimLeft(rest, "u"))
		zeros := bytes.Count(rest, []byte{0})
		switch {
		case len(rest) > total-synced:
			t.Fatalf("seed %d: %d bytes, more than were written", seed, len(b))
		case len(rest) == 0:
			seen["none"]++
		case kept == total-synced:
			seen["all"]++
		case lead == len(rest):
			seen["exact prefix"]++
			if (synced+lead)%sectorSize != 0 {
				seen["torn sector"]++
			}
		case kept+zeros == len(rest) && lead < kept:
			seen["holes of zeros"]++
		case kept+zeros == len(rest):
			seen["size ahead, zeros"]++
		default:
			seen["garbage"]++
		}
	}
	want(t, seen, "none", "all", "exact prefix", "torn sector", "holes of zeros", "size ahead, zeros", "garbage")
}

func TestUnsyncedTruncateComesUndoneOrNot(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(200) {
		m := newMachine(t, seed, Config{Latency: None{}})
		m.boot(t, func(tk *task.T, d *Mount) {
			f := must(d.Open(tk, "/data/f", disk.Create))
			must(f.WriteAt(tk, filled('s', 3000), 0))
			check(f.Sync(tk))
			check(d.SyncDir(tk, "/data"))
			check(f.Truncate(tk, 1000))
		})
		m.d.PowerLoss()
		b, _ := m.d.ReadFile("/data/f")
		if !bytes.Equal(b, filled('s', len(b))) {
			t.Fatalf("seed %d: a truncation changed bytes below or above it: %d bytes, %d intact", seed, len(b), bytes.Count(b, []byte{'s'}))
		}
		seen[fmt.Sprint(len(b))]++
	}
	want(t, seen, "1000", "3000")
	if len(seen) != 2 {
		t.Errorf("sizes other than before and after: %v", seen)
	}
}

// Whatever a file went through, after a power loss each byte is one that it had since the
// last Sync, or, above the synced size, anything. Without changes since, nothing changes.
func TestPowerLossKeepsWhatWasSynced(t *testing.T) {
	for seed := range uint64(300) {
		m := newMachine(t, seed, Config{Latency: None{}})
		r := rand.New(rand.NewPCG(seed, 1))
		var cur, synced []byte
		var past [][]byte // contents since the last Sync
		m.boot(t, func(tk *task.T, d *Mount) {
			f := must(d.Open(tk, "/data/f", disk.Create))
			check(d.SyncDir(tk, "/data"))
			check(f.Sync(tk))
			for step := range 5 + r.IntN(40) {
				switch r.IntN(8) {
				case 0:
					check(f.Sync(tk))
					synced, past = slices.Clone(cur), nil
				case 1:
					size := r.IntN(6000)
					check(f.Truncate(tk, int64(size)))
					cur = resize(cur, size)
				case 2:
					off, n := r.IntN(5000), 1+r.IntN(3000)
					check(f.PunchHole(tk, int64(off), int64(n)))
					if off < len(cur) {
						clear(cur[off:min(off+n, len(cur))])
					}
				default:
					off, n := r.IntN(5000), 1+r.IntN(1500)
					must(f.WriteAt(tk, filled(byte(step+1), n), int64(off)))
					cur = resize(cur, max(len(cur), off+n))
					copy(cur[off:], filled(byte(step+1), n))
				}
				past = append(past, slices.Clone(cur))
				if got, _ := m.d.ReadFile("/data/f"); !bytes.Equal(got, cur) {
					t.Fatalf("seed %d step %d: the file is not what was written", seed, step)
				}
				if got, _ := m.d.ReadDurable("/data/f"); !bytes.Equal(got, synced) {
					t.Fatalf("seed %d step %d: durable are %d bytes, not the %d synced", seed, step, len(got), len(synced))
				}
			}
		})
		m.d.PowerLoss()
		got, ok := m.d.ReadFile("/data/f")
		if !ok {
			t.Fatalf("seed %d: the name was lost", seed)
		}
		if dur, _ := m.d.ReadDurable("/data/f"); !bytes.Equal(dur, got) {
			t.Fatalf("seed %d: after a power loss what can be read is not what is durable", seed)
		}
		past = append(past, synced)
		checkPossible(t, seed, got, synced, past)
	}
}

func resize(b []byte, n int) []byte {
	if n <= len(b) {
		return b[:n:n]
	}
	return append(slices.Clone(b), make([]byte, n-len(b))...)
}

func checkPossible(t *testing.T, seed uint64, got, synced []byte, past [][]byte) {
	t.Helper()
	lo, hi, lowest := len(synced), len(synced), len(synced)
	for _, p := range past {
		lo, hi, lowest = min(lo, len(p)), max(hi, len(p)), min(lowest, len(p))
	}
	if len(got) < lo || len(got) > hi {
		t.Fatalf("seed %d: size %d is not between %d and %d", seed, len(got), lo, hi)
	}
	for i, b := range got {
		possible := i >= lowest // cut or never durable: anything
		for _, p := range past {
			possible = possible || i < len(p) && p[i] == b
		}
		if !possible {
			t.Fatalf("seed %d: byte %d is %d, which it never was since the last Sync", seed, i, b)
		}
	}
}

func TestNamesAreDurableAfterSyncDir(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(300) {
		m := newMachine(t, seed, Config{Latency: None{}})
		m.boot(t, func(tk *task.T, d *Mount) {
			check(d.MkdirAll(tk, "/data/t-0"))
			for _, n := range []string{"a", "b", "gone"} {
				check(must(d.Open(tk, "/data/t-0/"+n, disk.Create)).Close(tk))
			}
			check(d.SyncDir(tk, "/data"))
			check(d.SyncDir(tk, "/data/t-0"))
			check(d.Remove(tk, "/data/t-0/gone"))
			check(must(d.Open(tk, "/data/t-0/new", disk.Create)).Close(tk))
			check(d.Rename(tk, "/data/t-0/a", "/data/t-0/a2"))
		})
		m.d.PowerLoss()
		names := map[string]bool{}
		for _, i := range m.d.List("/data/t-0") {
			names[i.Name] = true
		}
		if !names["b"] {
			t.Fatalf("seed %d: a durable name was lost: %v", seed, names)
		}
		if names["a"] == names["a2"] {
			t.Fatalf("seed %d: a rename was torn: %v", seed, names)
		}
		for _, n := range []string{"a", "a2", "new", "gone"} {
			if names[n] {
				seen[n]++
			} else {
				seen["no "+n]++
			}
		}
	}
	want(t, seen, "a", "a2", "new", "no new", "gone", "no gone")
}

// The way to replace a small file, and the ways that lose it.
func TestReplacingAFile(t *testing.T) {
	replace := func(syncFile bool) map[string]int {
		seen := map[string]int{}
		for seed := range uint64(300) {
			m := newMachine(t, seed, Config{Latency: None{}})
			m.d.WriteFile("/data/f", []byte("old"))
			m.boot(t, func(tk *task.T, d *Mount) {
				f := must(d.Open(tk, "/data/f.tmp", disk.Create))
				must(f.WriteAt(tk, []byte("new!"), 0))
				if syncFile {
					check(f.Sync(tk))
				}
				check(f.Close(tk))
				check(d.Rename(tk, "/data/f.tmp", "/data/f"))
				if seed%2 == 0 && syncFile {
					check(d.SyncDir(tk, "/data"))
				}
			})
			m.d.PowerLoss()
			b, ok := m.d.ReadFile("/data/f")
			if !ok {
				t.Fatalf("seed %d: the file is neither old nor new", seed)
			}
			if seed%2 == 0 && syncFile && string(b) != "new!" {
				t.Fatalf("seed %d: a durable replacement was lost: %q", seed, b)
			}
			seen[string(b)]++
		}
		return seen
	}
	seen := replace(true)
	want(t, seen, "old", "new!")
	if len(seen) != 2 {
		t.Errorf("with a sync there is a third outcome: %v", seen)
	}
	want(t, replace(false), "old", "new!", "")
}

func TestEveryFateIsDrawn(t *testing.T) {
	var sum [numFates]Counter
	for seed := range uint64(100) {
		m := newMachine(t, seed, Config{Latency: None{}})
		m.boot(t, func(tk *task.T, d *Mount) {
			for i := range 4 {
				f := must(d.Open(tk, fmt.Sprint("/data/", i), disk.Create))
				must(f.WriteAt(tk, filled('x', 3000), 0))
			}
			check(d.SyncDir(tk, "/data"))
		})
		m.d.PowerLoss()
		for f, c := range m.d.Fates() {
			sum[f].Fired += c.Fired
			sum[f].Effective += c.Effective
		}
		if c := m.d.Count(PowerLost); c.Fired != 1 {
			t.Fatalf("one power loss counts as %d", c.Fired)
		}
	}
	for f, c := range sum {
		if c.Fired < 50 || (Fate(f) != FateAll && c.Effective < c.Fired/2) {
			t.Errorf("fate %s: %+v", Fate(f), c)
		}
	}
	if sum[FateAll].Effective != 0 {
		t.Errorf("losing nothing had an effect: %+v", sum[FateAll])
	}
}

// A crash inside a call falls before its effect in some seeds and after it in others, and
// between two pages of a large write.
func TestCallsAreCrashPointsOnBothSides(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(300) {
		m := newMachine(t, seed, Config{})
		m.boot(t, func(tk *task.T, d *Mount) {
			f := must(d.Open(tk, "/data/f", disk.Create))
			tk.Go("killer", func(k *task.T) {
				for len(m.d.List("/data")) == 0 {
					k.Park(k.Now().Add(1000))
				}
				k.Park(k.Now().Add(5_000))
				d.Kill()
				k.Runtime().(interface{ Kill() }).Kill()
			})
			f.WriteAt(tk, filled('x', 20_000), 100)
			tk.ParkHard()
		})
		size, _ := m.d.Size("/data/f")
		switch {
		case size == 0:
			seen["before"]++
		case size == 20_100:
			seen["after"]++
		case size%pageSize == 0:
			seen["between pages"]++
		default:
			t.Fatalf("seed %d: killed at %d", seed, size)
		}
	}
	want(t, seen, "before", "after", "between pages")
}
