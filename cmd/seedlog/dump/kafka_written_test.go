package dump_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedlog/cmd/seedlog/dump"
)

// TestKafkasFilesAreDumpedAsItsToolDumpsThem: dumps/*.txt in the directory that Kafka wrote are
// the words of its own tool on the same files.
func TestKafkasFilesAreDumpedAsItsToolDumpsThem(t *testing.T) {
	root := filepath.Join("..", "..", "..", "testdata", "kafka-written")
	options := map[string]dump.Options{
		"append-time-0":         {DeepIteration: true, PrintDataLog: true},
		"codecs-0":              {DeepIteration: true, PrintDataLog: true},
		"txn-0":                 {DeepIteration: true, PrintDataLog: true},
		"__cluster_metadata-0":  {Decoder: dump.ClusterMetadata},
		"__consumer_offsets-0":  {Decoder: dump.Offsets},
		"__transaction_state-0": {Decoder: dump.TransactionLog},
	}
	golden, err := filepath.Glob(filepath.Join(root, "dumps", "*.txt"))
	if err != nil || len(golden) != len(options) {
		t.Fatalf("%d dumps of Kafka's, want %d: %v", len(golden), len(options), err)
	}
	for _, file := range golden {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		o := options[name]
		o.Out, o.Err = &b, &b
		if err := dump.Files(dumped(t, filepath.Join(root, name)), o); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(string(want), strings.ReplaceAll(b.String(), root, "kafka-written")); diff != "" {
			t.Errorf("%s (-Kafka's +ours):\n%s", name, diff)
		}
	}
}

// dumped are the files of a partition that both tools know.
func dumped(t *testing.T, dir string) (files []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		switch filepath.Ext(e.Name()) {
		case ".log", ".index", ".timeindex", ".txnindex", ".snapshot":
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files
}
