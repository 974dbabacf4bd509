package main

import (
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"seedlog/clock/live"
	"seedlog/clock/task"
	"seedlog/node/config"
	"seedlog/node/quorum"
)

func storageCommand() *cobra.Command {
	c := &cobra.Command{Use: "storage", Short: "Prepare data directories"}
	var f nodeFlags
	var clusterID string
	var ignore bool
	format := &cobra.Command{
		Use:     "format",
		Short:   "Format the directories of a node",
		Long:    "Format the directories of a node: write meta.properties, and the first metadata of a quorum of one. A directory that is formatted already is an error.",
		Example: "  seedlog storage format --config server.properties",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			props, err := f.properties()
			if err != nil {
				return err
			}
			cfg, _, err := config.Parse(props)
			if err != nil {
				return err
			}
			return formatDirs(c.OutOrStdout(), cfg, clusterID, ignore)
		},
	}
	f.register(format)
	format.Flags().StringVarP(&clusterID, "cluster-id", "t", "", "cluster id, 22 characters of base64; drawn if not given")
	format.Flags().BoolVarP(&ignore, "ignore-formatted", "g", false, "leave directories alone that are formatted already")
	c.AddCommand(format)
	return c
}

func formatDirs(w io.Writer, cfg *config.Config, clusterID string, ignore bool) error {
	rt := live.New(live.Options{})
	host := liveHost(rt, logSink{slog.New(slog.DiscardHandler)})
	var ids map[string]quorum.Identity
	var err error
	live.Main(rt, func(t *task.T) {
		spec := formatSpec(host, t, cfg, clusterID)
		spec.IgnoreFormatted = ignore
		ids, err = quorum.Format(t, host.Disk, spec)
	})
	if err != nil {
		return err
	}
	var dirs []string
	for d := range ids {
		dirs = append(dirs, d)
	}
	slices.Sort(dirs)
	for _, d := range dirs {
		fmt.Fprintf(w, "Formatted %s with cluster.id=%s directory.id=%v.\n", d, ids[d].ClusterID, ids[d].DirectoryID)
	}
	return nil
}
