// Command seedlog is the broker and its command line.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func main() {
	root := &cobra.Command{
		Use:   "seedlog",
		Short: "A Kafka-compatible broker in which every failure replays from a seed",
		Long: `Seedlog is a Kafka-compatible broker in one static binary.

  seedlog start                               one node on 127.0.0.1:9092
  seedlog dev --nodes 3                       a cluster of three on this machine
  seedlog topic create orders -p 3            make a topic
  echo hello | seedlog produce orders         write
  seedlog consume orders -o start -e          read it back`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(startCommand(), devCommand(), storageCommand(), clusterCommand(), quorumCommand(), topicCommand(), produceCommand(), consumeCommand(), logCommand(), benchCommand(), versionCommand())
	// Whatever ends a command before it begins is a mistake in its words.
	began := false
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		err := c.ValidateFlagGroups()
		began = err == nil
		return err
	}
	if err := root.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "seedlog: "+err.Error())
		var usage *usageError
		if !began || errors.As(err, &usage) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

// family is a command that is nothing without one of those below it. Cobra prints the help for a
// word that none of them is called, and succeeds.
func family(use, short string, below ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, RunE: func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usagef("unknown command %q for %q", args[0], c.CommandPath())
		}
		return c.Help()
	}}
	c.AddCommand(below...)
	return c
}

// usageError is a mistake in the words of a command; it exits with 2.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}
