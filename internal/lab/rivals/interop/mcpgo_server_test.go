package interop

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	mcpgo "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
)

// A mcpgoServer is a server of mark3labs/mcp-go.
type mcpgoServer struct {
	*mcpgoserver.MCPServer
	testServer
}

// openMCPGo returns a server of mcp-go for every version.
func openMCPGo(t *testing.T, s *setup) *testServer { return newMCPGo(s) }

// openMCPGoLegacy returns one for the legacy era.
func openMCPGoLegacy(t *testing.T, s *setup) *testServer {
	return newMCPGo(s, mcpgoserver.WithStreamableHTTPProtocolVersions(mcpgo.LegacyProtocolVersions()...))
}

func newMCPGo(s *setup, opts ...mcpgoserver.StreamableHTTPOption) *testServer {
	h := &mcpgoServer{}
	h.events = newToolEvents()
	h.MCPServer = mcpgoserver.NewMCPServer("server", "1",
		mcpgoserver.WithToolCapabilities(true), mcpgoserver.WithResourceCapabilities(true, true),
		mcpgoserver.WithPromptCapabilities(true), mcpgoserver.WithLogging(), mcpgoserver.WithElicitation(),
		mcpgoserver.WithRoots(), mcpgoserver.WithCompletions(),
		mcpgoserver.WithPromptCompletionProvider(h), mcpgoserver.WithResourceCompletionProvider(h),
		mcpgoserver.WithPaginationLimit(3), mcpgoserver.WithInputSchemaValidation(),
	)
	h.EnableSampling()
	h.addWork()
	h.addQuestions()
	h.addChanges()
	h.addTexts()
	if s.transport != "streamable" {
		handler := mcpgoserver.NewSSEServer(h.MCPServer, mcpgoserver.WithSSEEndpoint("/"), mcpgoserver.WithMessageEndpoint("/messages"))
		h.handler, h.close = handler, handler.CloseSessions
		return &h.testServer
	}
	opts = append(opts, mcpgoserver.WithStateful(true), mcpgoserver.WithStreamableHTTPLogger(slog.New(slog.DiscardHandler)))
	handler := mcpgoserver.NewStreamableHTTPServer(h.MCPServer, opts...)
	h.handler, h.close = handler, func() { handler.CloseSessions(context.Background()) }
	return &h.testServer
}

// add adds a tool without arguments that returns a text.
func (h *mcpgoServer) add(name string, fn func(context.Context, mcpgo.CallToolRequest) (string, error)) {
	h.AddTool(mcpgo.NewTool(name), func(ctx context.Context, r mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		text, err := fn(ctx, r)
		if err != nil {
			return nil, err
		}
		return mcpgo.NewToolResultText(text), nil
	})
}

func (h *mcpgoServer) addWork() {
	h.AddTool(mcpgo.NewTool("add", mcpgo.WithInputSchema[sum](), mcpgo.WithOutputSchema[total]()),
		mcpgo.NewStructuredToolHandler(func(_ context.Context, _ mcpgo.CallToolRequest, in sum) (total, error) {
			return total{in.A + in.B}, nil
		}))
	h.AddTool(mcpgo.NewTool("echo", mcpgo.WithInputSchema[words]()),
		mcpgo.NewTypedToolHandler(func(_ context.Context, _ mcpgo.CallToolRequest, in words) (*mcpgo.CallToolResult, error) {
			return mcpgo.NewToolResultText(in.Text), nil
		}))
	h.AddTool(mcpgo.NewToolWithRawSchema("route", "", json.RawMessage(routed)),
		mcpgo.NewTypedToolHandler(func(_ context.Context, _ mcpgo.CallToolRequest, in region) (*mcpgo.CallToolResult, error) {
			return mcpgo.NewToolResultText(in.Region), nil
		}))
	h.AddTool(mcpgo.NewTool("show"), func(context.Context, mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		return &mcpgo.CallToolResult{Content: []mcpgo.Content{
			mcpgo.NewTextContent("look"),
			mcpgo.NewImageContent(base64.StdEncoding.EncodeToString(pixel), "image/png"),
			mcpgo.NewEmbeddedResource(mcpgo.TextResourceContents{URI: textURI, MIMEType: "text/plain", Text: "hello"}),
		}}, nil
	})
	h.AddTool(mcpgo.NewTool("fail"), func(context.Context, mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		return mcpgo.NewToolResultError("no bread today"), nil
	})
	h.add("refuse", func(context.Context, mcpgo.CallToolRequest) (string, error) {
		return "", fmt.Errorf("not like this")
	})
	h.add("climb", func(ctx context.Context, r mcpgo.CallToolRequest) (string, error) {
		for step := range 3 {
			if err := h.SendNotificationToClient(ctx, "notifications/progress", map[string]any{
				"progressToken": r.Params.Meta.ProgressToken,
				"progress":      step + 1, "total": 3, "message": fmt.Sprint("step ", step+1),
			}); err != nil {
				return "", err
			}
		}
		return "up", nil
	})
	h.add("log", func(ctx context.Context, _ mcpgo.CallToolRequest) (string, error) {
		for _, line := range []struct {
			level mcpgo.LoggingLevel
			msg   string
		}{{"debug", "fine"}, {"warning", "smoke"}, {"error", "fire"}} {
			note := mcpgo.NewLoggingMessageNotification(line.level, "bakery", map[string]string{"message": line.msg})
			if err := h.SendLogMessageToClient(ctx, note); err != nil {
				return "", err
			}
		}
		return "logged", nil
	})
	h.add("wait", func(ctx context.Context, _ mcpgo.CallToolRequest) (string, error) { return h.events.wait(ctx) })
	h.add("nap", func(ctx context.Context, _ mcpgo.CallToolRequest) (string, error) { return h.events.nap(ctx) })
}

// ask adds a tool that asks questions. next either adds questions or returns the text of the
// result.
func (h *mcpgoServer) ask(name string, next func(mcpgo.CallToolRequest, *mcpgoserver.InputRequestBuilder) string) {
	h.AddTool(mcpgo.NewTool(name), func(_ context.Context, r mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		questions := mcpgoserver.NewInputRequestBuilder("state")
		if text := next(r, questions); text != "" {
			return mcpgo.NewToolResultText(text), nil
		}
		return questions.ToolResult(), nil
	})
}

func (h *mcpgoServer) addQuestions() {
	h.ask("order", func(r mcpgo.CallToolRequest, questions *mcpgoserver.InputRequestBuilder) string {
		answer := mcpgoserver.ElicitationResponse(r.Params.InputResponses, "loaves")
		if answer == nil {
			questions.Elicit("loaves", mcpgoForm("How many loaves?", "loaves", "integer"))
			return ""
		}
		if answer.Action != mcpgo.ElicitationResponseActionAccept {
			return string(answer.Action)
		}
		return fmt.Sprint(answer.Content.(map[string]any)["loaves"], " loaves")
	})
	h.ask("survey", func(r mcpgo.CallToolRequest, questions *mcpgoserver.InputRequestBuilder) string {
		if second := mcpgoserver.ElicitationResponse(r.Params.InputResponses, "color"); second != nil {
			return fmt.Sprint(r.Params.RequestState, " ", second.Content.(map[string]any)["color"])
		}
		if first := mcpgoserver.ElicitationResponse(r.Params.InputResponses, "loaves"); first != nil {
			questions.RequestState(fmt.Sprint(first.Content.(map[string]any)["loaves"]))
			questions.Elicit("color", mcpgoForm("Which colour?", "color", "string"))
			return ""
		}
		questions.Elicit("loaves", mcpgoForm("How many loaves?", "loaves", "integer"))
		return ""
	})
	h.ask("ask", func(r mcpgo.CallToolRequest, questions *mcpgoserver.InputRequestBuilder) string {
		answer := mcpgoserver.SamplingResponse(r.Params.InputResponses, "ask")
		if answer == nil {
			question := mcpgo.SamplingMessage{Role: mcpgo.RoleUser, Content: mcpgo.NewTextContent("What is six by nine?")}
			questions.Sample("ask", mcpgo.CreateMessageParams{Messages: []mcpgo.SamplingMessage{question}, MaxTokens: 10})
			return ""
		}
		return mcpgoText(answer.Content)
	})
	h.ask("roots", func(r mcpgo.CallToolRequest, questions *mcpgoserver.InputRequestBuilder) string {
		answer := mcpgoserver.RootsResponse(r.Params.InputResponses, "roots")
		if answer == nil {
			questions.Roots("roots")
			return ""
		}
		uris := make([]string, len(answer.Roots))
		for i, root := range answer.Roots {
			uris[i] = root.URI
		}
		return strings.Join(uris, " ")
	})
}

// mcpgoForm returns a form with one field.
func mcpgoForm(message, field, kind string) mcpgo.ElicitationParams {
	return mcpgo.ElicitationParams{Mode: mcpgo.ElicitationModeForm, Message: message, RequestedSchema: map[string]any{
		"type": "object", "properties": map[string]any{field: map[string]any{"type": kind}}, "required": []string{field},
	}}
}

// addChanges adds entries that change. The SDK does not notify the subscribers of a resource, so
// all clients are notified. The SDK sends a notification in the response to any current request
// of the session; it is lost if that response has ended.
func (h *mcpgoServer) addChanges() {
	present := false
	h.toggle = func() error {
		present = !present
		if present {
			h.add("extra", func(context.Context, mcpgo.CallToolRequest) (string, error) { return "still here", nil })
			return nil
		}
		h.DeleteTools("extra")
		return nil
	}
	var turns atomic.Int64
	h.AddResource(mcpgo.NewResource(clockURI, "clock", mcpgo.WithMIMEType("text/plain")),
		func(context.Context, mcpgo.ReadResourceRequest) ([]mcpgo.ResourceContents, error) {
			return []mcpgo.ResourceContents{
				mcpgo.TextResourceContents{URI: clockURI, MIMEType: "text/plain", Text: fmt.Sprint("turn ", turns.Load())},
			}, nil
		})
	h.again = func(change string) {
		if change == "tools" {
			h.SendNotificationToAllClients("notifications/tools/list_changed", nil)
			return
		}
		h.SendNotificationToAllClients("notifications/resources/updated", map[string]any{"uri": change})
	}
	h.turn = func() error {
		turns.Add(1)
		h.again(clockURI)
		return nil
	}
}

func (h *mcpgoServer) addTexts() {
	h.AddResource(mcpgo.NewResource(textURI, "text", mcpgo.WithMIMEType("text/plain")),
		func(context.Context, mcpgo.ReadResourceRequest) ([]mcpgo.ResourceContents, error) {
			return []mcpgo.ResourceContents{mcpgo.TextResourceContents{URI: textURI, MIMEType: "text/plain", Text: "hello"}}, nil
		})
	h.AddResource(mcpgo.NewResource(pictureURI, "picture", mcpgo.WithMIMEType("image/png")),
		func(context.Context, mcpgo.ReadResourceRequest) ([]mcpgo.ResourceContents, error) {
			blob := base64.StdEncoding.EncodeToString(pixel)
			return []mcpgo.ResourceContents{mcpgo.BlobResourceContents{URI: pictureURI, MIMEType: "image/png", Blob: blob}}, nil
		})
	h.AddResourceTemplate(mcpgo.NewResourceTemplate(greetings, "greeting", mcpgo.WithTemplateMIMEType("text/plain")),
		func(_ context.Context, r mcpgo.ReadResourceRequest) ([]mcpgo.ResourceContents, error) {
			name := strings.TrimPrefix(r.Params.URI, strings.TrimSuffix(greetings, "{name}"))
			return []mcpgo.ResourceContents{
				mcpgo.TextResourceContents{URI: r.Params.URI, MIMEType: "text/plain", Text: "hello " + name},
			}, nil
		})
	h.AddPrompt(mcpgo.NewPrompt("greet", mcpgo.WithArgument("name", mcpgo.RequiredArgument())),
		func(_ context.Context, r mcpgo.GetPromptRequest) (*mcpgo.GetPromptResult, error) {
			text := mcpgo.NewTextContent("Greet " + r.Params.Arguments["name"])
			return &mcpgo.GetPromptResult{Messages: []mcpgo.PromptMessage{mcpgo.NewPromptMessage(mcpgo.RoleUser, text)}}, nil
		})
}

// CompletePromptArgument completes the argument of the prompt.
func (h *mcpgoServer) CompletePromptArgument(_ context.Context, _ string, argument mcpgo.CompleteArgument, _ mcpgo.CompleteContext) (*mcpgo.Completion, error) {
	return &mcpgo.Completion{Values: namesLike(argument.Value)}, nil
}

// CompleteResourceArgument completes the variable of the template.
func (h *mcpgoServer) CompleteResourceArgument(_ context.Context, _ string, argument mcpgo.CompleteArgument, _ mcpgo.CompleteContext) (*mcpgo.Completion, error) {
	return &mcpgo.Completion{Values: namesLike(argument.Value)}, nil
}

// mcpgoText returns the text of sampling content, which is a mcpgo.TextContent or a map.
func mcpgoText(content any) string {
	switch content := content.(type) {
	case mcpgo.TextContent:
		return content.Text
	case map[string]any:
		return fmt.Sprint(content["text"])
	}
	return fmt.Sprintf("%T", content)
}

// decodedLength returns the number of bytes in a base64 text.
func decodedLength(text string) int {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return -1
	}
	return len(data)
}
