package config

import (
	"slices"
	"strconv"
	"strings"
)

// ThrottledReplicas says which replicas of a topic the replication throttle is for.
type ThrottledReplicas struct {
	all  bool
	list []throttledReplica
}

type throttledReplica struct {
	partition, broker int32
}

// Has reports whether the replica of a partition on a broker is throttled.
func (r *ThrottledReplicas) Has(partition, broker int32) bool {
	return r.all || len(r.list) > 0 && slices.Contains(r.list, throttledReplica{partition, broker})
}

// parseThrottled reads "*" or "partition:broker,...". What is neither names no replica.
func parseThrottled(text string) ThrottledReplicas {
	var r ThrottledReplicas
	for _, e := range SplitList(text) {
		if e == "*" {
			return ThrottledReplicas{all: true}
		}
		p, b, _ := strings.Cut(e, ":")
		partition, err1 := strconv.ParseInt(strings.TrimSpace(p), 10, 32)
		broker, err2 := strconv.ParseInt(strings.TrimSpace(b), 10, 32)
		if err1 == nil && err2 == nil {
			r.list = append(r.list, throttledReplica{int32(partition), int32(broker)})
		}
	}
	return r
}
