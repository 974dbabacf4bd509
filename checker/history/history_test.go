package history

import (
	"slices"
	"testing"
)

// a builds the shortest sound history: two sends, one poll, the log that holds both.
func sound() *History {
	return &History{
		Partitions: []Partition{{Topic: "t"}},
		Deleted:    []bool{false},
		Logs:       []Log{{Start: 0, End: 2, Records: []Seen{{0, 0xa}, {1, 0xb}}}},
		Sends: []Send{
			{Digest: 0xa, Invoke: 1, Return: 2, Outcome: OK, Offset: 0, Acks: -1},
			{Digest: 0xb, Invoke: 3, Return: 4, Outcome: OK, Offset: 1, Acks: -1},
		},
		Polls:       []Poll{{Client: 9, Invoke: 5, Return: 6, From: 0, HighWatermark: 2, Records: []Seen{{0, 0xa}, {1, 0xb}}}},
		Epochs:      make([][]EpochStart, 1),
		Anew:        make([]map[int32]int64, 1),
		Final:       true,
		FinalClient: 9,
	}
}

// writtenAgain: the value at 0 is deleted, and stands at 2, where epoch 1 begins.
func writtenAgain(h *History) {
	h.Replicated, h.Epochs[0] = []bool{true}, []EpochStart{{0, 0}, {1, 2}}
	h.Logs[0] = Log{Start: 1, End: 3, Records: []Seen{{1, 0xb}, {2, 0xa}}}
	h.Removals = []Removal{{Before: 1}}
	h.Polls = append(h.Polls, Poll{Client: 9, Invoke: 7, Return: 8, From: 2, HighWatermark: 3, Records: []Seen{{2, 0xa}}})
}

// Every rule of the checker is shown a history that breaks just it.
func TestEachAnomalyIsNamed(t *testing.T) {
	for _, c := range []struct {
		want  string // "" for none
		spoil func(h *History)
	}{
		{"", func(h *History) {}},
		{"I4", func(h *History) {
			h.Logs[0].Records = h.Logs[0].Records[:1]
			h.Polls[0].Records = h.Polls[0].Records[:1]
		}},
		{"", func(h *History) {
			h.Logs[0].Records = h.Logs[0].Records[:1]
			h.Cuts = []Cut{{At: 7, Offset: 1}}
		}},
		{"I4", func(h *History) {
			h.Logs[0].Records = h.Logs[0].Records[:1]
			h.Cuts = []Cut{{At: 7, Offset: 1}}
			h.Sends[1].Synced = true
		}},
		{"I4", func(h *History) {
			// The power failed before the value was sent: that explains nothing.
			h.Logs[0].Records = h.Logs[0].Records[:1]
			h.Polls[0].Records = h.Polls[0].Records[:1]
			h.Cuts = []Cut{{At: 2, Offset: 1}}
		}},
		{"I5", func(h *History) {
			h.Logs[0].Records = h.Logs[0].Records[:1]
			h.Cuts = []Cut{{At: 7, Offset: 1}}
			h.Polls[0].Synced = true
		}},
		{"", func(h *History) {
			// The leader alone said so, and another one does not have it.
			h.Replicated, h.Epochs = []bool{true}, make([][]EpochStart, 1)
			h.Sends[1].Acks, h.Sends[1].Alone = 1, true
			h.Logs[0] = Log{End: 1, Records: []Seen{{0, 0xa}}}
			h.Polls[0].Records, h.Polls[0].HighWatermark = h.Polls[0].Records[:1], 1
		}},
		{"I5", func(h *History) {
			// The leader alone said so, and somebody could read it.
			h.Replicated, h.Epochs = []bool{true}, make([][]EpochStart, 1)
			h.Sends[1].Acks, h.Sends[1].Alone = 1, true
			h.Logs[0] = Log{End: 1, Records: []Seen{{0, 0xa}}}
		}},
		{"I4", func(h *History) {
			// All replicas said so.
			h.Replicated, h.Epochs = []bool{true}, make([][]EpochStart, 1)
			h.Logs[0] = Log{End: 1, Records: []Seen{{0, 0xa}}}
			h.Polls[0].Records, h.Polls[0].HighWatermark = h.Polls[0].Records[:1], 1
		}},
		{"", func(h *History) {
			// An unclean leader of epoch 1 took it; who led before went on saying that it is there.
			h.Logs[0] = Log{End: 1, Records: []Seen{{0, 0xa}}}
			h.Cuts = []Cut{{At: 1, Offset: 1, Unclean: true, Epoch: 1}}
		}},
		{"I5", func(h *History) {
			// Who was elected uncleanly has it, and loses nothing more.
			h.Logs[0] = Log{End: 1, Records: []Seen{{0, 0xa}}}
			h.Cuts = []Cut{{At: 1, Offset: 1, Unclean: true, Epoch: 1}}
			h.Polls[0].LeaderEpoch = 1
		}},
		{"", func(h *History) {
			// A follower answered, which may not have heard of it.
			h.Logs[0] = Log{End: 1, Records: []Seen{{0, 0xa}}}
			h.Cuts = []Cut{{At: 1, Offset: 1, Unclean: true, Epoch: 1}}
			h.Polls[0].LeaderEpoch, h.Polls[0].Follower = 1, true
		}},
		{"I4", func(h *History) {
			// Who was elected uncleanly acknowledged it.
			h.Logs[0] = Log{End: 1, Records: []Seen{{0, 0xa}}}
			h.Cuts = []Cut{{At: 1, Offset: 1, Unclean: true, Epoch: 1}}
			h.Sends[1].LeaderEpoch = 1
		}},
		{"I4", func(h *History) {
			// A power loss took it; the unclean election before explains nothing.
			h.Logs[0] = Log{End: 1, Records: []Seen{{0, 0xa}}}
			h.Cuts = []Cut{{At: 1, Offset: 1, Unclean: true, Epoch: 1}, {At: 7, Offset: 1, Epoch: 2}}
			h.Sends[1].LeaderEpoch, h.Sends[1].Synced = 1, true
		}},
		{"I6", func(h *History) {
			// Both leaders were elected after the loss.
			h.Replicated, h.Epochs = []bool{true}, [][]EpochStart{{{0, 0}, {1, 1}, {2, 1}}}
			h.Cuts = []Cut{{At: 1, Offset: 1, Unclean: true, Epoch: 1}}
			h.Polls[0].LeaderEpoch = 1
			h.Polls = append(h.Polls, Poll{Client: 8, Invoke: 7, Return: 8, HighWatermark: 1, LeaderEpoch: 2})
		}},
		{"", func(h *History) {
			h.Replicated, h.Epochs = []bool{true}, [][]EpochStart{{{0, 0}, {1, 1}, {2, 1}}}
			h.Cuts = []Cut{{At: 1, Offset: 1, Unclean: true, Epoch: 2}}
			h.Polls[0].LeaderEpoch = 1
			h.Polls = append(h.Polls, Poll{Client: 8, Invoke: 7, Return: 8, HighWatermark: 1, LeaderEpoch: 2})
		}},
		{"", func(h *History) {
			// A follower that had not heard of the loss yet answered with what it had.
			h.Logs[0] = Log{End: 1, Records: []Seen{{0, 0xa}}}
			h.Cuts = []Cut{{At: 4, Offset: 1}}
			h.Polls[0].Bygone = true
		}},
		{"I5", func(h *History) {
			// Who has led since knows.
			h.Logs[0] = Log{End: 1, Records: []Seen{{0, 0xa}}}
			h.Cuts = []Cut{{At: 4, Offset: 1}}
		}},
		{"I5", func(h *History) {
			// What lies below the loss is nobody's to change.
			h.Logs[0] = Log{End: 1, Records: []Seen{{0, 0xc}}}
			h.Cuts = []Cut{{At: 4, Offset: 1}}
			h.Polls[0].Bygone = true
		}},
		{"I6", func(h *History) {
			h.Replicated, h.Epochs = []bool{true}, [][]EpochStart{{{0, 0}, {1, 1}}}
			h.Polls = append(h.Polls, Poll{Client: 8, Invoke: 7, Return: 8, HighWatermark: 1, LeaderEpoch: 1})
		}},
		{"", func(h *History) {
			// The new leader has not come to the start of its epoch yet.
			h.Replicated, h.Epochs = []bool{true}, [][]EpochStart{{{0, 0}, {1, 2}}}
			h.Polls = append(h.Polls, Poll{Client: 8, Invoke: 7, Return: 8, HighWatermark: 1, LeaderEpoch: 1})
		}},
		{"", func(h *History) {
			// A follower may lag behind.
			h.Polls = append(h.Polls, Poll{Client: 8, Invoke: 7, Return: 8, HighWatermark: 1, Follower: true})
		}},
		{"duplicate", func(h *History) {
			h.Logs[0] = Log{End: 3, Records: []Seen{{0, 0xa}, {1, 0xb}, {2, 0xb}}}
			h.Polls[0].Records = append(h.Polls[0].Records, Seen{2, 0xb})
		}},
		{"duplicate", func(h *History) {
			// That producers expire is no excuse for what was sent once.
			h.ProducersExpire = true
			h.Logs[0] = Log{End: 3, Records: []Seen{{0, 0xa}, {1, 0xb}, {2, 0xb}}}
			h.Polls[0].Records = append(h.Polls[0].Records, Seen{2, 0xb})
		}},
		{"", func(h *History) {
			// A repeat that came after its producer had expired, and was acknowledged.
			h.ProducersExpire = true
			h.Logs[0] = Log{End: 3, Records: []Seen{{0, 0xa}, {1, 0xb}, {2, 0xb}}}
			h.Polls[0].Records = append(h.Polls[0].Records, Seen{2, 0xb})
			h.Sends[1].Idempotent, h.Sends[1].Offset = true, 2
		}},
		{"I4", func(h *History) {
			h.ProducersExpire = true
			h.Logs[0] = Log{End: 4, Records: []Seen{{0, 0xa}, {1, 0xb}, {2, 0xb}, {3, 0xc}}}
			h.Sends[1].Idempotent, h.Sends[1].Offset = true, 3
		}},
		{"", func(h *History) {
			h.Sends[1] = Send{Digest: 0xb, Invoke: 3, Return: 4, Offset: -1, Idempotent: true, Disowned: true, Restarted: true}
		}},
		{"I17", func(h *History) {
			h.Sends[1] = Send{Digest: 0xb, Invoke: 3, Return: 4, Offset: -1, Idempotent: true, Disowned: true}
		}},
		{"", func(h *History) {
			h.Sends[1] = Send{Digest: 0xb, Invoke: 3, Return: 4, Offset: -1, Idempotent: true, Disowned: true, Deposed: true}
		}},
		{"I17", func(h *History) {
			h.Sends = append(h.Sends, Send{Digest: 0xc, Invoke: 3, Return: 4, Offset: -1, Idempotent: true, Disowned: true, Restarted: true})
		}},
		{"I17", func(h *History) {
			h.Sends = append(h.Sends, Send{Digest: 0xc, Invoke: 3, Return: 4, Offset: -1, Idempotent: true, Disowned: true, Restarted: true, Held: Hasnt})
		}},
		{"", func(h *History) {
			// The broker had it; a new leader did not, and cut it away.
			h.Sends = append(h.Sends, Send{Digest: 0xc, Invoke: 3, Return: 4, Offset: -1, Idempotent: true, Disowned: true, Restarted: true, Held: Has})
		}},
		{"", func(h *History) {
			// Nobody could look, and a loss may have taken it later.
			h.Sends = append(h.Sends, Send{Digest: 0xc, Invoke: 3, Return: 4, Offset: -1, Idempotent: true, Disowned: true, Restarted: true})
			h.Cuts = []Cut{{At: 5, Offset: 2}}
		}},
		{"I17", func(h *History) {
			// What was lost later is no excuse for who did not have it.
			h.Sends = append(h.Sends, Send{Digest: 0xc, Invoke: 3, Return: 4, Offset: -1, Idempotent: true, Disowned: true, Restarted: true, Held: Hasnt})
			h.Cuts = []Cut{{At: 5, Offset: 2}}
		}},
		{"I17", func(h *History) {
			// Whoever has it knows it while it runs.
			h.Sends[1] = Send{Digest: 0xb, Invoke: 3, Return: 4, Offset: -1, Idempotent: true, Disowned: true, Held: Has}
		}},
		{"", func(h *History) {
			h.Sends = append(h.Sends, Send{Digest: 0xc, Invoke: 3, Return: 4, Offset: -1, Idempotent: true, Disowned: true, Bereft: true})
		}},
		{"G1a", func(h *History) { h.Sends[0].Outcome = Failed }},
		{"inconsistent-offsets", func(h *History) { h.Sends[0].Offset = 1 }},
		{"nonmonotonic-send", func(h *History) {
			h.Sends[0].Invoke, h.Sends[0].Return, h.Sends[1].Invoke, h.Sends[1].Return = 3, 4, 1, 2
		}},
		{"", func(h *History) { h.Sends[1].Invoke = 2 }},
		{"int-poll-skip", func(h *History) {
			h.Polls = append(h.Polls, Poll{Client: 1, Invoke: 5, Return: 6, From: 0, HighWatermark: 2, Records: []Seen{{1, 0xb}}})
		}},
		{"int-nonmonotonic-poll", func(h *History) {
			h.Polls = append(h.Polls, Poll{Client: 1, Invoke: 5, Return: 6, From: 1, HighWatermark: 2, Records: []Seen{{0, 0xa}}})
		}},
		{"poll-skip", func(h *History) {
			h.Polls = append(h.Polls, Poll{Client: 1, Invoke: 5, Return: 6, From: 0, HighWatermark: 2},
				Poll{Client: 1, Invoke: 7, Return: 8, From: 1, HighWatermark: 2, Records: []Seen{{1, 0xb}}})
		}},
		{"I5", func(h *History) {
			h.Polls = append(h.Polls, Poll{Client: 1, Invoke: 5, Return: 6, From: 1, HighWatermark: 2, Records: []Seen{{1, 0xc}}})
		}},
		{"I6", func(h *History) {
			h.Polls = append(h.Polls, Poll{Client: 1, Invoke: 7, Return: 8, From: 1, HighWatermark: 1})
		}},
		{"I14", func(h *History) {
			h.Polls = append(h.Polls, Poll{Client: 1, Invoke: 7, Return: 8, From: 1, HighWatermark: 2, LogStart: 3})
		}},
		{"", func(h *History) {
			// Asked for before the power failed, answered after a poll that came later.
			h.Cuts = []Cut{{At: 7, Offset: 1}}
			h.Logs[0].Records[1].Digest, h.Polls[0].Records[1].Digest = 0xd, 0xd
			h.Sends = append(h.Sends, Send{Digest: 0xd, Invoke: 8, Return: 9, Outcome: OK, Offset: 1, Acks: -1})
			h.Polls[0].Invoke, h.Polls[0].Return = 10, 11
			h.Polls = append(h.Polls, Poll{Client: 1, Invoke: 5, Return: 12, From: 1, HighWatermark: 2, Records: []Seen{{1, 0xb}}})
		}},
		{"inconsistent-offsets", func(h *History) {
			// No power loss lies between the two.
			h.Cuts = []Cut{{At: 4, Offset: 1}}
			h.Polls = append(h.Polls, Poll{Client: 1, Invoke: 5, Return: 12, From: 1, HighWatermark: 2, Records: []Seen{{1, 0xc}}})
		}},
		{"unseen", func(h *History) { h.Polls[0].Records = h.Polls[0].Records[:1] }},
		{"I4", func(h *History) {
			// A prefix is gone that nobody asked to remove.
			h.Logs[0] = Log{Start: 1, End: 2, Records: []Seen{{1, 0xb}}}
		}},
		{"", func(h *History) {
			h.Logs[0] = Log{Start: 1, End: 2, Records: []Seen{{1, 0xb}}}
			h.Removals = []Removal{{Before: 1}}
		}},
		{"", func(h *History) {
			// Who leads began above what is deleted, knew nobody of there, and wrote it again.
			writtenAgain(h)
			h.Anew[0] = map[int32]int64{1: 1}
		}},
		{"I4", func(h *History) {
			// Another leader did.
			writtenAgain(h)
			h.Anew[0] = map[int32]int64{0: 1}
		}},
		{"I4", func(h *History) {
			// It began below, and knew.
			writtenAgain(h)
			h.Anew[0] = map[int32]int64{1: 0}
		}},
		{"I4", func(h *History) {
			// Nobody deleted it.
			writtenAgain(h)
			h.Anew[0], h.Removals = map[int32]int64{1: 1}, nil
		}},
		{"I24", func(h *History) {
			// What was deleted and acknowledged is back.
			h.StartsKept = []bool{true}
			h.Removals = []Removal{{Before: 1, Acked: true}}
		}},
		{"", func(h *History) {
			h.StartsKept = []bool{true}
			h.Removals = []Removal{{Before: 1}}
		}},
	} {
		h := sound()
		c.spoil(h)
		v := h.Check()
		var got []string
		for _, x := range v.Violations {
			got = append(got, x.Invariant)
		}
		if c.want == "" && len(got) > 0 || c.want != "" && !slices.Contains(got, c.want) {
			t.Errorf("want %q, got %v", c.want, v.Violations)
		}
	}
}
