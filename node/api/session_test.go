package api

import (
	"math/rand/v2"
	"testing"
	"time"

	"seedlog/clock"
	"seedlog/clock/live"
)

func newCache(slots int) *sessionCache {
	c := new(sessionCache)
	c.init(live.New(live.Options{}), rand.New(rand.NewPCG(1, 2)), slots)
	return c
}

// asks is a request for partitions 0 ... n-1 of a topic.
func asks(topic string, n int) *fetchRequest {
	q := new(fetchRequest)
	for i := range n {
		q.parts = append(q.parts, fetchPart{fetchKey: fetchKey{name: []byte(topic), index: int32(i)}, offset: 10, maxBytes: 100})
	}
	return q
}

// begun is a session over n partitions that no request uses.
func begun(t *testing.T, c *sessionCache, n int, now clock.Instant) *fetchSession {
	t.Helper()
	s := c.begin(n, false, now)
	if s == nil {
		t.Fatal("no room for a session")
	}
	s.update(asks("orders", n))
	c.release(s)
	return s
}

func TestASessionsEpochMovesOnWithEachRequest(t *testing.T) {
	c := newCache(10)
	s := begun(t, c, 3, 0)
	for epoch := int32(1); epoch < 5; epoch++ {
		got, stale := c.resume(s.id, epoch, 0)
		if got != s || stale {
			t.Fatalf("epoch %d: session %v, stale %t", epoch, got, stale)
		}
		if _, stale := c.resume(s.id, epoch+1, 0); !stale {
			t.Fatal("two requests of one session are served at once")
		}
		c.release(s)
	}
	if _, stale := c.resume(s.id, 2, 0); !stale {
		t.Error("an old epoch is accepted")
	}
	if got, stale := c.resume(s.id+1, 1, 0); got != nil || stale {
		t.Error("an unknown session is found")
	}
}

func TestSessionEpochsWrapToOne(t *testing.T) {
	for e, want := range map[int32]int32{0: 1, 1: 2, 1<<31 - 1: 1, -1: -1} {
		if got := nextSessionEpoch(e); got != want {
			t.Errorf("after %d comes %d, want %d", e, got, want)
		}
	}
}

func TestASessionTakesChangesAndForgets(t *testing.T) {
	c := newCache(10)
	s := begun(t, c, 3, 0)
	q := &fetchRequest{
		parts:     []fetchPart{{fetchKey: fetchKey{name: []byte("orders"), index: 1}, offset: 99}, {fetchKey: fetchKey{name: []byte("events"), index: 0}}},
		forgotten: []fetchKey{{name: []byte("orders"), index: 0}, {name: []byte("nothing"), index: 5}},
	}
	s.update(q)
	q.parts[0].name[0] = 'X' // the frame is used again
	if len(s.parts) != 3 || len(s.index) != 3 {
		t.Fatalf("%d partitions, %d indexed", len(s.parts), len(s.index))
	}
	for i, want := range []struct {
		topic  string
		index  int32
		offset int64
	}{{"orders", 1, 99}, {"orders", 2, 10}, {"events", 0, 0}} {
		if p := s.parts[i]; p.key.topic != want.topic || p.key.index != want.index || p.asked.offset != want.offset {
			t.Errorf("partition %d is %+v, want %+v", i, p, want)
		}
	}
}

func TestASessionThatForgetsEverythingIsOver(t *testing.T) {
	c := newCache(10)
	s := begun(t, c, 1, 0)
	if got, _ := c.resume(s.id, 1, 0); got != s {
		t.Fatal("no session")
	}
	s.update(&fetchRequest{forgotten: []fetchKey{{name: []byte("orders"), index: 0}}})
	c.release(s)
	if got, _ := c.resume(s.id, 2, 0); got != nil {
		t.Error("an empty session lives on")
	}
	if c.parts != 0 || len(c.list) != 0 {
		t.Errorf("%d partitions in %d sessions left", c.parts, len(c.list))
	}
}

func TestAPartitionIsReportedWhenSomethingChanged(t *testing.T) {
	p := &sessionPart{hw: -1, logStart: -1}
	steps := []struct {
		what string
		r    fetchResult
		want bool
	}{
		{"the first answer", fetchResult{hw: 5}, true},
		{"the same again", fetchResult{hw: 5}, false},
		{"a new high watermark", fetchResult{hw: 6}, true},
		{"a new log start", fetchResult{hw: 6, logStart: 2}, true},
		{"an error", fetchResult{hw: -1, logStart: -1, code: 6}, true},
		{"the same error", fetchResult{hw: -1, logStart: -1, code: 6}, true},
		{"recovery", fetchResult{hw: 6, logStart: 2}, true},
		{"nothing", fetchResult{hw: 6, logStart: 2}, false},
		{"a diverging epoch", fetchResult{hw: 6, logStart: 2, diverges: true}, true},
		{"the same, of which nothing was taken", fetchResult{hw: 6, logStart: 2}, true},
		{"nothing more", fetchResult{hw: 6, logStart: 2}, false},
	}
	for _, s := range steps {
		if got := p.changed(&s.r); got != s.want {
			t.Errorf("%s: reported %t", s.what, got)
		}
	}
	r := fetchResult{hw: 6, logStart: 2}
	r.data.Size = 1
	if !p.changed(&r) {
		t.Error("data is not reported")
	}
}

// Who asks in another leader epoch has dropped the answer that was on its way.
func TestAnotherEpochIsToldAnew(t *testing.T) {
	c := newCache(10)
	s := begun(t, c, 1, 0)
	ask := func(epoch int32) {
		q := asks("orders", 1)
		q.parts[0].currentEpoch = epoch
		s.update(q)
	}
	told := func() bool { return s.parts[0].changed(&fetchResult{hw: 5}) }
	ask(3)
	if !told() || told() {
		t.Error("the high watermark is not told once")
	}
	ask(3)
	if told() {
		t.Error("it is told again in the same epoch")
	}
	ask(4)
	if !told() {
		t.Error("it is not told in the next epoch")
	}
}

func TestPartitionsWithDataGoToTheEnd(t *testing.T) {
	c := newCache(10)
	s := begun(t, c, 4, 0)
	s.rotate(func(p *sessionPart) bool { return p.key.index%2 == 0 })
	for i, want := range []int32{1, 3, 0, 2} {
		if s.parts[i].key.index != want {
			t.Errorf("place %d has partition %d, want %d", i, s.parts[i].key.index, want)
		}
	}
}

func TestAFullCacheEvictsTheStaleThenTheSmaller(t *testing.T) {
	at := func(s int) clock.Instant { return clock.Instant(time.Duration(s) * time.Second) }
	c := newCache(2)
	small, large := begun(t, c, 1, at(0)), begun(t, c, 5, at(0))
	if c.begin(9, false, at(60)) != nil {
		t.Error("a young session was evicted")
	}
	if got, _ := c.resume(small.id, 1, at(120)); got == nil {
		t.Fatal("no session")
	}
	c.release(small)
	fresh := c.begin(2, false, at(121)) // large was idle for longer than two minutes
	if fresh == nil || !large.evicted || small.evicted {
		t.Fatalf("evicted large %t, small %t", large.evicted, small.evicted)
	}
	fresh.update(asks("events", 2))
	c.release(fresh)
	if c.begin(1, false, at(130)) != nil {
		t.Error("a session gave way to one that is not larger")
	}
	if c.begin(2, false, at(130)) == nil || !small.evicted {
		t.Error("a smaller, old session did not give way")
	}
}

func TestSessionsAreBoundedByPartitionsToo(t *testing.T) {
	c := newCache(2)
	begun(t, c, 2*sessionPartitions-1, 0)
	if c.begin(2, false, 0) != nil {
		t.Error("more partitions than the cache may hold")
	}
	if c.begin(1, false, 0) == nil {
		t.Error("there was room")
	}
	if none := newCache(0); none.begin(1, false, 0) != nil {
		t.Error("a session without slots")
	}
}
