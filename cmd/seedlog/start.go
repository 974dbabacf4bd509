package main

import (
	"crypto/rand"
	"fmt"
	"hash/fnv"
	"log/slog"
	mathrand "math/rand/v2"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"seedlog/clock/live"
	"seedlog/clock/task"
	"seedlog/disk/osfs"
	"seedlog/net/tcp"
	"seedlog/node"
	"seedlog/node/config"
)

// quickStart is what a node without a file runs with: one machine, one copy of everything.
var quickStart = map[string]string{
	"listeners":                        "PLAINTEXT://127.0.0.1:9092",
	"offsets.topic.replication.factor": "1",
	"group.initial.rebalance.delay.ms": "0",
}

// gcPercent trades memory for processor time: an idle broker's heap is a few megabytes, so
// doubling it before each collection costs nothing that counts.
const gcPercent = 200

type startFlags struct {
	nodeFlags
	verbose bool
}

// nodeFlags choose a node's settings.
type nodeFlags struct {
	file, dataDir, listen string
	set                   []string
}

func (f *nodeFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.file, "config", "", "properties file, in Kafka's names")
	c.Flags().StringVar(&f.dataDir, "data-dir", "", "directory of the data (log.dirs)")
	c.Flags().StringVar(&f.listen, "listen", "", "host:port to listen on (listeners)")
	c.Flags().StringArrayVar(&f.set, "set", nil, "a setting, name=value; may be repeated")
}

// properties joins the quick-start values or the file with the flags.
func (f *nodeFlags) properties() (map[string]string, error) {
	props := make(map[string]string)
	if f.file == "" {
		for k, v := range quickStart {
			props[k] = v
		}
	} else {
		text, err := os.ReadFile(f.file)
		if err != nil {
			return nil, err
		}
		if props, err = config.ParseProperties(string(text)); err != nil {
			return nil, fmt.Errorf("%s: %w", f.file, err)
		}
	}
	if f.dataDir != "" {
		props["log.dirs"] = f.dataDir
	}
	if f.listen != "" {
		props["listeners"] = "PLAINTEXT://" + f.listen
	}
	for _, kv := range f.set {
		k, v, ok := strings.Cut(kv, "=")
		if !ok {
			return nil, usagef("--set %q: write name=value", kv)
		}
		props[strings.TrimSpace(k)] = v
	}
	return props, nil
}

func startCommand() *cobra.Command {
	var f startFlags
	c := &cobra.Command{
		Use:   "start",
		Short: "Run a broker",
		Long: `Run a broker.

Without --config it is one node on 127.0.0.1:9092 with its data in ./seedlog-data, which is
formatted on the first start. With --config the directories must have been formatted with
"seedlog storage format": an unmounted disk must not become an empty voter.`,
		Example: "  seedlog start\n  seedlog start --listen 127.0.0.1:9999 --data-dir /tmp/seedlog --set num.partitions=3",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return f.run() },
	}
	f.register(c)
	c.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "log what happens in detail")
	return c
}

func (f *startFlags) run() error {
	props, err := f.properties()
	if err != nil {
		return err
	}
	cfg, unknown, err := config.Parse(props)
	if err != nil {
		return err
	}
	level := slog.LevelInfo
	if f.verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	for _, name := range unknown {
		log.Warn("unknown setting, ignored", "name", name)
	}
	debug.SetGCPercent(gcPercent)
	raiseDescriptors(log)

	rt := live.New(live.Options{})
	host := liveHost(rt, logSink{log})
	// An unmounted disk must not become an empty voter: only a node without a file formats.
	host.Format = f.file == ""
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	live.Main(rt, func(t *task.T) {
		n := node.New(host, *cfg)
		go stopOn(signals, n, log)
		err = n.Run(t)
	})
	return err
}

// stopOn stops the node on the first signal and ends the process on the second.
func stopOn(signals <-chan os.Signal, n *node.Node, log *slog.Logger) {
	s := <-signals
	log.Info("stopping", "signal", s.String())
	n.Stop()
	<-signals
	log.Error("stopped at once; the next start will recover")
	os.Exit(130)
}

// liveHost is this machine.
func liveHost(rt *live.Runtime, sink logSink) node.Host {
	return node.Host{
		RT:   rt,
		Disk: osfs.New(osfs.Options{}),
		Net:  tcp.New(tcp.Config{}),
		Rand: func(name string) *mathrand.Rand {
			h := fnv.New64a()
			h.Write([]byte(name))
			var seed [8]byte
			entropy(seed[:])
			var s uint64
			for _, b := range seed {
				s = s<<8 | uint64(b)
			}
			return mathrand.New(mathrand.NewPCG(s, h.Sum64()))
		},
		Entropy: entropy,
		Events:  sink,
	}
}

func entropy(b []byte) {
	if _, err := rand.Read(b); err != nil {
		panic(err) // crypto/rand.Read never fails on Linux
	}
}

// raiseDescriptors lifts the soft limit of open files to the hard one, for partitions and
// connections cost descriptors.
func raiseDescriptors(log *slog.Logger) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil || l.Cur >= l.Max {
		return
	}
	l.Cur = l.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		log.Warn("cannot raise the limit of open files", "limit", strconv.FormatUint(l.Max, 10), "error", err)
	}
}
