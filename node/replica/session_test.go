package replica

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// words is a request as a follower's session composed it.
func words(req *kmsg.FetchRequest) string {
	out := []string{fmt.Sprintf("session %d epoch %d:", req.SessionID, req.SessionEpoch)}
	for _, topic := range req.Topics {
		for _, p := range topic.Partitions {
			out = append(out, fmt.Sprintf("%d-%d from %d", topic.TopicID[0], p.Partition, p.FetchOffset))
		}
	}
	for _, topic := range req.ForgottenTopics {
		for _, p := range topic.Partitions {
			out = append(out, fmt.Sprintf("forget %d-%d", topic.TopicID[0], p))
		}
	}
	return strings.Join(out, " ")
}

func wantFrom(topic byte, index int32, offset int64) want {
	return want{Key{Topic: [16]byte{topic}, Partition: index}, toldPart{position: position{offset: offset}, maxBytes: 1}}
}

// A follower's session tells the leader what changed and nothing else, and begins anew when
// it was lost.
func TestAFollowersSessionTellsWhatChanged(t *testing.T) {
	var s fetchSession
	var req kmsg.FetchRequest
	step := func(what string, wanted string, wants ...want) {
		t.Helper()
		s.compose(&req, wants)
		if got := words(&req); got != wanted {
			t.Errorf("%s:\n got %s\nwant %s", what, got, wanted)
		}
	}
	a, b, c := wantFrom(1, 0, 5), wantFrom(1, 1, 7), wantFrom(2, 0, 0)
	step("the first is full", "session 0 epoch 0: 1-0 from 5 1-1 from 7", a, b)
	s.answered(44)
	step("nothing changed", "session 44 epoch 1:", a, b)
	s.answered(44)
	step("one moved on, one is new", "session 44 epoch 2: 1-0 from 6 2-0 from 0", wantFrom(1, 0, 6), b, c)
	s.answered(44)
	step("one is not wanted", "session 44 epoch 3: forget 1-1", wantFrom(1, 0, 6), c)
	s.answered(44)
	step("and is wanted again", "session 44 epoch 4: 1-1 from 7", wantFrom(1, 0, 6), b, c)
	s.reset()
	step("after a failure all are told, and the old session ends", "session 44 epoch 0: 1-0 from 6 1-1 from 7", wantFrom(1, 0, 6), b)
	s.answered(0)
	step("a leader without room for a session is told all", "session 0 epoch 0: 1-0 from 6", wantFrom(1, 0, 6))
	s.answered(45)
	s.epoch = 1<<31 - 1
	s.answered(45)
	step("epochs wrap to 1", "session 45 epoch 1:", wantFrom(1, 0, 6))
}
