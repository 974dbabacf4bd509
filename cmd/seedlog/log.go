package main

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"seedlog/cmd/seedlog/dump"
	"seedlog/storage/checkpoint"
)

func logCommand() *cobra.Command {
	return family("log", "Look into the files of a data directory", logDumpCommand())
}

type dumpFlags struct {
	dump.Options
	files                         []string
	clusterMetadata, offsets, txn bool
	quiet                         bool
}

func logDumpCommand() *cobra.Command {
	var f dumpFlags
	c := &cobra.Command{
		Use:   "dump FILE...",
		Short: "Print segments, indexes, snapshots, checkpoints and property files",
		Long: `Dump prints the files of a data directory, of ours or of Apache Kafka, in the lines of
Kafka's own tool. What a file is, its name says; of a directory all files are printed that
a broker writes. It reads, and never writes, a directory that a broker uses, too.

It exits with 1 if anything is not as it should be.`,
		Example: `  seedlog log dump seedlog-data/orders-0/00000000000000000000.log --print-data-log
  seedlog log dump seedlog-data/orders-0
  seedlog log dump --cluster-metadata-decoder seedlog-data/__cluster_metadata-0/*.log`,
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, args) },
	}
	fl := c.Flags()
	fl.StringSliceVar(&f.files, "files", nil, "files, as Kafka's tool takes them: a,b,...")
	fl.BoolVar(&f.PrintDataLog, "print-data-log", false, "print keys and values of records")
	fl.BoolVar(&f.DeepIteration, "deep-iteration", false, "print every record, not only every batch")
	fl.BoolVar(&f.SkipRecordMetadata, "skip-record-metadata", false, "with --print-data-log: keys and values alone")
	fl.BoolVar(&f.VerifyIndexOnly, "verify-index-only", false, "check indexes without printing them")
	fl.BoolVar(&f.IndexSanityCheck, "index-sanity-check", false, "check only what decides whether an index is rebuilt")
	fl.BoolVar(&f.clusterMetadata, "cluster-metadata-decoder", false, "decode records of the metadata log")
	fl.BoolVar(&f.offsets, "offsets-decoder", false, "decode records of __consumer_offsets")
	fl.BoolVar(&f.txn, "transaction-log-decoder", false, "decode records of __transaction_state")
	fl.Int64Var(&f.MaxBytes, "max-bytes", 0, "read at most this much of a segment; 0 reads all")
	fl.BoolVar(&f.quiet, "no-progress", false, "no progress bar on a terminal")
	return c
}

func (f *dumpFlags) run(c *cobra.Command, args []string) error {
	paths, err := dumpPaths(append(slices.Clone(f.files), args...))
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		return usagef("name a file or a directory")
	}
	if f.Decoder, err = f.decoder(); err != nil {
		return err
	}
	out := bufio.NewWriterSize(c.OutOrStdout(), 64<<10)
	f.Out, f.Err = out, c.ErrOrStderr()
	bar := f.bar(paths)
	var failed []error
	for _, p := range paths {
		if err := dump.Files([]string{p}, f.Options); err != nil {
			failed = append(failed, err)
		}
		if info, err := os.Stat(p); err == nil {
			_ = bar.Add64(info.Size()) // a bar that cannot be drawn is nobody's loss
		}
	}
	_ = bar.Finish()
	return errors.Join(append(failed, out.Flush())...)
}

func (f *dumpFlags) decoder() (dump.Decoder, error) {
	d, n := dump.Text, 0
	for _, o := range []struct {
		set bool
		is  dump.Decoder
	}{{f.clusterMetadata, dump.ClusterMetadata}, {f.offsets, dump.Offsets}, {f.txn, dump.TransactionLog}} {
		if o.set {
			d = o.is
			n++
		}
	}
	if n > 1 {
		return d, usagef("choose one decoder")
	}
	return d, nil
}

// bar shows progress by bytes on standard error if somebody is there to see it, and the dump
// itself goes elsewhere.
func (f *dumpFlags) bar(paths []string) *progressbar.ProgressBar {
	total := int64(0)
	for _, p := range paths {
		if info, err := os.Stat(p); err == nil {
			total += info.Size()
		}
	}
	return newBar(total, "dumping", true, f.quiet || term.IsTerminal(int(os.Stdout.Fd())))
}

// newBar is a progress bar on standard error, silent where that is no terminal.
func newBar(total int64, what string, bytes, quiet bool) *progressbar.ProgressBar {
	if quiet || !term.IsTerminal(int(os.Stderr.Fd())) {
		return progressbar.DefaultSilent(total)
	}
	if bytes {
		return progressbar.DefaultBytes(total, what)
	}
	return progressbar.Default(total, what)
}

// dumpPaths replaces directories by the files in them that a broker writes, in the order of
// their names.
func dumpPaths(args []string) ([]string, error) {
	var out []string
	for _, a := range args {
		info, err := os.Stat(a)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			out = append(out, a)
			continue
		}
		err = filepath.WalkDir(a, func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && dumpable(d.Name()) {
				out = append(out, p)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// dumpable tells whether a file found in a directory is one to print.
func dumpable(name string) bool {
	for _, suffix := range []string{".deleted", ".cleaned", ".swap"} {
		name = strings.TrimSuffix(name, suffix)
	}
	switch filepath.Ext(name) {
	case ".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint":
		return true
	}
	switch name {
	case checkpoint.RecoveryPointFile, checkpoint.HighWatermarkFile, checkpoint.LogStartOffsetFile, checkpoint.LeaderEpochFile,
		checkpoint.PartitionMetadataFile, checkpoint.MetaPropertiesFile, checkpoint.QuorumStateFile, checkpoint.CleanShutdownFile:
		return true
	}
	return false
}
