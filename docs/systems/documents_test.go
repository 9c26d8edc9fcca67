package systems_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/bridge/control"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/schema"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/servertest"
	"github.com/dovetail-go/dovetail/server/shell"
	"github.com/dovetail-go/dovetail/server/workspace"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// The tools of a custom server of ii_tool have its name as it is written, with hyphens too.
func TestCustomServerWithAHyphen(t *testing.T) {
	files, err := workspace.Open(workspaceDir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	sh, err := shell.New(guard, files, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer sh.Close()
	added, err := control.NewServers(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(mcp.Implementation{Name: "ii_tool", Version: "1.0.0"}, nil)
	if err := s.Mount(added, &server.MountOptions{Prefix: control.Prefix}); err != nil {
		t.Fatal(err)
	}
	routes, err := control.New(&control.Options{Shell: sh, Servers: added})
	if err != nil {
		t.Fatal(err)
	}
	defer routes.Close()
	session := servertest.Connect(t, s, nil)
	body := fmt.Sprintf(`{"mcpServers":{"claude-code":{"command":%q,"args":["claude-code"]}}}`, program)
	r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp/custom-mcp", strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+routes.Authenticator().Token())
	r.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	routes.ServeHTTP(answer, r)
	if got, want := strings.TrimSpace(answer.Body.String()), `{"status":"success","tools":["mcp_claude-code_execute"]}`; got != want {
		t.Fatalf("%d %s, want %s", answer.Code, got, want)
	}
	result, err := session.CallTool(t.Context(), "mcp_claude-code_execute", json.RawMessage(`{"prompt":"Fix the bug in app.py"}`), nil)
	if err != nil || result.Text() != `execute {"prompt":"Fix the bug in app.py"}` {
		t.Errorf("%v, %v", result, err)
	}
}

// The messages that lauren-mcp parses and builds in its examples. An error without an id has null there, and no member id
// here: MCP, schema of JSONRPCErrorResponse.
func TestMessagesOfLauren(t *testing.T) {
	message, err := jsonrpc.Decode([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":null}`))
	if request, ok := message.(*jsonrpc.Request); err != nil || !ok || request.ID != jsonrpc.IntID(1) || request.Method != "tools/list" || request.Params != nil {
		t.Errorf("%+v, %v", message, err)
	}
	for want, response := range map[string]*jsonrpc.Response{
		`{"jsonrpc":"2.0","id":42,"error":{"code":-32001,"message":"Tool 'foo' is not registered."}}`: {
			ID: jsonrpc.IntID(42), Error: &jsonrpc.Error{Code: -32001, Message: "Tool 'foo' is not registered."},
		},
		`{"jsonrpc":"2.0","error":{"code":-32700,"message":"no JSON","data":{"line":1}}}`: {
			Error: &jsonrpc.Error{Code: jsonrpc.ParseError, Message: "no JSON", Data: json.RawMessage(`{"line":1}`)},
		},
	} {
		if got, err := jsonrpc.Append(nil, response); err != nil || string(got) != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
}

// The endpoints of lauren-mcp for @mcp_server("/mcp"): /mcp/ws, GET /mcp/sse, and POST, GET and DELETE of /mcp/.
func TestEndpointsOfLauren(t *testing.T) {
	s := newServer("shop", "search")
	mux := http.NewServeMux()
	endpoints := []interface {
		http.Handler
		Close() error
	}{ws.Handler(s, nil), sse.Handler(s, nil), streamable.Handler(s, nil)}
	for i, path := range []string{"/mcp/ws", "/mcp/sse", "/mcp/"} {
		mux.Handle(path, endpoints[i])
	}
	web := httptest.NewServer(mux)
	t.Cleanup(func() {
		for _, endpoint := range endpoints {
			endpoint.Close()
		}
		web.Close()
	})
	for name, dialer := range map[string]transport.Dialer{
		"ws": ws.Dial(web.URL+"/mcp/ws", nil), "http": sse.Dial(web.URL+"/mcp/sse", nil), "streamable_http": streamable.Dial(web.URL+"/mcp/", nil),
	} {
		session, err := client.Connect(t.Context(), dialer, &client.Options{Version: mcp.Version20250326})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if result, err := session.CallTool(t.Context(), "search", json.RawMessage(`{"query":"coffee"}`), nil); err != nil || result.Text() != `search {"query":"coffee"}` {
			t.Errorf("%s: %v, %v", name, result, err)
		}
		session.Close()
	}

	send := func(method, session, body string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), method, web.URL+"/mcp/", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Content-Type", "application/json")
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		}
		response, err := web.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { response.Body.Close() })
		return response
	}
	opened := send(http.MethodPost, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"lauren-mcp","version":"1.0.0"}}}`)
	answer, err := io.ReadAll(bufio.NewReader(opened.Body))
	session := opened.Header.Get("Mcp-Session-Id")
	if err != nil || session == "" || !strings.Contains(string(answer), `"protocolVersion":"2025-03-26"`) {
		t.Fatalf("%s, %v", answer, err)
	}
	if got := send(http.MethodPost, session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`).StatusCode; got != http.StatusAccepted {
		t.Errorf("a notification: %d", got)
	}
	if got := send(http.MethodGet, session, "").Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("GET: %s", got)
	}
	if got := send(http.MethodDelete, session, "").StatusCode; got/100 != 2 {
		t.Errorf("DELETE: %d", got)
	}
	if got := send(http.MethodPost, session, `{"jsonrpc":"2.0","id":2,"method":"ping"}`).StatusCode; got != http.StatusNotFound {
		t.Errorf("a request after DELETE: %d", got)
	}
}

// The annotations that lauren-mcp lists have the same schemas as Go types and tags.
func TestSchemasOfLauren(t *testing.T) {
	type address struct {
		City string `json:"city"`
	}
	arguments := reflect.TypeFor[struct {
		Text    string             `json:"text"`
		Count   int                `json:"count"`
		Ratio   float64            `json:"ratio"`
		Sure    bool               `json:"sure"`
		List    []string           `json:"list"`
		Map     map[string]int     `json:"map"`
		Maybe   *string            `json:"maybe,omitempty"`
		Literal string             `json:"literal" jsonschema:"enum=a,enum=b"`
		Least   int                `json:"least" jsonschema:"minimum=0"`
		Object  address            `json:"object"`
		Objects map[string]address `json:"objects"`
		UUID    string             `json:"uuid" jsonschema:"format=uuid"`
		Moment  time.Time          `json:"moment"`
		Date    string             `json:"date" jsonschema:"format=date"`
	}]()
	got, err := schema.ForType(arguments)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{
		"type": "object",
		"properties": {
			"text": {"type": "string"}, "count": {"type": "integer"}, "ratio": {"type": "number"}, "sure": {"type": "boolean"},
			"list": {"type": "array", "items": {"type": "string"}},
			"map": {"type": "object", "additionalProperties": {"type": "integer"}},
			"maybe": {"type": "string"},
			"literal": {"type": "string", "enum": ["a", "b"]},
			"least": {"type": "integer", "minimum": 0},
			"object": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": false},
			"objects": {"type": "object", "additionalProperties": {
				"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": false
			}},
			"uuid": {"type": "string", "format": "uuid"},
			"moment": {"type": "string", "format": "date-time"},
			"date": {"type": "string", "format": "date"}
		},
		"required": ["text", "count", "ratio", "sure", "list", "map", "literal", "least", "object", "objects", "uuid", "moment", "date"],
		"additionalProperties": false
	}`
	var is, should any
	if json.Unmarshal(got, &is) != nil || json.Unmarshal([]byte(want), &should) != nil {
		t.Fatal("no JSON")
	}
	if diff := cmp.Diff(should, is); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The templates of lauren-mcp, with the types of their variables, and a resource with a text and bytes.
func TestResourcesOfLauren(t *testing.T) {
	s := server.New(mcp.Implementation{Name: "shop", Version: "1.0.0"}, nil)
	for _, template := range []string{"/items/{id}", "/files/{+path}", "/trees/{path*}"} {
		server.AddTemplate(s, server.Template{URITemplate: template}, func(_ context.Context, _ *server.Request, in map[string]string) (map[string]string, error) {
			return in, nil
		})
	}
	type search struct {
		Query string  `json:"q"`
		Page  int     `json:"page" jsonschema:"default=1"`
		Size  float64 `json:"size,omitempty"`
		Exact *bool   `json:"exact,omitempty"`
	}
	server.AddTemplate(s, server.Template{URITemplate: "/search/{q}{?page,size,exact}"}, func(_ context.Context, _ *server.Request, in search) (search, error) {
		return in, nil
	})
	server.AddTemplate(s, server.Template{URITemplate: "/bundle/{id}"}, func(_ context.Context, _ *server.Request, in map[string]string) (*mcp.ReadResourceResult, error) {
		uri := "/bundle/" + in["id"]
		return &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{
			&mcp.TextResourceContents{URI: uri, MIMEType: "text/plain", Text: "readme text"},
			&mcp.BlobResourceContents{URI: uri, MIMEType: "image/png", Blob: []byte("\x89PNG")},
		}}, nil
	})
	session := servertest.Connect(t, s, nil)
	for uri, want := range map[string]string{
		"/items/7":                    `[{"uri":"/items/7","mimeType":"application/json","text":"{\"id\":\"7\"}"}]`,
		"/files/src/main.py":          `[{"uri":"/files/src/main.py","mimeType":"application/json","text":"{\"path\":\"src/main.py\"}"}]`,
		"/trees/src/main.py":          `[{"uri":"/trees/src/main.py","mimeType":"application/json","text":"{\"path\":\"src/main.py\"}"}]`,
		"/search/tea?page=2&size=0.5": `[{"uri":"/search/tea?page=2&size=0.5","mimeType":"application/json","text":"{\"q\":\"tea\",\"page\":2,\"size\":0.5}"}]`,
		"/search/tea?exact=true":      `[{"uri":"/search/tea?exact=true","mimeType":"application/json","text":"{\"q\":\"tea\",\"page\":1,\"exact\":true}"}]`,
		"/bundle/7":                   `[{"uri":"/bundle/7","mimeType":"text/plain","text":"readme text"},{"uri":"/bundle/7","mimeType":"image/png","blob":"iVBORw=="}]`,
	} {
		result, err := session.ReadResource(t.Context(), uri, nil)
		if err != nil {
			t.Errorf("%s: %v", uri, err)
			continue
		}
		var got strings.Builder
		encoder := json.NewEncoder(&got)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(result.Contents); err != nil || strings.TrimSpace(got.String()) != want {
			t.Errorf("%s: %s, %v, want %s", uri, got.String(), err, want)
		}
	}
	for _, uri := range []string{"/items/7/8", "/search/tea?page=two"} {
		if _, err := session.ReadResource(t.Context(), uri, nil); err == nil {
			t.Errorf("%s is read", uri)
		}
	}
}
