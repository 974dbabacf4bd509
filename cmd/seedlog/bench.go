package main

import (
	"slices"

	"github.com/spf13/cobra"
)

func benchCommand() *cobra.Command {
	return family("bench", "Measure this machine, and a broker on it",
		benchLimitsCommand(), benchClusterCommand(), benchProduceCommand(), benchConsumeCommand())
}

// series is what was measured, round by round.
type series []float64

func (s series) sorted() series { return slices.Sorted(slices.Values(s)) }

// at is the value below which the share q of all lies; 0 if there is none.
func (s series) at(q float64) float64 {
	if len(s) == 0 {
		return 0
	}
	o := s.sorted()
	return o[min(int(q*float64(len(o))), len(o)-1)]
}

func (s series) median() float64 { return s.at(0.5) }
func (s series) min() float64    { return s.at(0) }
func (s series) max() float64    { return s.at(1) }

// over is the ratio to another series measured in the same rounds.
func (s series) over(o series) series {
	r := make(series, min(len(s), len(o)))
	for i := range r {
		r[i] = s[i] / o[i]
	}
	return r
}
