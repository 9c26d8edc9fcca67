package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A tool that asks two questions, one after the other, is one function here, for clients of both eras. In go-sdk each of the two ways to
// ask works for one era only. README.md says so.
func TestOneFunctionAsksClientsOfBothEras(t *testing.T) {
	type loaves struct {
		Loaves int `json:"loaves"`
	}
	type color struct {
		Color string `json:"color"`
	}
	own := server.New(mcp.Implementation{Name: "server", Version: "1"}, nil)
	server.AddTool(own, server.Tool{Name: "survey"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		first, err := server.Elicit[loaves](r, "loaves", "How many loaves?")
		if err != nil {
			return "", err
		}
		second, err := server.Elicit[color](r, "color", "Which colour?")
		if err != nil {
			return "", err
		}
		return fmt.Sprint(first.Loaves, " ", second.Color), nil
	})
	endpoint := streamable.Handler(own, nil)
	defer endpoint.Close()

	many, which := gosdkForm("How many loaves?", "loaves", "integer"), gosdkForm("Which colour?", "color", "string")
	inTheSession := func(ctx context.Context, r *gosdk.CallToolRequest) (*gosdk.CallToolResult, error) {
		first, err := r.Session.Elicit(ctx, many)
		if err != nil {
			return nil, err
		}
		second, err := r.Session.Elicit(ctx, which)
		if err != nil {
			return nil, err
		}
		return gosdkText(fmt.Sprint(first.Content["loaves"], " ", second.Content["color"])), nil
	}
	inTheResult := func(_ context.Context, r *gosdk.CallToolRequest) (*gosdk.CallToolResult, error) {
		if second, ok := r.Params.InputResponses["color"].(*gosdk.ElicitResult); ok {
			return gosdkText(fmt.Sprint(r.Params.RequestState, " ", second.Content["color"])), nil
		}
		if first, ok := r.Params.InputResponses["loaves"].(*gosdk.ElicitResult); ok {
			return &gosdk.CallToolResult{InputRequests: gosdk.InputRequestMap{"color": which}, RequestState: fmt.Sprint(first.Content["loaves"])}, nil
		}
		return &gosdk.CallToolResult{InputRequests: gosdk.InputRequestMap{"loaves": many}}, nil
	}
	ofSDK := func(tool gosdk.ToolHandler, era client.Era) http.Handler {
		s := gosdk.NewServer(&gosdk.Implementation{Name: "server", Version: "1"}, nil)
		s.AddTool(&gosdk.Tool{Name: "survey", InputSchema: map[string]any{"type": "object"}}, tool)
		return gosdk.NewStreamableHTTPHandler(func(*http.Request) *gosdk.Server { return s }, &gosdk.StreamableHTTPOptions{Stateless: era == client.Modern})
	}
	for name, test := range map[string]struct {
		handler        func(client.Era) http.Handler
		legacy, modern bool
	}{
		"dovetail, server.Elicit":       {func(client.Era) http.Handler { return endpoint }, true, true},
		"go-sdk, ServerSession.Elicit":  {func(era client.Era) http.Handler { return ofSDK(inTheSession, era) }, true, false},
		"go-sdk, CallToolResult.Inputs": {func(era client.Era) http.Handler { return ofSDK(inTheResult, era) }, false, true},
	} {
		for era, works := range map[client.Era]bool{client.Legacy: test.legacy, client.Modern: test.modern} {
			t.Run(fmt.Sprintf("%s, %v", name, era), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), checkTimeout)
				defer cancel()
				web := httptest.NewServer(test.handler(era))
				defer web.Close()
				person := func(_ context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
					answer := `{"color": "green"}`
					if strings.Contains(p.Message, "loaves") {
						answer = `{"loaves": 4}`
					}
					return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(answer)}, nil
				}
				carrier := &http.Transport{}
				defer carrier.CloseIdleConnections()
				dialer := streamable.Dial(web.URL, &streamable.DialOptions{HTTPClient: &http.Client{Transport: carrier}})
				session, err := client.Connect(ctx, dialer, &client.Options{Era: era, Elicit: person})
				if err != nil {
					t.Fatal(err)
				}
				defer session.Close()
				result, err := session.CallTool(ctx, "survey", nil, nil)
				if worked := err == nil && !result.IsError && result.Text() == "4 green"; worked != works {
					t.Errorf("the answer is %+v %v", result, err)
				}
			})
		}
	}
}
