package replica

import (
	"testing"

	"seedlog/clock/live"
	"seedlog/clock/task"
	"seedlog/disk/osfs"
	"seedlog/node/config"
	"seedlog/node/meta"
	"seedlog/node/partition"
	"seedlog/storage"
)

// rounds runs fn with what a leader does for one partition in the fetches of two followers,
// besides reading: the followers' state, the high watermark, the question who joins the ISR.
func rounds(tb testing.TB, fn func(round func())) {
	rt := live.New(live.Options{})
	cfg, _, err := config.Parse(nil)
	if err != nil {
		tb.Fatal(err)
	}
	live.Main(rt, func(tk *task.T) {
		p, stop := leaderOfThree(tb, tk, cfg)
		defer stop()
		end := p.Log().LogEndOffset()
		fetch := func(id int32, offset int64) {
			if err := p.CheckFollower(id, 0); err != nil {
				tb.Error(err)
			}
			err := p.FollowerFetched(0, partition.FollowerFetch{Replica: id, BrokerEpoch: 1, Offset: offset, LogStart: 0, LeaderEnd: end, Now: tk.Now()})
			if err != nil {
				tb.Error(err)
			}
		}
		n := int64(0)
		fn(func() { // both move on, and with the second the high watermark
			n = min(n+1, end)
			fetch(2, n)
			fetch(3, n)
		})
		if hw := p.Log().HighWatermark(); hw != min(n, end) {
			tb.Errorf("high watermark %d after %d rounds", hw, n)
		}
	})
}

func TestFollowersFetchesAllocateNothing(t *testing.T) {
	rounds(t, func(round func()) {
		if allocs := testing.AllocsPerRun(200, round); allocs != 0 {
			t.Errorf("%v allocations for two fetches", allocs)
		}
	})
}

func BenchmarkFollowerFetched(b *testing.B) {
	rounds(b, func(round func()) {
		b.ReportAllocs()
		b.ResetTimer()
		for range b.N {
			round()
		}
	})
}

// leaderOfThree leads a partition of three replicas with some records.
func leaderOfThree(b testing.TB, tk *task.T, cfg *config.Config) (*Partition, func()) {
	dir, err := storage.OpenDir(tk, storage.Env{RT: tk.Runtime(), Disk: osfs.New(osfs.Options{})}, b.TempDir(), storage.DirConfig{})
	if err != nil {
		b.Fatal(err)
	}
	image, _, err := meta.Empty().Apply([]meta.Record{
		{Body: &meta.RegisterBrokerRecord{BrokerID: 2, BrokerEpoch: 1}}, {Body: &meta.RegisterBrokerRecord{BrokerID: 3, BrokerEpoch: 1}},
		{Body: &meta.TopicRecord{Name: "t", TopicID: meta.UUID{7}}},
		{Body: &meta.PartitionRecord{TopicID: meta.UUID{7}, Replicas: []int32{self, 2, 3}, ISR: []int32{self, 2, 3}, Leader: self}},
	}, 4, 1)
	if err != nil {
		b.Fatal(err)
	}
	m := NewManager(Env{RT: tk.Runtime(), Self: self, Config: func() *config.Config { return cfg }, Dirs: []Dir{{ID: meta.UUID{1}, Dir: dir}}})
	m.Start()
	m.MetadataChanged(tk, image.Full())
	p, err := m.Partition(Key{Topic: meta.UUID{7}})
	if err != nil {
		b.Fatal(err)
	}
	for range 300 {
		if _, _, err := p.Append(tk, oneRecord(), storage.Client, false); err != nil {
			b.Fatal(err)
		}
	}
	return p, func() {
		m.Close(tk)
		if err := dir.CloseClean(tk, 1); err != nil {
			b.Error(err)
		}
	}
}
