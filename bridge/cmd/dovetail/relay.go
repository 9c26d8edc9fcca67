package main

import (
	"context"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

var relayCommand = &command{
	name: "relay", args: "[FLAGS] TARGET", short: "serve one server, such as one at a URL, on standard input and output",
	long: "Messages pass unchanged. It is for clients that only start programs.\n" + targetHelp,
	run: func(ctx context.Context, env *environment, sub *command, line []string) error {
		c := &invocation{}
		flags := newFlags(sub, env.stderr)
		c.targetFlags(flags.FlagSet, 30*time.Second)
		args, child, err := flags.parse(line)
		if err != nil {
			return err
		}
		dialer, several, err := c.soleTarget(ctx, env, flags, args, child)
		if err != nil {
			return err
		}
		defer several.close()
		return c.relay(ctx, dialer, nil)
	},
}

// soleTarget logs in, and returns a dialer for the target that all arguments name. The caller closes
// the servers.
func (c *invocation) soleTarget(ctx context.Context, env *environment, flags *flagSet, args, child []string) (transport.Dialer, *servers, error) {
	args, err := c.target.take(args, child)
	if err != nil {
		return nil, nil, err
	}
	if len(args) > 0 {
		return nil, nil, c.target.unused(args, flags.usage())
	}
	if err := c.target.logIn(ctx, env.stderr); err != nil {
		return nil, nil, err
	}
	return c.dialer(ctx, env.stderr)
}

// relay relays the messages of standard input and output to a server. trace is called for each
// message of the client, and may be nil.
func (c *invocation) relay(ctx context.Context, dialer transport.Dialer, trace func(conn string, sent bool, frame []byte)) error {
	relay := bridge.Relay(dialer, &bridge.RelayOptions{ConnectTimeout: c.timeout})
	defer relay.Close()
	opts := &stdio.ServeOptions{}
	opts.Conn.Trace = trace
	return stdio.Serve(ctx, relay, opts)
}
