package scenarios

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"seedlog/checker/history"
	"seedlog/clock/task"
	"seedlog/scenarios/client"
	"seedlog/sim/sched"
	"seedlog/sim/simdisk"
)

// story is a named scenario while it is told: straight lines of what is done and what must
// be seen. The first thing that is not as it must be ends it.
type story struct {
	*Run
	failed bool
}

// tell sets a calm world with one broker up and tells the story; what the clients did is
// not judged by histories, the story says what must hold.
func tell(r *Run, fn func(s *story)) {
	s := &story{Run: r}
	r.AddBroker(simdisk.Config{}, sched.ClockParams{})
	if s.boot() {
		fn(s)
	}
	if s.failed || r.over() {
		r.complain()
	}
}

// must notes a broken expectation.
func (s *story) must(ok bool, invariant, format string, args ...any) bool {
	if !ok && !s.failed {
		s.failed = true
		s.Failf(invariant, s.opts.Scenario, format, args...)
	}
	return ok
}

// ok ends the story on an error.
func (s *story) ok(err error, what string) bool {
	return s.must(err == nil, "scenario", "%s: %v", what, err)
}

// code expects an error code.
func (s *story) code(got int16, want *kerr.Error, what string) bool {
	code := int16(0)
	if want != nil {
		code = want.Code
	}
	return s.must(got == code, "codes", "%s: got %s, want %s", what, client.CodeName(got), client.CodeName(code))
}

// boot starts the broker and waits until it serves.
func (s *story) boot() bool {
	if !s.Boot() {
		s.failed = true
		return false
	}
	if !s.World.Run(s.Broker.Ready, readyWithin) {
		return s.must(false, "liveness", "the broker does not come up: %v", s.ended())
	}
	s.guard.afterBoot()
	return true
}

func (s *story) ended() error {
	if inc := s.Broker.Incarnation(); inc != nil {
		if ended, err := inc.Ended(); ended {
			return fmt.Errorf("it ended with %w", err)
		}
	}
	return nil
}

// crash ends the process, by kill or by power loss, and starts it again.
func (s *story) crash(power bool) bool {
	s.down(power)
	return s.boot()
}

func (s *story) down(power bool) { s.server(s.Broker).end(power) }

// restart stops cleanly and starts again.
func (s *story) restart() bool { return s.stop() && s.boot() }

func (s *story) stop() bool {
	inc := s.Broker.Incarnation()
	s.Broker.Stop()
	done := s.World.Run(func() bool { ended, _ := inc.Ended(); return ended }, stopWithin)
	if !s.must(done, "liveness", "the broker does not stop") || !s.ok(func() error { _, err := inc.Ended(); return err }(), "clean stop") {
		return false
	}
	s.Broker.Reap()
	return true
}

// client runs fn as a client's task with one connection.
func (s *story) client(what string, fn func(t *task.T, p *client.Plain)) bool {
	if s.failed {
		return false
	}
	ok := s.Do(what, time.Minute, func(t *task.T, e *client.Env) {
		p := client.Open(t, e)
		defer p.Close()
		fn(t, p)
	})
	s.failed = s.failed || !ok
	return !s.failed
}

// topic makes a topic.
func (s *story) topic(name string, partitions int32, configs ...[2]string) *client.Topic {
	topic := &client.Topic{Name: name, Partitions: partitions}
	s.failed = s.failed || !s.CreateTopic(topic, configs)
	return topic
}

// wait lets simulated time pass.
func (s *story) wait(d time.Duration) { s.World.Run(nil, d) }

// batch is n records of the given size with a running number, stamped now.
func batch(now int64, spec client.BatchSpec, n, size int, first int) []byte {
	records := make([]client.Record, n)
	for i := range records {
		v := make([]byte, size)
		copy(v, fmt.Sprintf("%08d", first+i))
		records[i] = client.Record{Timestamp: now, Value: v}
	}
	return client.Encode(spec, records)
}

// nobody is the producer of batches without one.
var nobody = client.BatchSpec{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1}

func (s *story) partition(topic *client.Topic, index int32) history.Partition {
	return history.Partition{Topic: topic.Name, ID: topic.ID, Index: index}
}
