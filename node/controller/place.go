package controller

import (
	"math/rand/v2"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"seedlog/node/meta"
)

// place draws the replicas of count partitions over the brokers of the cluster. Fenced
// brokers may follow and never lead; those in controlled shutdown get none.
func (s *State) place(first, count, factor int, rnd *rand.Rand) ([][]int32, *apiError) {
	var active, fenced []*meta.Broker
	for b := range s.image.Brokers() {
		switch {
		case b.Active():
			active = append(active, b)
		case b.Fenced:
			fenced = append(fenced, b)
		}
	}
	if len(active) == 0 {
		return nil, failf(kerr.InvalidReplicationFactor, "Unable to replicate the partition %d time(s): All brokers are currently fenced or in controlled shutdown.", factor)
	}
	if n := len(active) + len(fenced); factor > n {
		return nil, failf(kerr.InvalidReplicationFactor, "Unable to replicate the partition %d time(s): The target replication factor of %d cannot be reached because only %d broker(s) are registered.", factor, factor, n)
	}
	return Place(active, fenced, first, count, factor, rnd), nil
}

// Place draws the replicas of count partitions, beginning with the id first: no two of a
// partition on one broker, spread over racks as evenly as they allow, and leaders in turn
// over the active brokers. There must be at least one active broker, and factor of both.
func Place(active, fenced []*meta.Broker, first, count, factor int, rnd *rand.Rand) [][]int32 {
	leaders := interleave(active)
	start, shift := rnd.IntN(len(leaders)), rnd.IntN(len(leaders))
	out := make([][]int32, count)
	for i := range out {
		p := first + i
		// Each time round, the followers begin one further from their leader.
		out[i] = choose(leaders, fenced, start+p, 1+shift+p/len(leaders), factor)
	}
	return out
}

// interleave orders brokers so that neighbours are in different racks, where possible: one
// of each rack in turn.
func interleave(brokers []*meta.Broker) []*meta.Broker {
	var racks []string
	byRack := make(map[string][]*meta.Broker)
	for _, b := range brokers {
		r := rackOf(b)
		if byRack[r] == nil {
			racks = append(racks, r)
		}
		byRack[r] = append(byRack[r], b)
	}
	slices.Sort(racks)
	var out []*meta.Broker
	for turn := 0; len(out) < len(brokers); turn++ {
		for _, r := range racks {
			if turn < len(byRack[r]) {
				out = append(out, byRack[r][turn])
			}
		}
	}
	return out
}

func rackOf(b *meta.Broker) string {
	if b.Rack == nil {
		return ""
	}
	return *b.Rack
}

// choose picks the leader by its turn, then, from begin further on, the brokers whose rack
// has the fewest replicas so far; fenced brokers only where the active ones are all taken.
func choose(active, fenced []*meta.Broker, leader, begin, factor int) []int32 {
	used := make(map[string]int)
	out := make([]int32, 0, factor)
	take := func(b *meta.Broker) {
		out = append(out, b.ID)
		used[rackOf(b)]++
	}
	take(active[leader%len(active)])
	for len(out) < factor {
		b := fewest(active, leader+begin, out, used)
		if b == nil {
			b = fewest(fenced, leader+begin, out, used)
		}
		take(b)
	}
	return out
}

func fewest(brokers []*meta.Broker, begin int, taken []int32, used map[string]int) *meta.Broker {
	var best *meta.Broker
	for i := range brokers {
		b := brokers[(begin+i)%len(brokers)]
		if !slices.Contains(taken, b.ID) && (best == nil || used[rackOf(b)] < used[rackOf(best)]) {
			best = b
		}
	}
	return best
}
