package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func topicElect() *cobra.Command {
	var f clientFlags
	var topic, kind string
	var partitions []int32
	var all bool
	c := &cobra.Command{
		Use:   "elect-leaders [TOPIC]",
		Short: "Elect the preferred leaders, or unclean ones",
		Long: `Elect the preferred leaders, or unclean ones.

preferred  gives each partition back to the first of its replicas, if that one is in sync.
unclean    elects a replica that is not in sync where the partition has no leader: what only the
           others have is lost.`,
		Example: "  seedlog topic elect-leaders --election-type preferred --all-topic-partitions\n  seedlog topic elect-leaders orders --election-type unclean --partition 3",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			how, err := electionType(kind)
			if err != nil {
				return err
			}
			set, err := electionSet(args, topic, partitions, all)
			if err != nil {
				return err
			}
			return f.admin(c, func(ctx context.Context, a *kadm.Client) error {
				if set != nil && len(partitions) == 0 {
					if err := addAll(ctx, a, set); err != nil {
						return err
					}
				}
				results, err := a.ElectLeaders(ctx, how, set)
				if err != nil {
					return err
				}
				return f.printElected(c, results)
			})
		},
	}
	f.register(c)
	c.Flags().StringVar(&topic, "topic", "", "the topic, if it is not the argument")
	c.Flags().StringVar(&kind, "election-type", "preferred", "preferred or unclean")
	c.Flags().Int32SliceVar(&partitions, "partition", nil, "the partitions; all of the topic if not given")
	c.Flags().BoolVar(&all, "all-topic-partitions", false, "every partition of every topic")
	return c
}

func electionType(kind string) (kadm.ElectLeadersHow, error) {
	switch kind {
	case "preferred", "PREFERRED":
		return kadm.ElectPreferredReplica, nil
	case "unclean", "UNCLEAN":
		return kadm.ElectLiveReplica, nil
	}
	return 0, usagef("--election-type is %q: use preferred or unclean", kind)
}

// electionSet is what to elect for; nil is everything.
func electionSet(args []string, topic string, partitions []int32, all bool) (kadm.TopicsSet, error) {
	if all {
		if len(args) > 0 || topic != "" || len(partitions) > 0 {
			return nil, usagef("--all-topic-partitions and a topic exclude each other")
		}
		return nil, nil
	}
	name, err := topicArg(args, topic)
	if err != nil {
		return nil, err
	}
	set := make(kadm.TopicsSet)
	set.Add(name, partitions...)
	return set, nil
}

// addAll adds every partition of the named topics.
func addAll(ctx context.Context, a *kadm.Client, set kadm.TopicsSet) error {
	topics, err := a.ListTopics(ctx, set.Topics()...)
	if err == nil {
		err = topics.Error()
	}
	if err != nil {
		return err
	}
	topics.EachPartition(func(p kadm.PartitionDetail) { set.Add(p.Topic, p.Partition) })
	return nil
}

// elected is what `topic elect-leaders` prints of a partition.
type elected struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Elected   bool   `json:"elected"`
	Error     string `json:"error,omitempty"`
}

func (f *clientFlags) printElected(c *cobra.Command, results kadm.ElectLeadersResults) error {
	failed, out := 0, []elected{}
	var text, errs strings.Builder
	for _, topic := range sortedKeys(results) {
		for _, p := range sortedKeys(results[topic]) {
			r := results[topic][p]
			e := elected{Topic: r.Topic, Partition: r.Partition}
			switch {
			case errors.Is(r.Err, kerr.ElectionNotNeeded):
				fmt.Fprintf(&text, "%s-%d has that leader already.\n", r.Topic, r.Partition)
			case r.Err != nil:
				failed++
				e.Error = detailed(r.Err, r.ErrMessage).Error()
				fmt.Fprintf(&errs, "%s-%d: %s\n", r.Topic, r.Partition, e.Error)
			default:
				e.Elected = true
				fmt.Fprintf(&text, "Elected a leader for %s-%d.\n", r.Topic, r.Partition)
			}
			out = append(out, e)
		}
	}
	fmt.Fprint(c.ErrOrStderr(), errs.String())
	err := f.tell(c, out, "%s", text.String())
	if failed > 0 {
		err = errors.Join(err, fmt.Errorf("%d elections failed", failed))
	}
	return err
}
