package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"

	gosdkjsonrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A gosdkClient is a client of the official Go SDK.
type gosdkClient struct {
	*gosdk.ClientSession
	setup  *setup
	tokens atomic.Int64
}

func connectGoSDK(ctx context.Context, t *testing.T, s *setup) (testClient, error) {
	g := &gosdkClient{setup: s}
	c := gosdk.NewClient(&gosdk.Implementation{Name: "client", Version: "1"}, &gosdk.ClientOptions{
		ElicitationHandler: g.elicit, CreateMessageHandler: g.sample,
		ToolListChangedHandler: func(context.Context, *gosdk.ToolListChangedRequest) {
			s.journal.write("changed tools")
		},
		ResourceUpdatedHandler: func(_ context.Context, r *gosdk.ResourceUpdatedNotificationRequest) {
			s.journal.write("changed %s", r.Params.URI)
		},
		ProgressNotificationHandler: func(_ context.Context, r *gosdk.ProgressNotificationClientRequest) {
			s.journal.write("progress %v/%v %s", r.Params.Progress, r.Params.Total, r.Params.Message)
		},
		LoggingMessageHandler: func(_ context.Context, r *gosdk.LoggingMessageRequest) {
			data, _ := json.Marshal(r.Params.Data)
			s.journal.write("log %s %s %s", r.Params.Level, r.Params.Logger, data)
		},
	})
	c.AddRoots(&gosdk.Root{URI: root})
	c.AddReceivingMiddleware(func(next gosdk.MethodHandler) gosdk.MethodHandler {
		return func(ctx context.Context, method string, r gosdk.Request) (gosdk.Result, error) {
			s.journal.write("received %s", method)
			if method == "roots/list" {
				s.journal.write("asked roots")
			}
			return next(ctx, method, r)
		}
	})
	var opts gosdk.ClientSessionOptions
	if s.version != auto {
		opts.ProtocolVersion = s.version
	}
	session, err := c.Connect(ctx, g.transport(), &opts)
	if err != nil {
		return nil, err
	}
	g.ClientSession = session
	if s.level != "" && g.spoken() < modern {
		return g, session.SetLoggingLevel(ctx, &gosdk.SetLoggingLevelParams{Level: gosdk.LoggingLevel(s.level)})
	}
	return g, nil
}

func (g *gosdkClient) transport() gosdk.Transport {
	if g.setup.transport == "sse" {
		return &gosdk.SSEClientTransport{Endpoint: g.setup.url, HTTPClient: g.setup.http}
	}
	return &gosdk.StreamableClientTransport{Endpoint: g.setup.url, HTTPClient: g.setup.http}
}

func (g *gosdkClient) spoken() string     { return g.InitializeResult().ProtocolVersion }
func (g *gosdkClient) serverName() string { return g.InitializeResult().ServerInfo.Name }

func (g *gosdkClient) list(ctx context.Context, kind string) ([]string, error) {
	switch kind {
	case "tools":
		return pointed(g.Tools(ctx, nil), func(tool *gosdk.Tool) string { return tool.Name })
	case "resources":
		return pointed(g.Resources(ctx, nil), func(resource *gosdk.Resource) string { return resource.URI })
	case "templates":
		return pointed(g.ResourceTemplates(ctx, nil), func(template *gosdk.ResourceTemplate) string { return template.URITemplate })
	}
	return pointed(g.Prompts(ctx, nil), func(prompt *gosdk.Prompt) string { return prompt.Name })
}

func pointed[T any](entries iter.Seq2[*T, error], name func(*T) string) ([]string, error) {
	return names(entries, name)
}

func (g *gosdkClient) call(ctx context.Context, tool string, arguments map[string]any) (*answer, error) {
	params := &gosdk.CallToolParams{Name: tool, Arguments: arguments, Meta: gosdk.Meta{}}
	if arguments == nil {
		params.Arguments = map[string]any{}
	}
	params.SetProgressToken(fmt.Sprint("p", g.tokens.Add(1)))
	if g.setup.level != "" && g.spoken() >= modern {
		params.Meta["io.modelcontextprotocol/logLevel"] = g.setup.level
	}
	result, err := g.CallTool(ctx, params)
	if err != nil {
		return nil, err
	}
	answer := &answer{failed: result.IsError}
	if result.StructuredContent != nil {
		encoded, err := json.Marshal(result.StructuredContent)
		if err != nil {
			return nil, err
		}
		answer.structured = string(encoded)
	}
	for _, block := range result.Content {
		answer.content = append(answer.content, gosdkLine(block))
	}
	return answer, nil
}

func gosdkLine(block gosdk.Content) string {
	switch block := block.(type) {
	case *gosdk.TextContent:
		return block.Text
	case *gosdk.ImageContent:
		return fmt.Sprint(block.MIMEType, " ", len(block.Data))
	case *gosdk.EmbeddedResource:
		return gosdkContents(block.Resource)
	}
	return fmt.Sprintf("%T", block)
}

func gosdkContents(contents *gosdk.ResourceContents) string {
	if contents.Blob != nil {
		return fmt.Sprint(contents.URI, " ", contents.MIMEType, " ", len(contents.Blob))
	}
	return contents.URI + " " + contents.MIMEType + " " + contents.Text
}

func (g *gosdkClient) read(ctx context.Context, uri string) ([]string, error) {
	result, err := g.ReadResource(ctx, &gosdk.ReadResourceParams{URI: uri})
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, contents := range result.Contents {
		lines = append(lines, gosdkContents(contents))
	}
	return lines, nil
}

func (g *gosdkClient) prompt(ctx context.Context, name string, arguments map[string]string) (string, error) {
	result, err := g.GetPrompt(ctx, &gosdk.GetPromptParams{Name: name, Arguments: arguments})
	if err != nil {
		return "", err
	}
	return string(result.Messages[0].Role) + ": " + gosdkLine(result.Messages[0].Content), nil
}

func (g *gosdkClient) complete(ctx context.Context, prompt, template, argument, typed string) ([]string, error) {
	ref := &gosdk.CompleteReference{Type: "ref/prompt", Name: prompt}
	if template != "" {
		ref = &gosdk.CompleteReference{Type: "ref/resource", URI: template}
	}
	result, err := g.Complete(ctx, &gosdk.CompleteParams{
		Ref: ref, Argument: gosdk.CompleteParamsArgument{Name: argument, Value: typed},
	})
	if err != nil {
		return nil, err
	}
	return result.Completion.Values, nil
}

// watch subscribes to the resource. In the modern era, it waits for the acknowledgements of two
// subscriptions, which the SDK does not wait for: the lists and the resource.
func (g *gosdkClient) watch(ctx context.Context, uri string) error {
	if err := g.Subscribe(ctx, &gosdk.SubscribeParams{URI: uri}); err != nil || g.spoken() < modern {
		return err
	}
	for {
		received, grown := g.setup.journal.look("received")
		acknowledged := 0
		for _, method := range received {
			if method == "notifications/subscriptions/acknowledged" {
				acknowledged++
			}
		}
		if acknowledged == 2 {
			return nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return fmt.Errorf("%d subscriptions were acknowledged: %w", acknowledged, ctx.Err())
		}
	}
}

func (g *gosdkClient) ping(ctx context.Context) error { return g.Ping(ctx, nil) }
func (g *gosdkClient) close() error                   { return g.Close() }

func (g *gosdkClient) code(err error) int {
	if said, ok := errors.AsType[*gosdkjsonrpc.Error](err); ok {
		return int(said.Code)
	}
	return 0
}

func (g *gosdkClient) elicit(_ context.Context, r *gosdk.ElicitRequest) (*gosdk.ElicitResult, error) {
	g.setup.journal.write("asked person %s", r.Params.Message)
	action, content := g.setup.person(r.Params.Message)
	return &gosdk.ElicitResult{Action: action, Content: content}, nil
}

func (g *gosdkClient) sample(_ context.Context, r *gosdk.CreateMessageRequest) (*gosdk.CreateMessageResult, error) {
	g.setup.journal.write("asked model %s", gosdkLine(r.Params.Messages[0].Content))
	return &gosdk.CreateMessageResult{Role: "assistant", Content: &gosdk.TextContent{Text: model}, Model: "test"}, nil
}
