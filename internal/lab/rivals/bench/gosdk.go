package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// goSDK is the official SDK for Go, github.com/modelcontextprotocol/go-sdk.
type goSDK struct{}

func (goSDK) Name() string { return "go-sdk" }

// Open connects over what the SDK's documentation names for each transport.
func (p goSDK) Open(ctx context.Context, w Work) (Rig, error) {
	if w.Path != Direct {
		return nil, errAbsent
	}
	var closing closers
	dial, err := p.listen(w, &closing)
	if err != nil {
		return nil, closing.after(err)
	}
	c := newGoSDKClient(w, dial)
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

// A goSDKDial makes a transport to the server, for one connection.
type goSDKDial func(ctx context.Context) (gosdk.Transport, error)

// listen starts a server over HTTP. A server over stdio is started by its client.
func (p goSDK) listen(w Work, closing *closers) (goSDKDial, error) {
	if w.Transport == Stdio {
		return func(ctx context.Context) (gosdk.Transport, error) {
			cmd, err := child(ctx, serveTask, p.Name(), w)
			return &gosdk.CommandTransport{Command: cmd}, err
		}, nil
	}
	handler, end, err := p.Handler(w)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{MaxIdleConnsPerHost: w.Callers}
	web := &http.Client{Transport: transport}
	closing.add(func() error { transport.CloseIdleConnections(); return nil })
	url, err := closing.serve(handler, end)
	if err != nil {
		return nil, err
	}
	return func(context.Context) (gosdk.Transport, error) {
		// The SDK recommends this where only requests and their responses are needed: it saves a stream per session.
		return &gosdk.StreamableClientTransport{Endpoint: url, HTTPClient: web, DisableStandaloneSSE: true}, nil
	}, nil
}

// Handler serves one era: the SDK's handler is stateless for the modern one, and has sessions for the legacy
// one. Where nothing precedes the response it is JSON, which is less work for both sides than a stream.
func (goSDK) Handler(w Work) (http.Handler, func() error, error) {
	if w.Transport != Streamable {
		return nil, nil, errAbsent
	}
	server := newGoSDKServer(w)
	return gosdk.NewStreamableHTTPHandler(func(*http.Request) *gosdk.Server { return server }, &gosdk.StreamableHTTPOptions{
		Stateless:    w.Era == Modern,
		JSONResponse: w.Kind != Progress && w.Kind != Idle,
	}), func() error { return closeGoSDK(server) }, nil
}

// closeGoSDK ends the sessions of a server, which cannot do so by itself.
func closeGoSDK(server *gosdk.Server) error {
	for _, session := range slices.Collect(server.Sessions()) {
		session.Close() // fails if the client has closed its side first
	}
	return nil
}

func (goSDK) Serve(ctx context.Context, w Work) error {
	return newGoSDKServer(w).Run(ctx, &gosdk.StdioTransport{})
}

// Register registers the tools. Nothing else is necessary before a server serves.
func (goSDK) Register(w Work) (any, error) { return newGoSDKServer(w), nil }

// newGoSDKServer returns a server with w.Tools tools, and with count or echo unless they are all. Typed tools
// validate arguments and results, and log nothing.
func newGoSDKServer(w Work) *gosdk.Server {
	s := gosdk.NewServer(&gosdk.Implementation{Name: "bench", Version: "1"}, nil)
	switch w.Kind {
	case List, Register:
	case Progress:
		addGoSDKCount(s, w)
	default:
		gosdk.AddTool(s, &gosdk.Tool{Name: echoTool}, echoGoSDK[Echo])
	}
	for i, add := range toolsGoSDK()[:w.Tools] {
		add(s, toolName(i))
	}
	return s
}

// addGoSDK adds a tool that returns its arguments.
func addGoSDK[T any](s *gosdk.Server, name string) {
	gosdk.AddTool(s, &gosdk.Tool{Name: name, Description: toolDescription}, echoGoSDK[T])
}

// echoGoSDK returns no text, because the SDK makes it of the structured content.
func echoGoSDK[T any](_ context.Context, _ *gosdk.CallToolRequest, in T) (*gosdk.CallToolResult, T, error) {
	return nil, in, nil
}

func addGoSDKCount(s *gosdk.Server, w Work) {
	gosdk.AddTool(s, &gosdk.Tool{Name: countTool},
		func(ctx context.Context, r *gosdk.CallToolRequest, _ struct{}) (*gosdk.CallToolResult, any, error) {
			token := r.Params.GetProgressToken()
			for i := range w.Units {
				if err := r.Session.NotifyProgress(ctx, &gosdk.ProgressNotificationParams{
					ProgressToken: token, Progress: float64(i + 1), Total: float64(w.Units),
				}); err != nil {
					return nil, nil, err
				}
			}
			return goSDKText(counted), nil, nil
		})
}

func goSDKText(text string) *gosdk.CallToolResult {
	return &gosdk.CallToolResult{Content: []gosdk.Content{&gosdk.TextContent{Text: text}}}
}

type goSDKClient struct {
	w       Work
	dial    goSDKDial
	client  *gosdk.Client
	echo    *echo
	tools   toolNames
	tokens  atomic.Int64
	tallies sync.Map // of the calls of count in flight, by progress token
}

func newGoSDKClient(w Work, dial goSDKDial) *goSDKClient {
	c := &goSDKClient{w: w, dial: dial, echo: newEcho(w), tools: newToolNames(w)}
	c.client = gosdk.NewClient(&gosdk.Implementation{Name: "bench", Version: "1"}, &gosdk.ClientOptions{
		ProgressNotificationHandler: c.progress,
	})
	return c
}

// connect opens a session in the era of the work.
func (c *goSDKClient) connect(ctx context.Context) (*gosdk.ClientSession, error) {
	transport, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	session, err := c.client.Connect(ctx, transport, &gosdk.ClientSessionOptions{ProtocolVersion: string(c.w.Era)})
	if err != nil {
		return nil, err
	}
	if spoken := session.InitializeResult().ProtocolVersion; spoken != string(c.w.Era) {
		return nil, errors.Join(fmt.Errorf("the session has version %s, want %s", spoken, c.w.Era), session.Close())
	}
	return session, nil
}

// visit opens a session, calls echo and closes the session.
func (c *goSDKClient) visit(ctx context.Context) error {
	session, err := c.connect(ctx)
	if err != nil {
		return err
	}
	return errors.Join(c.call(ctx, session), session.Close())
}

// work does one operation in a session.
func (c *goSDKClient) work(ctx context.Context, session *gosdk.ClientSession) error {
	switch c.w.Kind {
	case List:
		return c.list(ctx, session)
	case Progress:
		return c.count(ctx, session)
	}
	return c.call(ctx, session)
}

func (c *goSDKClient) call(ctx context.Context, session *gosdk.ClientSession) error {
	result, err := session.CallTool(ctx, &gosdk.CallToolParams{Name: echoTool, Arguments: c.echo.in})
	if err != nil {
		return err
	}
	return c.echo.check(result.StructuredContent)
}

// list asks the server each time: the client caches only what the server allows, and the SDK's server allows
// nothing.
func (c *goSDKClient) list(ctx context.Context, session *gosdk.ClientSession) error {
	var tools []*gosdk.Tool
	for params := (&gosdk.ListToolsParams{}); ; {
		page, err := session.ListTools(ctx, params)
		if err != nil {
			return err
		}
		tools = append(tools, page.Tools...)
		if page.NextCursor == "" {
			break
		}
		params = &gosdk.ListToolsParams{Cursor: page.NextCursor}
	}
	return c.tools.check(len(tools), func(i int) (string, bool) {
		return tools[i].Name, tools[i].InputSchema != nil
	})
}

func (c *goSDKClient) count(ctx context.Context, session *gosdk.ClientSession) error {
	token, tally := strconv.FormatInt(c.tokens.Add(1), 10), newTally(c.w)
	c.tallies.Store(token, tally)
	defer c.tallies.Delete(token)
	params := &gosdk.CallToolParams{Name: countTool, Meta: gosdk.Meta{}}
	params.SetProgressToken(token)
	result, err := session.CallTool(ctx, params)
	if err != nil {
		return err
	}
	if text, ok := result.Content[0].(*gosdk.TextContent); !ok || text.Text != counted {
		return fmt.Errorf("count returned %+v", result.Content[0])
	}
	return tally.wait(ctx)
}

func (c *goSDKClient) progress(_ context.Context, r *gosdk.ProgressNotificationClientRequest) {
	if found, ok := c.tallies.Load(r.Params.ProgressToken); ok {
		found.(*tally).add(r.Params.Progress)
	}
}
