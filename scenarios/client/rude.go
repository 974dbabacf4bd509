package client

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
)

// Rude is a client that no broker wants: it sends noise, frames that are cut short or lie about
// their length, requests that nobody knows or that end within a field, sends a byte at a time,
// and asks without ever reading. Nothing that it does may reach the history: the broker closes
// its connections and serves everybody else.
type Rude struct {
	Env
	Topics []*Topic
	Ops    int // budget
}

// Run is rude until the budget is spent.
func (r *Rude) Run(t *task.T) {
	for ; r.Ops > 0 && !r.Enough() && !t.Stopping(); r.Ops-- {
		r.rest(t)
		conn := r.dial(t)
		if conn == nil {
			break
		}
		r.act(t, conn)
		conn.Close()
		r.pause(t)
	}
}

func (r *Rude) act(t *task.T, conn *Conn) {
	switch r.Rand.IntN(9) {
	case 0: // noise of any length, with a length before it or not
		r.write(t, conn, r.noise(1+r.Rand.IntN(300)))
	case 1: // a length that no frame may have
		lengths := []int32{-1, -1 << 31, 1<<31 - 1, 0, 3, 512 << 20}
		r.write(t, conn, binary.BigEndian.AppendUint32(nil, uint32(lengths[r.Rand.IntN(len(lengths))])))
	case 2: // a frame that stops before its end
		frame := r.request()
		r.write(t, conn, frame[:r.Rand.IntN(len(frame))])
		return
	case 8: // a large one that stops before its end: the broker has taken its memory by then
		r.write(t, conn, HalfFrame(r.Rand, 200<<10))
		return
	case 3: // a request that ends within a field, in a frame that says so
		frame := r.request()
		r.write(t, conn, reframed(frame[4:4+r.Rand.IntN(len(frame)-4)]))
	case 4: // a key or a version that nobody knows
		frame := r.request()
		binary.BigEndian.PutUint16(frame[4+2*r.Rand.IntN(2):], uint16(90+r.Rand.IntN(1<<15)))
		r.write(t, conn, frame)
	case 5: // a request with some bytes changed, after its header
		frame := r.request()
		for range 1 + r.Rand.IntN(4) {
			at := min(len(frame)-1, 14+len(r.Name)+r.Rand.IntN(len(frame)))
			frame[at] ^= byte(1 << r.Rand.IntN(8))
		}
		r.write(t, conn, frame)
	case 6: // a byte at a time
		for _, b := range r.request() {
			if r.write(t, conn, []byte{b}) != nil {
				return
			}
			t.Sleep(t.Now().Add(time.Duration(r.Rand.IntN(20)) * time.Millisecond))
		}
	default: // many questions and no ear for the answers
		for range 20 {
			if r.write(t, conn, r.request()) != nil {
				return
			}
		}
		t.Sleep(t.Now().Add(r.RequestTimeout))
		return
	}
	// Until the broker hangs up, or has answered what could be answered.
	_, _ = conn.Frame(t, r.deadline(t))
}

func (r *Rude) write(t *task.T, conn *Conn, b []byte) error {
	return conn.Raw(t, b, r.deadline(t))
}

// HalfFrame is the beginning of a Produce request that says to be at most n bytes long, more
// than a connection's own buffer has room for, and never ends.
func HalfFrame(rng *rand.Rand, n int) []byte {
	const room = 8 << 10
	size := room + rng.IntN(n-room)
	b := binary.BigEndian.AppendUint32(nil, uint32(size))
	b = binary.BigEndian.AppendUint16(b, 0)
	b = binary.BigEndian.AppendUint16(b, 9)
	return append(b, make([]byte, rng.IntN(size-8))...)
}

func (r *Rude) noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Rand.Uint32())
	}
	return b
}

// request is a sound request, as a frame, that changes nothing: whatever becomes of its bytes
// must not write to a topic whose history is judged.
func (r *Rude) request() []byte {
	topic := r.Topics[r.Rand.IntN(len(r.Topics))]
	var req kmsg.Request
	switch r.Rand.IntN(4) {
	case 0:
		m := kmsg.NewPtrMetadataRequest()
		m.Version = int16(r.Rand.IntN(14))
		m.AllowAutoTopicCreation = false
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = &topic.Name
		m.Topics = append(m.Topics, rt)
		req = m
	case 1:
		f := kmsg.NewPtrFetchRequest()
		f.Version = int16(4 + r.Rand.IntN(8))
		f.MaxWaitMillis, f.MinBytes, f.MaxBytes = 100, 1, 1<<20
		part := kmsg.NewFetchRequestTopicPartition()
		part.PartitionMaxBytes = 1 << 20
		rt := kmsg.NewFetchRequestTopic()
		rt.Topic = topic.Name
		rt.Partitions = append(rt.Partitions, part)
		f.Topics = append(f.Topics, rt)
		req = f
	case 2:
		l := kmsg.NewPtrListOffsetsRequest()
		l.Version = int16(1 + r.Rand.IntN(9))
		part := kmsg.NewListOffsetsRequestTopicPartition()
		part.Timestamp = -1
		rt := kmsg.NewListOffsetsRequestTopic()
		rt.Topic = topic.Name
		rt.Partitions = append(rt.Partitions, part)
		l.Topics = append(l.Topics, rt)
		req = l
	default:
		v := kmsg.NewPtrApiVersionsRequest()
		v.Version = int16(r.Rand.IntN(5))
		v.ClientSoftwareName, v.ClientSoftwareVersion = "rude", "0"
		req = v
	}
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID(r.Name)).AppendRequest(nil, req, int32(r.Rand.Uint32()))
}

// reframed puts an honest length before a payload.
func reframed(payload []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)
}
