package meta

import "slices"

// Directory ids that name no directory (KIP-858).
var (
	// DirMigrating: from before directories were assigned.
	DirMigrating = UUID{}
	// DirUnassigned: the broker will say which.
	DirUnassigned = UUID{15: 1}
	// DirLost: the broker lost it.
	DirLost = UUID{15: 2}
)

// Dir is the directory of a broker's replica; ok is false where nobody said.
func (p *Partition) Dir(broker int32) (dir UUID, ok bool) {
	at := slices.Index(p.Replicas, broker)
	if at < 0 || at >= len(p.Directories) {
		return DirMigrating, false
	}
	return p.Directories[at], true
}

// DirLost reports whether the broker's replica is in a directory that the broker does not
// have, or not any more.
func (p *Partition) DirLost(b *Broker) bool {
	dir, ok := p.Dir(b.ID)
	return ok && !HasDir(b.LogDirs, dir)
}

// HasDir reports whether a replica in dir is on one of a broker's directories, as far as
// one can tell.
func HasDir(dirs []UUID, dir UUID) bool {
	if ReservedUUID(dir) {
		return dir != DirLost
	}
	return len(dirs) == 0 || slices.Contains(dirs, dir)
}
