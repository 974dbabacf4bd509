package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Four topics at a time are made and deleted so often: 200 times in all.
const recreations = 50

// Topics are made, written to and deleted 200 times while one node after the other is killed and
// comes back: in the end each node has the directories and the open files of a cluster without.
func TestRecreatedTopicsLeaveNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("200 topics take seconds: not with -short")
	}
	d := startDev(t, 3, "50ms", "broker.session.timeout.ms=1500", "broker.heartbeat.interval.ms=200", "log.segment.delete.delay.ms=50")
	d.await("healthy", func(h health) bool { return h.Healthy })
	cl, err := kgo.NewClient(kgo.SeedBrokers(d.brokers...), kgo.AlwaysRetryEOF(), kgo.RetryTimeout(20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	const topics = 4
	failed := make(chan error, topics)
	done := make(chan int, topics*recreations)
	for i := range topics {
		go func() {
			r := recreator{admin: kadm.NewClient(cl), brokers: d.brokers, topic: fmt.Sprint("again-", i)}
			for k := range recreations {
				if err := r.cycle(t.Context(), k%10 == 0); err != nil {
					failed <- fmt.Errorf("cycle %d of %s: %w", k, r.topic, err)
					return
				}
				done <- k
			}
		}()
	}
	for n := range topics * recreations {
		if n%60 == 30 {
			d.kill(1 + n/60) // each of them once
		}
		select {
		case err := <-failed:
			t.Fatal(err)
		case <-done:
		}
	}
	d.await("healthy again", func(h health) bool { return h.Healthy })
	var left []string
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); <-time.After(200 * time.Millisecond) {
		if left = d.leftovers(); len(left) == 0 {
			return
		}
	}
	t.Errorf("left behind: %q", left)
}

// recreator makes a topic and deletes it.
type recreator struct {
	admin   *kadm.Client
	brokers []string
	topic   string
}

func (r recreator) cycle(ctx context.Context, write bool) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	err := insist(ctx, kerr.TopicAlreadyExists, func() error {
		_, err := r.admin.CreateTopic(ctx, 2, 3, nil, r.topic)
		return err // that there are too few nodes ends when the one is back that was killed
	})
	if err == nil && write {
		err = insist(ctx, kerr.TopicAlreadyExists, func() error { return r.write(ctx) })
	}
	if err == nil {
		err = insist(ctx, kerr.UnknownTopicOrPartition, func() error {
			_, err := r.admin.DeleteTopic(ctx, r.topic)
			return err
		})
	}
	return err
}

// write writes with a client of its own: others remember the topic of that name before. So may a
// node that is behind, and the client ends with UNKNOWN_TOPIC_ID when it hears better.
func (r recreator) write(ctx context.Context) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(r.brokers...), kgo.AlwaysRetryEOF(), kgo.UnknownTopicRetries(-1))
	if err != nil {
		return err
	}
	defer cl.Close()
	return cl.ProduceSync(ctx, &kgo.Record{Topic: r.topic, Value: []byte("v")}).FirstErr()
}

// insist tries until it works or an error says that it had worked before.
func insist(ctx context.Context, done error, try func() error) error {
	for {
		err := try()
		if err == nil || errors.Is(err, done) {
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		<-time.After(20 * time.Millisecond)
	}
}

// leftovers are the directories of partitions, and the open files that are gone or are theirs,
// of a cluster without topics.
func (d *devCluster) leftovers() (left []string) {
	d.t.Helper()
	for id := 1; id <= len(d.brokers); id++ {
		_ = filepath.WalkDir(d.node(id), func(path string, e os.DirEntry, err error) error {
			if err == nil && e.IsDir() && strings.Contains(e.Name(), "again-") {
				left = append(left, path)
			}
			return nil // it may go while it is looked at
		})
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.process(id)))
		if err != nil {
			d.t.Fatalf("node %d: %v", id, err)
		}
		var open []string
		for _, fd := range fds {
			to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", d.process(id), fd.Name()))
			if err != nil || !strings.HasPrefix(to, d.dir) {
				continue
			}
			if strings.Contains(to, "again-") || strings.HasSuffix(to, " (deleted)") || slices.Contains(open, to) && !strings.HasSuffix(to, "/log") {
				left = append(left, "open: "+to)
			}
			open = append(open, to)
		}
		if !slices.ContainsFunc(open, func(to string) bool { return strings.Contains(to, "__cluster_metadata-0/") }) {
			left = append(left, fmt.Sprintf("node %d has no metadata log open: %q", id, open))
		}
	}
	return left
}
