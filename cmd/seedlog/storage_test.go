package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// clusterFile is the settings of a combined node whose quorum is found by bootstrap servers.
func clusterFile(t *testing.T, more ...string) string {
	dir := t.TempDir()
	lines := append([]string{
		"node.id=1", "process.roles=broker,controller", "controller.listener.names=CONTROLLER",
		"listeners=PLAINTEXT://:9092,CONTROLLER://one:9093", "log.dirs=" + filepath.Join(dir, "data"),
		"controller.quorum.bootstrap.servers=one:9093",
	}, more...)
	return write(t, filepath.Join(dir, "server.properties"), strings.Join(lines, "\n"))
}

const aCluster = "AAAAAAAAQACAAAAAAAAAAA"

func TestFormatOfAClusterAsksWhoTheVotersAre(t *testing.T) {
	file := clusterFile(t)
	mistake(t, 2, []string{"storage", "format", "--config", file}, "--cluster-id is missing")
	mistake(t, 2, []string{"storage", "format", "--config", file, "-t", "x"}, "--cluster-id")
	mistake(t, 2, []string{"storage", "format", "--config", file, "-t", aCluster},
		"you must specify one of the following: --standalone, --initial-controllers, or --no-initial-controllers.")
	mistake(t, 2, []string{"storage", "format", "--config", file, "-t", aCluster, "-s", "-N"}, "standalone", "no-initial-controllers")
	mistake(t, 1, []string{"storage", "format", "--config", file, "-t", aCluster, "-I", "1@one"}, "write id@host:port:directoryId")
	mistake(t, 1, []string{"storage", "format", "--config", file, "-t", aCluster, "-s", "-f", "kraft.version=0"}, "Cannot set kraft.version to 0")
	mistake(t, 1, []string{"storage", "format", "--config", file, "-t", aCluster, "-N", "-r", "2.8"}, "Unknown release version '2.8'")
	mistake(t, 2, []string{"storage", "format", "--config", file, "-t", aCluster, "-N", "-f", "kraft.version"}, "write name=level")
	broker := clusterFile(t, "process.roles=broker", "listeners=PLAINTEXT://:9092")
	mistake(t, 2, []string{"storage", "format", "--config", broker, "-t", aCluster, "-s"}, "You can only use --standalone on a controller.")
	// Nothing was written by any of them; a node that is not formatted does not start.
	mistake(t, 1, []string{"start", "--config", file, "--set", "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"}, "not formatted")
}

func TestFormatOfACluster(t *testing.T) {
	checkpoint := "data/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
	for _, c := range []struct {
		settings []string
		flags    []string
		voters   bool
	}{
		{nil, []string{"--initial-controllers", "1@one:9093:AAAAAAAAQACAAAAAAAAAAQ,2@two:9093:AAAAAAAAQACAAAAAAAAAAg"}, true},
		{nil, []string{"--standalone", "--feature", "kraft.version=1"}, true},
		{nil, []string{"--no-initial-controllers", "--release-version", "4.1"}, false},
		{[]string{"controller.quorum.voters=1@one:9093"}, nil, false},
		{[]string{"process.roles=broker", "listeners=PLAINTEXT://:9092"}, nil, false},
	} {
		file := clusterFile(t, c.settings...)
		out := program(t, append([]string{"storage", "format", "--config", file, "--cluster-id", aCluster}, c.flags...)...)
		if !strings.Contains(out, "cluster.id="+aCluster) {
			t.Errorf("%v: %s", c.flags, out)
		}
		if c.flags != nil && strings.HasPrefix(c.flags[0], "--initial") && !strings.Contains(out, "directory.id=AAAAAAAAQACAAAAAAAAAAQ.") {
			t.Errorf("not the directory id that it was given: %s", out)
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(file), checkpoint)); (err == nil) != c.voters {
			t.Errorf("%v: checkpoint 0-0: %v", c.flags, err)
		}
	}
}

// program runs the program, which must succeed, and returns what it printed.
func program(t *testing.T, args ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), self, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}
