package controller

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/node/meta"
)

// altered adds what new settings mean at once: for the eligible leader replicas, and for
// partitions that wait for a leader.
func (s *State) altered(records []meta.Record, validateOnly bool, resp kmsg.Response, in Input) Decision {
	if validateOnly || len(records) == 0 {
		return Decision{Response: resp}
	}
	next := s.after(records)
	elr := s.elrEnabled() && sets(records, minISRName)
	if elr {
		s.minISRSetAt = in.NextOffset + int64(len(records)) - 1
	}
	unclean := sets(records, uncleanElectionName)
	if elr || unclean {
		records = append(records, next.settle(elr, unclean)...)
	}
	return Decision{Records: records, Response: resp}
}

func sets(records []meta.Record, name string) bool {
	return slices.ContainsFunc(records, func(r meta.Record) bool { return r.Body.(*meta.ConfigRecord).Name == name })
}

// settle looks at the partitions whose ELR may be needless now, or that may find a leader
// by an unclean election.
func (s *State) settle(elr, unclean bool) []meta.Record {
	var out []meta.Record
	for t := range s.image.Topics() {
		for id, p := range t.Partitions {
			if elr && len(p.ELR) > 0 || unclean && p.Leader < 0 {
				out = s.appendChange(out, s.begin(t, int32(id)))
			}
		}
	}
	return out
}
