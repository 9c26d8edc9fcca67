package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// dovetail is this library.
type dovetail struct{}

func (dovetail) Name() string { return ours }

func (dovetail) Open(ctx context.Context, w Work) (Rig, error) {
	var closing closers
	dialer, tool, err := dovetailPath(ctx, w, &closing)
	if err != nil {
		return nil, closing.after(err)
	}
	c := &dovetailClient{w, newEcho(w), newToolNames(w), tool}
	if w.Kind == Start {
		return &rig{func(ctx context.Context) error { return c.visit(ctx, dialer) }, closing}, nil
	}
	session, err := c.connect(ctx, dialer)
	if err != nil {
		return nil, closing.after(err)
	}
	closing.add(session.Close)
	return &rig{func(ctx context.Context) error { return c.work(ctx, session) }, closing}, nil
}

func (dovetail) Serve(ctx context.Context, w Work) error {
	return stdio.Serve(ctx, newDovetailServer(w), nil)
}

func (dovetail) Handler(w Work) (http.Handler, func() error, error) {
	if w.Transport != Streamable {
		return nil, nil, errAbsent
	}
	s := newDovetailServer(w)
	limits := transport.Limits{Subscriptions: transport.Limits{}.WithDefaults().Sessions} // idle streams have one client
	endpoint := streamable.Handler(s, &streamable.Options{Limits: limits})
	closing := closers{func() error { return s.Shutdown(context.Background()) }, endpoint.Close}
	return endpoint, closing.close, nil
}

func (dovetail) Register(w Work) (any, error) { return newDovetailServer(w), nil }

// newDovetailServer returns a server with w.Tools tools, and with count or echo unless they are all.
func newDovetailServer(w Work) *server.Server {
	s := server.New(mcp.Implementation{Name: "bench", Version: "1"}, &server.Options{Logger: slog.New(slog.DiscardHandler)})
	switch w.Kind {
	case List, Register:
	case Progress:
		addDovetailCount(s, w)
	default:
		addEcho(s)
	}
	for i, add := range toolsDovetail()[:w.Tools] {
		add(s, toolName(i))
	}
	return s
}

func addEcho(s *server.Server) {
	server.AddTool(s, server.Tool{Name: echoTool}, func(_ context.Context, _ *server.Request, in Echo) (Echo, error) { return in, nil })
}

// addDovetail adds a tool that returns its arguments.
func addDovetail[T any](s *server.Server, name string) {
	server.AddTool(s, server.Tool{Name: name, Description: toolDescription},
		func(_ context.Context, _ *server.Request, in T) (T, error) { return in, nil })
}

func addDovetailCount(s *server.Server, w Work) {
	server.AddTool(s, server.Tool{Name: countTool}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		for i := range w.Units {
			if err := r.Progress(ctx, float64(i+1), float64(w.Units), ""); err != nil {
				return "", err
			}
		}
		return counted, nil
	})
}

// dovetailPath returns a dialer for the path of w, and the name that echo has there.
func dovetailPath(ctx context.Context, w Work, closing *closers) (dialer transport.Dialer, tool string, err error) {
	if w.Path == Direct {
		dialer, err := dovetailDialer(newDovetailServer(w), w, closing)
		return dialer, echoTool, err
	}
	var (
		quiet   = slog.New(slog.DiscardHandler)
		opts    = bridge.ProxyOptions{Era: dovetailEra(w.Era), Logger: quiet}
		front   = server.New(mcp.Implementation{Name: "front", Version: "1"}, nil)
		configs []bridge.Config
	)
	for i := range w.Upstreams {
		upstream, err := dovetailDialer(newDovetailServer(w), w, closing)
		if err != nil {
			return nil, "", err
		}
		alias := fmt.Sprintf("server%d", i)
		configs = append(configs, bridge.Config{Alias: alias, Dialer: upstream, Required: true, ProxyOptions: opts})
		tool = bridge.Name(alias, echoTool)
		if w.Path == Proxied {
			if err := front.Mount(bridge.Proxy(upstream, &opts), &server.MountOptions{Prefix: alias + "_"}); err != nil {
				return nil, "", err
			}
			tool = alias + "_" + echoTool
		}
	}
	if w.Path == Bridged {
		b, err := bridge.New(&bridge.Options{Logger: quiet}, configs...)
		if err != nil {
			return nil, "", err
		}
		if err := front.Mount(b, nil); err != nil {
			return nil, "", err
		}
	}
	if err := front.Start(ctx); err != nil {
		return nil, "", err
	}
	closing.add(func() error { return front.Shutdown(context.Background()) })
	dialer, err = dovetailDialer(front, w, closing)
	return dialer, tool, err
}

// dovetailDialer serves s over the transport of w.
func dovetailDialer(s *server.Server, w Work, closing *closers) (transport.Dialer, error) {
	switch w.Transport {
	case Pipe:
		return transport.Pipe(s), nil
	case Stdio:
		cmd, err := child(context.Background(), serveTask, ours, w)
		if err != nil {
			return nil, err
		}
		return stdio.Command(cmd.Path, cmd.Args[1:], &stdio.CommandOptions{Env: cmd.Env}), nil
	case Streamable:
		endpoint := streamable.Handler(s, nil)
		url, err := closing.serve(endpoint, endpoint.Close)
		return streamable.Dial(url, nil), err
	}
	return nil, errAbsent
}

func dovetailEra(era Era) client.Era {
	if era == Modern {
		return client.Modern
	}
	return client.Legacy
}

type dovetailClient struct {
	w     Work
	echo  *echo
	tools toolNames
	tool  string // the name of echo
}

// connect opens a session in the era of the work.
func (c *dovetailClient) connect(ctx context.Context, dialer transport.Dialer) (*client.Session, error) {
	session, err := client.Connect(ctx, dialer, &client.Options{Info: mcp.Implementation{Name: "bench", Version: "1"}, Era: dovetailEra(c.w.Era)})
	if err != nil {
		return nil, err
	}
	if version := session.Version(); string(version) != string(c.w.Era) {
		session.Close()
		return nil, fmt.Errorf("the session has version %s, want %s", version, c.w.Era)
	}
	return session, nil
}

// visit opens a session, calls echo and closes the session.
func (c *dovetailClient) visit(ctx context.Context, dialer transport.Dialer) error {
	session, err := c.connect(ctx, dialer)
	if err != nil {
		return err
	}
	if err := c.call(ctx, session); err != nil {
		session.Close()
		return err
	}
	return session.Close()
}

// work does one operation in a session.
func (c *dovetailClient) work(ctx context.Context, session *client.Session) error {
	switch c.w.Kind {
	case List:
		return c.list(ctx, session)
	case Progress:
		return c.count(ctx, session)
	}
	return c.call(ctx, session)
}

func (c *dovetailClient) call(ctx context.Context, session *client.Session) error {
	got, err := client.CallAs[Echo](ctx, session, c.tool, c.echo.in, nil)
	if err != nil {
		return err
	}
	return c.echo.check(got)
}

// list asks the server each time: the client caches only what the server allows, and by default it allows
// nothing.
func (c *dovetailClient) list(ctx context.Context, session *client.Session) error {
	tools := make([]*mcp.Tool, 0, c.w.Tools)
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			return err
		}
		tools = append(tools, tool)
	}
	return c.tools.check(len(tools), func(i int) (string, bool) { return tools[i].Name, len(tools[i].InputSchema) > 2 })
}

func (c *dovetailClient) count(ctx context.Context, session *client.Session) error {
	t := newTally(c.w)
	result, err := session.CallTool(ctx, countTool, nil, &client.CallOptions{
		Progress: func(p *mcp.ProgressParams) { t.add(p.Progress) },
	})
	if err != nil {
		return err
	}
	if text, ok := result.Content[0].(*mcp.TextContent); !ok || text.Text != counted {
		return fmt.Errorf("count returned %v", result.Content)
	}
	return t.now()
}
