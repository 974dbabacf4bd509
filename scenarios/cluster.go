package scenarios

// afford reports whether the run's fault budget has room for a loss of the server's unsynced
// data.
func (r *Run) afford(*server) bool { return true }

// moreClasses are the faults of a cluster.
func (r *Run) moreClasses(*plan) []*class { return nil }
