package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// clientFlags are what every verb that talks to a cluster takes.
type clientFlags struct {
	brokers []string
	format  string
}

func (f *clientFlags) register(c *cobra.Command) {
	c.Flags().StringSliceVarP(&f.brokers, "bootstrap-server", "b", []string{"127.0.0.1:9092"}, "brokers to connect to, host:port,...")
	c.Flags().StringVar(&f.format, "format", "text", "output: text or json")
}

func (f *clientFlags) json() (bool, error) {
	switch f.format {
	case "json":
		return true, nil
	case "text":
		return false, nil
	}
	return false, usagef("--format is %q: use text or json", f.format)
}

// client opens a client; the caller closes it. A connection that ends at once is a node that
// ended, and no login that is missing: there is none.
func (f *clientFlags) client(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(f.brokers...), kgo.ClientID("seedlog"), kgo.AlwaysRetryEOF()}, opts...)...)
}

// admin opens an administrative client and runs fn with it.
func (f *clientFlags) admin(c *cobra.Command, fn func(ctx context.Context, a *kadm.Client) error) error {
	return f.connect(c, func(ctx context.Context, cl *kgo.Client) error { return fn(ctx, kadm.NewClient(cl)) })
}

// connect opens a client and runs fn with it.
func (f *clientFlags) connect(c *cobra.Command, fn func(ctx context.Context, cl *kgo.Client) error) error {
	if _, err := f.json(); err != nil {
		return err // before anything is changed that could not be printed then
	}
	cl, err := f.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, stop := signalContext(c.Context())
	defer stop()
	return explain(fn(ctx, cl), f.brokers)
}

// explain adds what to do to an error that says only what failed.
func explain(err error, brokers []string) error {
	switch {
	case err == nil || !strings.Contains(err.Error(), "connection refused"):
		return err
	case slices.ContainsFunc(brokers, answers):
		return fmt.Errorf("a broker of this cluster is down or restarting; others take over in seconds, try again: %w", err)
	}
	return fmt.Errorf("no broker answers at %s: start one with `seedlog start`, or name yours with -b", strings.Join(brokers, ","))
}

// answers reports whether something accepts connections at an address.
func answers(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

func signalContext(parent context.Context) (context.Context, context.CancelFunc) {
	if parent == nil {
		parent = context.Background()
	}
	return signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM)
}

// tell prints v for a program, or the sentence.
func (f *clientFlags) tell(c *cobra.Command, v any, sentence string, args ...any) error {
	if asJSON, err := f.json(); err != nil || asJSON {
		return errors.Join(err, printJSON(c.OutOrStdout(), v))
	}
	_, err := fmt.Fprintf(c.OutOrStdout(), sentence, args...)
	return err
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// topicArg takes the topic from the argument or from --topic, as Kafka's tools spell it.
func topicArg(args []string, flag string) (string, error) {
	switch {
	case len(args) == 1 && flag == "":
		return args[0], nil
	case len(args) == 0 && flag != "":
		return flag, nil
	case len(args) == 0:
		return "", usagef("name a topic")
	}
	return "", usagef("name the topic once, as the argument or with --topic")
}
