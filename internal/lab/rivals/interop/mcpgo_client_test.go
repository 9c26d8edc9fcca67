package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	mcpgoclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
)

// A mcpgoClient is a client of mark3labs/mcp-go.
type mcpgoClient struct {
	*mcpgoclient.Client
	setup  *setup
	info   *mcpgo.InitializeResult
	tokens atomic.Int64
}

func connectMCPGo(ctx context.Context, t *testing.T, s *setup) (testClient, error) {
	g := &mcpgoClient{setup: s}
	carrier, err := g.transport()
	if err != nil {
		return nil, err
	}
	opts := []mcpgoclient.ClientOption{
		mcpgoclient.WithElicitationHandler(g), mcpgoclient.WithSamplingHandler(g), mcpgoclient.WithRootsHandler(g),
	}
	if s.version != auto {
		opts = append(opts, mcpgoclient.WithProtocolVersion(s.version))
	}
	g.Client = mcpgoclient.NewClient(carrier, opts...)
	g.OnNotification(g.onNotification)
	if err := g.Start(ctx); err != nil {
		return nil, err
	}
	var request mcpgo.InitializeRequest
	request.Params.ClientInfo = mcpgo.Implementation{Name: "client", Version: "1"}
	if g.info, err = g.Initialize(ctx, request); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	if s.level != "" {
		var request mcpgo.SetLevelRequest
		request.Params.Level = mcpgo.LoggingLevel(s.level)
		return g, g.SetLevel(ctx, request)
	}
	return g, nil
}

// transport listens for unsolicited messages only in the legacy era, since a listening client
// does not use the modern era.
func (g *mcpgoClient) transport() (transport.Interface, error) {
	if g.setup.transport == "sse" {
		return transport.NewSSE(g.setup.url, transport.WithHTTPClient(g.setup.http))
	}
	opts := []transport.StreamableHTTPCOption{transport.WithHTTPBasicClient(g.setup.http)}
	if g.setup.version < modern {
		opts = append(opts, transport.WithContinuousListening())
	}
	return transport.NewStreamableHTTP(g.setup.url, opts...)
}

// onNotification records a notification.
func (g *mcpgoClient) onNotification(note mcpgo.JSONRPCNotification) {
	g.setup.journal.write("received %s", note.Method)
	params := note.Params.AdditionalFields
	switch note.Method {
	case "notifications/tools/list_changed":
		g.setup.journal.write("changed tools")
	case "notifications/resources/updated":
		g.setup.journal.write("changed %s", params["uri"])
	case "notifications/progress":
		message, _ := params["message"].(string)
		g.setup.journal.write("progress %v/%v %s", params["progress"], params["total"], message)
	case "notifications/message":
		data, _ := json.Marshal(params["data"])
		g.setup.journal.write("log %s %s %s", params["level"], params["logger"], data)
	}
}

func (g *mcpgoClient) spoken() string     { return g.ProtocolVersion() }
func (g *mcpgoClient) serverName() string { return g.info.ServerInfo.Name }

func (g *mcpgoClient) list(ctx context.Context, kind string) ([]string, error) {
	var list []string
	switch kind {
	case "tools":
		for tool, err := range g.IterTools(ctx, mcpgo.ListToolsRequest{}) {
			if err != nil {
				return nil, err
			}
			list = append(list, tool.Name)
		}
	case "resources":
		for resource, err := range g.IterResources(ctx, mcpgo.ListResourcesRequest{}) {
			if err != nil {
				return nil, err
			}
			list = append(list, resource.URI)
		}
	case "templates":
		for template, err := range g.IterResourceTemplates(ctx, mcpgo.ListResourceTemplatesRequest{}) {
			if err != nil {
				return nil, err
			}
			list = append(list, template.URITemplate.Raw())
		}
	case "prompts":
		for prompt, err := range g.IterPrompts(ctx, mcpgo.ListPromptsRequest{}) {
			if err != nil {
				return nil, err
			}
			list = append(list, prompt.Name)
		}
	}
	return list, nil
}

func (g *mcpgoClient) call(ctx context.Context, tool string, arguments map[string]any) (*answer, error) {
	var request mcpgo.CallToolRequest
	request.Params.Name = tool
	request.Params.Arguments = arguments
	request.Params.Meta = &mcpgo.Meta{ProgressToken: fmt.Sprint("p", g.tokens.Add(1))}
	result, err := g.CallTool(ctx, request)
	if err != nil {
		return nil, err
	}
	answer := &answer{failed: result.IsError, structured: string(result.RawStructuredContent)}
	for _, block := range result.Content {
		answer.content = append(answer.content, mcpgoLine(block))
	}
	return answer, nil
}

func mcpgoLine(block mcpgo.Content) string {
	switch block := block.(type) {
	case mcpgo.TextContent:
		return block.Text
	case mcpgo.ImageContent:
		return fmt.Sprint(block.MIMEType, " ", decodedLength(block.Data))
	case mcpgo.EmbeddedResource:
		return mcpgoContents(block.Resource)
	}
	return fmt.Sprintf("%T", block)
}

func mcpgoContents(contents mcpgo.ResourceContents) string {
	switch contents := contents.(type) {
	case mcpgo.TextResourceContents:
		return contents.URI + " " + contents.MIMEType + " " + contents.Text
	case mcpgo.BlobResourceContents:
		return fmt.Sprint(contents.URI, " ", contents.MIMEType, " ", decodedLength(contents.Blob))
	}
	return fmt.Sprintf("%T", contents)
}

func (g *mcpgoClient) read(ctx context.Context, uri string) ([]string, error) {
	var request mcpgo.ReadResourceRequest
	request.Params.URI = uri
	result, err := g.ReadResource(ctx, request)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, contents := range result.Contents {
		lines = append(lines, mcpgoContents(contents))
	}
	return lines, nil
}

func (g *mcpgoClient) prompt(ctx context.Context, name string, arguments map[string]string) (string, error) {
	var request mcpgo.GetPromptRequest
	request.Params.Name = name
	request.Params.Arguments = arguments
	result, err := g.GetPrompt(ctx, request)
	if err != nil {
		return "", err
	}
	return string(result.Messages[0].Role) + ": " + mcpgoLine(result.Messages[0].Content), nil
}

func (g *mcpgoClient) complete(ctx context.Context, prompt, template, argument, typed string) ([]string, error) {
	var request mcpgo.CompleteRequest
	request.Params.Ref = mcpgo.PromptReference{Type: "ref/prompt", Name: prompt}
	if template != "" {
		request.Params.Ref = mcpgo.ResourceReference{Type: "ref/resource", URI: template}
	}
	request.Params.Argument = mcpgo.CompleteArgument{Name: argument, Value: typed}
	result, err := g.Complete(ctx, request)
	if err != nil {
		return nil, err
	}
	return result.Completion.Values, nil
}

func (g *mcpgoClient) watch(ctx context.Context, uri string) error {
	if g.spoken() < modern {
		var request mcpgo.SubscribeRequest
		request.Params.URI = uri
		return g.Subscribe(ctx, request)
	}
	filter := mcpgo.SubscriptionFilter{ToolsListChanged: true, ResourceSubscriptions: []string{uri}}
	if _, err := g.ListenAsync(ctx, filter, nil); err != nil {
		return err
	}
	for {
		received, grown := g.setup.journal.look("received")
		if slices.Contains(received, "notifications/subscriptions/acknowledged") {
			return nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (g *mcpgoClient) ping(ctx context.Context) error { return g.Ping(ctx) }
func (g *mcpgoClient) close() error                   { return g.Close() }

// code returns the code of some errors. The SDK replaces the others.
func (g *mcpgoClient) code(err error) int {
	switch {
	case errors.Is(err, mcpgo.ErrInvalidParams):
		return -32602
	case errors.Is(err, mcpgo.ErrResourceNotFound):
		return -32002
	case errors.Is(err, mcpgo.ErrInternalError):
		return -32603
	}
	if _, ok := errors.AsType[mcpgo.HeaderMismatchError](err); ok {
		return -32020
	}
	return 0
}

// Elicit answers for the user.
func (g *mcpgoClient) Elicit(_ context.Context, request mcpgo.ElicitationRequest) (*mcpgo.ElicitationResult, error) {
	g.setup.journal.write("asked person %s", request.Params.Message)
	action, content := g.setup.person(request.Params.Message)
	result := &mcpgo.ElicitationResult{}
	result.Action = mcpgo.ElicitationResponseAction(action)
	if content != nil {
		result.Content = content
	}
	return result, nil
}

// CreateMessage answers for the model.
func (g *mcpgoClient) CreateMessage(_ context.Context, request mcpgo.CreateMessageRequest) (*mcpgo.CreateMessageResult, error) {
	g.setup.journal.write("asked model %s", mcpgoText(request.Messages[0].Content))
	return &mcpgo.CreateMessageResult{
		SamplingMessage: mcpgo.SamplingMessage{Role: mcpgo.RoleAssistant, Content: mcpgo.NewTextContent(model)}, Model: "test",
	}, nil
}

// ListRoots returns the roots.
func (g *mcpgoClient) ListRoots(context.Context, mcpgo.ListRootsRequest) (*mcpgo.ListRootsResult, error) {
	g.setup.journal.write("asked roots")
	return &mcpgo.ListRootsResult{Roots: []mcpgo.Root{{URI: root}}}, nil
}
