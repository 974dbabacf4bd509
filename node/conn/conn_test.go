package conn

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"seedlog/clock/task"
)

func TestEchoWithEveryHeaderVersion(t *testing.T) {
	onBoth(t, nil, func(e *env, t *task.T) error {
		c, err := e.dial(t)
		if err != nil {
			return err
		}
		for _, q := range []struct {
			key, version int16
			tags         string
		}{{0, 3, ""}, {0, 9, "\x00"}, {3, 1, ""}, {3, 12, "\x00"}, {18, 0, ""}, {18, 4, ""}, {7, 0, ""}} {
			for _, n := range []int{0, 1, 700, 5000, 9000, 100_000} {
				body := bytes.Repeat([]byte{byte(n)}, n)
				if err := c.ask(t, q.key, q.version, body); err != nil {
					return err
				}
				if err := c.expect(t, c.corr, append([]byte(q.tags), body...)); err != nil {
					return fmt.Errorf("key %d version %d: %w", q.key, q.version, err)
				}
			}
		}
		c.nc.Close()
		ev, err := e.events.closed(t, 0)
		if err == nil && (ev.Bad || ev.Requests != 42 || ev.Reason != "closed by the client") {
			err = fmt.Errorf("event %+v", ev)
		}
		return err
	})
}

func TestPipelinedFramesInOneWriteAndByteByByte(t *testing.T) {
	onBoth(t, nil, func(e *env, t *task.T) error {
		c, err := e.dial(t)
		if err != nil {
			return err
		}
		var all []byte
		sizes := []int{3, 900, 2000, 0, 8170, 40, 8200, 20_000, 5}
		for i, n := range sizes {
			all = append(all, frameOf(3, 1, int32(i), nil, false, bytes.Repeat([]byte{byte(i)}, n))...)
		}
		for _, step := range []int{len(all), 997} {
			w := t.Group().Sub("writer")
			w.Go("writer", func(t *task.T) {
				for at := 0; at < len(all); at += step {
					if err := c.write(t, all[at:min(at+step, len(all))]); err != nil {
						e.t.Error(err)
					}
				}
			})
			for i, n := range sizes {
				if err := c.expect(t, int32(i), bytes.Repeat([]byte{byte(i)}, n)); err != nil {
					return err
				}
			}
			w.Wait(t)
		}
		return nil
	})
}

func TestClientIDAndUnknownApiVersions(t *testing.T) {
	onBoth(t, func(e *env) {
		e.svc.serve = func(t *task.T, r *Request, reply *Reply) {
			id := "null"
			if r.ClientID != nil {
				id = *r.ClientID
			}
			reply.SendBody(fmt.Appendf(reply.Buffer(), "%d/%d %s %d", r.Key, r.Version, id, len(r.Body)))
		}
	}, func(e *env, t *task.T) error {
		c, err := e.dial(t)
		if err != nil {
			return err
		}
		a, b := "a", ""
		for i, q := range []struct {
			frame []byte
			want  string
		}{
			{frameOf(3, 1, 0, &a, false, nil), "3/1 a 0"},
			{frameOf(3, 1, 1, &a, false, []byte("x")), "3/1 a 1"},
			{frameOf(3, 9, 2, &b, true, nil), "\x003/9  0"},
			{frameOf(3, 9, 3, nil, true, []byte("xy")), "\x003/9 null 2"},
			{frameOf(18, 99, 4, &a, true, []byte("who knows")), "18/99 null 0"},
			{frameOf(18, -1, 5, &a, true, nil), "18/-1 null 0"},
		} {
			if err := c.write(t, q.frame); err != nil {
				return err
			}
			if err := c.expect(t, int32(i), []byte(q.want)); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestBadFramesCloseTheConnectionWithAnEvent(t *testing.T) {
	size := func(n int32, rest ...byte) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(n)), rest...)
	}
	bad := []struct {
		name, reason string
		frame        []byte
	}{
		{"negative", "frame of -1 bytes", size(-1)},
		{"most negative", "frame of -2147483648 bytes", size(-1 << 31)},
		{"empty", "frame of 0 bytes", size(0)},
		{"shorter than a header", "frame of 7 bytes", size(7)},
		{"oversize", "frame of 104857601 bytes", size(100<<20 + 1)},
		{"oversize for its key, before the body comes", "frame of 2000000 bytes for Metadata v1", size(2_000_000, 0, 3, 0, 1)},
		{"unknown key", "key 999 v0 is not served", size(20, 3, 231, 0, 0)},
		{"unknown version", "Metadata v14 is not served", size(20, 0, 3, 0, 14)},
		{"long client id", "client id of 9999 bytes", size(12, 0, 3, 0, 1, 0, 0, 0, 0, 0x27, 0x0f, 0, 0)},
		{"negative client id", "client id of -2 bytes", size(12, 0, 3, 0, 1, 0, 0, 0, 0, 0xff, 0xfe, 0, 0)},
		{"no client id", "ends before the client id", size(8, 0, 3, 0, 1, 0, 0, 0, 0)},
		{"many tags", "100 tagged fields", size(12, 0, 3, 0, 9, 0, 0, 0, 0, 0xff, 0xff, 100, 0)},
		{"large tag", "tagged field of 100 bytes", size(14, 0, 3, 0, 9, 0, 0, 0, 0, 0xff, 0xff, 1, 0, 100, 0)},
		{"endless number", "bad number", size(16, 0, 3, 0, 9, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1)},
		{"text", "frame of 1195725856 bytes", []byte("GET / HTTP/1.1\r\n\r\n")},
	}
	onBoth(t, nil, func(e *env, t *task.T) error {
		for i, b := range bad {
			c, err := e.dial(t)
			if err != nil {
				return err
			}
			if err := c.write(t, b.frame); err != nil {
				return err
			}
			if err := c.gone(t); err != nil {
				return fmt.Errorf("%s: %w", b.name, err)
			}
			ev, err := e.events.closed(t, i)
			if err != nil {
				return err
			}
			if !ev.Bad || !strings.Contains(ev.Reason, b.reason) {
				return fmt.Errorf("%s: event %+v, want reason %q", b.name, ev, b.reason)
			}
			c.nc.Close()
		}
		return nil
	})
}

// parkProduce parks every Produce and answers everything else at once.
func parkProduce(e *env) {
	e.svc.serve = func(t *task.T, r *Request, reply *Reply) {
		if r.Key == 0 {
			e.svc.park(reply)
			return
		}
		reply.SendBody(append(reply.Buffer(), "other"...))
	}
}

func TestProducesRunWhileOneIsParkedAndRepliesKeepTheirOrder(t *testing.T) {
	onBoth(t, parkProduce, func(e *env, t *task.T) error {
		c, err := e.dial(t)
		if err != nil {
			return err
		}
		for range 10 {
			if err := c.ask(t, 0, 3, make([]byte, 3000)); err != nil {
				return err
			}
		}
		if err := c.ask(t, 3, 1, nil); err != nil {
			return err
		}
		if err := e.svc.waitParked(t, 10); err != nil {
			return err
		}
		// They complete from the last to the first.
		for i := 9; i >= 0; i-- {
			r := e.svc.take(i)
			r.SendBody(fmt.Appendf(r.Buffer(), "produce %d", i+1))
		}
		for i := range 10 {
			if err := c.expect(t, int32(i+1), fmt.Appendf(nil, "produce %d", i+1)); err != nil {
				return err
			}
		}
		return c.expect(t, 11, []byte("other"))
	})
}

func TestAnotherRequestStartsWhenEarlierRepliesAreOut(t *testing.T) {
	started := false
	onBoth(t, func(e *env) {
		started = false
		e.svc.serve = func(t *task.T, r *Request, reply *Reply) {
			if r.Key == 0 || len(r.Body) == 0 {
				e.svc.park(reply)
				return
			}
			e.svc.mu.Lock()
			started = true
			e.svc.mu.Unlock()
			reply.SendBody(nil)
		}
	}, func(e *env, t *task.T) error {
		wasStarted := func() bool {
			e.svc.mu.Lock()
			defer e.svc.mu.Unlock()
			return started
		}
		for _, first := range []int16{0, 3} { // behind a Produce, and behind something else
			c, err := e.dial(t)
			if err != nil {
				return err
			}
			if err := errors.Join(c.ask(t, first, 1, nil), c.ask(t, 3, 1, []byte("x"))); err != nil {
				return err
			}
			if err := e.svc.waitParked(t, 1); err != nil {
				return err
			}
			t.Sleep(t.Now().Add(5 * time.Millisecond)) // time enough to be wrong
			if wasStarted() {
				return fmt.Errorf("a request ran behind a parked request of key %d", first)
			}
			e.svc.take(0).SendBody([]byte("first"))
			if err := errors.Join(c.expect(t, 1, []byte("first")), c.expect(t, 2, nil)); err != nil {
				return err
			}
			e.svc.mu.Lock()
			started = false
			e.svc.mu.Unlock()
		}
		return nil
	})
}

func TestPipelineIsBounded(t *testing.T) {
	onBoth(t, func(e *env) {
		parkProduce(e)
		e.cfg.PipelineMax = 5
	}, func(e *env, t *task.T) error {
		c, err := e.dial(t)
		if err != nil {
			return err
		}
		for range 12 {
			if err := c.ask(t, 0, 3, nil); err != nil {
				return err
			}
		}
		for done := range 12 {
			if err := e.svc.waitParked(t, min(5, 12-done)); err != nil {
				return err
			}
			t.Sleep(t.Now().Add(2 * time.Millisecond))
			if n := e.svc.parked(); n > 5 {
				return fmt.Errorf("%d requests run at once", n)
			}
			e.svc.take(0).SendBody(nil)
			if err := c.expect(t, int32(done+1), nil); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestNoneHasNoReplyAndCloseComesAfterEarlierReplies(t *testing.T) {
	onBoth(t, func(e *env) {
		e.svc.serve = func(t *task.T, r *Request, reply *Reply) {
			switch string(r.Body) {
			case "none":
				reply.None()
			case "close":
				reply.Close("acks=0 failed")
			case "park":
				e.svc.park(reply)
			default:
				reply.SendBody(append(reply.Buffer(), r.Body...))
			}
		}
	}, func(e *env, t *task.T) error {
		c, err := e.dial(t)
		if err != nil {
			return err
		}
		for _, body := range []string{"none", "none", "a", "park", "none", "b", "close"} {
			if err := c.ask(t, 0, 3, []byte(body)); err != nil {
				return err
			}
		}
		if err := e.svc.waitParked(t, 1); err != nil {
			return err
		}
		if err := c.expect(t, 3, []byte("a")); err != nil {
			return err
		}
		t.Sleep(t.Now().Add(2 * time.Millisecond))
		e.svc.take(0).SendBody([]byte("parked"))
		if err := errors.Join(c.expect(t, 4, []byte("parked")), c.expect(t, 6, []byte("b")), c.gone(t)); err != nil {
			return err
		}
		ev, err := e.events.closed(t, 0)
		if err == nil && ev.Reason != "acks=0 failed" {
			err = fmt.Errorf("event %+v", ev)
		}
		return err
	})
}

func TestSecondReplyPanics(t *testing.T) {
	onSim(t, 1, calm, func(e *env) {
		e.svc.serve = func(t *task.T, r *Request, reply *Reply) {
			reply.None()
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, "second reply to Metadata v1") {
					e.t.Errorf("panic: %s", got)
				}
				r.Conn.shut(errStopped)
			}()
			reply.None()
		}
	}, func(e *env, t *task.T) error {
		c, err := e.dial(t)
		if err != nil {
			return err
		}
		return errors.Join(c.ask(t, 3, 1, nil), c.gone(t))
	})
}
