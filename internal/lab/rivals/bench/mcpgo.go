package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	mcpgoclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
)

// mcpGo is github.com/mark3labs/mcp-go.
type mcpGo struct{}

func (mcpGo) Name() string { return "mcp-go" }

// Open connects over what the library's documentation names for each transport.
func (p mcpGo) Open(ctx context.Context, w Work) (Rig, error) {
	if w.Path != Direct {
		return nil, errAbsent
	}
	var closing closers
	dial, err := p.listen(w, &closing)
	if err != nil {
		return nil, closing.after(err)
	}
	c := newMCPGoClient(w, dial)
	if w.Kind == Start {
		return &rig{c.visit, closing}, nil
	}
	session, err := c.connect(ctx)
	if err != nil {
		return nil, closing.after(err)
	}
	closing.add(session.Close)
	return &rig{func(ctx context.Context) error { return c.work(ctx, session) }, closing}, nil
}

// An mcpGoDial makes a transport to the server, for one client.
type mcpGoDial func() (transport.Interface, error)

// listen starts a server over HTTP. A server over stdio is started by its client.
func (p mcpGo) listen(w Work, closing *closers) (mcpGoDial, error) {
	quiet := slog.New(slog.DiscardHandler)
	if w.Transport == Stdio {
		return func() (transport.Interface, error) {
			cmd, err := child(context.Background(), serveTask, p.Name(), w)
			if err != nil {
				return nil, err
			}
			return transport.NewStdioWithOptions(cmd.Path, cmd.Env, cmd.Args[1:], transport.WithCommandLogger(quiet)), nil
		}, nil
	}
	handler, end, err := p.Handler(w)
	if err != nil {
		return nil, err
	}
	carrier := &http.Transport{MaxIdleConnsPerHost: w.Callers}
	web := &http.Client{Transport: carrier}
	closing.add(func() error { carrier.CloseIdleConnections(); return nil })
	url, err := closing.serve(handler, end)
	if err != nil {
		return nil, err
	}
	return func() (transport.Interface, error) {
		return transport.NewStreamableHTTP(url, transport.WithHTTPBasicClient(web), transport.WithHTTPLogger(quiet))
	}, nil
}

// Handler serves both eras.
func (mcpGo) Handler(w Work) (http.Handler, func() error, error) {
	if w.Transport != Streamable {
		return nil, nil, errAbsent
	}
	h := mcpgoserver.NewStreamableHTTPServer(newMCPGoServer(w), mcpgoserver.WithStreamableHTTPLogger(slog.New(slog.DiscardHandler)))
	return h, func() error { h.CloseSessions(context.Background()); return nil }, nil
}

func (mcpGo) Serve(_ context.Context, w Work) error {
	quiet := mcpgoserver.WithErrorLogger(log.New(io.Discard, "", 0))
	return mcpgoserver.ServeStdio(newMCPGoServer(w), quiet)
}

// Register registers the tools. Nothing else is necessary before a server serves. The first call of a tool
// compiles its validator.
func (mcpGo) Register(w Work) (any, error) { return newMCPGoServer(w), nil }

// mcpGoPause is how long count waits before it looks at the channel of notifications again.
const mcpGoPause = 100 * time.Microsecond

// newMCPGoServer returns a server with w.Tools tools, and with count or echo unless they are all. An option lets
// it validate arguments, as the others always do. It does not validate results.
func newMCPGoServer(w Work) *mcpgoserver.MCPServer {
	s := mcpgoserver.NewMCPServer("bench", "1",
		mcpgoserver.WithToolCapabilities(true), mcpgoserver.WithInputSchemaValidation())
	switch w.Kind {
	case List, Register:
	case Progress:
		addMCPGoCount(s, w)
	default:
		s.AddTool(mcpGoTool[Echo](echoTool, ""), mcpgo.NewStructuredToolHandler(echoMCPGo[Echo]))
	}
	for i, add := range toolsMCPGo()[:w.Tools] {
		add(s, toolName(i))
	}
	return s
}

// addMCPGo adds a tool that returns its arguments, by a pointer: see types_generate.go.
func addMCPGo[T any](s *mcpgoserver.MCPServer, name string) {
	s.AddTool(mcpGoTool[T](name, toolDescription), mcpgo.NewStructuredToolHandler(echoMCPGo[*T]))
}

// mcpGoTool returns the definition of a tool whose arguments and result are a T.
func mcpGoTool[T any](name, description string) mcpgo.Tool {
	return mcpgo.NewTool(name, mcpgo.WithDescription(description), mcpgo.WithInputSchema[T](), mcpgo.WithOutputSchema[T]())
}

func echoMCPGo[T any](_ context.Context, _ mcpgo.CallToolRequest, in T) (T, error) { return in, nil }

// addMCPGoCount adds count. The server sends notifications through a channel of a hundred, and a response does not
// wait for them: count waits for room, and at the end for the channel to be empty. A notification that has been
// received from the channel but not yet written may still be lost.
func addMCPGoCount(s *mcpgoserver.MCPServer, w Work) {
	s.AddTool(mcpgo.NewTool(countTool), func(ctx context.Context, r mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		for i := range w.Units {
			if err := mcpGoNotify(ctx, s, map[string]any{
				"progressToken": r.Params.Meta.ProgressToken, "progress": i + 1, "total": w.Units,
			}); err != nil {
				return nil, err
			}
		}
		for waiting := mcpgoserver.ClientSessionFromContext(ctx).NotificationChannel(); len(waiting) > 0; {
			time.Sleep(mcpGoPause)
		}
		return mcpgo.NewToolResultText(counted), nil
	})
}

// mcpGoNotify sends a progress notification as soon as there is room for it.
func mcpGoNotify(ctx context.Context, s *mcpgoserver.MCPServer, params map[string]any) error {
	for {
		err := s.SendNotificationToClient(ctx, "notifications/progress", params)
		if !errors.Is(err, mcpgoserver.ErrNotificationChannelBlocked) || ctx.Err() != nil {
			return err
		}
		time.Sleep(mcpGoPause)
	}
}

type mcpGoClient struct {
	w       Work
	dial    mcpGoDial
	echo    *echo
	tools   toolNames
	tokens  atomic.Int64
	tallies sync.Map // of the calls of count in flight, by progress token
}

func newMCPGoClient(w Work, dial mcpGoDial) *mcpGoClient {
	return &mcpGoClient{w: w, dial: dial, echo: newEcho(w), tools: newToolNames(w)}
}

// connect opens a session in the era of the work.
func (c *mcpGoClient) connect(ctx context.Context) (*mcpgoclient.Client, error) {
	carrier, err := c.dial()
	if err != nil {
		return nil, err
	}
	session := mcpgoclient.NewClient(carrier, mcpgoclient.WithProtocolVersion(string(c.w.Era)))
	session.OnNotification(c.notified)
	if err := session.Start(ctx); err != nil {
		return nil, err
	}
	var request mcpgo.InitializeRequest
	request.Params.ClientInfo = mcpgo.Implementation{Name: "bench", Version: "1"}
	if _, err := session.Initialize(ctx, request); err != nil {
		return nil, errors.Join(err, session.Close())
	}
	if spoken := session.ProtocolVersion(); spoken != string(c.w.Era) {
		return nil, errors.Join(fmt.Errorf("the session has version %s, want %s", spoken, c.w.Era), session.Close())
	}
	return session, nil
}

// visit opens a session, calls echo and closes the session.
func (c *mcpGoClient) visit(ctx context.Context) error {
	session, err := c.connect(ctx)
	if err != nil {
		return err
	}
	return errors.Join(c.call(ctx, session), session.Close())
}

// work does one operation in a session.
func (c *mcpGoClient) work(ctx context.Context, session *mcpgoclient.Client) error {
	switch c.w.Kind {
	case List:
		return c.list(ctx, session)
	case Progress:
		return c.count(ctx, session)
	}
	return c.call(ctx, session)
}

func (c *mcpGoClient) call(ctx context.Context, session *mcpgoclient.Client) error {
	var request mcpgo.CallToolRequest
	request.Params.Name = echoTool
	request.Params.Arguments = c.echo.in
	result, err := session.CallTool(ctx, request)
	if err != nil {
		return err
	}
	return c.echo.check(result.StructuredContent)
}

// list asks the server each time: the client has no cache.
func (c *mcpGoClient) list(ctx context.Context, session *mcpgoclient.Client) error {
	result, err := session.ListTools(ctx, mcpgo.ListToolsRequest{})
	if err != nil {
		return err
	}
	return c.tools.check(len(result.Tools), func(i int) (string, bool) {
		return result.Tools[i].Name, len(result.Tools[i].InputSchema.Properties) > 0
	})
}

func (c *mcpGoClient) count(ctx context.Context, session *mcpgoclient.Client) error {
	token, tally := strconv.FormatInt(c.tokens.Add(1), 10), newTally(c.w)
	c.tallies.Store(token, tally)
	defer c.tallies.Delete(token)
	var request mcpgo.CallToolRequest
	request.Params.Name = countTool
	request.Params.Meta = &mcpgo.Meta{ProgressToken: token}
	result, err := session.CallTool(ctx, request)
	if err != nil {
		return err
	}
	if text, ok := result.Content[0].(mcpgo.TextContent); !ok || text.Text != counted {
		return fmt.Errorf("count returned %+v", result.Content[0])
	}
	return tally.wait(ctx)
}

func (c *mcpGoClient) notified(n mcpgo.JSONRPCNotification) {
	progress, _ := n.Params.AdditionalFields["progress"].(float64)
	if found, ok := c.tallies.Load(n.Params.AdditionalFields["progressToken"]); ok {
		found.(*tally).add(progress)
	}
}
