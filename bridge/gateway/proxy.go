package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge/internal/frontend"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// Proxy returns a handler for generated code in sandboxes. Programs call tools by the name of
// the server and the name of the tool there:
//
//	POST /{server}/tools/{tool}  {"arguments":{…}}
//	GET  /servers
//	GET  /health
//
// The paths are relative to the mount point; use http.StripPrefix. The name of a tool may
// contain slashes. Missing arguments, and null, mean {}. The response to a call has the status
// 200 and four members:
//
//	{"success":true,"result":…,"error":null,"is_error":false}
//
// If is_error is true, the tool reported a failure. If success and is_error are both false, the
// tool returned no result, and error says why. The result is the text of the tool's result, its
// blocks joined by line breaks, or the complete content if there is no text. With
// ?result=structured it is the structured content, if there is some, and with ?result=full the
// complete CallToolResult.
//
// Other errors have the form {"detail":…}: 404 for a server that does not exist, or whose tools
// the caller may not call; 503 for a server that does not run; 400 for a malformed body. The
// detail names only servers with tools that the caller may call.
//
// With ?wait=1, for calls that may wait long for a person, the status of a response to a call is 200 whatever the outcome,
// and a space is sent every 15 seconds until the response, so that no proxy or client ends an idle connection. A
// response without a result then has two more members: code is the outcome as in an [Audit], and executed is "maybe" if
// the call may have been executed, and otherwise "no".
//
// /servers lists the servers with the tools that the caller may call, and with ?schema=1 also
// their input schemas.
func (g *Gateway) Proxy() http.Handler { return g.frontend.Handler(frontend.WriteDetail, g.serveProxy) }

func (g *Gateway) serveProxy(w http.ResponseWriter, r *http.Request) {
	reject := frontend.Reject(frontend.WriteDetail)
	switch path := segments(r); {
	case len(path) >= 3 && path[1] == "tools":
		if reject.Allows(w, r, http.MethodPost) {
			g.proxyCall(w, r, path[0], strings.Join(path[2:], "/"))
		}
	case slices.Equal(path, []string{"servers"}):
		if reject.Allows(w, r, http.MethodGet) {
			g.proxyServers(w, r)
		}
	case slices.Equal(path, []string{"health"}):
		if reject.Allows(w, r, http.MethodGet) {
			frontend.WriteJSON(w, http.StatusOK, []byte(`{"status":"ok"}`))
		}
	default:
		reject.Unread(w, r, http.StatusNotFound, "Not Found")
	}
}

func (g *Gateway) proxyCall(w http.ResponseWriter, r *http.Request, alias, own string) {
	reject := frontend.Reject(frontend.WriteDetail)
	reduce, ok := reductions[r.URL.Query().Get("result")]
	if !ok {
		reject.Unread(w, r, http.StatusBadRequest, "the parameter result must be text, structured or full")
		return
	}
	body, ok := g.frontend.Body(w, r, reject)
	if !ok {
		return
	}
	arguments, problem := readArguments(body)
	if problem != "" {
		frontend.WriteDetail(w, http.StatusBadRequest, problem)
		return
	}
	wait := r.URL.Query().Get("wait") == "1"
	if wait {
		p := startPulse(w)
		defer p.stop()
		w = p
	}
	a, pseudo, failed := g.callByServerName(r.Context(), alias, own, arguments)
	if failed == nil {
		if reduce == nil && pseudo {
			reduce = reduceStructured // the value that the function returned
		} else if reduce == nil {
			reduce = reduceText
		}
		frontend.WriteJSON(w, http.StatusOK, a.proxied(reduce))
		return
	}
	status, message := g.proxyFailure(r.Context(), alias, pseudo, failed)
	switch {
	case status != http.StatusOK && !wait:
		frontend.WriteDetail(w, status, message)
	default:
		out := proxyError{Error: message}
		if wait {
			out.Code, out.Executed = failed.Code, "no"
			if failed.MaybeExecuted() {
				out.Executed = "maybe"
			}
		}
		frontend.WriteJSON(w, http.StatusOK, frontend.Encode(out))
	}
}

// A proxyError is the response to a call without a result.
type proxyError struct {
	Success  bool            `json:"success"`
	Result   json.RawMessage `json:"result"`
	Error    string          `json:"error"`
	IsError  bool            `json:"is_error"`
	Code     string          `json:"code,omitempty"`
	Executed string          `json:"executed,omitempty"`
}

// proxyFailure returns the status and the message for a call without a result.
func (g *Gateway) proxyFailure(ctx context.Context, alias string, pseudo bool, failed *frontend.Failure) (status int, message string) {
	if !pseudo && (failed.Code == frontend.UnknownTool || failed.Code == frontend.Forbidden) {
		servers, unlisted := g.visible(context.WithValue(ctx, listedForKey{}, mcp.MethodToolsCall))
		switch {
		case unlisted != nil:
			return unlisted.Status, unlisted.Message
		case !slices.ContainsFunc(servers, func(s visibleServer) bool { return s.alias == alias }):
			return http.StatusNotFound, notRunning(alias, servers)
		}
	}
	switch {
	case failed.Code == frontend.Unavailable, failed.Code == frontend.UnknownTool && !pseudo && !g.servers.AcceptsCalls(alias):
		return http.StatusServiceUnavailable, "MCP server '" + approval.Printable(frontend.Truncate(alias)) + "' has no active session"
	case failed.Code == frontend.Internal:
		return failed.Status, failed.Message
	}
	return http.StatusOK, failed.Message
}

// errNoSuchTool is the failure of a call of a tool that does not exist.
var errNoSuchTool = &frontend.Failure{Code: frontend.UnknownTool, Status: http.StatusNotFound, Message: "there is no such tool"}

// callByServerName calls a tool by its server and the name there.
func (g *Gateway) callByServerName(ctx context.Context, alias, own string, arguments json.RawMessage) (a *toolResult, pseudo bool, failed *frontend.Failure) {
	ctx, cancel := g.frontend.Timeout(ctx)
	defer cancel()
	name, pseudo, ok := g.servers.Find(ctx, alias, own)
	if !ok {
		return nil, false, errNoSuchTool
	}
	result, failed := g.call(ctx, name, arguments)
	if failed == nil {
		a, failed = readToolResult(result)
	}
	return a, pseudo, failed
}

// readArguments reads the body of a call. problem describes what is wrong.
func readArguments(body []byte) (arguments json.RawMessage, problem string) {
	members, err := jsonscan.ReadObject(body)
	if err != nil {
		return nil, `expected {"arguments":{…}}: ` + err.Error()
	}
	return argumentsOf(&members)
}

// argumentsOf returns the arguments in the body of a call, {} for none.
func argumentsOf(members *jsonscan.Members) (arguments json.RawMessage, problem string) {
	arguments = members.Get("arguments")
	for m := range members.All() {
		if name := m.Name(); name != "arguments" && strings.EqualFold(name, "arguments") {
			return nil, "the member " + jsonscan.Quote(name) + " must be arguments, in lower case"
		}
	}
	switch jsonscan.KindOf(arguments) {
	case jsonscan.EOF, jsonscan.Null:
		return json.RawMessage("{}"), ""
	case jsonscan.Object:
		return arguments, ""
	default:
		return nil, "arguments must be an object"
	}
}

// notRunning returns the error text for an unknown server. It lists the running servers.
func notRunning(alias string, servers []visibleServer) string {
	var others []string
	for _, s := range servers {
		if s.running {
			others = append(others, "'"+s.alias+"'")
		}
	}
	return "MCP server '" + approval.Printable(frontend.Truncate(alias)) + "' is not running. Available servers: [" + strings.Join(others, ", ") + "]"
}

// A visibleServer is a server with the tools that the caller may see.
type visibleServer struct {
	alias   string
	running bool
	tools   []ownTool
}

type ownTool struct {
	name string // on its server
	tool
}

// visible returns the servers with tools that the caller may see. A server without tools is
// visible to callers from whom no tool is hidden.
func (g *Gateway) visible(ctx context.Context) ([]visibleServer, *frontend.Failure) {
	catalog := g.servers.Server.Catalog()
	tools, failed := g.list(ctx)
	if failed != nil {
		return nil, failed
	}
	of := make(map[string][]ownTool)
	for _, tool := range tools {
		if e := catalog.Lookup(mcp.KindTool, tool.name); e != nil {
			of[e.Origin.Server] = append(of[e.Origin.Server], ownTool{e.Origin.Name, tool})
		}
	}
	var servers []visibleServer
	for _, state := range g.servers.All() {
		if len(of[state.Alias]) > 0 || !g.servers.HasTools(state.Alias) && len(tools) == catalog.Len(mcp.KindTool) {
			servers = append(servers, visibleServer{state.Alias, frontend.AcceptsCalls(state), of[state.Alias]})
		}
	}
	return servers, nil
}

// A serverList is the response of /servers.
type serverList struct {
	Servers []listedServer `json:"servers"`
	Total   int            `json:"total"`
}

type listedServer struct {
	ID        string       `json:"id"`
	Name      string       `json:"name"`
	IsConfig  bool         `json:"is_config"`
	IsRunning bool         `json:"is_running"`
	Tools     []listedTool `json:"tools"`
}

type listedTool struct {
	Name        string          `json:"name"`
	Description json.RawMessage `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema,omitempty"`
}

func (g *Gateway) proxyServers(w http.ResponseWriter, r *http.Request) {
	servers, failed := g.visible(r.Context())
	if failed != nil {
		frontend.WriteDetail(w, failed.Status, failed.Message)
		return
	}
	withSchema := r.URL.Query().Get("schema") == "1"
	list := serverList{Servers: []listedServer{}, Total: len(servers)}
	for _, s := range servers {
		listed := listedServer{ID: s.alias, Name: s.alias, IsConfig: true, IsRunning: s.running, Tools: []listedTool{}}
		for _, t := range s.tools {
			entry := listedTool{Name: t.name, Description: t.member("description", `""`)}
			if withSchema {
				entry.InputSchema = t.member("inputSchema", `{"type":"object"}`)
			}
			listed.Tools = append(listed.Tools, entry)
		}
		list.Servers = append(list.Servers, listed)
	}
	frontend.WriteJSON(w, http.StatusOK, frontend.Encode(list))
}
