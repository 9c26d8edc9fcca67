package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/internal/frontend"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// Proxy returns a handler for programs in sandboxes whose generated code calls tools by the names
// of their servers:
//
//	POST /{server}/tools/{tool}  {"arguments":{…}}
//	GET  /servers
//	GET  /health
//
// The paths are those after the place where the handler is mounted, by http.StripPrefix. A
// tool has the name that its server has for it, which may contain slashes. Arguments that are
// missing or null are {}. An answer to a call has status 200 and four members:
//
//	{"success":true,"result":…,"error":null,"is_error":false}
//
// If is_error is true, the tool itself reported a failure. If only success is false, the tool
// has not answered, and error says why. The result is the text of the tool's answer, its blocks
// joined by line breaks, or all of its content if none is text. With ?result=structured it is the
// structured content, if the answer has some, and with ?result=full the whole CallToolResult.
//
// Other requests are answered by {"detail":…}: 404 for a server that does not exist, or of which
// the caller may call nothing; 503 for one that does not run; 400 for a malformed body. The
// detail names only servers of which the caller may call something.
//
// /servers lists servers with the tools that the caller may call, and with ?schema=1 their input
// schemas too.
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
	a, pseudo, failed := g.callOwn(r.Context(), alias, own, arguments)
	if failed == nil {
		if reduce == nil && pseudo {
			reduce = reduceStructured // the value of the function
		} else if reduce == nil {
			reduce = reduceText
		}
		frontend.WriteJSON(w, http.StatusOK, a.proxied(reduce))
		return
	}
	if !pseudo && (failed.Kind == frontend.UnknownTool || failed.Kind == frontend.Forbidden) {
		servers, unlisted := g.visible(context.WithValue(r.Context(), madeFor{}, mcp.MethodToolsCall))
		switch {
		case unlisted != nil:
			frontend.WriteDetail(w, unlisted.Status, unlisted.Message)
			return
		case !slices.ContainsFunc(servers, func(s shown) bool { return s.alias == alias }):
			frontend.WriteDetail(w, http.StatusNotFound, notRunning(alias, servers))
			return
		}
	}
	switch {
	case failed.Kind == frontend.Unavailable, failed.Kind == frontend.UnknownTool && !pseudo && !g.servers.Takes(alias):
		frontend.WriteDetail(w, http.StatusServiceUnavailable, "MCP server '"+approval.Printable(frontend.Cut(alias))+"' has no active session")
	case failed.Kind == frontend.Internal:
		frontend.WriteDetail(w, failed.Status, failed.Message)
	default:
		frontend.WriteJSON(w, http.StatusOK, frontend.Encode(struct {
			Success bool            `json:"success"`
			Result  json.RawMessage `json:"result"`
			Error   string          `json:"error"`
			IsError bool            `json:"is_error"`
		}{Error: failed.Message}))
	}
}

// errNotThere is the failure of a call by the name of another tool, or of no server.
var errNotThere = &frontend.Failure{Kind: frontend.UnknownTool, Status: http.StatusNotFound, Message: "there is no such tool"}

// callOwn calls a tool by the name that its server has for it.
func (g *Gateway) callOwn(ctx context.Context, alias, own string, arguments json.RawMessage) (a *answer, pseudo bool, failed *frontend.Failure) {
	ctx, cancel := g.frontend.Timeout(ctx)
	defer cancel()
	name, pseudo, ok := g.servers.Find(ctx, alias, own)
	if !ok {
		return nil, false, errNotThere
	}
	result, failed := g.call(ctx, name, arguments)
	if failed == nil {
		a, failed = readAnswer(result)
	}
	return a, pseudo, failed
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
	return "MCP server '" + approval.Printable(frontend.Cut(alias)) + "' is not running. Available servers: [" + strings.Join(others, ", ") + "]"
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

// visible returns the servers of which the caller may call something. A server without tools
// is visible to callers from whom no tool is hidden.
func (g *Gateway) visible(ctx context.Context) ([]shown, *frontend.Failure) {
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
	var servers []shown
	for _, state := range g.servers.All() {
		if len(of[state.Alias]) > 0 || !g.servers.HasTools(state.Alias) && len(tools) == catalog.Len(mcp.KindTool) {
			servers = append(servers, shown{state.Alias, frontend.TakesCalls(state), of[state.Alias]})
		}
	}
	return servers, nil
}

// A serverList is the answer to /servers.
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
