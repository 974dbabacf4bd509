package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func clusterCommand() *cobra.Command {
	return family("cluster", "Describe a cluster, and say whether it is healthy", clusterInfo(), clusterHealth())
}

// clusterState is what `cluster info` prints.
type clusterState struct {
	ClusterID  string           `json:"clusterId"`
	Controller int32            `json:"controller"`
	Brokers    []clusterBroker  `json:"brokers"`
	Features   map[string]int16 `json:"features"`

	topics kadm.TopicDetails
	quorum *quorumState // nil without a leader
}

type clusterBroker struct {
	ID       int32   `json:"id"`
	Address  string  `json:"address"`
	Rack     *string `json:"rack"`
	Fenced   bool    `json:"fenced"`
	Leaders  int     `json:"leaders"`
	Replicas int     `json:"replicas"`
}

func clusterInfo() *cobra.Command {
	var f clientFlags
	c := &cobra.Command{
		Use:     "info",
		Short:   "Describe the brokers, the controller and the features",
		Example: "  seedlog cluster info -b 127.0.0.1:9092",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return f.connect(c, func(ctx context.Context, cl *kgo.Client) error {
				s, err := readCluster(ctx, cl)
				if err != nil {
					return err
				}
				if asJSON, err := f.json(); err != nil || asJSON {
					return errors.Join(err, printJSON(c.OutOrStdout(), s))
				}
				return s.print(c.OutOrStdout())
			})
		},
	}
	f.register(c)
	return c
}

func (s *clusterState) print(w io.Writer) error {
	fmt.Fprintf(w, "Cluster %s, controller %d\n", s.ClusterID, s.Controller)
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "BROKER\tADDRESS\tRACK\tSTATE\tLEADERS\tREPLICAS")
	for _, b := range s.Brokers {
		rack, state := "-", "active"
		if b.Rack != nil {
			rack = *b.Rack
		}
		if b.Fenced {
			state = "fenced"
		}
		fmt.Fprintf(tw, "%d\t%s\t%s\t%s\t%d\t%d\n", b.ID, b.Address, rack, state, b.Leaders, b.Replicas)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, name := range sortedKeys(s.Features) {
		fmt.Fprintf(w, "Feature %s: %d\n", name, s.Features[name])
	}
	return nil
}

// readCluster asks a broker for what is known of the cluster.
func readCluster(ctx context.Context, cl *kgo.Client) (*clusterState, error) {
	s := &clusterState{Features: map[string]int16{}}
	for _, step := range []func(context.Context, *kgo.Client) error{s.readBrokers, s.readController, s.readFeatures, s.readTopics} {
		if err := step(ctx, cl); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *clusterState) readBrokers(ctx context.Context, cl *kgo.Client) error {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.IncludeFencedBrokers = true
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return detailed(err, text(resp.ErrorMessage))
	}
	s.ClusterID = resp.ClusterID
	for _, b := range resp.Brokers {
		s.Brokers = append(s.Brokers, clusterBroker{ID: b.NodeID, Address: net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))), Rack: b.Rack, Fenced: b.IsFenced})
	}
	return nil
}

// readController asks the quorum who leads it: brokers name some broker as the controller,
// for all of them pass on what is for the controller.
func (s *clusterState) readController(ctx context.Context, cl *kgo.Client) error {
	q, err := readQuorum(ctx, cl)
	switch {
	case errors.Is(err, errNoLeader):
		s.Controller = -1
		return nil
	case err != nil:
		return err
	}
	s.Controller, s.quorum = q.Leader, q
	return nil
}

func (s *clusterState) readFeatures(ctx context.Context, cl *kgo.Client) error {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "seedlog", "cli"
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	for _, f := range resp.FinalizedFeatures {
		s.Features[f.Name] = f.MaxVersionLevel
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}

func (s *clusterState) readTopics(ctx context.Context, cl *kgo.Client) error {
	topics, err := kadm.NewClient(cl).ListTopicsWithInternal(ctx)
	if err != nil {
		return err
	}
	s.topics = topics
	topics.EachPartition(func(p kadm.PartitionDetail) {
		for i := range s.Brokers {
			b := &s.Brokers[i]
			if p.Leader == b.ID {
				b.Leaders++
			}
			for _, r := range p.Replicas {
				if r == b.ID {
					b.Replicas++
				}
			}
		}
	})
	return nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// sortedKeys are a map's keys in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

func idList(list []int32) string {
	var s []string
	for _, id := range list {
		s = append(s, fmt.Sprint(id))
	}
	return strings.Join(s, ",")
}
