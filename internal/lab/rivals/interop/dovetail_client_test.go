package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A dovetailClient is a client of this module.
type dovetailClient struct {
	*client.Session
	journal *journal
}

// connectDovetail connects a client of this module. pinned changes the version that it offers to
// servers of the legacy era.
func connectDovetail(ctx context.Context, t *testing.T, s *setup) (testClient, error) {
	g := &dovetailClient{journal: s.journal}
	opts := &client.Options{
		Info:  mcp.Implementation{Name: "client", Version: "1"},
		Era:   client.Legacy,
		Roots: g.roots, Sample: g.sample, Elicit: g.elicit(s),
		OnChange: g.changed,
	}
	if s.version >= modern {
		opts.Era = client.Modern
	}
	if s.version == auto {
		opts.Era = client.Auto
	}
	if s.level != "" {
		opts.LogLevel, opts.OnLog = mcp.LoggingLevel(s.level), g.logged
	}
	session, err := client.Connect(ctx, dialerOf(s), opts)
	if err != nil {
		return nil, err
	}
	g.Session = session
	return g, nil
}

func dialerOf(s *setup) transport.Dialer {
	web := pinned(s.http, s.version)
	if s.transport == "sse" {
		return sse.Dial(s.url, &sse.DialOptions{HTTPClient: web})
	}
	return streamable.Dial(s.url, &streamable.DialOptions{HTTPClient: web})
}

func (g *dovetailClient) spoken() string     { return string(g.Version()) }
func (g *dovetailClient) serverName() string { return g.Server().Name }

func (g *dovetailClient) list(ctx context.Context, kind string) ([]string, error) {
	switch kind {
	case "tools":
		return names(g.Tools(ctx, nil), func(tool *mcp.Tool) string { return tool.Name })
	case "resources":
		return names(g.Resources(ctx, nil), func(resource *mcp.Resource) string { return resource.URI })
	case "templates":
		return names(g.Templates(ctx, nil), func(template *mcp.ResourceTemplate) string { return template.URITemplate })
	}
	return names(g.Prompts(ctx, nil), func(prompt *mcp.Prompt) string { return prompt.Name })
}

func (g *dovetailClient) call(ctx context.Context, tool string, arguments map[string]any) (*answer, error) {
	result, err := g.CallTool(ctx, tool, arguments, &client.CallOptions{Progress: func(p *mcp.ProgressParams) {
		g.journal.write("progress %v/%v %s", p.Progress, *p.Total, p.Message)
	}})
	if err != nil {
		return nil, err
	}
	answer := &answer{failed: result.IsError, structured: string(result.StructuredContent)}
	for _, block := range result.Content {
		answer.content = append(answer.content, dovetailLine(block))
	}
	return answer, nil
}

func dovetailLine(block mcp.Content) string {
	switch block := block.(type) {
	case *mcp.TextContent:
		return block.Text
	case *mcp.ImageContent:
		return fmt.Sprint(block.MIMEType, " ", len(block.Data))
	case *mcp.EmbeddedResource:
		return dovetailContents(block.Resource)
	}
	return fmt.Sprintf("%T", block)
}

func dovetailContents(contents mcp.ResourceContents) string {
	switch contents := contents.(type) {
	case *mcp.TextResourceContents:
		return contents.URI + " " + contents.MIMEType + " " + contents.Text
	case *mcp.BlobResourceContents:
		return fmt.Sprint(contents.URI, " ", contents.MIMEType, " ", len(contents.Blob))
	}
	return fmt.Sprintf("%T", contents)
}

func (g *dovetailClient) read(ctx context.Context, uri string) ([]string, error) {
	result, err := g.ReadResource(ctx, uri, nil)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, contents := range result.Contents {
		lines = append(lines, dovetailContents(contents))
	}
	return lines, nil
}

func (g *dovetailClient) prompt(ctx context.Context, name string, arguments map[string]string) (string, error) {
	result, err := g.GetPrompt(ctx, name, arguments, nil)
	if err != nil {
		return "", err
	}
	return string(result.Messages[0].Role) + ": " + dovetailLine(result.Messages[0].Content), nil
}

func (g *dovetailClient) complete(ctx context.Context, prompt, template, argument, typed string) ([]string, error) {
	complete := g.CompletePrompt
	name := prompt
	if template != "" {
		complete, name = g.CompleteTemplate, template
	}
	values, err := complete(ctx, name, argument, typed, nil, nil)
	if err != nil {
		return nil, err
	}
	return values.Values, nil
}

func (g *dovetailClient) watch(ctx context.Context, uri string) error {
	subscription, err := g.Subscribe(ctx, mcp.SubscriptionFilter{ToolsListChanged: true, ResourceSubscriptions: []string{uri}})
	if err != nil {
		return err
	}
	agreed := subscription.Agreed()
	if !agreed.ToolsListChanged || len(agreed.ResourceSubscriptions) != 1 {
		return fmt.Errorf("agreed to %+v only", agreed)
	}
	return nil
}

func (g *dovetailClient) ping(ctx context.Context) error { return g.Ping(ctx) }
func (g *dovetailClient) close() error                   { return g.Close() }

func (g *dovetailClient) code(err error) int {
	said, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok {
		return 0
	}
	return int(said.Code)
}

func (g *dovetailClient) elicit(s *setup) func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	return func(_ context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		g.journal.write("asked person %s", params.Message)
		action, content := s.person(params.Message)
		if content == nil {
			return &mcp.ElicitResult{Action: mcp.ElicitAction(action)}, nil
		}
		encoded, err := json.Marshal(content)
		return &mcp.ElicitResult{Action: mcp.ElicitAction(action), Content: encoded}, err
	}
}

func (g *dovetailClient) sample(_ context.Context, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
	g.journal.write("asked model %s", dovetailLine(params.Messages[0].Content[0]))
	return &mcp.CreateMessageResult{
		Role: mcp.RoleAssistant, Content: mcp.SamplingContent{mcp.Text(model)}, Model: "test",
	}, nil
}

func (g *dovetailClient) roots(context.Context) ([]mcp.Root, error) {
	g.journal.write("asked roots")
	return []mcp.Root{{URI: root}}, nil
}

func (g *dovetailClient) changed(_ context.Context, change mcp.Change) {
	switch change.Kind {
	case mcp.KindTool:
		g.journal.write("changed tools")
	case mcp.KindResource:
		g.journal.write("changed %s", change.URI)
	}
}

func (g *dovetailClient) logged(_ context.Context, message *mcp.LoggingMessageParams) {
	g.journal.write("log %s %s %s", message.Level, message.Logger, message.Data)
}
