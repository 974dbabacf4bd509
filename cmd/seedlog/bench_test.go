package main

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAHistogramIsRightWithinAThirtySecond(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var h histogram
	var all []float64
	for range 10_000 {
		d := time.Duration(r.Int64N(1<<r.Int64N(40)+1)) * time.Microsecond
		h.add(d)
		all = append(all, float64(d.Microseconds())/1000)
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.5, 0.95, 0.99, 0.999} {
		want, got := all[int(q*float64(len(all)))], h.quantile(q)
		if got > want || got < want*31/32-0.001 {
			t.Errorf("quantile %v: %v, really %v", q, got, want)
		}
	}
	for i := range bucketOf(math.MaxUint64) + 1 {
		if bucketOf(bucketStart(i)) != i {
			t.Fatalf("bucket %d begins at %d, which lies in bucket %d", i, bucketStart(i), bucketOf(bucketStart(i)))
		}
	}
}

func TestBenchBatchesAreAsLargeAsTheyMayBe(t *testing.T) {
	for _, c := range []struct{ size, records int }{{1, 1}, {16 << 10, 15}, {1 << 20, 1014}} {
		b, n, err := benchBatch(c.size, 1024)
		if err != nil || n != c.records {
			t.Errorf("%d records for %d bytes, want %d (%v)", n, c.size, c.records, err)
		}
		if len(b) > max(c.size, 1100) {
			t.Errorf("%d bytes, at most %d were asked for", len(b), c.size)
		}
	}
}

// The whole of bench limits, small: it says whether the numbers are there, not what they are.
func TestBenchLimitsMeasuresEverything(t *testing.T) {
	c := benchLimitsCommand()
	var out bytes.Buffer
	c.SetOut(&out)
	dir, err := os.MkdirTemp("/dev/shm", "seedlog-test-*")
	if err != nil {
		dir = t.TempDir()
	}
	defer os.RemoveAll(dir)
	c.SetArgs([]string{"--dir", dir, "--memory-dir", dir, "--rounds", "1", "--starts", "1", "--bytes", "4194304", "--format", "markdown"})
	if err := c.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| produce | 1048473 |", "| produce | 15556 |", "| produce | 1094 |", "| fetch | 1048473 |", "| flush.messages=1 | 1048473 |", "| flush.messages=1 | 15556 |", "| flush.messages=1 | 1094 |",
		"per produce", "per fetch", "exec to first acknowledged produce", "resident memory",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("it leaves %v behind (%v)", left, err)
	}
}

// The whole of bench cluster, small.
func TestBenchClusterMeasuresEverything(t *testing.T) {
	t.Parallel()
	c := benchClusterCommand()
	var out bytes.Buffer
	c.SetOut(&out)
	dir, err := os.MkdirTemp("/dev/shm", "seedlog-test-*")
	if err != nil {
		dir = t.TempDir()
	}
	defer os.RemoveAll(dir)
	c.SetArgs([]string{"--memory-dir", dir, "--rounds", "1", "--bytes", "4194304", "--requests", "100", "--window", "50ms", "--format", "markdown"})
	if err := c.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| 1048473 |", "| 15556 |", "| 1094 |", "one node, acks=1", "cluster, acks=all", "≥ 0.20", "≥ 0.95"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it left %v behind (%v)", left, err)
	}
}

func TestLoadToolsReadWhatTheyWrote(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	err := nodeHere(dir, func(addr string) error {
		var out bytes.Buffer
		produce, consume := benchProduceCommand(), benchConsumeCommand()
		produce.SetOut(&out)
		consume.SetOut(&out)
		produce.SetArgs([]string{"load", "-b", addr, "-n", "5000", "--record-size", "100", "--partitions", "2", "-z", "lz4"})
		consume.SetArgs([]string{"load", "-b", addr, "-n", "5000"})
		if err := produce.ExecuteContext(t.Context()); err != nil {
			return err
		}
		if err := consume.ExecuteContext(t.Context()); err != nil {
			return err
		}
		if n := strings.Count(out.String(), "5000 records, 0.5 MB"); n != 2 || !strings.Contains(out.String(), "p99 ") {
			t.Errorf("printed\n%s", out.String())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestLogDumpTakesDirectories(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	err := nodeHere(dir, func(addr string) error {
		c := produceCommand()
		c.SetIn(strings.NewReader("hello\n"))
		c.SetOut(new(bytes.Buffer))
		c.SetArgs([]string{"orders", "-b", addr})
		return c.ExecuteContext(t.Context())
	})
	if err != nil {
		t.Fatal(err)
	}
	c := logDumpCommand()
	var out, errs bytes.Buffer
	c.SetOut(&out)
	c.SetErr(&errs)
	c.SetArgs([]string{dir, "--print-data-log"})
	if err := c.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	for _, want := range []string{"payload: hello", "quorum-state", "meta.properties", "partition.metadata", ".timeindex", ".snapshot"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in the dump", want)
		}
	}
	c.SetArgs([]string{filepath.Join(dir, "nothing")})
	if err := c.ExecuteContext(t.Context()); err == nil {
		t.Error("a file that is not there was dumped")
	}
}
