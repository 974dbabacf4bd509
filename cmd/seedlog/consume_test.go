package main

import (
	"fmt"
	"strings"
	"testing"
)

// numbers are those from one to another, one a line.
func numbers(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintln(&b, i)
	}
	return b.String()
}

func TestConsumeBeginsAndEndsWhereItIsTold(t *testing.T) {
	b, _ := runningBroker(t, "offsets.topic.num.partitions=1")
	run := func(stdin string, args ...string) string {
		t.Helper()
		out, errs, code := ran(t, stdin, append(args, "-b", b.addr)...)
		if code != 0 {
			t.Errorf("%v: exit code %d: %s", args, code, errs)
		}
		return out
	}
	run(numbers(1, 10), "produce", "t", "-q")
	consume := func(want string, args ...string) {
		t.Helper()
		if got := run("", append([]string{"consume", "t"}, args...)...); got != want {
			t.Errorf("consume %v prints %q, want %q", args, got, want)
		}
	}
	consume(numbers(1, 10), "-o", "start", "-e")
	consume(numbers(1, 10), "--from-beginning", "-e")
	consume("", "-e")
	consume(numbers(8, 10), "-o", "7", "-e")
	consume(numbers(9, 10), "-o", "-2", "-e")
	consume(numbers(1, 10), "-o", "-200", "-e")
	consume("", "-o", "1000", "-e")

	// A group goes on behind what was printed, and only behind that.
	consume(numbers(1, 3), "-g", "g", "-o", "start", "-n", "3")
	consume(numbers(4, 6), "-g", "g", "-o", "start", "-n", "3")
	consume(numbers(7, 10), "-g", "g", "-o", "start", "-e")
	consume("", "-g", "g", "-o", "start", "-e")
	run(numbers(11, 12), "produce", "t", "-q")
	consume(numbers(11, 12), "-g", "g", "-o", "start", "-e")
}
