package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func topicCommand() *cobra.Command {
	return family("topic", "Create, list, describe, move and delete topics",
		topicCreate(), topicList(), topicDescribe(), topicDelete(), topicReassign(), topicElect())
}

func topicCreate() *cobra.Command {
	var f clientFlags
	var partitions int32
	var replicas int16
	var configs []string
	var topic string
	var ifNotExists bool
	c := &cobra.Command{
		Use:     "create TOPIC",
		Short:   "Create a topic",
		Example: "  seedlog topic create orders -p 3 -c retention.ms=3600000",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			name, err := topicArg(args, topic)
			if err != nil {
				return err
			}
			settings := make(map[string]*string)
			for _, kv := range configs {
				k, v, ok := strings.Cut(kv, "=")
				if !ok {
					return usagef("--config %q: write name=value", kv)
				}
				settings[k] = &v
			}
			return f.admin(c, func(ctx context.Context, a *kadm.Client) error {
				r, err := a.CreateTopic(ctx, partitions, replicas, settings, name)
				if ifNotExists && errors.Is(err, kerr.TopicAlreadyExists) {
					return nil
				}
				if err != nil {
					return detailed(err, r.ErrMessage)
				}
				made := map[string]any{"topic": name, "topicId": topicID(r.ID), "partitions": r.NumPartitions, "replicationFactor": r.ReplicationFactor}
				return f.tell(c, made, "Created topic %s.\n", name)
			})
		},
	}
	f.register(c)
	c.Flags().StringVar(&topic, "topic", "", "the topic, if it is not the argument")
	c.Flags().Int32VarP(&partitions, "partitions", "p", -1, "number of partitions; -1 is the broker's num.partitions")
	c.Flags().Int16VarP(&replicas, "replication-factor", "r", -1, "number of replicas; -1 is the broker's default.replication.factor")
	c.Flags().StringArrayVarP(&configs, "config", "c", nil, "a topic setting, name=value; may be repeated")
	c.Flags().BoolVar(&ifNotExists, "if-not-exists", false, "succeed if the topic exists")
	return c
}

// topicID prints an id as Kafka's tools do.
func topicID(id [16]byte) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// detailed joins the broker's own sentence to the name of the error.
func detailed(err error, message string) error {
	if message == "" || strings.Contains(err.Error(), message) {
		return err
	}
	return fmt.Errorf("%w: %s", err, message)
}

func topicList() *cobra.Command {
	var f clientFlags
	var internal bool
	c := &cobra.Command{
		Use:     "list",
		Short:   "List topics",
		Example: "  seedlog topic list",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return f.admin(c, func(ctx context.Context, a *kadm.Client) error {
				list := a.ListTopics
				if internal {
					list = a.ListTopicsWithInternal
				}
				topics, err := list(ctx)
				if err != nil {
					return err
				}
				if asJSON, err := f.json(); err != nil || asJSON {
					return errors.Join(err, printJSON(c.OutOrStdout(), topics.Names()))
				}
				for _, n := range topics.Names() {
					fmt.Fprintln(c.OutOrStdout(), n)
				}
				return nil
			})
		},
	}
	f.register(c)
	c.Flags().BoolVarP(&internal, "internal", "i", false, "list internal topics too")
	return c
}

func topicDelete() *cobra.Command {
	var f clientFlags
	var topic string
	var ifExists bool
	c := &cobra.Command{
		Use:     "delete TOPIC",
		Short:   "Delete a topic and its records",
		Example: "  seedlog topic delete orders",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			name, err := topicArg(args, topic)
			if err != nil {
				return err
			}
			return f.admin(c, func(ctx context.Context, a *kadm.Client) error {
				r, err := a.DeleteTopic(ctx, name)
				if ifExists && errors.Is(err, kerr.UnknownTopicOrPartition) {
					return nil
				}
				if err != nil {
					return detailed(err, r.ErrMessage)
				}
				return f.tell(c, map[string]any{"topic": name}, "Deleted topic %s.\n", name)
			})
		},
	}
	f.register(c)
	c.Flags().StringVar(&topic, "topic", "", "the topic, if it is not the argument")
	c.Flags().BoolVar(&ifExists, "if-exists", false, "succeed if there is no such topic")
	return c
}

// described is what `topic describe` prints.
type described struct {
	Topic      string            `json:"topic"`
	TopicID    string            `json:"topicId"`
	Internal   bool              `json:"internal"`
	Configs    map[string]string `json:"configs"`
	Partitions []describedPart   `json:"partitions"`
}

type describedPart struct {
	Partition int32   `json:"partition"`
	Leader    int32   `json:"leader"`
	Epoch     int32   `json:"leaderEpoch"`
	Replicas  []int32 `json:"replicas"`
	ISR       []int32 `json:"isr"`
	Start     int64   `json:"logStartOffset"`
	End       int64   `json:"highWatermark"`
}

func topicDescribe() *cobra.Command {
	var f clientFlags
	var topic string
	c := &cobra.Command{
		Use:     "describe [TOPIC]",
		Short:   "Describe a topic, or all",
		Example: "  seedlog topic describe orders --format json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if topic != "" {
				args = append(args, topic)
			}
			return f.admin(c, func(ctx context.Context, a *kadm.Client) error {
				all, err := describeTopics(ctx, a, args)
				if err != nil {
					return err
				}
				if asJSON, err := f.json(); err != nil || asJSON {
					return errors.Join(err, printJSON(c.OutOrStdout(), all))
				}
				return printTopics(c.OutOrStdout(), all)
			})
		},
	}
	f.register(c)
	c.Flags().StringVar(&topic, "topic", "", "the topic, if it is not the argument")
	return c
}

func describeTopics(ctx context.Context, a *kadm.Client, names []string) ([]described, error) {
	topics, err := a.ListTopics(ctx, names...)
	if err != nil {
		return nil, err
	}
	if err := topics.Error(); err != nil {
		return nil, err
	}
	names = topics.Names()
	start, err := a.ListStartOffsets(ctx, names...)
	if err != nil {
		return nil, err
	}
	end, err := a.ListEndOffsets(ctx, names...)
	if err != nil {
		return nil, err
	}
	configs, err := a.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		return nil, err
	}
	var out []described
	for _, t := range topics.Sorted() {
		d := described{Topic: t.Topic, TopicID: topicID(t.ID), Internal: t.IsInternal, Configs: map[string]string{}}
		for _, r := range configs {
			if r.Name != t.Topic {
				continue
			}
			for _, e := range r.Configs {
				if e.Source.String() == "DYNAMIC_TOPIC_CONFIG" && e.Value != nil {
					d.Configs[e.Key] = *e.Value
				}
			}
		}
		for _, p := range t.Partitions.Sorted() {
			s, _ := start.Lookup(t.Topic, p.Partition)
			e, _ := end.Lookup(t.Topic, p.Partition)
			d.Partitions = append(d.Partitions, describedPart{p.Partition, p.Leader, p.LeaderEpoch, p.Replicas, p.ISR, s.Offset, e.Offset})
		}
		out = append(out, d)
	}
	return out, nil
}

func printTopics(w io.Writer, all []described) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, d := range all {
		var settings []string
		for k, v := range d.Configs {
			settings = append(settings, k+"="+v)
		}
		slices.Sort(settings)
		fmt.Fprintf(tw, "Topic: %s\tTopicId: %s\tPartitionCount: %d\tConfigs: %s\n", d.Topic, d.TopicID, len(d.Partitions), strings.Join(settings, ","))
		for _, p := range d.Partitions {
			fmt.Fprintf(tw, "\tPartition: %d\tLeader: %d\tEpoch: %d\tReplicas: %v\tIsr: %v\tStart: %d\tEnd: %d\n", p.Partition, p.Leader, p.Epoch, p.Replicas, p.ISR, p.Start, p.End)
		}
	}
	return tw.Flush()
}
