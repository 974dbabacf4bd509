package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/node/quorum"
)

func quorumCommand() *cobra.Command {
	return family("quorum", "Describe the metadata quorum", quorumDescribe())
}

// quorumState is what `quorum describe` prints.
type quorumState struct {
	Leader        int32           `json:"leader"`
	LeaderEpoch   int32           `json:"leaderEpoch"`
	HighWatermark int64           `json:"highWatermark"`
	Replicas      []quorumReplica `json:"replicas"`
	// at is the time of the answer in milliseconds, by the clock of the leader, as all times in
	// it are: the leader says that it fetches now.
	at int64
}

type quorumReplica struct {
	ID             int32  `json:"id"`
	DirectoryID    string `json:"directoryId"`
	Status         string `json:"status"` // leader, follower or observer
	LogEndOffset   int64  `json:"logEndOffset"`
	Lag            int64  `json:"lag"`
	LastFetchMs    int64  `json:"lastFetchTimestamp"`
	LastCaughtUpMs int64  `json:"lastCaughtUpTimestamp"`
}

func quorumDescribe() *cobra.Command {
	var f clientFlags
	c := &cobra.Command{
		Use:     "describe",
		Short:   "Describe the leader, the voters and the observers",
		Example: "  seedlog quorum describe -b 127.0.0.1:9092",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return f.connect(c, func(ctx context.Context, cl *kgo.Client) error {
				q, err := readQuorum(ctx, cl)
				if err != nil {
					return err
				}
				if asJSON, err := f.json(); err != nil || asJSON {
					return errors.Join(err, printJSON(c.OutOrStdout(), q))
				}
				return q.print(c.OutOrStdout())
			})
		},
	}
	f.register(c)
	return c
}

// errNoLeader: the broker found nobody who leads the quorum, for as long as an election takes.
var errNoLeader = errors.New("the metadata quorum has no leader that can be reached")

// unled is errNoLeader for the codes that say so.
func unled(code int16) error {
	err := kerr.ErrorForCode(code)
	for _, e := range []error{kerr.LeaderNotAvailable, kerr.NotLeaderForPartition, kerr.NotController, kerr.RequestTimedOut} {
		if errors.Is(err, e) {
			return errNoLeader
		}
	}
	return err
}

func readQuorum(ctx context.Context, cl *kgo.Client) (*quorumState, error) {
	req := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic = quorum.ClusterMetadata
	topic.Partitions = append(topic.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, topic)
	resp, err := askAnybody(ctx, cl, req)
	if err != nil {
		return nil, err
	}
	if err := unled(resp.ErrorCode); err != nil {
		return nil, detailed(err, text(resp.ErrorMessage))
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, errors.New("the answer does not describe the one partition of the metadata log")
	}
	p := &resp.Topics[0].Partitions[0]
	if err := unled(p.ErrorCode); err != nil {
		return nil, detailed(err, text(p.ErrorMessage))
	}
	q := &quorumState{Leader: p.LeaderID, LeaderEpoch: p.LeaderEpoch, HighWatermark: p.HighWatermark, at: time.Now().UnixMilli()}
	q.add(p.CurrentVoters, "follower")
	q.add(p.Observers, "observer")
	q.measure()
	return q, nil
}

// askAnybody has the first broker answer that does: each of them passes it on to the leader. The
// client would ask the one that is called the controller, and without a leader nobody says that
// this one is down.
func askAnybody(ctx context.Context, cl *kgo.Client, req *kmsg.DescribeQuorumRequest) (*kmsg.DescribeQuorumResponse, error) {
	var failed error
	for _, b := range append(cl.SeedBrokers(), cl.DiscoveredBrokers()...) {
		resp, err := b.Request(ctx, req)
		if err == nil {
			return resp.(*kmsg.DescribeQuorumResponse), nil
		}
		failed = err
	}
	return nil, failed
}

func (q *quorumState) add(states []kmsg.DescribeQuorumResponseTopicPartitionReplicaState, status string) {
	for _, s := range states {
		r := quorumReplica{ID: s.ReplicaID, DirectoryID: topicID(s.ReplicaDirectoryID), Status: status, LogEndOffset: s.LogEndOffset, LastFetchMs: s.LastFetchTimestamp, LastCaughtUpMs: s.LastCaughtUpTimestamp}
		if s.ReplicaID == q.Leader && status == "follower" {
			r.Status = "leader"
		}
		q.Replicas = append(q.Replicas, r)
	}
}

// measure fills in how far each replica is behind the leader, and when that was.
func (q *quorumState) measure() {
	i := slices.IndexFunc(q.Replicas, func(r quorumReplica) bool { return r.Status == "leader" })
	if i < 0 {
		return
	}
	end := q.Replicas[i].LogEndOffset
	if now := q.Replicas[i].LastFetchMs; now > 0 {
		q.at = now
	}
	for i := range q.Replicas {
		q.Replicas[i].Lag = end - q.Replicas[i].LogEndOffset
	}
}

// silent lists the voters that have not fetched for longer than the limit.
func (q *quorumState) silent(maxMs int64) (out []int32) {
	for _, r := range q.Replicas {
		if r.Status == "follower" && q.at-r.LastFetchMs > maxMs {
			out = append(out, r.ID)
		}
	}
	return out
}

func (q *quorumState) print(w io.Writer) error {
	fmt.Fprintf(w, "Leader %d in epoch %d, high watermark %d\n", q.Leader, q.LeaderEpoch, q.HighWatermark)
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "NODE\tDIRECTORY\tSTATUS\tLOG END\tLAG\tLAST FETCH\tLAST CAUGHT UP")
	ago := func(ms int64) string {
		if ms < 0 {
			return "-"
		}
		return fmt.Sprintf("%v ago", time.Duration(max(q.at-ms, 0))*time.Millisecond)
	}
	for _, r := range q.Replicas {
		fmt.Fprintf(tw, "%d\t%s\t%s\t%d\t%d\t%s\t%s\n", r.ID, r.DirectoryID, r.Status, r.LogEndOffset, r.Lag, ago(r.LastFetchMs), ago(r.LastCaughtUpMs))
	}
	return tw.Flush()
}
