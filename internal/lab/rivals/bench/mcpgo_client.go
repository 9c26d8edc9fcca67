package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	mcpgoclient "github.com/mark3labs/mcp-go/client"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
)

// An mcpGoClient does the work as a client of mcp-go.
type mcpGoClient struct {
	w         Work
	dial      mcpGoDial
	echo      *echo
	catalogue catalogue
	tokens    atomic.Int64
	tallies   sync.Map // of the calls of count in flight, by progress token
}

func newMCPGoClient(w Work, dial mcpGoDial) *mcpGoClient {
	return &mcpGoClient{w: w, dial: dial, echo: newEcho(w), catalogue: newCatalogue(w)}
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
		return nil, errors.Join(fmt.Errorf("the session is of %s, want %s", spoken, c.w.Era), session.Close())
	}
	return session, nil
}

// visit opens a session, calls echo and closes the session.
func (c *mcpGoClient) visit(ctx context.Context) error {
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
	if c.w.Raw {
		request.Params.Arguments = c.echo.json
	}
	result, err := session.CallTool(ctx, request)
	if err != nil {
		return err
	}
	if c.w.Raw {
		return c.echo.checkAny(result.RawStructuredContent)
	}
	return c.echo.checkAny(result.StructuredContent)
}

// list goes to the server each time: the client has no cache that would answer.
func (c *mcpGoClient) list(ctx context.Context, session *mcpgoclient.Client) error {
	result, err := session.ListTools(ctx, mcpgo.ListToolsRequest{})
	if err != nil {
		return err
	}
	return c.catalogue.check(len(result.Tools), func(i int) (string, bool) {
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
		return fmt.Errorf("count gave %+v", result.Content[0])
	}
	return tally.wait(ctx)
}

func (c *mcpGoClient) notified(n mcpgo.JSONRPCNotification) {
	progress, _ := n.Params.AdditionalFields["progress"].(float64)
	if found, ok := c.tallies.Load(n.Params.AdditionalFields["progressToken"]); ok {
		found.(*tally).add(progress)
	}
}
