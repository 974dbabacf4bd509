package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// health is what `cluster health` prints: lists of what is not as it should be.
type health struct {
	Healthy         bool     `json:"healthy"`
	NoController    bool     `json:"noController"`
	FencedBrokers   []int32  `json:"fencedBrokers"`
	Offline         []string `json:"offlinePartitions"`
	UnderMinISR     []string `json:"underMinIsrPartitions"`
	UnderReplicated []string `json:"underReplicatedPartitions"`
	AtMinISR        []string `json:"atMinIsrPartitions"`
	SilentVoters    []int32  `json:"silentVoters"`
}

// voterSilentMaxMs is how long a voter may not have fetched before it counts as silent: the
// default session of a broker.
const voterSilentMaxMs = 9000

func clusterHealth() *cobra.Command {
	var f clientFlags
	c := &cobra.Command{
		Use:   "health",
		Short: "Say whether anything is offline or short of replicas",
		Long: `Say whether anything is offline or short of replicas.

The exit code is 1 if the cluster is not healthy: no controller, a fenced broker, a silent voter, or a
partition that is offline, below min.insync.replicas or short of replicas. A partition that is at
min.insync.replicas is listed, and healthy.`,
		Example: "  seedlog cluster health --format json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return f.connect(c, func(ctx context.Context, cl *kgo.Client) error {
				h, err := readHealth(ctx, cl)
				if err != nil {
					return err
				}
				asJSON, err := f.json()
				switch {
				case err != nil:
				case asJSON:
					err = printJSON(c.OutOrStdout(), h)
				default:
					err = h.print(c.OutOrStdout())
				}
				if err == nil && !h.Healthy {
					err = errors.New("the cluster is not healthy")
				}
				return err
			})
		},
	}
	f.register(c)
	return c
}

func readHealth(ctx context.Context, cl *kgo.Client) (*health, error) {
	s, err := readCluster(ctx, cl)
	if err != nil {
		return nil, err
	}
	none, nobody := []string{}, []int32{} // empty lists in JSON, not null
	h := &health{NoController: s.Controller < 0, FencedBrokers: nobody, Offline: none, UnderMinISR: none, UnderReplicated: none, AtMinISR: none, SilentVoters: nobody}
	for _, b := range s.Brokers {
		if b.Fenced {
			h.FencedBrokers = append(h.FencedBrokers, b.ID)
		}
	}
	minISR, err := readMinISR(ctx, kadm.NewClient(cl), s.topics.Names())
	if err != nil {
		return nil, err
	}
	for _, topic := range s.topics.Sorted() {
		for _, p := range topic.Partitions.Sorted() {
			h.judge(p, minISR[topic.Topic])
		}
	}
	if s.quorum != nil {
		h.SilentVoters = append(h.SilentVoters, s.quorum.silent(voterSilentMaxMs)...)
	}
	h.Healthy = !h.NoController && len(h.FencedBrokers)+len(h.Offline)+len(h.UnderMinISR)+len(h.UnderReplicated)+len(h.SilentVoters) == 0
	return h, nil
}

// judge notes what is wrong with a partition, the worst only.
func (h *health) judge(p kadm.PartitionDetail, minISR int) {
	name := fmt.Sprintf("%s-%d", p.Topic, p.Partition)
	need := min(minISR, len(p.Replicas))
	switch {
	case p.Leader < 0:
		h.Offline = append(h.Offline, name)
	case len(p.ISR) < need:
		h.UnderMinISR = append(h.UnderMinISR, name)
	case len(p.ISR) < len(p.Replicas):
		h.UnderReplicated = append(h.UnderReplicated, name)
		if len(p.ISR) == need {
			h.AtMinISR = append(h.AtMinISR, name)
		}
	}
}

// readMinISR is min.insync.replicas of each topic.
func readMinISR(ctx context.Context, a *kadm.Client, topics []string) (map[string]int, error) {
	out := make(map[string]int)
	if len(topics) == 0 {
		return out, nil
	}
	configs, err := a.DescribeTopicConfigs(ctx, topics...)
	if err != nil {
		return nil, err
	}
	for _, r := range configs {
		i := slices.IndexFunc(r.Configs, func(c kadm.Config) bool { return c.Key == "min.insync.replicas" })
		if i < 0 {
			continue
		}
		if out[r.Name], err = strconv.Atoi(r.Configs[i].MaybeValue()); err != nil {
			return nil, fmt.Errorf("min.insync.replicas of %s: %w", r.Name, err)
		}
	}
	return out, nil
}

func (h *health) print(w io.Writer) error {
	if h.Healthy {
		fmt.Fprintln(w, "Healthy")
	}
	if h.NoController {
		fmt.Fprintln(w, "No controller: the metadata quorum has no leader")
	}
	line := func(what string, names []string) {
		if len(names) > 0 {
			fmt.Fprintf(w, "%s (%d): %v\n", what, len(names), names)
		}
	}
	if len(h.FencedBrokers) > 0 {
		fmt.Fprintf(w, "Fenced brokers: %s\n", idList(h.FencedBrokers))
	}
	if len(h.SilentVoters) > 0 {
		fmt.Fprintf(w, "Voters that do not fetch: %s\n", idList(h.SilentVoters))
	}
	line("Offline partitions", h.Offline)
	line("Partitions below min.insync.replicas", h.UnderMinISR)
	line("Under-replicated partitions", h.UnderReplicated)
	line("Partitions at min.insync.replicas", h.AtMinISR)
	return nil
}
