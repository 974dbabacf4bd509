package conn

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/net"
	"seedlog/sim/sched"
	"seedlog/sim/simnet"
)

var writeSeeds = flag.Bool("seeds", false, "rewrite the fuzz seeds in testdata")

// seedStreams are what clients send first.
func seedStreams() map[string][]byte {
	id := "rdkafka"
	echo := frameOf(3, 1, 7, &id, false, []byte{0, 0, 0, 0})
	return map[string][]byte{
		"metadata-v1":         echo,
		"metadata-v9-tags":    frameOf(3, 9, 8, &id, true, []byte{1, 0, 0, 0}),
		"apiversions-v3":      frameOf(18, 3, 1, &id, true, []byte("\x08librdka\x062.0.0\x00")[:]),
		"apiversions-unknown": frameOf(18, 127, 1, nil, true, []byte{0}),
		"shutdown-v0":         frameOf(7, 0, 3, nil, false, []byte{0, 0, 0, 1}),
		"two-produces":        append(frameOf(0, 3, 1, nil, false, make([]byte, 40)), frameOf(0, 9, 2, nil, true, make([]byte, 40))...),
		"truncated":           echo[:len(echo)-3],
		"negative":            {0xff, 0xff, 0xff, 0xff},
		"oversize":            {0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 3},
		"http":                []byte("GET / HTTP/1.1\r\nHost: broker\r\n\r\n"),
		"tags-endless":        {0, 0, 0, 16, 0, 3, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
	}
}

// TestWriteFuzzSeeds checks that testdata has the seeds; go test ./node/conn -run Seeds
// -seeds rewrites them.
func TestWriteFuzzSeeds(t *testing.T) {
	for name, b := range seedStreams() {
		path := filepath.Join("testdata", "fuzz", "FuzzStream", name)
		want := []byte("go test fuzz v1\n[]byte(" + strconv.Quote(string(b)) + ")\n")
		if *writeSeeds {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs from the seed (%v)", path, err)
		}
	}
}

// FuzzStream sends any bytes to a connection. Whatever they are, each whole good frame is
// answered, a bad one closes the connection, and no memory is kept.
func FuzzStream(f *testing.F) {
	f.Fuzz(func(t *testing.T, stream []byte) {
		s := sched.New(1, sched.Calm(), nil)
		defer s.Close()
		n := simnet.New(s, simnet.Calm())
		server, client := n.Attach(s.NewRuntime("m1", sched.ClockParams{})), n.Attach(s.NewRuntime("c1", sched.ClockParams{}))
		budget := NewBudget(s.World(), 16<<20)
		g := task.NewGroup(s.World(), "fuzz")
		answers, served := 0, 0
		svc := &fakeService{serve: func(t *task.T, r *Request, reply *Reply) {
			served++
			reply.SendBody(append(reply.Buffer(), r.Body...))
		}}
		g.Go("client", func(tk *task.T) {
			ln, err := server.Listen(tk, ":9092")
			if err != nil {
				panic(err)
			}
			srv := g.Sub("server")
			srv.Go("serve", func(t *task.T) { Serve(t, Config{Budget: budget, IdleMaxMs: 1000}, ln, svc) })
			nc, err := client.Dial(tk, ln.Addr(), clock.Never)
			if err != nil {
				panic(err)
			}
			c := &client0{nc}
			w := g.Sub("writer")
			w.Go("writer", func(t *task.T) { nc.Write(t, []net.Part{{Bytes: stream}}, clock.Never) })
			for c.answer(tk) {
				answers++
			}
			nc.Close()
			w.Wait(tk)
			srv.Stop()
			srv.Wait(tk)
		})
		if s.Run(func() bool { return g.Len() == 0 }, clock.Instant(time.Hour)) != sched.Met {
			t.Fatalf("did not end: %v", s.Failure())
		}
		if used, _ := budget.Used(); used != 0 {
			t.Errorf("%d bytes kept", used)
		}
		if good := goodFrames(svc, stream); served != good || answers > served {
			t.Errorf("%d requests served and %d answered, the stream has %d", served, answers, good)
		}
	})
}

type client0 struct{ nc net.Conn }

func (c *client0) answer(t *task.T) bool {
	cl := client{nc: c.nc}
	head, err := cl.readN(t, 4)
	if err == nil {
		_, err = cl.readN(t, int(binary.BigEndian.Uint32(head)))
	}
	return err == nil
}

// goodFrames counts the whole frames before the first bad one, by rules of its own.
func goodFrames(svc *fakeService, b []byte) int {
	n := 0
	for ; len(b) >= 8; n++ {
		size := int(int32(binary.BigEndian.Uint32(b)))
		key, version := int16(binary.BigEndian.Uint16(b[4:])), int16(binary.BigEndian.Uint16(b[6:]))
		ok, flexible := svc.Supports(key, version)
		if size < 8 || int32(size) > svc.MaxFrame(key, version) || !ok && key != 18 || size > len(b)-4 {
			break
		}
		frame := b[4 : 4+size]
		b = b[4+size:]
		if !ok || key == 7 {
			continue
		}
		r := bytes.NewReader(frame[8:])
		var idLen int16
		if binary.Read(r, binary.BigEndian, &idLen) != nil || idLen < -1 || int(max(idLen, 0)) > r.Len() {
			break
		}
		r.Seek(int64(max(idLen, 0)), 1)
		if flexible && !goodTags(r) {
			break
		}
	}
	return n
}

func goodTags(r *bytes.Reader) bool {
	number := func() (uint64, bool) {
		before := r.Len()
		v, err := binary.ReadUvarint(r)
		return v, err == nil && before-r.Len() <= 5
	}
	count, ok := number()
	if !ok || count > tagsMax {
		return false
	}
	for range count {
		if _, ok := number(); !ok {
			return false
		}
		size, ok := number()
		if !ok || size > uint64(r.Len()) {
			return false
		}
		r.Seek(int64(size), 1)
	}
	return true
}

func FuzzHeader(f *testing.F) {
	id := "client"
	for v := range 3 {
		f.Add(frameOf(3, 9, 1, &id, v == 2, []byte("body"))[4:], v)
	}
	f.Fuzz(func(t *testing.T, frame []byte, version int) {
		h, body, err := parseHeader(frame, version)
		if err != nil {
			return
		}
		if len(body) > len(frame)-headerMin || !bytes.HasSuffix(frame, body) {
			t.Error("the body is not the end of the frame")
		}
		if got := fmt.Sprintf("%04x%04x%08x", uint16(h.key), uint16(h.version), uint32(h.correlationID)); got != fmt.Sprintf("%x", frame[:8]) {
			t.Errorf("parsed %s of %x", got, frame[:8])
		}
	})
}
