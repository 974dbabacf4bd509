// Package linear searches for a linearization where there is no log to consult: the
// metadata of topics and the committed offsets of groups; and it gives a second opinion on
// resolved partition logs. It is porcupine with our models.
//
// Intervals are closed and stamped with event numbers. An operation with an unknown outcome
// has no end. A history that the search gives up on is a violation too: its limit lies far
// above need, so that load never changes a verdict.
package linear

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"

	"seedlog/checker"
)

// searchLimit is wall time; the histories of a run take milliseconds.
const searchLimit = 60 * time.Second

// Never is the return of an operation whose outcome stayed unknown.
const Never = int64(1) << 62

// TopicOp is one operation on one topic name.
type TopicOp struct {
	Client         int
	Topic          string
	Invoke, Return int64
	Kind           TopicKind
	// Unknown: no answer came, it may or may not have happened.
	Unknown bool
	// Exists is what a refused create or delete said, or what a describe of the controller saw.
	Exists     bool
	OK         bool
	ID         [16]byte // of a successful create or describe
	Partitions int32    // asked for, or described
}

// TopicKind is the kind of a TopicOp.
type TopicKind uint8

const (
	CreateTopic TopicKind = iota
	DeleteTopic
	CreatePartitions
	DescribeTopic
)

type topicState struct {
	exists     bool
	id         [16]byte
	partitions int32
}

// Topics is: a topic is absent, or has an id and a number of partitions.
func topicsModel() porcupine.Model {
	return porcupine.Model{
		Partition: func(h []porcupine.Operation) [][]porcupine.Operation {
			return split(h, func(o porcupine.Operation) string { return o.Input.(TopicOp).Topic })
		},
		Init:              func() any { return topicState{} },
		Step:              func(state, in, _ any) (bool, any) { return stepTopic(state.(topicState), in.(TopicOp)) },
		DescribeOperation: func(in, _ any) string { return fmt.Sprintf("%+v", in) },
	}
}

func stepTopic(s topicState, op TopicOp) (bool, any) {
	switch op.Kind {
	case CreateTopic:
		switch {
		case op.OK:
			return !s.exists, topicState{true, op.ID, op.Partitions}
		case op.Unknown && !s.exists:
			return true, topicState{true, op.ID, op.Partitions}
		case op.Unknown:
			return true, s
		}
		return s.exists == op.Exists, s
	case DeleteTopic:
		switch {
		case op.OK:
			return s.exists, topicState{}
		case op.Unknown:
			return true, topicState{}
		}
		return s.exists == op.Exists, s
	case CreatePartitions:
		grown := s
		grown.partitions = op.Partitions
		switch {
		case op.OK:
			return s.exists && op.Partitions > s.partitions, grown
		case op.Unknown && s.exists && op.Partitions > s.partitions:
			return true, grown
		}
		return true, s
	}
	if !op.Exists {
		return !s.exists, s
	}
	// A create whose answer was lost left an id that nobody knew before.
	if s.exists && s.id == ([16]byte{}) {
		s.id = op.ID
	}
	return s.exists && s.id == op.ID && s.partitions == op.Partitions, s
}

// CheckTopics judges a history of topic operations.
func CheckTopics(ops []TopicOp) checker.Verdict {
	var h []porcupine.Operation
	for _, o := range ops {
		h = append(h, operation(o.Client, o, o.Invoke, o.Return, o.Unknown))
	}
	return check(topicsModel(), h, "topic metadata")
}

// OffsetOp is one commit or fetch of a committed offset.
type OffsetOp struct {
	Client         int
	Group          string
	Topic          string
	Partition      int32
	Invoke, Return int64
	Commit         bool
	Unknown        bool
	Offset         int64 // committed, or read; -1 for none
}

// CheckOffsets judges a history of committed offsets: each (group, topic, partition) is a
// register. Refused commits are not part of the history: they had no effect.
func CheckOffsets(ops []OffsetOp) checker.Verdict {
	model := porcupine.Model{
		Partition: func(h []porcupine.Operation) [][]porcupine.Operation {
			return split(h, func(o porcupine.Operation) string {
				k := o.Input.(OffsetOp)
				return fmt.Sprintf("%s/%s/%d", k.Group, k.Topic, k.Partition)
			})
		},
		Init: func() any { return int64(-1) },
		Step: func(state, in, _ any) (bool, any) {
			op := in.(OffsetOp)
			if op.Commit {
				return true, op.Offset
			}
			return state.(int64) == op.Offset, state
		},
		DescribeOperation: func(in, _ any) string { return fmt.Sprintf("%+v", in) },
	}
	var h []porcupine.Operation
	for _, o := range ops {
		if o.Unknown && !o.Commit {
			continue
		}
		h = append(h, operation(o.Client, o, o.Invoke, o.Return, o.Unknown))
	}
	return check(model, h, "committed offsets")
}

// LogOp is a resolved append of Count records at Offset, or a read that saw the log up to
// (not including) Offset.
type LogOp struct {
	Client         int
	Log            string
	Invoke, Return int64
	Unknown        bool
	Append         bool
	Offset         int64
	Count          int64
}

// CheckLogs is the second opinion on resolved logs: an append happens at the end, a read sees
// no more than there is.
func CheckLogs(ops []LogOp) checker.Verdict {
	model := porcupine.Model{
		Partition: func(h []porcupine.Operation) [][]porcupine.Operation {
			return split(h, func(o porcupine.Operation) string { return o.Input.(LogOp).Log })
		},
		Init: func() any { return int64(0) },
		Step: func(state, in, _ any) (bool, any) {
			op, end := in.(LogOp), state.(int64)
			if op.Append {
				return op.Offset == end, end + op.Count
			}
			return op.Offset <= end, end
		},
		DescribeOperation: func(in, _ any) string { return fmt.Sprintf("%+v", in) },
	}
	var h []porcupine.Operation
	for _, o := range ops {
		h = append(h, operation(o.Client, o, o.Invoke, o.Return, o.Unknown))
	}
	return check(model, h, "partition log")
}

func operation(client int, in any, invoke, ret int64, unknown bool) porcupine.Operation {
	if unknown {
		ret = Never
	}
	return porcupine.Operation{ClientId: client, Input: in, Call: invoke, Return: ret}
}

func check(model porcupine.Model, h []porcupine.Operation, what string) checker.Verdict {
	var v checker.Verdict
	for _, part := range model.Partition(h) {
		one := model
		one.Partition = nil
		switch porcupine.CheckOperationsTimeout(one, part, searchLimit) {
		case porcupine.Illegal:
			v.Failf("linearizable", what, "no order explains the history: %s", story(model, part))
		case porcupine.Unknown:
			v.Failf("linearizable", what, "the search gave up after %v on %d operations", searchLimit, len(part))
		}
	}
	return v
}

// story prints a broken history up to its first operation that cannot be explained.
func story(model porcupine.Model, h []porcupine.Operation) string {
	one := model
	one.Partition = nil
	n := len(h)
	for k := 1; k < len(h); k++ {
		if porcupine.CheckOperationsTimeout(one, h[:k], searchLimit) == porcupine.Illegal {
			n = k
			break
		}
	}
	out := ""
	for _, o := range h[max(0, n-12):n] {
		out += fmt.Sprintf("\n  [%d, %d] %s", o.Call, o.Return, model.DescribeOperation(o.Input, nil))
	}
	return out
}

// split groups operations by key in the order of first appearance.
func split(h []porcupine.Operation, key func(porcupine.Operation) string) [][]porcupine.Operation {
	at := make(map[string]int)
	var out [][]porcupine.Operation
	for _, o := range h {
		k := key(o)
		i, ok := at[k]
		if !ok {
			i = len(out)
			at[k] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], o)
	}
	return out
}
