package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	gosdkjsonrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A gosdkServer is a server of the official Go SDK.
type gosdkServer struct {
	*gosdk.Server
	testServer
}

// openGoSDK returns a server of the official SDK for the legacy era, with streams that can be
// resumed.
func openGoSDK(t *testing.T, s *setup) *testServer {
	return newGoSDK(s, &gosdk.StreamableHTTPOptions{EventStore: gosdk.NewMemoryEventStore(nil)})
}

// openGoSDKWithoutStreams returns one that answers only with JSON.
func openGoSDKWithoutStreams(t *testing.T, s *setup) *testServer {
	return newGoSDK(s, &gosdk.StreamableHTTPOptions{JSONResponse: true})
}

// openGoSDKWithoutSessions returns one for the modern era.
func openGoSDKWithoutSessions(t *testing.T, s *setup) *testServer {
	return newGoSDK(s, &gosdk.StreamableHTTPOptions{Stateless: true})
}

func newGoSDK(s *setup, opts *gosdk.StreamableHTTPOptions) *testServer {
	accept := func(context.Context, *gosdk.SubscribeRequest) error { return nil }
	h := &gosdkServer{Server: gosdk.NewServer(&gosdk.Implementation{Name: "server", Version: "1"}, &gosdk.ServerOptions{
		PageSize: 3, CompletionHandler: completeGoSDK, SubscribeHandler: accept,
		UnsubscribeHandler: func(context.Context, *gosdk.UnsubscribeRequest) error { return nil },
	})}
	h.events, h.close = newToolEvents(), h.closeSessions
	h.addWork()
	h.addQuestions()
	h.addChanges()
	h.addTexts()
	serve := func(*http.Request) *gosdk.Server { return h.Server }
	if s.transport != "streamable" {
		h.handler = gosdk.NewSSEHandler(serve, nil)
		return &h.testServer
	}
	opts.Stateless = opts.Stateless || s.version == modern
	opts.PropagateRequestCancellation = true
	h.handler = gosdk.NewStreamableHTTPHandler(serve, opts)
	return &h.testServer
}

// closeSessions closes the sessions, which the handler does not do.
func (h *gosdkServer) closeSessions() {
	for _, session := range slices.Collect(h.Sessions()) {
		session.Close()
	}
}

// add adds a tool without arguments that returns a text.
func (h *gosdkServer) add(name string, fn func(context.Context, *gosdk.CallToolRequest) (string, error)) {
	gosdk.AddTool(h.Server, &gosdk.Tool{Name: name},
		func(ctx context.Context, r *gosdk.CallToolRequest, _ struct{}) (*gosdk.CallToolResult, any, error) {
			text, err := fn(ctx, r)
			return gosdkText(text), nil, err
		})
}

func gosdkText(text string) *gosdk.CallToolResult {
	return &gosdk.CallToolResult{Content: []gosdk.Content{&gosdk.TextContent{Text: text}}}
}

func (h *gosdkServer) addWork() {
	gosdk.AddTool(h.Server, &gosdk.Tool{Name: "add"},
		func(_ context.Context, _ *gosdk.CallToolRequest, in sum) (*gosdk.CallToolResult, total, error) {
			return nil, total{in.A + in.B}, nil
		})
	gosdk.AddTool(h.Server, &gosdk.Tool{Name: "echo"},
		func(_ context.Context, _ *gosdk.CallToolRequest, in words) (*gosdk.CallToolResult, any, error) {
			return gosdkText(in.Text), nil, nil
		})
	gosdk.AddTool(h.Server, &gosdk.Tool{Name: "route", InputSchema: json.RawMessage(routed)},
		func(_ context.Context, _ *gosdk.CallToolRequest, in region) (*gosdk.CallToolResult, any, error) {
			return gosdkText(in.Region), nil, nil
		})
	gosdk.AddTool(h.Server, &gosdk.Tool{Name: "show"},
		func(context.Context, *gosdk.CallToolRequest, struct{}) (*gosdk.CallToolResult, any, error) {
			return &gosdk.CallToolResult{Content: []gosdk.Content{
				&gosdk.TextContent{Text: "look"},
				&gosdk.ImageContent{MIMEType: "image/png", Data: pixel},
				&gosdk.EmbeddedResource{Resource: &gosdk.ResourceContents{URI: textURI, MIMEType: "text/plain", Text: "hello"}},
			}}, nil, nil
		})
	h.add("fail", func(context.Context, *gosdk.CallToolRequest) (string, error) { return "", errors.New("no bread today") })
	h.add("refuse", func(context.Context, *gosdk.CallToolRequest) (string, error) {
		return "", &gosdkjsonrpc.Error{Code: -32602, Message: "not like this"}
	})
	h.add("climb", func(ctx context.Context, r *gosdk.CallToolRequest) (string, error) {
		for step := range 3 {
			if err := r.Session.NotifyProgress(ctx, &gosdk.ProgressNotificationParams{
				ProgressToken: r.Params.GetProgressToken(),
				Progress:      float64(step + 1), Total: 3, Message: fmt.Sprint("step ", step+1),
			}); err != nil {
				return "", err
			}
		}
		return "up", nil
	})
	h.add("log", func(ctx context.Context, r *gosdk.CallToolRequest) (string, error) {
		for _, line := range []struct {
			level gosdk.LoggingLevel
			msg   string
		}{{"debug", "fine"}, {"warning", "smoke"}, {"error", "fire"}} {
			params := &gosdk.LoggingMessageParams{Level: line.level, Logger: "bakery", Data: map[string]string{"message": line.msg}}
			if err := r.Session.Log(ctx, params); err != nil {
				return "", err
			}
		}
		return "logged", nil
	})
	h.add("wait", func(ctx context.Context, _ *gosdk.CallToolRequest) (string, error) { return h.events.wait(ctx) })
	h.add("nap", func(ctx context.Context, r *gosdk.CallToolRequest) (string, error) {
		if hangUp := r.Extra.CloseSSEStream; hangUp != nil {
			hangUp(gosdk.CloseSSEStreamArgs{RetryAfter: pause})
		}
		return h.events.nap(ctx)
	})
}

// ask adds a tool that asks questions. next returns either the next questions by key or the
// text of the result.
func (h *gosdkServer) ask(name string, next func(gosdk.InputResponseMap) (key string, question gosdk.InputRequest, text string)) {
	h.AddTool(&gosdk.Tool{Name: name, InputSchema: map[string]any{"type": "object"}},
		func(_ context.Context, r *gosdk.CallToolRequest) (*gosdk.CallToolResult, error) {
			key, question, text := next(r.Params.InputResponses)
			if question != nil {
				return &gosdk.CallToolResult{InputRequests: gosdk.InputRequestMap{key: question}, RequestState: "state"}, nil
			}
			return gosdkText(text), nil
		})
}

func (h *gosdkServer) addQuestions() {
	h.ask("order", func(answers gosdk.InputResponseMap) (string, gosdk.InputRequest, string) {
		if answer, ok := answers["loaves"].(*gosdk.ElicitResult); ok {
			if answer.Action != "accept" {
				return "", nil, answer.Action
			}
			return "", nil, fmt.Sprint(answer.Content["loaves"], " loaves")
		}
		return "loaves", gosdkForm("How many loaves?", "loaves", "integer"), ""
	})
	h.ask("ask", func(answers gosdk.InputResponseMap) (string, gosdk.InputRequest, string) {
		switch answer := answers["ask"].(type) {
		case *gosdk.CreateMessageResult:
			return "", nil, gosdkLine(answer.Content)
		case *gosdk.CreateMessageWithToolsResult:
			return "", nil, gosdkLine(answer.Content[0])
		}
		question := &gosdk.SamplingMessage{Role: "user", Content: &gosdk.TextContent{Text: "What is six by nine?"}}
		return "ask", &gosdk.CreateMessageParams{Messages: []*gosdk.SamplingMessage{question}, MaxTokens: 10}, ""
	})
	h.ask("roots", func(answers gosdk.InputResponseMap) (string, gosdk.InputRequest, string) {
		answer, ok := answers["roots"].(*gosdk.ListRootsResult)
		if !ok {
			return "roots", &gosdk.ListRootsParams{}, ""
		}
		uris := make([]string, len(answer.Roots))
		for i, root := range answer.Roots {
			uris[i] = root.URI
		}
		return "", nil, strings.Join(uris, " ")
	})
	h.addSurvey()
}

// addSurvey adds a tool that asks twice. For a client of the legacy era, the SDK converts only
// the first question and then sends a result of the modern era, so the tool itself asks these
// clients.
func (h *gosdkServer) addSurvey() {
	loaves := gosdkForm("How many loaves?", "loaves", "integer")
	colour := gosdkForm("Which colour?", "color", "string")
	h.AddTool(&gosdk.Tool{Name: "survey", InputSchema: map[string]any{"type": "object"}},
		func(ctx context.Context, r *gosdk.CallToolRequest) (*gosdk.CallToolResult, error) {
			if r.ProtocolVersion() < modern {
				first, err := r.Session.Elicit(ctx, loaves)
				if err != nil {
					return nil, err
				}
				second, err := r.Session.Elicit(ctx, colour)
				if err != nil {
					return nil, err
				}
				return gosdkText(fmt.Sprint(first.Content["loaves"], " ", second.Content["color"])), nil
			}
			if second, ok := r.Params.InputResponses["color"].(*gosdk.ElicitResult); ok {
				return gosdkText(fmt.Sprint(r.Params.RequestState, " ", second.Content["color"])), nil
			}
			if first, ok := r.Params.InputResponses["loaves"].(*gosdk.ElicitResult); ok {
				return &gosdk.CallToolResult{
					InputRequests: gosdk.InputRequestMap{"color": colour}, RequestState: fmt.Sprint(first.Content["loaves"]),
				}, nil
			}
			return &gosdk.CallToolResult{InputRequests: gosdk.InputRequestMap{"loaves": loaves}}, nil
		})
}

// gosdkForm returns a form with one field.
func gosdkForm(message, field, kind string) *gosdk.ElicitParams {
	return &gosdk.ElicitParams{Mode: "form", Message: message, RequestedSchema: map[string]any{
		"type": "object", "properties": map[string]any{field: map[string]any{"type": kind}}, "required": []string{field},
	}}
}

func (h *gosdkServer) addChanges() {
	present := false
	h.toggle = func() error {
		present = !present
		if present {
			h.add("extra", func(context.Context, *gosdk.CallToolRequest) (string, error) { return "still here", nil })
			return nil
		}
		h.RemoveTools("extra")
		return nil
	}
	var turns atomic.Int64
	h.AddResource(&gosdk.Resource{URI: clockURI, Name: "clock", MIMEType: "text/plain"},
		func(context.Context, *gosdk.ReadResourceRequest) (*gosdk.ReadResourceResult, error) {
			text := fmt.Sprint("turn ", turns.Load())
			return gosdkRead(&gosdk.ResourceContents{URI: clockURI, MIMEType: "text/plain", Text: text}), nil
		})
	h.turn = func() error {
		turns.Add(1)
		return h.ResourceUpdated(context.Background(), &gosdk.ResourceUpdatedNotificationParams{URI: clockURI})
	}
}

func gosdkRead(contents *gosdk.ResourceContents) *gosdk.ReadResourceResult {
	return &gosdk.ReadResourceResult{Contents: []*gosdk.ResourceContents{contents}}
}

func (h *gosdkServer) addTexts() {
	h.AddResource(&gosdk.Resource{URI: textURI, Name: "text", MIMEType: "text/plain"},
		func(context.Context, *gosdk.ReadResourceRequest) (*gosdk.ReadResourceResult, error) {
			return gosdkRead(&gosdk.ResourceContents{URI: textURI, MIMEType: "text/plain", Text: "hello"}), nil
		})
	h.AddResource(&gosdk.Resource{URI: pictureURI, Name: "picture", MIMEType: "image/png"},
		func(context.Context, *gosdk.ReadResourceRequest) (*gosdk.ReadResourceResult, error) {
			return gosdkRead(&gosdk.ResourceContents{URI: pictureURI, MIMEType: "image/png", Blob: pixel}), nil
		})
	h.AddResourceTemplate(&gosdk.ResourceTemplate{URITemplate: greetings, Name: "greeting", MIMEType: "text/plain"},
		func(_ context.Context, r *gosdk.ReadResourceRequest) (*gosdk.ReadResourceResult, error) {
			name := strings.TrimPrefix(r.Params.URI, strings.TrimSuffix(greetings, "{name}"))
			return gosdkRead(&gosdk.ResourceContents{URI: r.Params.URI, MIMEType: "text/plain", Text: "hello " + name}), nil
		})
	h.AddPrompt(&gosdk.Prompt{Name: "greet", Arguments: []*gosdk.PromptArgument{{Name: "name", Required: true}}},
		func(_ context.Context, r *gosdk.GetPromptRequest) (*gosdk.GetPromptResult, error) {
			text := &gosdk.TextContent{Text: "Greet " + r.Params.Arguments["name"]}
			return &gosdk.GetPromptResult{Messages: []*gosdk.PromptMessage{{Role: "user", Content: text}}}, nil
		})
}

func completeGoSDK(_ context.Context, r *gosdk.CompleteRequest) (*gosdk.CompleteResult, error) {
	return &gosdk.CompleteResult{Completion: gosdk.CompletionResultDetails{Values: namesLike(r.Params.Argument.Value)}}, nil
}
