// Command campaign runs many seeds.
//
//	campaign run     -seeds A-B [-workers W] [-scenario NAME]   run, and report
//	campaign verify  -seeds A-B                                 run twice, and compare hashes
//	campaign mutants [-only NAMES]                              put bugs back, and see them caught
//	campaign real    -seed N -duration D [-nodes N]             the same against real processes
//	campaign real    -failover K                                how long failovers take
//	campaign scenarios                                          list the named scenarios
package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"

	"seedlog/scenarios"
)

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	var err error
	switch os.Args[1] {
	case "run":
		err = runCommand(os.Args[2:])
	case "verify":
		err = verifyCommand(os.Args[2:])
	case "mutants":
		err = mutantsCommand(os.Args[2:])
	case "real":
		err = realCommand(os.Args[2:])
	case "worker":
		err = workerCommand(os.Args[2:])
	case "scenarios":
		for _, s := range scenarios.All() {
			fmt.Printf("%-28s %s\n", s.Name, s.Doc)
		}
	default:
		usage()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "campaign: "+err.Error())
		os.Exit(1)
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, `usage:
  campaign run       -seeds A-B [-workers W] [-scenario NAME] [-ops N]
  campaign verify    -seeds A-B [-scenario NAME] [-ops N]
  campaign mutants   [-only NAMES] [-budget SECONDS] [-workers W] [-pick N -salt TEXT] [-compile] [-dir PATH]
  campaign real      -seed N -duration D [-nodes N] [-network auto|namespaces|relay] [-binary PATH] [-dir PATH] [-v]
  campaign real      -failover K [-nodes N] [-binary PATH]
  campaign scenarios`)
	os.Exit(2)
}

// parseFlags parses the flags of a command that takes no other words.
func parseFlags(f *flag.FlagSet, args []string) error {
	_ = f.Parse(args)
	if f.NArg() > 0 {
		return fmt.Errorf("%s takes no %q", f.Name(), f.Arg(0))
	}
	return nil
}

// parseSeeds reads "A-B", both included, or "A".
func parseSeeds(s string) (lo, hi uint64, err error) {
	a, b, ok := strings.Cut(s, "-")
	if lo, err = strconv.ParseUint(a, 10, 64); err != nil {
		return 0, 0, fmt.Errorf("-seeds %q: write A-B", s)
	}
	if !ok {
		return lo, lo, nil
	}
	if hi, err = strconv.ParseUint(b, 10, 64); err != nil || hi < lo {
		return 0, 0, fmt.Errorf("-seeds %q: write A-B with A not above B", s)
	}
	return lo, hi, nil
}
