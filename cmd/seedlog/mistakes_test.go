package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mistake runs the program, which must end by itself with the code and one line on stderr
// that has all of want in it.
func mistake(t *testing.T, code int, args []string, want ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, self, args...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	var lines []string
	for line := range strings.Lines(errs.String()) {
		if !strings.HasPrefix(line, "time=") || strings.Contains(line, "level=ERROR") { // what was logged before
			lines = append(lines, line)
		}
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("%v: exit code %d, want %d\n%s", args, got, code, errs.String())
	}
	if len(lines) != 1 || out.Len() > 0 {
		t.Errorf("%v: %d lines, want one\n%s%s", args, len(lines), out.String(), errs.String())
		return
	}
	for _, w := range want {
		if !strings.Contains(lines[0], w) {
			t.Errorf("%v: no %q in %q", args, w, lines[0])
		}
	}
	t.Logf("%s", strings.TrimSpace(lines[0]))
}

// formatted is a data directory with meta.properties.
func formatted(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	b, err := startBenchBroker(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.kill)
	c, err := b.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.close()
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestALockedDirectoryAndATakenPortAreOneLine(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	b, err := startBenchBroker(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer b.kill()
	c, err := b.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	mistake(t, 1, []string{"start", "--listen", "127.0.0.1:0", "--data-dir", dir}, dir, "lock")
	mistake(t, 1, []string{"start", "--listen", b.addr, "--data-dir", t.TempDir()}, b.addr, "in use")
}

func TestADamagedIdentityIsOneLine(t *testing.T) {
	dir := formatted(t)
	path := filepath.Join(dir, "meta.properties")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	start := []string{"start", "--listen", "127.0.0.1:0", "--data-dir", dir}
	for name, text := range map[string]string{
		"empty":      "",
		"cut":        string(good[:len(good)/2]),
		"garbage":    "\x00\xff\x00\xff garbage",
		"no node":    strings.Replace(string(good), "node.id=", "nodeid=", 1),
		"version 9":  strings.Replace(string(good), "version=1", "version=9", 1),
		"other node": strings.Replace(string(good), "node.id=1", "node.id=7", 1),
	} {
		t.Run(name, func(t *testing.T) {
			write(t, path, text)
			mistake(t, 1, start, path)
		})
	}
	write(t, path, string(good))
	mistake(t, 1, append(start, "--set", "node.id=2"), path, "2")

	// A directory of another cluster beside it.
	other := formatted(t)
	mistake(t, 1, append(start, "--set", "log.dirs="+dir+","+other), other)
	// And one that was never formatted.
	empty := t.TempDir()
	mistake(t, 1, append(start, "--set", "log.dirs="+dir+","+empty), empty, "meta.properties")
}

func TestDirectoriesThatCannotBeUsedAreOneLine(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "file"), "")
	mistake(t, 1, []string{"start", "--listen", "127.0.0.1:0", "--data-dir", file}, file)
	mistake(t, 1, []string{"start", "--listen", "127.0.0.1:0", "--data-dir", filepath.Join(file, "below")}, file)
	mistake(t, 1, []string{"start", "--listen", "127.0.0.1:0", "--data-dir", "/proc/self/fdinfo"}, "/proc/self/fdinfo")
	if os.Getuid() == 0 {
		t.Log("NOT TESTED: a directory without permission, for root may write everywhere")
		return
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	mistake(t, 1, []string{"start", "--listen", "127.0.0.1:0", "--data-dir", dir}, dir, "permission denied")
}

func TestWrongSettingsAreOneLine(t *testing.T) {
	dir := t.TempDir()
	start := func(args ...string) []string {
		return append([]string{"start", "--listen", "127.0.0.1:0", "--data-dir", dir}, args...)
	}
	mistake(t, 1, start("--set", "num.partitions=many"), "num.partitions", "many")
	mistake(t, 1, start("--set", "num.partitions=0"), "num.partitions", "at least 1")
	mistake(t, 1, start("--set", "log.segment.bytes=12"), "log.segment.bytes", "at least")
	mistake(t, 1, start("--set", "listeners=nonsense"), "listeners", "nonsense")
	mistake(t, 1, start("--set", "listeners=SSL://127.0.0.1:0"), "SSL", "PLAINTEXT")
	mistake(t, 2, start("--set", "num.partitions"), "name=value")
	mistake(t, 1, []string{"start", "--listen", "127.0.0.1:99999999", "--data-dir", dir}, "99999999")
	mistake(t, 1, []string{"start", "--config", filepath.Join(dir, "nothing.properties")}, "nothing.properties")
	mistake(t, 1, []string{"start", "--config", write(t, filepath.Join(dir, "bad.properties"), "a=1\nb=\\u00\n")}, "bad.properties", "line 2")
	mistake(t, 2, []string{"begin"}, "unknown command", "begin")
	mistake(t, 2, start("now"), "now")
	mistake(t, 2, start("--port", "9"), "unknown flag", "--port")

	// A name that is not known is a warning: the node runs.
	b, err := startBenchBroker(filepath.Join(t.TempDir(), "data"), "zookeeper.connect=here")
	if err != nil {
		t.Fatal(err)
	}
	defer b.kill()
	c, err := b.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.close()
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(b.log.Name())
	if err != nil || !strings.Contains(string(log), "zookeeper.connect") {
		t.Errorf("no warning of an unknown setting: %v\n%s", err, log)
	}
}

// With a file the directories have to be formatted: an unmounted disk must not become an
// empty voter.
func TestAFileWithUnformattedDirectoriesIsOneLine(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	file := write(t, filepath.Join(dir, "server.properties"), "node.id=1\nlog.dirs="+data+"\nlisteners=PLAINTEXT://127.0.0.1:0\n")
	mistake(t, 1, []string{"start", "--config", file}, data, "meta.properties")
	left, err := os.ReadDir(data)
	for _, e := range left {
		if name := e.Name(); err != nil || name != ".lock" && name != ".ballast" {
			t.Errorf("it left %v (%v)", left, err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(self, "storage", "format", "--config", file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	mistake(t, 1, []string{"storage", "format", "--config", file}, data, "formatted")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	// Formatted now: it comes as far as the port.
	mistake(t, 1, []string{"start", "--config", file, "--listen", ln.Addr().String()}, "in use")
}

// A cluster that was made of three nodes is not one of two: they would wait for the third.
func TestDevWithOtherNodesIsOneLine(t *testing.T) {
	dir := t.TempDir()
	for i := range 3 {
		data := filepath.Join(dir, "node-"+string(rune('1'+i)), "data")
		if err := os.MkdirAll(data, 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(data, "meta.properties"), "version=1\n")
	}
	mistake(t, 1, []string{"dev", "--nodes", "2", "--port", "39200", "--data-dir", dir}, "node-3", "--nodes")
	mistake(t, 1, []string{"dev", "--nodes", "4", "--port", "39200", "--data-dir", dir}, "node-4", "not formatted")
	mistake(t, 2, []string{"dev", "--set", "num.partitions", "--data-dir", dir}, "name=value")
}

func TestWordsThatNoCommandHasAreOneLine(t *testing.T) {
	for _, family := range []string{"topic", "cluster", "quorum", "storage", "log", "bench"} {
		mistake(t, 2, []string{family, "remove", "orders"}, "unknown command", `"remove"`, family)
	}
}

func TestWordsThatCobraRefusesAreTheUsersMistake(t *testing.T) {
	for want, args := range map[string][]string{
		"unknown command":           {"frobnicate"},
		"unknown flag":              {"cluster", "health", "--nope"},
		"invalid argument":          {"topic", "create", "orders", "-p", "x"},
		"needs an argument":         {"topic", "create", "orders", "-p"},
		"accepts at most 1":         {"topic", "delete", "orders", "payments"},
		"none of the others can be": {"storage", "format", "--standalone", "--no-initial-controllers", "--data-dir", t.TempDir()},
	} {
		mistake(t, 2, args, want)
	}
}

// Nobody who waits for a broker, a topic or a partition that is not there is left without a word.
func TestWhatIsNotThereIsOneLine(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := ln.Addr().String()
	ln.Close()
	mistake(t, 1, []string{"produce", "orders", "-b", nobody}, "no broker answers at "+nobody)
	mistake(t, 1, []string{"consume", "orders", "-b", nobody}, "no broker answers at "+nobody)

	b, _ := runningBroker(t)
	mistake(t, 1, []string{"consume", "orders", "-b", b.addr}, "orders", "UNKNOWN_TOPIC_OR_PARTITION")
	mistake(t, 1, []string{"consume", "orders", "-g", "billing", "-b", b.addr}, "orders", "UNKNOWN_TOPIC_OR_PARTITION")
	// What cannot be printed is not begun: the topic is not there afterwards.
	mistake(t, 2, []string{"topic", "create", "orders", "--format", "yaml", "-b", b.addr}, "--format", "yaml")
	mistake(t, 1, []string{"topic", "describe", "orders", "-b", b.addr}, "UNKNOWN_TOPIC_OR_PARTITION")
	if out, errs, code := ran(t, "", "topic", "create", "orders", "-b", b.addr); code != 0 {
		t.Fatalf("%s%s", out, errs)
	}
	mistake(t, 1, []string{"consume", "orders", "-p", "0,7", "-b", b.addr}, "no partition orders-7")
	mistake(t, 1, []string{"consume", "orders", "-p", "7", "-e", "-b", b.addr}, "no partition orders-7")
}
