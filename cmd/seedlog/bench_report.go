package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"text/tabwriter"

	"golang.org/x/term"
)

// discardLog is for nodes whose events nobody reads.
var discardLog = slog.New(slog.DiscardHandler)

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// print writes what was found.
func (r *limitsRun) print(w io.Writer) {
	fmt.Fprintf(w, "%s, %d cores, %d rounds, records of %d bytes, no codec, %d requests in flight (flush.messages=1: 64 producers with one each)\n\n",
		runtime.GOOS+"/"+runtime.GOARCH, runtime.NumCPU(), r.rounds, r.recordSize, inFlight)
	head := []string{"path", "request", "raw MB/s", "broker MB/s", "ratio", "target", "broker CPU s/GB"}
	var lines [][]string
	for _, row := range r.rows {
		target := "reported"
		if row.target > 0 {
			target = fmt.Sprintf("≥ %.2f", row.target)
		}
		lines = append(lines, []string{
			row.name, fmt.Sprint(row.request), spread(row.raw, 0), spread(row.broker, 0), spread(row.broker.over(row.raw), 2), target, spread(row.cpu, 2),
		})
	}
	if r.format == "markdown" {
		printMarkdown(w, head, lines)
	} else {
		printTable(w, head, lines)
	}
	if len(r.more) > 0 {
		fmt.Fprintln(w)
	}
	for _, m := range r.more {
		if r.format == "markdown" {
			m = "- " + m
		}
		fmt.Fprintln(w, m)
	}
}

// spread is the median and, in parentheses, the least and the greatest.
func spread(s series, digits int) string {
	if s.max() < 10 {
		digits = 2
	}
	return fmt.Sprintf("%.*f (%.*f–%.*f)", digits, s.median(), digits, s.min(), digits, s.max())
}

func printTable(w io.Writer, head []string, lines [][]string) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, line := range append([][]string{head}, lines...) {
		for _, cell := range line {
			fmt.Fprint(t, cell+"\t")
		}
		fmt.Fprintln(t)
	}
	t.Flush()
}

func printMarkdown(w io.Writer, head []string, lines [][]string) {
	row := func(cells []string) {
		for _, cell := range cells {
			fmt.Fprint(w, "| "+cell+" ")
		}
		fmt.Fprintln(w, "|")
	}
	row(head)
	rule := make([]string, len(head))
	for i := range rule {
		rule[i] = "---"
	}
	row(rule)
	for _, line := range lines {
		row(line)
	}
}
