package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A goSDKClient does the work as a client of the official SDK.
type goSDKClient struct {
	w         Work
	dial      goSDKDial
	client    *gosdk.Client
	echo      *echo
	catalogue catalogue
	tokens    atomic.Int64
	tallies   sync.Map // of the calls of count in flight, by progress token
}

func newGoSDKClient(w Work, dial goSDKDial) *goSDKClient {
	c := &goSDKClient{w: w, dial: dial, echo: newEcho(w), catalogue: newCatalogue(w)}
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
		return nil, errors.Join(fmt.Errorf("the session is of %s, want %s", spoken, c.w.Era), session.Close())
	}
	return session, nil
}

// visit opens a session, calls echo and closes the session.
func (c *goSDKClient) visit(ctx context.Context) error {
	session, err := c.connect(ctx)
	if err != nil {
		return err
	}
	for range c.w.Units {
		if err = c.call(ctx, session); err != nil {
			break
		}
	}
	return errors.Join(err, session.Close())
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
	params := &gosdk.CallToolParams{Name: echoTool, Arguments: c.echo.in}
	if c.w.Raw {
		params.Arguments = c.echo.json
	}
	result, err := session.CallTool(ctx, params)
	if err != nil {
		return err
	}
	return c.echo.checkAny(result.StructuredContent)
}

// list goes to the server each time: the client caches what the server says may be
// cached, and the SDK's server says so of nothing.
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
	return c.catalogue.check(len(tools), func(i int) (string, bool) {
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
		return fmt.Errorf("count gave %+v", result.Content[0])
	}
	return tally.wait(ctx)
}

func (c *goSDKClient) progress(_ context.Context, r *gosdk.ProgressNotificationClientRequest) {
	if found, ok := c.tallies.Load(r.Params.ProgressToken); ok {
		found.(*tally).add(r.Params.Progress)
	}
}
