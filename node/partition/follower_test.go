package partition

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"seedlog/storage/epoch"
)

// cache is a follower's epochs with its log end.
type cache struct {
	epoch.Cache
	end int64
}

func (c cache) EndOffsetForEpoch(e int32) (int32, int64) { return c.EndOffsetFor(e, c.end) }

func cacheOf(t *testing.T, end int64, entries ...epoch.Entry) cache {
	t.Helper()
	c, err := epoch.FromEntries(entries)
	if err != nil {
		t.Fatal(err)
	}
	return cache{c, end}
}

// What a follower does with each kind of answer. Its log is [0, 10): epoch 1 from 0, epoch 3
// from 5.
func TestWhatAFollowerDoesWithAnAnswer(t *testing.T) {
	mine := Replica{LogStart: 0, LogEnd: 10, HighWatermark: 4}
	epochs := cacheOf(t, 10, epoch.Entry{Epoch: 1, Start: 0}, epoch.Entry{Epoch: 3, Start: 5})
	diverges := func(e int32, end int64) Answer {
		return Answer{HighWatermark: 9, Diverges: true, DivergeEpoch: e, DivergeEnd: end}
	}
	for _, c := range []struct {
		name   string
		answer Answer
		want   string
	}{
		{"data or none", Answer{HighWatermark: 9}, "append"},
		{"the leader's epoch 3 ended earlier", diverges(3, 8), "truncate 8"},
		{"the leader's epoch 1 ended later than mine: mine is what we share", diverges(1, 7), "truncate 5"},
		{"the leader's epoch 1 ended earlier", diverges(1, 4), "truncate 4"},
		{"an epoch between mine (KIP-279)", diverges(2, 6), "truncate 5"},
		{"older than all that is left here", diverges(0, 3), "truncate 0"},
		{"out of range", Answer{Code: kerr.OffsetOutOfRange.Code}, "ask-offsets"},
		{"a newer leadership", Answer{Code: kerr.FencedLeaderEpoch.Code}, "await-metadata"},
		{"a leader that does not know yet", Answer{Code: kerr.UnknownLeaderEpoch.Code}, "retry-later"},
		{"not the leader", Answer{Code: kerr.NotLeaderForPartition.Code}, "retry-later"},
		{"its disk failed", Answer{Code: kerr.KafkaStorageError.Code}, "retry-later"},
	} {
		if got := AfterAnswer(mine, c.answer, epochs).String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	// The leader's log begins at 5, and nothing tells whose the records below are.
	for end, want := range map[int64]string{4: "restart-at 5", 5: "restart-at 5", 8: "truncate 8"} { //order: each by itself
		a := diverges(3, end)
		if a.LogStart = 5; end <= 5 {
			a.DivergeEpoch = 1
		}
		if got := AfterAnswer(mine, a, epochs).String(); got != want {
			t.Errorf("an epoch that ended at %d: %s, want %s", end, got, want)
		}
	}
	if got := AfterAnswer(mine, diverges(1, 7), cacheOf(t, 10)).String(); got != "truncate 7" {
		t.Errorf("without epochs of its own: %s", got)
	}
}

func TestALogEndOutsideTheLeadersLog(t *testing.T) {
	mine := Replica{LogEnd: 10}
	for _, c := range []struct {
		start, end int64
		want       string
	}{{12, 40, "restart-at 12"}, {10, 40, "ask-again"}, {3, 8, "truncate 8"}, {3, 10, "ask-again"}} {
		if got := AfterOffsets(mine, c.start, c.end).String(); got != c.want {
			t.Errorf("leader has [%d, %d): %s, want %s", c.start, c.end, got, c.want)
		}
	}
}

func TestBatchesThatDoNotContinueTheLog(t *testing.T) {
	for _, c := range []struct {
		name        string
		start, end  int64
		leaderStart int64
		first, last int64
		want        string
	}{
		{"an empty log that begins in the middle of the batch", 5, 5, 5, 3, 7, "restart-at 3"},
		{"or at its last record", 5, 5, 5, 3, 5, "restart-at 3"},
		{"a batch that lies before it", 5, 5, 5, 3, 4, "retry-later"},
		{"a log with records", 3, 5, 3, 3, 7, "retry-later"},
		{"one whose records the leader has deleted", 0, 5, 5, 3, 7, "restart-at 3"},
		{"one with a record that the leader still has", 0, 5, 4, 3, 7, "retry-later"},
	} {
		if got := AfterMisfit(Replica{LogStart: c.start, LogEnd: c.end}, c.leaderStart, c.first, c.last).String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestAFollowersHighWatermark(t *testing.T) {
	for _, c := range []struct{ own, end, leaders, want int64 }{
		{4, 10, 7, 7}, {4, 10, 20, 10}, {4, 10, 2, 4}, {4, 10, -1, 4},
	} {
		mine := Replica{LogEnd: c.end, HighWatermark: c.own}
		if got := FollowerHighWatermark(mine, c.leaders); got != c.want {
			t.Errorf("own %d, end %d, leader's %d: %d, want %d", c.own, c.end, c.leaders, got, c.want)
		}
	}
}
