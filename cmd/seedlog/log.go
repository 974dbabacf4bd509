package main

import (
	"bufio"
	"errors"

	"github.com/spf13/cobra"

	"seedlog/cmd/seedlog/dump"
)

func logCommand() *cobra.Command {
	c := &cobra.Command{Use: "log", Short: "Look into the files of a data directory"}
	c.AddCommand(logDumpCommand())
	return c
}

func logDumpCommand() *cobra.Command {
	var o dump.Options
	var files []string
	var metadata, offsets, transactions bool
	c := &cobra.Command{
		Use:   "dump [file...]",
		Short: "Print segments, indexes, snapshots and checkpoints",
		Long: `Print segments (.log), their indexes (.index, .timeindex, .txnindex), producer snapshots (.snapshot), metadata snapshots
(.checkpoint), checkpoints and property files, in the words of Kafka's log dump tool. Exits with 1 if a file is damaged.`,
		Example: `  seedlog log dump --print-data-log data/orders-0/00000000000000000000.log
  seedlog log dump data/orders-0/00000000000000000000.index data/orders-0/leader-epoch-checkpoint
  seedlog log dump --cluster-metadata-decoder data/__cluster_metadata-0/00000000000000000000.log`,
		RunE: func(c *cobra.Command, args []string) error {
			files = append(files, args...)
			if len(files) == 0 {
				return usagef("log dump: name at least one file")
			}
			switch {
			case metadata:
				o.Decoder = dump.ClusterMetadata
			case offsets:
				o.Decoder = dump.Offsets
			case transactions:
				o.Decoder = dump.TransactionLog
			}
			out := bufio.NewWriterSize(c.OutOrStdout(), 64<<10)
			o.Out, o.Err = out, c.ErrOrStderr()
			return errors.Join(dump.Files(files, o), out.Flush())
		},
	}
	f := c.Flags()
	f.StringSliceVar(&files, "files", nil, "files, separated by commas; the same as the arguments")
	f.BoolVar(&o.PrintDataLog, "print-data-log", false, "print keys and values too")
	f.BoolVar(&o.DeepIteration, "deep-iteration", false, "print every record, not only every batch")
	f.BoolVar(&o.SkipRecordMetadata, "skip-record-metadata", false, "with --print-data-log: keys and values alone")
	f.BoolVar(&o.VerifyIndexOnly, "verify-index-only", false, "check indexes against the log, print no entries")
	f.BoolVar(&o.IndexSanityCheck, "index-sanity-check", false, "check only what decides whether an index is rebuilt")
	f.Int64Var(&o.MaxBytes, "max-bytes", 0, "read no more of a segment than this; 0 reads all")
	f.BoolVar(&metadata, "cluster-metadata-decoder", false, "records are those of __cluster_metadata")
	f.BoolVar(&offsets, "offsets-decoder", false, "records are those of __consumer_offsets")
	f.BoolVar(&transactions, "transaction-log-decoder", false, "records are those of __transaction_state")
	c.MarkFlagsMutuallyExclusive("cluster-metadata-decoder", "offsets-decoder", "transaction-log-decoder")
	return c
}
