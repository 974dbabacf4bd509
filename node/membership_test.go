package node_test

import (
	"fmt"
	"testing"
	"time"
)

// A node that serves has seen itself in the metadata, and the others may have not yet.
func (c *cluster) await(what string, holds func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Fatalf("after 30 s: not %s", what)
		}
	}
}

func TestThreeNodesComeUp(t *testing.T) {
	for _, static := range []bool{false, true} {
		t.Run(fmt.Sprint("static=", static), func(t *testing.T) {
			c := newCluster(t, 3, static, nil)
			c.start()
			adm := c.admin()
			defer adm.Close()
			c.await("all brokers known", func() bool {
				md, err := adm.BrokerMetadata(timeout(t))
				return err == nil && len(md.Brokers) == 3 && md.Cluster == clusterID
			})
		})
	}
}
