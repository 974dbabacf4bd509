package config

import "testing"

func TestThrottledReplicasOfATopic(t *testing.T) {
	cfg, _, err := Parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	topic := cfg.Topic(map[string]string{
		"leader.replication.throttled.replicas":   "0:1, 2:3",
		"follower.replication.throttled.replicas": "*",
	})
	for _, c := range []struct {
		partition, broker int32
		want              bool
	}{{0, 1, true}, {2, 3, true}, {0, 3, false}, {1, 1, false}} {
		if got := topic.LeaderThrottled.Has(c.partition, c.broker); got != c.want {
			t.Errorf("leader %d:%d is throttled: %t", c.partition, c.broker, got)
		}
		if !topic.FollowerThrottled.Has(c.partition, c.broker) {
			t.Errorf("follower %d:%d is not throttled by *", c.partition, c.broker)
		}
	}
	if unset := cfg.Topic(nil); unset.LeaderThrottled.Has(0, 1) || unset.FollowerThrottled.Has(0, 1) {
		t.Error("throttled by default")
	}
}
