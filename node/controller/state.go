// Package controller decides what the metadata log says next: a command, which is one of
// Kafka's own requests, becomes records and a response.
//
//	request --Decide--> records + response     nothing changes yet
//	records --(append to the metadata log at the offsets that Decide was told)
//	records --Replay--> the next State          one path for live work and for recovery
//	response leaves when the records are committed
//
// The State is the newest image, committed or not, and what only the active controller
// knows: which brokers it heard from, and when. Time and random bits are arguments.
//
// What this package never does: append, wait, or answer anyone.
package controller

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock"
	"seedlog/node/config"
	"seedlog/node/meta"
)

// State is the controller's view. It is not safe for concurrent use.
type State struct {
	clusterID string
	static    *config.Config // the settings of this process
	image     *meta.Image
	sessions  map[int32]*session

	// dynamic is static under the cluster-wide overrides of the image that dynamicOf is of.
	dynamic   *config.Config
	dynamicOf meta.Config
	// defaults are what the settings of this process mean for a topic.
	defaults config.Topic
	timers   timers
	// minISRSetAt is the offset of the last record that may have raised a min.insync.replicas.
	minISRSetAt int64
}

// New returns the state of a controller whose log so far gives img.
func New(clusterID string, cfg *config.Config, img *meta.Image) *State {
	return &State{clusterID: clusterID, static: cfg, image: img, sessions: make(map[int32]*session), defaults: cfg.Topic(nil)}
}

// Image is the newest image, with what is appended and not yet committed.
func (s *State) Image() *meta.Image { return s.image }

// Input is what a decision depends on besides the state and the command.
type Input struct {
	// NextOffset is the offset that the first of the records will have.
	NextOffset int64
	Now        clock.Instant
	Rand       *rand.Rand
	// What an UpdateFeatures request depends on and the image does not say: the quorum's
	// version, and the ids of its other voters.
	KRaftVersion int16
	Voters       []int32
}

// Decision is what a command comes to.
type Decision struct {
	// Records are to be appended as one batch, or not at all. Without records the response
	// still depends on everything appended before.
	Records  []meta.Record
	Response kmsg.Response
	// KRaftVersion, if it is above the input's, is a level that the quorum has to take first, or
	// with ValidateOnly to say that it could: then the command is decided anew with that level. If
	// the quorum refuses, [Refused] is the response, and nothing is done.
	KRaftVersion int16
}

// Decide answers a command. Nothing but what is known of sessions changes, so that a command
// may be decided anew at another offset. It panics on a request type that it does not know: the
// listeners' tables name those that come here.
func (s *State) Decide(req kmsg.Request, in Input) Decision {
	switch r := req.(type) {
	case *kmsg.CreateTopicsRequest:
		return s.createTopics(r, in)
	case *kmsg.DeleteTopicsRequest:
		return s.deleteTopics(r)
	case *kmsg.CreatePartitionsRequest:
		return s.createPartitions(r, in)
	case *kmsg.IncrementalAlterConfigsRequest:
		return s.incrementalAlterConfigs(r, in)
	case *kmsg.AlterConfigsRequest:
		return s.alterConfigs(r, in)
	case *kmsg.BrokerRegistrationRequest:
		return s.registerBroker(r, in)
	case *kmsg.BrokerHeartbeatRequest:
		return s.heartbeat(r, in)
	case *kmsg.UnregisterBrokerRequest:
		return s.unregisterBroker(r)
	case *kmsg.AllocateProducerIDsRequest:
		return s.allocateProducerIDs(r)
	case *kmsg.AlterPartitionRequest:
		return s.alterPartition(r)
	case *kmsg.AssignReplicasToDirsRequest:
		return s.assignReplicasToDirs(r)
	case *kmsg.ControllerRegistrationRequest:
		return s.registerController(r)
	case *kmsg.ElectLeadersRequest:
		return s.electLeaders(r)
	case *kmsg.AlterPartitionAssignmentsRequest:
		return s.alterReassignments(r)
	case *kmsg.ListPartitionReassignmentsRequest:
		return s.listReassignments(r)
	case *kmsg.UpdateFeaturesRequest:
		return s.updateFeatures(r, in)
	}
	panic(fmt.Sprintf("controller: no command for request key %d", req.Key()))
}

// Replay applies records that were appended, the last at offset, and returns what changed.
// It is the only way the image of a State changes.
func (s *State) Replay(records []meta.Record, offset int64, epoch int32) (*meta.Delta, error) {
	next, delta, err := s.image.Apply(records, offset, epoch)
	if err != nil {
		return nil, err
	}
	s.image = next
	return delta, nil
}

// after is the state as it will be once records are replayed: what a decision of several
// steps takes its next step on.
func (s *State) after(records []meta.Record) *State {
	if len(records) == 0 {
		return s
	}
	next := *s
	next.image = mustApply(s.image, records)
	return &next
}

// apiError is what is wrong with a request or a part of it.
type apiError struct {
	code int16
	text string
}

func failf(code *kerr.Error, format string, args ...any) *apiError {
	return &apiError{code.Code, fmt.Sprintf(format, args...)}
}

// message is the text for the response; nil is no error.
func (e *apiError) message() *string {
	if e == nil {
		return nil
	}
	if e.text == "" {
		text := kerr.ErrorForCode(e.code).(*kerr.Error).Description
		return &text
	}
	if len(e.text) > maxTextBytes { // it quotes what it complains of
		text := strings.ToValidUTF8(e.text[:maxTextBytes], "")
		return &text
	}
	return &e.text
}

// maxTextBytes is the longest string that an answer has room for.
const maxTextBytes = 1<<15 - 1

func (e *apiError) errorCode() int16 {
	if e == nil {
		return 0
	}
	return e.code
}

// brokerConfig is the settings under the image's cluster-wide overrides.
func (s *State) brokerConfig() *config.Config {
	set := s.image.Config(meta.BrokerResource, "")
	if s.dynamic == nil || !sameConfig(set, s.dynamicOf) {
		s.dynamic, s.dynamicOf = s.static.WithDynamic(nil, set.Map()), set
	}
	return s.dynamic
}

// sameConfig compares by identity: configurations in images never change.
func sameConfig(a, b meta.Config) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// minISR is the topic's min.insync.replicas.
func (s *State) minISR(topic string) int {
	n := 0
	if v, ok := s.setting(topic, minISRName); ok {
		n, _ = strconv.Atoi(strings.TrimSpace(v))
	}
	if n <= 0 {
		n = int(s.defaults.MinInsyncReplicas)
	}
	return n
}

// uncleanElection is the topic's unclean.leader.election.enable.
func (s *State) uncleanElection(topic string) bool {
	if v, ok := s.setting(topic, uncleanElectionName); ok {
		return strings.EqualFold(strings.TrimSpace(v), "true")
	}
	return s.defaults.UncleanLeaderElection
}

// setting is what the image sets for a topic, or for all brokers under the same name.
func (s *State) setting(topic, name string) (string, bool) {
	if v, ok := s.image.Config(meta.TopicResource, topic).Get(name); ok {
		return v, true
	}
	return s.image.Config(meta.BrokerResource, "").Get(name)
}
