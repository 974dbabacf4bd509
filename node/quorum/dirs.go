package quorum

import (
	"errors"
	"fmt"
	"slices"

	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/node/meta"
	"seedlog/storage/checkpoint"
	"seedlog/storage/record"
)

// Names of the files beside the logs.
const (
	metaPropertiesFile = "meta.properties"
	bootstrapFile      = "bootstrap.checkpoint"
	quorumStateFile    = "quorum-state"
)

// Errors of Format and Load, wrapped with the file's path.
var (
	// ErrFormatted: a directory is formatted already.
	ErrFormatted = errors.New("directory is already formatted")
	// ErrForeign: a directory belongs to another cluster or another node.
	ErrForeign = errors.New("directory belongs to somebody else")
)

// Identity is who a log directory belongs to: its meta.properties.
type Identity struct {
	ClusterID   string
	NodeID      int32
	DirectoryID meta.UUID
}

// FormatSpec says what to format.
type FormatSpec struct {
	LogDirs        []string
	MetadataLogDir string // one of LogDirs, or one of its own
	ClusterID      string // empty: drawn
	NodeID         int32
	Entropy        func([]byte) // for ids
	UnixMilli      int64
	// Voters say who the quorum's voters are.
	Voters Voters
	// ControllerListener, Host and Port are how this node's controller can be reached, for
	// Standalone.
	ControllerListener, Host string
	Port                     uint16
	// Initial are the voters, this node's key among them if it is one, for InitialVoters.
	Initial []record.Voter
	// Records are what the cluster begins with; nil is meta.BootstrapRecords.
	Records []meta.Record
	// IgnoreFormatted leaves directories alone that are formatted already.
	IgnoreFormatted bool
}

// Voters say who the voters of a new directory's quorum are.
type Voters uint8

const (
	// Standalone: this node, a quorum of one, whose voters can change (kraft.version 1).
	Standalone Voters = iota
	// InitialVoters: those of FormatSpec.Initial; their set can change.
	InitialVoters
	// NoVoters: nothing is written about voters. They are the configured ones
	// (controller.quorum.voters, kraft.version 0), or the quorum that is found through
	// controller.quorum.bootstrap.servers.
	NoVoters
)

// Format makes new log directories, as Kafka's "storage format" does: meta.properties and
// bootstrap.checkpoint in each, and in the metadata directory of a quorum with dynamic
// voters the checkpoint 0-0 that names them. meta.properties comes last: a directory with
// it is complete. It returns the identities by directory.
func Format(t *task.T, d disk.Disk, spec FormatSpec) (map[string]Identity, error) {
	dirs := allDirs(spec.LogDirs, spec.MetadataLogDir)
	found, err := Load(t, d, spec.NodeID, dirs)
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		if err := found.Unreadable[dir]; err != nil {
			return nil, err
		}
	}
	ids := found.IDs
	if len(ids) > 0 && !spec.IgnoreFormatted {
		for _, dir := range dirs {
			if _, ok := ids[dir]; ok {
				return nil, fmt.Errorf("%w: %s", ErrFormatted, dir)
			}
		}
	}
	for _, dir := range dirs {
		id, ok := ids[dir]
		if !ok {
			continue
		}
		if spec.ClusterID == "" {
			spec.ClusterID = id.ClusterID
		}
		if id.ClusterID != spec.ClusterID {
			return nil, fmt.Errorf("%w: %s/%s has cluster.id %s, not %s", ErrForeign, dir, metaPropertiesFile, id.ClusterID, spec.ClusterID)
		}
	}
	if spec.ClusterID == "" {
		spec.ClusterID = meta.UUIDString(drawID(spec.Entropy))
	}
	for _, dir := range found.Missing {
		id := Identity{spec.ClusterID, spec.NodeID, spec.directoryID(dir)}
		if err := formatDir(t, d, dir, id, spec); err != nil {
			return nil, fmt.Errorf("formatting %s: %w", dir, err)
		}
		ids[dir] = id
	}
	return ids, nil
}

func allDirs(logDirs []string, metadataLogDir string) []string {
	dirs := slices.Clone(logDirs)
	if metadataLogDir != "" && !slices.Contains(dirs, metadataLogDir) {
		dirs = append(dirs, metadataLogDir)
	}
	return dirs
}

// drawID draws an id: a UUID of version 4 that does not look like a flag of a command line.
func drawID(entropy func([]byte)) meta.UUID {
	var id meta.UUID
	for {
		entropy(id[:])
		id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
		if meta.UUIDString(id)[0] != '-' {
			return id
		}
	}
}

// metadataDir is the directory that holds the metadata log.
func (s *FormatSpec) metadataDir() string {
	if s.MetadataLogDir != "" {
		return s.MetadataLogDir
	}
	return s.LogDirs[0]
}

// directoryID is the id of a new directory: that of an initial voter is given.
func (s *FormatSpec) directoryID(dir string) meta.UUID {
	if s.Voters == InitialVoters && dir == s.metadataDir() {
		for _, v := range s.Initial {
			if v.ID == s.NodeID {
				return v.DirectoryID
			}
		}
	}
	return drawID(s.Entropy)
}

func formatDir(t *task.T, d disk.Disk, dir string, id Identity, spec FormatSpec) error {
	if err := makeDir(t, d, dir); err != nil {
		return err
	}
	records := spec.Records
	if records == nil {
		records = meta.BootstrapRecords()
	}
	bootstrap, err := encodeSnapshot(snapshotSpec{unixMilli: spec.UnixMilli, records: slices.Values(records)})
	if err != nil {
		return err
	}
	if err := checkpoint.Replace(t, d, dir+"/"+bootstrapFile, bootstrap); err != nil {
		return err
	}
	if dir == spec.metadataDir() && spec.Voters != NoVoters {
		if err := formatQuorum(t, d, dir, id, spec); err != nil {
			return err
		}
	}
	return checkpoint.WriteMetaProperties(t, d, dir+"/"+metaPropertiesFile,
		checkpoint.MetaProperties{ClusterID: id.ClusterID, NodeID: id.NodeID, DirectoryID: id.DirectoryID})
}

// formatQuorum writes who the voters are.
func formatQuorum(t *task.T, d disk.Disk, dir string, id Identity, spec FormatSpec) error {
	path := dir + "/" + ClusterMetadata + "-0"
	if err := makeDir(t, d, path); err != nil {
		return err
	}
	voters := spec.Initial
	if spec.Voters == Standalone {
		voters = []record.Voter{{ID: id.NodeID, DirectoryID: id.DirectoryID, MaxKRaftVersion: meta.KRaftVersion,
			Endpoints: []record.VoterEndpoint{{Name: spec.ControllerListener, Host: spec.Host, Port: spec.Port}}}}
	}
	b, err := encodeSnapshot(snapshotSpec{unixMilli: spec.UnixMilli, lastTimestamp: spec.UnixMilli, kraftVersion: meta.KRaftVersion, voters: voters})
	if err != nil {
		return err
	}
	return checkpoint.Replace(t, d, path+"/"+SnapshotName(0, 0), b)
}

// makeDir makes a directory and its name durable. What is above it is the operator's.
func makeDir(t *task.T, d disk.Disk, path string) error {
	if err := d.MkdirAll(t, path); err != nil {
		return err
	}
	if err := d.SyncDir(t, parentOf(path)); err != nil && !errors.Is(err, disk.ErrNotExist) {
		return err
	}
	return nil
}

// Found is what Load read, by directory.
type Found struct {
	IDs        map[string]Identity
	Missing    []string         // have no meta.properties
	Unreadable map[string]error // have, or may have, one that the disk does not give
}

// Load reads the meta.properties of each directory. That the disk does not give one is for the
// caller to judge, who may do without the directory. The error of a damaged file, or of one of
// another cluster or node, names the file.
func Load(t *task.T, d disk.Disk, nodeID int32, dirs []string) (Found, error) {
	found := Found{IDs: make(map[string]Identity, len(dirs)), Unreadable: map[string]error{}}
	var first, firstDir string
	for _, dir := range dirs {
		path := dir + "/" + metaPropertiesFile
		p, err := checkpoint.ReadMetaProperties(t, d, path)
		switch {
		case errors.Is(err, disk.ErrNotExist):
			found.Missing = append(found.Missing, dir)
			continue
		case errors.Is(err, checkpoint.ErrDamaged):
			return Found{}, err
		case err != nil:
			found.Unreadable[dir] = err
			continue
		}
		if p.NodeID != nodeID {
			return Found{}, fmt.Errorf("%w: %s has node.id %d, and this node is %d", ErrForeign, path, p.NodeID, nodeID)
		}
		if first == "" {
			first, firstDir = p.ClusterID, dir
		}
		if p.ClusterID != first {
			return Found{}, fmt.Errorf("%w: %s has cluster.id %s, and %s/%s has %s", ErrForeign, path, p.ClusterID, firstDir, metaPropertiesFile, first)
		}
		for _, other := range dirs {
			if o, ok := found.IDs[other]; ok && o.DirectoryID == p.DirectoryID && p.DirectoryID != (meta.UUID{}) {
				return Found{}, fmt.Errorf("%w: %s has the directory.id of %s: one is a copy of the other", ErrForeign, path, other)
			}
		}
		found.IDs[dir] = Identity{p.ClusterID, p.NodeID, p.DirectoryID}
	}
	return found, nil
}
