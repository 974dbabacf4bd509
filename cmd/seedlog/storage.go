package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"seedlog/clock/live"
	"seedlog/clock/task"
	"seedlog/node"
	"seedlog/node/config"
	"seedlog/node/meta"
	"seedlog/node/quorum"
)

// formatFlags say what to format; the names are those of Kafka's tool.
type formatFlags struct {
	nodeFlags
	clusterID     string
	ignore        bool
	standalone    bool
	noControllers bool
	controllers   string
	release       string
	features      []string
}

func storageCommand() *cobra.Command {
	return family("storage", "Prepare data directories", formatCommand(), &cobra.Command{
		Use: "random-uuid", Short: "Print a new id, for a cluster or a directory", Example: "  seedlog storage random-uuid", Args: cobra.NoArgs,
		Run: func(c *cobra.Command, _ []string) { fmt.Fprintln(c.OutOrStdout(), randomID()) },
	})
}

func formatCommand() *cobra.Command {
	var f formatFlags
	c := &cobra.Command{
		Use:   "format",
		Short: "Format the directories of a node",
		Long: `Format the directories of a node: write meta.properties, and what the cluster begins with.

Who the voters of the metadata quorum are is said once, here:
  --initial-controllers     all of them, the same list on every node
  --standalone              this node alone; others can be added later
  --no-initial-controllers  none: this node joins a quorum that is there
  controller.quorum.voters  in the settings: a fixed set, without any of the flags
A node without other nodes in its settings is formatted as with --standalone. A directory that
is formatted already is an error.`,
		Example: "  seedlog storage format --config server.properties --cluster-id $(seedlog storage random-uuid) --standalone\n" +
			"  seedlog storage format --config server.properties -t AAAAAAAAQACAAAAAAAAAAA --initial-controllers 1@one:9093:AAAAAAAAQACAAAAAAAAAAQ,2@two:9093:AAAAAAAAQACAAAAAAAAAAg",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c.OutOrStdout()) },
	}
	f.register(c)
	fs := c.Flags()
	fs.StringVarP(&f.clusterID, "cluster-id", "t", "", "cluster id, 22 characters of base64; drawn for a node that is alone")
	fs.BoolVarP(&f.ignore, "ignore-formatted", "g", false, "leave directories alone that are formatted already")
	fs.BoolVarP(&f.standalone, "standalone", "s", false, "this controller is the only voter")
	fs.BoolVarP(&f.noControllers, "no-initial-controllers", "N", false, "no voters: the node joins a quorum")
	fs.StringVarP(&f.controllers, "initial-controllers", "I", "", "the voters: id@host:port:directoryId,...")
	fs.StringVarP(&f.release, "release-version", "r", "", "the release whose features the cluster begins with, as 4.0")
	fs.StringArrayVarP(&f.features, "feature", "f", nil, "a feature and its level, name=level; may be repeated")
	c.MarkFlagsMutuallyExclusive("standalone", "no-initial-controllers", "initial-controllers")
	return c
}

func (f *formatFlags) run(w io.Writer) error {
	props, err := f.properties()
	if err != nil {
		return err
	}
	cfg, _, err := config.Parse(props)
	if err != nil {
		return err
	}
	rt := live.New(live.Options{})
	host := liveHost(rt, logSink{slog.New(slog.DiscardHandler)})
	spec, err := f.spec(host, cfg)
	if err != nil {
		return err
	}
	before := make(map[string]bool) // formatted already, which --ignore-formatted allows
	for _, d := range append([]string{cfg.MetadataLogDir}, cfg.LogDirs...) {
		_, err := os.Stat(filepath.Join(d, "meta.properties"))
		before[d] = err == nil
	}
	var ids map[string]quorum.Identity
	live.Main(rt, func(t *task.T) {
		spec.UnixMilli = t.UnixMilli()
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
		what := "Formatted %s"
		if before[d] {
			what = "%s is formatted already,"
		}
		fmt.Fprintf(w, what+" with cluster.id=%s directory.id=%s.\n", d, ids[d].ClusterID, topicID(ids[d].DirectoryID))
	}
	return nil
}

// spec turns the flags and settings into what is written.
func (f *formatFlags) spec(h node.Host, cfg *config.Config) (quorum.FormatSpec, error) {
	spec := quorum.FormatSpec{
		LogDirs: cfg.LogDirs, MetadataLogDir: cfg.MetadataLogDir, NodeID: cfg.NodeID,
		ClusterID: f.clusterID, Entropy: h.Entropy, IgnoreFormatted: f.ignore,
	}
	if err := f.clusterIDError(cfg); err != nil {
		return spec, err
	}
	if err := f.voters(cfg, &spec); err != nil {
		return spec, err
	}
	features, err := parseFeatures(f.features)
	if err != nil {
		return spec, err
	}
	spec.Records, err = meta.InitialRecords(f.release, features, spec.Voters != quorum.NoVoters)
	return spec, err
}

func (f *formatFlags) clusterIDError(cfg *config.Config) error {
	if f.clusterID == "" {
		if cfg.Alone() {
			return nil
		}
		return usagef("--cluster-id is missing: the nodes of a cluster share one (seedlog storage random-uuid makes one)")
	}
	if _, err := meta.ParseUUID(f.clusterID); err != nil {
		return usagef("--cluster-id: %v", err)
	}
	return nil
}

// voters decides who the voters are, with Kafka's words for what is missing.
func (f *formatFlags) voters(cfg *config.Config, spec *quorum.FormatSpec) error {
	listeners := cfg.AdvertisedControllers()
	switch {
	case f.controllers != "":
		name := "CONTROLLER"
		if len(cfg.ControllerListeners) > 0 {
			name = cfg.ControllerListeners[0]
		}
		var err error
		spec.Voters = quorum.InitialVoters
		spec.Initial, err = quorum.ParseInitialVoters(f.controllers, name)
		return err
	case f.standalone && !cfg.IsController:
		return usagef("You can only use --standalone on a controller.")
	case f.noControllers, !f.standalone && len(cfg.Voters) > 0, !cfg.IsController:
		spec.Voters = quorum.NoVoters
		return nil
	case !f.standalone && !cfg.Alone():
		return usagef("Because controller.quorum.voters is not set on this controller, you must specify one of the following: --standalone, --initial-controllers, or --no-initial-controllers.")
	}
	if len(listeners) == 0 { // alone: nobody will ever connect to it
		listeners = cfg.AdvertisedBrokers()
	}
	l := listeners[0]
	spec.ControllerListener, spec.Host, spec.Port = l.Name, l.Host, uint16(l.Port)
	if l.Everywhere() {
		spec.Host = "localhost"
	}
	return nil
}

func parseFeatures(texts []string) ([]meta.FeatureLevel, error) {
	var out []meta.FeatureLevel
	for _, text := range texts {
		name, level, ok := strings.Cut(text, "=")
		n, err := strconv.ParseInt(level, 10, 16)
		if !ok || err != nil {
			return nil, usagef("--feature %q: write name=level", text)
		}
		out = append(out, meta.FeatureLevel{Name: strings.TrimSpace(name), Level: int16(n)})
	}
	return out, nil
}
