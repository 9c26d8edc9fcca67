// Gateway puts the servers of a configuration, such as editors and chat programs have,
// behind one address, a policy before them, and a person behind the policy:
//
//	go run ./examples/gateway -config mcp.json -addr 127.0.0.1:8900
//
// Clients come by MCP at /mcp, as sandboxed code does by POST /run and by the proxy routes
// under /api/v1/mcp/proxy, or by plain HTTP under /api/v1/rest. Whichever way a call
// comes, the same policy decides about it, the same person is asked, and the same log and
// journal have it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/dovetail-go/dovetail/approval"
)

// options are the flags.
type options struct {
	config  string
	address string
	policy  string
	trust   string
	approve string
	expiry  time.Duration
	token   string
	open    bool
	launch  bool
	journal string
	verify  string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = run(ctx, o, os.Stdin, os.Stderr)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func parse(args []string, said io.Writer) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("gateway", flag.ContinueOnError)
	flags.SetOutput(said)
	flags.StringVar(&o.config, "config", "mcp.json", "the `file` that names the servers")
	flags.StringVar(&o.address, "addr", "127.0.0.1:8900", "the `address` to serve at; port 0 takes a free one")
	flags.StringVar(&o.policy, "policy", "", "the `file` that says what is allowed, asked and denied; without one, all tools are asked about that are not read-only")
	flags.StringVar(&o.trust, "trust", "", "the `servers`, with commas between, whose word is taken for what their tools do; * for all")
	flags.StringVar(&o.approve, "approve", "page", "who is asked: "+strings.Join(modes, ", "))
	flags.DurationVar(&o.expiry, "expiry", approval.DefaultExpiry, "how long a call waits to be approved")
	flags.StringVar(&o.token, "token", "", "what callers must show, at least 16 characters; by default it is random, and printed")
	flags.BoolVar(&o.open, "open", false, "serve callers without a token, at a loopback address only")
	flags.BoolVar(&o.launch, "launch", false, "let callers of /run name the program that is to be started: they can then start any")
	flags.StringVar(&o.journal, "journal", "", "the `file` that keeps what was asked, decided and done")
	flags.StringVar(&o.verify, "verify", "", "check this journal, and serve nothing")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	switch {
	case flags.NArg() > 0:
		return nil, fmt.Errorf("expected flags only, found %q", flags.Arg(0))
	case o.open && o.token != "":
		return nil, errors.New("-open serves without a token: leave out -token")
	case o.expiry <= 0:
		return nil, errors.New("-expiry: expected a positive duration")
	}
	return o, nil
}
