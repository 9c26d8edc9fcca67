package main

import (
	"context"
	"fmt"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// alias is what a bridge calls the server.
const alias = "a"

// dovetailClient is what a client does by way of dialer.
func dovetailClient(ctx context.Context, dialer transport.Dialer, w Work, closing *closers) (func(context.Context) error, error) {
	opts := &client.Options{Info: mcp.Implementation{Name: "bench", Version: "1"}, Era: dovetailEra(w.Era)}
	if w.Kind == Session {
		return dovetailSession(dialer, opts, w), nil
	}
	session, err := client.Connect(ctx, dialer, opts)
	if err != nil {
		return nil, err
	}
	closing.add(session.Close)
	if got := session.Version(); string(got) != string(w.Era) {
		return nil, fmt.Errorf("the session speaks %s, want %s", got, w.Era)
	}
	switch w.Kind {
	case Call:
		return dovetailCall(session, w), nil
	case List:
		return dovetailList(session, w), nil
	case Progress:
		return dovetailProgress(session, w), nil
	}
	return nil, errAbsent
}

func dovetailCall(session *client.Session, w Work) func(context.Context) error {
	e := newEcho(w)
	if w.Raw {
		return func(ctx context.Context) error {
			result, err := session.CallTool(ctx, echoTool, e.json, nil)
			if err != nil {
				return err
			}
			return e.checkAny(result.StructuredContent)
		}
	}
	tool := echoTool
	if w.Way == Bridged {
		tool = bridge.Name(alias, tool)
	}
	return func(ctx context.Context) error {
		got, err := client.CallAs[Echo](ctx, session, tool, e.in, nil)
		if err != nil {
			return err
		}
		return e.check(got)
	}
}

// dovetailList has nothing to switch off: what a server does not allow to keep is not
// kept, and by default it does not.
func dovetailList(session *client.Session, w Work) func(context.Context) error {
	c := newCatalogue(w)
	return func(ctx context.Context) error {
		tools := make([]*mcp.Tool, 0, w.Tools)
		for tool, err := range session.Tools(ctx, nil) {
			if err != nil {
				return err
			}
			tools = append(tools, tool)
		}
		return c.check(len(tools), func(i int) (string, bool) { return tools[i].Name, len(tools[i].InputSchema) > 2 })
	}
}

func dovetailProgress(session *client.Session, w Work) func(context.Context) error {
	return func(ctx context.Context) error {
		t := newTally(w)
		result, err := session.CallTool(ctx, countTool, nil, &client.CallOptions{
			Progress: func(p *mcp.ProgressParams) { t.add(p.Progress) },
		})
		if err != nil {
			return err
		}
		if text, ok := result.Content[0].(*mcp.TextContent); !ok || text.Text != counted {
			return fmt.Errorf("count said %v", result.Content)
		}
		return t.now()
	}
}

func dovetailSession(dialer transport.Dialer, opts *client.Options, w Work) func(context.Context) error {
	return func(ctx context.Context) error {
		session, err := client.Connect(ctx, dialer, opts)
		if err != nil {
			return err
		}
		call := dovetailCall(session, w)
		for range w.Units {
			if err := call(ctx); err != nil {
				session.Close()
				return err
			}
		}
		return session.Close()
	}
}
