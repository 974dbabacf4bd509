package conn

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"seedlog/clock/task"
	"seedlog/sim/sched"
	"seedlog/sim/simnet"
)

// TestRepliesAreInOrderWhateverHappens runs several clients that pipeline drawn requests
// against a service that answers now, later, in any order, with nothing or by closing, over
// a network with drawn faults. Whatever part of its replies a client gets is a prefix of
// what it asked for, each once and with its own content; and nothing is left behind (the
// harness checks the budget and that all tasks end).
func TestRepliesAreInOrderWhateverHappens(t *testing.T) {
	replies := 0
	for seed := range uint64(40) {
		r := sched.Stream(seed, "swarm")
		netCfg := simnet.Calm()
		if seed%2 == 1 {
			netCfg = simnet.DrawConfig(r)
			netCfg.TailMaxNs = min(netCfg.TailMaxNs, int64(time.Second))
		}
		faulty := seed%4 == 3
		onSim(t, 1, netCfg, func(e *env) {
			e.cfg.PipelineMax = 1 + r.IntN(20)
			e.svc.serve = func(t *task.T, q *Request, reply *Reply) {
				kind := int(q.Body[0])
				if kind == 9 && !faulty {
					kind = 0
				}
				// The answer is the request's body, in parts.
				body := append(reply.Buffer(), q.Body...)
				switch kind {
				case 0, 1, 2:
					reply.SendBody(body)
				case 3:
					if q.Key == 0 {
						reply.None()
					} else {
						reply.SendBody(body)
					}
				case 4:
					t.Sleep(t.Now().Add(time.Millisecond))
					reply.SendBody(body)
				case 9:
					reply.Close("drawn")
				default:
					reply.ReleaseBody()
					wait := time.Duration(r.Int64N(int64(10 * time.Millisecond)))
					e.svc.group.Go("later", func(t *task.T) {
						t.Sleep(t.Now().Add(wait))
						reply.SendBody(body)
					})
				}
			}
		}, func(e *env, t *task.T) error {
			g := t.Group().Sub("clients")
			for i := range 4 {
				g.Go(fmt.Sprint("client", i), func(t *task.T) {
					n, err := swarmClient(e, t, sched.Stream(seed, fmt.Sprint("client", i)).Uint64)
					replies += n
					if err != nil {
						e.t.Errorf("seed %d client %d: %v", seed, i, err)
					}
				})
			}
			g.Wait(t)
			return nil
		})
	}
	if replies < 2000 {
		t.Errorf("only %d replies in all runs", replies)
	}
}

// swarmClient asks while another task reads the answers. It returns how many came.
func swarmClient(e *env, t *task.T, draw func() uint64) (int, error) {
	c, err := e.dial(t)
	if err != nil {
		return 0, nil // the network is allowed to refuse
	}
	defer c.nc.Close()
	const requests = 60
	sizes := []int{1, 2, 100, 3000, 9000, 70_000}
	type ask struct {
		key  int16
		body []byte
	}
	asks := make([]ask, requests)
	for i := range asks {
		kind := byte(draw() % 9)
		if i == requests-1 && draw()%2 == 0 {
			kind = 9
		}
		a := ask{key: []int16{0, 0, 3}[draw()%3], body: bytes.Repeat([]byte{byte(i)}, 5+sizes[draw()%6])}
		a.body[0] = kind
		binary.BigEndian.PutUint32(a.body[1:], uint32(i))
		asks[i] = a
	}
	w := t.Group().Sub("asks")
	w.Go("asks", func(t *task.T) {
		for _, a := range asks {
			if c.ask(t, a.key, 1, a.body) != nil {
				return
			}
		}
	})
	defer w.Wait(t)
	defer c.nc.Close()
	got := 0
	for i, a := range asks {
		if a.body[0] == 3 && a.key == 0 {
			continue // has no answer
		}
		if i == requests-1 && a.body[0] == 9 && e.cfg.PipelineMax > 0 {
			return got, nil // may be an answer or the end
		}
		corr, body, err := c.answer(t)
		if err != nil {
			return got, nil
		}
		if corr != int32(i+1) || !bytes.Equal(body, a.body) {
			return got, fmt.Errorf("answer %d with %d bytes, want %d with %d", corr, len(body), i+1, len(a.body))
		}
		got++
	}
	return got, nil
}
