package scenarios

import (
	"encoding/binary"
	"fmt"

	"seedlog/clock/task"
	"seedlog/scenarios/client"
)

// referenceExperiment is SPEC S3: 20,000 records of 200 bytes in batches of 4 by one
// idempotent producer, and every number that was measured on Kafka 4.1.2.
func referenceExperiment(r *Run) {
	r.Set("node.id", "1")
	tell(r, func(s *story) {
		topic := s.topic("order-demo", 1, [2]string{"segment.bytes", "1048576"})
		s.client("20,000 records", func(t *task.T, p *client.Plain) {
			id, epoch, err := p.ProducerID(t)
			if !s.ok(err, "producer id") {
				return
			}
			for i := range 5000 {
				spec := client.BatchSpec{ProducerID: id, ProducerEpoch: epoch, BaseSequence: int32(4 * i)}
				b := batch(t.UnixMilli(), spec, 4, 200, 4*i)
				if !s.must(len(b) == 897, "S3", "a batch has %d bytes, not 897", len(b)) {
					return
				}
				a, err := p.Produce(t, topic, 0, 9, -1, b)
				if !s.ok(err, "produce") || !s.code(a.Code, nil, "produce") || !s.must(a.Base == int64(4*i), "S3", "batch %d got offset %d", i, a.Base) {
					return
				}
			}
			got, err := p.Fetch(t, topic, 0, 11, 4730, -1)
			if s.ok(err, "fetch") && s.must(len(got.Batches) > 0, "S3", "nothing at 4730") {
				s.must(got.Batches[0].Base == 4728 && got.Batches[0].Last == 4731, "S3", "offset 4730 is answered with batch %d-%d", got.Batches[0].Base, got.Batches[0].Last)
			}
		})
		s.referenceFiles(false)
		if s.stop() {
			s.referenceFiles(true)
		}
	})
}

var referenceSegments = []int64{0, 4672, 9344, 14016, 18688}

// referenceFiles compares the partition directory with what was measured.
func (s *story) referenceFiles(stopped bool) {
	const dir = "/data/order-demo-0/"
	size := func(name string, want int64) {
		got, ok := s.Broker.Disk.Size(dir + name)
		s.must(ok && got == want, "S3", "%s has %d bytes (there: %v), Kafka's has %d", name, got, ok, want)
	}
	total := int64(0)
	for i, base := range referenceSegments {
		name := fmt.Sprintf("%020d", base)
		last := i == len(referenceSegments)-1
		if n, ok := s.Broker.Disk.Size(dir + name + ".log"); ok {
			total += n
		}
		switch {
		case !last:
			size(name+".log", 1_047_696)
			size(name+".index", 1_864)
		case stopped:
			size(name+".log", 294_216)
		default:
			size(name+".log", 294_216)
			size(name+".index", 10_485_760)
			size(name+".timeindex", 10_485_756)
		}
		if base > 0 {
			size(name+".snapshot", 56)
		} else {
			_, there := s.Broker.Disk.Size(dir + name + ".snapshot")
			s.must(!there, "S3", "there is a snapshot at 0")
		}
	}
	s.must(total == 4_485_000, "S3", "the log has %d bytes", total)
	size("leader-epoch-checkpoint", 8)
	size("partition.metadata", 43)
	index, _ := s.Broker.Disk.ReadFile(dir + "00000000000000004672.index")
	for i, want := range [][2]uint32{{23, 4485}, {43, 8970}, {63, 13455}} {
		if !s.must(len(index) >= 8*(i+1), "S3", "the index has %d bytes", len(index)) {
			return
		}
		rel, pos := binary.BigEndian.Uint32(index[8*i:]), binary.BigEndian.Uint32(index[8*i+4:])
		s.must(rel == want[0] && pos == want[1], "S3", "index entry %d is %d→%d, Kafka's %d→%d", i, rel, pos, want[0], want[1])
	}
}
