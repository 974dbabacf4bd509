package control_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"seedlog/clock/live"
	"seedlog/clock/task"
	"seedlog/disk/osfs"
	"seedlog/node/config"
	"seedlog/node/control"
	"seedlog/node/quorum"
	"seedlog/storage"
)

// TestTheSameOnTheRealMachine runs on goroutines with random yields, for the race detector,
// and on a real disk: what the simulator takes for atomic is not so here.
func TestTheSameOnTheRealMachine(t *testing.T) {
	dir := t.TempDir() + "/data"
	rt := live.New(live.Options{Chaos: 7})
	live.Main(rt, func(tk *task.T) {
		d := osfs.New(osfs.Options{})
		must := func(err error) {
			if err != nil {
				panic(err)
			}
		}
		cfg, _, err := config.Parse(map[string]string{"log.dirs": dir})
		must(err)
		r := rand.New(rand.NewPCG(1, 2))
		ids, err := quorum.Format(tk, d, quorum.FormatSpec{LogDirs: []string{dir}, NodeID: 1, UnixMilli: tk.UnixMilli(),
			Entropy: func(b []byte) {
				for i := range b {
					b[i] = byte(r.Uint32())
				}
			}})
		must(err)
		sd, err := storage.OpenDir(tk, storage.Env{RT: rt, Disk: d, Rand: r}, dir, storage.DirConfig{})
		must(err)
		log, err := sd.Open(tk, quorum.ClusterMetadata, quorum.ClusterMetadataID(), 0, storage.Config{})
		must(err)
		for boot := 1; boot <= 2; boot++ {
			q, err := quorum.Open(tk, quorum.Env{RT: rt, Disk: d}, quorum.Config{NodeID: 1, Identity: ids[dir], SnapshotBytes: 5000}, log, log.Path())
			must(err)
			g := task.NewGroup(rt, "node")
			n := &node{m: &machine{tb: t, boots: boot}, quorum: q, control: control.New(rt, q, cfg, r)}
			n.route(rt)
			q.Subscribe(n)
			g.Go("quorum", func(tk *task.T) { must(q.Run(tk)) })
			g.Go("control", func(tk *task.T) { must(n.control.Run(tk)) })
			n.register(tk)
			clients := task.NewGroup(rt, "clients")
			for c := range 8 {
				clients.Go("client", func(tk *task.T) {
					for i := range 20 {
						if _, _, err := n.create(tk, fmt.Sprintf("t%d-%d-%d", boot, c, i)); err != nil {
							t.Error(err)
						}
					}
				})
			}
			clients.Wait(tk)
			if got, want := q.Image().NumTopics(), 160*boot; got != want {
				t.Errorf("boot %d: %d topics, want %d", boot, got, want)
			}
			g.Stop()
			g.Wait(tk)
		}
		must(sd.CloseClean(tk, -1))
	})
}
