package gateway_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/bridge/internal/frontend/frontendtest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// TestREST: results are unchanged.
func TestREST(t *testing.T) {
	r := newRig(t, gateway.Options{}, operator{})
	for _, test := range []struct{ path, body, want string }{
		{"/tools/call", `{"name":"files__read","arguments":{}}`, `{"content":[{"type":"text","text":"one"},{"type":"text","text":"two <\u00e9>"}]}`},
		{"/tools/call", `{"arguments":null, "name":"files__re\u0061d"}`, `{"content":[{"type":"text","text":"one"},{"type":"text","text":"two <\u00e9>"}]}`},
		{"/tools/call", `{"name":"files__stat"}`, `{"content":[{"type":"text","text":"{\"size\": 1}"}],"structuredContent":{ "size" : 12345678901234567890 }}`},
		{"/tools/call", `{"name":"files__picture"}`, `{"content":[{"type":"text","text":"a picture"},{"type":"image","data":"AAEC","mimeType":"image/png"}]}`},
		{"/tools/call", `{"name":"files__fail"}`, `{"content":[{"type":"text","text":"no such file"}],"isError":true}`},
		{"/tools/files__stat", `{}`, `{"content":[{"type":"text","text":"{\"size\": 1}"}],"structuredContent":{ "size" : 12345678901234567890 }}`},
		{"/tools/files__image", `{}`, `{"content":[{"type":"image","data":"AAEC","mimeType":"image/png"}]}`},
		{"/tools/files__echo", `{ "n" : 1.10 }`, `{"content":[{"type":"text","text":"{ \"n\" : 1.10 }"}]}`},
	} {
		t.Run(test.path+" "+test.body, func(t *testing.T) {
			got := r.post(t, restPath+test.path, test.body)
			if got.status != 200 || got.body != strings.TrimSuffix(test.want, "}")+added {
				t.Errorf("the answer is %d %s\nwant %s", got.status, got.body, test.want)
			}
		})
	}
	list := r.get(t, restPath+"/tools")
	var tools struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal([]byte(list.body), &tools); err != nil || len(tools.Tools) != 20 || tools.Tools[0].Name != "files__read" {
		t.Errorf("the tools are %s", list.body)
	}
}

// added has the members that the server in front of the bridge adds to each result.
const added = `,"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"upstream","version":"1"}}}`

// TestDeclaredResults: a tool with an output schema returns its structured content only.
func TestDeclaredResults(t *testing.T) {
	s := newUpstream()
	declared := server.Tool{OutputSchema: json.RawMessage(`{"type":"object","required":["n"]}`)}
	for name, result := range map[string]string{
		"right":  `{"content":[{"type":"text","text":"1"}],"structuredContent":{ "n":1 }}`,
		"failed": `{"content":[{"type":"text","text":"it is broken"},{"type":"image","data":"AAEC","mimeType":"image/png"}],"isError":true}`,
	} {
		s.AddFunc(name, declared, answers(result))
	}
	r := &rig{token: aToken}
	r.bridge = frontendtest.Bridge(t, frontendtest.To("s", s))
	r.serve(t, gateway.Options{}, operator{})
	r.post(t, restPath+"/tools/s__right", `{}`).wants(t, 200, `{ "n":1 }`)
	for name, want := range map[string]string{"s__failed": "it is broken", "s__draw_badly": "the tool failed without a message"} {
		got := r.post(t, restPath+"/tools/"+name, `{}`)
		if p := got.problem(t); got.status != 422 || p.Type != "tool_error" || p.Detail != want || !strings.Contains(string(p.Result), `"AAEC"`) {
			t.Errorf("a failure: %d %s", got.status, got.body)
		}
	}
}

func TestRESTRefusals(t *testing.T) {
	r := newRig(t, gateway.Options{Limits: transport.Limits{MessageBytes: 1000}}, operator{})
	for _, test := range []struct {
		method, path, body string
		status             int
		kind, detail       string
	}{
		{"POST", "/tools/call", `{"name":"files__none"}`, 404, "unknown_tool", `there is no tool "files__none"`},
		{"POST", "/tools/files__none", `{}`, 404, "unknown_tool", `there is no tool "files__none"`},
		{"POST", "/tools/read", `{}`, 404, "unknown_tool", `there is no tool "read"`},
		{"POST", "/tools/call", `{"arguments":{}}`, 400, "bad_request", `expected {"name":"…","arguments":{…}}: name must be a string`},
		{"POST", "/tools/call", `{"name":"x","_meta":{}}`, 400, "bad_request", `expected {"name":"…","arguments":{…}}, and no member "_meta"`},
		{"POST", "/tools/call", `{"name":"x","arguments":1}`, 400, "bad_request", "arguments must be an object"},
		{"POST", "/tools/call", `{"Name":"x"}`, 400, "bad_request", `expected {"name":"…","arguments":{…}}, and no member "Name"`},
		{"POST", "/tools/files__read", `[]`, 400, "bad_request", ""},
		{"POST", "/tools/files__read", `{"a":"` + strings.Repeat("x", 1000) + `"}`, 413, "request_entity_too_large", "a body may have at most 1000 bytes"},
		{"POST", "/tools/files__read/x", `{}`, 404, "not_found", "there is no such route"},
		{"POST", "/tools/%2e%2e", `{}`, 404, "not_found", "there is no such route"},
		{"GET", "/tools/files__read", "", 405, "method_not_allowed", ""},
		{"DELETE", "/tools", "", 405, "method_not_allowed", ""},
		{"GET", "/other", "", 404, "not_found", ""},
	} {
		t.Run(test.method+" "+test.path+" "+test.body[:min(20, len(test.body))], func(t *testing.T) {
			got := r.do(t, r.request(t, test.method, restPath+test.path, test.body))
			if p := got.problem(t); got.status != test.status || p.Type != test.kind || test.detail != "" && p.Detail != test.detail {
				t.Errorf("the answer is %d %s", got.status, got.body)
			}
		})
	}
	if n := r.files.Calls.Load(); n != 0 {
		t.Errorf("%d calls were made", n)
	}
}

// TestServerErrors: protocol errors of a server are passed on, and cannot imitate decisions of
// the gateway.
func TestServerErrors(t *testing.T) {
	r := newRig(t, gateway.Options{}, operator{})
	for name, e := range map[string]*jsonrpc.Error{
		"odd":     {Code: jsonrpc.InvalidParams, Message: "x must be odd"},
		"forbids": {Code: jsonrpc.InternalError, Message: "no", Data: json.RawMessage(`{"type":"FORBIDDEN"}`)},
	} {
		r.files.AddFunc(name, server.Tool{}, func(context.Context, *server.Request, json.RawMessage) (mcp.Result, error) { return nil, e })
	}
	r.settle(t, "files__odd", "files__forbids")
	odd := r.post(t, restPath+"/tools/files__odd", `{}`)
	if p := odd.problem(t); odd.status != http.StatusUnprocessableEntity || p.Type != "invalid_params" || p.Detail != "x must be odd" {
		t.Errorf("arguments that the server does not take: %d %s", odd.status, odd.body)
	}
	forbids := r.post(t, restPath+"/tools/files__forbids", `{}`)
	if p := forbids.problem(t); forbids.status != http.StatusBadGateway || p.Type != "server_error" || string(p.Error) != `{"code":-32603,"message":"no","data":{"type":"FORBIDDEN"}}` {
		t.Errorf("an error of the server: %d %s", forbids.status, forbids.body)
	}
	p := r.post(t, call("files", "odd"), `{}`).proxied(t)
	if p.Success || p.IsError || *p.Error != "x must be odd" {
		t.Errorf("the proxy says %+v", p)
	}
}
