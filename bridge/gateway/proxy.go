package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// Proxy has servers called by their names, for programs in sandboxes whose generated code
// calls tools:
//
//	POST /{server}/tools/{tool}  {"arguments":{…}}
//	GET  /servers
//	GET  /health
//
// The paths are those after the place where the handler is mounted, by http.StripPrefix. A
// tool has the name that its server has for it, which may hold slashes. Arguments that are
// missing or null are {}. An answer to a call has status 200 and four members:
//
//	{"success":true,"result":…,"error":null,"is_error":false}
//
// If is_error is true, the tool itself reported a failure; if only success is false, there
// was no answer of the tool, and error says why. The result is the text of the tool's answer,
// its blocks joined by line breaks, or all of its content if none is text. With
// ?result=structured it is the structured content, if there is some, and with ?result=full
// the whole CallToolResult as it came.
//
// Requests that are no calls are answered by {"detail":…}: 404 for a server that is not there,
// or of which the caller may call nothing; 503 for one that does not run; 400 for a body that
// is none. Other servers are named only to who may call something of them.
//
// /servers lists servers with the tools that the caller may call, and with ?schema=1 their
// input schemas too. If they cannot be listed, it is answered by {"detail":…} as well.
func (g *Gateway) Proxy() http.Handler { return g.face(writeDetail, g.serveProxy) }

func writeDetail(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, append(jsonscan.AppendString([]byte(`{"detail":`), message), '}'))
}

func (g *Gateway) serveProxy(w http.ResponseWriter, r *http.Request) {
	switch path := segments(r); {
	case len(path) >= 3 && path[1] == "tools":
		if allows(w, r, writeDetail, http.MethodPost) {
			g.proxyCall(w, r, path[0], strings.Join(path[2:], "/"))
		}
	case slices.Equal(path, []string{"servers"}):
		if allows(w, r, writeDetail, http.MethodGet) {
			g.proxyServers(w, r)
		}
	case slices.Equal(path, []string{"health"}):
		if allows(w, r, writeDetail, http.MethodGet) {
			writeJSON(w, http.StatusOK, []byte(`{"status":"ok"}`))
		}
	default:
		refuser(writeDetail).turnAway(w, r, http.StatusNotFound, "Not Found")
	}
}

func (g *Gateway) proxyCall(w http.ResponseWriter, r *http.Request, alias, own string) {
	pseudo := g.directory.opts.Pseudo[alias] != nil
	mode := r.URL.Query().Get("result")
	if mode == "" && pseudo {
		mode = "structured" // which is the function's value
	}
	reduce, ok := reductions[mode]
	if !ok {
		refuser(writeDetail).turnAway(w, r, http.StatusBadRequest, "the parameter result must be text, structured or full")
		return
	}
	body, ok := g.body(w, r, writeDetail)
	if !ok {
		return
	}
	arguments, problem := readArguments(body)
	if problem != "" {
		writeDetail(w, http.StatusBadRequest, problem)
		return
	}
	a, failed := g.callOwn(r.Context(), alias, own, arguments)
	if failed == nil {
		writeJSON(w, http.StatusOK, a.proxied(reduce))
		return
	}
	if !pseudo && (failed == errNotThere || failed.kind == kindForbidden) {
		servers, unlisted := g.visible(context.WithValue(r.Context(), madeFor{}, mcp.MethodToolsCall))
		switch {
		case unlisted != nil:
			writeDetail(w, unlisted.status, unlisted.message)
			return
		case !slices.ContainsFunc(servers, func(s shown) bool { return s.alias == alias }):
			writeDetail(w, http.StatusNotFound, notRunning(alias, servers))
			return
		}
	}
	switch {
	case failed.kind == kindUnavailable, failed.kind == kindUnknown && !g.directory.runs(alias) && !pseudo:
		writeDetail(w, http.StatusServiceUnavailable, "MCP server '"+approval.Printable(cut(alias))+"' has no active session")
	case failed.kind == kindInternal:
		writeDetail(w, failed.status, failed.message)
	default:
		answer := jsonscan.AppendString([]byte(`{"success":false,"result":null,"error":`), failed.message)
		writeJSON(w, http.StatusOK, append(answer, `,"is_error":false}`...))
	}
}

// errNotThere is of a tool of a server that is not there, or whose name is that of another tool.
var errNotThere = &failure{kindUnknown, http.StatusNotFound, "there is no such tool", nil}

// callOwn calls a tool by the name that its server has for it.
func (g *Gateway) callOwn(ctx context.Context, alias, own string, arguments json.RawMessage) (*answer, *failure) {
	exposed, ok := g.directory.exposed(alias, own)
	if !ok || !g.directory.knows(alias) {
		return nil, errNotThere
	}
	result, failed := g.call(ctx, exposed, arguments)
	if failed != nil {
		return nil, failed
	}
	return readAnswer(result)
}

// readArguments reads the body of a call. problem says what it should have been.
func readArguments(body []byte) (arguments json.RawMessage, problem string) {
	members, err := jsonscan.ReadObject(body)
	if err != nil {
		return nil, `expected {"arguments":{…}}: ` + err.Error()
	}
	return argumentsOf(&members)
}

// argumentsOf are those in the body of a call, {} if there are none.
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

// notRunning says that a server is not there, and which ones are.
func notRunning(alias string, servers []shown) string {
	var others []string
	for _, s := range servers {
		if s.running {
			others = append(others, "'"+s.alias+"'")
		}
	}
	return "MCP server '" + approval.Printable(cut(alias)) + "' is not running. Available servers: [" + strings.Join(others, ", ") + "]"
}

// shown is a server as one caller sees it.
type shown struct {
	alias   string
	running bool
	tools   []ownTool
}

type ownTool struct {
	name string // that the server has for it
	tool
}

// visible are the servers of which the caller may call something. One that has no tools is
// shown to those from whom none is hidden.
func (g *Gateway) visible(ctx context.Context) ([]shown, *failure) {
	t := g.directory.now()
	tools, failed := g.list(ctx)
	if failed != nil {
		return nil, failed
	}
	of := make(map[string][]ownTool)
	for _, tool := range tools {
		if e := t.entries[toolKey(tool.name)]; e != nil {
			of[e.target.Origin.Server] = append(of[e.target.Origin.Server], ownTool{e.target.Origin.Name, tool})
		}
	}
	has := make(map[string]bool)
	for name := range t.names {
		has[name.alias] = true
	}
	var servers []shown
	for _, state := range g.directory.states() {
		if len(of[state.Alias]) > 0 || !has[state.Alias] && len(tools) == len(t.names) {
			servers = append(servers, shown{state.Alias, takesCalls(state), of[state.Alias]})
		}
	}
	return servers, nil
}

func (g *Gateway) proxyServers(w http.ResponseWriter, r *http.Request) {
	servers, failed := g.visible(r.Context())
	if failed != nil {
		writeDetail(w, failed.status, failed.message)
		return
	}
	schema := r.URL.Query().Get("schema") == "1"
	out := []byte(`{"servers":[`)
	for i, s := range servers {
		if i > 0 {
			out = append(out, ',')
		}
		alias := jsonscan.AppendString(nil, s.alias)
		out = append(append(append(append(out, `{"id":`...), alias...), `,"name":`...), alias...)
		out = strconv.AppendBool(append(out, `,"is_config":true,"is_running":`...), s.running)
		out = append(out, `,"tools":[`...)
		for j, t := range s.tools {
			if j > 0 {
				out = append(out, ',')
			}
			out = jsonscan.AppendString(append(out, `{"name":`...), t.name)
			out = append(append(out, `,"description":`...), t.member("description", `""`)...)
			if schema {
				out = append(append(out, `,"inputSchema":`...), t.member("inputSchema", `{"type":"object"}`)...)
			}
			out = append(out, '}')
		}
		out = append(out, "]}"...)
	}
	out = strconv.AppendInt(append(out, `],"total":`...), int64(len(servers)), 10)
	writeJSON(w, http.StatusOK, append(out, '}'))
}
