package scenarios

import (
	"testing"

	"seedlog/checker/cluster"
	"seedlog/checker/history"
	"seedlog/node/replica"
	"seedlog/scenarios/client"
	"seedlog/sim"
	"seedlog/sim/sched"
	"seedlog/sim/simdisk"
	"seedlog/sim/simnet"
)

// watching is the checks of a run whose servers never ran.
func watching(t *testing.T) (*ghost, *server) {
	w := sim.New(1, sched.Calm(), simnet.Calm(), nil)
	t.Cleanup(w.Close)
	r := &Run{World: w, Rec: client.NewRecorder()}
	g := newGhost(r, nil)
	return g, &server{Machine: w.AddMachine("b1", simdisk.Config{}, sched.ClockParams{}), r: r, id: 1}
}

func TestAHighWatermarkOfOneProcessGoesOn(t *testing.T) {
	type line struct {
		hw              int64
		asked, answered history.Stamp
	}
	for _, c := range []struct {
		name  string
		lines []line
		then  func(g *ghost, s *server)
		last  line
		bad   bool
	}{
		{"it goes on", []line{{5, 1, 2}}, nil, line{6, 3, 4}, false},
		{"it goes back", []line{{5, 1, 2}}, nil, line{4, 3, 4}, true},
		{"it goes back below an older one", []line{{5, 1, 2}, {9, 3, 8}}, nil, line{4, 6, 9}, true},
		{"the answers overlap", []line{{5, 1, 2}, {9, 3, 8}}, nil, line{5, 6, 9}, false},
		{"a loss was lawful", []line{{5, 1, 2}}, func(g *ghost, _ *server) { g.forgets("t-0") }, line{4, 3, 4}, false},
		{"the log is a new one", []line{{5, 1, 2}}, func(g *ghost, s *server) {
			g.follows(s, replica.FollowerBegan{Topic: "t", LeaderEpoch: 3})
		}, line{4, 3, 4}, false},
		{"it follows another with the same log", []line{{5, 1, 2}}, func(g *ghost, s *server) {
			g.follows(s, replica.FollowerBegan{Topic: "t", LeaderEpoch: 3, Offset: 5})
		}, line{4, 3, 4}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, s := watching(t)
			v := voice{node: 1, name: "t-0"}
			for _, l := range c.lines {
				g.heardOf(v, l.hw, l.asked, l.answered)
			}
			if c.then != nil {
				c.then(g, s)
			}
			g.heardOf(v, c.last.hw, c.last.asked, c.last.answered)
			if g.r.found != c.bad {
				t.Errorf("found %v", g.r.verdict.Violations)
			}
		})
	}
}

func TestWhatWasCopiedInAnEpochIsNotCutInIt(t *testing.T) {
	for _, c := range []struct {
		name string
		cuts []replica.LogDiverged
		bad  bool
	}{
		{"what it had before", []replica.LogDiverged{{LeaderEpoch: 3, From: 10, To: 6}}, false},
		{"in two steps", []replica.LogDiverged{{LeaderEpoch: 3, From: 10, To: 6}, {LeaderEpoch: 3, From: 6, To: 4}}, false},
		{"what came since", []replica.LogDiverged{{LeaderEpoch: 3, From: 12, To: 10}}, true},
		{"what came since a cut", []replica.LogDiverged{{LeaderEpoch: 3, From: 10, To: 6}, {LeaderEpoch: 3, From: 8, To: 6}}, true},
		{"in an epoch whose beginning was not seen", []replica.LogDiverged{{LeaderEpoch: 4, From: 12, To: 10}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, s := watching(t)
			g.follows(s, replica.FollowerBegan{Topic: "t", LeaderEpoch: 3, Offset: 10})
			for _, e := range c.cuts {
				e.Topic = "t"
				g.diverged(s, e)
			}
			if g.r.found != c.bad {
				t.Errorf("found %v", g.r.verdict.Violations)
			}
		})
	}
}

// A log began anew if it has neither batch nor producer snapshot.
func TestALogBeginsAnewWithNothing(t *testing.T) {
	for _, c := range []struct {
		files map[string]string
		anew  int64 // 0: nobody led anew
	}{
		{map[string]string{"00000000000000000005.log": ""}, 5},
		{map[string]string{"00000000000000000005.log": "", "leader-epoch-checkpoint": "0\n0\n"}, 5},
		{map[string]string{"00000000000000000005.log": "", "00000000000000000005.snapshot": "x"}, 0},
		{map[string]string{"00000000000000000005.log": "x"}, 0},
		{map[string]string{"00000000000000000005.log": "x", "00000000000000000007.log": ""}, 0},
		{nil, 0},
	} {
		g, s := watching(t)
		g.replicas.See(1, "t-0", cluster.ID{1}, 5, nil, 0)
		for name, content := range c.files {
			s.Disk.WriteFile("/data/t-0/"+name, []byte(content))
		}
		g.anew(s, "/data", "t-0")
		g.replicas.Began(1, "t-0", 3, 5, 1)
		if led := g.replicas.LedAnew("t-0"); led[3] != c.anew {
			t.Errorf("%v: led anew %v", c.files, led)
		}
	}
}
