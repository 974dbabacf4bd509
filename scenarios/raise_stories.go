package scenarios

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/checker/cluster"
	"seedlog/clock/task"
	"seedlog/node/meta"
	"seedlog/scenarios/client"
)

// raisedVersion is KIP-853 for configured voters: while the cluster works, kraft.version is
// raised, and they are those that the log names, with the directories that they have. It is
// refused while one of them is not known. Once the leader has it in its log alone and is cut
// off, which comes undone; then the leader is killed around the append, which may or may not.
// What was down meanwhile comes up from snapshots and logs of before. Then voters can go and come,
// also one that no configuration file of the others names.
func raisedVersion(r *Run) {
	r.Set("metadata.log.max.record.bytes.between.snapshots", "1500")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("traffic", []int32{4, 5}, [2]string{"min.insync.replicas", "2"})
		traffic := s.traffic(topic, 4, 5)
		s.unknownVoter()
		s.raise(true, nil, "")
		s.shows(0, 1, 2, 3, 4, 5, 6)
		s.kill(6)
		s.raisedAlone()
		s.raisedAndKilled()
		s.start(6)
		s.shows(1, 1, 2, 3, 4, 5, 6)
		s.lowered()
		s.votersGoAndCome()
		for _, ids := range [][]int32{{1, 2, 3}, {6}} {
			s.power(ids...)
			s.start(ids...)
		}
		s.shows(1, 1, 2, 3, 4, 5, 6)
		s.makes("one", "two", "three", "four")
		s.equal(topic, traffic())
	})
}

// traffic has a topic written to until the end of its log is asked for. Brokers may be fenced
// while nobody leads the quorum: then it is not, for a while.
func (s *tale) traffic(topic *client.Topic, ids ...int32) (end func() int64) {
	e, group := s.Env(20 * time.Second)
	n, over, done := 0, false, false
	group.Go("traffic", func(t *task.T) {
		for at := 0; !over && !s.over(); at++ {
			p := client.OpenAt(t, &e, s.node(ids[at%len(ids)]).Addr())
			for !over && !s.over() {
				a, err := p.Produce(t, topic, 0, 9, -1, batch(t.UnixMilli(), nobody, 1, 20, 0))
				if err != nil || a.Code != 0 {
					break
				}
				s.cluster.ghost.promised(topic.Name+"-0", a.Base+1)
				n++
				t.Sleep(t.Now().Add(100 * time.Millisecond))
			}
			p.Close()
			t.Sleep(t.Now().Add(100 * time.Millisecond))
		}
		done = true
	})
	return func() int64 {
		over = true
		s.until("the last record of the traffic", 30*time.Second, func() bool { return done })
		s.must(n > 20, "liveness", "%d records were acknowledged", n)
		return slices.Max(slices.Collect(maps.Values(s.ends(topic)))) //order: the largest of them
	}
}

// raise asks the first broker for kraft.version 1, and has what it answers compared.
func (s *tale) raise(dry bool, want *kerr.Error, words string) bool {
	return s.at(4, "raise", func(t *task.T, p *client.Plain) {
		code, text, err := raiseOne(t, p, 1, 1, dry)
		if s.ok(err, "raise") && s.code(code, want, "raise") {
			s.must(strings.Contains(text, words), "codes", "raising kraft.version: %q, without %q", text, words)
		}
	})
}

func raiseOne(t *task.T, p *client.Plain, level int16, kind int8, dry bool) (code int16, text string, err error) {
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.Version, req.TimeoutMillis, req.ValidateOnly = 1, 10_000, dry
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	u.Feature, u.MaxVersionLevel, u.UpgradeType = meta.KRaftVersionFeature, level, kind
	req.FeatureUpdates = append(req.FeatureUpdates, u)
	resp, err := p.Call(t, req)
	if err != nil {
		return 0, "", err
	}
	r := resp.(*kmsg.UpdateFeaturesResponse)
	if r.ErrorMessage != nil {
		text = *r.ErrorMessage
	}
	return r.ErrorCode, text, nil
}

// asksToRaise asks a node, which may be gone before it answers.
func (s *tale) asksToRaise(id int32) *asked {
	e, group := s.Env(20 * time.Second)
	a := &asked{}
	group.Go("raise", func(t *task.T) {
		p := client.OpenAt(t, &e, s.node(id).Addr())
		a.code, _, a.err = raiseOne(t, p, 1, 1, false)
		p.Close()
		a.done = true
	})
	return a
}

// shows waits until nodes show a level of kraft.version, as ApiVersions has it.
func (s *tale) shows(want int16, ids ...int32) {
	for _, id := range ids {
		level := int16(-1)
		for range 40 {
			s.at(id, "show", func(t *task.T, p *client.Plain) {
				req := kmsg.NewPtrApiVersionsRequest()
				req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 4, "sim", "1"
				resp, err := p.Call(t, req)
				if !s.ok(err, "show") {
					return
				}
				level = 0
				for _, f := range resp.(*kmsg.ApiVersionsResponse).FinalizedFeatures {
					if f.Name == meta.KRaftVersionFeature {
						level = f.MaxVersionLevel
					}
				}
			})
			if level == want || s.failed {
				break
			}
			s.wait(500 * time.Millisecond)
		}
		s.must(level == want, "I31", "node %d shows kraft.version %d, not %d", id, level, want)
	}
}

// unknownVoter: a voter that no process of this time has heard of cannot be written down.
func (s *tale) unknownVoter() {
	s.kill(1, 2, 3)
	s.start(1, 2)
	s.leads(func(c *server) bool { return c.id != 3 })
	s.wait(2 * time.Second)
	s.raise(true, kerr.InvalidUpdateVersion, "the directory id of voter 3 is not known")
	s.raise(false, kerr.InvalidUpdateVersion, "the directory id of voter 3 is not known")
	s.start(3)
	s.wait(3 * time.Second)
}

// refusedLevel: of an update of several levels that the quorum refuses nothing is written, and
// nothing waits for leaders to read it.
func refusedLevel(r *Run) {
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("asks", []int32{4, 5, 6}, [2]string{"min.insync.replicas", "3"})
		s.produce(4, topic, -1, 10, nil)
		s.kill(1, 2, 3)
		s.start(1, 2)
		s.leads(func(c *server) bool { return c.id != 3 })
		s.wait(5 * time.Second)
		s.at(4, "raise", func(t *task.T, p *client.Plain) {
			req := kmsg.NewPtrUpdateFeaturesRequest()
			req.Version, req.TimeoutMillis = 1, 10_000
			for i, name := range []string{meta.KRaftVersionFeature, meta.MetadataVersionFeature} {
				u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
				u.Feature, u.MaxVersionLevel, u.UpgradeType = name, []int16{1, 24}[i], []int8{1, 2}[i]
				req.FeatureUpdates = append(req.FeatureUpdates, u)
			}
			resp, err := p.Call(t, req)
			if !s.ok(err, "raise") {
				return
			}
			r := resp.(*kmsg.UpdateFeaturesResponse)
			s.must(r.ErrorMessage != nil && strings.Contains(*r.ErrorMessage, "the directory id of voter 3 is not known"), "codes", "raised: %+v", r)
		})
		s.wait(5 * time.Second)
		code := s.propose(topic, []int32{4, 5}, s.epochs(4, 5))
		s.must(code == 0, "liveness", "the ISR of a leader that has read everything: error code %d", code)
		s.start(3)
		s.isr(topic, 3)
		s.equal(topic, 10)
	})
}

// raisedAlone: nobody hears of it from the leader, which is then lost with its power.
func (s *tale) raisedAlone() {
	c := s.leads(func(c *server) bool { return true })
	if s.failed {
		return
	}
	var raised *server
	s.cluster.onRaised = func(by *server) { raised = by }
	for id := int32(1); id <= 3; id++ {
		if o := s.node(id); o != c {
			s.World.Net.Partition(c.Name, o.Name)
			s.World.Net.Partition(o.Name, c.Name)
		}
	}
	a := s.asksToRaise(4)
	s.until("the leader has it in its log", 10*time.Second, func() bool { return raised == c })
	s.shows(0, c.id) // which is not committed
	s.leads(func(now *server) bool { return now != c })
	s.cluster.onRaised = nil
	s.power(c.id)
	s.together()
	s.start(c.id)
	s.until("the client is answered", 60*time.Second, func() bool { return a.done })
	s.must(a.err != nil || a.code != 0, "I31", "the client is told that kraft.version is raised")
	s.wait(2 * time.Second)
	s.shows(0, 1, 2, 3, 4, 5)
	s.votesAre(cluster.Voter{ID: 1}, cluster.Voter{ID: 2}, cluster.Voter{ID: 3})
}

// raisedAndKilled: the leader is killed soon after it has it in its log, with an answer or not.
func (s *tale) raisedAndKilled() {
	rng := s.Rand("raise")
	var raised *server
	s.cluster.onRaised = func(by *server) {
		if raised == nil {
			raised = by
			s.World.Sched.At(s.World.Now().Add(drawn(rng, 20*time.Microsecond, 30*time.Millisecond)), func() { by.end(rng.IntN(2) == 0) })
		}
	}
	a := s.asksToRaise(4)
	s.until("the leader has it in its log, and is gone", 20*time.Second, func() bool { return raised != nil && !raised.Up() })
	s.cluster.onRaised = nil
	if s.failed {
		return
	}
	s.leads(func(now *server) bool { return now != raised })
	s.until("the client is answered", 60*time.Second, func() bool { return a.done })
	if a.err == nil && a.code == 0 {
		s.shows(1, s.others(raised)...)
	}
	s.start(raised.id)
	s.wait(3 * time.Second)
	s.raise(false, nil, "")
}

// others are the voters but one.
func (s *tale) others(but *server) (ids []int32) {
	for id := int32(1); id <= 3; id++ {
		if id != but.id {
			ids = append(ids, id)
		}
	}
	return ids
}

// lowered: there is no way back.
func (s *tale) lowered() {
	s.at(5, "lower", func(t *task.T, p *client.Plain) {
		for kind := int8(1); kind <= 3; kind++ {
			code, text, err := raiseOne(t, p, 0, kind, false)
			if s.ok(err, "lower") && s.code(code, kerr.InvalidUpdateVersion, "lower") {
				s.must(strings.Contains(text, "Can't downgrade the version of this feature"), "codes", "lowering kraft.version: %q", text)
			}
		}
	})
}

// votersGoAndCome: a voter goes and comes back, and a node of which no configuration file says
// that it votes becomes one.
func (s *tale) votersGoAndCome() {
	voters := s.named(1, 2, 3)
	s.votesAre(voters...)
	c := s.leads(func(c *server) bool { return true })
	if s.failed {
		return
	}
	out := voters[s.others(c)[0]-1]
	s.removes(out)
	s.until("it is no voter", 10*time.Second, func() bool { s.cluster.ghost.look(); return !s.cluster.ghost.quorum.Votes(out.ID) })
	n := s.node(6)
	if !s.stopNode(n.id) {
		return
	}
	delete(n.props, "controller.quorum.voters")
	n.props["controller.quorum.bootstrap.servers"] = c.Name + ":9093"
	n.props["process.roles"] = "broker,controller"
	n.props["listeners"] += ",CONTROLLER://" + n.Name + ":9093"
	if !s.start(n.id) {
		return
	}
	s.wait(3 * time.Second)
	s.adds(append(s.named(n.id), out)...)
	s.votesAre(s.named(1, 2, 3, n.id)...)
}

// removes has voters removed, one after the other.
func (s *tale) removes(voters ...cluster.Voter) {
	for _, v := range voters {
		s.changes("remove", func() kmsg.Request {
			req := kmsg.NewPtrRemoveRaftVoterRequest()
			req.VoterID, req.VoterDirectoryID = v.ID, [16]byte(v.Directory)
			return req
		})
	}
}

// adds has nodes made voters, one after the other.
func (s *tale) adds(voters ...cluster.Voter) {
	for _, v := range voters {
		s.changes("add", func() kmsg.Request { return s.addition(v) })
	}
}

// addition asks that a node becomes a voter.
func (s *tale) addition(v cluster.Voter) *kmsg.AddRaftVoterRequest {
	req := kmsg.NewPtrAddRaftVoterRequest()
	req.VoterID, req.VoterDirectoryID, req.TimeoutMillis = v.ID, [16]byte(v.Directory), 5000
	l := kmsg.NewAddRaftVoterRequestListener()
	l.Name, l.Host, l.Port = "CONTROLLER", s.node(v.ID).Name, 9093
	req.Listeners = append(req.Listeners, l)
	return req
}

// changes asks for a change of the voters until it is made.
func (s *tale) changes(what string, req func() kmsg.Request) {
	code := int16(-1)
	for range 10 {
		s.at(4, what, func(t *task.T, p *client.Plain) {
			resp, err := p.Call(t, req())
			if !s.ok(err, what) {
				return
			}
			switch r := resp.(type) {
			case *kmsg.AddRaftVoterResponse:
				code = r.ErrorCode
			case *kmsg.RemoveRaftVoterResponse:
				code = r.ErrorCode
			}
		})
		if code == 0 || s.failed {
			return
		}
		s.wait(time.Second)
	}
	s.must(false, "liveness", "%s a voter: %s", what, client.CodeName(code))
}

// named are nodes as the log should name them.
func (s *tale) named(ids ...int32) (voters []cluster.Voter) {
	for _, id := range ids {
		dir, ok := s.node(id).directory(s.node(id).config.LogDirs[0])
		s.must(ok, "scenario", "node %d has no directory id", id)
		voters = append(voters, cluster.Voter{ID: id, Directory: dir})
	}
	return voters
}

// votesAre waits until these are the voters, as far as it is committed.
func (s *tale) votesAre(want ...cluster.Voter) {
	var got []cluster.Voter
	ok := s.until("the voters", 10*time.Second, func() bool {
		s.cluster.ghost.look()
		got = s.cluster.ghost.quorum.Voters()
		return slices.Equal(got, want)
	})
	s.must(ok || s.failed, "I35", "the voters are %v, and should be %v", got, want)
}
