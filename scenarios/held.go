package scenarios

import (
	"slices"

	"seedlog/checker/history"
)

// holds looks for a record on the disk of the broker at an address, as the broker would read it
// now. It costs the run nothing: no task waits, nothing is drawn.
func (r *Run) holds(log int, digest uint64, addr string) history.Held {
	i := slices.IndexFunc(r.servers, func(s *server) bool { return s.Addr() == addr })
	if i < 0 || !r.servers[i].Up() {
		return history.Unseen
	}
	return r.servers[i].guard.holds(r.Rec.Name(log), digest)
}

// holds looks for a record in the log of a partition.
func (j *Judge) holds(name string, digest uint64) history.Held {
	for _, path := range j.Dirs() {
		if base(path) != name {
			continue
		}
		records := resolve(j.ParseLogs(path), 0).Records
		if slices.ContainsFunc(records, func(s history.Seen) bool { return s.Digest == digest }) {
			return history.Has
		}
	}
	return history.Hasnt
}
