// Package dump prints the files of a data directory for people: segments of every version,
// their indexes, producer snapshots, metadata snapshots, checkpoints and property files. Its
// lines are those of Kafka's log dump tool, so that scripts and eyes find what they know.
//
// It reads and never writes, trusts no length, and goes on behind what it cannot read as far as
// that is possible. It knows nothing of a running node.
package dump

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Decoder says how keys and values of records are shown.
type Decoder int

// The decoders. Text is for people's own topics; the others know the internal ones.
const (
	Text Decoder = iota
	ClusterMetadata
	Offsets
	TransactionLog
)

// Options are the flags of the command, named as Kafka's.
type Options struct {
	PrintDataLog       bool // keys and values; implies DeepIteration
	DeepIteration      bool // every record, not only every batch
	SkipRecordMetadata bool // with PrintDataLog: key and value alone
	VerifyIndexOnly    bool // do not print index entries
	IndexSanityCheck   bool // only what decides whether an index is rebuilt
	Decoder            Decoder
	// MaxBytes bounds how much of a segment is read; 0 means all of it.
	MaxBytes int64
	Out      io.Writer // what was asked for
	Err      io.Writer // what is wrong with it
}

// ErrMismatch says that a file was read and is not what it should be; Err has the details.
var ErrMismatch = errors.New("the dump found damage")

// inflatedMaxBytes bounds what one batch may inflate to.
const inflatedMaxBytes = 1 << 30

// Files dumps the files one after another. It goes on after a file that fails, and returns the
// errors of all.
func Files(paths []string, o Options) error {
	var failed []error
	for _, p := range paths {
		if err := File(p, o); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", p, err))
		}
	}
	return errors.Join(failed...)
}

// File dumps one file; what kind it is, its name says.
func File(path string, o Options) error {
	if o.PrintDataLog || o.Decoder != Text {
		o.PrintDataLog, o.DeepIteration = true, true
	}
	d := &dumper{Options: o, path: path, name: kindName(path)}
	fmt.Fprintf(d.Out, "Dumping %s\n", path)
	if err := d.file(); err != nil {
		return err
	}
	if d.mismatches > 0 {
		return fmt.Errorf("%w: %d places", ErrMismatch, d.mismatches)
	}
	return nil
}

// dumper dumps one file.
type dumper struct {
	Options
	path       string
	name       string // without directory, and without .deleted, .swap or .cleaned
	mismatches int
}

func kindName(path string) string {
	name := filepath.Base(path)
	for _, suffix := range []string{".deleted", ".cleaned", ".swap"} {
		name = strings.TrimSuffix(name, suffix)
	}
	return name
}

func (d *dumper) file() error {
	switch filepath.Ext(d.name) {
	case ".log":
		base, err := d.baseOffset()
		if err != nil {
			return err
		}
		fmt.Fprintf(d.Out, "Log starting offset: %d\n", base)
		return d.log()
	case ".checkpoint":
		return d.metadataSnapshot()
	case ".index":
		return d.offsetIndex()
	case ".timeindex":
		return d.timeIndex()
	case ".txnindex":
		return d.txnIndex()
	case ".snapshot":
		return d.producerSnapshot()
	}
	return d.smallFile()
}

// baseOffset is the number that the file's name begins with.
func (d *dumper) baseOffset() (int64, error) {
	digits, _, _ := strings.Cut(d.name, ".")
	base, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || base < 0 {
		return 0, fmt.Errorf("the name of %s does not begin with an offset", d.path)
	}
	return base, nil
}

// metadataSnapshot dumps <offset>-<epoch>.checkpoint or bootstrap.checkpoint.
func (d *dumper) metadataSnapshot() error {
	if d.name == "bootstrap.checkpoint" {
		fmt.Fprintln(d.Out, "KRaft bootstrap snapshot")
		return d.log()
	}
	offset, epoch, ok := strings.Cut(strings.TrimSuffix(d.name, ".checkpoint"), "-")
	o, err1 := strconv.ParseInt(offset, 10, 64)
	e, err2 := strconv.ParseInt(epoch, 10, 32)
	if !ok || err1 != nil || err2 != nil {
		return fmt.Errorf("the name of %s is not <offset>-<epoch>.checkpoint", d.path)
	}
	fmt.Fprintf(d.Out, "Snapshot end offset: %d, epoch: %d\n", o, e)
	return d.log()
}

// wrong reports damage and goes on.
func (d *dumper) wrong(format string, args ...any) {
	d.mismatches++
	fmt.Fprintf(d.Err, format+"\n", args...)
}

// read reads a whole file of at most max bytes.
func (d *dumper) read(max int64) ([]byte, error) {
	f, err := os.Open(d.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, max+1))
	if err == nil && int64(len(b)) > max {
		err = fmt.Errorf("%w: larger than %d bytes", fs.ErrInvalid, max)
	}
	return b, err
}
