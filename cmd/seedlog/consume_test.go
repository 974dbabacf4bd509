package main

import (
	"encoding/json"
	"fmt"
	"slices"
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

// Whoever asks for JSON gets JSON of every verb: scripts read nothing else.
func TestEveryVerbSpeaksJSON(t *testing.T) {
	b, _ := runningBroker(t)
	plan := `{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1]}]}`
	reassign := []string{"topic", "reassign", "--reassignment-json-file", "-"}
	for _, c := range []struct {
		stdin string
		args  []string
		want  string
	}{
		{"", []string{"topic", "create", "t"}, `"topic": "t"`},
		{"k\tv\n\tw\xff\n", []string{"produce", "t", "-f", "%k\t%v\n", "-H", "h=x"}, `{"topic":"t","partition":0,"offset":1}`},
		{"", []string{"consume", "t", "-o", "start", "-n", "1"}, `"key":"k","value":"v","headers":[{"key":"h","value":"x"}]}`},
		{"", []string{"consume", "t", "-o", "1", "-e"}, `"value":{"base64":"d/8="}`},
		{"", []string{"topic", "elect-leaders", "t"}, `"elected": false`},
		{plan, append(reassign, "--execute"), `"partitions": 1`},
		{plan, append(reassign, "--verify"), `"state": "done"`},
		{plan, append(reassign, "--cancel"), `"ended": 0`},
		{"", []string{"topic", "delete", "t"}, `"topic": "t"`},
	} {
		out, errs, code := ran(t, c.stdin, append(slices.Clone(c.args), "--format", "json", "-b", b.addr)...)
		if code != 0 || !strings.Contains(out, c.want) {
			t.Errorf("%v: exit code %d, no %s in %s%s", c.args, code, c.want, out, errs)
		}
		for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
			var v any
			if err := d.Decode(&v); err != nil {
				t.Errorf("%v: %v in %q", c.args, err, out)
				break
			}
		}
	}
	mistake(t, 2, []string{"consume", "t", "--format", "json", "-f", "%v", "-b", b.addr}, "exclude each other")
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
