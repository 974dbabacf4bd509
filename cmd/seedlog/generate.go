package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"seedlog/node/controller"
	"seedlog/node/meta"
)

// runGenerate prints a plan: the topics' partitions, spread over the brokers as the
// controller would place new ones.
func (f *reassignFlags) runGenerate(ctx context.Context, c *cobra.Command, a *kadm.Client) error {
	if len(f.topics) == 0 || len(f.brokers) == 0 {
		return usagef("--generate needs --topics and --broker-list")
	}
	m, err := a.Metadata(ctx, f.topics...)
	if err == nil {
		err = m.Topics.Error()
	}
	if err != nil {
		return err
	}
	brokers, err := chosen(m.Brokers, f.brokers)
	if err != nil {
		return err
	}
	now, plan := &reassignment{Version: 1}, &reassignment{Version: 1}
	for _, topic := range m.Topics.Sorted() {
		more, err := placeTopic(topic, brokers, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))
		if err != nil {
			return err
		}
		plan.Partitions = append(plan.Partitions, more...)
		for _, p := range topic.Partitions.Sorted() {
			now.Partitions = append(now.Partitions, reassignPart{Topic: topic.Topic, Partition: p.Partition, Replicas: p.Replicas})
		}
	}
	fmt.Fprintln(c.ErrOrStderr(), "The present assignment, to go back to:")
	return errors.Join(json.NewEncoder(c.ErrOrStderr()).Encode(now), json.NewEncoder(c.OutOrStdout()).Encode(plan))
}

// chosen are the brokers of a list, with their racks.
func chosen(all kadm.BrokerDetails, list []int32) ([]*meta.Broker, error) {
	var out []*meta.Broker
	for i, id := range list {
		at := slices.IndexFunc(all, func(b kadm.BrokerDetail) bool { return b.NodeID == id })
		switch {
		case at < 0:
			return nil, fmt.Errorf("broker %d is not alive", id)
		case slices.Contains(list[:i], id):
			return nil, usagef("--broker-list names broker %d twice", id)
		}
		out = append(out, &meta.Broker{ID: id, Rack: all[at].Rack})
	}
	return out, nil
}

// placeTopic places a topic's partitions anew, each with as many replicas as it has.
func placeTopic(topic kadm.TopicDetail, brokers []*meta.Broker, rnd *rand.Rand) ([]reassignPart, error) {
	parts := topic.Partitions.Sorted()
	factor := len(parts[0].Replicas)
	if factor > len(brokers) {
		return nil, fmt.Errorf("topic %s has %d replicas: name as many brokers", topic.Topic, factor)
	}
	placed := controller.Place(brokers, nil, 0, len(parts), factor, rnd)
	var out []reassignPart
	for i, p := range parts {
		out = append(out, reassignPart{Topic: topic.Topic, Partition: p.Partition, Replicas: placed[i]})
	}
	return out, nil
}
