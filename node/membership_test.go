package node_test

import (
	"fmt"
	"testing"
	"time"
)

func TestThreeNodesComeUp(t *testing.T) {
	for _, static := range []bool{false, true} {
		t.Run(fmt.Sprint("static=", static), func(t *testing.T) {
			c := newCluster(t, 3, static, nil)
			began := time.Now()
			c.start()
			t.Logf("up after %v", time.Since(began))
			adm := c.admin()
			defer adm.Close()
			md, err := adm.BrokerMetadata(timeout(t))
			if err != nil || len(md.Brokers) != 3 || md.Cluster != clusterID {
				t.Fatalf("%v %v", md, err)
			}
		})
	}
}
