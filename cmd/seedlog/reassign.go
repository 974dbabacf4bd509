package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

// reassignment is Kafka's file format of a reassignment: what kafka-reassign-partitions
// writes and reads.
type reassignment struct {
	Version    int            `json:"version"`
	Partitions []reassignPart `json:"partitions"`
}

type reassignPart struct {
	Topic     string   `json:"topic"`
	Partition int32    `json:"partition"`
	Replicas  []int32  `json:"replicas"`
	LogDirs   []string `json:"log_dirs,omitempty"`
}

type reassignFlags struct {
	clientFlags
	generate, execute, verify, cancel bool
	file                              string
	topics                            []string
	brokers                           []int32
	throttle                          int64
	additional, keepThrottle          bool
}

func topicReassign() *cobra.Command {
	var f reassignFlags
	c := &cobra.Command{
		Use:   "reassign",
		Short: "Move partitions between brokers",
		Long: `Move partitions between brokers.

  --generate  prints a plan for the topics over the brokers; the present assignment goes to
              standard error, in the same form, to go back to
  --execute   begins the plan; the old replicas serve until the new ones are in sync
  --verify    says how far it is, and takes the throttle away when all is done: that of its
              topics, and, unless other moves are under way, that of the brokers
  --cancel    ends what is under way and goes back`,
		Example: `  seedlog topic reassign --generate --topics orders --broker-list 1,2,3 > plan.json
  seedlog topic reassign --execute --reassignment-json-file plan.json --throttle 50000000
  seedlog topic reassign --verify --reassignment-json-file plan.json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	f.register(c)
	c.Flags().BoolVar(&f.generate, "generate", false, "print a plan")
	c.Flags().BoolVar(&f.execute, "execute", false, "begin a plan")
	c.Flags().BoolVar(&f.verify, "verify", false, "say how far a plan is")
	c.Flags().BoolVar(&f.cancel, "cancel", false, "end a plan that is under way")
	c.Flags().StringVar(&f.file, "reassignment-json-file", "", "the plan; - is standard input")
	c.Flags().StringSliceVar(&f.topics, "topics", nil, "with --generate: the topics to move")
	c.Flags().Int32SliceVar(&f.brokers, "broker-list", nil, "with --generate: the brokers to move them to")
	c.Flags().Int64Var(&f.throttle, "throttle", -1, "with --execute: bytes a second that moving may take on each broker")
	c.Flags().BoolVar(&f.additional, "additional", false, "with --execute: allow it while other reassignments are under way")
	c.Flags().BoolVar(&f.keepThrottle, "preserve-throttles", false, "with --verify and --cancel: leave the throttle")
	return c
}

// reassignVerb is one of the four things to do.
type reassignVerb func(context.Context, *cobra.Command, *kadm.Client) error

func (f *reassignFlags) run(c *cobra.Command) error {
	var verbs []reassignVerb
	add := func(on bool, v reassignVerb) {
		if on {
			verbs = append(verbs, v)
		}
	}
	add(f.generate, f.runGenerate)
	add(f.execute, f.runExecute)
	add(f.verify, f.runVerify)
	add(f.cancel, f.runCancel)
	if len(verbs) != 1 {
		return usagef("name one of --generate, --execute, --verify and --cancel")
	}
	if c.Flags().Changed("throttle") && f.throttle < 1 {
		return usagef("--throttle %d: at that rate nothing would ever arrive", f.throttle)
	}
	return f.admin(c, func(ctx context.Context, a *kadm.Client) error { return verbs[0](ctx, c, a) })
}

// plan reads the plan's file.
func (f *reassignFlags) plan(stdin io.Reader) (*reassignment, error) {
	if f.file == "" {
		return nil, usagef("name the plan with --reassignment-json-file")
	}
	text, err := readInput(f.file, stdin)
	if err != nil {
		return nil, err
	}
	plan, err := parsePlan(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.file, err)
	}
	return plan, nil
}

func readInput(file string, stdin io.Reader) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(file)
}

func parsePlan(text []byte) (*reassignment, error) {
	var plan reassignment
	if err := json.Unmarshal(text, &plan); err != nil {
		return nil, err
	}
	if plan.Version != 1 {
		return nil, fmt.Errorf("version %d: only version 1 is known", plan.Version)
	}
	if len(plan.Partitions) == 0 {
		return nil, errors.New("it names no partitions")
	}
	seen := make(map[string]bool)
	for _, p := range plan.Partitions {
		name := fmt.Sprintf("%s-%d", p.Topic, p.Partition)
		switch {
		case seen[name]:
			return nil, fmt.Errorf("%s is named twice", name)
		case len(p.Replicas) == 0:
			return nil, fmt.Errorf("%s has no replicas", name)
		case slices.ContainsFunc(p.LogDirs, func(d string) bool { return d != "any" }):
			return nil, fmt.Errorf("%s names log directories: only \"any\" is served", name)
		}
		seen[name] = true
	}
	return &plan, nil
}

func (r *reassignment) set() kadm.TopicsSet {
	set := make(kadm.TopicsSet)
	for _, p := range r.Partitions {
		set.Add(p.Topic, p.Partition)
	}
	return set
}

// alter sends the plan, or the end of it, and joins what failed.
func (r *reassignment) alter(ctx context.Context, a *kadm.Client, cancel bool) error {
	req := make(kadm.AlterPartitionAssignmentsReq)
	for _, p := range r.Partitions {
		if cancel {
			req.CancelAssign(p.Topic, p.Partition)
		} else {
			req.Assign(p.Topic, p.Partition, p.Replicas)
		}
	}
	results, err := a.AlterPartitionAssignments(ctx, req)
	if err != nil {
		return err
	}
	var failed []error
	for _, p := range results.Sorted() {
		if p.Err != nil {
			failed = append(failed, fmt.Errorf("%s-%d: %w", p.Topic, p.Partition, detailed(p.Err, p.ErrMessage)))
		}
	}
	return errors.Join(failed...)
}

func (f *reassignFlags) runExecute(ctx context.Context, c *cobra.Command, a *kadm.Client) error {
	plan, err := f.plan(c.InOrStdin())
	if err != nil {
		return err
	}
	moving, err := a.ListPartitionReassignments(ctx, nil)
	if err != nil {
		return err
	}
	if len(moving) > 0 && !f.additional {
		return errors.New("other reassignments are under way: wait for them, or add --additional")
	}
	now, err := present(ctx, a, plan)
	if err != nil {
		return err
	}
	fmt.Fprintln(c.ErrOrStderr(), "The present assignment, to go back to:")
	if err := json.NewEncoder(c.ErrOrStderr()).Encode(now); err != nil {
		return err
	}
	if f.throttle >= 0 {
		// Before the move begins: none of it may run unthrottled.
		from, to := plan.concerned(now, moving)
		err = setThrottle(ctx, a, from, to, f.throttle)
	}
	if err == nil {
		err = plan.alter(ctx, a, false)
	}
	if err != nil && f.throttle >= 0 {
		// Ctrl-C ends the move, and not that nothing is left of it.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeBackMax)
		defer cancel()
		err = errors.Join(err, clearThrottle(ctx, a, plan))
	}
	if err != nil {
		return err
	}
	return f.tell(c, map[string]int{"partitions": len(plan.Partitions)}, "Began to move %d partitions.\n", len(plan.Partitions))
}

// present is the assignment that the partitions of a plan have now.
func present(ctx context.Context, a *kadm.Client, plan *reassignment) (*reassignment, error) {
	topics, err := a.ListTopics(ctx, plan.set().Topics()...)
	if err == nil {
		err = topics.Error()
	}
	if err != nil {
		return nil, err
	}
	now := &reassignment{Version: 1}
	for _, p := range plan.Partitions {
		d, ok := topics[p.Topic].Partitions[p.Partition]
		if !ok {
			return nil, fmt.Errorf("there is no partition %s-%d", p.Topic, p.Partition)
		}
		now.Partitions = append(now.Partitions, reassignPart{Topic: p.Topic, Partition: p.Partition, Replicas: d.Replicas})
	}
	return now, nil
}

// progress is how far one partition of a plan is.
type progress uint8

const (
	reassignDone progress = iota
	reassignMoving
	reassignElsewhere // neither moving nor where the plan wants it
)

// verified is what --verify prints of a partition.
type verified struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	State     string `json:"state"` // done, moving or elsewhere
}

func (f *reassignFlags) runVerify(ctx context.Context, c *cobra.Command, a *kadm.Client) error {
	plan, err := f.plan(c.InOrStdin())
	if err != nil {
		return err
	}
	states, err := howFar(ctx, a, plan)
	if err != nil {
		return err
	}
	var text strings.Builder
	moving, elsewhere, out := 0, 0, []verified{}
	for i, p := range plan.Partitions {
		v := verified{p.Topic, p.Partition, "done"}
		switch states[i] {
		case reassignMoving:
			moving++
			v.State = "moving"
			fmt.Fprintf(&text, "%s-%d is being moved.\n", p.Topic, p.Partition)
		case reassignElsewhere:
			elsewhere++
			v.State = "elsewhere"
			fmt.Fprintf(&text, "%s-%d is not where the plan wants it, and is not being moved.\n", p.Topic, p.Partition)
		default:
			fmt.Fprintf(&text, "%s-%d is where the plan wants it.\n", p.Topic, p.Partition)
		}
		out = append(out, v)
	}
	if err := f.tell(c, out, "%s", text.String()); err != nil {
		return err
	}
	switch {
	case moving > 0:
		return fmt.Errorf("%d partitions are still being moved", moving)
	case !f.keepThrottle:
		err = clearThrottle(ctx, a, plan)
	}
	if err == nil && elsewhere > 0 {
		err = fmt.Errorf("%d partitions are not where the plan wants them", elsewhere)
	}
	return err
}

// howFar compares the plan with the cluster.
func howFar(ctx context.Context, a *kadm.Client, plan *reassignment) ([]progress, error) {
	under, err := a.ListPartitionReassignments(ctx, plan.set())
	if err != nil {
		return nil, err
	}
	now, err := present(ctx, a, plan)
	if err != nil {
		return nil, err
	}
	states := make([]progress, len(plan.Partitions))
	for i, p := range plan.Partitions {
		_, moving := under[p.Topic][p.Partition]
		switch {
		case moving:
			states[i] = reassignMoving
		case !slices.Equal(now.Partitions[i].Replicas, p.Replicas):
			states[i] = reassignElsewhere
		}
	}
	return states, nil
}

func (f *reassignFlags) runCancel(ctx context.Context, c *cobra.Command, a *kadm.Client) error {
	plan, err := f.plan(c.InOrStdin())
	if err != nil {
		return err
	}
	states, err := howFar(ctx, a, plan)
	if err != nil {
		return err
	}
	var moving reassignment
	for i, p := range plan.Partitions {
		if states[i] == reassignMoving {
			moving.Partitions = append(moving.Partitions, p)
		}
	}
	if len(moving.Partitions) > 0 {
		if err := moving.alter(ctx, a, true); err != nil {
			return err
		}
	}
	if !f.keepThrottle {
		if err := clearThrottle(ctx, a, plan); err != nil {
			return err
		}
	}
	ended := map[string]int{"ended": len(moving.Partitions), "partitions": len(plan.Partitions)}
	return f.tell(c, ended, "Ended %d of %d reassignments; the others were not under way.\n", len(moving.Partitions), len(plan.Partitions))
}

// takeBackMax is how long the throttle of a move that did not begin is tried to be taken away.
const takeBackMax = 10 * time.Second

// The settings of a throttle, in Kafka's names.
const (
	leaderRate       = "leader.replication.throttled.rate"
	followerRate     = "follower.replication.throttled.rate"
	leaderReplicas   = "leader.replication.throttled.replicas"
	followerReplicas = "follower.replication.throttled.replicas"
)

// concerned are the moves that a throttle has to name: those of the plan, and those that are under
// way in its topics, whose settings are replaced. What is being added has not got there yet: it comes
// from the others.
func (r *reassignment) concerned(now *reassignment, moving kadm.ListPartitionReassignmentsResponses) (from, to *reassignment) {
	from, to = &reassignment{}, &reassignment{Partitions: slices.Clone(r.Partitions)}
	without := func(all, some []int32) []int32 {
		return slices.DeleteFunc(slices.Clone(all), func(b int32) bool { return slices.Contains(some, b) })
	}
	planned := r.set()
	for _, p := range now.Partitions {
		p.Replicas = without(p.Replicas, moving[p.Topic][p.Partition].AddingReplicas)
		from.Partitions = append(from.Partitions, p)
	}
	for _, m := range moving.Sorted() {
		if len(planned[m.Topic]) == 0 || planned.Lookup(m.Topic, m.Partition) {
			continue
		}
		from.Partitions = append(from.Partitions, reassignPart{Topic: m.Topic, Partition: m.Partition, Replicas: without(m.Replicas, m.AddingReplicas)})
		to.Partitions = append(to.Partitions, reassignPart{Topic: m.Topic, Partition: m.Partition, Replicas: without(m.Replicas, m.RemovingReplicas)})
	}
	return from, to
}

// setThrottle limits what the move may take: on each topic the replicas that it concerns, on
// each broker the rate.
func setThrottle(ctx context.Context, a *kadm.Client, now, plan *reassignment, bytesPerSecond int64) error {
	sources, targets := map[string][]string{}, map[string][]string{}
	var brokers []int32
	for i, p := range plan.Partitions {
		old := now.Partitions[i].Replicas
		for _, b := range old {
			sources[p.Topic] = append(sources[p.Topic], fmt.Sprintf("%d:%d", p.Partition, b))
		}
		for _, b := range p.Replicas {
			if !slices.Contains(old, b) {
				targets[p.Topic] = append(targets[p.Topic], fmt.Sprintf("%d:%d", p.Partition, b))
			}
		}
		brokers = append(append(brokers, old...), p.Replicas...)
	}
	brokers, err := alive(ctx, a, brokers)
	if err != nil {
		return err
	}
	for _, topic := range sortedKeys(sources) {
		set := []kadm.AlterConfig{setConfig(leaderReplicas, strings.Join(sources[topic], ","))}
		if len(targets[topic]) > 0 {
			set = append(set, setConfig(followerReplicas, strings.Join(targets[topic], ",")))
		}
		if err := altered(a.AlterTopicConfigs(ctx, set, topic)); err != nil {
			return err
		}
	}
	if len(brokers) == 0 {
		return nil // nobody named would be everybody
	}
	rate := fmt.Sprint(bytesPerSecond)
	return altered(a.AlterBrokerConfigs(ctx, []kadm.AlterConfig{setConfig(leaderRate, rate), setConfig(followerRate, rate)}, brokers...))
}

// alive are those of the brokers that are there. A rate is set on the broker itself, and one that is
// away, which a partition is often moved because of, neither sends nor fetches.
func alive(ctx context.Context, a *kadm.Client, brokers []int32) ([]int32, error) {
	m, err := a.BrokerMetadata(ctx)
	if err != nil {
		return nil, err
	}
	ids := m.Brokers.NodeIDs()
	return slices.DeleteFunc(ids, func(id int32) bool { return !slices.Contains(brokers, id) }), nil
}

func setConfig(name, value string) kadm.AlterConfig {
	return kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value}
}

// unneeded is where nothing moves any more that a throttle is for: topics of the plan, and
// the brokers, all or none, whose rates all moves share.
func (r *reassignment) unneeded(under kadm.ListPartitionReassignmentsResponses) (topics []string, brokers bool) {
	topics = slices.DeleteFunc(r.set().Topics(), func(topic string) bool { return len(under[topic]) > 0 })
	slices.Sort(topics)
	return topics, len(under.Sorted()) == 0
}

// clearThrottle takes the throttle of a move away: from the topics of the plan, and from all
// brokers. What other moves that are under way need stays until the last of them is done.
func clearThrottle(ctx context.Context, a *kadm.Client, plan *reassignment) error {
	under, err := a.ListPartitionReassignments(ctx, nil)
	if err != nil {
		return err
	}
	done, brokers := plan.unneeded(under)
	remove := func(names ...string) (out []kadm.AlterConfig) {
		for _, n := range names {
			out = append(out, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: n})
		}
		return out
	}
	if len(done) > 0 {
		if err := altered(a.AlterTopicConfigs(ctx, remove(leaderReplicas, followerReplicas), done...)); err != nil {
			return err
		}
	}
	if !brokers {
		return nil
	}
	m, err := a.BrokerMetadata(ctx)
	if err != nil {
		return err
	}
	return altered(a.AlterBrokerConfigs(ctx, remove(leaderRate, followerRate), m.Brokers.NodeIDs()...))
}

// altered is the first thing that an alteration of settings failed with.
func altered(results kadm.AlterConfigsResponses, err error) error {
	if err != nil {
		return err
	}
	var failed []error
	for _, r := range results {
		if r.Err != nil {
			failed = append(failed, fmt.Errorf("settings of %s: %w", r.Name, detailed(r.Err, r.ErrMessage)))
		}
	}
	return errors.Join(failed...)
}
