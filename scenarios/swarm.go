package scenarios

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"seedlog/scenarios/client"
	"seedlog/sim/sched"
	"seedlog/sim/simdisk"
)

// swarm draws everything from the seed.
func swarm(r *Run) {
	rng := r.Rand("swarm")
	r.drawKnobs(rng)
	r.AddBroker(simdisk.Config{}, sched.ClockParams{SkewMs: rng.Int64N(2000) - 1000, DriftPPM: rng.Int64N(400) - 200})
	if !r.Boot() {
		return
	}
	r.watchReady()
	if !r.createTopics(rng) {
		return
	}
	w := DrawWorkload(rng, r.Topics, r.Env)
	p := newPlan(r, rng)
	r.draw = fmt.Sprintf("%s; %s; %s; %s; %s", r.draw, r.knobText(), strings.Join(r.topicText, ", "), w, p)

	r.World.Phase("safety")
	p.start()
	w.Start()
	r.World.Run(func() bool { return r.Rec.Ops() >= r.Ops || w.Done() || r.over() }, 3*time.Minute)
	r.settle(w)
}

// drawKnobs draws the broker's settings, small enough to press.
func (r *Run) drawKnobs(rng *rand.Rand) {
	maybe := func(odds int, name string, v int64) {
		if rng.IntN(odds) == 0 {
			r.Set(name, strconv.FormatInt(v, 10))
		}
	}
	if rng.IntN(4) == 0 {
		r.Set("log.dirs", "/data,/more")
	}
	maybe(1, "offsets.topic.num.partitions", 1+rng.Int64N(4))
	maybe(2, "group.initial.rebalance.delay.ms", drawn[int64](rng, 1, 2000))
	maybe(1, "group.min.session.timeout.ms", 100)
	maybe(2, "log.flush.offset.checkpoint.interval.ms", drawn[int64](rng, 50, 60_000))
	maybe(2, "log.flush.start.offset.checkpoint.interval.ms", drawn[int64](rng, 50, 60_000))
	maybe(2, "replica.high.watermark.checkpoint.interval.ms", drawn[int64](rng, 20, 5_000))
	maybe(4, "producer.id.expiration.ms", drawn[int64](rng, 500, 86_400_000))
	maybe(2, "metadata.log.max.record.bytes.between.snapshots", drawn[int64](rng, 300, 20<<20))
	maybe(3, "max.incremental.fetch.session.cache.slots", drawn[int64](rng, 1, 1000))
	maybe(3, "queued.max.request.bytes", drawn[int64](rng, 256<<10, 128<<20))
	maybe(3, "connections.max.idle.ms", drawn[int64](rng, 1_000, 600_000))
	maybe(3, "num.recovery.threads.per.data.dir", drawn[int64](rng, 1, 4))
	maybe(3, "fetch.max.bytes", drawn[int64](rng, 1024, 55<<20))
	maybe(4, "producer.id.expiration.check.interval.ms", drawn[int64](rng, 200, 600_000))
	if rng.IntN(5) == 0 { // the coordinator's log, too
		r.Set("log.flush.interval.messages", "1")
		r.Rec.OffsetsSynced = true
	}
}

func (r *Run) knobText() string {
	var s []string
	for _, d := range r.Config.DescribeBroker() {
		if v, ok := r.props[d.Name]; ok && v != d.Synonyms[len(d.Synonyms)-1].Value {
			s = append(s, d.Name+"="+v)
		}
	}
	return strings.Join(s, " ")
}

// createTopics makes one to four topics with drawn settings, and remembers them.
func (r *Run) createTopics(rng *rand.Rand) bool {
	for i := range 1 + rng.IntN(4) {
		topic := &client.Topic{Name: fmt.Sprintf("t%d", i), Partitions: 1 + rng.Int32N(6)}
		var configs [][2]string
		set := func(name string, v int64) { configs = append(configs, [2]string{name, strconv.FormatInt(v, 10)}) }
		segment := drawn[int64](rng, 1<<10, 64<<10)
		topic.MaxBatchBytes = int(segment)
		set("internal.segment.bytes", segment)
		set("index.interval.bytes", drawn[int64](rng, 64, 4096))
		set("segment.index.bytes", drawn[int64](rng, 256, 1<<20))
		if rng.IntN(4) == 0 {
			set("segment.ms", drawn[int64](rng, 200, 60_000))
			set("segment.jitter.ms", rng.Int64N(100))
		}
		topic.Synced = r.Rec.OffsetsSynced
		switch rng.IntN(6) {
		case 0, 1:
			topic.Synced = true
			set("flush.messages", 1)
		case 2:
			topic.Synced = false
			set("flush.messages", drawn[int64](rng, 2, 200))
		case 3:
			set("flush.ms", drawn[int64](rng, 10, 5_000))
		}
		if rng.IntN(5) == 0 {
			configs = append(configs, [2]string{"message.timestamp.type", "LogAppendTime"})
		}
		if rng.IntN(5) == 0 {
			configs = append(configs, [2]string{"compression.type", []string{"gzip", "snappy", "lz4", "zstd", "uncompressed"}[rng.IntN(5)]})
		}
		// Clocks jump by hours; timestamps are not what this topic is about.
		set("message.timestamp.after.max.ms", 1<<62)
		text := fmt.Sprintf("%s*%d", topic.Name, topic.Partitions)
		for _, kv := range configs[:len(configs)-1] {
			text += " " + kv[0] + "=" + kv[1]
		}
		r.topicText = append(r.topicText, text)
		if !r.CreateTopic(topic, configs) {
			return false
		}
	}
	return true
}
