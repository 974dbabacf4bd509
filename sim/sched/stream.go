package sched

import (
	"math/bits"
	"math/rand/v2"

	"seedlog/sim/trace"
)

// split derives the two words of a stream's seed from the run's seed and the name.
func split(seed uint64, name string) (uint64, uint64) {
	h := uint64(14695981039346656037)
	for i := 0; i < len(name); i++ {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	hi, lo := bits.Mul64(seed^0x9e3779b97f4a7c15, h|1)
	return hi ^ h, lo ^ seed
}

// Stream is the random stream of the name under the seed. Streams of different names are
// independent: what one of them draws shifts nothing in another.
func Stream(seed uint64, name string) *rand.Rand { return rand.New(rand.NewPCG(split(seed, name))) }

// source is a stream whose draws are events of the trace.
type source struct {
	pcg *rand.PCG
	log *trace.Log
	id  uint64
}

func (s *source) Uint64() uint64 {
	v := s.pcg.Uint64()
	s.log.Add(trace.Draw, s.id, v, 0)
	return v
}

// Stream is the stream of the name under the run's seed; its draws go to the trace. Asking
// for a name again begins the same stream anew.
func (s *Scheduler) Stream(name string) *rand.Rand {
	s.streams++
	s.log.AddString(trace.Stream, s.streams, name)
	return rand.New(&source{pcg: rand.NewPCG(split(s.seed, name)), log: s.log, id: s.streams})
}

// Rand is the stream of the name of this incarnation.
func (rt *Runtime) Rand(name string) *rand.Rand { return rt.s.Stream(rt.name + "/" + name) }

// Entropy is the source of identifiers of this incarnation.
func (rt *Runtime) Entropy(name string) func([]byte) {
	r := rt.Rand(name)
	return func(p []byte) {
		for len(p) > 0 {
			v := r.Uint64()
			for i := 0; i < 8 && len(p) > 0; i++ {
				p[0] = byte(v)
				p, v = p[1:], v>>8
			}
		}
	}
}
