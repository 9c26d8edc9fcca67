package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/internal/frontend"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// RESTOptions configure [Gateway.REST]. The zero value is good.
type RESTOptions struct {
	// Title, Description and Version are those of the OpenAPI document. By default "Tools",
	// nothing and "1".
	Title, Description, Version string
	// URL is where the handler is reached, for the document. By default it is where the
	// document is.
	URL string
}

// REST returns a handler that calls tools by the names that they have over MCP, and describes them:
//
//	GET  /tools         {"tools":[…]}, as MCP's tools/list has them
//	POST /tools/call    {"name":"…","arguments":{…}}: the CallToolResult as it came
//	POST /tools/{name}  the arguments, or no body for none: the tool's structured content
//	                    if it declares some, else the CallToolResult
//	GET  /openapi.json  OpenAPI 3.1 of the tools, with a path for each
//
// The paths are those after the place where the handler is mounted, by http.StripPrefix.
// Lists and the document have the tools that the caller may see. The document's operations
// have the tools' names as their operationId. Schemas are as the servers write them, except for
// spaces between tokens, and references within them.
//
// Errors are application/problem+json (RFC 9457). The last part of their type says what
// happened, as the outcome in an [Audit] does; error is what callers over MCP would get.
// A failure that the tool itself reports is an answer like any other for /tools/call, and
// for /tools/{name} the problem tool_error (422), with the CallToolResult as its result.
// Other statuses:
//
//	400  the request is no call
//	403  a guard, such as a policy, or a person does not allow the call
//	404  there is no such tool, or the caller may not see it
//	409  what was approved is not what would run, or the call has a question to its caller
//	422  the server does not take the arguments
//	429  too many of the caller's calls wait for a person
//	500  the call failed here; the log has the reference that the detail contains
//	502  the server is not available, or has answered with an error or with an invalid result
//	503  the server, or this one, is busy; or no approver is available
//	504  the server, or a person who was asked, has not answered in time
func (g *Gateway) REST(opts *RESTOptions) http.Handler {
	f := &restFrontend{gateway: g}
	if opts != nil {
		f.opts = *opts
	}
	return g.frontend.Handler(writeProblem, f.serve)
}

// A restFrontend serves clients of REST services.
type restFrontend struct {
	gateway *Gateway
	opts    RESTOptions
}

func (f *restFrontend) serve(w http.ResponseWriter, r *http.Request) {
	reject := frontend.Reject(writeProblem)
	switch path := segments(r); {
	case slices.Equal(path, []string{"tools"}):
		if reject.Allows(w, r, http.MethodGet) {
			f.list(w, r)
		}
	case slices.Equal(path, []string{"openapi.json"}):
		if reject.Allows(w, r, http.MethodGet) {
			f.document(w, r)
		}
	case len(path) == 2 && path[0] == "tools":
		if reject.Allows(w, r, http.MethodPost) {
			f.post(w, r, path[1])
		}
	default:
		reject.Unread(w, r, http.StatusNotFound, "there is nothing here")
	}
}

func (f *restFrontend) list(w http.ResponseWriter, r *http.Request) {
	tools, failed := f.gateway.list(r.Context())
	if failed != nil {
		writeFailure(w, failed, nil)
		return
	}
	out := []byte(`{"tools":[`)
	for i, t := range tools {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, t.raw...)
	}
	frontend.WriteJSON(w, http.StatusOK, append(out, "]}"...))
}

func (f *restFrontend) post(w http.ResponseWriter, r *http.Request, name string) {
	body, ok := []byte("{}"), true
	if r.ContentLength != 0 || name == callSegment {
		body, ok = f.gateway.frontend.Body(w, r, writeProblem)
	}
	if !ok {
		return
	}
	if name == callSegment {
		f.call(w, r, body)
		return
	}
	if _, err := jsonscan.ReadObject(body); err != nil {
		writeProblem(w, http.StatusBadRequest, "expected the arguments, an object: "+err.Error())
		return
	}
	declares := f.declaresOutput(name)
	result, failed := f.callTool(r.Context(), name, body)
	if failed != nil {
		writeFailure(w, failed, nil)
		return
	}
	a, failed := readAnswer(result)
	switch {
	case failed != nil:
		writeFailure(w, failed, nil)
	case a.isError:
		message := "the tool failed without saying why"
		if text := a.text(); text != nil {
			message = jsonscan.Unquote(text)
		}
		writeFailure(w, &frontend.Failure{Kind: outcomeToolError, Status: http.StatusUnprocessableEntity, Message: message}, result)
	case declares && a.structured == nil:
		writeFailure(w, &frontend.Failure{Kind: frontend.Malformed, Status: http.StatusBadGateway, Message: "the tool declares structured content, and gave none; the call was executed"}, result)
	case declares:
		frontend.WriteJSON(w, http.StatusOK, a.structured)
	default:
		frontend.WriteJSON(w, http.StatusOK, result)
	}
}

// callSegment takes the place of a tool's name in the path of the general call.
const callSegment = "call"

// call answers the general call.
func (f *restFrontend) call(w http.ResponseWriter, r *http.Request, body []byte) {
	name, arguments, problem := readCall(body)
	if problem != "" {
		writeProblem(w, http.StatusBadRequest, problem)
		return
	}
	result, failed := f.callTool(r.Context(), name, arguments)
	if failed != nil {
		writeFailure(w, failed, nil)
		return
	}
	frontend.WriteJSON(w, http.StatusOK, result)
}

// readCall reads the body of the general call. problem says what it should have been.
func readCall(body []byte) (name string, arguments json.RawMessage, problem string) {
	const expected = `expected {"name":"…","arguments":{…}}`
	members, err := jsonscan.ReadObject(body)
	if err != nil {
		return "", nil, expected + ": " + err.Error()
	}
	for m := range members.All() {
		if !jsonscan.KeyIs(m.Key, "name") && !jsonscan.KeyIs(m.Key, "arguments") {
			return "", nil, expected + ", and no member " + jsonscan.Quote(m.Name())
		}
	}
	if jsonscan.KindOf(members.Get("name")) != jsonscan.String {
		return "", nil, expected + ": name must be a string"
	}
	arguments, problem = argumentsOf(&members)
	return jsonscan.Unquote(members.Get("name")), arguments, problem
}

// callTool calls a tool within the time of a call.
func (f *restFrontend) callTool(ctx context.Context, name string, arguments json.RawMessage) (json.RawMessage, *frontend.Failure) {
	ctx, cancel := f.gateway.frontend.Timeout(ctx)
	defer cancel()
	return f.gateway.call(ctx, name, arguments)
}

// declaresOutput reports whether a tool declares its structured content.
func (f *restFrontend) declaresOutput(name string) bool {
	e := f.gateway.servers.Server.Catalog().Lookup(mcp.KindTool, name)
	if e == nil {
		return false
	}
	t, ok := newTool(e.Definition.JSON())
	return ok && t.output() != nil
}

// problemType begins the type of each problem. It is a name, and leads nowhere (RFC 4151).
const problemType = "tag:dovetail-go.github.io,2026:problem/"

// A problem is an error as of RFC 9457.
type problem struct {
	Type   string          `json:"type"`
	Title  string          `json:"title"`
	Status int             `json:"status"`
	Detail string          `json:"detail"`
	Error  json.RawMessage `json:"error,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// writeFailure answers a request with a problem. result may be nil.
func writeFailure(w http.ResponseWriter, f *frontend.Failure, result json.RawMessage) {
	p := problem{problemType + f.Kind, strings.ReplaceAll(f.Kind, "_", " "), f.Status, f.Message, nil, result}
	if f.Wire != nil {
		if told, err := f.Wire.AppendJSON(nil); err == nil {
			p.Error = told
		}
	}
	if f.Status == http.StatusServiceUnavailable || f.Status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	frontend.Write(w, f.Status, "application/problem+json", frontend.Encode(p))
}

// writeProblem answers a request that is no call.
func writeProblem(w http.ResponseWriter, status int, message string) {
	kind := strings.ReplaceAll(strings.ToLower(http.StatusText(status)), " ", "_")
	writeFailure(w, &frontend.Failure{Kind: kind, Status: status, Message: message}, nil)
}
