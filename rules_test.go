// Package seedlog_test holds the rules that keep a seed a seed (docs/architecture.md), as a
// test: it type-checks every package and says file, line and what to write instead.
//
// The tables are here: which packages decide (P) and wait (T), what may be imported, what
// may be named. rules_check_test.go walks the syntax, rules_lock_test.go follows a
// task.Mutex through a function, and testdata/rules shows for every ban that it fires.
package seedlog_test

import "strings"

// pure packages decide: input in, decision out.
var pure = []string{
	"wheel", "storage/record", "storage/index", "storage/epoch", "storage/producer",
	"node/partition", "node/raft", "node/meta", "node/controller", "node/group", "node/txn",
	"node/event", "node/config", "checker", "checker/...",
}

// waiting packages are tasks.
var waiting = []string{
	"clock/task", "storage", "storage/checkpoint", "node", "node/conn", "node/api",
	"node/replica", "node/quorum", "node/peer", "node/coord", "node/coord/hosted", "node/control",
}

// contracts, adapters and simulation are not walked, but what they import is checked.
var (
	contracts  = []string{"clock", "disk", "net"}
	adapters   = []string{"clock/live", "disk/osfs", "net/tcp"}
	simulation = []string{"sim", "sim/...", "scenarios", "scenarios/..."}
)

// forbidden is the column "must never import" of the design; a name ending in /... covers
// what lies below. disk and net stand on tasks, so theirs says which of ours they may have.
var forbidden = []struct{ from, to, instead string }{
	{"clock", "seedlog/...", "clock is the bottom: pass what it needs as an argument"},
	{"clock/task", "seedlog/node/...", "tasks know nothing of a node"},
	{"clock/...", "seedlog/sim/...", "the simulator implements task.Runtime"},
	{"clock/live", "seedlog/node/...", "the node gets its runtime in node.Host"},
	{"disk", "seedlog/net/...", "the contracts below disk are clock and clock/task"},
	{"disk/...", "seedlog/node/...", "pass what is needed as an argument"},
	{"disk/...", "seedlog/storage/...", "a disk knows bytes, not logs"},
	{"disk/osfs", "seedlog/sim/...", "the simulated disk is another implementation"},
	{"net", "net", "the contract has its own errors and addresses"},
	{"net/...", "seedlog/node/...", "pass what is needed as an argument"},
	{"wheel", "seedlog/clock/...", "instants are int64 nanoseconds here"},
	{"storage/...", "seedlog/node/...", "storage reports through storage.Observer"},
	{"storage/...", "seedlog/net/...", "hand out a *disk.Range"},
	{"storage/...", "seedlog/sim/...", "disk and runtime come in storage.Env"},
	{"node/...", "seedlog/sim/...", "everything comes in node.Host"},
	{"node/partition", "seedlog/storage", "take offsets and epochs as arguments"},
	{"node/replica", "seedlog/node/api", "api calls replica"},
	{"node/quorum", "seedlog/node/controller", "node/control hosts the controller"},
	{"node/coord", "seedlog/node/api", "api calls coord"},
	{"sim/sched", "seedlog/node/...", "the World in sim assembles nodes"},
	{"sim/simdisk", "seedlog/node/...", "the World in sim assembles nodes"},
	{"sim/simnet", "seedlog/node/...", "the World in sim assembles nodes"},
	{"sim/fault", "seedlog/storage/...", "faults act on the simulated disk's bytes"},
	{"sim/trace", "seedlog/storage/...", "payloads are traced by their CRC"},
}

// std is what P and T packages may import of the standard library.
var std = words(`bytes cmp container/heap container/list crypto/hmac crypto/pbkdf2 crypto/sha256 crypto/sha512 crypto/subtle
	encoding/base64 encoding/binary encoding/hex encoding/json errors fmt hash hash/crc32 io iter maps math math/bits
	math/rand/v2 path regexp slices sort strconv strings time unicode unicode/utf16 unicode/utf8`)

// third is what they may import of other modules, by prefix.
var third = words(`github.com/twmb/franz-go/pkg/kmsg github.com/twmb/franz-go/pkg/kbin github.com/twmb/franz-go/pkg/kerr
	github.com/klauspost/compress/ github.com/pierrec/lz4/v4`)

// importExceptions are imports ("package import") beyond the allow-list, with the reason.
var importExceptions = map[string]string{
	"clock/task sync":                                  "the seam: task.Mutex is a sync.Mutex in production",
	"clock/task sync/atomic":                           "the seam: published values and the stop flag are atomics in production",
	"checker/linear github.com/anishathalye/porcupine": "judges a finished history, after the run",
	"checker/logfile compress/gzip":                    "its own reader: another library than the broker's",
}

// instead names the replacement of an import or a name that is not allowed.
var instead = map[string]string{
	"os":                               "disk.Disk, or node.Host for what is not a file",
	"io/fs":                            "disk.Disk",
	"path/filepath":                    "path: disk paths are slash-separated",
	"net":                              "seedlog/net",
	"sync":                             "task.Mutex, task.Gate, task.Event; a free list under a Mutex for a pool",
	"sync/atomic":                      "task.Published or task.Int64",
	"context":                          "t *task.T, deadlines as clock.Instant, task.Group to stop",
	"log":                              "an event of node/event",
	"log/slog":                         "an event of node/event",
	"math/rand":                        "a *rand.Rand of math/rand/v2, passed in",
	"crypto/rand":                      "node.Host.Entropy",
	"runtime":                          "nothing: no finalizers, no goroutines here",
	"runtime/debug":                    "nothing",
	"unsafe":                           "encoding/binary; pointers are neither hashed nor printed",
	"unique":                           "comparing strings",
	"weak":                             "a reference that its owner clears",
	"hash/maphash":                     "hash/crc32: maphash draws a seed per process",
	"reflect":                          "a type switch",
	"time.Now":                         "t.Now() and t.UnixMilli(), or an argument in a pure package",
	"time.Since":                       "clock.Instant.Sub",
	"time.Sleep":                       "t.Sleep or t.Park with a deadline",
	"time.After":                       "t.Park with a deadline, or a wheel entry",
	"time.AfterFunc":                   "a wheel entry",
	"time.NewTimer":                    "t.Park with a deadline, or a wheel entry",
	"time.NewTicker":                   "t.Sleep in a task",
	"fmt.Print":                        "an event of node/event",
	"fmt.Printf":                       "an event of node/event",
	"fmt.Println":                      "an event of node/event",
	"maps.Keys":                        "slices.Sorted(maps.Keys(m))",
	"maps.Values":                      "values by sorted keys",
	"maps.All":                         "a loop over slices.Sorted(maps.Keys(m))",
	"github.com/twmb/franz-go/pkg/kgo": "kmsg: clients are for cmd and tests",
}

// names are what may be used of a package that is only partly allowed.
var names = map[string][]string{
	"time":         words("Duration ParseDuration Nanosecond Microsecond Millisecond Second Minute Hour"),
	"math/rand/v2": words("Rand Source New PCG NewPCG"),
	"fmt": words(`Append Appendf Appendln Errorf Sprint Sprintf Sprintln Fprint Fprintf Fprintln Sscan Sscanf Sscanln
		Stringer GoStringer Formatter State`),
	"maps": words("Clone Copy Equal EqualFunc Keys Values All"), // the last three are looked at
}

// varExceptions are package-level variables that are neither errors nor constant tables.
// Nothing may change them all the same.
var varExceptions = map[string]string{
	"node/config.brokerDefs":   "a constant table of pointers, so that a definition has one identity",
	"node/config.brokerByName": "an index of the table",
	"node/config.topicDefs":    "a constant table of pointers, so that a definition has one identity",
	"node/config.topicByName":  "an index of the table",
}

const (
	maxFuncLines = 100
	maxFileLines = 800
)

// lengthExceptions are the functions ("pkg.Func") and files that may be longer. What is
// short cannot grow; an entry goes when its reason does.
var lengthExceptions = map[string]string{}

func words(s string) []string { return strings.Fields(s) }

// in reports whether the package path, without the module, is in a list of patterns.
func in(list []string, path string) bool {
	for _, p := range list {
		if matches(p, path) {
			return true
		}
	}
	return false
}

func matches(pattern, path string) bool {
	if below, ok := strings.CutSuffix(pattern, "/..."); ok {
		return path == below || strings.HasPrefix(path, below+"/")
	}
	return pattern == path
}

// class is the letter of a package in the design: I, P, T, A, S or nothing.
func class(path string) string {
	switch {
	case in(pure, path):
		return "P"
	case in(waiting, path):
		return "T"
	case in(contracts, path):
		return "I"
	case in(adapters, path):
		return "A"
	case in(simulation, path):
		return "S"
	}
	return ""
}

// importProblem says why the package (without the module) must not import another, or "".
func importProblem(from, to string) string {
	if _, ok := importExceptions[from+" "+to]; ok {
		return ""
	}
	for _, f := range forbidden {
		if matches(f.from, from) && matches(f.to, to) {
			return "must never import " + to + ": " + f.instead
		}
	}
	ours, internal := strings.CutPrefix(to, "seedlog/")
	c := class(from)
	if internal {
		return internalProblem(from, c, ours)
	}
	if c != "P" && c != "T" || in(std, to) || thirdParty(to) {
		return ""
	}
	return "imports " + to + ", which is not on the allow-list; instead: " + replacement(to)
}

func internalProblem(from, c, to string) string {
	switch theirs := class(to); {
	case strings.HasPrefix(from+"/", "checker/") && !strings.HasPrefix(to+"/", "checker/"):
		return "a checker imports nothing else of ours: it parses bytes with its own reader"
	case c == "P" && to != "clock" && theirs != "P":
		return "a pure package must not import " + to + ": take it as an argument, or return what is to be done"
	case c == "T" && theirs != "P" && theirs != "T" && theirs != "I":
		return "a task package must not import " + to + ": it comes in through node.Host"
	case c == "S" && theirs == "A":
		return "the simulation must not import the adapter " + to + ": use its simulated counterpart"
	}
	return ""
}

func thirdParty(path string) bool {
	for _, p := range third {
		if path == p || strings.HasPrefix(path, strings.TrimSuffix(p, "/")+"/") {
			return true
		}
	}
	return false
}

func replacement(name string) string {
	if r := instead[name]; r != "" {
		return r
	}
	if i := strings.LastIndexByte(name, '.'); i > 0 && !strings.Contains(name[i:], "/") {
		return "one of " + strings.Join(names[name[:i]], ", ")
	}
	return "what the package is given as an argument"
}
