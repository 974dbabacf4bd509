package replica

import (
	"testing"
	"time"

	"seedlog/clock/task"
	"seedlog/node/meta"
)

// A sync waits for the producers that the last one served, and for nobody else.
func TestASyncGathersWhoTheLastOneServed(t *testing.T) {
	onDisk(t, t.TempDir(), meta.Empty(), func(h *host) {
		h.apply(topicOf("orders", 7, 0)...)
		p := h.partition(7)
		p.mu.Lock()
		p.syncing = true // by this task
		p.mu.Unlock()
		start := h.tk.Now()

		p.gather(h.tk, 0, time.Hour)
		p.gather(h.tk, 1, time.Hour) // a lone producer is not waited for

		back := h.tk.Group().Sub("producers")
		back.Go("producers", func(t *task.T) {
			for range 3 {
				p.syncSoon(t, 0)
			}
		})
		p.gather(h.tk, 3, time.Hour)
		back.Wait(h.tk)
		if took := h.tk.Now().Sub(start); took > time.Minute {
			t.Errorf("it waited %v though all were back", took)
		}

		p.gather(h.tk, 3, time.Hour) // they are

		before := h.tk.Now()
		p.gather(h.tk, 4, time.Millisecond) // nobody else comes
		if took := h.tk.Now().Sub(before); took < time.Millisecond {
			t.Errorf("it waited %v, its patience is 1ms", took)
		}
		p.mu.Lock()
		if p.enough != 0 {
			t.Errorf("it still waits for %d", p.enough)
		}
		p.syncing, p.askers = false, 0
		p.mu.Unlock()
	})
}

// Everybody is waited for on a disk that is slower than they are, and the fewer the more wait
// already on one that is faster.
func TestHowManyAGroupWaitsFor(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		served, waiting int
		took, back      time.Duration
		producers       int
		patience        time.Duration
	}{
		{served: 64, took: 10 * ms, producers: 64, patience: 10 * ms},
		{served: 1, took: 10 * ms, producers: 1, patience: 10 * ms},
		{served: 32, waiting: 32, took: 10 * ms, back: ms, producers: 64, patience: 10 * ms},
		{served: 1, waiting: 63, took: 10 * ms, back: 2 * ms, producers: 64, patience: 10 * ms},
		{served: 32, waiting: 32, took: ms, back: ms, producers: 32},
		{served: 24, waiting: 40, took: ms, back: ms, producers: 24},
		{served: 40, waiting: 24, took: ms, back: ms, producers: 40, patience: 400 * time.Microsecond},
		{waiting: 1, took: ms, back: 2 * ms, patience: ms},
		{served: 64, waiting: 1, took: 10 * ms, back: 10 * ms, producers: 64, patience: 63 * 10 * ms / 64},
	} {
		if n, d := group(c.served, c.waiting, c.took, c.back); n != c.producers || d != c.patience {
			t.Errorf("%+v: waits for %d, %v", c, n, d)
		}
	}
}

// What a roll or a flush synced, before the task that was to do it came to, is committed too.
func TestWhatSomebodyElseSyncedIsCommitted(t *testing.T) {
	onDisk(t, t.TempDir(), meta.Empty(), func(h *host) {
		one := "1"
		h.apply(append(topicOf("orders", 7, 0), &meta.ConfigRecord{ResourceType: meta.TopicResource, ResourceName: "orders", Name: "flush.messages", Value: &one})...)
		p := h.partition(7)
		p.mu.Lock()
		p.syncing = true // by a task that has not begun: this one
		p.mu.Unlock()
		if _, _, err := h.append(p); err != nil {
			t.Error(err)
		}
		if err := p.Log().SyncTo(h.tk, 1); err != nil {
			t.Error(err)
		}
		if hw := p.Log().HighWatermark(); hw != 0 {
			t.Errorf("high watermark %d before anybody told the partition", hw)
		}
		p.sync(h.tk)
		if hw := p.Log().HighWatermark(); hw != 1 {
			t.Errorf("high watermark %d with everything synced, want 1", hw)
		}
	})
}
