package main

import (
	"context"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

var relayCommand = &subcommand{
	name: "relay", args: "[FLAGS] TARGET", short: "serve one server, such as one at a URL, on standard input and output",
	long: "Messages pass unchanged. It is for clients that only start programs.\n" + targetHelp,
	run: func(ctx context.Context, env *environment, sub *subcommand, line []string) error {
		c := &command{}
		flags := newFlags(sub, env.stderr)
		c.targetFlags(flags.FlagSet, 30*time.Second)
		return c.relay(ctx, env, flags, line, nil)
	},
}

// relay relays the messages of standard input and output to the target. trace is called for each
// message of the client, and may be nil.
func (c *command) relay(ctx context.Context, env *environment, flags *flagSet, line []string, trace func(sent bool, frame []byte)) error {
	args, child, err := flags.parse(line)
	if err != nil {
		return err
	}
	if args, err = c.target.take(args, child); err != nil {
		return err
	}
	if len(args) > 0 {
		return c.target.unused(args, flags.usage())
	}
	if err := c.target.logIn(ctx, env.stderr); err != nil {
		return err
	}
	dialer, several, err := c.dialer(ctx, env.stderr)
	if err != nil {
		return err
	}
	defer several.close()
	relay := bridge.Relay(dialer, &bridge.RelayOptions{ConnectTimeout: c.timeout})
	defer relay.Close()
	opts := &stdio.ServeOptions{}
	opts.Conn.Trace = trace
	return stdio.Serve(ctx, relay, opts)
}
