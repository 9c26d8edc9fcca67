package main

import (
	"context"
	"encoding/json"

	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// newGoSDKServer has echo or count, or neither for Kind List and Cold, and w.Tools
// tools besides. Typed tools validate arguments and results, and log nothing.
func newGoSDKServer(w Work) *gosdk.Server {
	s := gosdk.NewServer(&gosdk.Implementation{Name: "bench", Version: "1"}, nil)
	switch {
	case w.Kind == List || w.Kind == Cold:
	case w.Kind == Progress:
		addGoSDKCount(s, w)
	case w.Raw:
		addGoSDKRaw(s)
	default:
		gosdk.AddTool(s, &gosdk.Tool{Name: echoTool}, echoGoSDK[Echo])
	}
	for i, add := range coldGoSDK()[:w.Tools] {
		add(s, coldName(i))
	}
	return s
}

// addGoSDK adds a tool that takes and gives back a T.
func addGoSDK[T any](s *gosdk.Server, name string) {
	gosdk.AddTool(s, &gosdk.Tool{Name: name, Description: coldDescription}, echoGoSDK[T])
}

// echoGoSDK leaves the text to the SDK, which makes it of the structured content.
func echoGoSDK[T any](_ context.Context, _ *gosdk.CallToolRequest, in T) (*gosdk.CallToolResult, T, error) {
	return nil, in, nil
}

// addGoSDKRaw adds echo by the SDK's untyped way, which validates nothing.
func addGoSDKRaw(s *gosdk.Server) {
	s.AddTool(&gosdk.Tool{Name: echoTool, InputSchema: json.RawMessage(echoSchema)},
		func(_ context.Context, r *gosdk.CallToolRequest) (*gosdk.CallToolResult, error) {
			result := goSDKText(string(r.Params.Arguments))
			result.StructuredContent = r.Params.Arguments
			return result, nil
		})
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
