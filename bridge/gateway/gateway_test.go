package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/bridge/internal/frontend/frontendtest"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// TestOnePolicyOnEveryHandler: every handler lists and calls exactly what the policy allows, as
// MCP does.
func TestOnePolicyOnEveryHandler(t *testing.T) {
	rules := frontendtest.Compile(t, `{"rules":[
		{"effect":"allow","servers":["files"],"names":["read","echo","image"]},
		{"effect":"allow","servers":["wiki"],"names":["who"],"principals":["one"]},
		{"effect":"deny","names":["echo"],"principals":["two"]}]}`)
	r := newRig(t, gateway.Options{}, guarded(policy.Guard(rules, nil)))
	allowed := map[string][]string{
		"":    {"files__echo", "files__image", "files__read"},
		"one": {"files__echo", "files__image", "files__read", "wiki__who"},
		"two": {"files__image", "files__read"},
	}
	for principal, want := range allowed {
		caller := r
		if principal != "" {
			caller = r.as("a-token-of-sandbox-" + principal)
		}
		lists := map[string][]string{
			"proxy": proxyList(t, caller), "REST": restList(t, caller), "OpenAPI": documentList(t, caller),
			"MCP": mcpList(t, r, principal),
		}
		for handler, list := range lists {
			slices.Sort(list)
			if !slices.Equal(list, want) {
				t.Errorf("%s lists %q for %q, want %q", handler, list, principal, want)
			}
		}
		for _, exposed := range r.names() {
			if strings.HasSuffix(exposed, "__slow") {
				continue
			}
			may := slices.Contains(want, exposed)
			alias, own, _ := strings.Cut(exposed, "__")
			refused := map[string]bool{
				"proxy":      !served(caller.post(t, call(alias, own), `{}`)),
				"REST":       caller.post(t, restPath+"/tools/call", fmt.Sprintf(`{"name":%q}`, exposed)).status != 200,
				"REST paths": caller.post(t, restPath+"/tools/"+exposed, `{}`).status != 200,
			}
			for handler, no := range refused {
				if no == may {
					t.Errorf("%s refuses %s to %q: %t", handler, exposed, principal, no)
				}
			}
		}
	}
	denied := r.post(t, restPath+"/tools/files__stat", `{}`)
	if p := denied.problem(t); denied.status != 403 || p.Type != "forbidden" || !strings.Contains(string(p.Error), `"FORBIDDEN"`) {
		t.Errorf("what is denied: %d %s", denied.status, denied.body)
	}
	none := r.post(t, restPath+"/tools/files__stax", `{}`)
	if p := none.problem(t); none.status != 404 || p.Type != "unknown_tool" {
		t.Errorf("what is not there: %d %s", none.status, none.body)
	}
	if p := r.post(t, call("files", "stat"), `{}`).proxied(t); p.Success || p.IsError || !strings.Contains(*p.Error, "does not allow") {
		t.Errorf("what is denied, by the proxy: %+v", p)
	}
	// The caller may not call any tool of wiki, so the server is unknown.
	r.post(t, call("wiki", "read"), `{}`).wants(t, 404, `{"detail":"MCP server 'wiki' is not running. Available servers: ['files']"}`)
	r.post(t, call("none", "read"), `{}`).wants(t, 404, `{"detail":"MCP server 'none' is not running. Available servers: ['files']"}`)
	if got := r.get(t, proxyPath+"/servers"); strings.Contains(got.body, "wiki") {
		t.Errorf("a hidden server is listed: %s", got.body)
	}
}

// TestNothingAllowed: a caller without allowed tools sees no server.
func TestNothingAllowed(t *testing.T) {
	r := newRig(t, gateway.Options{}, guarded(policy.Guard(nil, nil)))
	r.get(t, proxyPath+"/servers").wants(t, 200, `{"servers":[],"total":0}`)
	r.get(t, restPath+"/tools").wants(t, 200, `{"tools":[]}`)
	r.post(t, call("files", "read"), `{}`).wants(t, 404, `{"detail":"MCP server 'files' is not running. Available servers: []"}`)
	if n := r.files.Calls.Load(); n != 0 {
		t.Errorf("%d calls were made", n)
	}
}

func served(r reply) bool {
	return r.status == 200 && (strings.Contains(r.body, `"success":true`) || strings.Contains(r.body, `"is_error":true`))
}

func proxyList(t *testing.T, r *rig) (exposed []string) {
	t.Helper()
	var list struct {
		Servers []struct {
			ID    string
			Tools []struct{ Name string }
		}
	}
	unmarshal(t, r.get(t, proxyPath+"/servers").body, &list)
	for _, s := range list.Servers {
		for _, tool := range s.Tools {
			exposed = append(exposed, s.ID+"__"+tool.Name)
		}
	}
	return exposed
}

func restList(t *testing.T, r *rig) (exposed []string) {
	t.Helper()
	var list struct{ Tools []struct{ Name string } }
	unmarshal(t, r.get(t, restPath+"/tools").body, &list)
	for _, tool := range list.Tools {
		exposed = append(exposed, tool.Name)
	}
	return exposed
}

func documentList(t *testing.T, r *rig) (exposed []string) {
	t.Helper()
	var document struct{ Paths map[string]json.RawMessage }
	unmarshal(t, r.get(t, restPath+"/openapi.json").body, &document)
	for path := range maps.Keys(document.Paths) {
		exposed = append(exposed, strings.TrimPrefix(path, "/tools/"))
	}
	return exposed
}

func mcpList(t *testing.T, r *rig, principal string) (exposed []string) {
	t.Helper()
	session, err := client.Connect(t.Context(), transport.Pipe(named{r.server, principal}), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for tool, err := range session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		exposed = append(exposed, tool.Name)
	}
	return exposed
}

// guarded returns an operator's server with guards.
func guarded(guards ...mcp.Guard) operator { return operator{Options: server.Options{Guards: guards}} }

// asking returns a guard that asks about every tool call.
func asking(t testing.TB, approver approval.Approver) mcp.Guard {
	return approval.Guard(frontendtest.Compile(t, `{"rules":[{"effect":"ask"}]}`), approver, &approval.Options{Logger: frontendtest.Quiet()})
}

// A named binder sets the principal of links.
type named struct {
	transport.Binder
	principal string
}

func (n named) Bind(link transport.Link) jsonrpc.Handler {
	link.Principal = n.principal
	return n.Binder.Bind(link)
}

func unmarshal(t testing.TB, text string, to any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), to); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

// ways are requests of each handler that call files__echo.
var ways = map[string]struct{ path, body string }{
	"proxy":      {call("files", "echo"), `{"arguments":{ "a" : 1.0 }}`},
	"REST":       {restPath + "/tools/call", `{"name":"files__echo","arguments":{ "a" : 1.0 }}`},
	"REST paths": {restPath + "/tools/files__echo", `{ "a" : 1.0 }`},
}

// TestApprovalOnEveryHandler: the approver sees the exact arguments, and the call runs once or
// not at all.
func TestApprovalOnEveryHandler(t *testing.T) {
	for handler, way := range ways {
		t.Run(handler, func(t *testing.T) {
			asked := make(chan *approval.Prompt, 10)
			show := approval.Callback(func(_ context.Context, p *approval.Prompt) { asked <- p })
			r := &rig{files: newUpstream(), token: aToken}
			files := frontendtest.To("files", r.files)
			files.Launch = "launch of files"
			r.bridge = frontendtest.Bridge(t, files)
			r.serve(t, gateway.Options{CallTimeout: time.Minute}, guarded(asking(t, show)))
			answered := make(chan reply)
			begin := func() *approval.Prompt {
				go func() { answered <- r.as(frontendtest.TokenOne).post(t, way.path, way.body) }()
				return <-asked
			}
			p := begin()
			digest, _ := p.ToolDigest, p.Launch
			if p.Server != "files" || p.Tool != "echo" || p.Launch != "launch of files" || len(digest) != 64 ||
				string(p.Arguments) != `{ "a" : 1.0 }` || p.Caller != "one" {
				t.Errorf("what is asked: %+v %s", p.Target, p.Arguments)
			}
			if n := r.files.Calls.Load(); n != 0 {
				t.Fatalf("%d calls were made before anybody answered", n)
			}
			p.Accept(t.Context())
			if got := waittest.Receive(t, "the answer", answered); got.status != 200 || !strings.Contains(got.body, `{ \"a\" : 1.0 }`) {
				t.Errorf("approved: %d %s", got.status, got.body)
			}
			begin().Reject(t.Context(), "not today")
			got := waittest.Receive(t, "the answer", answered)
			if handler == "proxy" {
				if p := got.proxied(t); p.Success || p.IsError || *p.Error != "Approval request for files.echo rejected: not today" {
					t.Errorf("rejected: %+v", p)
				}
			} else if p := got.problem(t); got.status != 403 || p.Type != "rejected" || p.Detail != "Approval request for files.echo rejected: not today" {
				t.Errorf("rejected: %+v", p)
			}
			if n := r.files.Calls.Load(); n != 1 {
				t.Errorf("%d calls were made", n)
			}
			// An unknown tool is not put up for approval.
			other := strings.NewReplacer("files__echo", "files__ecco", "/echo", "/ecco")
			if got := r.post(t, other.Replace(way.path), other.Replace(way.body)); served(got) || len(asked) != 0 {
				t.Errorf("what is not there: %d %s, and %d were asked", got.status, got.body, len(asked))
			}
		})
	}
}

// TestDisconnectBeforeApproval: when the client disconnects, the request is withdrawn and
// nothing runs.
func TestDisconnectBeforeApproval(t *testing.T) {
	for handler, way := range ways {
		t.Run(handler, func(t *testing.T) {
			asked, withdrawn, over := make(chan struct{}), make(chan error, 1), make(chan struct{})
			wait := approval.ApproverFunc(func(ctx context.Context, _ *approval.Request) (approval.Answer, error) {
				close(asked)
				<-ctx.Done()
				withdrawn <- context.Cause(ctx)
				return approval.Answer{Approved: true}, nil // too late
			})
			ends := func(next mcp.Handler) mcp.Handler {
				return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
					defer close(over)
					return next(ctx, call)
				}
			}
			r := newRig(t, gateway.Options{}, operator{Options: server.Options{Middleware: []mcp.Middleware{ends}, Guards: []mcp.Guard{asking(t, wait)}}})
			r.leave(t, way.path, way.body, asked)
			waittest.Receive(t, "the withdrawal", withdrawn)
			waittest.Receive(t, "the end of the call", over)
			if n := r.files.Calls.Load(); n != 0 {
				t.Errorf("%d calls were made", n)
			}
		})
	}
}

// TestDisconnectDuringCall: when the client disconnects, the upstream call is canceled.
func TestDisconnectDuringCall(t *testing.T) {
	for handler, way := range map[string]struct{ path, body string }{
		"proxy":      {call("files", "slow"), `{}`},
		"REST":       {restPath + "/tools/call", `{"name":"files__slow"}`},
		"REST paths": {restPath + "/tools/files__slow", `{}`},
	} {
		t.Run(handler, func(t *testing.T) {
			r := newRig(t, gateway.Options{}, operator{})
			r.leave(t, way.path, way.body, r.files.Entered)
			waittest.Receive(t, "the end of the request for a file", r.files.Left)
		})
	}
}

// leave makes a call, and disconnects when the channel is ready.
func (r *rig) leave(t *testing.T, path, body string, when <-chan struct{}) {
	t.Helper()
	ctx, hangUp := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := (&http.Client{}).Do(r.request(t, "POST", path, body).WithContext(ctx))
		ended <- err
	}()
	<-when
	hangUp()
	<-ended
}

// TestCallTimeout: a call ends after CallTimeout.
func TestCallTimeout(t *testing.T) {
	waits := func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	r := newRig(t, gateway.Options{CallTimeout: 20 * time.Millisecond}, operator{pseudo: map[string]gateway.ToolFunc{"skills": waits}})
	if got := r.post(t, restPath+"/tools/skills__wait", `{}`); got.status != 504 || got.problem(t).Type != "timeout" {
		t.Errorf("a function: %d %s", got.status, got.body)
	}
	got := r.post(t, restPath+"/tools/files__slow", `{}`)
	if p := got.problem(t); got.status != 504 || p.Type != "timeout" {
		t.Errorf("the answer is %d %s", got.status, got.body)
	}
	waittest.Receive(t, "the end of the request for a file", r.files.Left)
	if p := r.post(t, call("files", "slow"), `{}`).proxied(t); p.Success || p.IsError || !strings.Contains(*p.Error, "too long") {
		t.Errorf("the proxy says %+v", p)
	}
	waittest.Receive(t, "the end of the request for a file", r.files.Left)
}

// TestApprovalPausesTheTimeout: approval may take longer than CallTimeout.
func TestApprovalPausesTheTimeout(t *testing.T) {
	slow := approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) {
		<-time.After(600 * time.Millisecond)
		return approval.Answer{Approved: true}, nil
	})
	r := newRig(t, gateway.Options{CallTimeout: 300 * time.Millisecond}, guarded(asking(t, slow)))
	if got := r.post(t, restPath+"/tools/files__echo", `{}`); got.status != 200 {
		t.Errorf("the answer is %d %s", got.status, got.body)
	}
}

// TestHiddenTools: a tool that a guard hides is unknown on every handler and not in the
// document.
func TestHiddenTools(t *testing.T) {
	hides := mcp.Guard{Name: "hides", Visible: func(_ context.Context, c *mcp.Caller, t *mcp.Target) bool {
		return c.Principal == "one" || t.Origin.Name != "read"
	}}
	r := newRig(t, gateway.Options{}, guarded(hides))
	for _, page := range []string{proxyPath + "/servers", restPath + "/tools", restPath + "/openapi.json"} {
		for token, sees := range map[string]bool{frontendtest.TokenOne: true, frontendtest.TokenTwo: false} {
			if got := r.as(token).get(t, page); strings.Contains(got.body, "Reads a file.") != sees {
				t.Errorf("%s for %s is %s", page, token, got.body)
			}
		}
	}
	for _, path := range []string{"/tools/files__read", "/tools/files__none"} {
		got := r.post(t, restPath+path, `{}`)
		if p := got.problem(t); got.status != 404 || p.Type != "unknown_tool" {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	hidden, none := r.post(t, call("files", "read"), `{}`), r.post(t, call("files", "none"), `{}`)
	if hidden.status != none.status || strings.ReplaceAll(hidden.body, "read", "none") != none.body {
		t.Errorf("by the proxy: %s, and what is not there: %s", hidden.body, none.body)
	}
	if n := r.files.Calls.Load(); n != 0 {
		t.Errorf("%d calls were made", n)
	}
	if got := r.as(frontendtest.TokenOne).post(t, restPath+"/tools/files__read", `{}`); got.status != 200 {
		t.Errorf("who may see it: %d %s", got.status, got.body)
	}
}

// TestRefusals: an error of a guard has the code forbidden, and the text of a *jsonrpc.Error is
// passed on.
func TestRefusals(t *testing.T) {
	for detail, refusal := range map[string]error{
		"Guard 'g' denied the tool call for 'files__read'": errTest,
		"try again tomorrow": &jsonrpc.Error{Code: -32050, Message: "try again tomorrow"},
	} {
		r := newRig(t, gateway.Options{}, guarded(mcp.Guard{Name: "g", Check: func(context.Context, *mcp.Call) error { return refusal }}))
		got := r.post(t, restPath+"/tools/files__read", `{}`)
		if p := got.problem(t); got.status != 403 || p.Type != "forbidden" || p.Detail != detail {
			t.Errorf("%v: %d %s", refusal, got.status, got.body)
		}
	}
}

// TestPages: all pages of a list are read.
func TestPages(t *testing.T) {
	r := newRig(t, gateway.Options{}, operator{Options: server.Options{PageSize: 3}})
	if list := restList(t, r); len(list) != 20 {
		t.Errorf("listed are %q", list)
	}
}

// TestShutdownWaitsForRequests: Shutdown waits for current requests and rejects new ones.
func TestShutdownWaitsForRequests(t *testing.T) {
	r := newRig(t, gateway.Options{}, operator{})
	ctx, leave := context.WithCancel(t.Context())
	served := make(chan error, 1)
	request := r.request(t, "POST", call("files", "slow"), `{}`).WithContext(ctx)
	go func() {
		res, err := http.DefaultClient.Do(request)
		if err == nil {
			err = res.Body.Close()
		}
		served <- err
	}()
	waittest.Receive(t, "the request for a file", r.files.Entered)

	late, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		if err := r.gateway.Shutdown(late); !errors.Is(err, context.Canceled) {
			t.Errorf("shut down with a call under way: %v", err)
		}
	}
	if got := r.post(t, call("files", "read"), `{}`); got.status != http.StatusServiceUnavailable {
		t.Errorf("a request after that: %d %s", got.status, got.body)
	}
	leave()
	waittest.Receive(t, "the end of the request for a file", r.files.Left)
	if err := r.gateway.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := waittest.Receive(t, "the end of serving", served); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := r.gateway.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
