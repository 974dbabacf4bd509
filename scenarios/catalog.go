package scenarios

import (
	"encoding/base64"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/scenarios/client"
)

// catalog is what the metadata says there is, by the name of the partition's directory.
type catalog map[string][16]byte

// changesSettle is longer than a change goes on whose client has gone: the controller still
// commits it, and its directories are made before the brokers' answers show it.
const changesSettle = 30 * time.Second

// readCatalog asks the broker for all topics, when nothing changes any more.
func (r *Run) readCatalog() (c catalog, ok bool) {
	r.World.Run(nil, changesSettle)
	var failure error
	ok = r.Do("catalog", readWithin, func(t *task.T, e *client.Env) {
		p := client.Open(t, e)
		defer p.Close()
		req := kmsg.NewPtrMetadataRequest()
		req.Version, req.Topics = 12, nil
		resp, err := p.Call(t, req)
		if err != nil {
			failure = err
			return
		}
		c = make(catalog)
		for _, topic := range resp.(*kmsg.MetadataResponse).Topics {
			for _, part := range topic.Partitions {
				c[fmt.Sprintf("%s-%d", *topic.Topic, part.Partition)] = topic.TopicID
			}
		}
	})
	if failure != nil {
		r.Failf("liveness", "catalog", "%v", failure)
	}
	return c, ok && failure == nil
}

// judgeCatalog is I32 for directories: each belongs to a topic of the metadata, by its id, and
// each partition has one.
func (g *guard) judgeCatalog(c catalog) {
	found := make(map[string]bool)
	for _, path := range g.Dirs() {
		name := base(path)
		found[name] = true
		id, stored := g.topicID(path)
		switch want, live := c[name]; {
		case !live:
			g.r.Failf("I32", path, "is the directory of a partition that the metadata does not have")
		case stored && id != want:
			g.r.Failf("I32", path, "belongs to topic id %x, the metadata says %x", id, want)
		}
	}
	for _, t := range g.r.Topics {
		for i := range t.Partitions {
			if name := fmt.Sprintf("%s-%d", t.Name, i); !found[name] {
				g.r.Failf("I32", name, "has no directory")
			}
		}
	}
}

// topicID reads the id in a directory's partition.metadata.
func (g *guard) topicID(path string) (id [16]byte, ok bool) {
	b, _ := g.Files.ReadFile(path + "/partition.metadata")
	var text string
	if _, err := fmt.Sscanf(string(b), "version: 0\ntopic_id: %s", &text); err != nil {
		return id, false
	}
	n, err := base64.RawURLEncoding.Decode(id[:], []byte(text))
	return id, err == nil && n == len(id)
}
