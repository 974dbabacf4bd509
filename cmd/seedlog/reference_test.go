package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/storage/record"
)

// The reference experiment, as Kafka 4.1.2 was measured: 20,000 records of 200 bytes of one
// idempotent producer, in batches of four, into segments of 1 MiB.
const (
	refTopic     = "reference"
	refRecords   = 20_000
	refPerBatch  = 4
	refBatchSize = 897
	refTotal     = 4_485_000
)

var refSegments = []struct{ base, log int64 }{
	{0, 1_047_696}, {4672, 1_047_696}, {9344, 1_047_696}, {14016, 1_047_696}, {18688, 294_216},
}

// reference is a directory with the experiment in it, and the broker that serves it.
type reference struct {
	t   *testing.T
	ctx context.Context
	dir string
	b   *benchBroker
	c   *benchConn
}

func newReference(t *testing.T) *reference {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	r := &reference{t: t, ctx: ctx, dir: filepath.Join(t.TempDir(), "data")}
	r.start(nil)
	if err := r.c.createTopic(refTopic, [2]string{"segment.bytes", "1048576"}); err != nil {
		t.Fatal(err)
	}
	r.write()
	return r
}

func (r *reference) start(wrap []string) {
	r.t.Helper()
	b, err := startBrokerUnder(wrap, r.dir)
	if err != nil {
		r.t.Fatal(err)
	}
	r.b = b
	r.t.Cleanup(b.kill)
	if r.c, err = b.dial(r.ctx); err != nil {
		r.t.Fatal(err)
	}
}

func (r *reference) stop() {
	r.t.Helper()
	r.c.close()
	if err := r.b.stop(); err != nil {
		r.t.Fatal(err)
	}
}

// write is the producer.
func (r *reference) write() {
	r.t.Helper()
	init := kmsg.NewPtrInitProducerIDRequest()
	init.Version, init.TransactionTimeoutMillis = 4, 60_000
	resp, err := r.c.ask(init)
	if err != nil {
		r.t.Fatal(err)
	}
	id := resp.(*kmsg.InitProducerIDResponse)
	if id.ErrorCode != 0 {
		r.t.Fatal(kerr.ErrorForCode(id.ErrorCode))
	}
	now := time.Now().UnixMilli()
	for seq := int32(0); seq < refRecords; seq += refPerBatch {
		o := record.NewOptions(0)
		o.ProducerID, o.ProducerEpoch, o.BaseSequence = id.ProducerID, id.ProducerEpoch, seq
		b := record.NewBuilder(o, nil)
		for range refPerBatch {
			b.Append(record.Record{Timestamp: now, Value: bytes.Repeat([]byte{byte(seq)}, 200)})
		}
		batch, err := b.Build(nil)
		if err != nil || len(batch) != refBatchSize {
			r.t.Fatalf("a batch of %d bytes, the experiment has %d (%v)", len(batch), refBatchSize, err)
		}
		if _, err := r.c.nc.Write(r.c.produceFrame(refTopic, -1, batch)); err != nil {
			r.t.Fatal(err)
		}
		answer, err := r.c.readFrame()
		if err != nil {
			r.t.Fatal(err)
		}
		reply := newProduceReply(refTopic)
		if base, err := reply.check(answer); err != nil || base != int64(seq) {
			r.t.Fatalf("batch of sequence %d got offset %d, %v", seq, base, err)
		}
	}
}

// fetch reads from offset on and returns the bytes of the batches.
func (r *reference) fetch(offset int64, maxBytes int32) []byte {
	r.t.Helper()
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = benchFetchVersion, 500, 1, maxBytes, -1
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic = refTopic
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.PartitionMaxBytes = offset, maxBytes
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	resp, err := r.c.ask(req)
	if err != nil {
		r.t.Fatal(err)
	}
	got := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
	if got.ErrorCode != 0 {
		r.t.Fatalf("fetch of %d: %v", offset, kerr.ErrorForCode(got.ErrorCode))
	}
	return got.RecordBatches
}

// readAll reads everything from the beginning, checks offsets and CRCs, and returns its size.
func (r *reference) readAll() int64 {
	r.t.Helper()
	next, total := int64(0), int64(0)
	for next < refRecords {
		b := r.fetch(next, 1<<20)
		if len(b) == 0 {
			r.t.Fatalf("nothing at offset %d", next)
		}
		for len(b) > 0 {
			h, err := record.ParseHeader(b)
			if err == nil && h.Size() > len(b) {
				break // cut off by the limit
			}
			if err == nil {
				err = record.CheckCRC(b[:h.Size()])
			}
			if err != nil || h.BaseOffset != next {
				r.t.Fatalf("batch at %d, wanted %d: %v", h.BaseOffset, next, err)
			}
			next, total, b = h.NextOffset(), total+int64(h.Size()), b[h.Size():]
		}
	}
	return total
}

func (r *reference) path(name string) string {
	return filepath.Join(r.dir, refTopic+"-0", name)
}

// expect compares a number with the measured one.
func (r *reference) expect(what string, got, want int64) {
	r.t.Helper()
	if got != want {
		r.t.Errorf("%s: %d, measured %d", what, got, want)
	}
}

// expectSize compares the size of a file; -1 means that there is none.
func (r *reference) expectSize(name string, want int64) {
	r.t.Helper()
	got := int64(-1)
	if info, err := os.Stat(r.path(name)); err == nil {
		got = info.Size()
	}
	r.expect("bytes of "+name, got, want)
}

func segmentFile(base int64, suffix string) string { return fmt.Sprintf("%020d%s", base, suffix) }

func (r *reference) segments() (names []string) {
	r.t.Helper()
	list, err := filepath.Glob(r.path("*.log"))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, p := range list {
		names = append(names, filepath.Base(p))
	}
	return names
}

func TestReferenceExperimentOverTheWire(t *testing.T) {
	r := newReference(t)
	var want []string
	total := int64(0)
	for i, s := range refSegments {
		want = append(want, segmentFile(s.base, ".log"))
		r.expectSize(segmentFile(s.base, ".log"), s.log)
		index, snapshot := int64(1864), int64(56)
		if i == 0 {
			snapshot = -1
		}
		if i == len(refSegments)-1 {
			index = 10_485_760
			r.expectSize(segmentFile(s.base, ".timeindex"), 10_485_756)
		}
		r.expectSize(segmentFile(s.base, ".index"), index)
		r.expectSize(segmentFile(s.base, ".snapshot"), snapshot)
		total += s.log
	}
	if got := r.segments(); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("segments %v, measured %v", got, want)
	}
	r.expect("bytes of log in all", total, refTotal)
	r.expectSize("leader-epoch-checkpoint", 8)
	r.expectSize("partition.metadata", 43)
	r.expectIndex()
	r.expectFetchOf4730()
	r.expect("bytes read from the beginning", r.readAll(), refTotal)
	r.stop()

	// The stop leaves a snapshot of the end, trims the active indexes, and another start
	// serves the same.
	r.expectSize(segmentFile(refRecords, ".snapshot"), 56)
	r.expectSize(segmentFile(18688, ".index"), 65*8)
	r.expectSize("../.kafka_cleanshutdown", int64(len(`{"version":0,"brokerEpoch":`))+cleanEpochDigits(t, r)+1)
	r.start(nil)
	r.expect("bytes read after a restart", r.readAll(), refTotal)
	r.expectFetchOf4730()
	r.stop()
}

// cleanEpochDigits is how many digits the broker epoch in the clean-shutdown marker has.
func cleanEpochDigits(t *testing.T, r *reference) int64 {
	t.Helper()
	text, err := os.ReadFile(r.path("../.kafka_cleanshutdown"))
	if err != nil {
		t.Fatal(err)
	}
	digits := regexp.MustCompile(`"brokerEpoch":([0-9]+)}$`).FindSubmatch(text)
	if digits == nil {
		t.Fatalf("clean-shutdown marker %q", text)
	}
	return int64(len(digits[1]))
}

// expectIndex looks at the first entries: last offset of a batch, its position.
func (r *reference) expectIndex() {
	r.t.Helper()
	b, err := os.ReadFile(r.path(segmentFile(0, ".index")))
	if err != nil {
		r.t.Fatal(err)
	}
	r.expect("entries of the first index", int64(len(b)/8), 233)
	for i, e := range [][2]int64{{23, 4485}, {43, 8970}, {63, 13455}} {
		if len(b) < 8*i+8 {
			return
		}
		r.expect(fmt.Sprintf("offset of index entry %d", i), int64(binary.BigEndian.Uint32(b[8*i:])), e[0])
		r.expect(fmt.Sprintf("position of index entry %d", i), int64(binary.BigEndian.Uint32(b[8*i+4:])), e[1])
	}
	b, err = os.ReadFile(r.path(segmentFile(4672, ".index")))
	if err != nil || len(b) < 16 {
		r.t.Fatalf("%d bytes, %v", len(b), err)
	}
	r.expect("offset of the entry before 4730", 4672+int64(binary.BigEndian.Uint32(b[8:])), 4715)
	r.expect("position of the entry before 4730", int64(binary.BigEndian.Uint32(b[12:])), 8970)
}

// expectFetchOf4730 finds batch 4728–4731, and from there on the file's own bytes.
func (r *reference) expectFetchOf4730() {
	r.t.Helper()
	got := r.fetch(4730, 1<<20)
	h, err := record.ParseHeader(got)
	if err != nil {
		r.t.Fatal(err)
	}
	r.expect("base offset of the batch with 4730", h.BaseOffset, 4728)
	r.expect("last offset of the batch with 4730", h.LastOffset(), 4731)
	r.expect("bytes fetched at 4730", int64(len(got)), 1_047_696-12_558)
	file, err := os.ReadFile(r.path(segmentFile(4672, ".log")))
	if err != nil {
		r.t.Fatal(err)
	}
	if !bytes.Equal(got, file[12_558:]) {
		r.t.Error("a fetch of 4730 is not the segment from 12558 on")
	}
}

// sendfileCall is what strace prints: out, in, [offset before] => [offset after], count.
var sendfileCall = regexp.MustCompile(`sendfile\(\d+, \d+, \[(\d+)\] => \[\d+\], \d+\) = (\d+)`)

func TestALogLeavesBySendfile(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace")
	wrap := []string{"strace", "-D", "-f", "-qq", "--seccomp-bpf", "-e", "trace=sendfile", "-o", trace}
	if out, err := exec.Command(wrap[0], append(wrap[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: strace cannot trace here (%v: %s); net/tcp counts sendfile calls in its own tests", err, bytes.TrimSpace(out))
	}
	r := newReference(t)
	r.stop()
	r.start(wrap)
	r.expect("bytes read from the beginning", r.readAll(), refTotal)
	r.expectFetchOf4730()
	r.stop()
	calls := sendfileCalls(t, trace)
	sent, at12558 := int64(0), false
	for _, c := range calls {
		sent += c.bytes
		at12558 = at12558 || c.offset == 12_558
	}
	t.Logf("%d sendfile calls, %d bytes", len(calls), sent)
	// What a limit cut off is sent again, so there may be more than the log has.
	if want := int64(refTotal + 1_047_696 - 12_558); sent < want || sent > want+5*refBatchSize {
		t.Errorf("%d bytes left by sendfile, want %d and at most the batches that limits cut off", sent, want)
	}
	if !at12558 {
		t.Errorf("no sendfile begins at 12558: %v", calls)
	}
}

type sent struct{ offset, bytes int64 }

// sendfileCalls waits until the tracer has written the end of the trace, for it outlives the
// traced process a little.
func sendfileCalls(t *testing.T, path string) (calls []sent) {
	t.Helper()
	eventually(t, "the tracer has ended", func() bool { return tracerGone(path) })
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		m := sendfileCall.FindStringSubmatch(s.Text())
		if m == nil {
			continue
		}
		offset, err1 := strconv.ParseInt(m[1], 10, 64)
		n, err2 := strconv.ParseInt(m[2], 10, 64)
		if err1 != nil || err2 != nil {
			t.Fatal(s.Text())
		}
		calls = append(calls, sent{offset, n})
	}
	return calls
}

// tracerGone tells that no process has the trace open.
func tracerGone(path string) bool {
	fds, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return true
	}
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && to == path {
			return false
		}
	}
	return true
}
