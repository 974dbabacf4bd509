package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/checker"
	"seedlog/scenarios"
)

// judgeCatalog is I32: each directory of a stopped node belongs to a replica that the metadata,
// as a node last told it, assigns to the node, by topic id; and each replica has one.
func judgeCatalog(m *kmsg.MetadataResponse, nodes []*node, v *checker.Verdict) {
	type replica struct {
		id       [16]byte
		replicas []int32
	}
	known := make(map[string]replica)
	for _, t := range m.Topics {
		for _, p := range t.Partitions {
			known[fmt.Sprintf("%s-%d", *t.Topic, p.Partition)] = replica{t.TopicID, p.Replicas}
		}
	}
	for _, n := range nodes {
		found := make(map[string]bool)
		for _, path := range (&scenarios.Judge{Files: osFiles{}, LogDirs: []string{n.data()}}).Dirs() {
			name := filepath.Base(path)
			where, id := fmt.Sprintf("node %d, %s", n.id, name), topicID(path)
			found[name] = true
			switch p, ok := known[name]; {
			case !ok:
				v.Failf("I32", where, "is the directory of a partition that the metadata does not have")
			case id != base64.RawURLEncoding.EncodeToString(p.id[:]):
				v.Failf("I32", where, "belongs to topic id %s, the metadata says %x", id, p.id)
			case !slices.Contains(p.replicas, int32(n.id)):
				v.Failf("I32", where, "belongs to no replica: these are %v", p.replicas)
			}
		}
		for name, p := range known { //order: each that is wrong is said
			if slices.Contains(p.replicas, int32(n.id)) && !found[name] {
				v.Failf("I32", fmt.Sprintf("node %d, %s", n.id, name), "has no directory")
			}
		}
	}
}

// topicID is the topic id that a partition's directory carries, as text; empty if it has none.
func topicID(path string) (id string) {
	b, err := os.ReadFile(filepath.Join(path, "partition.metadata"))
	if err != nil {
		return ""
	}
	_, _ = fmt.Sscanf(string(b), "version: 0\ntopic_id: %s", &id) // nothing was found: empty
	return id
}
